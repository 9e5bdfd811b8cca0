//! A database that clients may connect to: a line of `[databases]`.
//!
//! Always true: its name fits into PostgreSQL's limit, its port is not 0, and it has at least one host. Its password is
//! never printed. Equal texts of several databases share their memory.
//! Not here: what it inherits from the settings (`limits`).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cluster::LagLimit;
use pool::Mode;
use protocol::state::Unseen;

use crate::catalog::{Policies, ReadRouting, SessionState, Words};
use crate::cluster::Cluster;
use crate::host::{Host, PORT, match_ports, ports};
use crate::host_traits::HostTraits;
use crate::mistake::Wrong;
use crate::pairs::{count, limit, mode, pairs, policies, time, unrecognized, word};
use crate::replica_terms::{WhenNoReplica, set_limit};

/// A database as clients see it, and the location of its servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Database {
    /// The name in the clients' startup packets; `*` for the fallback.
    pub name: Arc<str>,
    /// The name of the database on its hosts.
    pub dbname: Arc<str>,
    /// The hosts; empty only while no member of its cluster is known.
    pub hosts: Vec<Host>,
    /// The hosts as written; `None` stands for the unix socket in `unix_socket_dir`.
    pub host_text: Option<Arc<str>>,
    /// The port of the first host, and of all of them unless [`Database::port_at`] says otherwise.
    pub port: u16,
    /// The port of each host, if they were given one each.
    ports: Vec<u16>,
    /// The weights and zones of the hosts.
    traits: HostTraits,
    /// The cluster that its hosts are those of, instead of hosts of its own.
    pub cluster: Option<Arc<str>>,
    /// The forced user of every server, whoever the client is.
    pub user: Option<Arc<str>>,
    /// The password of that user.
    pub password: Option<Password>,
    /// Most servers of one pool; 0 is unlimited; `None` inherits `default_pool_size`.
    pub pool_size: Option<u32>,
    /// Servers that are kept open; `None` inherits the setting of this name.
    pub min_pool_size: Option<u32>,
    /// Servers beyond `pool_size`; `None` inherits the setting of this name.
    pub reserve_pool_size: Option<u32>,
    /// Replication connections of one pool besides `pool_size`, 0 to count them within it; `None` inherits the setting
    /// of this name.
    pub replication_pool_size: Option<u32>,
    /// Maximum age of a server; `None` inherits the setting of this name.
    pub server_lifetime: Option<Duration>,
    /// How long a client may wait for a server (`Some(None)` is for ever); `None` inherits the setting of this name.
    pub query_wait_timeout: Option<Option<Duration>>,
    /// When a loan ends; `None` inherits the setting of this name.
    pub pool_mode: Option<Mode>,
    /// What happens to session state; `None` inherits the setting of this name.
    pub session_state: Option<SessionState>,
    /// The policies for session state; missing ones are inherited from the setting of this name.
    pub session_policy: Policies,
    /// What to do about possible session changes by functions; `None` inherits the setting of this name.
    pub session_unseen: Option<Unseen>,
    /// Most pinned servers of a pool, 0 is unlimited; `None` inherits the setting of this name.
    pub max_pinned_servers: Option<u32>,
    /// How long a server may be pinned (`Some(None)` is for ever); `None` inherits the setting of this name.
    pub pinned_server_timeout: Option<Option<Duration>>,
    /// Most servers over all users, never 0; `None` inherits the setting of this name.
    pub max_db_connections: Option<u32>,
    /// Most clients, never 0; `None` inherits the setting of this name.
    pub max_db_client_connections: Option<u32>,
    /// Which of several hosts is dialed.
    pub load_balance_hosts: LoadBalance,
    /// What a host has to be for its servers to be used.
    pub target_session_attrs: SessionAttrs,
    /// How far a replica of its cluster may be behind to be used.
    pub max_lag: LagLimit,
    /// What its clients get when no replica may be used.
    pub when_no_replica: WhenNoReplica,
    /// The PROXY protocol header with which each connection to a host begins.
    pub proxy_protocol: ProxyProtocol,
    /// SQL that every server receives after its login.
    pub connect_query: Option<Arc<str>>,
    /// A parameter of the startup packet for servers.
    pub client_encoding: Option<Arc<str>>,
    /// A parameter of the startup packet for servers.
    pub datestyle: Option<Arc<str>>,
    /// A parameter of the startup packet for servers.
    pub timezone: Option<Arc<str>>,
    /// A parameter of the startup packet for servers.
    pub application_name: Option<Arc<str>>,
    /// The user who runs `auth_query`; `None` inherits the setting of this name.
    pub auth_user: Option<Arc<str>>,
    /// The database in which `auth_query` runs; `None` inherits the setting of this name.
    pub auth_dbname: Option<Arc<str>>,
    /// The query itself; `None` inherits the setting of this name.
    pub auth_query: Option<Arc<str>>,
    /// Which requests of its clients go to replicas of its cluster; `None` inherits the setting of this name.
    pub read_routing: Option<ReadRouting>,
    /// Whether it was made from the fallback, because a client asked for its name.
    pub automatic: bool,
    /// The name of the line that it is derived from, as its replicas are.
    pub(crate) derived_from: Option<Arc<str>>,
}

