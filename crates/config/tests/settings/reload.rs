//! What a reload keeps, changes and reports.

use config::{Overrides, Settings, load, load_over};

use crate::{Files, loaded, settings};

fn database(value: &str) -> config::Database {
    let settings = settings(&format!("[pgbouncer]\n[databases]\na = {value}\n"));
    config::Database::clone(&settings.databases["a"])
}

#[test]
fn settings_without_a_default_keep_their_value_and_the_others_fall_back() {
    let first = settings("[pgbouncer]\nauth_file = /users\nauth_user = u\nverbose = 2\ndefault_pool_size = 7\n");
    let second = Files::one("[pgbouncer]\nauth_user = v\n").load_over(&first).settings;
    assert_eq!(second.auth_file.as_deref(), Some("/users"));
    assert_eq!((second.auth_user.as_deref(), second.verbose), (Some("v"), 2));
    assert_eq!(second.default_pool_size, 20);
}

#[test]
fn what_needs_a_restart_stays_and_is_told_by_name() {
    let first = settings("[pgbouncer]\nlisten_port = 1\nworkers = 2\n[databases]\na =\n");
    let second = Files::one("[pgbouncer]\nlisten_port = 9\nunix_socket_dir = /run\nworkers = 2\n[databases]\na =\n");
    let second = second.load_over(&first);
    assert_eq!((second.settings.listen_port, second.settings.unix_socket_dir.as_deref()), (1, Some("/tmp")));
    assert_eq!(second.restart_needed, ["listen_port", "unix_socket_dir"]);
    let warnings: Vec<_> = second.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.contains(&"t.ini:2: listen_port has changed: the new value waits for a restart".to_owned()));
    // The servers of a database on the unix socket keep their host as well.
    assert_eq!(second.settings.databases, first.databases);
    assert!(second.settings.restart_needed(&first).is_empty());
}

#[test]
fn the_difference_to_another_start_is_what_needs_a_restart() {
    let (old, new) = (settings("[pgbouncer]\n"), settings("[pgbouncer]\nworkers=3\nquery_timeout=1\npidfile=/p\n"));
    assert_eq!(new.restart_needed(&old), ["pidfile", "workers"]);
}

#[test]
fn databases_that_are_gone_from_the_file_are_gone() {
    let first = settings(
        "[pgbouncer]\n[databases]\na =\nb =\n* =\n[users]\nu =\n[peers]\n1 = host=h\n[rate_limits]\nr = events=logins rate=1\n",
    );
    let second = Files::one("[pgbouncer]\n[databases]\nb =\n").load_over(&first).settings;
    assert_eq!(second.databases.keys().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
    assert!(
        second.fallback.is_none()
            && second.users.is_empty()
            && second.peers.is_empty()
            && second.rate_limits.is_empty()
    );
}

#[test]
fn the_command_line_wins_at_the_start_and_again() {
    let overrides = Overrides { user: Some("postgres".into()), verbose: 2, quiet: true };
    let files = Files::one("[pgbouncer]\nuser = other\nverbose = 1\n");
    let first = load("t.ini", &|name| files.read(name), &overrides).expect("good settings").settings;
    assert_eq!((first.user.as_deref(), first.verbose, first.quiet), (Some("postgres"), 3, true));
    let again = load_over(&first, "t.ini", &|name| files.read(name), &overrides).expect("good settings");
    assert_eq!((again.settings == first, again.restart_needed.len()), (true, 0));

    let silent = Files::one("[pgbouncer]\n");
    let later = load_over(&first, "t.ini", &|name| silent.read(name), &overrides).expect("good settings").settings;
    assert_eq!((later.verbose, later.user.as_deref()), (3, Some("postgres")));
}

#[test]
fn the_next_reading_is_of_the_file_that_this_one_names() {
    assert_eq!(settings("[pgbouncer]\n").conffile.as_deref(), Some("t.ini"));
    let moved = settings("[pgbouncer]\nconffile = other.ini\n");
    assert_eq!(moved.conffile.as_deref(), Some("other.ini"));
    assert_eq!(Files::one("[pgbouncer]\n").load_over(&moved).settings.conffile.as_deref(), Some("other.ini"));
}

#[test]
fn the_same_file_read_again_changes_nothing() {
    let text = crate::sample::SAMPLE;
    let first = loaded(text).settings;
    let again = Files::one(text).load_over(&first);
    assert_eq!(again.settings, first);
    assert!(again.restart_needed.is_empty());
}

#[test]
fn servers_survive_only_what_they_need_not_know() {
    let old = database("host=h user=u password=p");
    let of_no_use = [
        "host=h2 user=u password=p",
        "user=u password=p",
        "host=h password=p",
        "host=h user=v password=p",
        "host=h user=u password=p port=1",
        "host=h user=u password=p dbname=x",
        "host=h user=u password=p connect_query='set a = 1'",
        "host=h user=u password=p auth_dbname=x",
        "host=h user=u password=p auth_query=x",
        "host=h user=u password=p load_balance_hosts=disable",
        "host=h user=u password=p target_session_attrs=primary",
        "host=h,g port=1,5432 user=u password=p",
    ];
    for value in of_no_use {
        assert!(database(value).must_reconnect(&old), "{value}");
    }
    for value in [
        "host=h user=u password=q",
        "host=h user=u password=p pool_size=3 pool_mode=statement",
        "host=h,h2 user=u password=p",
        "host=h user=u password=p proxy_protocol=v2",
        "host=h user=u password=p load_balance_hosts=least-busy weights=2 zones=a",
        "host=g,h port=1,5432 user=u password=p",
    ] {
        assert!(!database(value).must_reconnect(&old), "{value}");
    }
}

#[test]
fn settings_can_be_changed_field_by_field_for_a_test() {
    let settings = Settings { default_pool_size: 3, ..Settings::default() };
    assert!(
        settings.show().iter().any(|shown| shown.key == "default_pool_size" && shown.value.as_deref() == Some("3"))
    );
}

#[test]
fn a_rate_limit_is_set_on_the_console_as_a_whole() {
    let first = settings("[pgbouncer]\n[rate_limits]\nr = events=logins rate=1\n");
    let set = |key: &str, value: &str| config::set(&first, key, value).map(|(settings, _)| settings.rate_limits);
    let more = set("rate_limits.more", "events=transactions rate=5").expect("a good rule");
    assert_eq!(more.keys().map(|name| &**name).collect::<Vec<_>>(), ["more", "r"]);
    assert!(set("rate_limits.r", "").expect("it goes").is_empty());
    assert_eq!(set("rate_limits.s", ""), Err("there is no rate limit \"s\"".to_owned()));
    assert_eq!(
        set("rate_limits.r", "rate=2"),
        Err("rate limit \"r\" has no events; write events=transactions, or logins".to_owned())
    );
    // One more than the limit.
    let mut full = first.clone();
    for number in 0..pool::RateRule::RULES_MAX - 1 {
        full = config::set(&full, &format!("rate_limits.n{number}"), "events=logins rate=1").expect("a good rule").0;
    }
    assert_eq!(config::set(&full, "rate_limits.n", "events=logins rate=1"), Err("more than 32 rate limits".to_owned()));
    assert!(config::set(&full, "rate_limits.r", "events=logins rate=2").is_ok());
}
