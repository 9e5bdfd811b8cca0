//! Which clients are admitted, and how the pooler logs in to PostgreSQL.

use std::time::Duration;

use tests::client::Client;
use tests::pooler::{Ini, Pooler};
use tests::postgres::SECRET;
use tests::program::{Ended, psql, run};

use crate::house::House;

pub(crate) fn any_lets_everybody_in_as_the_forced_user(house: &House) {
    let line = format!("{} user=v", house.line("postgres"));
    let pooler = house.start(&Ini::new(&line).database(&house.line_as("free", "postgres")).set("auth_type = any"));
    assert_eq!(pooler.client("whoever", "postgres").value("select current_user"), "v");
    let refused =
        Client::try_login(pooler.address(), &[("user", "whoever"), ("database", "free")]).expect_err("no forced user");
    assert_eq!((refused.code.as_str(), refused.text.as_str()), ("08P01", "bouncer config error"));
    pooler.await_log("auth_type=any requires forced user");
}

pub(crate) fn trust_wants_a_known_user(house: &House) {
    let pooler = house.start(&Ini::new(&house.line("postgres")));
    assert_eq!(pooler.client("u", "postgres").value("select current_user"), "u");
    let refused =
        Client::try_login(pooler.address(), &[("user", "stranger"), ("database", "postgres")]).expect_err("unknown");
    assert_eq!((refused.severity.as_str(), refused.code.as_str()), ("FATAL", "08P01"));
    assert_eq!(refused.text, "\"trust\" authentication failed");
}

pub(crate) fn plain_takes_each_kind_of_secret(house: &House) {
    let pooler = asking(house, "plain");
    for user in ["by_password", "by_md5", "by_scram"] {
        expect_in(&pooler, user);
        expect_out(&pooler, user, "wrong", "password authentication failed");
    }
    expect_out(&pooler, "stranger", SECRET, "password authentication failed");
    expect_no_secrets(&pooler);
}

pub(crate) fn md5_takes_plain_md5_and_scram_secrets(house: &House) {
    let pooler = asking(house, "md5");
    for user in ["by_password", "by_md5", "by_scram"] {
        expect_in(&pooler, user);
    }
    expect_out(&pooler, "by_password", "wrong", "password authentication failed");
    expect_out(&pooler, "by_md5", "wrong", "password authentication failed");
    expect_out(&pooler, "by_scram", "wrong", "password authentication failed");
    // An unknown user is asked for a password like a known one, by md5 or by SCRAM, and reads the same.
    for number in 0..8 {
        expect_out(&pooler, &format!("stranger_{number}"), SECRET, "password authentication failed");
    }
    expect_no_secrets(&pooler);
}

pub(crate) fn scram_takes_plain_and_scram_secrets_but_no_md5(house: &House) {
    let pooler = asking(house, "scram-sha-256");
    for user in ["by_password", "by_scram"] {
        expect_in(&pooler, user);
        expect_out(&pooler, user, "wrong", "SASL authentication failed");
    }
    expect_out(&pooler, "by_md5", SECRET, "SASL authentication failed");
    expect_out(&pooler, "stranger", SECRET, "SASL authentication failed");
    expect_no_secrets(&pooler);
}

pub(crate) fn an_empty_password_or_secret_lets_nobody_in(house: &House) {
    for auth in ["plain", "md5", "scram-sha-256"] {
        let pooler = asking(house, auth);
        // `u` is in the auth file with an empty secret.
        match auth {
            "md5" | "plain" => expect_out(&pooler, "u", "anything", "password authentication failed"),
            _ => expect_out(&pooler, "u", "anything", "SASL authentication failed"),
        }
    }
    let pooler = asking(house, "plain");
    let mut peer = tests::peer::Peer::tcp(pooler.address()).expect("the port answers");
    peer.send(&tests::message::startup(0, &[("user", "by_password"), ("database", "fixed")]));
    assert_eq!(peer.frame().expect("a question for the password").body, [0, 0, 0, 3]);
    peer.send(&tests::message::frame(b'p', &[0]));
    let error = tests::message::Complaint::read(&peer.frame().expect("an answer"));
    assert_eq!(error.text, "empty password returned by client");
}

