//! The security holes of PgBouncer, each by its CVE number: the pooler has none of them.
//!
//! Always true: a client that tries one gets an error or is closed, and the next client is served.
//! Not here: clear-text bytes before TLS (CVE-2021-3935: `talk/startup_encryption`, `tls`).

use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use tests::client::Client;
use tests::message::{self, Complaint};
use tests::peer::{Frame, Peer};
use tests::pooler::{Ini, Pooler};
use tests::program::{psql, run};
use tests::wait::LIMIT;

use crate::house::House;

/// A name that was too long, for a database made from `*`, ended the process.
pub(crate) fn cve_2012_4575_names_that_are_too_long(house: &House) {
    house.postgres.database("hole_long");
    let any = format!("* = host=127.0.0.1 port={}", house.postgres.port());
    let pooler = house.start(&Ini::new(&house.line("hole_long")).database(&any));
    let long = "x".repeat(3000);
    for (user, database) in [("u", &*long), (&*long, "hole_long")] {
        // The pooler may refuse it, or PostgreSQL, which truncates the name.
        let _ = Client::try_login(pooler.address(), &[("user", user), ("database", database)]);
    }
    assert_eq!(pooler.client("u", "hole_long").value("select 1"), "1");
}

/// A password before a startup packet ended the process.
pub(crate) fn cve_2015_4054_a_password_before_everything(house: &House) {
    let pooler = house.pooler("hole_early", &[]);
    let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
    peer.send(&message::frame(b'p', b"secret\0"));
    assert!(peer.is_closed_within(LIMIT));
    assert_eq!(pooler.client("u", "hole_early").value("select 1"), "1");
}

/// A user that `auth_query` did not know was logged in as `auth_user`.
pub(crate) fn cve_2015_6817_nobody_comes_in_as_who_asks(house: &House) {
    let pooler = asking(house, "hole_asker", &[]);
    let told = run(psql(&pooler, "hole_nobody", "hole_asker").env("PGPASSWORD", "asks"), LIMIT).failure();
    assert!(told.contains("SASL authentication failed"), "{told}");
}

/// The default `auth_query` admitted users whose password had expired.
pub(crate) fn cve_2025_2291_a_password_that_has_expired(house: &House) {
    let postgres = &house.postgres;
    postgres.client("postgres").run("create role hole_late login password 'w' valid until 'yesterday'");
    postgres.client("postgres").run("create role hole_timely login password 'w' valid until 'tomorrow'");
    let pooler = asking(house, "hole_expired", &[]);
    let enter =
        |user: &str| run(psql(&pooler, user, "hole_expired").env("PGPASSWORD", "w").args(["-c", "select 1"]), LIMIT);
    assert_eq!(enter("hole_timely").success(), "1\n");
    assert!(enter("hole_late").failure().contains("SASL authentication failed"));
}

/// A client that set the `search_path` in its startup packet chose which objects `auth_query` used.
pub(crate) fn cve_2025_12819_a_search_path_for_the_question(house: &House) {
    let query = "auth_query = select usename, passwd from pg_shadow where usename = $1";
    let pooler = asking(house, "hole_path", &["track_extra_parameters = search_path", query, "default_pool_size = 1"]);
    let evil =
        "create schema evil; create table evil.pg_shadow as select 'hole_boss'::text as usename, 'w'::text as passwd;
                grant usage on schema evil to public; grant select on evil.pg_shadow to public";
    house.postgres.client("hole_path").run(evil);
    for options in ["-c search_path=evil,pg_catalog", ""] {
        let mut psql = psql(&pooler, "hole_boss", "hole_path");
        let told = run(psql.env("PGPASSWORD", "w").env("PGOPTIONS", options).args(["-c", "select 1"]), LIMIT).failure();
        assert!(told.contains("SASL authentication failed"), "{told}");
    }
}

