//! Specs that are right, and what is told about those that are not.

use pool::Mode;

use super::{Arrivals, Behaviour, Happening, Law, Roles, Spec, SpecTree};

fn read(text: &str) -> Result<Spec, Vec<String>> {
    let tree = SpecTree::parse(text).expect("TOML");
    let recording = |path: &str| match path {
        "day.txt" => Ok("# seconds, tenant\n0.5\n0.25,1\n".to_owned()),
        _ => Err(format!("cannot read \"{path}\"")),
    };
    Spec::read(&tree, &recording).map_err(|list| list.iter().map(ToString::to_string).collect())
}

const SMALL: &str =
    "[[databases]]\n[[databases.tenants]]\narrivals = { poisson = 10 }\n[[databases.tenants.transactions]]\n";

#[test]
fn what_is_not_written_is_as_in_pgbouncer() {
    let spec = read(SMALL).expect("a spec");
    let pooler = &spec.databases[0].pooler;
    assert_eq!((pooler.limits.servers_max, pooler.limits.mode, pooler.database_max), (20, Mode::Transaction, 0));
    assert_eq!((spec.duration, spec.warm_up, spec.replications, spec.tenants()), (60_000_000, 6_000_000, 1, 1));
    assert_eq!(spec.databases[0].groups[0].arrivals, Arrivals::Poisson { rate: 10.0 });
}

#[test]
fn a_full_spec_is_read() {
    let spec = read(
        "title = \"all\"\nduration = \"2 min\"\nseed = 7\nreplications = 3\n\
         [pooler]\npool_mode = \"session\"\nconns_per_tenant = 1.5\nbehaviour = \"pgbouncer-1.17\"\nserver_dials_max = 9\n\
         reserve_pool_timeout = 0\n\
         [server]\nlogin = { lognormal = \"20 ms\", scv = 0.5 }\ncores = 4\ncontention = { alpha = 0.1, beta = 0.001 }\n\
         [client]\nlogin = \"1 ms\"\n\
         [[databases]]\nname = \"w\"\ncount = 2\npool_size = 7\n\
         [[databases.tenants]]\nname = \"ws\"\ncount = 4\nroles = \"shared\"\npopularity = [1, 1, 2, 0]\n\
         arrivals = { bursts = 5, on = 1, off = 4, per_tenant = true }\n\
         application = { processes = 2, client_pool = 5, reconnect_after = 1 }\n\
         [[databases.tenants.transactions]]\nweight = 2\nstatements = 3\nservice = { two_point = [\"5 ms\", \"155 ms\"], second = 0.1 }\n\
         think = { quantiles = { min = 0, p50 = \"1 ms\", max = \"1 s\" } }\n\
         [[databases.tenants]]\nname = \"jobs\"\ncount = 2\narrivals = { recorded = \"day.txt\", speed = 2 }\n\
         [[databases.tenants.transactions]]\n\
         [[events]]\nat = 50\nkind = \"reload\"\nserver_idle_timeout = 5\n\
         [[events]]\nat = 10\nkind = \"deploy\"\ntenants = \"ws\"\n",
    )
    .expect("a spec");
    assert_eq!(spec.databases.iter().map(|database| database.name.as_str()).collect::<Vec<_>>(), ["w-1", "w-2"]);
    let (database, group) = (&spec.databases[1], &spec.databases[1].groups[0]);
    assert_eq!((database.pooler.limits.servers_max, database.pooler.database_limit(6)), (7, 9));
    assert_eq!((database.pooler.behaviour, database.pooler.limits.dials_max), (Behaviour::PgBouncer117, 1));
    assert_eq!((group.roles, group.popularity[2], database.pooler.limits.reserve_after), (Roles::Shared, 0.5, None));
    assert_eq!(group.arrivals, Arrivals::Modulated { states: vec![(100.0, 1.0), (0.0, 4.0)] });
    assert_eq!(spec.databases[0].groups[1].arrivals, Arrivals::Recorded(vec![(125_000, Some(1)), (250_000, None)]));
    assert!(matches!(group.transactions[0].service, Law::TwoPoint { .. }));
    assert!(matches!(spec.events[0].what, Happening::Deploy { .. }) && spec.events[0].at == 10_000_000);
    let Happening::Reload { poolers } = &spec.events[1].what else { panic!("no reload") };
    assert_eq!(poolers[0].limits.idle_max, Some(std::time::Duration::from_secs(5)));
    assert_eq!(poolers[0].limits.servers_max, 7, "what the reload does not name stays");
}

