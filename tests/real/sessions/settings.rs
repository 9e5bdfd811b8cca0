//! State that belongs to a client: its settings on whatever server it is served, and in session mode everything.

use tests::client::Client;
use tests::pooler::{Ini, Pooler};

use crate::house::House;

pub(crate) fn settings_follow_their_client_on_a_shared_server(house: &House) {
    let pooler = house.pooler("session_shared", &["default_pool_size = 1"]);
    let login = |zone: &str, style: &str, name: &str, encoding: &str| {
        let parameters = [("user", "u"), ("database", "session_shared"), ("TimeZone", zone), ("datestyle", style)];
        let more = [("application_name", name), ("client_encoding", encoding)];
        Client::try_login(pooler.address(), &[&parameters[..], &more[..]].concat()).expect("the login succeeds")
    };
    let mut berlin = login("Europe/Berlin", "German, DMY", "one", "UTF8");
    let mut tokyo = login("Asia/Tokyo", "ISO, MDY", "two's", "LATIN1");
    assert_eq!(berlin.parameters["TimeZone"], "Europe/Berlin");
    assert_eq!(tokyo.parameters["application_name"], "two's");
    let shown = "select current_setting('TimeZone') || '|' || current_setting('DateStyle') || '|' ||
                 current_setting('application_name') || '|' || current_setting('client_encoding') || '|' || pg_backend_pid()";
    for _ in 0..3 {
        let one = berlin.value(shown);
        let two = tokyo.value(shown);
        let (one, pid_one) = one.rsplit_once('|').expect("five values");
        let (two, pid_two) = two.rsplit_once('|').expect("five values");
        assert_eq!(one, "Europe/Berlin|German, DMY|one|UTF8");
        assert_eq!(two, "Asia/Tokyo|ISO, MDY|two's|LATIN1");
        assert_eq!(pid_one, pid_two, "one server was to be shared");
    }
    berlin.run("set timezone to 'America/Lima'");
    assert_eq!(berlin.parameters["TimeZone"], "America/Lima");
    assert!(tokyo.value(shown).starts_with("Asia/Tokyo|"));
    assert!(berlin.value(shown).starts_with("America/Lima|"));
    // After a rollback a setting has its old value again, for the client and for the pooler.
    berlin.run("begin");
    berlin.run("set timezone to 'UTC'");
    berlin.run("rollback");
    assert!(tokyo.value(shown).starts_with("Asia/Tokyo|"));
    assert!(berlin.value(shown).starts_with("America/Lima|"));
}

pub(crate) fn settings_that_are_taken_over_are_told_at_verbose(house: &House) {
    let pooler = house.pooler("session_told", &["default_pool_size = 1"]);
    let settings = [("user", "u"), ("database", "session_told"), ("timezone", "europe/berlin")];
    let mut client = Client::try_login(pooler.address(), &settings).expect("the login succeeds");
    client.run("select 1");
    assert!(!pooler.log().contains("varcache_apply"), "told without being asked");
    pooler.console("SET verbose=1");
    client.run("set timezone to 'UTC'");
    pooler.client("u", "session_told").run("select 1");
    client.run("select 1");
    let mut client = Client::try_login(pooler.address(), &settings).expect("the login succeeds");
    client.run("select 1");
    pooler.await_log("varcache_apply: SET TimeZone='europe/berlin';");
    pooler
        .await_log("varcache_set_canonical: setting TimeZone to its canonical version europe/berlin -> Europe/Berlin");
}

pub(crate) fn the_welcome_tells_what_the_server_said(house: &House) {
    let pooler = house.pooler("session_welcome", &[]);
    let direct = house.postgres.client("session_welcome");
    let pooled = pooler.client("u", "session_welcome");
    for (name, value) in &direct.parameters {
        if !["session_authorization", "is_superuser"].contains(&name.as_str()) {
            assert_eq!(pooled.parameters.get(name), Some(value), "{name}");
        }
    }
    assert_ne!(pooled.key, direct.key);
}

