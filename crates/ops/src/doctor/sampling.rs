//! Samples of what sessions wait for, taken over one connection.
//!
//! Always true: our own sessions are not counted; a sample that takes long makes the next one later, so that sampling never takes more than a
//! twentieth of a processor; it ends when it is told to, with what it has.
//! Not here: what the samples say (`facts/waits`).

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::facts::{Group, Waits};

use super::ask::Line;
use super::stop::Stop;

/// Samples for `time`, unless the connection is lost or the run is ended. `tick` is told how far it is, from 0 to 1.
pub(crate) async fn sample(
    line: &mut Line,
    time: Duration,
    every: Duration,
    stop: &mut Stop,
    mut tick: impl FnMut(f64),
) -> Waits {
    let mut waits = Waits::default();
    let begin = Instant::now();
    let end = begin + time;
    let mut next = begin;
    if line.rows(PREPARE, |_| ()).await.is_err() {
        return waits;
    }
    while next < end && line.lost().is_none() {
        if stop.or(sleep_until(next)).await.is_none() {
            break;
        }
        let began = Instant::now();
        let mut groups: Vec<(Group, u64)> = Vec::new();
        let answer = line.rows(EXECUTE, |row| groups.extend(group(row))).await;
        if answer.is_ok() {
            waits.add(groups.into_iter());
        }
        let took = began.elapsed();
        next = (next + every).max(began + took * REST);
        tick(begin.elapsed().as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE));
    }
    waits.seconds = begin.elapsed().as_secs_f64();
    waits
}

fn group(row: Vec<Option<String>>) -> Option<(Group, u64)> {
    let mut values = row.into_iter().map(Option::unwrap_or_default);
    let mut next = || values.next();
    let group = [next()?, next()?, next()?, next()?, next()?, next()?];
    let count = next()?.parse().ok()?;
    Some((group, count))
}

/// Idle sessions are counted together.
const PREPARE: &str = "prepare trunkline_doctor_sample as select state, \
    case when state <> 'idle' then wait_event_type end, case when state <> 'idle' then wait_event end, \
    case when state <> 'idle' then datname end, case when state <> 'idle' then usename end, \
    case when state <> 'idle' then application_name end, count(*) from pg_stat_activity \
    where backend_type in ('client backend', 'parallel worker') and state is not null \
    and application_name is distinct from current_setting('application_name') group by 1, 2, 3, 4, 5, 6";
const EXECUTE: &str = "execute trunkline_doctor_sample";
/// How many times as long as a sample takes it is until the next.
const REST: u32 = 20;
