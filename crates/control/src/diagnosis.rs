//! The diagnosis: what is wrong, in one sentence, shown in the first line of `SHOW WAITS` and of the page.
//!
//! Always true: the sentence is made from one survey of the workers; it names the database that suffers most, what can
//! be done, and a cause only where the survey shows it; it says that all is well only if nobody waits and nobody fails.
//! Not here: the rows that it is made from (`worker::admin::waits`), who fails (`failing`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Id, words};
use measure::Phase;
use pool::WaitReason;
use worker::letters::{Doing, PoolMeasures, PoolRow, WaitRow};

use crate::CONSOLE;
use crate::console::show::View;
use crate::failing;
use crate::lock_suspects::{LockKeepers, Suspect};

/// The diagnosis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Diagnosis {
    pub(crate) cause: Cause,
    /// The sentence.
    pub(crate) text: String,
}

/// The cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Cause {
    /// No problem.
    Well,
    Suspended,
    Paused,
    /// Clients of a database are held while its primary changes or restarts.
    Held,
    Unreachable,
    Limit,
    Thinking,
    SlowReader,
    Lock,
    SlowQuery,
    Kept,
    PoolSize,
    Worker,
    Dialing,
    RateLimit,
    /// Logins of the pooler at servers fail.
    ServerLogins,
    ServersLost,
    ClientsRefused,
    ClientsFailed,
    QueriesFail,
}

words!(Cause:
    Well = "well",
    Suspended = "suspended",
    Paused = "paused",
    Held = "held",
    Unreachable = "unreachable",
    Limit = "limit",
    Thinking = "client_thinking",
    SlowReader = "slow_reader",
    Lock = "lock",
    SlowQuery = "slow_query",
    Kept = "kept_servers",
    PoolSize = "pool_size",
    Worker = "worker",
    Dialing = "dialing",
    RateLimit = "rate_limit",
    ServerLogins = "server_logins",
    ServersLost = "servers_lost",
    ClientsRefused = "clients_refused",
    ClientsFailed = "clients_failed",
    QueriesFail = "queries_fail",
);

/// Returns the diagnosis for the present.
pub(crate) fn of(view: &View<'_>) -> Diagnosis {
    let why_slow = of_waits(view);
    let Some((cause, failing)) = failing::of(view) else { return why_slow };
    match why_slow.cause {
        Cause::Well => Diagnosis { cause, text: failing },
        // The one may be the cause of the other, so both are told.
        first => Diagnosis { cause: first, text: format!("{} {failing}", why_slow.text) },
    }
}

/// Returns why clients wait, or what lasts long.
fn of_waits(view: &View<'_>) -> Diagnosis {
    let say = |cause, text: String| Diagnosis { cause, text };
    if view.is_suspended {
        return say(Cause::Suspended, "All databases are suspended (SUSPEND): RESUME ends that.".to_owned());
    }
    if view.standing.is_all_paused() {
        return say(Cause::Paused, "All databases are paused (PAUSE): RESUME ends that.".to_owned());
    }
    let rows: Vec<&WaitRow> = view.snapshots.iter().flat_map(|snapshot| &snapshot.waits).collect();
    let waiting = rows.iter().filter(|row| matches!(row.doing, Doing::Waits(_) | Doing::Delayed));
    let mut by_pool: BTreeMap<(&Arc<str>, &Arc<str>), Waiters> = BTreeMap::new();
    for row in waiting {
        let waiters = by_pool.entry((&row.database, &row.user)).or_default();
        waiters.count += 1;
        waiters.total += row.transaction;
        waiters.longest = waiters.longest.max(row.transaction);
        waiters.delayed += u32::from(row.doing == Doing::Delayed);
    }
    // Short waits are no problem.
    let worst =
        by_pool.iter().filter(|(_, waiters)| waiters.longest >= TROUBLE).max_by_key(|(_, waiters)| waiters.total);
    if let Some(((database, user), waiters)) = worst {
        let pool = view
            .snapshots
            .iter()
            .flat_map(|snapshot| &snapshot.pools)
            .find(|pool| pool.database == **database && pool.user == **user);
        let why = why_they_wait(view, (database, user), waiters, pool, &rows);
        // A pool whose servers are never free looks too small when in fact its worker is overloaded.
        let home = view
            .snapshots
            .iter()
            .position(|snapshot| snapshot.pools.iter().any(|pool| pool.database == **database && pool.user == **user));
        let its_worker = home.filter(|_| why.cause == Cause::PoolSize).and_then(|home| busy_worker(view, home));
        return its_worker.unwrap_or(why);
    }
    if let Some(busy) = busiest(view) {
        return busy;
    }
    if let Some(locked) = locked_without_waiters(&rows) {
        return locked;
    }
    // The clients of the console are not counted, as on the page.
    let pools = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools).filter(|pool| *pool.database != *CONSOLE);
    let total: u32 = pools.map(|pool| pool.cl_active).sum();
    let who = if total == 1 { "1 client is".to_owned() } else { format!("{total} clients are") };
    let slow = slow_without_waiters(&rows);
    say(Cause::Well, format!("All is well: nobody waits for a server and nobody fails, {who} connected{slow}."))
}

