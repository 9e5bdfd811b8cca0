//! What is to be simulated: databases with tenants, what their applications do, the pooler's settings, the server, events.
//!
//! Always true: a [`Spec`] is complete and within its bounds; all mistakes of a file are told at once. Times are in microseconds.
//! Not here: the run (`engine`), presets (`presets`).

mod arrivals;
pub(crate) mod pooler;
mod read;
#[cfg(test)]
mod read_tests;
mod section;
mod tree;

use std::fmt;

use crate::load::Law;
pub(crate) use pooler::{Behaviour, Pooler};
pub(crate) use tree::SpecTree;

/// A mistake in a spec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    /// Counted from 1; 0 if it is in no line.
    pub(crate) line: u32,
    /// What is wrong, and what would be right.
    pub(crate) text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

/// A checked spec.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Spec {
    pub(crate) title: String,
    pub(crate) seed: u64,
    /// The simulated time, with the warm-up.
    pub(crate) duration: u64,
    /// What happens before this time is not counted.
    pub(crate) warm_up: u64,
    /// How many runs, each with a seed of its own.
    pub(crate) replications: u32,
    pub(crate) server: ServerSide,
    pub(crate) client: ClientSide,
    /// In the order of the file; a database with `count` stands here as often.
    pub(crate) databases: Vec<Database>,
    /// In the order of time.
    pub(crate) events: Vec<PlannedEvent>,
    pub(crate) knee: KneeRule,
    /// What is swept if the command line does not say it.
    pub(crate) sweep: Option<String>,
}

impl Spec {
    /// How many tenants there are in all databases.
    pub(crate) fn tenants(&self) -> u32 {
        self.databases.iter().flat_map(|database| &database.groups).map(|group| group.tenants).sum()
    }
}

/// The PostgreSQL server.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ServerSide {
    /// The time of a login: network, TLS, authentication, start of the process.
    pub(crate) login: Law,
    /// The processor time of a login, in seconds.
    pub(crate) login_cpu: f64,
    /// The time on the network between the pooler and the server, for each statement.
    pub(crate) round_trip: u64,
    /// The time of the reset query, after a session.
    pub(crate) reset: Law,
    /// Logins above this number are refused; 0 is no limit.
    pub(crate) connections_max: u32,
    /// The share of a statement's time for which it uses a processor.
    pub(crate) cpu_share: f64,
    /// With this many processors, more computing at once takes proportionally longer.
    pub(crate) cores: Option<u32>,
    /// Contention and coherence of the scalability law: how much longer a statement takes when others run.
    pub(crate) contention: Option<(f64, f64)>,
}

impl ServerSide {
    /// Whether a statement's time depends on how many others run.
    pub(crate) fn is_contended(&self) -> bool {
        self.cores.is_some() || self.contention.is_some()
    }
}

/// The way from the applications to the pooler.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ClientSide {
    /// The time of a client's login at the pooler.
    pub(crate) login: Law,
    /// The time on the network between an application and the pooler.
    pub(crate) round_trip: u64,
}

/// A database of the pooler.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) pooler: Pooler,
    pub(crate) groups: Vec<Group>,
}

/// Tenants that are alike.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) tenants: u32,
    /// How often each is asked, with a sum of 1.
    pub(crate) popularity: Vec<f64>,
    pub(crate) roles: Roles,
    pub(crate) application: Application,
    pub(crate) arrivals: Arrivals,
    /// At least one.
    pub(crate) transactions: Vec<Transaction>,
}

/// As which roles tenants log in, which decides who shares a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Roles {
    /// One for each tenant.
    Each,
    /// One for all tenants of the group.
    Shared,
}

/// The programs of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Application {
    pub(crate) processes: u32,
    /// The connections to the pooler that a process may have; 0 is no limit.
    pub(crate) client_pool: u32,
    /// A connection is closed after this many transactions; 0 is never.
    pub(crate) transactions_max: u32,
    /// A connection is closed when it has been idle for so long.
    pub(crate) idle_max: Option<u64>,
}

/// When transactions begin. Rates are per second for the whole group.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Arrivals {
    Poisson {
        rate: f64,
    },
    Constant {
        rate: f64,
    },
    /// Each tenant by itself stays in each state for an exponential time of this mean (seconds), and asks at its rate.
    Modulated {
        states: Vec<(f64, f64)>,
    },
    /// Times in microseconds, ascending, with the number of the tenant if it was recorded.
    Recorded(Vec<(u64, Option<u32>)>),
    /// A fixed number of users, each of whom thinks after an answer.
    Closed {
        users: u32,
        think: Law,
    },
}

/// A kind of transaction.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Transaction {
    pub(crate) name: String,
    pub(crate) weight: f64,
    /// At least 1.
    pub(crate) statements: u32,
    /// The time of one statement in the server.
    pub(crate) service: Law,
    /// The time for which the application thinks between two statements.
    pub(crate) think: Law,
}

/// Something that happens at a time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PlannedEvent {
    pub(crate) at: u64,
    /// Of which groups; by name.
    pub(crate) tenants: Option<String>,
    pub(crate) what: Happening,
}

/// What happens.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Happening {
    /// New processes start beside the old ones, which end after the overlap.
    Deploy { overlap: u64 },
    /// So many clients log in within this time, each for one transaction.
    Storm { clients: u32, within: u64 },
    /// The server ends all connections, and refuses new ones for this time.
    Restart { down: u64 },
    /// The rate of arrivals is multiplied for this time.
    Rate { factor: f64, lasting: u64 },
    /// A client has a server for so long in one transaction, as a migration does.
    Long { clients: u32, lasts: u64 },
    /// The pooler is reloaded with other settings, for each database.
    Reload { poolers: Vec<Pooler> },
}

impl Happening {
    /// One word for a report.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Deploy { .. } => "deploy",
            Self::Storm { .. } => "storm",
            Self::Restart { .. } => "restart",
            Self::Rate { .. } => "rate",
            Self::Long { .. } => "long",
            Self::Reload { .. } => "reload",
        }
    }
}

/// What counts as good enough, for the knee of a sweep.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct KneeRule {
    /// Disconnections for each tenant and minute, other than by age.
    pub(crate) churn_max: f64,
    /// How much more processor time for a transaction than with the most connections, as a share.
    pub(crate) cpu_within: f64,
    /// The 99th percentile of responses, if it counts.
    pub(crate) p99_max: Option<u64>,
}
