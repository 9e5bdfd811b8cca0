//! The figures of the demo, and their meaning in words.
//!
//! Always true: every judgement follows from the numbers of this run; a comparison that PostgreSQL alone wins is
//! reported just as plainly.

use std::fmt;

use crate::table::{Table, count, short};
use crate::trial::{LoadOutcome, LoadResult, MemoryKind};

/// How the clients of a crowd behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowd {
    /// They connect for each transaction.
    Reconnecting,
    /// Each keeps its connection.
    Staying,
}

impl Crowd {
    pub(super) const ALL: [Self; 2] = [Self::Reconnecting, Self::Staying];

    pub(super) fn title(self, seconds: u32) -> String {
        let (title, flags) = match self {
            Self::Reconnecting => ("A connection for each transaction", "-S -C"),
            Self::Staying => ("Clients that stay connected", "-S"),
        };
        format!("{title} (pgbench {flags}, {seconds} s each, logging in included)")
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Reconnecting => "that reconnect",
            Self::Staying => "that stay",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Reconnecting => "that connect anew for each transaction",
            Self::Staying => "that stay connected",
        }
    }
}

/// How the clients connect to PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Directly.
    Direct,
    /// Through Trunkline.
    Pooled,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Pooled => "pooled",
        })
    }
}

/// The most that PostgreSQL used at one time during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    /// Processes that serve clients.
    pub(super) processes: usize,
    /// Their total memory; unknown when a run ends before it was measured.
    pub(super) bytes: Option<u64>,
    /// Whether for some processes shared pages were counted in full.
    pub(super) is_rough: bool,
}

impl Peak {
    pub(super) fn see_memory(&mut self, bytes: u64, kind: MemoryKind) {
        self.bytes = self.bytes.max(Some(bytes));
        self.is_rough |= kind == MemoryKind::Resident;
    }
}

/// One number of clients, direct and pooled.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) clients: u32,
    pub(super) direct: (LoadOutcome, Peak),
    pub(super) pooled: (LoadOutcome, Peak),
}

/// The table of the figures, direct and pooled side by side.
pub(super) fn table(rows: &[Measured]) -> Table {
    let both: &[&str] = &["direct", "pooled"];
    let mut table = Table::new(&[
        ("", &["clients"]),
        ("transactions/s", both),
        ("mean, ms", both),
        ("p99, ms", both),
        ("PG processes", both),
        (if is_rough(rows) { "RSS, MiB" } else { "memory, MiB" }, both),
    ]);
    for row in rows {
        let ends = [&row.direct, &row.pooled];
        let mut cells = vec![row.clients.to_string()];
        cells.extend(ends.map(|(outcome, _)| figure(outcome, |result| count(result.tps))));
        cells.extend(ends.map(|(outcome, _)| figure(outcome, |result| short(result.mean_ms))));
        cells.extend(ends.map(|(outcome, _)| figure(outcome, |result| result.p99_ms.map_or("-".into(), short))));
        cells.extend(ends.map(|(_, peak)| peak.processes.to_string()));
        cells.extend(ends.map(|(_, peak)| peak.bytes.map_or("-".into(), |bytes| short(bytes as f64 / MIB))));
        table.row(cells);
    }
    table
}

/// The errors, one line for each run that failed.
pub(super) fn failures(rows: &[Measured]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        for (way, (outcome, _)) in [(Way::Direct, &row.direct), (Way::Pooled, &row.pooled)] {
            if let LoadOutcome::Failed(why) = outcome {
                lines.push(format!("failed: {} clients, {way}: {why}", row.clients));
            }
        }
    }
    lines
}

/// Describes the figures in words. `servers` is the size of the pool.
pub(super) fn meaning(crowd: Crowd, rows: &[Measured], servers: u32) -> String {
    let mut words = Vec::new();
    let complete: Vec<_> = rows.iter().filter_map(both_done).collect();
    if let Some(&(row, direct, pooled)) = complete.last() {
        words.push(at_most_clients(crowd, row, direct, pooled));
    }
    if let [(row, direct, pooled), _, ..] = complete[..] {
        words.push(at_fewest_clients(row, direct.tps, pooled.tps));
    }
    words.extend(rows.iter().filter_map(only_pooled));
    if rows.iter().any(|row| matches!(row.pooled.0, LoadOutcome::Failed(_))) {
        words.push("Some runs through Trunkline failed, as shown above.".into());
    }
    words.push(format!("The pool holds at most {servers} servers, whatever the number of clients."));
    words.join(" ")
}

fn at_most_clients(crowd: Crowd, row: &Measured, direct: &LoadResult, pooled: &LoadResult) -> String {
    let (before, after) = (row.direct.1, row.pooled.1);
    let mut words = format!(
        "With {} clients {}, Trunkline carries {} ({} a second against {})",
        row.clients,
        crowd.sentence(),
        compared(pooled.tps / direct.tps),
        count(pooled.tps),
        count(direct.tps),
    );
    words += &format!(", with {} PostgreSQL processes in place of {}", after.processes, before.processes);
    if let (Some(before), Some(after)) = (before.bytes, after.bytes) {
        words += &format!(" and {} of their own memory in place of {}", mebibytes(after), mebibytes(before));
    }
    words + "."
}