#[test]
fn all_mistakes_are_told_at_once_with_the_nearest_names() {
    let mistakes = read(
        "durtion = 5\n[pooler]\ndefault_pol_size = 5\npool_mode = \"transactions\"\nmin_pool_size = -1\n\
         [[databases]]\n[[databases.tenants]]\nname = \"ws\"\ncount = 1.5\narrivals = { poison = 3 }\n\
         [[databases.tenants.transactions]]\nservice = { exponentiel = \"1 ms\" }\nthink = \"5 parsecs\"\n\
         [[events]]\nkind = \"storm\"\ntenants = \"wz\"\n",
    )
    .expect_err("many mistakes");
    let wanted = [
        "line 1: durtion: there is no such key; did you mean \"duration\"?",
        "line 3: pooler.default_pol_size: there is no such key; did you mean \"default_pool_size\"?",
        "line 4: pooler.pool_mode: one of session, transaction, statement is wanted; did you mean \"transaction\"?",
        "line 5: pooler.min_pool_size: a number from 0 to 100000 is wanted",
        "line 9: databases.0.tenants.0.count: a whole number from 0 to 100000 is wanted",
        "line 10: databases.0.tenants.0.arrivals: exactly one of poisson, constant, bursts, mmpp, users, recorded is wanted",
        "line 10: databases.0.tenants.0.arrivals.poison: there is no such key; did you mean \"poisson\"?",
        "line 12: databases.0.tenants.0.transactions.0.service.exponentiel: there is no such key; did you mean \"exponential\"?",
    ];
    for text in wanted {
        assert!(mistakes.iter().any(|mistake| mistake == text), "{text}\n{mistakes:#?}");
    }
    assert!(mistakes.iter().any(|text| text.contains("transactions.0.think: a time is wanted")), "{mistakes:#?}");
    let no_database = read("").expect_err("nothing in it");
    assert!(no_database[0].contains("at least one [[databases]]"), "{no_database:?}");
}

#[test]
fn a_recording_that_cannot_be_read_is_a_mistake() {
    let with = |arrivals: &str| read(&SMALL.replace("{ poisson = 10 }", arrivals));
    assert!(with("{ recorded = \"night.txt\" }").expect_err("no file")[0].contains("cannot read \"night.txt\""));
    // The small spec has one tenant, whose number is 0.
    assert!(with("{ recorded = \"day.txt\" }").expect_err("no tenant 1")[0].contains("line 3 of the recording"));
    assert!(with("{ recorded = [1, \"2 s\"] }").is_ok());
    assert!(with("{ recorded = [1, true] }").expect_err("no time")[0].contains("a time is wanted"));
    assert!(with("{ poisson = 1e7 }").expect_err("too many")[0].contains("million transactions"));
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    let small = |more: &str| read(&format!("{SMALL}{more}"));
    for (text, told) in [
        (
            SMALL.replace("[[databases.tenants]]", "count = 10000\n[[databases.tenants]]\ncount = 100"),
            "tenants; at most",
        ),
        (SMALL.replace("arrivals", "count = 100000\napplication = { processes = 100 }\narrivals"), "processes"),
        (format!("{SMALL}statements = 100000\nservice = 0\n").replace("= 10 }", "= 10000 }"), "million transactions"),
        (
            SMALL.replace("poisson = 10", "users = 1000000").replacen(
                "[[d",
                "duration = \"1 ms\"\nwarm_up = 0\n[[d",
                1,
            ) + &SMALL.replace("poisson = 10", "users = 9"),
            "more than 1000000 users",
        ),
    ] {
        let mistakes = read(&text).expect_err("too large");
        assert!(mistakes.iter().any(|mistake| mistake.contains(told)), "{told}: {mistakes:?}");
    }
    let storms = "[[events]]\nkind = \"storm\"\nat = 1\nclients = 600000\n".repeat(2);
    assert!(small(&storms).expect_err("too many")[0].contains("clients of storms"));
    let two = SMALL.replace("[[databases.tenants]]", "count = 6000\n[[databases.tenants]]").repeat(2);
    assert!(read(&two).expect_err("too many")[0].contains("kinds of tenants"));
}
