//! The configuration: read at start, checked, reloaded; and the command line.

use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::fs::OFlags;
use tests::pooler::{Ini, Pooler};
use tests::program::{Ended, run};
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::operation::signals::setting;

pub(crate) fn a_bad_file_leaves_the_old_configuration_in_force(house: &House) {
    let ini = house.ini("file_reload", &["default_pool_size = 11"]);
    let pooler = house.start(&ini);
    let mut client = pooler.client("u", "file_reload");
    for (number, bad) in ["default_pool_size = many", "pool_mod = session", "this is no line"].into_iter().enumerate() {
        pooler.rewrite(&ini.clone().set("default_pool_size = 12").set(bad));
        let answer = pooler.console("RELOAD");
        assert_eq!((answer.error().code.as_str(), answer.error().severity.as_str()), ("F0000", "ERROR"), "{bad}");
        assert_eq!(answer.error().text, "RELOAD failed, see logs for additional details");
        wait_until("the log says why", LIMIT, || pooler.log().matches("RELOAD failed").count() > number);
        assert_eq!(client.value("select 1"), "1");
        pooler.client("u", "file_reload").run("select 1");
        if house.place.is_trunkline() {
            assert_eq!(setting(&pooler, "default_pool_size"), "11", "after {bad:?}");
        }
    }
    for bad in ["", "[databases]\n"] {
        pooler.rewrite_raw(bad);
        assert_eq!(pooler.console("RELOAD").error().code, "F0000");
    }
    pooler.rewrite(&ini.clone().set("default_pool_size = 13"));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    assert_eq!(setting(&pooler, "default_pool_size"), "13");
}

pub(crate) fn a_bad_file_at_sighup_is_told_in_the_log(house: &House) {
    let ini = house.ini("file_hup", &[]);
    let pooler = house.start(&ini);
    pooler.rewrite(&ini.clone().set("pool_mod = session"));
    pooler.signal(nix::sys::signal::Signal::SIGHUP);
    pooler.await_log("pool_mod");
    assert_eq!(pooler.client("u", "file_hup").value("select 1"), "1");
}

pub(crate) fn a_database_that_is_removed_ends_its_clients(house: &House) {
    let ini = house.ini("file_removed", &[]).database(&house.line("postgres"));
    let pooler = house.start(&ini);
    let mut removed = pooler.client("u", "file_removed");
    let mut kept = pooler.client("u", "postgres");
    removed.run("select 1");
    pooler.rewrite(&Ini::new(&house.line("postgres")));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    let error = removed.answer().error().clone();
    assert_eq!(error.text, "database removed");
    assert!(error.detail.contains("configuration of the pooler does not have this database"), "{error:?}");
    assert_eq!(kept.value("select 1"), "1");
    house.postgres.await_servers("file_removed", 0);
}

pub(crate) fn a_changed_database_gets_new_servers(house: &House) {
    house.postgres.database("file_other");
    let ini = house.ini("file_changed", &["default_pool_size = 1"]);
    let pooler = house.start(&ini);
    let mut client = pooler.client("u", "file_changed");
    assert_eq!(client.value("select current_database()"), "file_changed");
    let line = house.line_as("file_changed", "file_other");
    pooler.rewrite(&Ini::new(&line).set("default_pool_size = 1"));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    assert_eq!(client.value("select current_database()"), "file_other");
    house.postgres.await_servers("file_changed", 0);
}

pub(crate) fn a_changed_auth_file_holds_for_the_next_login(house: &House) {
    let ini = Ini::new(&format!("{} user=v", house.line("postgres"))).set("auth_type = plain").set("admin_users = u");
    let pooler = house.start(&ini.clone().secret("u", "old"));
    let say = |password: &str| {
        let mut psql = tests::program::psql(&pooler, "u", "postgres");
        run(psql.env("PGPASSWORD", password).args(["-c", "select 1"]), LIMIT).status.success()
    };
    assert!(say("old") && !say("new"));
    pooler.rewrite(&ini.secret("u", "new secret"));
    pooler.signal(nix::sys::signal::Signal::SIGHUP);
    wait_until("the new password counts", LIMIT, || say("new secret"));
    assert!(!say("old"));
}

