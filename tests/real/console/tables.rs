//! The console: columns, order and types as in PgBouncer, and who may do what.

use tests::client::Client;
use tests::message::{parse, sync};
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

const TEXT: u32 = 25;
const INT: u32 = 23;
const NUMERIC: u32 = 1700;

pub(crate) fn show_version_names_the_version(house: &House) {
    let pooler = house.pooler("console_version", &[]);
    let answer = pooler.console("SHOW VERSION");
    assert_eq!(answer.columns, columns(&[("version", TEXT)]));
    assert!(answer.value().starts_with("PgBouncer "), "{answer:?}");
    assert_eq!((answer.rows.len(), answer.tags), (1, vec!["SHOW".to_owned()]), "programs read a single value");
    let mut console = pooler.client("admin", "pgbouncer");
    assert!(console.parameters["server_version"].ends_with("/bouncer"), "{:?}", console.parameters);
    for (name, value) in
        [("client_encoding", "UTF8"), ("server_encoding", "UTF8"), ("DateStyle", "ISO"), ("TimeZone", "GMT")]
    {
        assert_eq!(console.parameters[name], value);
    }
    // The same for SELECT, for any case, a semicolon, any white space.
    for command in ["show version;", "  Show\n\"version\" ;", "SELECT version"] {
        assert!(console.query(command).value().starts_with("PgBouncer "), "{command}");
    }
}

pub(crate) fn show_databases_has_its_columns(house: &House) {
    let pooler = house.pooler("console_databases", &["max_db_connections = 7"]);
    pooler.client("u", "console_databases").run("select 1");
    let answer = pooler.console("SHOW DATABASES");
    let mut expected =
        columns(&[("name", TEXT), ("host", TEXT), ("port", INT), ("database", TEXT), ("force_user", TEXT)]);
    expected.extend(columns(&[
        ("pool_size", INT),
        ("min_pool_size", INT),
        ("reserve_pool_size", INT),
        ("server_lifetime", INT),
    ]));
    expected.extend(columns(&[("pool_mode", TEXT), ("load_balance_hosts", TEXT), ("max_connections", INT)]));
    expected.extend(columns(&[("current_connections", INT), ("max_client_connections", INT)]));
    expected.extend(columns(&[("current_client_connections", INT), ("paused", INT), ("disabled", INT)]));
    has_just(&answer.columns, &expected);
    let row = answer.named(0);
    let port = house.postgres.port().to_string();
    for (name, value) in [
        ("name", "console_databases"),
        ("host", "127.0.0.1"),
        ("port", port.as_str()),
        ("database", "console_databases"),
        ("force_user", "NULL"),
        ("pool_size", "20"),
        ("min_pool_size", "0"),
        ("server_lifetime", "3600"),
        ("pool_mode", "NULL"),
        ("max_connections", "7"),
        ("current_connections", "1"),
        ("paused", "0"),
        ("disabled", "0"),
    ] {
        assert_eq!(row[name], value, "{name}");
    }
    assert_eq!(answer.named(1)["name"], "pgbouncer", "the console is a database too, and the rows are sorted");
}

pub(crate) fn show_pools_has_its_columns(house: &House) {
    let pooler = house.pooler("console_pools", &["default_pool_size = 1"]);
    let mut client = pooler.client("u", "console_pools");
    let mut waiter = pooler.client("u", "console_pools");
    let _idle = pooler.client("u", "console_pools");
    client.run("begin");
    waiter.ask("select 1");
    pooler.await_pool("console_pools", "cl_waiting", "1");
    let answer = pooler.console("SHOW POOLS");
    let mut expected = columns(&[("database", TEXT), ("user", TEXT)]);
    let numbers =
        ["cl_active", "cl_waiting", "cl_active_cancel_req", "cl_waiting_cancel_req", "sv_active", "sv_active_cancel"];
    let more = ["sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login", "maxwait", "maxwait_us"];
    expected.extend(numbers.iter().chain(&more).map(|name| (name.to_string(), INT)));
    expected.extend(columns(&[("pool_mode", TEXT), ("load_balance_hosts", TEXT)]));
    has_just(&answer.columns, &expected);
    let row = pooler.pool("console_pools", "u");
    for (name, value) in
        [("cl_active", "2"), ("cl_waiting", "1"), ("sv_active", "1"), ("sv_idle", "0"), ("pool_mode", "transaction")]
    {
        assert_eq!(row[name], value, "{name} in {row:?}");
    }
    assert_eq!(pooler.pool("pgbouncer", "pgbouncer")["pool_mode"], "statement");
    client.run("commit");
    waiter.answer();
}