/// Nobody waits for a server, but clients seem to wait for each other in PostgreSQL.
fn locked_without_waiters(rows: &[&WaitRow]) -> Option<Diagnosis> {
    let mut by_pool: BTreeMap<(&Arc<str>, &Arc<str>), Vec<&WaitRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_at_work(row) && row.doing_for >= LONG) {
        by_pool.entry((&row.database, &row.user)).or_default().push(row);
    }
    let keepers = LockKeepers::by_database(rows);
    let found = by_pool.into_iter().filter_map(|((database, user), working)| {
        let suspect = keepers.get(&**database)?.suspect(&working)?;
        Some(((database, user), suspect))
    });
    let ((database, user), suspect) = found.max_by_key(|(_, suspect)| suspect.count)?;
    let text = match suspect.count {
        1 => format!("Nobody waits for a server, but 1 statement of {database}/{user} seems"),
        count => format!("Nobody waits for a server, but {count} statements of {database}/{user} seem"),
    };
    Some(Diagnosis {
        cause: Cause::Lock,
        text: format!("{text} to wait for a lock, {}.", suspected(&suspect, database, user)),
    })
}

/// What lasts long although nobody waits for a server, for the end of the sentence that says that all is well.
fn slow_without_waiters(rows: &[&WaitRow]) -> String {
    let longest = |wanted: fn(&WaitRow) -> bool| {
        let found = rows.iter().filter(|row| row.doing_for >= LONG && wanted(row));
        let count = found.clone().count();
        found.max_by_key(|row| row.doing_for).map(|row| (count, row))
    };
    let kinds = [
        (longest(is_at_work), "1 statement is slow", "statements are slow"),
        (
            longest(|row| row.doing == Doing::In(Phase::Blocked)),
            "1 client does not read its answer",
            "clients do not read their answers",
        ),
        (
            longest(|row| row.doing == Doing::In(Phase::Thinking)),
            "1 client is idle in its transaction",
            "clients are idle in their transactions",
        ),
    ];
    let most = kinds.into_iter().filter_map(|(found, one, many)| Some((found?, one, many)));
    let Some(((count, row), one, many)) = most.max_by_key(|((count, _), ..)| *count) else { return String::new() };
    let what = if count == 1 { one.to_owned() } else { format!("{count} {many}") };
    let statement = if is_at_work(row) { format!(": {}", row.statement) } else { String::new() };
    format!("; {what} (longest: {}, for {}{statement})", named(row), shown(row.doing_for))
}

#[derive(Default)]
struct Waiters {
    count: u32,
    delayed: u32,
    total: Duration,
    longest: Duration,
}

