//! The report of a run: what is printed as JSON, and what follows for the exit status.
//!
//! Always true: every figure of the text (`report_text`) is a field here; docs/operating/hatest.md explains each.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::check::{PathResult, Verdict};
use super::fault::FaultRun;
use super::gaps::Gap;
use super::ledger::Outcome;
use super::run_clock::RunClock;
use super::tally::{Connections, Members, PathTally, ReaderTally};

/// How often something happened for which reason.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The report.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) verdict: &'static str,
    pub(crate) exit_code: u8,
    pub(crate) run: i64,
    pub(crate) table: String,
    pub(crate) started_unix_ms: i64,
    pub(crate) duration_s: f64,
    pub(crate) writers: u32,
    pub(crate) every_ms: f64,
    pub(crate) verified: bool,
    pub(crate) verified_on: Option<String>,
    pub(crate) verify_error: Option<String>,
    pub(crate) old_primary_error: Option<String>,
    pub(crate) clean_error: Option<String>,
    pub(crate) fault_at_s: Option<f64>,
    pub(crate) fault_end_s: Option<f64>,
    pub(crate) fault_exit_code: Option<i32>,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) unsent: u64,
    pub(crate) lost: Option<u64>,
    pub(crate) phantom: Option<u64>,
    pub(crate) duplicate: Option<u64>,
    pub(crate) divergence: Option<u64>,
    pub(crate) paths: Vec<PathReport>,
    pub(crate) readers: Vec<ReaderReport>,
}

/// A path of the report.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PathReport {
    pub(crate) name: String,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) unsent: u64,
    pub(crate) lost: Option<u64>,
    pub(crate) phantom: Option<u64>,
    pub(crate) duplicate: Option<u64>,
    pub(crate) unknown_present: Option<u64>,
    pub(crate) unknown_absent: Option<u64>,
    pub(crate) divergence: Option<u64>,
    pub(crate) lost_rows: Vec<String>,
    pub(crate) gap_ms: f64,
    pub(crate) gap_from_s: f64,
    pub(crate) gap_from_unix_ms: i64,
    pub(crate) gap_is_open: bool,
    pub(crate) gap_writer_ms: f64,
    pub(crate) fault_first_ack_ms: Option<f64>,
    pub(crate) fault_gap_ms: Option<f64>,
    pub(crate) fault_recovered_ms: Option<f64>,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) connections: u64,
    pub(crate) broken: u64,
    pub(crate) errors: Counts,
    pub(crate) unknown_codes: Counts,
    pub(crate) connect_errors: Counts,
    pub(crate) broken_codes: Counts,
    pub(crate) members: Vec<MemberReport>,
}

/// A reader of the report.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ReaderReport {
    pub(crate) name: String,
    pub(crate) reads: u64,
    pub(crate) seq_max: Option<u64>,
    pub(crate) gap_ms: f64,
    pub(crate) gap_from_s: f64,
    pub(crate) gap_from_unix_ms: i64,
    pub(crate) gap_is_open: bool,
    pub(crate) fault_first_read_ms: Option<f64>,
    pub(crate) fault_gap_ms: Option<f64>,
    pub(crate) fault_recovered_ms: Option<f64>,
    pub(crate) stale_max_ms: f64,
    pub(crate) age_max_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) connections: u64,
    pub(crate) broken: u64,
    pub(crate) errors: Counts,
    pub(crate) connect_errors: Counts,
    pub(crate) broken_codes: Counts,
    pub(crate) members: Vec<MemberReport>,
}

/// A server that answered.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct MemberReport {
    pub(crate) address: String,
    pub(crate) role: &'static str,
    pub(crate) answers: u64,
    pub(crate) first_s: f64,
    pub(crate) last_s: f64,
}

/// What a report is made from.
pub(crate) struct Facts<'a> {
    pub(crate) run: i64,
    pub(crate) table: String,
    pub(crate) clock: RunClock,
    pub(crate) duration: Duration,
    pub(crate) writers: u32,
    pub(crate) every: Duration,
    pub(crate) fault: Option<FaultRun>,
    pub(crate) paths: Vec<(&'a str, &'a PathTally)>,
    pub(crate) readers: Vec<(&'a str, &'a ReaderTally)>,
    /// What the check found, or why there was none.
    pub(crate) verdict: Result<Verdict, String>,
}

