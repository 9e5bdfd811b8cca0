//! Each rule about sizes, limits, times and sessions: a file on which it fires, and one on which it does not.

use super::trial::{expect, expect_good, ini, lint_all};

const ONE: &str = "d = host=10.0.0.1";

/// A rule, what makes it fire (settings, databases, options), what it says, and what keeps it quiet.
pub(super) type Pair = (&'static str, [&'static str; 3], &'static str, [&'static str; 3]);

pub(super) const PAIRS: &[Pair] = &[
    (
        "L01",
        ["min_pool_size = 6\nmax_db_connections = 10", ONE, "--tenants 2"],
        "12 servers",
        ["min_pool_size = 5\nmax_db_connections = 10", ONE, "--tenants 2"],
    ),
    (
        "L01",
        ["min_pool_size = 12\nmax_db_connections = 10", ONE, ""],
        "1 user x min_pool_size 12",
        ["min_pool_size = 12", ONE, ""],
    ),
    (
        "L02",
        ["max_db_connections = 30", ONE, "--tenants 4"],
        "2.67 times",
        ["max_db_connections = 30", ONE, "--tenants 3"],
    ),
    (
        "L03",
        ["max_db_connections = 20", ONE, "--tenants 10"],
        "W max_db_connections 20 / 10 users = 2 servers",
        ["max_db_connections = 25", ONE, "--tenants 10"],
    ),
    (
        "L04",
        ["", ONE, "--replicas 3 --tenants 1 --max-connections 50"],
        "E 3 processes x (20 + 0) = 60",
        ["", ONE, "--replicas 2 --tenants 1 --max-connections 50"],
    ),
    (
        "L04",
        ["default_pool_size = 0", ONE, ""],
        "no limit of servers",
        ["default_pool_size = 0\nmax_db_connections = 7", ONE, "--replicas 1 --tenants 9 --max-connections 10"],
    ),
    (
        "L05",
        ["max_db_connections = 50", ONE, "--tenants 2"],
        "2 users x (pool_size 20 + reserve_pool_size 0 = 20) = 40",
        ["max_db_connections = 40", ONE, "--tenants 2"],
    ),
    (
        "L05",
        ["max_client_conn = 10\nmax_db_client_connections = 10", ONE, ""],
        "below max_client_conn 10",
        ["max_client_conn = 11\nmax_db_client_connections = 10", ONE, ""],
    ),
    (
        "L06",
        ["max_client_conn = 2000", ONE, "--tenants 1 --open-files 1024"],
        "2,120",
        ["max_client_conn = 900", ONE, "--tenants 1 --open-files 1024"],
    ),
    (
        "L07",
        ["", "a = host=x\nb = host=y", ""],
        "all 100 of max_client_conn",
        ["max_db_client_connections = 50", "a = host=x\nb = host=y", ""],
    ),
    ("L07", ["", "* = host=x", ""], "database * may have", ["max_user_client_connections = 50", "* = host=x", ""]),
    (
        "L08",
        ["query_wait_timeout = 0", ONE, ""],
        "100 clients for 20 servers",
        ["query_wait_timeout = 0\nmax_client_conn = 20", ONE, ""],
    ),
    (
        "L09",
        ["pool_mode = transaction", ONE, "--migration-user flyway"],
        "flyway has no line",
        ["pool_mode = transaction", "a = host=x\nb = host=x pool_mode=session", "--migration-user flyway"],
    ),
    (
        "L09",
        ["pool_mode = transaction", "d = host=x user=migrator", ""],
        "user migrator is in transaction mode",
        ["pool_mode = session", "d = host=x user=migrator", ""],
    ),
    (
        "L10",
        ["pool_mode = transaction\nserver_reset_query_always = 1", ONE, ""],
        "round trip",
        ["pool_mode = session\nserver_reset_query_always = 1", ONE, ""],
    ),
    (
        "L11",
        ["query_wait_timeout = 0", ONE, ""],
        "without limit",
        ["query_wait_timeout = 10", ONE, "--client-timeout 15"],
    ),
    (
        "L11",
        ["query_wait_timeout = 20", ONE, "--client-timeout 15"],
        "give up after 15 s",
        ["query_wait_timeout = 15", ONE, "--client-timeout 15"],
    ),
    (
        "L11",
        ["query_wait_timeout = 600", ONE, ""],
        "above 120 s",
        ["query_wait_timeout = 10", ONE, "--client-timeout 15"],
    ),
    ("L12", ["", "d = host=a,b", ""], "2 hosts", ["server_login_retry = 1", "d = host=a,b", ""]),
    (
        "L12",
        ["", ONE, "--failover-budget 20"],
        "a failover may take 20 s",
        ["server_login_retry = 1", ONE, "--failover-budget 20"],
    ),
    (
        "L13",
        ["", ONE, "--client-connect-timeout 15 --failover-budget 60"],
        "give up connecting",
        ["server_connect_timeout = 3", ONE, "--client-connect-timeout 15 --failover-budget 60"],
    ),
    (
        "L13",
        ["", ONE, "--client-connect-timeout 60 --failover-budget 20"],
        "more than half",
        ["server_connect_timeout = 9", ONE, "--client-connect-timeout 60 --failover-budget 20"],
    ),
    ("L14", ["", ONE, ""], "7,200 s", ["tcp_keepidle = 30", ONE, ""]),
    ("L14", ["tcp_keepalive = 0", ONE, ""], "never tested", ["tcp_keepalive = 0\ntcp_user_timeout = 30000", ONE, ""]),
    ("L15", ["server_lifetime = 432000", ONE, "--gap 1"], "5 days", ["server_lifetime = 3600", ONE, "--gap 1"]),
    (
        "L15",
        ["server_idle_timeout = 30", ONE, "--gap 60"],
        "every 60 s",
        ["server_idle_timeout = 600", ONE, "--gap 60"],
    ),
    (
        "L16",
        ["reserve_pool_size = 5", ONE, "--slo 500"],
        "half of that is 0.25 s",
        ["reserve_pool_size = 5\nreserve_pool_timeout = 0.1", ONE, "--slo 500"],
    ),
    (
        "L16",
        ["reserve_pool_size = 5\nreserve_pool_timeout = 0", ONE, ""],
        "disables it",
        ["reserve_pool_timeout = 0", ONE, ""],
    ),
    (
        "L17",
        ["", ONE, "--drivers pgx,jdbc"],
        "jdbc sends it",
        ["ignore_startup_parameters = a, extra_float_digits", ONE, ""],
    ),
    (
        "L27",
        ["", ONE, "--connect-burst 500 --somaxconn 4096"],
        "500 clients",
        ["listen_backlog = 1024", ONE, "--connect-burst 500 --somaxconn 4096"],
    ),
    (
        "L27",
        ["listen_backlog = 8192", ONE, "--connect-burst 500 --somaxconn 4096"],
        "somaxconn = 4,096",
        ["listen_backlog = 4096", ONE, "--connect-burst 500 --somaxconn 4096"],
    ),
    (
        "L32",
        ["pool_mode = transaction\nmax_prepared_statements = 0", ONE, "--drivers pgx"],
        "pgx prepares",
        ["pool_mode = session\nmax_prepared_statements = 0", ONE, ""],
    ),
    (
        "L32",
        ["pool_mode = transaction", ONE, "--tenants 1 --plan-memory 100"],
        "20 servers x 200 statements x 30 kB = 117 MB",
        ["pool_mode = transaction\nmax_prepared_statements = 50", ONE, "--tenants 1 --plan-memory 100"],
    ),
    (
        "L34",
        ["default_pool_size = 1", ONE, "--replicas 3"],
        "3 processes",
        ["default_pool_size = 2", ONE, "--replicas 3"],
    ),
    (
        "L34",
        ["default_pool_size = 1\nso_reuseport = 1", ONE, ""],
        "so_reuseport",
        ["default_pool_size = 1", ONE, "--replicas 1"],
    ),
    (
        "L35",
        ["", "d = host=x user=app", "--background-user sidekiq"],
        "sidekiq",
        ["", "d = host=x user=app\njobs = host=x dbname=d user=jobs", "--background-user sidekiq"],
    ),
    (
        "L36",
        ["", ONE, "--replicas 2 --tenants 1 --max-connections 60"],
        "2 x 2 x (20 + 0) = 80",
        ["", ONE, "--replicas 2 --tenants 1 --max-connections 90"],
    ),
    (
        "L37",
        ["max_user_connections = 10\nmin_pool_size = 6", "a = host=x user=u\nb = host=x user=u", ""],
        "2 databases = 12 servers",
        ["max_user_connections = 12\nmin_pool_size = 6", "a = host=x user=u\nb = host=x user=u", ""],
    ),
];

