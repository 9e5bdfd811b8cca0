//! The scenarios of the bench.

use habits::Habit;
use ops::trial::{DATABASE, Load, Protocol, Script};

use super::habit::Played;

/// A scenario that all contestants run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scenario {
    /// One row by its key, by simple query.
    Simple { clients: u32 },
    /// The same by extended query.
    Extended { clients: u32 },
    /// The same with a statement that each client prepares once.
    Prepared { clients: u32 },
    /// TPC-B: transactions of seven statements that write.
    TpcB { clients: u32 },
    /// One row by its key, with a connection for each transaction.
    Connect { clients: u32 },
    /// One row by its key, by simple query over TLS.
    Tls { clients: u32 },
    /// The same with a connection for each transaction.
    TlsConnect { clients: u32 },
    /// Clients that each run a query and then stay idle.
    Idle { clients: u32 },
    /// One row of almost 1 GiB.
    Row,
    /// The start with many databases in the file.
    Startup { databases: u32 },
    /// Ten databases with twelve workspaces each, whose pools compete for `max_db_connections`.
    Tenants { clients: u32 },
    /// What a driver sends on its own.
    Habit(Played),
}

impl Scenario {
    pub(super) fn all(habits: &'static [Habit]) -> Vec<Self> {
        let mut all: Vec<Self> = CLIENTS.map(|clients| Self::Simple { clients }).to_vec();
        all.extend(CLIENTS.map(|clients| Self::Extended { clients }));
        all.extend([
            Self::Prepared { clients: 64 },
            Self::TpcB { clients: 64 },
            Self::Connect { clients: 8 },
            Self::Tls { clients: 64 },
            Self::TlsConnect { clients: 8 },
            Self::Idle { clients: 10_000 },
            Self::Row,
            Self::Startup { databases: 10_000 },
            Self::Tenants { clients: 240 },
            Self::Tenants { clients: 360 },
        ]);
        // Last, so that the session state they leave on PgBouncer's servers affects no other scenario.
        all.extend(Played::all(habits).into_iter().map(Self::Habit));
        all
    }

    /// The name on the command line and in the report.
    pub(super) fn name(self) -> String {
        match self {
            Self::Simple { clients } => format!("simple-{clients}"),
            Self::Extended { clients } => format!("extended-{clients}"),
            Self::TpcB { clients } => format!("tpcb-{clients}"),
            Self::Prepared { clients } => format!("prepared-{clients}"),
            Self::Connect { clients } => format!("connect-{clients}"),
            Self::Tls { clients } => format!("tls-{clients}"),
            Self::TlsConnect { clients } => format!("tlsconnect-{clients}"),
            Self::Idle { .. } => "idle".into(),
            Self::Row => "row".into(),
            Self::Startup { .. } => "startup".into(),
            Self::Tenants { clients } => format!("tenants-{clients}"),
            Self::Habit(played) => played.name(),
        }
    }

    /// Returns whether `--only name` selects it: the whole name, or its part before a `-` or `/`.
    pub(super) fn is_called(self, name: &str) -> bool {
        let own = self.name();
        own == name || own.strip_prefix(name).is_some_and(|rest| rest.starts_with(['-', '/']))
    }

    /// The description in the report.
    pub(super) fn title(self) -> String {
        match self {
            Self::Simple { clients } => format!("pgbench -S, simple protocol, {clients} clients"),
            Self::Extended { clients } => format!("pgbench -S -M extended, {clients} clients"),
            Self::TpcB { clients } => format!("pgbench (TPC-B), {clients} clients"),
            Self::Connect { clients } => format!("pgbench -S -C: a connection for each transaction, {clients} clients"),
            Self::Prepared { clients } => format!("pgbench -S -M prepared, {clients} clients"),
            Self::Tls { clients } => format!("pgbench -S, simple protocol, TLS, {clients} clients"),
            Self::TlsConnect { clients } => {
                format!("pgbench -S -C: a connection by TLS for each transaction, {clients} clients")
            }
            Self::Idle { clients } => format!("{clients} clients that have each run a query and rest"),
            Self::Row => "one row of 1 GiB".into(),
            Self::Startup { databases } => format!("start with {databases} databases in the file"),
            Self::Tenants { clients } => format!(
                "ten databases with twelve workspaces each, which have a role and a schema; {clients} clients think for 100 ms \
                 and run transactions of two statements; default_pool_size = min_pool_size = max_db_connections = 20"
            ),
            Self::Habit(played) => played.title(),
        }
    }

    pub(super) fn is_in_quick(self) -> bool {
        let is_secured = matches!(self, Self::Tls { .. } | Self::TlsConnect { .. });
        let is_slow =
            matches!(self, Self::Simple { clients: 1 | 8 } | Self::Extended { clients: 1 | 8 | 400 } | Self::Row);
        !is_secured && !is_slow && !matches!(self, Self::Prepared { .. } | Self::Tenants { .. } | Self::Habit(_))
    }

    /// Memory and start times vary little, and habits are many: one round of these is enough.
    pub(super) fn rounds(self, rounds: u32) -> u32 {
        match self {
            Self::Idle { .. } | Self::Row | Self::Startup { .. } | Self::Habit(_) => 1,
            _ => rounds,
        }
    }

    /// The load of pgbench on `port`, unless the scenario is not one of pgbench's.
    pub(super) fn load(self, port: u16, seconds: u32) -> Option<Load> {
        let is_secured = matches!(self, Self::Tls { .. } | Self::TlsConnect { .. });
        let (clients, script, protocol, is_reconnecting) = match self {
            Self::Simple { clients } | Self::Tls { clients } => (clients, Script::SelectOnly, Protocol::Simple, false),
            Self::Prepared { clients } => (clients, Script::SelectOnly, Protocol::Prepared, false),
            Self::Extended { clients } => (clients, Script::SelectOnly, Protocol::Extended, false),
            Self::TpcB { clients } => (clients, Script::TpcB, Protocol::Simple, false),
            Self::Connect { clients } | Self::TlsConnect { clients } => {
                (clients, Script::SelectOnly, Protocol::Simple, true)
            }
            Self::Idle { .. } | Self::Row | Self::Startup { .. } | Self::Tenants { .. } | Self::Habit(_) => {
                return None;
            }
        };
        Some(Load { port, database: DATABASE, clients, seconds, script, protocol, is_reconnecting, is_secured })
    }
}

const CLIENTS: [u32; 4] = [1, 8, 64, 400];