pub(crate) fn what_cannot_be_served_is_told_at_start(house: &House) {
    let good = || Ini::new(&house.line("postgres"));
    let cases = [
        (good().set("pool_mod = session"), "pool_mod"),
        (good().set("default_pool_size = many"), "default_pool_size"),
        (good().database("x = host=127.0.0.1 colour=red"), "colour"),
        (good().database("x = host=127.0.0.1 port=0"), "port"),
        (good().user("u = colour=red"), "colour"),
        (good().database("pgbouncer = host=127.0.0.1"), "reserved"),
        (good().set("listen_addr =").set("unix_socket_dir ="), "nowhere to listen on"),
        (good().set("pool_mode = sometimes"), "pool_mode"),
    ];
    for (ini, word) in cases {
        let (code, said) = Pooler::start_in_vain(&house.place, &ini);
        assert_eq!(code, 1, "{word}: {said}");
        assert!(said.contains(word), "{word} is not named in:\n{said}");
    }
}

pub(crate) fn a_file_that_cannot_be_read_or_is_empty_is_told(house: &House) {
    let directory = house.place.directory();
    let missing = call(house, &[&directory.join("missing").display().to_string()]);
    assert_eq!(missing.code(), 1);
    assert!((missing.out.clone() + &missing.err).contains("missing"), "{missing:?}");
    let empty = directory.join("empty");
    house.place.write(&empty, "");
    let ended = call(house, &[&empty.display().to_string()]);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(!(ended.out + &ended.err).is_empty(), "it failed without a word");
}

pub(crate) fn check_tells_all_mistakes_at_once(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no --check");
    }
    let directory = house.place.directory();
    let users = directory.join("users");
    house.place.write(&users, "\"u\" \"\"\n");
    let good = directory.join("good.ini");
    let base = format!("listen_addr = 127.0.0.1\nauth_file = {}\n", users.display());
    house.place.write(&good, &format!("[databases]\nd = host=127.0.0.1\n[trunkline]\n{base}"));
    let ended = call(house, &["--check", &good.display().to_string()]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let bad = directory.join("bad.ini");
    let text = "[databases]\nd = host=127.0.0.1 prot=5432\n[pgbouncer]\npool_mod = session\ndefault_pool_size = many\n";
    house.place.write(&bad, &format!("{text}{base}"));
    let ended = call(house, &["--check", &bad.display().to_string()]);
    assert_eq!(ended.code(), 1, "{ended:?}");
    let said = ended.out + &ended.err;
    for part in ["bad.ini:2", "prot", "bad.ini:4", "pool_mod", "pool_mode", "bad.ini:5", "many"] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
}

