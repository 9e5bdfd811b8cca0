//! Whether a pooler is well when all who have used it are gone.
//!
//! Always true: it is looked at until it is at rest, or a deadline has passed.
//! Not here: what was done with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::client::Answer;
use crate::pooler::Pooler;
use crate::wait::{LIMIT, try_wait_for};

/// Whether it runs, is at rest and had no surprises.
///
/// # Errors
/// What is wrong with it.
pub fn check(pooler: &mut Pooler) -> Result<(), String> {
    if !pooler.is_running() {
        return Err("the pooler has ended".to_owned());
    }
    let log = pooler.log();
    if let Some(line) = log.lines().find(|line| line.contains("protocol surprise") || line.contains("panic")) {
        return Err(format!("the log says: {line}"));
    }
    let mut busy = Vec::new();
    let at_rest = || {
        busy = busy_pools(&pooler.console("SHOW POOLS"));
        busy.is_empty().then_some(())
    };
    // One that neither ends nor answers is found out by a panic.
    match catch_unwind(AssertUnwindSafe(|| try_wait_for(LIMIT, at_rest))) {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(format!("not at rest: {busy:?}")),
        Err(_) => Err("the console does not answer".to_owned()),
    }
}

/// What is not at rest in the answer to SHOW POOLS, one line each.
pub fn busy_pools(pools: &Answer) -> Vec<String> {
    let mut busy = Vec::new();
    for row in (0..pools.rows.len()).map(|at| pools.named(at)).filter(|row| row["database"] != "pgbouncer") {
        for name in AT_REST {
            if row.get(name).is_none_or(|value| value != "0") {
                busy.push(format!("pool {}/{}: {name} = {:?}", row["database"], row["user"], row.get(name)));
            }
        }
    }
    busy
}

/// What is zero in SHOW POOLS when nobody is there and nothing is owed.
const AT_REST: [&str; 9] = [
    "cl_active",
    "cl_waiting",
    "cl_active_cancel_req",
    "cl_waiting_cancel_req",
    "sv_active",
    "sv_active_cancel",
    "sv_being_canceled",
    "sv_login",
    "maxwait",
];
