//! The configuration of a pooler for a spec: one file for Trunkline and for PgBouncer.
//!
//! Always true: every setting that the spec can say is written, so that the defaults of a version do not matter; what only Trunkline has is written
//! for Trunkline only.
//! Not here: the settings' meaning (docs/reference/settings.md).

use std::fmt::Write as _;
use std::time::Duration;

use pool::{Mode, Reuse};

use super::objects::Objects;
use crate::simulate::spec::Spec;

/// Where the pooler listens, and what it needs besides the spec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) port: u16,
    pub(super) server_host: &'a str,
    pub(super) server_port: u16,
    /// The user to switch to, if we are root.
    pub(super) become_name: Option<&'a str>,
    /// Who may ask its console.
    pub(super) admin: &'a str,
    /// Whether clients and servers want passwords.
    pub(super) has_passwords: bool,
    pub(super) is_ours: bool,
}

/// The file.
pub(super) fn ini(spec: &Spec, objects: &Objects, around: &Around<'_>) -> String {
    let mut text = String::from("[databases]\n");
    for (database, name) in spec.databases.iter().zip(&objects.databases) {
        let pooler = &database.pooler;
        let tenants = database.groups.iter().map(|group| group.tenants).sum();
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "{name} = host={} port={} dbname={name} pool_size={} min_pool_size={} reserve_pool={} max_db_connections={} pool_mode={}",
            around.server_host,
            around.server_port,
            pooler.limits.servers_max,
            pooler.limits.servers_min,
            pooler.limits.reserve_max,
            pooler.database_limit(tenants),
            match pooler.limits.mode {
                Mode::Session => "session",
                Mode::Transaction => "transaction",
                Mode::Statement => "statement",
            },
        );
    }
    let first = spec.databases.first().map(|database| database.pooler.clone()).unwrap_or_default();
    let limits = &first.limits;
    let mut lines = vec![
        ("max_client_conn", if first.clients_max == 0 { 10_000 } else { first.clients_max }.to_string()),
        ("max_user_connections", first.user_max.to_string()),
        ("reserve_pool_timeout", seconds(limits.reserve_after)),
        ("query_wait_timeout", seconds(limits.wait_max)),
        ("server_idle_timeout", seconds(limits.idle_max)),
        ("server_lifetime", seconds(limits.lifetime_max)),
        ("server_check_delay", seconds(limits.check_after)),
        ("server_login_retry", seconds(Some(limits.retry_after))),
        ("server_round_robin", u8::from(limits.reuse == Reuse::Oldest).to_string()),
        ("log_connections", "0".to_owned()),
        ("log_disconnections", "0".to_owned()),
    ];
    if around.is_ours {
        lines.push(("server_dials_max", limits.dials_max.to_string()));
    }
    lines.extend(own(around));
    text.push_str("\n[pgbouncer]\n");
    for (name, value) in lines {
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

/// The settings of a given file, with our databases, port and users; its limits of databases and users are left out, because they are of others.
pub(super) fn given(file: &str, objects: &Objects, around: &Around<'_>) -> String {
    let mut text = String::from("[databases]\n");
    for name in &objects.databases {
        let _ = writeln!(text, "{name} = host={} port={} dbname={name}", around.server_host, around.server_port);
    }
    text.push_str("\n[pgbouncer]\n");
    let mut section = "";
    for line in file.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let key = line.split_once('=').map_or("", |(key, _)| key.trim());
        if section == "pgbouncer" && !key.is_empty() && !line.starts_with([';', '#']) && !OUR_OWN.contains(&key) {
            let _ = writeln!(text, "{line}");
        }
    }
    for (name, value) in own(around) {
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

/// What is ours whatever is configured.
fn own(around: &Around<'_>) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("listen_addr", "127.0.0.1".to_owned()),
        ("listen_port", around.port.to_string()),
        ("unix_socket_dir", String::new()),
        ("auth_type", if around.has_passwords { "plain" } else { "trust" }.to_owned()),
        ("auth_file", USERS.to_owned()),
        ("admin_users", around.admin.to_owned()),
    ];
    lines.extend(around.become_name.map(|name| ("user", name.to_owned())));
    lines
}

/// Keys of a given file that would reach outside of the run.
const OUR_OWN: [&str; 20] = [
    "admin_users",
    "auth_dbname",
    "auth_file",
    "auth_hba_file",
    "auth_ident_file",
    "auth_query",
    "auth_type",
    "auth_user",
    "client_tls_sslmode",
    "listen_addr",
    "listen_port",
    "logfile",
    "pidfile",
    "resolv_conf",
    "so_reuseport",
    "stats_users",
    "syslog",
    "unix_socket_dir",
    "user",
    "%include",
];

/// The file with the users, beside the configuration.
pub(super) const USERS: &str = "users.txt";

/// The lines of the file with the users.
pub(super) fn users(roles: &[&str], password: &str) -> String {
    roles.iter().map(|role| format!("\"{role}\" \"{password}\"\n")).collect()
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or(0.0, |time| time.as_secs_f64()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::demand::spec_of_text;

    #[test]
    fn the_file_says_what_the_spec_says() {
        let (_, spec) = spec_of_text(
            "[pooler]\ndefault_pool_size = 7\nconns_per_tenant = 2.5\nserver_idle_timeout = '1.5 s'\nquery_wait_timeout = 9\n\
             [[databases]]\n[[databases.tenants]]\ncount = 4\narrivals = { poisson = 1 }\n\
             [[databases.tenants.transactions]]\nservice = '1 ms'\n",
        )
        .expect("a spec");
        let around = Around {
            port: 6000,
            server_host: "127.0.0.1",
            server_port: 5000,
            become_name: Some("postgres"),
            admin: "demo",
            has_passwords: false,
            is_ours: true,
        };
        let objects = Objects::of(&spec);
        let text = ini(&spec, &objects, &around);
        for line in [
            "tlsim_1 = host=127.0.0.1 port=5000 dbname=tlsim_1 pool_size=7 min_pool_size=0 reserve_pool=0 max_db_connections=10 pool_mode=transaction",
            "listen_port = 6000",
            "server_idle_timeout = 1.5",
            "query_wait_timeout = 9",
            "server_lifetime = 3600",
            "user = postgres",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.contains("server_dials_max"));
        let theirs = ini(&spec, &objects, &Around { is_ours: false, become_name: None, ..around });
        assert!(!theirs.contains("server_dials_max") && !theirs.contains("\nuser ="));
        let file = "[databases]\n* = host=production\n[pgbouncer]\n; no\npool_mode = session\nlisten_port=6432\nlogfile = /x\n[users]\nx = max_user_connections=1\n";
        let given = given(file, &objects, &around);
        assert!(given.contains("pool_mode = session\n") && given.contains("listen_port = 6000\n"), "{given}");
        assert!(!given.contains("production") && !given.contains("6432") && !given.contains("/x"), "{given}");
        assert_eq!(users(&["a", "b"], "x"), "\"a\" \"x\"\n\"b\" \"x\"\n");
    }
}
