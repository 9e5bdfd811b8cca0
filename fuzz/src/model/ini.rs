//! Writes a configuration back as text.
//!
//! Always true: the text has all that the settings have, except for precision that a time loses in `SHOW CONFIG`.

use std::fmt::Write as _;
use std::time::Duration;

use config::{Database, LoadBalance, Settings, UserSettings};
use pool::Mode;

/// The text of these settings.
pub(crate) fn written(settings: &Settings) -> String {
    let mut text = String::from("[pgbouncer]\n");
    for shown in settings.show() {
        if let Some(value) = shown.value {
            line(&mut text, shown.key, &value);
        }
    }
    text.push_str("[databases]\n");
    for database in settings.databases.values().chain(&settings.fallback) {
        line(&mut text, &quoted_key(&database.name), &database_line(database));
    }
    text.push_str("[users]\n");
    for user in settings.users.values() {
        line(&mut text, &quoted_key(&user.name), &user_line(user));
    }
    text.push_str("[peers]\n");
    for peer in settings.peers.values() {
        let mut pairs = Pairs::default();
        pairs.text("host", Some(&peer.host_text));
        pairs.number("port", Some(peer.port.into()));
        pairs.number("pool_size", peer.pool_size);
        line(&mut text, &peer.id.to_string(), &pairs.0);
    }
    text
}

/// Returns whether a time is so long that the floating point numbers of the file cannot represent its microseconds.
pub(crate) fn has_endless_times(settings: &Settings) -> bool {
    let of_databases = settings.databases.values().chain(&settings.fallback);
    let of_databases =
        of_databases.flat_map(|database| [database.server_lifetime, database.query_wait_timeout.flatten()]);
    let of_users = settings.users.values().flat_map(|user| {
        let wait = user.query_wait_timeout.flatten();
        [wait, user.query_timeout, user.idle_transaction_timeout, user.transaction_timeout, user.client_idle_timeout]
    });
    of_databases.chain(of_users).flatten().any(|time| time > EXACT_MAX)
}

fn line(text: &mut String, key: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{key} = {value}");
}

/// Returns the name in quotes that it does not contain. A name that contains both kinds could not have been read.
fn quoted_key(name: &str) -> String {
    let quote = if name.contains('"') { '\'' } else { '"' };
    assert!(!name.contains(quote), "a name that nobody can write: {name:?}");
    format!("{quote}{name}{quote}")
}

fn database_line(database: &Database) -> String {
    let mut pairs = Pairs::default();
    pairs.text("dbname", Some(&database.dbname));
    pairs.text("host", database.host_text.as_deref());
    pairs.number("port", Some(database.port.into()));
    pairs.text("user", database.user.as_deref());
    pairs.text("password", database.password.as_ref().map(|password| password.expose()));
    pairs.text("auth_user", database.auth_user.as_deref());
    pairs.text("auth_dbname", database.auth_dbname.as_deref());
    pairs.text("auth_query", database.auth_query.as_deref());
    pairs.number("pool_size", database.pool_size);
    pairs.number("min_pool_size", database.min_pool_size);
    pairs.number("reserve_pool_size", database.reserve_pool_size);
    pairs.time("server_lifetime", database.server_lifetime);
    pairs.time("query_wait_timeout", database.query_wait_timeout.map(Option::unwrap_or_default));
    pairs.text("pool_mode", database.pool_mode.map(word));
    pairs.number("max_db_connections", database.max_db_connections);
    pairs.number("max_db_client_connections", database.max_db_client_connections);
    pairs.text(
        "load_balance_hosts",
        Some(match database.load_balance_hosts {
            LoadBalance::RoundRobin => "round-robin",
            LoadBalance::Disable => "disable",
            LoadBalance::LeastBusy => "least-busy",
        }),
    );
    pairs.text("connect_query", database.connect_query.as_deref());
    pairs.text("client_encoding", database.client_encoding.as_deref());
    pairs.text("datestyle", database.datestyle.as_deref());
    pairs.text("timezone", database.timezone.as_deref());
    pairs.text("application_name", database.application_name.as_deref());
    pairs.0
}

fn user_line(user: &UserSettings) -> String {
    let mut pairs = Pairs::default();
    pairs.text("pool_mode", user.pool_mode.map(word));
    pairs.number("pool_size", user.pool_size);
    pairs.number("reserve_pool_size", user.reserve_pool_size);
    pairs.number("max_user_connections", user.max_user_connections);
    pairs.number("max_user_client_connections", user.max_user_client_connections);
    pairs.time("query_timeout", user.query_timeout);
    pairs.time("idle_transaction_timeout", user.idle_transaction_timeout);
    pairs.time("transaction_timeout", user.transaction_timeout);
    pairs.time("client_idle_timeout", user.client_idle_timeout);
    pairs.time("query_wait_timeout", user.query_wait_timeout.map(Option::unwrap_or_default));
    pairs.0
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Session => "session",
        Mode::Transaction => "transaction",
        Mode::Statement => "statement",
    }
}

/// A connection string under construction.
#[derive(Default)]
struct Pairs(String);

impl Pairs {
    fn text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            let _ = write!(self.0, "{key}='{}' ", value.replace('\'', "''"));
        }
    }

    fn number(&mut self, key: &str, value: Option<u32>) {
        self.text(key, value.map(|value| value.to_string()).as_deref());
    }

    fn time(&mut self, key: &str, value: Option<Duration>) {
        let seconds = |value: Duration| format!("{}.{:06}", value.as_secs(), value.subsec_micros());
        self.text(key, value.map(seconds).as_deref());
    }
}

/// Beyond 2^52 microseconds not all numbers are exact in floating point.
const EXACT_MAX: Duration = Duration::from_micros(1 << 52);
