//! The data that console tables are made from, and the definition of a table.
//!
//! Always true: a view lasts for one table, and is read-only.
//! Not here: the individual tables (`show`).

use std::time::Duration;

use auth::UserFile;
use base::{Time, Wall};
use config::{LoadBalance, Settings};
use pool::{Mode, RateRow};
use worker::letters::{Detail, Parts, Shutdown, Snapshot, Standing};

use crate::clusters::Clusters;
use crate::console::table::{Cell, Column, Table, text};
use crate::events::Events;
use crate::hashings::Hashings;
use crate::history::History;
use crate::otlp::Counts;
use crate::replica_rotation::Rotations;
use crate::sweeper::Sweeper;
use crate::timed_pauses::TimedPauses;
use crate::zones::Zones;

/// A subject of SHOW.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Its name in capitals.
    pub(crate) name: &'static str,
    /// What it shows, in a sentence.
    pub(crate) doc: &'static str,
    /// The parts of the workers' snapshots that it needs.
    pub(crate) parts: Parts,
    /// How many of the columns, the last ones, PgBouncer's table of this name does not have. They are shown only to those
    /// who ask for them with `EXTENDED`. A table that PgBouncer does not have is shown whole.
    pub(super) own_columns: usize,
    pub(super) columns: &'static [Column],
    pub(super) rows: fn(&View<'_>) -> Vec<Vec<Cell>>,
}

/// A subject, and which of its columns are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Showing {
    /// The subject.
    pub(crate) subject: &'static Subject,
    /// Which columns.
    pub(crate) breadth: Breadth,
}

/// Which columns of a table are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Breadth {
    /// Those of PgBouncer's table of the same name.
    Plain,
    /// All.
    Extended,
}

/// The data that tables may be made from.
#[derive(Debug)]
pub(crate) struct View<'v> {
    /// The settings in force.
    pub(crate) settings: &'v Settings,
    /// The file of secrets in force.
    pub(crate) users: &'v UserFile,
    /// The standing orders of operators.
    pub(crate) standing: &'v Standing,
    /// When pauses end by themselves.
    pub(crate) timed_pauses: &'v TimedPauses,
    /// The clusters and their members.
    pub(crate) clusters: &'v Clusters,
    pub(crate) rotations: &'v Rotations,
    /// Whether the workers are suspended.
    pub(crate) is_suspended: bool,
    /// A shutdown that waits, and for how long it has.
    pub(crate) shutdown: Option<(Shutdown, Duration)>,
    /// The snapshots of the workers, with the parts of [`Subject::parts`].
    pub(crate) snapshots: &'v [Snapshot],
    /// The counters at the latest period boundaries.
    pub(crate) history: &'v History,
    /// The DNS zones of host names.
    pub(crate) zones: &'v Zones,
    /// Advisory locks that no client is known to hold.
    pub(crate) sweeper: &'v Sweeper,
    /// The queue of passwords to be hashed.
    pub(crate) hashings: &'v Hashings,
    /// The events.
    pub(crate) events: &'v Events,
    /// Numbers of spans for OpenTelemetry by outcome.
    pub(crate) spans: Counts,
    /// Log lines that were lost.
    pub(crate) log_lines_lost: u64,
    /// Rate limits, and since when each delays or rejects, if it does.
    pub(crate) rates: Vec<(RateRow, Option<Wall>)>,
    /// The monotonic time.
    pub(crate) now: Time,
    /// The wall-clock time.
    pub(crate) wall: Wall,
}

impl Subject {
    /// Returns the present table with all columns.
    pub(crate) fn table(&self, view: &View<'_>) -> Table {
        Table { columns: self.columns, rows: (self.rows)(view) }
    }

    /// All its columns.
    pub(crate) fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// The columns that `SHOW` without `EXTENDED` has.
    pub(crate) fn plain_columns(&self) -> &'static [Column] {
        &self.columns[..self.columns.len().saturating_sub(self.own_columns)]
    }

    /// The columns that only `EXTENDED` shows.
    pub(crate) fn own_columns(&self) -> &'static [Column] {
        &self.columns[self.plain_columns().len()..]
    }

    /// Returns whether `EXTENDED` shows more than `SHOW` without it.
    pub(crate) fn has_own_columns(&self) -> bool {
        self.own_columns > 0
    }

    /// Returns whether the table needs no snapshots of the workers.
    pub(crate) fn needs_no_worker(&self) -> bool {
        self.parts == NOTHING
    }
}

impl Showing {
    /// Its columns.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self.breadth {
            Breadth::Plain => self.subject.plain_columns(),
            Breadth::Extended => self.subject.columns(),
        }
    }

    /// Returns the present table.
    pub(crate) fn table(self, view: &View<'_>) -> Table {
        let columns = self.columns();
        let mut rows = self.subject.table(view).rows;
        rows.iter_mut().for_each(|row| row.truncate(columns.len()));
        Table { columns, rows }
    }
}

/// The only subject restricted to admins: in PgBouncer it passes descriptors and secrets.
pub(crate) const FOR_ADMINS: &str = "FDS";

/// No parts of snapshots.
pub(crate) const NOTHING: Parts = Parts::NOTHING;
pub(super) const POOLS_PART: Parts = Parts { pools: true, ..NOTHING };
/// Pools with their measurements.
pub(crate) const MEASURES_PART: Parts = Parts { pools: true, measures: Detail::Sums, ..NOTHING };

pub(super) fn mode(mode: Mode) -> Cell {
    text(match mode {
        Mode::Session => "session",
        Mode::Transaction => "transaction",
        Mode::Statement => "statement",
    })
}

/// Returns `load_balance_hosts`, or NULL for a database with a single host.
pub(super) fn load_balance(database: &config::Database) -> Cell {
    let word = match database.load_balance_hosts {
        LoadBalance::RoundRobin => "round-robin",
        LoadBalance::Disable => "disable",
        LoadBalance::LeastBusy => "least-busy",
    };
    (database.hosts.len() > 1).then(|| word.to_owned())
}

/// Formats a time as the console does: local time to the second, with the abbreviation of the zone.
pub(super) fn moment(wall: Wall) -> Cell {
    let instant = jiff::Timestamp::from_microsecond(wall.0).unwrap_or_default();
    text(instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
}