/// A length in a SASL message that overflows the range of integers ended the process.
pub(crate) fn cve_2026_6664_lengths_in_sasl_messages(house: &House) {
    let ini = house.ini("hole_sasl", &["auth_type = scram-sha-256"]).secret("hole_scram", "w");
    let pooler = house.start(&ini);
    for length in [u32::MAX, i32::MAX as u32, 1 << 31, 1000, 5, 0, 0xffff_fffb] {
        let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
        peer.send(&message::startup(0, &[("user", "hole_scram"), ("database", "hole_sasl")]));
        assert_eq!(peer.frame().expect("it is asked for a proof").tag, b'R');
        let body = [&b"SCRAM-SHA-256\0"[..], &length.to_be_bytes(), b"n,,n=,r=abc"].concat();
        peer.send(&message::frame(b'p', &body));
        let answer = peer.frame();
        assert!(answer.as_ref().is_ok_and(|frame| frame.tag == b'E'), "{length}: {answer:?}");
    }
    let mut psql = psql(&pooler, "hole_scram", "hole_sasl");
    // The proof is valid; whether PostgreSQL knows the user is another matter.
    let told = run(psql.env("PGPASSWORD", "w").args(["-c", "select 1"]), LIMIT);
    assert!(told.failure().contains("role \"hole_scram\" does not exist"));
}

/// A server with a very long nonce overwrote the stack; a server error without SQLSTATE ended the process.
pub(crate) fn cve_2026_6665_and_6666_what_a_server_may_say(house: &House) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("a bound port").port();
    let line = format!("hole_server = host=127.0.0.1 port={port} user=u password=w");
    let ini = house.ini("hole_other", &["server_login_retry = 1"]).database(&line);
    let pooler = house.start(&ini.set("server_tls_sslmode = disable"));
    let server = thread::spawn(move || {
        let accept = || Peer::accept(&listener).expect("the pooler dials");
        let mut peer = accept();
        peer.packet().expect("a startup packet");
        peer.send(&message::frame(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"));
        let first = peer.frame().expect("the first word of a proof").body;
        let first = String::from_utf8_lossy(&first).into_owned();
        let (_, nonce) = first.split_once(",r=").expect("it has a nonce");
        let challenge = format!("r={nonce}{},s=c2FsdA==,i=4096", "A".repeat(20_000));
        peer.send(&message::frame(b'R', &[b"\0\0\0\x0b", challenge.as_bytes()].concat()));
        let last = peer.frame();
        drop(peer);
        let mut peer = accept();
        peer.packet().expect("a startup packet");
        peer.send(&message::frame(b'E', b"SFATAL\0Mno code here\0\0"));
        last
    });
    let error = Client::try_login(pooler.address(), &[("user", "u"), ("database", "hole_server")]).map(|_| ());
    let error = error.expect_err("it cannot be let in");
    assert!(error.text.contains("no code here"), "{error:?}");
    // A long nonce is not an error: it is answered whole, or refused, but not truncated.
    let last: Option<Frame> = server.join().expect("the server has told its part").ok();
    assert!(last.is_none_or(|last| last.tag != b'p' || last.body.len() > 20_000));
    assert_eq!(pooler.client("u", "hole_other").value("select 1"), "1");
}

/// A user that might only look at the console could close clients.
pub(crate) fn cve_2026_6667_who_may_look_may_not_close(house: &House) {
    let pooler = house.pooler("hole_killer", &[]);
    let mut victim = pooler.client("u", "hole_killer");
    victim.run("select 1");
    let mut watcher = pooler.client("stats", "pgbouncer");
    let shown = watcher.query("SHOW CLIENTS");
    let at = shown.columns.iter().position(|(name, _)| name == "id").expect("clients have numbers");
    for row in &shown.rows {
        let id = row[at].as_deref().expect("a number");
        let error: Complaint = watcher.query(&format!("KILL_CLIENT {id}")).error().clone();
        assert_eq!(error.text, "admin access needed");
    }
    assert_eq!(victim.value("select 2"), "2");
}

/// A pooler that queries PostgreSQL for the secrets of all users but `asker`.
fn asking(house: &House, database: &str, settings: &[&str]) -> Pooler {
    house.postgres.database(database);
    let unless = "exception when duplicate_object or unique_violation then null";
    let create = format!("do $$ begin create role asker login superuser password 'asks'; {unless}; end $$");
    house.postgres.client("postgres").run(&create);
    let ini = Ini::new(&house.line(database)).set("auth_type = scram-sha-256").set("auth_user = asker");
    house.start(&settings.iter().fold(ini.secret("asker", "asks"), |ini: Ini, setting| ini.set(setting)))
}