#[test]
fn each_rule_fires_where_it_has_to_and_nowhere_else() {
    for (rule, [settings, databases, words], part, [good_settings, good_databases, good_words]) in PAIRS {
        let words: Vec<&str> = words.split_whitespace().collect();
        let findings = ini(settings, databases, &words);
        let fired = findings.found.iter().any(|finding| finding.rule == *rule);
        assert!(fired, "{rule} did not fire on {settings:?} {databases:?}");
        expect(&findings, rule, &[part]);
        let words: Vec<&str> = good_words.split_whitespace().collect();
        expect_good(&ini(good_settings, good_databases, &words), rule);
    }
}

#[test]
fn a_rule_without_its_input_says_what_it_needs() {
    for (rule, settings, databases, needs) in [
        ("L01", "min_pool_size = 5\nmax_db_connections = 10", ONE, "--tenants"),
        ("L02", "max_db_connections = 10", ONE, "--tenants"),
        ("L03", "max_db_connections = 10", ONE, "--tenants"),
        ("L04", "", ONE, "--max-connections, --replicas"),
        ("L05", "max_db_connections = 50", ONE, "--tenants"),
        ("L06", "", ONE, "--open-files"),
        ("L07", "", ONE, "--tenants"),
        ("L09", "pool_mode = transaction", ONE, "--migration-user"),
        ("L11", "", ONE, "--client-timeout"),
        ("L12", "", ONE, "--failover-budget"),
        ("L13", "", ONE, "--client-connect-timeout"),
        ("L15", "", ONE, "--gap"),
        ("L16", "reserve_pool_size = 1", ONE, "--slo"),
        ("L17", "", ONE, "--drivers"),
        ("L22", "", ONE, "--channel-binding"),
        ("L27", "", ONE, "--connect-burst"),
        ("L32", "pool_mode = transaction", ONE, "--plan-memory"),
        ("L34", "default_pool_size = 1", ONE, "--replicas"),
        ("L35", "", "d = host=x user=u", "--background-user"),
        ("L36", "", ONE, "--max-connections, --replicas"),
        (
            "L37",
            "max_user_connections = 10\nmin_pool_size = 6",
            ONE,
            "the users of each database: user= in [databases]",
        ),
    ] {
        let findings = ini(settings, databases, &[]);
        expect(&findings, rule, &[&format!("needs {needs}")]);
        assert!(!findings.good.contains(&rule), "{rule} is called good");
    }
}

