//! Checks that every pool can be filled: all its servers work at once, and the next client waits.
//!
//! Always true: a client that waits is served in the end.
//! Not here: that no pool is ever larger (`sizes`).

use std::time::Duration;

use tests::client::Client;
use tests::wait::try_wait_for;

use super::cast::{POOLS, SHARED};
use super::era::{POOL_SIZE, SHARED_SERVERS};
use super::sizes;
use super::stage::Stage;

/// Fills all pools, one after another.
pub(crate) fn check(stage: &Stage<'_>) -> Result<(), String> {
    POOLS.iter().try_for_each(|(database, user)| fill(stage, database, user))
}

fn fill(stage: &Stage<'_>, database: &str, user: &str) -> Result<(), String> {
    let most = if database == SHARED { SHARED_SERVERS } else { POOL_SIZE };
    // They all wait inside a statement, so their servers are held in every pool mode.
    let mut gate = stage.postgres.client(database);
    gate.run("select pg_advisory_lock(1)");
    let mut clients: Vec<Client> = (0..=most).map(|_| stage.pooler.client(user, database)).collect();
    clients[..most].iter_mut().for_each(|client| client.ask(WAIT));
    let mut await_pool = |queued: usize| {
        let mut seen = (0, 0, 0);
        let full = try_wait_for(FULL, || {
            let queue = stage.pooler.pool(database, user)["cl_waiting"].parse().unwrap_or(0);
            seen = (queue, gate.value(WAITING).parse().unwrap_or(0), sizes::servers(stage, database, user));
            (seen == (queued, most, most)).then_some(())
        });
        let (queue, working, servers) = seen;
        full.ok_or(format!(
            "{database}/{user} is not full: {queue} clients wait, {working} of {most} work, {servers} servers"
        ))
    };
    await_pool(0)?;
    clients[most].ask(WAIT);
    await_pool(1)?;
    gate.run("select pg_advisory_unlock(1)");
    // Each disconnects when it is served: in session mode the last one waits for that.
    clients.into_iter().try_for_each(|mut client| {
        let answer = client.answer_within(FULL);
        let is_served = answer.errors.is_empty() && answer.rows.len() == 1;
        is_served.then_some(()).ok_or(format!("{database}/{user} is full, and a client hears {answer:?}"))
    })
}

const WAIT: &str = "select set_config('lock_timeout', '0', true), pg_advisory_xact_lock_shared(1)";
const WAITING: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'advisory'";
const FULL: Duration = Duration::from_secs(30);