/// Previously such files passed the check, although they could not start or did something unintended.
pub(crate) fn check_finds_what_a_start_would_and_what_nobody_can_have_meant(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no --check");
    }
    let directory = house.place.directory();
    let (users, ini) = (directory.join("users.txt"), directory.join("check.ini"));
    let check = |text: &str| {
        house.place.write(&ini, text);
        let ended = call(house, &["--check", &ini.display().to_string()]);
        (ended.code(), ended.out + &ended.err)
    };
    let expect = |(code, said): (i32, String), wanted: i32, parts: &[&str]| {
        assert_eq!(code, wanted, "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part:?} is not in:\n{said}"));
    };
    house.place.write(&users, "\"u\" \"\"\n");
    let base = format!("[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_file = {}\n", users.display());
    let dead =
        "unix_socket_dir = /nowhere/run\nlogfile = /nowhere/log/t.log\npidfile = /nowhere/t.pid\nuser = nobody_is_so\n";
    let said = check(&format!("{base}{dead}listen_addr = no-such-host.invalid\n"));
    let parts = [
        "there is no directory /nowhere/run",
        "/nowhere/log/t.log cannot be made",
        "/nowhere/t.pid cannot be made",
        "could not find user 'nobody_is_so'",
        "cannot look up listen_addr no-such-host.invalid",
        "5 mistakes",
    ];
    expect(said, 1, &parts);
    // One mistake does not hide another.
    let broken = directory.join("broken.txt");
    house.place.write(&broken, "\"u\" \n");
    let tls = "client_tls_sslmode = require\nclient_tls_key_file = /nowhere/k\nclient_tls_cert_file = /nowhere/c\nserver_tls_ca_file = /nowhere/a\n";
    let said = check(&format!("{base}pool_mod = x\nauth_file = {}\n{tls}", broken.display()));
    expect(said, 1, &["pool_mode", "broken.txt", "/nowhere/k", "/nowhere/c", "/nowhere/a", "5 mistakes"]);
    // Files that work, but not as they look.
    let odd = "[databases]\nd = host=127.0.0.1\nd = host=127.0.0.2\n* = host=127.0.0.1\n";
    let strangers = "admin_users = u, ghost\nserver_idle_timeout = 5\n";
    let said = check(&format!("{odd}{base}{strangers}"));
    let parts = [
        "check.ini:3: database \"d\" is there twice",
        "cannot log in: ghost",
        "good (1 file, 1 database and any other (*))",
    ];
    expect(said, 0, &parts);
    let said = check(&format!("{base}auth_user = ghost\n"));
    expect(said, 0, &["check.ini:4: auth_user ghost is not in auth_file"]);
    // The message suggests the nearest correct form.
    for (line, part) in [
        ("[databases]\nd = host=a;port=b", "pairs are separated by spaces"),
        ("[databases]\nd = host=a sslmode=require", "server_tls_sslmode in [pgbouncer]"),
        ("[databases]\nd = postgres://u:hidden@h/d", "write host=HOST port=PORT dbname=NAME"),
        ("[databases]\nd = host=a ; the old one", "a comment needs a line of its own"),
        ("default_pool_size = 5 ; more", "a comment needs a line of its own"),
        ("auth_type = scram", "did you mean \"scram-sha-256\"?"),
    ] {
        let (code, said) = check(&format!("{base}{line}\n"));
        assert!(!said.contains("hidden") && said.matches("check.ini:").count() == 1, "{said}");
        expect((code, said), 1, &[part, "1 mistake\n"]);
    }
    expect(check(&format!("{base}logfile = {}/t.log # here\n", directory.display())), 0, &["looks like a comment"]);
}

/// Addresses of which the name can be looked up, and places that exist, but that cannot be used.
pub(crate) fn check_tries_addresses_and_places_without_taking_them(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no --check");
    }
    let ini = house.place.directory().join("addresses.ini");
    let check = |text: &str| {
        house.place.write(&ini, &format!("[pgbouncer]\nauth_type = any\n{text}\n"));
        let ended = call(house, &["--check", &ini.display().to_string()]);
        (ended.code(), ended.out + &ended.err)
    };
    for (text, code, part) in [
        // An address that is reserved for documentation (RFC 5737).
        ("listen_addr = 203.0.113.7", 1, "error: listen_addr: no address of this machine: 203.0.113.7"),
        ("listen_addr = 127.0.0.1, 203.0.113.7", 0, "good"),
        ("listen_addr = *\nlisten_port = 6599\nhttp_port = 6599", 1, "error: http_port is also listen_port: 6599"),
        ("listen_addr = 127.0.0.1\nlisten_port = 6599\nhttp_port = 6598", 0, "good"),
        ("http_port = 6598\nhttp_listen_addr = no-such-host.invalid", 0, "warning: "),
        ("http_port = 6598\nhttp_listen_addr = 203.0.113.7", 0, "203.0.113.7 is no address of this machine"),
        ("syslog = 1\nsyslog_socket = /nowhere/log", 0, "there is no /nowhere/log"),
        ("otlp_ca_file = /nowhere/ca", 0, "there is no /nowhere/ca"),
        ("unix_socket_dir = /", 0, "unix_socket_dir: the user who checks cannot write to /"),
        ("logfile = /t.log", 0, "logfile: the user who checks cannot write to /"),
    ] {
        let (ended, said) = check(text);
        assert!(ended == code && said.contains(part), "{text}: {ended} {said}");
    }
}