#[test]
fn without_a_database_no_rule_about_pools_is_called_good() {
    let findings = ini("max_db_connections = 10", "", &[]);
    for rule in ["L01", "L04", "L08", "L11", "L36"] {
        expect(&findings, rule, &["needs a database"]);
    }
    expect(&findings, "L14", &["7,200 s"]);
    expect(&ini("tcp_keepidle = 7200", ONE, &[]), "L14", &["probes begin after 7,200 s"]);
}

#[test]
fn trunkline_is_judged_by_what_it_does() {
    let ours =
        |settings: &str, words: &[&str]| lint_all(&[&format!("[trunkline]\n{settings}\n[databases]\n{ONE}\n")], words);
    let findings = ours("pool_mode = transaction\nmin_pool_size = 6\nmax_db_connections = 10", &["--tenants", "2"]);
    expect(&findings, "L01", &["W 2 users"]);
    expect_good(&findings, "L09");
    expect_good(&findings, "L17");
    expect(
        &ours("pool_mode = transaction\nsession_state = pgbouncer", &["--migration-user", "m"]),
        "L09",
        &["user m has no line"],
    );
    let old =
        ini("min_pool_size = 6\nmax_db_connections = 10", ONE, &["--tenants", "2", "--pgbouncer-version", "1.18"]);
    expect(&old, "L01", &["W 2 users"]);
}

#[test]
fn equal_cases_are_one_finding_with_their_number() {
    let databases: String = (0..500).map(|n| format!("d{n} = host=x\n")).collect();
    let findings = ini("query_wait_timeout = 0\npool_mode = transaction", &databases, &[]);
    let found: Vec<_> = findings.found.iter().filter(|finding| finding.rule == "L11").collect();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].subject.name, "database d0 and 499 more");
    assert_eq!(found[0].subject.line, 5);
}
