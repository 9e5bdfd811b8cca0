//! A pooler's configuration, in PgBouncer's words, whichever pooler's file said it.
//!
//! Always true: a setting that the pooler does not have is absent. A number of 0 that means "no limit" stays 0. The values of passwords are not
//! here.
//! Not here: reading a file (`ini`, `odyssey`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use config::Place;
use pool::Mode;

use super::{HbaFile, Offered};

/// Whose configuration it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    /// PgBouncer's.
    Pgbouncer,
    /// Ours: it uses words that PgBouncer does not have.
    Trunkline,
    /// Odyssey's.
    Odyssey,
}

/// A setting of the pooler as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    /// Its value as text.
    pub(crate) text: String,
    /// The line that set it; the file if it is the default.
    pub(crate) at: Place,
    /// Whether no line set it.
    pub(crate) is_default: bool,
}

/// A pooler's configuration.
#[derive(Clone, Debug)]
pub(crate) struct Pooler {
    pub(crate) program: Program,
    pub(crate) file: Arc<str>,
    /// Settings by PgBouncer's names; times in seconds, except `tcp_user_timeout` (ms).
    pub(crate) settings: BTreeMap<&'static str, Setting>,
    /// The pools that the file describes, in the order of their names.
    pub(crate) pools: Vec<PoolTerms>,
    /// Users with settings of their own: name, pool mode, servers they may have in all databases.
    pub(crate) users: Vec<UserTerms>,
    /// Most clients of one user, if some user or all have a limit.
    pub(crate) has_user_client_limit: bool,
    /// Whether it stops writes to a primary whose lease has run out.
    pub(crate) has_fencing: bool,
    /// What the file of secrets looks like, if it could be read.
    pub(crate) auth_file: Option<AuthFile>,
    /// The rules by which clients log in, if `auth_type` is hba and their file could be read.
    pub(crate) hba: Option<HbaFile>,
    /// The algorithm of the listener's certificate, if it could be read.
    pub(crate) certificate: Option<KeyKind>,
}

/// A user with settings of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UserTerms {
    pub(crate) name: Arc<str>,
    pub(crate) mode: Mode,
}

/// The terms of the pools of one database, or of one database and one user.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PoolTerms {
    /// The database as clients name it; `*` is any other.
    pub(crate) database: Arc<str>,
    /// The only user whose pool this is, if it is only one.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) at: Place,
    pub(crate) mode: Mode,
    /// Most servers of one pool; 0 is unlimited.
    pub(crate) size: u32,
    /// Servers that are kept open.
    pub(crate) min: u32,
    /// Servers besides `size` that the pool may use.
    pub(crate) reserve: u32,
    /// The reserve as written, even if it is never used.
    pub(crate) reserve_written: u32,
    /// Most servers of the database over all users.
    pub(crate) servers_max: Option<u32>,
    /// Most clients of the database, or of this pool.
    pub(crate) clients_max: Option<u32>,
    /// How long a client may wait for a server; `None` is for ever.
    pub(crate) wait_max: Option<Duration>,
    /// The server as written, so that equal texts are the same server.
    pub(crate) server: Arc<str>,
    /// The name of the database on the server.
    pub(crate) dbname: Arc<str>,
    /// The number of hosts; 0 if others tell them.
    pub(crate) hosts: usize,
    /// Whether a host is another machine, as far as the text says.
    pub(crate) is_remote: bool,
    /// Whether its hosts are followed as members of a cluster.
    pub(crate) is_clustered: bool,
    /// Whether it is for replicas.
    pub(crate) is_of_replicas: bool,
    /// How far a replica may be behind, in time.
    pub(crate) lag_time_max: Option<Duration>,
    /// Whether any limit of lag is set.
    pub(crate) has_lag_limit: bool,
    /// Whether session state follows clients, or pins servers.
    pub(crate) is_state_kept: bool,
    /// How its clients authenticate, if pools differ in that.
    pub(crate) auth: Option<String>,
    /// Whether the login to servers needs a secret that the file does not give.
    pub(crate) is_forced_without_password: bool,
    /// Whether it is a console and not a pool.
    pub(crate) is_console: bool,
}

/// What a file of secrets looks like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AuthFile {
    pub(crate) path: String,
    /// Its permissions.
    pub(crate) mode: u32,
    pub(crate) secrets: SecretKinds,
    /// The users whose secret is a SCRAM secret.
    pub(crate) scram_users: BTreeSet<Arc<str>>,
}

/// How many secrets of each kind a file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SecretKinds {
    pub(crate) plain: usize,
    pub(crate) md5: usize,
    pub(crate) scram: usize,
}

/// The algorithm of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyKind {
    Rsa,
    Other,
}

impl Pooler {
    /// A setting, if the pooler has one of this name and a value for it.
    pub(crate) fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// The value of a setting as text; empty if it has none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.setting(name).map_or("", |setting| &setting.text)
    }

    /// The value of a setting as a number, which is never negative.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.setting(name)?.text.parse().ok().filter(|number: &f64| *number >= 0.0)
    }

    /// Where a setting was set, or else the file.
    pub(crate) fn at(&self, name: &str) -> Place {
        self.setting(name).map_or_else(|| super::whole(&self.file), |setting| setting.at.clone())
    }

    /// `name = value`, with a note if it is the default.
    pub(crate) fn shown(&self, name: &str) -> String {
        match self.setting(name) {
            Some(Setting { text, is_default: true, .. }) => format!("{name} = {text} (the default)"),
            Some(Setting { text, .. }) => format!("{name} = {text}"),
            None => format!("no {name}"),
        }
    }

    /// Whether clients of other machines can connect.
    pub(crate) fn is_open(&self) -> bool {
        let is_local = |address: &str| {
            let is_name = address.eq_ignore_ascii_case("localhost");
            is_name || address.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        };
        self.text("listen_addr").split(',').map(str::trim).any(|address| !address.is_empty() && !is_local(address))
    }

    /// Whether connections of clients use TLS.
    pub(crate) fn client_tls(&self) -> Offered {
        match self.text("client_tls_sslmode") {
            "" | "disable" => Offered::Never,
            "require" | "verify-ca" | "verify-full" | "verify_ca" | "verify_full" => Offered::Always,
            _ => Offered::AsClientsLike,
        }
    }

    /// The pools, without consoles.
    pub(crate) fn lent(&self) -> impl Iterator<Item = &PoolTerms> {
        self.pools.iter().filter(|pool| !pool.is_console)
    }
}

impl PoolTerms {
    /// The most servers of one pool, reserve included; `None` is unlimited.
    pub(crate) fn reach(&self) -> Option<u64> {
        (self.size > 0).then(|| u64::from(self.size) + u64::from(self.reserve))
    }

    /// How a report names it.
    pub(crate) fn name(&self) -> String {
        match &self.user {
            Some(user) => format!("database {} user {user}", self.database),
            None => format!("database {}", self.database),
        }
    }
}