pub(crate) fn an_unknown_database_is_told_only_to_those_who_know_the_password(house: &House) {
    let pooler = asking(house, "md5");
    let mut command = psql(&pooler, "by_md5", "nowhere");
    let told = run(command.env("PGPASSWORD", SECRET).args(["-c", "select 1"]), LIMIT).failure();
    assert!(told.contains("no such database: nowhere"), "{told}");
    let mut command = psql(&pooler, "by_md5", "nowhere");
    let told = run(command.env("PGPASSWORD", "wrong").args(["-c", "select 1"]), LIMIT).failure();
    assert!(told.contains("password authentication failed") && !told.contains("no such database"), "{told}");
}

pub(crate) fn servers_are_logged_in_to_by_each_method_with_a_forced_user(house: &House) {
    let mut ini = Ini::new(&house.line("postgres"));
    for user in ["by_password", "by_md5", "by_scram"] {
        ini = ini
            .database(&format!("{} user={user} password='{SECRET}'", house.line_as(&format!("as_{user}"), "postgres")));
    }
    let pooler = house.start(&ini);
    for user in ["by_password", "by_md5", "by_scram"] {
        assert_eq!(pooler.client("u", &format!("as_{user}")).value("select current_user"), user);
    }
}

/// `password=` was taken literally, whatever it looked like, so that a file with hashes got 28P01 from PostgreSQL.
pub(crate) fn the_password_of_a_database_line_may_be_a_secret_of_any_kind(house: &House) {
    let (md5, scram) = (stored(house, "by_md5"), stored(house, "by_scram"));
    let line = |database: &str, user: &str, password: &str| {
        format!("{} user={user} password='{password}'", house.line_as(database, "postgres"))
    };
    // Several lines of one user, each with another kind of secret, in both orders.
    for order in [["plain", "hashed"], ["hashed", "plain"]] {
        let mut ini = Ini::new(&house.line("postgres")).set("auth_type = scram-sha-256").secret("by_scram", &scram);
        for kind in order {
            let is_plain = kind == "plain";
            ini = ini
                .database(&line(&format!("md5_{kind}"), "by_md5", if is_plain { SECRET } else { &md5 }))
                .database(&line(&format!("scram_{kind}"), "by_scram", if is_plain { SECRET } else { &scram }));
        }
        let pooler = house.start(&ini);
        for _ in 0..2 {
            for (database, user) in [
                ("md5_plain", "by_md5"),
                ("md5_hashed", "by_md5"),
                ("scram_plain", "by_scram"),
                // Its keys are those of the client, which has proved to know the same secret.
                ("scram_hashed", "by_scram"),
            ] {
                let mut psql = psql(&pooler, "by_scram", database);
                let asked = run(psql.env("PGPASSWORD", SECRET).args(["-c", "select current_user"]), LIMIT);
                assert_eq!(asked.success(), format!("{user}\n"), "{database}");
            }
            // A reload changes no secret.
            pooler.signal(nix::sys::signal::Signal::SIGHUP);
        }
        expect_no_secrets(&pooler);
    }
    // A client whose own secret is another one brings no keys for the SCRAM secret of the line.
    let ini = Ini::new(&line("scram_hashed", "by_scram", &scram))
        .set("auth_type = scram-sha-256")
        .secret("stranger", "something else");
    let pooler = house.start(&ini);
    let mut psql = psql(&pooler, "stranger", "scram_hashed");
    run(psql.env("PGPASSWORD", "something else").args(["-c", "select 1"]), LIMIT).failure();
    pooler.await_log("cannot do SCRAM authentication");
}

pub(crate) fn servers_are_logged_in_to_with_the_secret_of_the_auth_file(house: &House) {
    let ini = ["by_password", "by_md5", "by_scram"]
        .iter()
        .fold(Ini::new(&house.line("postgres")), |ini, user| ini.secret(user, SECRET));
    let pooler = house.start(&ini);
    for user in ["by_password", "by_md5", "by_scram"] {
        assert_eq!(pooler.client(user, "postgres").value("select current_user"), user);
    }
    // The entry of the forced user is used when the database line has no password.
    let line = format!("{} user=by_scram", house.line("postgres"));
    let pooler = house.start(&Ini::new(&line).secret("by_scram", SECRET));
    assert_eq!(pooler.client("u", "postgres").value("select current_user"), "by_scram");
}