pub(crate) fn a_setting_that_the_server_refuses_ends_the_client(house: &House) {
    let pooler = house.pooler("session_refused", &[]);
    let parameters = [("user", "u"), ("database", "session_refused"), ("TimeZone", "Nowhere/Land")];
    let mut client =
        Client::try_login(pooler.address(), &parameters).expect("it is not known before a server is asked");
    assert_eq!(client.query("select 1").errors.last().expect("an error").text, "invalid server parameter");
    assert_eq!(pooler.client("u", "session_refused").value("select 1"), "1");
}

pub(crate) fn a_setting_that_the_server_refuses_costs_nobody_a_server(house: &House) {
    let pooler = house.pooler("session_refusals", &["default_pool_size = 1", "stats_users = u"]);
    let pid = pooler.client("u", "session_refusals").server_pid();
    let refused = [
        [("TimeZone", "Nowhere/Land")],
        [("options", "-c no_such_setting=1")],
        [("options", "-c statement_timeout=soon")],
        [("options", "-c role=nobody_of_this_name")],
    ];
    for more in refused.iter().cycle().take(12) {
        let parameters = [&[("user", "u"), ("database", "session_refusals")][..], &more[..]].concat();
        let mut client =
            Client::try_login(pooler.address(), &parameters).expect("it is not known before a server is asked");
        let error = client.query("select 1").errors.last().expect("an error").clone();
        assert_eq!((&*error.code, &*error.text), ("08P01", "invalid server parameter"), "{more:?}");
        let mut next = pooler.client("u", "session_refusals");
        assert_eq!(next.value("select current_setting('TimeZone') = 'Nowhere/Land'"), "f");
        assert_eq!(next.server_pid(), pid, "{more:?}");
    }
    // Values that a server has accepted once are sent together with the requests of later clients with the same values.
    for _ in 0..3 {
        let parameters = [("user", "u"), ("database", "session_refusals"), ("options", "-c work_mem=7MB")];
        let mut client = Client::try_login(pooler.address(), &parameters).expect("a client");
        assert_eq!((client.value("show work_mem"), client.server_pid()), ("7MB".to_owned(), pid.clone()));
    }
}

pub(crate) fn a_session_keeps_its_server_and_is_wiped_after(house: &House) {
    let pooler = house.pooler("session_session", &["pool_mode = session", "default_pool_size = 1"]);
    let mut client = pooler.client("u", "session_session");
    let pid = client.server_pid();
    client.run("create temp table mine (a int)");
    client.run("set work_mem to '3MB'");
    client.run("prepare p as select 1");
    assert_eq!(client.server_pid(), pid);
    drop(client);
    let mut next = pooler.client("u", "session_session");
    assert_eq!(next.server_pid(), pid, "the server was to be used again");
    assert_ne!(next.value("show work_mem"), "3MB");
    assert_eq!(next.value("select count(*) from pg_prepared_statements"), "0");
    assert_eq!(next.value("select count(*) from pg_class where relname = 'mine'"), "0");
}

pub(crate) fn an_empty_server_reset_query_wipes_nothing(house: &House) {
    let settings = ["pool_mode = session", "default_pool_size = 1", "server_reset_query ="];
    let pooler = house.pooler("session_kept", &settings);
    let mut client = pooler.client("u", "session_kept");
    client.run("set work_mem to '3MB'");
    drop(client);
    assert_eq!(pooler.client("u", "session_kept").value("show work_mem"), "3MB");
}

pub(crate) fn server_reset_query_always_wipes_after_each_transaction(house: &House) {
    let settings = ["server_reset_query_always = 1", "server_reset_query = reset work_mem", "default_pool_size = 1"];
    let pooler = house.pooler("session_always", &settings);
    let mut client = pooler.client("u", "session_always");
    client.run("set work_mem to '3MB'");
    assert_ne!(client.value("show work_mem"), "3MB");
}

