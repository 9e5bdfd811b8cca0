//! The checks at the end: everything is back at rest, and the tables contain what the clients were told.
//!
//! Always true: each check is repeated until it succeeds or a deadline has passed.
//! Not here: whether every client is served (`life`, the proof).

use std::time::Duration;

use tests::client::{Answer, Client};
use tests::wait::try_wait_for;

use super::cast::{DATABASES, POOLS, SHARED, who};
use super::era::{POOL_SIZE, POOL_SIZE_MAX, SHARED_SERVERS};
use super::ledger::{Ledger, Outcome};
use super::stage::Stage;

/// Resources of a pooler that has had no clients yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pub(crate) descriptors: usize,
    pub(crate) memory_kb: u64,
}

impl Reference {
    /// Measures the resources now.
    pub(crate) fn take(stage: &Stage<'_>) -> Self {
        Self { descriptors: stage.pooler.descriptors(), memory_kb: stage.pooler.memory_kb("VmRSS") }
    }
}

/// Waits until the pooler has nothing to do: servers idle, queues empty.
pub(crate) fn await_quiet(stage: &Stage<'_>) -> Result<(), String> {
    let mut last = String::new();
    let quiet = try_wait_for(QUIET, || {
        last = unrest(stage).join("\n");
        last.is_empty().then_some(())
    });
    quiet.ok_or_else(|| format!("not at rest {QUIET:?} after the chaos:\n{last}"))
}

/// Everything that must be true when the last client has left.
pub(crate) fn check(stage: &Stage<'_>, before: Reference) -> Result<String, String> {
    await_quiet(stage)?;
    let lists = stage.console("SHOW LISTS");
    let violations = (0..lists.rows.len()).map(|at| lists.named(at)).find(|row| row["list"] == "protocol_violations");
    if violations.as_ref().is_none_or(|row| row["items"] != "0") {
        return Err(format!("protocol_violations: {violations:?}"));
    }
    let (servers, held) = (stage.console("SHOW SERVERS").rows.len(), stage.pooler.descriptors());
    let allowed = before.descriptors + servers + DESCRIPTORS_MORE;
    if held > allowed {
        return Err(format!("the pooler holds {held} descriptors: {} at start, {servers} servers", before.descriptors));
    }
    let (memory, buffers) = (stage.pooler.memory_kb("VmRSS"), buffers_kb(stage));
    if memory > before.memory_kb + buffers + MEMORY_MORE_KB {
        let start = before.memory_kb;
        return Err(format!("the pooler has {memory} kB, {start} kB at start and {buffers} kB of receive buffers"));
    }
    complaints_in(&stage.pooler.log())?;
    Ok(format!(
        "  at rest: {servers} servers, {held} descriptors ({} at start), {memory} kB ({} kB at start, {buffers} kB of \
         receive buffers in use at one time)\n",
        before.descriptors, before.memory_kb
    ))
}