pub(crate) fn an_md5_secret_serves_an_md5_server_but_no_scram_server(house: &House) {
    let secret = stored(house, "by_md5");
    let pooler = house.start(&Ini::new(&house.line("postgres")).secret("by_md5", &secret).secret("by_scram", &secret));
    assert_eq!(pooler.client("by_md5", "postgres").value("select current_user"), "by_md5");
    let refused =
        Client::try_login(pooler.address(), &[("user", "by_scram"), ("database", "postgres")]).expect_err("no way");
    assert_eq!((refused.code.as_str(), refused.text.as_str()), ("08P01", "server login failed: wrong password type"));
    assert!(refused.detail.contains("an md5 secret cannot answer that"), "{refused:?}");
    pooler.await_log("an md5 secret cannot answer that");
}

pub(crate) fn scram_keys_of_the_client_open_the_server(house: &House) {
    let ini = Ini::new(&house.line("postgres"))
        .secret("by_scram", &stored(house, "by_scram"))
        .set("auth_type = scram-sha-256");
    let pooler = house.start(&ini.set("server_lifetime = 1"));
    for _ in 0..2 {
        assert_eq!(say(&pooler, "by_scram", SECRET).success(), "by_scram\n");
    }
    expect_no_secrets(&pooler);
    // Without the SCRAM keys of a client's own login, a stored SCRAM secret does not allow a server login.
    let pooler = house.start(&Ini::new(&house.line("postgres")).secret("by_scram", &stored(house, "by_scram")));
    assert!(Client::try_login(pooler.address(), &[("user", "by_scram"), ("database", "postgres")]).is_err());
    pooler.await_log("cannot do SCRAM authentication");
}

pub(crate) fn a_wrong_password_for_the_server_is_told_in_its_words(house: &House) {
    for user in ["by_password", "by_md5", "by_scram"] {
        let line = format!("{} user={user} password=wrong", house.line("postgres"));
        let pooler = house.start(&Ini::new(&line));
        let refused =
            Client::try_login(pooler.address(), &[("user", "u"), ("database", "postgres")]).expect_err("wrong");
        let text = format!("password authentication failed for user \"{user}\"");
        assert_eq!((refused.code.as_str(), refused.text), ("28P01", text));
        // The message reads as if it were about the client's own password.
        let whose = format!(
            "This is about the pooler's own login at host 127.0.0.1, port {}, user \"{user}\".",
            house.postgres.port()
        );
        assert_eq!(refused.detail, whose);
    }
}

const LIMIT: Duration = Duration::from_secs(30);

/// A pooler with `auth` as its method and a secret of each kind; its only server login needs no password.
fn asking(house: &House, auth: &str) -> Pooler {
    let ini = Ini::new(&format!("{} user=v", house.line_as("fixed", "postgres")))
        .set(&format!("auth_type = {auth}"))
        .secret("by_password", SECRET)
        .secret("by_md5", &stored(house, "by_md5"))
        .secret("by_scram", &stored(house, "by_scram"));
    house.start(&ini)
}

fn stored(house: &House, role: &str) -> String {
    house.postgres.value(&format!("select rolpassword from pg_authid where rolname = '{role}'"))
}

fn say(pooler: &Pooler, user: &str, password: &str) -> Ended {
    let database = if pooler.ini_text().contains("fixed =") { "fixed" } else { "postgres" };
    run(psql(pooler, user, database).env("PGPASSWORD", password).args(["-c", "select current_user"]), LIMIT)
}

fn expect_in(pooler: &Pooler, user: &str) {
    assert_eq!(say(pooler, user, SECRET).success(), "v\n");
}

fn expect_out(pooler: &Pooler, user: &str, password: &str, text: &str) {
    let said = say(pooler, user, password).failure();
    assert!(said.contains(text), "{user} with {password} should hear {text:?}, but: {said}");
    pooler.await_log(&format!("pooler error: {text}"));
}

fn expect_no_secrets(pooler: &Pooler) {
    let log = pooler.log();
    assert!(!log.contains(SECRET) && !log.contains("SCRAM-SHA-256$"), "a secret stands in the log");
}
