//! One database that clients may ask for: a line of `[databases]`.
//!
//! Always true: it has a name that PostgreSQL can hold, a port that is not 0, and at least one host. Its password is never
//! printed. Equal texts of several databases are one text in memory.
//! Not here: what it inherits from the settings (`limits`).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pool::Mode;
use protocol::state::Unseen;

use crate::catalog::{Policies, SessionState, Words};
use crate::host::Host;
use crate::mistake::Wrong;
use crate::pairs::{count, limit, mode, pairs, policies, port, time, unrecognized, word};

/// A database as clients see it, and where its servers are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Database {
    /// The name clients ask for; `*` in the fallback.
    pub name: Arc<str>,
    /// The name of the database on its servers.
    pub dbname: Arc<str>,
    /// Where its servers are; never empty.
    pub hosts: Vec<Host>,
    /// The hosts as they were written; `None` stands for the unix socket in `unix_socket_dir`.
    pub host_text: Option<Arc<str>>,
    /// The port of every host.
    pub port: u16,
    /// The user of every server, whoever the client is.
    pub user: Option<Arc<str>>,
    /// The password of that user.
    pub password: Option<Password>,
    /// Servers of one pool; 0 is unlimited; `None` is `default_pool_size`.
    pub pool_size: Option<u32>,
    /// Servers that are kept open; `None` is the setting of this name.
    pub min_pool_size: Option<u32>,
    /// Servers beyond the size; `None` is the setting of this name.
    pub reserve_pool_size: Option<u32>,
    /// Replication connections of one pool apart from its size, 0 for in it; `None` is the setting of this name.
    pub replication_pool_size: Option<u32>,
    /// How old a server may become; `None` is the setting of this name.
    pub server_lifetime: Option<Duration>,
    /// How long a client may wait for a server (`Some(None)` is for ever); `None` is the setting of this name.
    pub query_wait_timeout: Option<Option<Duration>>,
    /// When a server is given back; `None` is the setting of this name.
    pub pool_mode: Option<Mode>,
    /// What becomes of the state of a session; `None` is the setting of this name.
    pub session_state: Option<SessionState>,
    /// What is done about what sessions hold; what it does not say is the setting of this name.
    pub session_policy: Policies,
    /// What is done about what functions may have changed in a session.
    pub session_unseen: Option<Unseen>,
    /// Servers of a pool that may be kept, 0 for any number; `None` is the setting of this name.
    pub max_pinned_servers: Option<u32>,
    /// For how long (`Some(None)` is for ever); `None` is the setting of this name.
    pub pinned_server_timeout: Option<Option<Duration>>,
    /// Servers over all users, never 0; `None` is the setting of this name.
    pub max_db_connections: Option<u32>,
    /// Clients, never 0; `None` is the setting of this name.
    pub max_db_client_connections: Option<u32>,
    /// Which of several hosts is dialed.
    pub load_balance_hosts: LoadBalance,
    /// SQL that every server is told after its login.
    pub connect_query: Option<Arc<str>>,
    /// A parameter of the server's startup packet.
    pub client_encoding: Option<Arc<str>>,
    /// A parameter of the server's startup packet.
    pub datestyle: Option<Arc<str>>,
    /// A parameter of the server's startup packet.
    pub timezone: Option<Arc<str>>,
    /// A parameter of the server's startup packet.
    pub application_name: Option<Arc<str>>,
    /// Who asks `auth_query`; `None` is the setting of this name.
    pub auth_user: Option<Arc<str>>,
    /// Where it is asked; `None` is the setting of this name.
    pub auth_dbname: Option<Arc<str>>,
    /// What is asked; `None` is the setting of this name.
    pub auth_query: Option<Arc<str>>,
    /// Whether it was made from the fallback, because a client asked for its name.
    pub automatic: bool,
}

/// Which of several hosts is dialed (`load_balance_hosts`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoadBalance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The same until it fails, then the next.
    Disable,
}

/// A password in clear text. Its `Debug` does not say it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<str>);

impl Password {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text itself, for a login and nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Words for LoadBalance {
    const ALL: &'static [(&'static str, Self)] = &[("round-robin", Self::RoundRobin), ("disable", Self::Disable)];
}