fn why_they_wait(
    view: &View<'_>,
    (database, user): (&str, &str),
    waiters: &Waiters,
    pool: Option<&PoolRow>,
    rows: &[&WaitRow],
) -> Diagnosis {
    let measures = pool.and_then(|pool| pool.measures.as_deref());
    let who = match waiters.count {
        1 => format!("1 client of {database}/{user} has waited {} for a server", shown(waiters.longest)),
        count => {
            format!("{count} clients of {database}/{user} wait for a server, the first for {}", shown(waiters.longest))
        }
    };
    let (cause, why) = reason(view, (database, user), waiters, measures, rows);
    Diagnosis { cause, text: format!("{who}: {why}.") }
}

/// The cause for which clients of a pool wait, and its words.
fn reason(
    view: &View<'_>,
    (database, user): (&str, &str),
    waiters: &Waiters,
    measures: Option<&PoolMeasures>,
    rows: &[&WaitRow],
) -> (Cause, String) {
    if waiters.delayed == waiters.count {
        let whom = if waiters.count == 1 { "it" } else { "them" };
        return (Cause::RateLimit, format!("a rate limit delays {whom} (SHOW RATE_LIMITS)"));
    }
    match measures.and_then(|measures| measures.waits_for) {
        Some(WaitReason::Paused) => {
            return (Cause::Paused, format!("the database is paused (PAUSE or KILL), and RESUME {database} ends that"));
        }
        Some(WaitReason::Held) => {
            let text =
                "clients are held: the primary changes or restarts, or may be none any more (SHOW CLUSTERS, HOLD)";
            return (Cause::Held, text.to_owned());
        }
        Some(WaitReason::Unreachable) => {
            let failure = measures.and_then(|measures| measures.failure.as_deref()).unwrap_or("no login succeeds");
            return (Cause::Unreachable, format!("its host cannot be reached or refuses us ({failure})"));
        }
        Some(WaitReason::Dialing) => return (Cause::Dialing, "servers are being opened".to_owned()),
        Some(WaitReason::DatabaseLimit) => {
            let others = with_most_servers(view, |pool| *pool.database == *database && *pool.user != *user);
            let why = "max_db_connections is reached, and pools of other users have what it allows";
            return (Cause::Limit, format!("{why}{others}"));
        }
        Some(WaitReason::UserLimit) => {
            let others = with_most_servers(view, |pool| *pool.user == *user && *pool.database != *database);
            let why = "max_user_connections is reached, and pools of other databases have what it allows";
            return (Cause::Limit, format!("{why}{others}"));
        }
        Some(WaitReason::NoneFree) | None => {}
    }
    let limit = measures.map_or(0, |measures| measures.limit);
    why_none_is_free((database, user), limit, rows)
}

