//! HBA rules and ident maps: who may connect from where, and what happens when the files are changed or wrong.

use tests::client::Client;
use tests::message::{self, Complaint};
use tests::peer::Peer;
use tests::pooler::{Ini, Pooler};
use tests::program::run;
use tests::wait::LIMIT;

use crate::house::House;

/// A pooler with these rules, and perhaps maps, in files next to its configuration.
fn pooler(house: &House, rules: &str, maps: &str) -> Pooler {
    let directory = house.place.directory();
    let (hba, ident) = (directory.join("hba"), directory.join("ident"));
    house.place.write(&hba, rules);
    house.place.write(&ident, maps);
    let ini = Ini::new(&house.line("postgres"))
        .database(&house.line_as("other", "postgres"))
        .set("auth_type = hba")
        .set(&format!("auth_hba_file = {}", hba.display()))
        .set(&format!("auth_ident_file = {}", ident.display()));
    house.start(&ini)
}

fn login(pooler: &Pooler, user: &str, database: &str) -> Result<Client, Complaint> {
    Client::try_login(pooler.address(), &[("user", user), ("database", database)])
}

fn refusal(outcome: Result<Client, Complaint>) -> String {
    let error = outcome.map(|_| ()).expect_err("somebody was let in");
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "08P01"));
    error.text
}

pub(crate) fn the_first_rule_decides_who_is_let_in(house: &House) {
    let rules = "local all all trust\nhost all v all reject\nhost postgres all 127.0.0.0/8 trust\n";
    let pooler = pooler(house, rules, "");
    assert_eq!(login(&pooler, "u", "postgres").expect("let in").value("select 1"), "1");
    assert_eq!(refusal(login(&pooler, "v", "postgres")), "login rejected");
    assert_eq!(refusal(login(&pooler, "u", "other")), "no authentication method is found");
    assert_eq!(refusal(login(&pooler, "stranger", "postgres")), "\"trust\" authentication failed");
}

pub(crate) fn a_rule_that_asks_for_a_password_gets_one(house: &House) {
    let rules = "local all all trust\nhost all u all scram-sha-256\nhost all v all password\n";
    let pooler = pooler(house, rules, "");
    for (user, kind) in [("u", 10_u32), ("v", 3)] {
        let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
        peer.send(&message::startup(0, &[("user", user), ("database", "postgres")]));
        let asked = peer.frame().expect("an answer");
        assert_eq!((asked.tag, &asked.body[..4]), (b'R', &kind.to_be_bytes()[..]), "{user}");
    }
}

pub(crate) fn rules_are_read_again_and_a_file_that_is_gone_changes_nothing(house: &House) {
    let pooler = pooler(house, "local all all trust\nhost pgbouncer all all trust\nhost all all all reject\n", "");
    assert_eq!(refusal(login(&pooler, "u", "postgres")), "login rejected");
    let file = house.place.clone();
    let hba = pooler.ini_text().lines().find_map(|line| line.strip_prefix("auth_hba_file = ").map(str::to_owned));
    let hba = std::path::PathBuf::from(hba.expect("a file of rules"));
    file.write(&hba, "local all all trust\nhost all all all trust\n");
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    login(&pooler, "u", "postgres").expect("let in");
    std::fs::remove_file(&hba).expect("the file can be removed");
    assert_eq!(pooler.console("RELOAD").error().code, "F0000");
    login(&pooler, "u", "postgres").expect("let in by the old rules");
    pooler.await_log("could not open auth_hba_file");
}

/// A file that PgBouncer reads is read, and its bad lines are told; `--check` refuses them.
pub(crate) fn a_rule_that_lets_in_and_cannot_be_read_is_skipped(house: &House) {
    let rules = "local all all trust\nhost pgbouncer all all trust\nhost all u 127.0.0.1/32 cert\nhost all u samehost trust\nhost all v all ldap junk\n\
                 host all v all trust\nhost all u 127.0.0.1/32 trust\n";
    let pooler = pooler(house, rules, "");
    login(&pooler, "u", "postgres").expect("let in by the last rule");
    assert_eq!(refusal(login(&pooler, "v", "postgres")), "login rejected");
    pooler.await_log("could not parse hba config line 3: cert is for hostssl only; the line is skipped");
    pooler.await_log("could not parse hba config line 4: invalid address \"samehost\"");
    pooler.await_log("this line rejects whom it fits");
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    let ini = house.place.directory().join("skipped.ini");
    house.place.write(&ini, &pooler.ini_text());
    let mut check = house.place.command(house.place.pooler(), "KILL");
    let ended = run(check.arg("--check").arg(&ini), LIMIT);
    assert!(ended.code() == 1 && ended.err.contains("cert is for hostssl only"), "{ended:?}");
}

/// Skipping a line that cannot be parsed would admit clients that it was to reject.
pub(crate) fn a_rule_that_cannot_be_read_lets_nobody_in(house: &House) {
    let broken = [
        ("host all v all rejct", "could not parse hba config line 2: unknown method \"rejct\""),
        ("host all v samehost reject", "could not parse hba config line 2: invalid address \"samehost\""),
        ("host all +staff all reject", "could not parse hba config line 2: groups such as +staff are not supported"),
        ("host all v 127.0.0.1/8 reject", "could not parse hba config line 2: 127.0.0.1 has bits beyond its mask"),
        ("host all @nowhere all reject", "could not parse hba config line 2: cannot read @nowhere"),
    ];
    let rules = |line: &str| format!("local all all trust\n{line}\nhost all all all trust\n");
    let pooler = pooler(house, &rules("host all v all reject"), "");
    let hba = pooler.ini_text().lines().find_map(|line| line.strip_prefix("auth_hba_file = ").map(str::to_owned));
    let hba = std::path::PathBuf::from(hba.expect("a file of rules"));
    for (line, told) in broken {
        house.place.write(&hba, &rules(line));
        assert_eq!(pooler.console("RELOAD").error().code, "F0000", "{line}");
        pooler.await_log(told);
        pooler.await_log("the old settings and rules stay in force");
        assert_eq!(refusal(login(&pooler, "v", "postgres")), "login rejected", "{line}");
        login(&pooler, "u", "postgres").expect("let in by the old rules");
        // At start there are no old rules to go on with.
        let ini = Ini::new(&house.line("postgres")).set("auth_type = hba");
        let (code, said) = Pooler::start_in_vain(&house.place, &ini.set(&format!("auth_hba_file = {}", hba.display())));
        assert!(code == 1 && said.contains(&format!("{}: {told}", hba.display())), "{line}: {code} {said}");
    }
}

/// The user of the operating system may log in as its map says, and as no other user.
pub(crate) fn a_peer_is_who_the_system_says(house: &House) {
    let me = std::process::Command::new("id").arg("-un").output().expect("id runs");
    let me = String::from_utf8(me.stdout).expect("a name").trim().to_owned();
    let rules = "local pgbouncer all trust\nlocal all all peer map=here\nhost all all all trust\n";
    let pooler = pooler(house, rules, &format!("here {me} u\nhere somebody v\n"));
    let enter = |user: &str| {
        let mut peer = pooler.knock();
        peer.send(&message::startup(0, &[("user", user), ("database", "postgres")]));
        Client::finish_login(peer, LIMIT)
    };
    assert_eq!(enter("u").expect("let in").value("select 1"), "1");
    assert_eq!(refusal(enter("v")), "unix socket login rejected");
    pooler.await_log("ident map here cannot be matched");
}