pub(crate) fn a_fifo_that_nobody_reads_does_not_block_the_start(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer waits for a reader");
    }
    let path = house.place.directory().join("log_fifo");
    let made = Command::new("mkfifo").arg("-m").arg("666").arg(&path).status().expect("mkfifo starts");
    assert!(made.success());
    let path = path.display().to_string();
    let ini = Ini::new(&house.line("postgres")).set(&format!("logfile = {path}"));
    let (code, said) = Pooler::start_in_vain(&house.place, &ini);
    assert_eq!(code, 1, "{said}");
    let told = format!("could not open logfile \"{path}\": it is a FIFO that no process reads");
    assert!(said.contains(&told), "{said}");
    // Nor does it block a running process.
    let pooler = house.start(&Ini::new(&house.line("postgres")));
    pooler.rewrite(&ini);
    pooler.console("RELOAD");
    pooler.await_log(&told);
    let options = std::fs::File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
    let _reads = options.expect("a FIFO");
    assert!(pooler.console("RELOAD").errors.is_empty());
    assert_eq!(pooler.client("u", "postgres").value("select 1"), "1");
}

pub(crate) fn a_relative_auth_file_is_told(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no --check");
    }
    let ini = house.place.directory().join("relative.ini");
    house.place.write(&ini, "[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_file = users.txt\n");
    let ended = call(house, &["--check", &ini.display().to_string()]);
    let said = ended.out + &ended.err;
    assert!(said.contains("relative.ini:3: auth_file users.txt is relative"), "{said}");
}

pub(crate) fn a_setting_without_meaning_is_told_once(house: &House) {
    if !house.place.is_trunkline() {
        return skip("all of its settings mean something to PgBouncer");
    }
    let pooler = house.start(&Ini::new(&house.line("postgres")).set("sbuf_loopcnt = 6"));
    assert_eq!(pooler.log().matches("sbuf_loopcnt").count(), 1, "{}", pooler.log());
    assert_eq!(pooler.client("u", "postgres").value("select 1"), "1");
}

pub(crate) fn included_files_and_quoted_names_are_read(house: &House) {
    let directory = house.place.directory();
    let more = directory.join("more.ini");
    house.place.write(
        &more,
        &format!("[databases]\n'odd name' = host=127.0.0.1 port={} dbname='postgres'\n", house.postgres.port()),
    );
    let pooler = house.start(&Ini::new(&house.line("postgres")).set(&format!("%include {}", more.display())));
    assert_eq!(pooler.client("u", "odd name").value("select 1"), "1");
}

pub(crate) fn the_command_line_is_pgbouncers(house: &House) {
    for flag in ["-V", "--version"] {
        let ended = call(house, &[flag]);
        assert_eq!(ended.code(), 0);
        assert!(ended.out.starts_with("PgBouncer "), "{ended:?}");
    }
    for flag in ["-h", "--help"] {
        let ended = call(house, &[flag]);
        assert_eq!(ended.code(), 0);
        assert!(ended.out.to_lowercase().contains("usage"), "{ended:?}");
    }
    let none = call(house, &[]);
    assert_eq!(none.code(), 1);
    assert!(none.err.contains("no configuration file specified"), "{none:?}");
    assert_eq!(call(house, &["--nonsense", "x.ini"]).code(), 1);
}

pub(crate) fn root_is_refused_unless_a_user_is_named(house: &House) {
    if !nix::unistd::geteuid().is_root() {
        return skip("this needs to be run as root");
    }
    let directory = house.place.directory();
    let file = directory.join("ini");
    house.place.write(&file, "[databases]\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = @trunkline-root-test\n");
    let ended = run(Command::new(house.place.pooler()).arg(&file), Duration::from_secs(10));
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!((ended.out.clone() + &ended.err).contains("root"), "{ended:?}");
}

fn call(house: &House, arguments: &[&str]) -> Ended {
    run(house.place.command(house.place.pooler(), "KILL").args(arguments), Duration::from_secs(10))
}