fn at_fewest_clients(row: &Measured, direct_tps: f64, pooled_tps: f64) -> String {
    let share = pooled_tps / direct_tps;
    if share < 0.95 {
        let cost = (1.0 - share) * 100.0;
        format!("With only {} the way through one more program costs {cost:.0} % of the throughput.", row.clients)
    } else {
        format!("With only {} it is {}.", row.clients, compared(share))
    }
}

fn compared(ratio: f64) -> String {
    match ratio {
        r if r >= 1.05 => format!("{} times the transactions of PostgreSQL alone", short(r)),
        r if r > 0.95 => "as many transactions as PostgreSQL alone".into(),
        r => format!("{:.0} % of the transactions of PostgreSQL alone", r * 100.0),
    }
}

fn both_done(row: &Measured) -> Option<(&Measured, &LoadResult, &LoadResult)> {
    match (&row.direct.0, &row.pooled.0) {
        (LoadOutcome::Done(direct), LoadOutcome::Done(pooled)) if direct.tps > 0.0 => Some((row, direct, pooled)),
        _ => None,
    }
}

fn only_pooled(row: &Measured) -> Option<String> {
    match (&row.direct.0, &row.pooled.0) {
        (LoadOutcome::Failed(_), LoadOutcome::Done(pooled)) => Some(format!(
            "With {} clients there is no figure for PostgreSQL alone, for the reason above; Trunkline carried {} \
             transactions a second.",
            row.clients,
            count(pooled.tps)
        )),
        _ => None,
    }
}

fn figure(outcome: &LoadOutcome, of: impl Fn(&LoadResult) -> String) -> String {
    match outcome {
        LoadOutcome::Done(result) => of(result),
        LoadOutcome::Failed(_) => "failed".into(),
    }
}

fn is_rough(rows: &[Measured]) -> bool {
    rows.iter().any(|row| row.direct.1.is_rough || row.pooled.1.is_rough)
}

/// An amount of memory for display: `87.5 MiB`.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", short(bytes as f64 / MIB))
}

const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn done(tps: f64, processes: usize, mib: u64) -> (LoadOutcome, Peak) {
        let result = LoadResult { transactions: 1, tps, mean_ms: 1.5, p99_ms: Some(20.25) };
        (LoadOutcome::Done(result), Peak { processes, bytes: Some(mib << 20), is_rough: false })
    }

    fn failed() -> (LoadOutcome, Peak) {
        (LoadOutcome::Failed("sorry, too many clients".into()), Peak::default())
    }

    #[test]
    fn both_ways_stand_side_by_side() {
        let rows = [Measured { clients: 20, direct: done(1000.0, 20, 90), pooled: done(12_000.0, 8, 45) }];
        assert_eq!(
            table(&rows).lines(),
            [
                "         transactions/s       mean, ms        p99, ms   PG processes    memory, MiB",
                "clients  direct  pooled  direct pooled  direct pooled  direct pooled  direct pooled",
                "20        1,000  12,000    1.50   1.50    20.2   20.2      20      8    90.0   45.0",
            ]
        );
    }

    #[test]
    fn a_run_that_failed_is_shown_as_failed_with_its_reason() {
        let rows = [Measured { clients: 800, direct: failed(), pooled: done(500.0, 8, 45) }];
        assert!(table(&rows).lines()[2].contains("failed"));
        assert_eq!(failures(&rows), ["failed: 800 clients, direct: sorry, too many clients"]);
        assert!(meaning(Crowd::Staying, &rows, 8).starts_with(
            "With 800 clients there is no figure for PostgreSQL alone, for the reason above; Trunkline carried 500 \
             transactions a second."
        ));
    }

    #[test]
    fn the_meaning_is_computed_from_the_largest_crowd_and_the_smallest() {
        let rows = [
            Measured { clients: 20, direct: done(1000.0, 20, 90), pooled: done(800.0, 8, 45) },
            Measured { clients: 400, direct: done(500.0, 400, 900), pooled: done(750.0, 8, 45) },
        ];
        assert_eq!(
            meaning(Crowd::Staying, &rows, 8),
            "With 400 clients that stay connected, Trunkline carries 1.50 times the transactions of PostgreSQL alone \
             (750 a second against 500), with 8 PostgreSQL processes in place of 400 and 45.0 MiB of their own memory in \
             place of 900 MiB. With only 20 the way through one more program costs 20 % of the throughput. The pool \
             holds at most 8 servers, whatever the number of clients."
        );
    }

    #[test]
    fn one_complete_row_is_told_once() {
        let rows = [
            Measured { clients: 400, direct: done(500.0, 400, 900), pooled: done(750.0, 8, 45) },
            Measured { clients: 800, direct: failed(), pooled: done(750.0, 8, 45) },
        ];
        assert_eq!(meaning(Crowd::Staying, &rows, 8).matches("400 clients").count(), 1);
        assert!(!meaning(Crowd::Staying, &rows, 8).contains("With only"));
    }

    #[test]
    fn a_comparison_that_postgresql_alone_wins_is_said_plainly() {
        assert_eq!(compared(0.8), "80 % of the transactions of PostgreSQL alone");
        assert_eq!(compared(1.01), "as many transactions as PostgreSQL alone");
    }

    #[test]
    fn failures_of_our_own_are_not_passed_over() {
        let rows = [Measured { clients: 20, direct: done(10.0, 20, 90), pooled: failed() }];
        assert!(meaning(Crowd::Staying, &rows, 8).contains("Some runs through Trunkline failed"));
    }
}
