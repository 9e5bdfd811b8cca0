//! Samples of what sessions wait for, taken over one connection.
//!
//! Always true: our own sessions are not counted; after a sample there is a pause at least as long as the sample took, so that a slow server is not
//! asked without end; it ends when it is told to, with what it has.
//! Not here: what the samples say (`facts/waits`).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::facts::{Group, Waits};

use crate::connection::{Line, Stop};

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
    let mut names = BTreeMap::new();
    let read = line.rows(NAMES, |row| names.extend(pair(row))).await;
    if read.is_err() || line.rows(PREPARE, |_| ()).await.is_err() {
        return waits;
    }
    while line.lost().is_none() {
        if stop.or(sleep_until(next.min(end))).await.is_none() || next >= end {
            break;
        }
        let began = Instant::now();
        let mut groups: Vec<(Group, u64)> = Vec::new();
        let Some(answer) = stop.or(line.rows(EXECUTE, |row| groups.extend(group(row, &names)))).await else { break };
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

fn pair(row: Vec<Option<String>>) -> Option<(String, String)> {
    let mut values = row.into_iter().flatten();
    Some((values.next()?, values.next()?))
}

/// A row of a sample. A database or role that is younger than the run is told by its number.
fn group(row: Vec<Option<String>>, names: &BTreeMap<String, String>) -> Option<(Group, u64)> {
    let mut values = row.into_iter().map(Option::unwrap_or_default);
    let mut next = || values.next();
    let mut group = [next()?, next()?, next()?, next()?, next()?, next()?];
    for (place, kind) in [(DATABASE, 'd'), (ROLE, 'r')] {
        if let Some(name) = names.get(&format!("{kind}{}", group[place])) {
            group[place].clone_from(name);
        }
    }
    let count = next()?.parse().ok()?;
    Some((group, count))
}

/// The names of databases and roles by their numbers.
const NAMES: &str = "select 'd' || oid, datname from pg_database union all select 'r' || oid, rolname from pg_roles";
/// Idle sessions are counted together. The function below `pg_stat_activity` spares the server two joins a sample.
const PREPARE: &str = "prepare trunkline_doctor_sample as select state, \
    case when state <> 'idle' then wait_event_type end, case when state <> 'idle' then wait_event end, \
    case when state <> 'idle' then datid end, case when state <> 'idle' then usesysid end, \
    case when state <> 'idle' then application_name end, count(*) from pg_stat_get_activity(null) \
    where backend_type in ('client backend', 'parallel worker') and state is not null \
    and application_name is distinct from current_setting('application_name') group by 1, 2, 3, 4, 5, 6";
const EXECUTE: &str = "execute trunkline_doctor_sample";
/// Places in a group.
const DATABASE: usize = 3;
const ROLE: usize = 4;
/// How many times as long as a sample takes it is until the next.
const REST: u32 = 2;
