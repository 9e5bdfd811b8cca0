//! Checks that a pooler is at rest when all its clients have gone.
//!
//! Always true: it is checked until it is at rest, or a deadline has passed.
//! Not here: what was done with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::client::Answer;
use crate::pooler::Pooler;
use crate::wait::{LIMIT, try_wait_for};

/// Checks that it runs, is at rest and had no protocol violations.
///
/// # Errors
/// What is wrong with it.
pub fn check(pooler: &mut Pooler) -> Result<(), String> {
    if !pooler.is_running() {
        return Err("the pooler has ended".to_owned());
    }
    let log = pooler.log();
    if let Some(line) = log.lines().find(|line| line.contains("protocol violation") || line.contains("panic")) {
        return Err(format!("the log says: {line}"));
    }
    let mut busy = Vec::new();
    let at_rest = || {
        busy = busy_pools(&pooler.console("SHOW POOLS"));
        busy.is_empty().then_some(())
    };
    // A pooler that neither ends nor answers causes a panic.
    match catch_unwind(AssertUnwindSafe(|| try_wait_for(LIMIT, at_rest))) {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(format!("not at rest: {busy:?}")),
        Err(_) => Err("the console does not answer".to_owned()),
    }
}

/// The rows of SHOW POOLS that are not at rest, one line each.
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

/// The columns of SHOW POOLS that are zero when no client is connected and nothing is owed.
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