/// The cause for which no server of a pool becomes free, and its words. The pool may have `limit` servers.
fn why_none_is_free((database, user): (&str, &str), limit: u32, rows: &[&WaitRow]) -> (Cause, String) {
    let of_database: Vec<&WaitRow> = rows.iter().filter(|row| *row.database == *database).copied().collect();
    let holders: Vec<&WaitRow> =
        of_database.iter().filter(|row| *row.user == *user && row.server.is_some()).copied().collect();
    let servers = holders.len();
    let of = |wanted: fn(&WaitRow) -> bool| {
        let is_long = |row: &&&WaitRow| row.doing_for >= TROUBLE && wanted(row);
        let mut found: Vec<&WaitRow> = holders.iter().filter(is_long).copied().collect();
        found.sort_by_key(|row| std::cmp::Reverse(row.doing_for));
        found
    };
    let thinking = of(|row| matches!(row.doing, Doing::In(Phase::Thinking)));
    let blocked = of(|row| matches!(row.doing, Doing::In(Phase::Blocked)));
    let kept = of(|row| matches!(row.doing, Doing::Kept | Doing::Session | Doing::Replicates));
    let working = of(is_at_work);
    let most = [thinking.len(), blocked.len(), kept.len(), working.len()].into_iter().max().unwrap_or(0);
    let keepers = LockKeepers::by_database(&of_database);
    let suspect = keepers.get(database).and_then(|keepers| keepers.suspect(&working));
    let is_lock = |suspect: &&Suspect<'_>| suspect.count * 2 >= working.len() && suspect.count >= thinking.len();
    if let Some(suspect) = suspect.as_ref().filter(is_lock) {
        let one = "works on a statement that seems to wait for a lock";
        let more = "work on statements that seem to wait for a lock";
        let why = format!("{}, {}", part_of(suspect.count, servers, one, more), suspected(suspect, database, user));
        return (Cause::Lock, why);
    }
    if most == 0 {
        let all = if servers == 1 { "its only server is".to_owned() } else { format!("all {servers} servers are") };
        let why = format!(
            "{all} busy with short transactions, and the pool may have {limit}: it is too small for its load (default_pool_size, pool_size)"
        );
        return (Cause::PoolSize, why);
    }
    let first = |rows: &[&WaitRow]| {
        let which = if rows.len() == 1 { "" } else { "longest: " };
        rows.first().map_or(String::new(), |row| format!("{which}{}, for {}", named(row), shown(row.doing_for)))
    };
    let those = |rows: &[&WaitRow], one, more| part_of(rows.len(), servers, one, more);
    if thinking.len() == most {
        let one = "stands idle in a transaction that its client does not continue";
        let more = "stand idle in transactions that their clients do not continue";
        return (Cause::Thinking, format!("{} ({})", those(&thinking, one, more), first(&thinking)));
    }
    if blocked.len() == most {
        let one = "waits for a client that does not read its answer";
        let more = "wait for clients that do not read their answers";
        return (Cause::SlowReader, format!("{} ({})", those(&blocked, one, more), first(&blocked)));
    }
    if kept.len() == most {
        let what = kept.first().map_or(String::new(), |row| match row.doing {
            Doing::Replicates => "a replication stream".to_owned(),
            Doing::Session => "session pooling (pool_mode = session)".to_owned(),
            _ => format!("session state, such as {}", row.pins),
        });
        let those = those(&kept, "is kept by an idle client", "are kept by idle clients");
        let why = format!("{those} because of {what} ({}; SHOW PINS)", first(&kept));
        return (Cause::Kept, why);
    }
    let statement = working.first().map(|row| &*row.statement).unwrap_or_default();
    let ask = working
        .first()
        .and_then(|row| row.server)
        .map_or(String::new(), |(_, pid)| format!("; pg_blocking_pids({pid}) tells whether it waits for a lock"));
    let those = those(&working, "works on a slow statement", "work on slow statements");
    (Cause::SlowQuery, format!("{those} ({}: {statement}{ask})", first(&working)))
}

/// The pools with the most servers among those that are `wanted`, in parentheses.
fn with_most_servers(view: &View<'_>, wanted: impl Fn(&PoolRow) -> bool) -> String {
    let pools = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools).filter(|pool| wanted(pool));
    let mut counts: Vec<(u32, &PoolRow)> = pools.map(|pool| (servers_of(pool), pool)).collect();
    counts.retain(|(count, _)| *count > 0);
    counts.sort_by_key(|(count, pool)| (std::cmp::Reverse(*count), &pool.database, &pool.user));
    let most = counts.iter().take(LIMIT_HOLDERS_SHOWN);
    let said: Vec<_> = most.map(|(count, pool)| format!("{}/{} has {count}", pool.database, pool.user)).collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
}

/// The servers of a pool that count for the limits.
fn servers_of(pool: &PoolRow) -> u32 {
    pool.sv_active + pool.sv_being_canceled + pool.sv_idle + pool.sv_used + pool.sv_tested + pool.sv_login
}