/// Which of several hosts is dialed (`load_balance_hosts`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoadBalance {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The same host until it fails, then the next.
    Disable,
    /// The one at which the database has the fewest servers, relative to the weights of the hosts.
    LeastBusy,
}

/// What a host has to be for its servers to be used (`target_session_attrs`, as in libpq).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SessionAttrs {
    /// Anything.
    #[default]
    Any,
    /// A server that is not in recovery, and on which transactions may write (`default_transaction_read_only = off`).
    ReadWrite,
    /// A server that is in recovery, or on which transactions may not write.
    ReadOnly,
    /// A server that is not in recovery.
    Primary,
    /// A server that is in recovery.
    Standby,
    /// A server that is in recovery; another one while there is none.
    PreferStandby,
}

/// Which hosts of a cluster a database is on (`role`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Role {
    #[default]
    Primary,
    Replica,
    Any,
}

impl Role {
    /// What that is in libpq's words.
    fn attrs(self) -> SessionAttrs {
        match self {
            Self::Primary => SessionAttrs::ReadWrite,
            Self::Replica => SessionAttrs::Standby,
            Self::Any => SessionAttrs::Any,
        }
    }
}

/// What a line has said, as far as its other keys depend on that.
#[derive(Default)]
struct Written {
    role: Option<Role>,
    has_attrs: bool,
    has_port: bool,
}

/// The PROXY protocol header with which each connection to a host, or to a peer, begins (`proxy_protocol`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProxyProtocol {
    /// None.
    #[default]
    Off,
    /// Of version 1.
    V1,
    /// Of version 2.
    V2,
}

/// A password in clear text, which `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<str>);

impl Password {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text itself, only for a login.
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

impl Words for SessionAttrs {
    const ALL: &'static [(&'static str, Self)] = &[
        ("any", Self::Any),
        ("read-write", Self::ReadWrite),
        ("read-only", Self::ReadOnly),
        ("primary", Self::Primary),
        ("standby", Self::Standby),
        ("prefer-standby", Self::PreferStandby),
    ];
}

impl Words for Role {
    const ALL: &'static [(&'static str, Self)] =
        &[("primary", Self::Primary), ("replica", Self::Replica), ("any", Self::Any)];
}

impl Words for ProxyProtocol {
    const ALL: &'static [(&'static str, Self)] = &[("off", Self::Off), ("v1", Self::V1), ("v2", Self::V2)];
}

impl Words for LoadBalance {
    const ALL: &'static [(&'static str, Self)] =
        &[("round-robin", Self::RoundRobin), ("disable", Self::Disable), ("least-busy", Self::LeastBusy)];
}

impl Database {
    /// A database with defaults for everything but its name.
    pub(crate) fn named(name: Arc<str>) -> Self {
        Self {
            dbname: Arc::clone(&name),
            name,
            hosts: Vec::new(),
            host_text: None,
            port: PORT,
            ports: Vec::new(),
            traits: HostTraits::default(),
            cluster: None,
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
            target_session_attrs: SessionAttrs::default(),
            max_lag: LagLimit::default(),
            when_no_replica: WhenNoReplica::default(),
            proxy_protocol: ProxyProtocol::default(),
            connect_query: None,
            client_encoding: None,
            datestyle: None,
            timezone: None,
            application_name: None,
            auth_user: None,
            auth_dbname: None,
            auth_query: None,
            read_routing: None,
            automatic: false,
            derived_from: None,
        }
    }

