//! What a table of the console is made of, and what one is.
//!
//! Always true: a view lasts for one table and changes nothing.
//! Not here: which tables there are (`show`).

use std::time::Duration;

use auth::UserFile;
use base::{Time, Wall};
use config::{LoadBalance, Settings};
use pool::{Mode, RateRow};
use worker::letters::{Detail, Parts, Shutdown, Snapshot, Standing};

use crate::console::table::{Cell, Column, Table, text};
use crate::events::Events;
use crate::hashings::Hashings;
use crate::history::History;
use crate::otlp::Counts;
use crate::sweeper::Sweeper;
use crate::zones::Zones;

/// One thing that can be shown.
#[derive(Debug)]
pub(crate) struct Subject {
    /// What it is called, in capitals.
    pub(crate) name: &'static str,
    /// What it shows, in a sentence.
    pub(crate) doc: &'static str,
    /// Which parts of the workers' snapshots it is made of.
    pub(crate) parts: Parts,
    pub(super) columns: &'static [Column],
    pub(super) rows: fn(&View<'_>) -> Vec<Vec<Cell>>,
}

/// All that a table may be made of.
#[derive(Debug)]
pub(crate) struct View<'v> {
    /// The settings in force.
    pub(crate) settings: &'v Settings,
    /// The file of secrets in force.
    pub(crate) users: &'v UserFile,
    /// What operators have ordered and not undone.
    pub(crate) standing: &'v Standing,
    /// SUSPEND.
    pub(crate) is_suspended: bool,
    /// A shutdown that waits, and for how long it has.
    pub(crate) shutdown: Option<(Shutdown, Duration)>,
    /// The workers, as far as [`Subject::parts`] asked for them.
    pub(crate) snapshots: &'v [Snapshot],
    /// The counters at the latest boundaries.
    pub(crate) history: &'v History,
    /// The zones of names.
    pub(crate) zones: &'v Zones,
    /// Locks that nobody is known to hold.
    pub(crate) sweeper: &'v Sweeper,
    /// Passwords that are hashed.
    pub(crate) hashings: &'v Hashings,
    /// What has happened.
    pub(crate) events: &'v Events,
    /// What has become of spans for a collector of OpenTelemetry.
    pub(crate) spans: Counts,
    /// How long each worker had worked, and lived, a moment ago.
    pub(crate) busy_before: &'v [(Duration, Duration)],
    /// Lines that a log has not taken.
    pub(crate) log_lines_lost: u64,
    /// Rate limits, and the moment since when each holds somebody back.
    pub(crate) rates: Vec<(RateRow, Option<Wall>)>,
    /// The time.
    pub(crate) now: Time,
    /// The same on the calendar.
    pub(crate) wall: Wall,
}

impl Subject {
    /// The table as it is now.
    pub(crate) fn table(&self, view: &View<'_>) -> Table {
        Table { columns: self.columns, rows: (self.rows)(view) }
    }

    /// Its columns.
    pub(crate) fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// Whether it can be shown without asking any worker.
    pub(crate) fn needs_no_worker(&self) -> bool {
        self.parts == NOTHING
    }
}

/// The only subject that not everybody may see: in PgBouncer it hands out descriptors and secrets.
pub(crate) const FOR_ADMINS: &str = "FDS";

/// Nothing of the workers.
pub(crate) const NOTHING: Parts = Parts {
    clients: false,
    servers: false,
    pools: false,
    stats: false,
    memory: false,
    logins: false,
    hosts: false,
    pins: false,
    measures: Detail::None,
    applications: false,
    statements: false,
    waits: false,
};
pub(super) const POOLS_PART: Parts = Parts { pools: true, ..NOTHING };
/// Pools, and what they have come to.
pub(crate) const MEASURES_PART: Parts = Parts { pools: true, measures: Detail::Sums, ..NOTHING };

pub(super) fn mode(mode: Mode) -> Cell {
    text(match mode {
        Mode::Session => "session",
        Mode::Transaction => "transaction",
        Mode::Statement => "statement",
    })
}

/// Which host is dialed, which is worth a word only where there are several.
pub(super) fn load_balance(database: &config::Database) -> Cell {
    let word = match database.load_balance_hosts {
        LoadBalance::RoundRobin => "round-robin",
        LoadBalance::Disable => "disable",
    };
    (database.hosts.len() > 1).then(|| word.to_owned())
}

/// A moment as the console writes it: local time to the second, with the short name of the zone.
pub(super) fn moment(wall: Wall) -> Cell {
    let instant = jiff::Timestamp::from_microsecond(wall.0).unwrap_or_default();
    text(instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
}
