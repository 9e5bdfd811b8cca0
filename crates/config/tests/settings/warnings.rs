//! What an operator reads about a configuration that works, but not as it seems.

use config::{CATALOG, State};

use crate::{Files, warned};

/// A setting that avoids the warning about missing secrets.
const QUIET: &str = "[pgbouncer]\nauth_type = any\n";

#[test]
fn nothing_is_said_about_a_plain_configuration() {
    assert_eq!(warned(&format!("{QUIET}[databases]\na = host=h\n")), [""; 0]);
}

#[test]
fn every_setting_without_effect_is_named_once_if_it_is_changed() {
    let mut named = 0;
    for entry in CATALOG.iter().filter(|entry| entry.state != State::Built) {
        let why = if entry.state == State::Moot { "has no meaning here" } else { "has no effect in this version" };
        let value = match (entry.kind, entry.default) {
            ("word", _) => "allow",
            ("0 or 1", _) => "1",
            _ => "7",
        };
        let text = format!("{QUIET}{0} = {value}\n{0} = {value}\n", entry.name);
        let expected = format!("t.ini:4: {} is accepted but {why}", entry.name);
        assert_eq!(warned(&text), [expected], "{}", entry.name);
        named += 1;

        let default = entry.default.unwrap_or("");
        assert_eq!(warned(&format!("{QUIET}{} = {default}\n", entry.name)), [""; 0], "{}", entry.name);
    }
    assert!(named > 0, "{named}");
}

#[test]
fn a_reset_query_that_must_fail_is_named() {
    let warned = |query: &str| warned(&format!("{QUIET}server_reset_query = {query}\n"));
    assert_eq!(warned("DISCARD ALL; LOAD 'login_hook';"), [""; 0]);
    assert_eq!(warned(""), [""; 0]);
    let quote = "t.ini:3: server_reset_query: a quote or a comment in it does not end: PostgreSQL refuses it";
    assert_eq!(warned("DISCARD ALL; LOAD 'login_hook;"), [quote]);
    let block = "t.ini:3: server_reset_query: DISCARD ALL fails in a transaction block";
    assert_eq!(warned("BEGIN; DISCARD ALL; COMMIT"), [block]);
    assert_eq!(warned(";"), ["t.ini:3: server_reset_query: it has no statement: nothing is reset"]);
}

#[test]
fn settings_with_an_effect_are_not_named() {
    let text = "auth_file = f\nquery_timeout = 1\nserver_round_robin = 1\nworkers = 2\nio_backend = epoll\n";
    assert_eq!(warned(&format!("{QUIET}{text}")), [""; 0]);
}

#[test]
fn tls_that_is_switched_off_is_as_wanted() {
    assert_eq!(warned(&format!("{QUIET}server_tls_sslmode = disable\nclient_tls_sslmode = disable\n")), [""; 0]);
    assert_eq!(warned(&format!("{QUIET}server_tls_sslmode = prefer\n")), [""; 0]);
}

#[test]
fn contradictions_are_told_where_they_stand() {
    let text = "min_pool_size = 30\nmax_db_connections = 10\nclient_login_timeout = 5\n\
                [databases]\na = pool_size=4 min_pool_size=6\nb = pool_size=12\nc = pool_size=8\n";
    assert_eq!(
        warned(&format!("{QUIET}{text}")),
        [
            "t.ini:5: client_login_timeout is shorter than server_connect_timeout: clients give up before the server does",
            "t.ini:3: min_pool_size (30) is larger than default_pool_size (20): a pool never holds that many",
            "t.ini:4: max_db_connections (10) is smaller than one pool may become (20 servers and 0 in reserve)",
            "t.ini:7: min_pool_size (6) is larger than pool_size (4): a pool never holds that many",
            "t.ini:8: min_pool_size (30) is larger than pool_size (12): a pool never holds that many",
            "t.ini:9: min_pool_size (30) is larger than pool_size (8): a pool never holds that many",
        ]
    );
    let text = "max_db_connections = 10\ndefault_pool_size = 8\nreserve_pool_size = 3\n[databases]\nb = pool_size=12\n";
    assert_eq!(
        warned(&format!("{QUIET}{text}")),
        [
            "t.ini:3: max_db_connections (10) is smaller than one pool may become (8 servers and 3 in reserve)",
            "t.ini:7: max_db_connections (10) is smaller than one pool may become (12 servers and 3 in reserve)",
        ]
    );
    assert_eq!(warned(&format!("{QUIET}max_db_connections = 10\ndefault_pool_size = 0\nmin_pool_size = 9\n")), [""; 0]);
}