pub(crate) fn the_statements_of_server_reset_query_are_sent_one_by_one(house: &House) {
    // PostgreSQL refuses DISCARD ALL beside another statement in one message.
    let reset = "server_reset_query = DISCARD ALL; set work_mem = '7MB' /* a; b */; select ';';";
    let always = ["server_reset_query_always = 1", "session_state = pgbouncer"];
    for (database, mode) in [("several_always", &always[..]), ("several_session", &["pool_mode = session"])] {
        let settings = [mode, &[reset, "default_pool_size = 1"]].concat();
        let pooler = house.pooler(database, &settings);
        let mut client = pooler.client("u", database);
        client.run("create temp table mine (a int); set work_mem = '3MB'; set lock_timeout = '5s'");
        let pid = client.server_pid();
        // In a session pool a client that leaves in the middle leaves the reset to a cleanup.
        client.ask("begin; select pg_sleep(60)");
        drop(client);
        let mut next = pooler.client("u", database);
        assert_eq!(next.server_pid(), pid, "the server was to be used again");
        assert_eq!(next.value("show work_mem"), "7MB");
        assert_eq!(next.value("show lock_timeout"), "0");
        assert_eq!(next.value("select count(*) from pg_class where relname = 'mine'"), "0");
        let log = pooler.log();
        assert!(!log.contains("WARNING"), "{log}");
    }
}

pub(crate) fn a_server_reset_query_that_fails_is_logged_once_with_its_statement(house: &House) {
    let reset = "server_reset_query = DISCARD ALL; LOAD 'no_such_library'; select 1";
    let always = ["server_reset_query_always = 1", reset, "default_pool_size = 3"];
    let session = ["pool_mode = session", reset, "default_pool_size = 3"];
    for (database, settings) in [("failing_always", always), ("failing_session", session)] {
        let pooler = house.pooler(database, &settings);
        let pids: std::collections::BTreeSet<_> = (0..20)
            .map(|number| {
                let mut client = pooler.client("u", database);
                let pid = client.server_pid();
                if number % 4 == 0 {
                    client.ask("begin; select pg_sleep(60)");
                }
                pid
            })
            .collect();
        assert_eq!(pids.len(), 20, "a server that is not proven clean is not used again");
        let said = "server_reset_query fails at \"LOAD 'no_such_library'\": ERROR: could not access file";
        pooler.await_log(said);
        let log = pooler.log();
        assert_eq!(log.matches("WARNING").count(), 1, "{log}");
    }
}

pub(crate) fn the_mode_is_that_of_the_user_then_the_database_then_the_process(house: &House) {
    let ini = Ini::new(&format!("{} pool_mode=session", house.line_as("by_database", "postgres")))
        .database(&house.line_as("by_process", "postgres"))
        .user("v = pool_mode=statement")
        .set("pool_mode = transaction");
    let pooler = house.start(&ini);
    let mut of_process = pooler.client("u", "by_process");
    let mut of_database = pooler.client("u", "by_database");
    let mut of_user = pooler.client("v", "by_database");
    for client in [&mut of_process, &mut of_database, &mut of_user] {
        client.run("select 1");
    }
    // The state probe has ended.
    pooler.await_pool("by_process", "sv_active", "0");
    assert_eq!(mode(&pooler, "by_process", "u"), ("transaction".into(), "0".into()));
    assert_eq!(mode(&pooler, "by_database", "u"), ("session".into(), "1".into()));
    assert_eq!(mode(&pooler, "by_database", "v"), ("statement".into(), "0".into()));
    let text = "transaction blocks not allowed in statement pooling mode";
    assert_eq!(of_user.query("begin").errors.last().expect("an error").text, text);
    of_process.run("begin");
    of_process.run("commit");
}

