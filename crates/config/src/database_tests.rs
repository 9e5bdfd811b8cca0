//! One line of `[databases]`.

use super::*;

fn good(value: &str) -> Database {
    Database::parse("app", value, &mut Texts::default()).expect("a good line")
}

fn bad(value: &str) -> Vec<String> {
    let wrongs = Database::parse("app", value, &mut Texts::default()).expect_err("a bad line");
    wrongs.into_iter().map(|wrong| wrong.text).collect()
}

#[test]
fn an_empty_line_is_a_database_with_everything_inherited() {
    let database = good("");
    assert_eq!(database, Database::named("app".into()));
    assert_eq!((&*database.dbname, database.port), ("app", 5432));
}

#[test]
fn every_documented_key_is_taken() {
    for key in DATABASE_KEYS {
        let value = match *key {
            "pool_mode" => "statement",
            "load_balance_hosts" => "disable",
            "target_session_attrs" => "prefer-standby",
            "session_state" => "follow",
            "session_policy" => "reject",
            "session_unseen" => "pin",
            "role" => "replica cluster=main",
            "max_lag" => "16MB cluster=main",
            "max_lag_time" => "5 cluster=main",
            "when_no_replica" => "refuse cluster=main role=replica",
            "proxy_protocol" => "v2",
            "read_routing" => "automatic cluster=main",
            _ => "7",
        };
        let text = format!("{key}={value}");
        assert_ne!(good(&text), Database::named("app".into()), "{text}");
    }
}

#[test]
fn a_mistaken_version_of_the_proxy_protocol_is_named() {
    assert_eq!(bad("proxy_protocol=v3"), ["invalid proxy_protocol: v3 (expected one of off, v1, v2)"]);
}

#[test]
fn several_hosts_share_the_port() {
    let database = good("host=a.example,10.0.0.2,/run/pg port=5433");
    let hosts = [Host::Name("a.example".into()), Host::Ip([10, 0, 0, 2].into()), Host::Unix("/run/pg".into())];
    assert_eq!(database.hosts, hosts);
    assert_eq!(database.host_text.as_deref(), Some("a.example,10.0.0.2,/run/pg"));
    assert_eq!(bad("host=a,,b"), ["invalid host: an element of the list is empty"]);
}

#[test]
fn each_host_may_have_a_port_of_its_own() {
    let ports = |line| good(line).hosts_with_ports().map(|(_, port)| port).collect::<Vec<_>>();
    assert_eq!(ports("host=a,b,c port='1, 2,3'"), [1, 2, 3]);
    assert_eq!(ports("host=a,b,c port=7"), [7, 7, 7]);
    assert_eq!(ports("host=a,b,c"), [5432, 5432, 5432]);
    assert_eq!(good("host=a,b port=7"), good("port=7 host=a,b"));
    assert_eq!(bad("host=a,b,c port=1,2"), ["could not match 2 port numbers to 3 hosts"]);
    assert_eq!(bad("port=1,2"), ["could not match 2 port numbers to 1 host"]);
    assert!(bad("host=a,b port=1,70000")[0].starts_with("invalid port: 70000"));
}

#[test]
fn a_database_may_say_how_far_behind_a_replica_may_be() {
    let database = good("cluster=main role=replica max_lag=16MB max_lag_time=5 when_no_replica=refuse");
    assert_eq!(database.max_lag.to_string(), "max_lag=16MB max_lag_time=5");
    assert_eq!(database.when_no_replica, WhenNoReplica::Refuse);
    assert!(good("cluster=main").max_lag.is_none());
    let primary = good("when_no_replica=primary cluster=main role=replica");
    assert_eq!(primary.target_session_attrs, SessionAttrs::PreferStandby);
    assert_eq!(good("cluster=main max_lag=1GB").replicas().expect("replicas").max_lag.bytes, Some(1 << 30));
    assert_eq!(bad("host=a max_lag=1MB"), ["max_lag= and max_lag_time= need cluster="]);
    for line in ["cluster=main when_no_replica=refuse", "host=a when_no_replica=primary"] {
        assert_eq!(bad(line), ["when_no_replica= needs role=replica or target_session_attrs=standby"]);
    }
}

#[test]
fn each_host_may_have_a_weight_and_a_zone() {
    let database = good("host=a,b,c weights='3, 1,0' zones=x load_balance_hosts=least-busy");
    assert_eq!([0, 1, 2].map(|place| database.weight_at(place)), [3, 1, 0]);
    assert_eq!(database.zone_at(2).map(|zone| &**zone), Some("x"));
    assert_eq!((good("host=a,b").weight_at(1), good("host=a,b").zone_at(1)), (1, None));
    assert_eq!(bad("host=a,b,c weights=1,2"), ["could not match 2 weights to 3 hosts"]);
    assert_eq!(bad("zones=x,y"), ["could not match 2 zones to 1 host"]);
    assert!(bad("host=a,b weights=1,x")[0].starts_with("invalid weights: x"));
    assert_eq!(bad("cluster=main weights=1"), ["cluster= excludes weights= and zones="]);
}