impl Database {
    /// A database of which nothing but the name is known.
    pub(crate) fn named(name: Arc<str>) -> Self {
        Self {
            dbname: Arc::clone(&name),
            name,
            hosts: Vec::new(),
            host_text: None,
            port: PORT,
            user: None,
            password: None,
            pool_size: None,
            min_pool_size: None,
            reserve_pool_size: None,
            replication_pool_size: None,
            server_lifetime: None,
            query_wait_timeout: None,
            pool_mode: None,
            session_state: None,
            session_policy: Policies::default(),
            session_unseen: None,
            max_pinned_servers: None,
            pinned_server_timeout: None,
            max_db_connections: None,
            max_db_client_connections: None,
            load_balance_hosts: LoadBalance::default(),
            connect_query: None,
            client_encoding: None,
            datestyle: None,
            timezone: None,
            application_name: None,
            auth_user: None,
            auth_dbname: None,
            auth_query: None,
            automatic: false,
        }
    }

    /// A line of `[databases]`. Without `host=` its hosts are still empty, since the settings are not yet known.
    pub(crate) fn parse(name: &str, value: &str, texts: &mut Texts) -> Result<Self, Vec<Wrong>> {
        check_name(name).map_err(|wrong| vec![wrong])?;
        if value.starts_with("postgres://") || value.starts_with("postgresql://") {
            let wrong = Wrong::new("syntax error in connection string: a URL is not understood here");
            return Err(vec![wrong.advise(Some("write host=HOST port=PORT dbname=NAME".to_owned()))]);
        }
        let mut database = Self::named(texts.share(name));
        let mut wrongs = Vec::new();
        for (key, value) in pairs(value).map_err(|wrong| vec![wrong])? {
            // What stands behind the semicolon may be a password: the value is not told.
            match swallowed(key, &value) {
                Some(wrong) => wrongs.push(wrong),
                None => wrongs.extend(database.assign(key, &value, texts).err()),
            }
        }
        if wrongs.is_empty() { Ok(database) } else { Err(wrongs) }
    }

    fn assign(&mut self, key: &str, value: &str, texts: &mut Texts) -> Result<(), Wrong> {
        match key {
            "dbname" => self.dbname = texts.share(value),
            "host" => {
                self.hosts = value.split(',').map(|host| Host::parse(host.trim())).collect::<Result<_, _>>()?;
                self.host_text = Some(texts.share(value));
            }
            "port" => self.port = port(value)?,
            "user" => self.user = Some(texts.share(value)),
            "password" => self.password = Some(Password(texts.share(value))),
            "auth_user" => self.auth_user = Some(texts.share(value)),
            // As in PgBouncer, the console is no answer, which is told to whoever logs in.
            "auth_dbname" => {
                self.auth_dbname = Some(texts.share(value));
            }
            "auth_query" => self.auth_query = Some(texts.share(value)),
            "pool_size" => self.pool_size = count(key, value)?,
            "min_pool_size" => self.min_pool_size = count(key, value)?,
            "reserve_pool_size" | "reserve_pool" => self.reserve_pool_size = count(key, value)?,
            "replication_pool_size" => self.replication_pool_size = count(key, value)?,
            "server_lifetime" => self.server_lifetime = time(key, value)?.filter(|life| !life.is_zero()),
            "query_wait_timeout" => {
                self.query_wait_timeout = time(key, value)?.map(|wait| (!wait.is_zero()).then_some(wait));
            }
            "pool_mode" => self.pool_mode = Some(mode(value)?),
            "session_state" => self.session_state = Some(word(key, value)?),
            "session_policy" => self.session_policy = policies(value)?,
            "session_unseen" => self.session_unseen = Some(word(key, value)?),
            "max_pinned_servers" => self.max_pinned_servers = count(key, value)?,
            "pinned_server_timeout" => {
                self.pinned_server_timeout = time(key, value)?.map(|limit| (!limit.is_zero()).then_some(limit));
            }
            "max_db_connections" => self.max_db_connections = limit(key, value)?,
            "max_db_client_connections" => self.max_db_client_connections = limit(key, value)?,
            "load_balance_hosts" => self.load_balance_hosts = word(key, value)?,
            "connect_query" => self.connect_query = Some(texts.share(value)),
            "client_encoding" => self.client_encoding = Some(texts.share(value)),
            "datestyle" => self.datestyle = Some(texts.share(value)),
            "timezone" => self.timezone = Some(texts.share(value)),
            "application_name" => self.application_name = Some(texts.share(value)),
            _ => {
                let wrong = unrecognized("connection", key, DATABASE_KEYS);
                return Err(match of_libpq(key) {
                    Some(setting) => {
                        wrong.advise(Some(format!("it is the same for all servers: {setting} in [pgbouncer]")))
                    }
                    None => wrong,
                });
            }
        }
        Ok(())
    }

