//! Which of several lines takes precedence: the user's, the database's, or the one for all.

use std::time::Duration;

use config::{Host, ReadRouting, Settings};
use pool::{Limits, Mode, Reuse};
use protocol::state::{Kind, Policy, Unseen};

use crate::settings;

fn limits(settings: &Settings, database: &str, user: &str) -> Limits {
    settings.pool_limits(&settings.database(database).expect("a known database"), user)
}

#[test]
fn without_any_setting_a_pool_is_as_the_pool_says() {
    let settings = settings("[pgbouncer]\n[databases]\na =\n");
    assert_eq!(limits(&settings, "a", "joe"), Limits::default());
}

#[test]
fn the_user_goes_before_the_database_and_the_database_before_the_rest() {
    let text = "[pgbouncer]\npool_mode=session\ndefault_pool_size=20\nreserve_pool_size=1\nmin_pool_size=1\n\
                query_wait_timeout=120\nserver_lifetime=3600\n\
                [databases]\nplain =\n\
                own = pool_mode=transaction pool_size=10 reserve_pool_size=2 min_pool_size=2 query_wait_timeout=60 server_lifetime=60\n\
                [users]\njoe = pool_mode=statement pool_size=5 reserve_pool_size=3 query_wait_timeout=0\n";
    let settings = settings(text);
    let of = |database: &str, user: &str| {
        let limits = limits(&settings, database, user);
        (limits.mode, limits.servers_max, limits.reserve_max, limits.servers_min, limits.wait_max, limits.lifetime_max)
    };
    let secs = |secs| Some(Duration::from_secs(secs));
    assert_eq!(of("plain", "ann"), (Mode::Session, 20, 1, 1, secs(120), secs(3600)));
    assert_eq!(of("own", "ann"), (Mode::Transaction, 10, 2, 2, secs(60), secs(60)));
    assert_eq!(of("plain", "joe"), (Mode::Statement, 5, 3, 1, None, secs(3600)));
    assert_eq!(of("own", "joe"), (Mode::Statement, 5, 3, 2, None, secs(60)));
}

#[test]
fn reads_are_routed_where_sessions_follow_their_clients_to_replicas() {
    let text = "[pgbouncer]\npool_mode=transaction\nread_routing=explicit\n[clusters]\nmain = hosts=a,b user=u\n\
                [databases]\nshop = cluster=main\nall = cluster=main read_routing=automatic\nlone = host=a\n\
                ro = cluster=main role=replica\nstays = cluster=main session_state=pgbouncer\n\
                [users]\njoe = read_routing=off\nlong = pool_mode=session\n";
    let settings = settings(text);
    for (database, user, expected) in [
        ("shop", "ann", ReadRouting::Explicit),
        ("all", "ann", ReadRouting::Automatic),
        ("all", "joe", ReadRouting::Off),
        ("all", "long", ReadRouting::Off),
        ("lone", "ann", ReadRouting::Off),
        ("ro", "ann", ReadRouting::Off),
        ("stays", "ann", ReadRouting::Off),
    ] {
        let entry = settings.database(database).expect("it is configured");
        assert_eq!(settings.read_routing(&entry, user), expected, "{database} {user}");
    }
    assert!(settings.database_or_derived("shop:replica").is_some() && settings.is_of_replicas("shop:replica"));
    for name in ["lone:replica", "ro:replica", "shop:replica:replica", "none:replica"] {
        assert!(settings.database_or_derived(name).is_none() && !settings.is_of_replicas(name), "{name}");
    }
}

#[test]
fn no_client_reaches_the_replicas_of_a_database_by_their_name() {
    let text = "[pgbouncer]\n[clusters]\nmain = hosts=a,b user=u\n[databases]\n* = cluster=main\n";
    let settings = settings(text);
    assert!(settings.database("shop").is_some() && settings.database("shop:replica").is_none());
    assert!(settings.database_or_derived("shop:replica").is_some_and(|entry| entry.automatic));
}

#[test]
fn the_user_of_a_pool_is_the_forced_one() {
    let text = "[pgbouncer]\n[databases]\nf = user=owner\n[users]\nowner = pool_size=3 pool_mode=statement\njoe = pool_size=7\n";
    let settings = settings(text);
    let limits = limits(&settings, "f", "joe");
    assert_eq!((limits.servers_max, limits.mode), (3, Mode::Statement));
    let database = settings.database("f").expect("it is configured");
    assert_eq!(settings.pool_mode(&database, "joe"), Mode::Statement);
}

#[test]
fn the_wait_for_a_server_is_of_the_user_who_logged_in() {
    let text = "[pgbouncer]\n[databases]\nf = user=owner query_wait_timeout=9\n[users]\njoe = query_wait_timeout=7\n";
    let settings = settings(text);
    let database = settings.database("f").expect("it is configured");
    assert_eq!(settings.query_wait_timeout(&database, "joe"), Some(Duration::from_secs(7)));
    assert_eq!(settings.query_wait_timeout(&database, "ann"), Some(Duration::from_secs(9)));
}