#[test]
fn a_kind_of_login_without_its_file_is_told() {
    let expected = "t.ini: auth_file is not set, and auth_type needs one: no client can log in";
    assert_eq!(warned("[pgbouncer]\n"), [expected]);
    assert_eq!(warned("[pgbouncer]\nauth_file = users.txt\n"), [""; 0]);
}

/// The owner of the database in which `auth_query` runs can replace the functions there, which run with the rights of
/// `auth_user`.
#[test]
fn a_question_that_owners_of_databases_answer_is_told() {
    let text = "auth_query is put in the client's own database, since auth_dbname is not set: whoever owns that database can \
                replace what the question reads, which then runs with the rights of auth_user";
    let own = "auth_user = asker\nauth_query = select * from look_up($1)\n";
    assert_eq!(warned(&format!("{QUIET}{own}")), [format!("t.ini:4: {text}")]);
    assert_eq!(warned(&format!("{QUIET}{own}auth_dbname = postgres\n")), [""; 0]);
    assert_eq!(warned(&format!("{QUIET}{own}[databases]\na = auth_user=x\n")).len(), 1);
    for (question, is_told) in [
        ("select a, b from public.look_up($1)", true),
        ("SELECT s.a, b FROM pg_shadow s JOIN Secrets USING (c) WHERE d = $1", true),
        ("select usename, passwd from pg_shadow where usename=$1", false),
        ("select a, b from pgbouncer.get_auth($1)", false),
        ("select a, (select b from pg_catalog.pg_authid) from (select $1)", false),
    ] {
        let warned = warned(&format!("{QUIET}auth_user = asker\nauth_query = {question}\n"));
        assert_eq!(warned.len(), usize::from(is_told), "{question}");
    }
    assert_eq!(warned(&format!("{QUIET}auth_user = asker\n")), [""; 0]);
    let databases = "[databases]\na = auth_user=x\nb = auth_query='select 1 from d' auth_dbname=c\nc = auth_query='select 1 from d'\n";
    assert_eq!(warned(&format!("{QUIET}{databases}")), [""; 0]);
    assert_eq!(warned(&format!("{QUIET}auth_user = asker\n{databases}")), [format!("t.ini:7: {text}")]);
}

#[test]
fn peers_without_effect_are_named_once() {
    let text = "[databases]\na = auth_user=u\nb = auth_user=u\n[peers]\n1 = host=h\n2 = host=h\n";
    assert_eq!(warned(&format!("{QUIET}{text}")), ["t.ini:6: [peers] has no effect without peer_id"]);
}

#[test]
fn a_second_main_section_that_pgbouncer_would_read_otherwise_is_told() {
    let text = format!("{QUIET}[databases]\n[pgbouncer]\nlisten_port = 7\n");
    let loaded = Files::one(&text).load().expect("good settings");
    assert_eq!(loaded.settings.auth_type, config::AuthType::Any);
    let expected = "section [pgbouncer] again: what was set under the first one holds, PgBouncer would forget it";
    assert_eq!(warned(&text), [format!("t.ini:4: {expected}")]);
    assert_eq!(warned(&format!("{QUIET}[trunkline]\nworkers = 1\n")), [""; 0]);
}

#[test]
fn a_database_that_has_no_place_at_all_is_looked_for_where_postgresql_puts_it() {
    let text = format!("{QUIET}unix_socket_dir =\n[databases]\na =\nb = host=h\n");
    let expected =
        "t.ini:5: database \"a\" has no host and unix_socket_dir is empty: its servers are looked for in /tmp";
    assert_eq!(warned(&text), [expected]);
    let hosts = &crate::settings(&text).databases["a"].hosts;
    assert_eq!(*hosts, [config::Host::Unix("/tmp".into())]);
}