impl Report {
    /// Puts everything together.
    pub(crate) fn of(facts: &Facts<'_>) -> Self {
        let verdict = facts.verdict.as_ref().ok();
        let one = |(at, (name, tally)): (usize, &(&str, &PathTally))| {
            path(name, tally, verdict.and_then(|verdict| verdict.paths.get(at)), &facts.clock)
        };
        let paths: Vec<PathReport> = facts.paths.iter().enumerate().map(one).collect();
        let sum = |of: &dyn Fn(&PathReport) -> u64| paths.iter().map(of).sum::<u64>();
        let checked = |of: &dyn Fn(&PathReport) -> Option<u64>| paths.iter().map(of).sum::<Option<u64>>();
        let (lost, duplicate) = (checked(&|path| path.lost), checked(&|path| path.duplicate));
        let acked = sum(&|path| path.acked);
        let (words, exit_code) = judged(lost, duplicate, acked);
        Self {
            verdict: words,
            exit_code,
            run: facts.run,
            table: facts.table.clone(),
            started_unix_ms: facts.clock.start_micros / 1000,
            duration_s: seconds(facts.duration),
            writers: facts.writers,
            every_ms: ms(facts.every),
            verified: verdict.is_some(),
            verified_on: verdict.map(|verdict| verdict.server.clone()),
            verify_error: facts.verdict.as_ref().err().cloned(),
            old_primary_error: verdict.and_then(|verdict| verdict.old_primary_error.clone()),
            clean_error: None,
            fault_at_s: facts.fault.map(|fault| seconds(fault.at)),
            fault_end_s: facts.fault.and_then(|fault| fault.end).map(seconds),
            fault_exit_code: facts.fault.and_then(|fault| fault.code),
            sent: sum(&|path| path.sent),
            acked,
            refused: sum(&|path| path.refused),
            unknown: sum(&|path| path.unknown),
            unsent: sum(&|path| path.unsent),
            lost,
            phantom: checked(&|path| path.phantom),
            duplicate,
            divergence: checked(&|path| path.divergence),
            readers: facts.readers.iter().map(|(name, tally)| reader(name, tally, &facts.clock)).collect(),
            paths,
        }
    }
}

/// The verdict in one word, and the exit status.
fn judged(lost: Option<u64>, duplicate: Option<u64>, acked: u64) -> (&'static str, u8) {
    match (lost, duplicate) {
        (Some(lost), _) if lost > 0 => ("lost", 1),
        (_, Some(duplicate)) if duplicate > 0 => ("duplicate", 1),
        (Some(_), Some(_)) if acked > 0 => ("ok", 0),
        (Some(_), Some(_)) => ("nothing-written", 3),
        _ => ("unverified", 3),
    }
}

fn path(name: &str, tally: &PathTally, result: Option<&PathResult>, clock: &RunClock) -> PathReport {
    let count = |outcome: Outcome| tally.writers.iter().map(|writer| writer.ledger.count(outcome)).sum::<u64>();
    let found = |of: &dyn Fn(&super::ledger::Compared) -> u64| result.map(|found| found.writers.iter().map(of).sum());
    let gap = tally.gaps.longest();
    let after = tally.gaps.after_fault();
    let writer_gap = tally.writers.iter().map(|writer| writer.gaps.longest().length()).max().unwrap_or_default();
    let lost_rows =
        result.into_iter().flat_map(|found| found.writers.iter().enumerate()).flat_map(|(writer, found)| {
            let range = move |(first, last): &(u64, u64)| match first == last {
                true => format!("{writer}:{first}"),
                false => format!("{writer}:{first}-{last}"),
            };
            found.lost_ranges.iter().map(range)
        });
    PathReport {
        name: name.to_owned(),
        sent: tally.writers.iter().map(|writer| writer.ledger.sent()).sum(),
        acked: count(Outcome::Acked),
        refused: count(Outcome::Refused) + count(Outcome::Doubled),
        unknown: count(Outcome::Unknown),
        unsent: tally.writers.iter().map(|writer| writer.unsent).sum(),
        lost: found(&|found| found.lost),
        phantom: found(&|found| found.phantom),
        duplicate: found(&|found| found.duplicate),
        unknown_present: found(&|found| found.unknown_present),
        unknown_absent: found(&|found| found.unknown_absent),
        divergence: result.and_then(|found| found.divergence),
        lost_rows: lost_rows.take(LOST_ROWS_MAX).collect(),
        gap_ms: ms(gap.length()),
        gap_from_s: seconds(gap.from),
        gap_from_unix_ms: unix_ms(clock, &gap),
        gap_is_open: gap.is_open,
        gap_writer_ms: ms(writer_gap),
        fault_first_ack_ms: after.and_then(|after| after.first).map(ms),
        fault_gap_ms: after.map(|after| ms(after.longest.length())),
        fault_recovered_ms: after.and_then(|after| after.recovered()).map(ms),
        p50_ms: ms(tally.latency.quantile(0.5)),
        p99_ms: ms(tally.latency.quantile(0.99)),
        max_ms: ms(tally.latency.max()),
        connections: tally.connections.made,
        broken: tally.connections.broken.sum(),
        errors: tally.refused.0.clone(),
        unknown_codes: tally.unknown.0.clone(),
        connect_errors: tally.connections.failed.0.clone(),
        broken_codes: tally.connections.broken.0.clone(),
        members: members(&tally.members),
    }
}

