//! What is measured.

use ops::trial::{Load, Protocol, Script};

/// One thing that all contestants do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scenario {
    /// One row by its key, by the simple protocol.
    Simple { clients: u32 },
    /// The same by the extended protocol.
    Extended { clients: u32 },
    /// Transactions of seven statements that write.
    TpcB { clients: u32 },
    /// One row by its key, with a connection for each transaction.
    Connect { clients: u32 },
    /// Clients that have each run a query and then rest.
    Idle { clients: u32 },
    /// One row of (but for a few bytes) 1 GiB.
    Row,
    /// The start with many databases in the file.
    Startup { databases: u32 },
}

impl Scenario {
    pub(super) fn all() -> Vec<Self> {
        let mut all: Vec<Self> = CLIENTS.map(|clients| Self::Simple { clients }).to_vec();
        all.extend(CLIENTS.map(|clients| Self::Extended { clients }));
        all.extend([
            Self::TpcB { clients: 64 },
            Self::Connect { clients: 8 },
            Self::Idle { clients: 10_000 },
            Self::Row,
            Self::Startup { databases: 10_000 },
        ]);
        all
    }

    /// What it is called on the command line and in the report.
    pub(super) fn name(self) -> String {
        match self {
            Self::Simple { clients } => format!("simple-{clients}"),
            Self::Extended { clients } => format!("extended-{clients}"),
            Self::TpcB { clients } => format!("tpcb-{clients}"),
            Self::Connect { clients } => format!("connect-{clients}"),
            Self::Idle { .. } => "idle".into(),
            Self::Row => "row".into(),
            Self::Startup { .. } => "startup".into(),
        }
    }

    /// Whether `--only name` means it: its name, or a whole first part of it.
    pub(super) fn is_called(self, name: &str) -> bool {
        let own = self.name();
        own == name || own.split_once('-').is_some_and(|(first, _)| first == name)
    }

    /// What it is, for a reader.
    pub(super) fn title(self) -> String {
        match self {
            Self::Simple { clients } => format!("pgbench -S, simple protocol, {clients} clients"),
            Self::Extended { clients } => format!("pgbench -S -M extended, {clients} clients"),
            Self::TpcB { clients } => format!("pgbench (TPC-B), {clients} clients"),
            Self::Connect { clients } => format!("pgbench -S -C: a connection for each transaction, {clients} clients"),
            Self::Idle { clients } => format!("{clients} clients that have each run a query and rest"),
            Self::Row => "one row of 1 GiB".into(),
            Self::Startup { databases } => format!("start with {databases} databases in the file"),
        }
    }

    pub(super) fn is_in_quick(self) -> bool {
        !matches!(self, Self::Simple { clients: 1 | 8 } | Self::Extended { clients: 1 | 8 | 400 } | Self::Row)
    }

    /// Memory and starts vary little: one round of these is enough.
    pub(super) fn rounds(self, rounds: u32) -> u32 {
        match self {
            Self::Idle { .. } | Self::Row | Self::Startup { .. } => 1,
            _ => rounds,
        }
    }

    /// The load on `port`, if it is one of pgbench's.
    pub(super) fn load(self, port: u16, seconds: u32) -> Option<Load> {
        let (clients, script, protocol, is_reconnecting) = match self {
            Self::Simple { clients } => (clients, Script::SelectOnly, Protocol::Simple, false),
            Self::Extended { clients } => (clients, Script::SelectOnly, Protocol::Extended, false),
            Self::TpcB { clients } => (clients, Script::TpcB, Protocol::Simple, false),
            Self::Connect { clients } => (clients, Script::SelectOnly, Protocol::Simple, true),
            Self::Idle { .. } | Self::Row | Self::Startup { .. } => return None,
        };
        Some(Load { port, clients, seconds, script, protocol, is_reconnecting })
    }
}

const CLIENTS: [u32; 4] = [1, 8, 64, 400];