pub(crate) fn show_databases_tells_what_is_known_of_functions(house: &House) {
    let database = "console_functions";
    let pooler = house.pooler(database, &["pool_mode = transaction"]);
    let told = || pooler.console("SHOW DATABASES EXTENDED").named(0)["functions"].clone();
    let mut client = pooler.client("u", database);
    client.run("select 1");
    wait_until("its functions are known", LIMIT, || told() == "known");
    pooler.console("SET session_unseen = 'ignore'");
    client.run("select 1");
    wait_until("they are ignored", LIMIT, || told() == "ignored");
    pooler.console("SET session_state = 'pgbouncer'");
    client.run("select 1");
    wait_until("nobody asks", LIMIT, || told().is_empty());
}

pub(crate) fn show_clients_and_servers_have_their_columns(house: &House) {
    let pooler = house.pooler("console_sockets", &[]);
    let parameters = [("user", "u"), ("database", "console_sockets"), ("application_name", "shop")];
    let mut client = Client::try_login(pooler.address(), &parameters).expect("the login succeeds");
    let _idle = pooler.client("v", "console_sockets");
    client.run("begin");
    let pid = client.server_pid();
    let mut expected = Vec::new();
    let texts = ["type", "user", "database", "replication", "state", "addr"];
    expected.extend(texts.iter().map(|name| (name.to_string(), TEXT)));
    expected.extend(columns(&[("port", INT), ("local_addr", TEXT), ("local_port", INT), ("connect_time", TEXT)]));
    expected.extend(columns(&[
        ("request_time", TEXT),
        ("wait", INT),
        ("wait_us", INT),
        ("close_needed", INT),
        ("ptr", TEXT),
    ]));
    expected.extend(columns(&[("link", TEXT), ("remote_pid", INT), ("tls", TEXT), ("application_name", TEXT)]));
    expected.extend(columns(&[("prepared_statements", INT), ("id", INT)]));
    let clients = pooler.console("SHOW CLIENTS");
    has_just(&clients.columns, &expected);
    let servers = pooler.console("SHOW SERVERS");
    has_just(&servers.columns, &expected);
    let rows: Vec<_> = (0..clients.rows.len()).map(|at| clients.named(at)).collect();
    let active = rows.iter().find(|row| row["application_name"] == "shop").expect("our client is listed");
    let rows_of_servers: Vec<_> = (0..servers.rows.len()).map(|at| servers.named(at)).collect();
    let server = rows_of_servers.iter().find(|row| row["remote_pid"] == pid).expect("our server is listed");
    assert_eq!((active["type"].as_str(), active["state"].as_str(), active["user"].as_str()), ("C", "active", "u"));
    assert_eq!((server["type"].as_str(), server["state"].as_str(), server["user"].as_str()), ("S", "active", "u"));
    assert_eq!((&active["link"], &server["link"]), (&server["ptr"], &active["ptr"]));
    // The names in the log are the same.
    pooler.await_log(&format!("LOG {}: ", active["ptr"]));
    pooler.await_log(&format!("LOG {}: ", server["ptr"]));
    assert_ne!(active["id"], server["id"]);
    assert_eq!(
        (active["addr"].as_str(), active["local_port"].as_str()),
        ("127.0.0.1", pooler.port().to_string().as_str())
    );
    assert_eq!(server["port"], house.postgres.port().to_string());
    assert_eq!(active["connect_time"].split(' ').count(), 3, "date, time and zone: {}", active["connect_time"]);
    let idle = rows.iter().find(|row| row["user"] == "v").expect("the other client is listed");
    assert_eq!((idle["state"].as_str(), idle["link"].as_str()), ("idle", ""));
    assert!(rows.iter().any(|row| row["database"] == "pgbouncer"), "the console's own client is listed");
}