/// The subject and the predicate of a sentence about some of a pool's servers.
fn part_of(count: usize, servers: usize, one: &str, more: &str) -> String {
    match (count, servers) {
        (1, 1) => format!("its only server {one}"),
        (1, servers) => format!("1 of its {servers} servers {one}"),
        (count, servers) => format!("{count} of its {servers} servers {more}"),
    }
}

/// Who seems to hold the lock, as the clients of this pool may know it.
fn suspected(suspect: &Suspect<'_>, database: &str, user: &str) -> String {
    let keeper = suspect.keeper;
    let other = match *keeper.database == *database && *keeper.user == *user {
        true => String::new(),
        false => format!(" of {}/{}", keeper.database, keeper.user),
    };
    let who = format!("probably that of {}{other}", named(keeper));
    if keeper.doing == Doing::Kept {
        return format!("{who}, which keeps {} for {}", keeper.pins, shown(keeper.doing_for));
    }
    let (age, doing) = (shown(keeper.transaction), keeper.doing.words());
    format!("{who}, whose transaction has been open for {age} and is {doing}")
}

fn is_at_work(row: &WaitRow) -> bool {
    matches!(row.doing, Doing::In(Phase::FirstByte | Phase::Streaming))
}

/// Returns the worker that was busiest since the previous sample, if it was busy nearly all the time.
fn busiest(view: &View<'_>) -> Option<Diagnosis> {
    let parts = (0..view.snapshots.len()).filter_map(|number| Some((number, busy_part(view, number)?)));
    let (number, _) = parts.max_by(|one, other| one.1.total_cmp(&other.1))?;
    busy_worker(view, number)
}

/// Returns a diagnosis about this worker if it was busy nearly all the time.
fn busy_worker(view: &View<'_>, number: usize) -> Option<Diagnosis> {
    let part = busy_part(view, number).filter(|part| *part >= BUSY_MOST)?;
    let text = format!(
        "Worker {number} has been busy {:.0} % of the time: it is the bottleneck. Databases are spread over workers by name, so more workers help where more than one database is busy (SHOW STATS: slow_turn_count).",
        part * 100.0
    );
    Some(Diagnosis { cause: Cause::Worker, text })
}

/// Returns the fraction of the last second or two in which a worker was busy, if that time is long enough.
fn busy_part(view: &View<'_>, number: usize) -> Option<f64> {
    let snapshot = view.snapshots.get(number)?;
    let (busy, alive) = snapshot.load_before;
    let (busy, alive) = (snapshot.busy.saturating_sub(busy), snapshot.alive.saturating_sub(alive));
    (alive >= BUSY_OVER).then(|| busy.as_secs_f64() / alive.as_secs_f64())
}

fn named(row: &WaitRow) -> String {
    let name = if row.application_name.is_empty() { "no application_name" } else { &row.application_name };
    format!("{} ({name}, {}:{})", Id::Client(row.client), row.addr, row.port)
}

fn shown(time: Duration) -> String {
    match time.as_millis() {
        0..1000 => format!("{} ms", time.as_millis()),
        1000..10_000 => format!("{:.1} s", time.as_secs_f64()),
        _ => format!("{} s", time.as_secs()),
    }
}

/// How many pools are named that have what a limit allows.
const LIMIT_HOLDERS_SHOWN: usize = 3;
/// Waits and other states shorter than this are ignored.
const TROUBLE: Duration = Duration::from_millis(100);
/// What lasts shorter than this is not mentioned as long as nobody waits for a server.
const LONG: Duration = Duration::from_secs(1);
/// The load of a worker is measured over at least this time.
const BUSY_OVER: Duration = Duration::from_millis(500);
const BUSY_MOST: f64 = 0.9;

#[cfg(test)]
#[path = "diagnosis_tests.rs"]
mod tests;
