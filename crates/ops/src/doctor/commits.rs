//! How long commits take: a probe that makes the server write its log, only by the word of the operator.
//!
//! Always true: no table is touched, and the session is read-only as all of `doctor`'s; what is written is a message in the log, of a few bytes, at most
//! fifty times a second. The wait for a standby is not part of it.
//! Not here: what follows (`rules`).

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::connection::{Line, Stop};
use crate::facts::{Commits, Observed};

/// Tries commits for `time`, unless the run is ended.
pub(super) async fn probe(line: &mut Line, time: Duration, stop: &mut Stop) -> Observed<Commits> {
    let mut is_standby = String::new();
    line.rows(STANDBY, |row| is_standby = row.into_iter().flatten().collect()).await?;
    if is_standby != "f" {
        return Err("a primary: a standby does not commit".to_owned());
    }
    line.rows(LOCAL, |_| ()).await?;
    let (mut begins, mut commits) = (Vec::new(), Vec::new());
    let every = (time / TRIES).max(EVERY_MIN);
    let (mut next, end) = (Instant::now(), Instant::now() + time);
    while next < end && stop.or(sleep_until(next)).await.is_some() {
        next += every;
        begins.push(timed(line, "begin").await?);
        line.rows(MESSAGE, |_| ()).await?;
        commits.push(timed(line, "commit").await?);
        // After a commit that took long there is a pause as well.
        next = next.max(Instant::now() + EVERY_MIN);
    }
    summary(begins, commits)
}

async fn timed(line: &mut Line, statement: &str) -> Observed<f64> {
    let began = Instant::now();
    line.rows(statement, |_| ()).await?;
    Ok(began.elapsed().as_secs_f64())
}

fn summary(mut ways: Vec<f64>, mut commits: Vec<f64>) -> Observed<Commits> {
    if commits.len() < TRIES_MIN {
        return Err(format!("more time: {} commits were tried", commits.len()));
    }
    ways.sort_by(f64::total_cmp);
    commits.sort_by(f64::total_cmp);
    let of = |sorted: &[f64], share: f64| sorted[((sorted.len() as f64 * share).ceil() as usize).max(1) - 1];
    Ok(Commits { count: commits.len(), median: of(&commits, 0.5), p99: of(&commits, 0.99), way: of(&ways, 0.5) })
}

const STANDBY: &str = "select pg_is_in_recovery()";
/// What a commit waits for: this server's disk.
const LOCAL: &str = "set synchronous_commit = local";
/// A transaction that has written nothing does not wait when it commits.
const MESSAGE: &str = "select pg_logical_emit_message(true, 'trunkline doctor', '')";
const TRIES: u32 = 200;
/// Fewer have no median.
const TRIES_MIN: usize = 5;
const EVERY_MIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_what_a_request_takes_that_waits_for_nothing() {
        let commits: Vec<f64> = (1..=200).map(f64::from).collect();
        let seen = summary(vec![0.5; 200], commits).expect("enough");
        assert_eq!((seen.count, seen.median, seen.p99, seen.way), (200, 100.0, 198.0, 0.5));
        assert!(summary(vec![1.0; 4], vec![1.0; 4]).expect_err("few").contains("4 commits were tried"));
    }
}