pub(crate) fn a_turn_that_one_client_makes_slow_is_counted_and_told_of(house: &House) {
    let database = "console_slow";
    let pooler = house.pooler(database, &[]);
    let mut client = pooler.client("u", database);
    let begin = |line: &str| line.contains(&format!(": {database}/u@")) && line.contains("slow turn: worker 0 served");
    let is_told = |log: String| log.lines().any(|line| begin(line) && line.contains(" ms of it for what it sent"));
    // The text of a named statement is kept whole, and assembled in one turn. PostgreSQL refuses this text at its first
    // word.
    let text = format!("no {}", "x".repeat(30 << 20));
    wait_until("a text is long enough for a slow turn", LIMIT, || {
        client.peer.send(&[parse("slow", &text), sync()].concat());
        let answer = client.answer();
        assert_eq!(answer.errors.len(), 1, "{:?}", answer.errors);
        is_told(pooler.log())
    });
    let answer = pooler.console("SHOW STATS EXTENDED");
    let row = answer.rows.iter().find(|row| row[0].as_deref() == Some(database)).expect("it was used");
    let number = |at: usize| row[at].as_deref().and_then(|text| text.parse::<u64>().ok()).expect("a number");
    assert_eq!((answer.columns[25].0.as_str(), answer.columns[26].0.as_str()), ("slow_turn_count", "turn_time_max"));
    assert!(number(25) >= 1 && number(26) >= 5000, "{row:?}");
}

pub(crate) fn show_stats_has_its_columns_and_counts(house: &House) {
    let pooler = house.pooler("console_stats", &[]);
    let mut client = pooler.client("u", "console_stats");
    client.run("select 1");
    client.run("begin");
    client.run("select 2");
    client.run("commit");
    let answer = pooler.console("SHOW STATS");
    let names = [
        "total_server_assignment_count",
        "total_xact_count",
        "total_query_count",
        "total_received",
        "total_sent",
        "total_xact_time",
        "total_query_time",
        "total_wait_time",
        "total_client_parse_count",
        "total_server_parse_count",
        "total_bind_count",
        "total_client_login_count",
        "avg_server_assignment_count",
        "avg_xact_count",
        "avg_query_count",
        "avg_recv",
        "avg_sent",
        "avg_xact_time",
        "avg_query_time",
        "avg_wait_time",
        "avg_client_parse_count",
        "avg_server_parse_count",
        "avg_bind_count",
        "avg_client_login_count",
    ];
    let mut expected = columns(&[("database", TEXT)]);
    expected.extend(names.iter().map(|name| (name.to_string(), NUMERIC)));
    has_just(&answer.columns, &expected);
    let row = (0..answer.rows.len())
        .map(|at| answer.named(at))
        .find(|row| row["database"] == "console_stats")
        .expect("a row");
    for (name, value) in [
        ("total_server_assignment_count", "2"),
        ("total_xact_count", "2"),
        ("total_query_count", "4"),
        ("total_client_login_count", "1"),
    ] {
        assert_eq!(row[name], value, "{name} in {row:?}");
    }
    let sent: u64 = ["select 1", "begin", "select 2", "commit"].iter().map(|sql| sql.len() as u64 + 6).sum();
    assert_eq!(row["total_received"], sent.to_string());
}

pub(crate) fn show_lists_users_and_mem_have_their_columns(house: &House) {
    let ini = house.ini("console_lists", &[]).user("v = pool_size=3 max_user_connections=9");
    let pooler = house.start(&ini);
    let _client = pooler.client("u", "console_lists");
    let lists = pooler.console("SHOW LISTS");
    assert_eq!(lists.columns[..2], columns(&[("list", TEXT), ("items", INT)]));
    let rows: Vec<_> = (0..lists.rows.len()).map(|at| lists.named(at)["list"].clone()).collect();
    let names = "databases users peers pools peer_pools free_clients used_clients login_clients free_servers used_servers \
                 dns_names dns_zones dns_queries dns_pending protocol_violations log_lines_lost";
    let names: Vec<_> = names.split_whitespace().collect();
    assert_eq!(rows[..names.len()], names[..]);
    assert_eq!(lists.named(0)["items"], "2");
    let users = pooler.console("SHOW USERS");
    let mut expected =
        columns(&[("name", TEXT), ("pool_size", TEXT), ("reserve_pool_size", TEXT), ("pool_mode", TEXT)]);
    expected.extend(columns(&[("max_user_connections", INT), ("current_connections", INT)]));
    expected.extend(columns(&[("max_user_client_connections", INT), ("current_client_connections", INT)]));
    has_just(&users.columns, &expected);
    let rows: Vec<_> = (0..users.rows.len()).map(|at| users.named(at)).collect();
    let v = rows.iter().find(|row| row["name"] == "v").expect("v is listed");
    assert_eq!(
        (v["pool_size"].as_str(), v["max_user_connections"].as_str(), v["pool_mode"].as_str()),
        ("        3", "9", "NULL")
    );
    let u = rows.iter().find(|row| row["name"] == "u").expect("u is listed");
    assert_eq!((u["pool_size"].as_str(), u["current_client_connections"].as_str()), ("", "1"));
    let mem = pooler.console("SHOW MEM");
    let expected = columns(&[("name", TEXT), ("size", INT), ("used", INT), ("free", INT), ("memtotal", INT)]);
    has_just(&mem.columns, &expected);
}

