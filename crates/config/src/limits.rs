//! The values for a pool, a database or a user: the settings, overridden by the lines of the database and the user.
//!
//! Always true: the precedence is PgBouncer's. The user of a pool is the user of its servers, which is the forced user
//! of the database if there is one.
//! Not here: enforcing the limits (`pool`, `worker`).

use std::sync::Arc;
use std::time::Duration;

use pool::{Limits, Mode, Reuse};
use protocol::state::{Kind as Holding, PinRules, Policy};

use crate::catalog::{CheckQuery, ReadRouting, SessionState, Settings};
use crate::database::{Database, RESERVED};
use crate::user::UserSettings;

impl Settings {
    /// The database of this name, else one made from the fallback. `None` for the console.
    #[must_use]
    pub fn database(&self, name: &str) -> Option<Arc<Database>> {
        if let Some(known) = self.databases.get(name) {
            return Some(Arc::clone(known));
        }
        let may_be_made = !name.is_empty() && name.len() <= base::NAME_BYTES_MAX && name != RESERVED;
        let fallback = self.fallback.as_ref().filter(|_| may_be_made && !self.is_derived(name))?;
        Some(Arc::new(fallback.instance(name)))
    }

    /// Whether reads of any client of this cluster's primary may go to its replicas.
    #[must_use]
    pub fn routes_reads_of(&self, cluster: &str) -> bool {
        let is_on = |routing: Option<ReadRouting>| routing.is_some_and(|routing| routing != ReadRouting::Off);
        let mut databases = self.databases.values().chain(&self.fallback);
        let may_be = is_on(Some(self.read_routing)) || self.users.values().any(|user| is_on(user.read_routing));
        databases.any(|database| {
            database.cluster_of_primary().is_some_and(|name| **name == *cluster)
                && (may_be || is_on(database.read_routing))
        })
    }

    /// Which requests of a user's clients of a database go to replicas. Never any where session state does not follow clients,
    /// or where the database is not on the primary of a cluster.
    #[must_use]
    pub fn read_routing(&self, database: &Database, user: &str) -> ReadRouting {
        let of_user = self.users.get(database.user.as_deref().unwrap_or(user)).and_then(|user| user.read_routing);
        let routing = of_user.or(database.read_routing).unwrap_or(self.read_routing);
        let may_be = database.cluster_of_primary().is_some() && self.follows_state(database, user);
        if may_be { routing } else { ReadRouting::Off }
    }

    /// The limits of the pool of a database and a user.
    #[must_use]
    pub fn pool_limits(&self, database: &Database, user: &str) -> Limits {
        let user = self.users.get(database.user.as_deref().unwrap_or(user));
        let of_user = |value: fn(&UserSettings) -> Option<u32>| user.and_then(|user| value(user));
        let mode = user.and_then(|user| user.pool_mode).or(database.pool_mode).unwrap_or(self.pool_mode);
        let reserve = of_user(|user| user.reserve_pool_size).or(database.reserve_pool_size);
        let size = of_user(|user| user.pool_size).or(database.pool_size).unwrap_or(self.default_pool_size);
        let min = database.min_pool_size.unwrap_or(self.min_pool_size);
        Limits {
            mode,
            servers_max: size,
            dedicated_max: above_zero(database.replication_pool_size.unwrap_or(self.replication_pool_size)),
            servers_min: if size > 0 { min.min(size) } else { min },
            reserve_max: reserve.unwrap_or(self.reserve_pool_size),
            reserve_after: self.reserve_pool_timeout,
            dials_max: self.server_dials_max,
            wait_max: self.wait_of(database, user.map(|user| &**user)),
            idle_max: self.server_idle_timeout,
            lifetime_max: Some(database.server_lifetime.unwrap_or(self.server_lifetime)),
            retry_after: self.server_login_retry,
            reuse: if self.server_round_robin { Reuse::Oldest } else { Reuse::Newest },
            check_after: (self.server_check_query != CheckQuery::Off).then_some(self.server_check_delay),
            reset: self.server_reset_query.is_some() && (mode == Mode::Session || self.server_reset_query_always),
        }
    }

    /// The pool mode of a pool.
    #[must_use]
    pub fn pool_mode(&self, database: &Database, user: &str) -> Mode {
        let user = self.users.get(database.user.as_deref().unwrap_or(user));
        user.and_then(|user| user.pool_mode).or(database.pool_mode).unwrap_or(self.pool_mode)
    }

    /// Whether session state follows the clients of this pool.
    #[must_use]
    pub fn follows_state(&self, database: &Database, user: &str) -> bool {
        let state = database.session_state.unwrap_or(self.session_state);
        state == SessionState::Follow && self.pool_mode(database, user) == Mode::Transaction
    }