    /// Parses a line of `[databases]`. Without `host=` its hosts stay empty for now, because the settings are not known
    /// yet.
    pub(crate) fn parse(name: &str, value: &str, texts: &mut Texts) -> Result<Self, Vec<Wrong>> {
        check_name(name).map_err(|wrong| vec![wrong])?;
        if value.starts_with("postgres://") || value.starts_with("postgresql://") {
            let wrong = Wrong::new("syntax error in connection string: a URL is not understood here");
            return Err(vec![wrong.advise(Some("write host=HOST port=PORT dbname=NAME".to_owned()))]);
        }
        let mut database = Self::named(texts.share(name));
        let mut written = Written::default();
        let mut wrongs = Vec::new();
        for (key, value) in pairs(value).map_err(|wrong| vec![wrong])? {
            // The text after the semicolon may be a password, so the value is not repeated.
            match swallowed(key, &value) {
                Some(wrong) => wrongs.push(wrong),
                None => wrongs.extend(database.assign(key, &value, texts, &mut written).err()),
            }
        }
        if wrongs.is_empty() {
            wrongs.extend(match_ports(&mut database.ports, database.hosts.len().max(1)).err());
            wrongs.extend(database.check_cluster(&written).err());
            wrongs.extend(database.traits.match_hosts(database.hosts.len().max(1)).err().filter(|_| wrongs.is_empty()));
        }
        if wrongs.is_empty() { Ok(database) } else { Err(wrongs) }
    }

    /// A database has the hosts of its cluster or some of its own, and asks for one role of them. Those of a cluster are its primary's
    /// clients unless the line says otherwise.
    fn check_cluster(&mut self, written: &Written) -> Result<(), Wrong> {
        self.check_role(written)?;
        let has_primary = self.cluster_of_primary().is_some();
        if self.read_routing.is_some_and(|routing| routing != ReadRouting::Off) && !has_primary {
            let advice = "reads go to the replicas of the cluster whose primary the other requests go to";
            return Err(Wrong::new("read_routing= needs cluster= with role=primary").advise(Some(advice.to_owned())));
        }
        self.check_replicas()
    }

    fn check_replicas(&mut self) -> Result<(), Wrong> {
        if !self.max_lag.is_none() && self.cluster.is_none() {
            let advice = "how far a replica is behind is known of the hosts of a cluster";
            return Err(Wrong::new("max_lag= and max_lag_time= need cluster=").advise(Some(advice.to_owned())));
        }
        match (self.when_no_replica, self.target_session_attrs) {
            (WhenNoReplica::Wait, _) | (WhenNoReplica::Refuse, SessionAttrs::Standby) => Ok(()),
            (WhenNoReplica::Primary, SessionAttrs::Standby) => {
                self.target_session_attrs = SessionAttrs::PreferStandby;
                Ok(())
            }
            (WhenNoReplica::Primary | WhenNoReplica::Refuse, _) => {
                Err(Wrong::new("when_no_replica= needs role=replica or target_session_attrs=standby"))
            }
        }
    }

    fn check_role(&mut self, written: &Written) -> Result<(), Wrong> {
        if self.cluster.is_none() {
            let advice = "target_session_attrs= says what a host of host= has to be";
            return match written.role {
                Some(_) => Err(Wrong::new("role= needs cluster=").advise(Some(advice.to_owned()))),
                None => Ok(()),
            };
        }
        if !self.hosts.is_empty() || written.has_port {
            let advice = "the hosts and ports of a cluster stand in [clusters]";
            return Err(Wrong::new("cluster= excludes host= and port=").advise(Some(advice.to_owned())));
        }
        if !self.traits.is_empty() {
            let advice = "the weights and zones of a cluster's hosts stand in [clusters]";
            return Err(Wrong::new("cluster= excludes weights= and zones=").advise(Some(advice.to_owned())));
        }
        if self.proxy_protocol != ProxyProtocol::Off {
            let advice = "the hosts of a cluster are checked without a PROXY header: name PostgreSQL itself";
            return Err(Wrong::new("cluster= excludes proxy_protocol=").advise(Some(advice.to_owned())));
        }
        if written.role.is_some() && written.has_attrs {
            return Err(Wrong::new("role= and target_session_attrs= exclude each other"));
        }
        if !written.has_attrs {
            self.target_session_attrs = written.role.unwrap_or_default().attrs();
        }
        Ok(())
    }

    /// Takes the hosts of its cluster over.
    pub(crate) fn take_hosts(&mut self, cluster: &Cluster) {
        self.hosts.clone_from(&cluster.hosts);
        self.ports.clone_from(&cluster.ports);
        self.port = cluster.port;
        self.traits.clone_from(&cluster.traits);
        self.host_text = Some(Arc::clone(&cluster.host_text));
    }