pub(crate) fn show_config_lists_every_setting(house: &House) {
    let pooler = house.pooler("console_config", &["default_pool_size = 17"]);
    let answer = pooler.console("SHOW CONFIG");
    has_just(&answer.columns, &columns(&[("key", TEXT), ("value", TEXT), ("default", TEXT), ("changeable", TEXT)]));
    let rows: Vec<_> = (0..answer.rows.len()).map(|at| answer.named(at)).collect();
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(row("default_pool_size")["value"], "17");
    assert_eq!(row("default_pool_size")["default"], "20");
    assert_eq!(row("default_pool_size")["changeable"], "yes");
    assert_eq!(row("listen_port")["changeable"], "no");
    assert_eq!(row("auth_user")["value"], "NULL");
    assert_eq!(row("server_idle_timeout")["value"], "600");
    let keys: Vec<_> = rows.iter().map(|row| row["key"].as_str()).collect();
    for key in [
        "admin_users",
        "unix_socket_dir",
        "max_prepared_statements",
        "client_tls_sslmode",
        "verbose",
        "pool_idle_timeout",
    ] {
        assert!(keys.contains(&key), "no {key}");
    }
    assert_eq!((keys[0], keys[1]), ("admin_users", "application_name_add_host"));
}

pub(crate) fn show_help_is_a_notice(house: &House) {
    let pooler = house.pooler("console_help", &[]);
    let answer = pooler.console("SHOW HELP");
    assert_eq!((answer.notices.len(), answer.rows.len(), &answer.tags[..]), (1, 0, &["SHOW".to_string()][..]));
    assert_eq!((answer.notices[0].code.as_str(), answer.notices[0].text.as_str()), ("00000", "Console usage"));
    assert!(answer.notices[0].detail.contains("SHOW"), "{answer:?}");
}

pub(crate) fn the_console_knows_who_may_do_what(house: &House) {
    let pooler = house.pooler("console_rights", &[]);
    assert_eq!(refused(&pooler, "u"), "not allowed");
    let mut stats = pooler.client("stats", "pgbouncer");
    assert!(stats.query("SHOW POOLS").errors.is_empty());
    for command in ["RELOAD", "SHUTDOWN"] {
        let answer = stats.query(command);
        assert_eq!((answer.error().severity.as_str(), answer.error().code.as_str()), ("ERROR", "08P01"));
        assert_eq!(answer.error().text, "admin access needed");
    }
    let mut admin = pooler.client("admin", "pgbouncer");
    assert_eq!(admin.query("RELOAD").tags, ["RELOAD"]);
    pooler.await_log("RELOAD command issued");
}

pub(crate) fn the_console_answers_nonsense(house: &House) {
    let pooler = house.pooler("console_nonsense", &[]);
    let mut console = pooler.client("admin", "pgbouncer");
    let answer = console.query("drop everything");
    assert_eq!((answer.error().severity.as_str(), answer.error().code.as_str()), ("ERROR", "08P01"));
    assert_eq!(answer.error().text, "invalid command 'drop everything', use SHOW HELP;");
    assert_eq!(answer.status, 'I');
    assert!(!console.query("SHOW nothing_of_this_kind").errors.is_empty());
    assert!(console.query("SHOW VERSION").errors.is_empty());
    console.peer.send(&tests::message::frame(b'F', &[]));
    let answer = console.answer();
    let texts: Vec<_> = answer.errors.iter().map(|error| error.text.as_str()).collect();
    assert_eq!(texts, ["unsupported packet type for admin console: 70", "bad packet"]);
}

fn columns(pairs: &[(&str, u32)]) -> Vec<(String, u32)> {
    pairs.iter().map(|(name, kind)| (name.to_string(), *kind)).collect()
}

/// Programs stop at columns that they do not know.
fn has_just(got: &[(String, u32)], expected: &[(String, u32)]) {
    assert_eq!(got, expected);
}

fn refused(pooler: &Pooler, user: &str) -> String {
    Client::try_login(pooler.address(), &[("user", user), ("database", "pgbouncer")])
        .map(|_| ())
        .expect_err("refused")
        .text
}
