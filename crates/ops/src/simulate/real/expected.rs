//! What the virtual run says of the same spec, with the times that were measured: the two ways beside each other.
//!
//! Always true: the virtual run gets the measured times for which transactions had a server, each by its arrival, the measured logins, and the
//! same arrivals; nothing else of the real one.
//! Not here: the tolerance (`tests/real`).

use super::super::course::Study;
use super::super::engine::{Measured, Outcome, run_with_work};
use super::super::experiment::{knee, point_of};
use super::super::report::{Chapter, Part};
use super::super::spec::{Behaviour, Spec};
use super::facts::RealRun;
use crate::load::Law;

/// A row for each setting of each pooler; `None` if there is nothing to compare.
pub(super) fn table(
    studies: &[Study],
    settings: &[(Vec<String>, Spec)],
    is_pgbouncer: &[Option<bool>],
    logins: &[u64],
) -> Option<Chapter> {
    let mut rows = Vec::new();
    for (study, is_pgbouncer) in studies.iter().zip(is_pgbouncer) {
        // Nothing pools at the server itself.
        let Some(is_pgbouncer) = is_pgbouncer else { continue };
        let mut expected = Vec::new();
        for (place, (values, spec)) in settings.iter().enumerate() {
            let Some(point) = study.points.iter().find(|point| point.values == *values) else { continue };
            // Until BEGIN is answered there is always the way there and back, also if nobody waits.
            let way = point.total.wait(5.0);
            let way_micros = (way * 1e6) as u64;
            let runs: Vec<&RealRun> = study.real.iter().filter(|run| run.setting == place).collect();
            let outcomes: Vec<(u32, Outcome)> = runs
                .iter()
                .zip(0..)
                .map(|(real, round)| {
                    let spec = measured(spec, real, *is_pgbouncer, logins, way);
                    // Whoever has a server has it also until its BEGIN has gone there and come back.
                    let work: Vec<Measured> =
                        real.loans.iter().map(|loan| Measured { held: loan.held + way_micros, ..*loan }).collect();
                    (round, run_with_work(&spec, real.seed, &work))
                })
                .collect();
            let Some(virtual_point) = point_of(values, outcomes) else { continue };
            let (real, other) = (&point.total, &virtual_point.total);
            let opened = |outcome: &Outcome| outcome.servers.opened as f64 / outcome.seconds;
            for (what, real, other) in [
                ("p99 wait, ms", (real.wait(99.0) - way) * 1e3, other.wait(99.0) * 1e3),
                ("mean wait, ms", (real.wait_average() - way) * 1e3, other.wait_average() * 1e3),
                ("servers opened a second", opened(real), opened(other)),
                ("transactions a second", real.throughput(), other.throughput()),
            ] {
                rows.push(row(&study.spec.title, &values.join(", "), what, real, other));
            }
            expected.push(virtual_point);
        }
        if let Some(real) = study.knee
            && let Some(other) = knee(&expected, &study.spec.knee, study.spec.seed)
        {
            rows.push(row(&study.spec.title, "", "knee", real.at, other.at));
        }
    }
    let heads = ["target", "setting", "figure", "real", "virtual", "real / virtual"].map(str::to_owned).to_vec();
    let words = vec![WORDS.to_owned()];
    (!rows.is_empty()).then(|| Chapter {
        title: "The real run and the virtual one".to_owned(),
        words,
        part: Part::Table { heads, rows },
    })
}

fn row(target: &str, setting: &str, what: &str, real: f64, other: f64) -> Vec<String> {
    let ratio = if other > 0.0 { format!("{:.3}", real / other) } else { String::new() };
    vec![target.to_owned(), setting.to_owned(), what.to_owned(), format!("{real:.3}"), format!("{other:.3}"), ratio]
}

/// The spec with what was measured.
fn measured(spec: &Spec, real: &RealRun, is_pgbouncer: bool, logins: &[u64], way: f64) -> Spec {
    let mut spec = spec.clone();
    let mut group_number = 0;
    for database in &mut spec.databases {
        if is_pgbouncer && database.pooler.behaviour == Behaviour::Trunkline {
            database.pooler.behaviour = Behaviour::PgBouncer;
            database.pooler.limits.dials_max = 1;
        }
        for group in &mut database.groups {
            for (kind, transaction) in group.transactions.iter_mut().enumerate() {
                if let Some(held) = real.held_by(group_number, kind as u32) {
                    (transaction.statements, transaction.think) = (1, Law::ZERO);
                    transaction.service = held;
                }
            }
            group_number += 1;
        }
    }
    let server = &mut spec.server;
    (server.cores, server.contention, server.round_trip) = (None, None, (way * 1e6) as u64);
    server.login = quantiles(if real.server_logins.len() >= logins.len() { &real.server_logins } else { logins });
    spec.client.login = Law::Constant(real.login.p50);
    spec.client.round_trip = 0;
    spec
}

/// The law of sorted times in microseconds.
fn quantiles(sorted: &[u64]) -> Law {
    let last = sorted.len().saturating_sub(1).max(1) as f64;
    let points = sorted.iter().enumerate().map(|(place, micros)| (place as f64 / last, *micros as f64 / 1e6));
    if sorted.len() < 2 { Law::ZERO } else { Law::Quantiles(points.collect()) }
}

const WORDS: &str = "The virtual run has the measured time for which transactions had a server, and the measured logins; from waits, the time of a \
                     BEGIN that need not wait is subtracted.";