    /// The cluster to whose primary its clients belong, which is one host at a time.
    #[must_use]
    pub fn cluster_of_primary(&self) -> Option<&Arc<str>> {
        let is_one_host = matches!(self.target_session_attrs, SessionAttrs::ReadWrite | SessionAttrs::Primary);
        self.cluster.as_ref().filter(|_| is_one_host)
    }

    /// The port of the host at this place of the list.
    #[must_use]
    pub fn port_at(&self, place: usize) -> u16 {
        self.ports.get(place).copied().unwrap_or(self.port)
    }

    /// The hosts with their ports.
    pub fn hosts_with_ports(&self) -> impl Iterator<Item = (&Host, u16)> {
        self.hosts.iter().enumerate().map(|(place, host)| (host, self.port_at(place)))
    }

    /// The weight of the host at this place: its share of the servers, relative to the others.
    #[must_use]
    pub fn weight_at(&self, place: usize) -> u32 {
        self.traits.weight_at(place)
    }

    /// The zone of the host at this place, if it has one.
    #[must_use]
    pub fn zone_at(&self, place: usize) -> Option<&Arc<str>> {
        self.traits.zone_at(place)
    }

    fn assign(&mut self, key: &str, value: &str, texts: &mut Texts, written: &mut Written) -> Result<(), Wrong> {
        match key {
            "dbname" => self.dbname = texts.share(value),
            "host" => {
                self.hosts = value.split(',').map(|host| Host::parse(host.trim())).collect::<Result<_, _>>()?;
                self.host_text = Some(texts.share(value));
            }
            "port" => {
                self.ports = ports(value)?;
                self.port = self.ports.first().copied().unwrap_or(PORT);
                written.has_port = true;
            }
            "weights" => self.traits.set_weights(value)?,
            "zones" => self.traits.set_zones(value)?,
            "user" => self.user = Some(texts.share(value)),
            "password" => self.password = Some(Password(texts.share(value))),
            "auth_user" => self.auth_user = Some(texts.share(value)),
            // As in PgBouncer, the console is accepted here, and the error occurs at a login.
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
            "read_routing" => self.read_routing = Some(word(key, value)?),
            "cluster" => self.cluster = Some(texts.share(value)),
            "role" => written.role = Some(word(key, value)?),
            "target_session_attrs" => {
                self.target_session_attrs = word(key, value)?;
                written.has_attrs = true;
            }
            "max_lag" | "max_lag_time" => set_limit(&mut self.max_lag, key, value)?,
            "when_no_replica" => self.when_no_replica = word(key, value)?,
            "proxy_protocol" => self.proxy_protocol = word(key, value)?,
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

    /// Makes a database from the fallback, with the name that a client asked for.
    pub(crate) fn instance(&self, name: &str) -> Self {
        let name: Arc<str> = name.into();
        let dbname = if self.dbname == self.name { Arc::clone(&name) } else { Arc::clone(&self.dbname) };
        Self { name, dbname, automatic: true, ..self.clone() }
    }
}

/// Checks a name in `[databases]`.
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

/// Finds a pair within the value of another one, because a semicolon separates no pairs. Values that may well contain
/// semicolons are not examined.
fn swallowed(key: &str, value: &str) -> Option<Wrong> {
    if matches!(key, "password" | "connect_query" | "auth_query" | "application_name") {
        return None;
    }
    let mut parts = value.split(';').skip(1).filter_map(|part| part.split_once('='));
    let (inner, _) = parts.find(|(inner, _)| DATABASE_KEYS.contains(&inner.trim()))?;
    let wrong = Wrong::new(format!("the value of {key} contains \";{}=\"", inner.trim()));
    Some(wrong.advise(Some("pairs are separated by spaces".to_owned())))
}

/// The setting that corresponds to a parameter of libpq's connection strings.
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

/// Refuses the console, which has no table of secrets.
pub(crate) fn check_auth_dbname(value: &str) -> Result<(), Wrong> {
    if value == RESERVED {
        return Err(Wrong::new(format!("cannot use the reserved \"{RESERVED}\" database as an auth_dbname")));
    }
    Ok(())
}

/// Texts that are in memory only once, however many databases use them.
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
    "weights",
    "zones",
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
    "target_session_attrs",
    "cluster",
    "role",
    "max_lag",
    "max_lag_time",
    "when_no_replica",
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
    "proxy_protocol",
    "read_routing",
];
/// The name of the fallback.
pub(crate) const FALLBACK: &str = "*";
/// The name of the console.
pub(crate) const RESERVED: &str = "pgbouncer";

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
