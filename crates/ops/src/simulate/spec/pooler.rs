//! The pooler's settings in a spec, by PgBouncer's names.
//!
//! Always true: a setting that is not written has PgBouncer's default, except for `pool_mode`, which is `transaction`, and
//! `max_client_conn`, which is unlimited, because a spec is about servers.
//! Not here: what the settings do (crate `pool`).

use std::time::Duration;

use pool::{Limits, Mode, Reuse};

use super::section::Section;

/// The settings of one database.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Pooler {
    pub(crate) limits: Limits,
    /// Servers of the database; 0 is unlimited.
    pub(crate) database_max: u32,
    /// Servers of a user in all databases; 0 is unlimited.
    pub(crate) user_max: u32,
    /// Clients of the pooler; 0 is unlimited.
    pub(crate) clients_max: u32,
    /// `max_db_connections` as a multiple of the tenants of the database, if it is written so.
    pub(crate) per_tenant: Option<f64>,
    pub(crate) behaviour: Behaviour,
}

/// As which pooler servers are opened for `min_pool_size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    /// As the crate `pool` does.
    Trunkline,
    /// One login at a time for each pool.
    PgBouncer,
    /// Also, idle servers of other pools are closed to reach a minimum, every third of a second.
    PgBouncer117,
}

impl Pooler {
    /// Reads the settings of the table `pooler`, or of a change.
    pub(super) fn read(section: Section<'_>) -> Self {
        let pooler = Self::default().with(&section);
        section.end();
        pooler
    }

    /// These settings with those that the section names.
    pub(super) fn with(&self, section: &Section<'_>) -> Self {
        let old = &self.limits;
        let micros = |time: Option<Duration>| time.map_or(0, |time| time.as_micros() as u64);
        let limit =
            |name: &'static str, old: Option<Duration>| section.limit(name, micros(old)).map(Duration::from_micros);
        let modes = [("session", Mode::Session), ("transaction", Mode::Transaction), ("statement", Mode::Statement)];
        let mode = section.word("pool_mode", &modes, old.mode);
        let size = |name, old| section.count(name, old, 0, SERVERS_MAX);
        let behaviours = [
            ("trunkline", Behaviour::Trunkline),
            ("pgbouncer", Behaviour::PgBouncer),
            ("pgbouncer-1.17", Behaviour::PgBouncer117),
        ];
        let behaviour = section.word("behaviour", &behaviours, self.behaviour);
        let reserve_after = Duration::from_micros(section.time("reserve_pool_timeout", micros(old.reserve_after)));
        let dials_max = section.count("server_dials_max", old.dials_max, 1, SERVERS_MAX);
        let is_round_robin = section.flag("server_round_robin", old.reuse == Reuse::Oldest);
        let per_tenant = match section.has("conns_per_tenant") {
            true => Some(section.number("conns_per_tenant", 1.0, 0.0, 10_000.0)),
            false => self.per_tenant.filter(|_| !section.has("max_db_connections")),
        };
        Self {
            limits: Limits {
                mode,
                servers_max: size("default_pool_size", old.servers_max),
                servers_min: size("min_pool_size", old.servers_min),
                reserve_max: size("reserve_pool_size", old.reserve_max),
                // Zero turns the reserve off, as in PgBouncer.
                reserve_after: Some(reserve_after).filter(|after| !after.is_zero()),
                dials_max: if behaviour == Behaviour::Trunkline { dials_max } else { 1 },
                wait_max: limit("query_wait_timeout", old.wait_max),
                idle_max: limit("server_idle_timeout", old.idle_max),
                // Zero closes a server after one loan.
                lifetime_max: Some(Duration::from_micros(section.time("server_lifetime", micros(old.lifetime_max)))),
                retry_after: Duration::from_micros(
                    section.time("server_login_retry", old.retry_after.as_micros() as u64),
                ),
                reuse: if is_round_robin { Reuse::Oldest } else { Reuse::Newest },
                check_after: Some(Duration::from_micros(section.time("server_check_delay", micros(old.check_after)))),
                reset: mode == Mode::Session,
                dedicated_max: None,
            },
            database_max: size("max_db_connections", self.database_max),
            user_max: size("max_user_connections", self.user_max),
            clients_max: section.count("max_client_conn", self.clients_max, 0, u32::MAX),
            per_tenant,
            behaviour,
        }
    }

    /// The limit of a database with so many tenants; 0 is unlimited.
    pub(crate) fn database_limit(&self, tenants: u32) -> u32 {
        self.per_tenant.map_or(self.database_max, |each| ((each * f64::from(tenants)).round() as u32).max(1))
    }
}

impl Default for Pooler {
    fn default() -> Self {
        Self {
            limits: Limits { mode: Mode::Transaction, reset: false, ..Limits::default() },
            database_max: 0,
            user_max: 0,
            clients_max: 0,
            per_tenant: None,
            behaviour: Behaviour::Trunkline,
        }
    }
}

/// The names of all settings.
pub(super) const NAMES: [&str; 17] = [
    "behaviour",
    "conns_per_tenant",
    "default_pool_size",
    "max_client_conn",
    "max_db_connections",
    "max_user_connections",
    "min_pool_size",
    "pool_mode",
    "query_wait_timeout",
    "reserve_pool_size",
    "reserve_pool_timeout",
    "server_check_delay",
    "server_dials_max",
    "server_idle_timeout",
    "server_lifetime",
    "server_login_retry",
    "server_round_robin",
];

/// More servers than any PostgreSQL has.
const SERVERS_MAX: u32 = 100_000;