fn reader(name: &str, tally: &ReaderTally, clock: &RunClock) -> ReaderReport {
    let Connections { made, failed, broken } = &tally.connections;
    let gap = tally.gaps.longest();
    let after = tally.gaps.after_fault();
    ReaderReport {
        name: name.to_owned(),
        reads: tally.reads,
        seq_max: tally.seq_max,
        gap_ms: ms(gap.length()),
        gap_from_s: seconds(gap.from),
        gap_from_unix_ms: unix_ms(clock, &gap),
        gap_is_open: gap.is_open,
        fault_first_read_ms: after.and_then(|after| after.first).map(ms),
        fault_gap_ms: after.map(|after| ms(after.longest.length())),
        fault_recovered_ms: after.and_then(|after| after.recovered()).map(ms),
        stale_max_ms: ms(tally.stale_max),
        age_max_ms: ms(tally.age_max),
        p50_ms: ms(tally.latency.quantile(0.5)),
        p99_ms: ms(tally.latency.quantile(0.99)),
        max_ms: ms(tally.latency.max()),
        connections: *made,
        broken: broken.sum(),
        errors: tally.errors.0.clone(),
        connect_errors: failed.0.clone(),
        broken_codes: broken.0.clone(),
        members: members(&tally.members),
    }
}

fn members(members: &Members) -> Vec<MemberReport> {
    let one = |member: &super::tally::Member| MemberReport {
        address: member.address.clone(),
        role: member.role,
        answers: member.answers,
        first_s: seconds(member.first),
        last_s: seconds(member.last),
    };
    members.0.iter().map(one).collect()
}

fn unix_ms(clock: &RunClock, gap: &Gap) -> i64 {
    clock.micros(gap.from) / 1000
}

/// Milliseconds to a thousandth.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Seconds to a thousandth.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// Most ranges of lost rows that are told of a path.
const LOST_ROWS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_or_done_twice_is_a_failure_and_what_is_not_known_is_no_success() {
        assert_eq!(judged(Some(0), Some(0), 10), ("ok", 0));
        assert_eq!(judged(Some(1), Some(0), 10), ("lost", 1));
        assert_eq!(judged(Some(0), Some(1), 10), ("duplicate", 1));
        assert_eq!(judged(Some(1), Some(1), 10), ("lost", 1));
        assert_eq!(judged(Some(0), Some(0), 0), ("nothing-written", 3));
        assert_eq!(judged(None, None, 10), ("unverified", 3));
    }

    #[test]
    fn every_field_is_explained_to_those_who_read_the_json() {
        let page = include_str!("../../../../docs/operating/hatest.md");
        let path = serde_json::to_value(PathReport::default());
        let reader = serde_json::to_value(ReaderReport::default());
        let member = serde_json::to_value(MemberReport::default());
        let whole = serde_json::to_value(Report::default());
        for part in [path, reader, member, whole] {
            let part = part.expect("JSON");
            for field in part.as_object().expect("an object").keys() {
                assert!(page.contains(&format!("`{field}`")), "docs/operating/hatest.md does not explain {field}");
            }
        }
    }
}