/// Memory of the receive buffers. The system keeps memory for as many as have been in use at once.
fn buffers_kb(stage: &Stage<'_>) -> u64 {
    let tables = stage.console("SHOW MEM");
    let buffers = (0..tables.rows.len()).map(|at| tables.named(at)).find(|row| row["name"] == "iobuf_cache");
    buffers.and_then(|row| row["memtotal"].parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// No pool is larger than the largest limit that was configured.
pub(crate) fn check_sizes(pools: &Answer) -> Result<(), String> {
    for row in (0..pools.rows.len()).map(|at| pools.named(at)) {
        let servers: usize = SERVER_COLUMNS.iter().filter_map(|name| row.get(*name)?.parse::<usize>().ok()).sum();
        if servers > POOL_SIZE_MAX {
            return Err(format!("a pool has {servers} servers: {row:?}"));
        }
    }
    Ok(())
}

/// The rows of each transaction match what its client was told.
pub(crate) fn check_tables(stage: &Stage<'_>, ledgers: &[Ledger]) -> Result<(), String> {
    DATABASES.iter().try_for_each(|database| {
        let mut owner = stage.postgres.client(database);
        check_strangers(&mut owner)?;
        let clients = ledgers.iter().enumerate().filter(|(client, _)| who(*client).database == *database);
        clients.into_iter().try_for_each(|(client, ledger)| check_ledger(&mut owner, client, ledger))
    })
}

fn check_strangers(owner: &mut Client) -> Result<(), String> {
    let strangers = "select client, number, part, note, name, zone from soak_log where name <> 'soak-' || client \
                     or note !~ ('^k' || client || '[.]') or split_part(note, '|', 2) <> zone \
                     or not exists (select from soak_counters c where c.client = soak_log.client) limit 5";
    let strangers = owner.query(strangers).rows;
    match strangers.is_empty() {
        true => Ok(()),
        false => Err(format!("rows that were written under another client's name or settings: {strangers:?}")),
    }
}

fn check_ledger(owner: &mut Client, client: usize, ledger: &Ledger) -> Result<(), String> {
    let sql = format!("select number, count(*) from soak_log where client = {client} group by 1 order by 1");
    let mut found: Vec<Option<u64>> = vec![Some(0); ledger.entries().len()];
    for row in owner.query(&sql).rows {
        let number = |at: usize| row[at].as_ref().and_then(|text| text.parse::<u64>().ok());
        let place = number(0).and_then(|number| found.get_mut(number as usize));
        *place.ok_or_else(|| format!("client {client} never began transaction {row:?}"))? = number(1);
    }
    for (number, (entry, rows)) in ledger.entries().iter().zip(&found).enumerate() {
        let all = u64::from(entry.parts);
        let fits = match entry.outcome {
            Outcome::Absent => *rows == Some(0),
            Outcome::Committed => *rows == Some(all),
            Outcome::Unknown => *rows == Some(0) || *rows == Some(all),
        };
        if !fits {
            return Err(format!("transaction {number} of client {client}: {entry:?}, but {rows:?} rows are there"));
        }
    }
    let there = found.iter().filter(|rows| **rows != Some(0)).count();
    let counter = owner.value(&format!("select n from soak_counters where client = {client}"));
    match counter == there.to_string() {
        true => Ok(()),
        false => Err(format!("client {client} counted {counter} transactions, and {there} left their rows")),
    }
}

/// Log lines that must never occur.
pub(crate) fn complaints_in(log: &str) -> Result<(), String> {
    let is_bad = |line: &&str| ["] ERROR ", "] FATAL "].iter().any(|level| line.contains(level));
    let bad: Vec<_> = log.lines().filter(is_bad).filter(|line| !line.contains(TERMINATE_READ_AS_A_NAME)).collect();
    match bad.is_empty() {
        true => Ok(()),
        false => Err(format!("{} lines of ERROR or FATAL in the log, such as {}", bad.len(), bad[0])),
    }
}

/// Everything that is not at rest, one line each.
fn unrest(stage: &Stage<'_>) -> Vec<String> {
    let mut found = tests::rest::busy_pools(&stage.console("SHOW POOLS"));
    let clients = stage.console("SHOW CLIENTS").rows.len();
    if clients > 1 {
        found.push(format!("{} clients beside the console's", clients - 1));
    }
    let sql = "select pid, state, query from pg_stat_activity where datname like 'soak%'";
    let processes = stage.postgres.query(sql).rows;
    let servers = stage.console("SHOW SERVERS").rows.len();
    if processes.len() > servers {
        found.push(format!("{} processes of PostgreSQL for {servers} servers", processes.len()));
    }
    if servers > servers_max() {
        found.push(format!("{servers} servers, though {} are allowed", servers_max()));
    }
    found.extend(
        processes.iter().filter(|row| row[1].as_deref() != Some("idle")).map(|row| format!("at work: {row:?}")),
    );
    found
}

const SERVER_COLUMNS: [&str; 6] = ["sv_active", "sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login"];
/// Largest number of servers of all pools after the chaos.
fn servers_max() -> usize {
    POOLS.iter().filter(|(database, _)| *database != SHARED).count() * POOL_SIZE + SHARED_SERVERS
}

const QUIET: Duration = Duration::from_secs(30);
/// The descriptors of the console, and those that a library may have opened.
const DESCRIPTORS_MORE: usize = 4;
/// Growth of tables that have held hundreds of clients, and memory that the allocator keeps.
const MEMORY_MORE_KB: u64 = 6 * 1024;
/// A client that breaks off in the middle of a Bind may still send Terminate: its type byte and the zero byte after it are
/// then read as a statement name.
const TERMINATE_READ_AS_A_NAME: &str = "prepared statement 'X' not found";