#[test]
fn a_limit_of_its_own_replaces_that_of_all_and_zero_is_none() {
    let text = "[pgbouncer]\nmax_db_connections=50\nmax_user_client_connections=5\n\
                [databases]\na = max_db_connections=7 max_db_client_connections=8\nb =\n\
                [users]\njoe = max_user_connections=3 max_user_client_connections=4\n";
    let settings = settings(text);
    let (a, b) = (&settings.databases["a"], &settings.databases["b"]);
    assert_eq!((settings.max_db_connections(a), settings.max_db_connections(b)), (Some(7), Some(50)));
    assert_eq!((settings.max_db_client_connections(a), settings.max_db_client_connections(b)), (Some(8), None));
    assert_eq!((settings.max_user_connections("joe"), settings.max_user_connections("ann")), (Some(3), None));
    let clients = |user| settings.max_user_client_connections(user);
    assert_eq!((clients("joe"), clients("ann")), (Some(4), Some(5)));
}

#[test]
fn a_timeout_of_a_user_replaces_that_of_all() {
    let text = "[pgbouncer]\nquery_timeout=1\nidle_transaction_timeout=2\n\
                [users]\njoe = query_timeout=11 idle_transaction_timeout=12 transaction_timeout=13 client_idle_timeout=14\n";
    let settings = settings(text);
    let all = |user: &str| {
        let of_user = [
            settings.query_timeout(user),
            settings.idle_transaction_timeout(user),
            settings.transaction_timeout(user),
            settings.client_idle_timeout(user),
        ];
        of_user.map(|timeout| timeout.map(|timeout| timeout.as_secs()))
    };
    assert_eq!(all("joe"), [Some(11), Some(12), Some(13), Some(14)]);
    assert_eq!(all("ann"), [Some(1), Some(2), None, None]);
}

#[test]
fn servers_are_reset_in_session_mode_or_always_if_there_is_a_query() {
    let reset = |text: &str| limits(&settings(&format!("[pgbouncer]\n{text}\n[databases]\na =\n")), "a", "u").reset;
    assert!(reset("pool_mode=session"));
    assert!(!reset("pool_mode=transaction"));
    assert!(reset("pool_mode=transaction\nserver_reset_query_always=1"));
    assert!(!reset("pool_mode=session\nserver_reset_query="));
}

#[test]
fn the_rest_of_a_pools_limits_come_from_the_settings() {
    let text = "[pgbouncer]\nserver_check_query=\nserver_round_robin=1\nserver_dials_max=2\nreserve_pool_timeout=0\n\
                server_idle_timeout=0\nserver_login_retry=1.5\nserver_lifetime=0\n[databases]\na =\n";
    let limits = limits(&settings(text), "a", "u");
    assert_eq!((limits.check_after, limits.reuse, limits.dials_max), (None, Reuse::Oldest, 2));
    assert_eq!((limits.reserve_after, limits.idle_max, limits.lifetime_max), (None, None, Some(Duration::ZERO)));
    assert_eq!(limits.retry_after, Duration::from_millis(1500));
}

#[test]
fn a_pool_is_never_asked_to_keep_more_than_it_may_hold() {
    let settings = settings("[pgbouncer]\nmin_pool_size=30\n[databases]\na = pool_size=5\nb = pool_size=0\n");
    assert_eq!((limits(&settings, "a", "u").servers_min, limits(&settings, "b", "u").servers_min), (5, 30));
}

#[test]
fn an_unknown_database_is_made_from_the_fallback_and_the_console_is_not() {
    let settings = settings("[pgbouncer]\n[databases]\na = host=h\n* = host=f pool_size=2\n");
    assert!(!settings.databases.contains_key("*"));
    assert_eq!(settings.database("a").expect("configured").hosts, [Host::Name("h".into())]);
    let made = settings.database("zoo").expect("made");
    assert_eq!((&*made.name, &*made.dbname, made.automatic, made.pool_size), ("zoo", "zoo", true, Some(2)));
    assert!(!settings.database("a").expect("configured").automatic);
    for name in ["", "pgbouncer", &"x".repeat(64)] {
        assert!(settings.database(name).is_none(), "{name}");
    }
    assert!(crate::settings("[pgbouncer]\n[databases]\na =\n").database("zoo").is_none());
}

#[test]
fn what_sessions_may_hold_is_said_by_the_user_the_database_or_for_all_and_kind_by_kind() {
    let text = "[pgbouncer]\nauth_type=any\nsession_policy = warn\nmax_pinned_servers = 3\npinned_server_timeout = 60\n\
                session_unseen = pin\n\
                [databases]\nplain =\n\
                own = session_policy='lock=reject,listen=pin' max_pinned_servers=0 pinned_server_timeout=0 session_unseen=ignore\n\
                [users]\njoe = session_policy=listen=reject\n";
    let settings = settings(text);
    let of = |database: &str, user: &str| {
        let rules = settings.pin_rules(&settings.database(database).expect("a known database"), user);
        let policies = [Kind::Lock, Kind::Channel, Kind::Cursor].map(|kind| rules.policy(kind));
        (policies, rules.servers_max, rules.age_max, rules.has_refusals())
    };
    let unseen = |database: &str| settings.pin_rules(&settings.database(database).expect("known"), "ann").unseen;
    assert_eq!((unseen("plain"), unseen("own")), (Unseen::Pin, Unseen::Ignore));
    let minute = Some(Duration::from_secs(60));
    assert_eq!(of("plain", "ann"), ([Policy::Warn; 3], Some(3), minute, false));
    assert_eq!(of("own", "ann"), ([Policy::Reject, Policy::Pin, Policy::Warn], None, None, true));
    assert_eq!(of("plain", "joe"), ([Policy::Warn, Policy::Reject, Policy::Warn], Some(3), minute, true));
    assert_eq!(of("own", "joe"), ([Policy::Reject, Policy::Reject, Policy::Warn], None, None, true));
}