    /// The fallback under the name that a client asked for.
    pub(crate) fn instance(&self, name: &str) -> Self {
        let name: Arc<str> = name.into();
        let dbname = if self.dbname == self.name { Arc::clone(&name) } else { Arc::clone(&self.dbname) };
        Self { name, dbname, automatic: true, ..self.clone() }
    }
}

/// What is wrong with a name in `[databases]`, if anything is.
fn check_name(name: &str) -> Result<(), Wrong> {
    if name == RESERVED {
        return Err(Wrong::new(format!("database name \"{RESERVED}\" is reserved")));
    }
    if name.len() > base::NAME_BYTES_MAX {
        let text = format!("database name too long: {name} (expected at most {} bytes)", base::NAME_BYTES_MAX);
        return Err(Wrong::new(text));
    }
    Ok(())
}

/// A pair that stands in the value of the one before it, since a semicolon separates nothing. What may well contain one is not looked at.
fn swallowed(key: &str, value: &str) -> Option<Wrong> {
    if matches!(key, "password" | "connect_query" | "auth_query" | "application_name") {
        return None;
    }
    let mut parts = value.split(';').skip(1).filter_map(|part| part.split_once('='));
    let (inner, _) = parts.find(|(inner, _)| DATABASE_KEYS.contains(&inner.trim()))?;
    let wrong = Wrong::new(format!("the value of {key} contains \";{}=\"", inner.trim()));
    Some(wrong.advise(Some("pairs are separated by spaces".to_owned())))
}

/// The setting that stands for a word of libpq's connection strings.
fn of_libpq(key: &str) -> Option<&'static str> {
    Some(match key {
        "sslmode" | "requiressl" => "server_tls_sslmode",
        "sslrootcert" => "server_tls_ca_file",
        "sslcert" => "server_tls_cert_file",
        "sslkey" => "server_tls_key_file",
        "connect_timeout" => "server_connect_timeout",
        "keepalives" => "tcp_keepalive",
        _ => return None,
    })
}

/// The console has no table of secrets.
pub(crate) fn check_auth_dbname(value: &str) -> Result<(), Wrong> {
    if value == RESERVED {
        return Err(Wrong::new(format!("cannot use the reserved \"{RESERVED}\" database as an auth_dbname")));
    }
    Ok(())
}

/// Texts that are in memory once, however many databases say them.
#[derive(Default)]
pub(crate) struct Texts(HashSet<Arc<str>>);

impl Texts {
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// The keys of a line of `[databases]`.
pub(crate) const DATABASE_KEYS: &[&str] = &[
    "dbname",
    "host",
    "port",
    "user",
    "password",
    "auth_user",
    "auth_dbname",
    "auth_query",
    "pool_size",
    "min_pool_size",
    "reserve_pool_size",
    "reserve_pool",
    "server_lifetime",
    "query_wait_timeout",
    "pool_mode",
    "max_db_connections",
    "max_db_client_connections",
    "load_balance_hosts",
    "connect_query",
    "client_encoding",
    "datestyle",
    "timezone",
    "application_name",
    "replication_pool_size",
    "session_state",
    "session_policy",
    "session_unseen",
    "max_pinned_servers",
    "pinned_server_timeout",
];
/// The name of the fallback.
pub(crate) const FALLBACK: &str = "*";
/// The name of the console.
pub(crate) const RESERVED: &str = "pgbouncer";
/// PostgreSQL's port.
const PORT: u16 = 5432;

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