#[test]
fn a_database_of_a_cluster_asks_for_a_role() {
    for (line, attrs, is_of_primary) in [
        ("cluster=main", SessionAttrs::ReadWrite, true),
        ("cluster=main role=primary", SessionAttrs::ReadWrite, true),
        ("role=replica cluster=main", SessionAttrs::Standby, false),
        ("cluster=main role=any", SessionAttrs::Any, false),
        ("cluster=main target_session_attrs=prefer-standby", SessionAttrs::PreferStandby, false),
        ("cluster=main target_session_attrs=primary", SessionAttrs::Primary, true),
    ] {
        let database = good(line);
        assert_eq!(database.target_session_attrs, attrs, "{line}");
        assert_eq!(database.cluster_of_primary().is_some(), is_of_primary, "{line}");
    }
    assert_eq!(bad("role=replica"), ["role= needs cluster="]);
    assert_eq!(bad("cluster=main host=a"), ["cluster= excludes host= and port="]);
    assert_eq!(bad("cluster=main port=1"), ["cluster= excludes host= and port="]);
    assert_eq!(bad("cluster=main proxy_protocol=v2"), ["cluster= excludes proxy_protocol="]);
    let both = "cluster=main role=any target_session_attrs=any";
    assert_eq!(bad(both), ["role= and target_session_attrs= exclude each other"]);
}

#[test]
fn all_that_is_wrong_with_a_line_is_told_at_once() {
    let told = bad("prot=1 port=0 pool_mode=x load_balance_hosts=y pool_size=z");
    let begins = [
        "unrecognized connection parameter: prot",
        "invalid port: 0",
        "invalid pool mode: x",
        "invalid load_balance_hosts: y",
        "invalid value \"z\" for pool_size",
    ];
    assert_eq!(told.len(), begins.len());
    for (told, begin) in told.iter().zip(begins) {
        assert!(told.starts_with(begin), "{told}");
    }
}

#[test]
fn the_console_is_no_database() {
    let wrong = Database::parse("pgbouncer", "", &mut Texts::default()).expect_err("reserved");
    assert_eq!(wrong[0].text, "database name \"pgbouncer\" is reserved");
    // As `auth_dbname` it is refused only at a login, as in PgBouncer.
    assert_eq!(good("auth_dbname=pgbouncer").auth_dbname.as_deref(), Some("pgbouncer"));
}

#[test]
fn a_name_of_63_bytes_is_the_longest() {
    assert!(Database::parse(&"x".repeat(63), "", &mut Texts::default()).is_ok());
    assert!(Database::parse(&"x".repeat(64), "", &mut Texts::default()).is_err());
}

#[test]
fn a_wait_of_zero_is_for_ever_and_a_life_of_zero_is_inherited() {
    let database = good("query_wait_timeout=0 server_lifetime=0 max_db_connections=0 pool_size=-1");
    assert_eq!(database.query_wait_timeout, Some(None));
    assert_eq!((database.server_lifetime, database.max_db_connections, database.pool_size), (None, None, None));
}

#[test]
fn a_password_is_not_in_what_is_printed() {
    let database = good("password='p''w' user=u");
    assert_eq!(database.password.as_ref().map(Password::expose), Some("p'w"));
    assert!(!format!("{database:?}").contains("p'w"));
}

#[test]
fn an_instance_of_the_fallback_is_named_after_what_was_asked_for() {
    let plain = Database::parse("*", "host=db", &mut Texts::default()).expect("a fallback").instance("shop");
    assert_eq!((&*plain.name, &*plain.dbname, plain.automatic), ("shop", "shop", true));
    let fixed = Database::parse("*", "dbname=all", &mut Texts::default()).expect("a fallback").instance("shop");
    assert_eq!((&*fixed.name, &*fixed.dbname), ("shop", "all"));
}

#[test]
fn reads_of_a_database_on_a_primary_belong_to_replicas_of_its_cluster() {
    let database = good("cluster=main dbname=shop pool_size=7 min_pool_size=2 read_routing=automatic");
    let replicas = database.replicas().expect("a cluster");
    assert_eq!(&*replicas.name, "app:replica");
    assert_eq!(replicas.target_session_attrs, SessionAttrs::Standby);
    assert_eq!((&*replicas.dbname, replicas.pool_size, replicas.min_pool_size), ("shop", Some(7), Some(0)));
    assert_eq!(replicas.read_routing, None);
    assert!(good("cluster=main role=replica").replicas().is_none() && good("host=a").replicas().is_none());
    for line in ["host=a read_routing=explicit", "cluster=main role=replica read_routing=automatic"] {
        assert_eq!(bad(line), ["read_routing= needs cluster= with role=primary"]);
    }
    assert_eq!(good("host=a read_routing=off").read_routing, Some(ReadRouting::Off));
    assert_eq!(
        bad("cluster=main read_routing=auto"),
        ["invalid read_routing: auto (expected one of off, explicit, automatic)"]
    );
}