    /// What clients of the pool of a database and a user may hold on servers.
    #[must_use]
    pub fn pin_rules(&self, database: &Database, user: &str) -> PinRules {
        let user = self.users.get(database.user.as_deref().unwrap_or(user));
        let of_user = |kind| user.and_then(|user| user.session_policy.of(kind));
        let policy = |kind| {
            let said = of_user(kind).or_else(|| database.session_policy.of(kind));
            let otherwise = match kind {
                Holding::Channel | Holding::Statement => Policy::Virtualize,
                _ => Policy::Pin,
            };
            said.or_else(|| self.session_policy.of(kind)).unwrap_or(otherwise)
        };
        PinRules {
            policies: Holding::ALL.map(policy),
            servers_max: above_zero(database.max_pinned_servers.unwrap_or(self.max_pinned_servers)),
            age_max: database.pinned_server_timeout.unwrap_or(self.pinned_server_timeout),
            unseen: database.session_unseen.unwrap_or(self.session_unseen),
        }
    }

    /// How long a client that logged in as this user may wait for a server; `None` is for ever.
    #[must_use]
    pub fn query_wait_timeout(&self, database: &Database, user: &str) -> Option<Duration> {
        self.wait_of(database, self.users.get(user).map(|user| &**user))
    }

    fn wait_of(&self, database: &Database, user: Option<&UserSettings>) -> Option<Duration> {
        let own = user.and_then(|user| user.query_wait_timeout).or(database.query_wait_timeout);
        own.unwrap_or(self.query_wait_timeout)
    }

    /// Most servers of a database over all its users; `None` is unlimited.
    #[must_use]
    pub fn max_db_connections(&self, database: &Database) -> Option<u32> {
        database.max_db_connections.or(above_zero(self.max_db_connections))
    }

    /// Most clients of a database; `None` is unlimited.
    #[must_use]
    pub fn max_db_client_connections(&self, database: &Database) -> Option<u32> {
        database.max_db_client_connections.or(above_zero(self.max_db_client_connections))
    }

    /// Most servers of a user over all databases; `None` is unlimited.
    #[must_use]
    pub fn max_user_connections(&self, user: &str) -> Option<u32> {
        let own = self.users.get(user).and_then(|user| user.max_user_connections);
        own.or(above_zero(self.max_user_connections))
    }

    /// Most connections that have not logged in.
    #[must_use]
    pub fn unauthenticated_connections_max(&self) -> u32 {
        // All clients may reconnect at once, and with TLS even more connections exist: one that waits for its handshake
        // is not a client yet.
        let by_itself = self.max_client_conn.saturating_mul(2).max(UNAUTHENTICATED_MIN);
        above_zero(self.max_unauthenticated_connections).unwrap_or(by_itself)
    }

    /// Most clients that logged in as this user; `None` is unlimited.
    #[must_use]
    pub fn max_user_client_connections(&self, user: &str) -> Option<u32> {
        let own = self.users.get(user).and_then(|user| user.max_user_client_connections);
        own.or(above_zero(self.max_user_client_connections))
    }

    /// Maximum duration of a query on a server of this user; `None` is for ever.
    #[must_use]
    pub fn query_timeout(&self, user: &str) -> Option<Duration> {
        self.users.get(user).and_then(|user| user.query_timeout).or(self.query_timeout)
    }

    /// How long a client with a server of this user may be idle in a transaction; `None` is for ever.
    #[must_use]
    pub fn idle_transaction_timeout(&self, user: &str) -> Option<Duration> {
        self.users.get(user).and_then(|user| user.idle_transaction_timeout).or(self.idle_transaction_timeout)
    }

    /// Maximum duration of a transaction on a server of this user; `None` is for ever.
    #[must_use]
    pub fn transaction_timeout(&self, user: &str) -> Option<Duration> {
        self.users.get(user).and_then(|user| user.transaction_timeout).or(self.transaction_timeout)
    }

    /// How long a client that logged in as this user may be idle outside a transaction; `None` is for ever.
    #[must_use]
    pub fn client_idle_timeout(&self, user: &str) -> Option<Duration> {
        self.users.get(user).and_then(|user| user.client_idle_timeout).or(self.client_idle_timeout)
    }
}

/// The least number of connections without a login that are allowed by default, however small `max_client_conn` is.
const UNAUTHENTICATED_MIN: u32 = 1000;

fn above_zero(limit: u32) -> Option<u32> {
    (limit > 0).then_some(limit)
}