pub(crate) fn application_name_add_host_tells_where_a_client_came_from(house: &House) {
    let pooler = house.pooler("session_name", &["application_name_add_host = 1"]);
    let parameters = [("user", "u"), ("database", "session_name"), ("application_name", "shop")];
    let mut client = Client::try_login(pooler.address(), &parameters).expect("the login succeeds");
    let name = client.value("show application_name");
    assert!(name.starts_with("shop - 127.0.0.1:"), "{name}");
}

pub(crate) fn startup_parameters_are_refused_unless_ignored(house: &House) {
    let settings = ["ignore_startup_parameters = extra_float_digits, search_path", "session_state = pgbouncer"];
    let pooler = house.pooler("session_startup", &settings);
    let login = |name: &str| {
        Client::try_login(pooler.address(), &[("user", "u"), ("database", "session_startup"), (name, "1")])
    };
    assert!(login("extra_float_digits").is_ok());
    assert!(login("search_path").is_ok());
    assert_eq!(login("work_mem").map(|_| ()).expect_err("refused").text, "unsupported startup parameter: work_mem");
}

pub(crate) fn connect_query_runs_once_for_each_server(house: &House) {
    house.postgres.database("session_connect");
    let line = format!("{} connect_query='set work_mem to ''5MB'''", house.line("session_connect"));
    let pooler = house.start(&Ini::new(&line));
    assert_eq!(pooler.client("u", "session_connect").value("show work_mem"), "5MB");
}

/// What `connect_query` sets and prepares is the initial state of each session: it is not taken for a change by another
/// client.
pub(crate) fn what_connect_query_sets_is_everybodys(house: &House) {
    house.postgres.database("session_begun");
    let query = "set work_mem to ''5MB''; set app.tenant to ''none''; set search_path to here;
        prepare begun as select set_config(''app.tenant'', ''begun'', false)";
    let line = format!("{} connect_query='{}'", house.line("session_begun"), query.replace('\n', " "));
    let settings = ["pool_mode = transaction", "default_pool_size = 2", "max_prepared_statements = 9"];
    let pooler = house.start(&settings.iter().fold(Ini::new(&line), |ini, line| ini.set(line)));
    let all = "select concat_ws(' ', current_setting('work_mem'), current_setting('app.tenant'), current_setting('search_path'))";
    let (mut one, mut two) = (pooler.client("u", "session_begun"), pooler.client("u", "session_begun"));
    let begun = "5MB none here";
    for touching in [
        "do $$ begin perform set_config('app.other', 'x', false); end $$",
        "set work_mem to '6MB'",
        "reset all",
        "discard all",
    ] {
        one.run(touching);
        assert_eq!(two.value(all), begun, "after {touching}");
        assert_eq!(pooler.client("u", "session_begun").value(all), begun, "after {touching}");
    }
    // A reset goes back to PostgreSQL's initial value, as on a direct connection that had run the query itself.
    assert_eq!(one.value("show work_mem"), "4MB");
    assert_eq!(one.query("execute begun").error().code, "26000");
    assert_eq!(two.value("execute begun"), "begun");
    assert_eq!(
        (two.value(all), one.value("select coalesce(current_setting('app.tenant', true), '')")),
        ("5MB begun here".into(), String::new())
    );
    // On another server, too, and for a client with startup parameters of its own.
    one.run("begin");
    assert_eq!(two.value(all), "5MB begun here");
    let own = [("user", "u"), ("database", "session_begun"), ("options", "-c work_mem=7MB")];
    let mut third = Client::try_login(pooler.address(), &own).expect("it is let in");
    assert_eq!(third.value(all), "7MB none here");
    third.run("reset all");
    assert_eq!(third.value("show work_mem"), "7MB");
    one.run("rollback");
}

fn mode(pooler: &Pooler, database: &str, user: &str) -> (String, String) {
    let pool = pooler.pool(database, user);
    (pool["pool_mode"].clone(), pool["sv_active"].clone())
}
