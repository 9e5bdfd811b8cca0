//! The diagnosis: what is wrong, in one sentence, shown in the first line of `SHOW WAITS` and of the page.
//!
//! Always true: the sentence is made from one survey of the workers; it names the database that suffers most, what can
//! be done, and a cause only where the survey shows it.
//! Not here: the rows that it is made from (`worker::admin::waits`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Id;
use measure::Phase;
use pool::WaitReason;
use worker::letters::{Doing, PoolRow, WaitRow};

use crate::console::show::View;

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
}

impl Cause {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Suspended => "suspended",
            Self::Paused => "paused",
            Self::Unreachable => "unreachable",
            Self::Limit => "limit",
            Self::Thinking => "client_thinking",
            Self::SlowReader => "slow_reader",
            Self::Lock => "lock",
            Self::SlowQuery => "slow_query",
            Self::Kept => "kept_servers",
            Self::PoolSize => "pool_size",
            Self::Worker => "worker",
            Self::Dialing => "dialing",
            Self::RateLimit => "rate_limit",
        }
    }
}

/// Returns the diagnosis for the present.
pub(crate) fn of(view: &View<'_>) -> Diagnosis {
    let say = |cause, text: String| Diagnosis { cause, text };
    if view.is_suspended {
        return say(Cause::Suspended, "All databases are suspended (SUSPEND): RESUME ends that.".to_owned());
    }
    if view.standing.is_paused {
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
        let holders: Vec<&WaitRow> = rows
            .iter()
            .filter(|row| row.database == **database && row.user == **user && row.server.is_some())
            .copied()
            .collect();
        let why = why_they_wait(database, user, waiters, pool, &holders);
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
    let total: u32 = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools).map(|pool| pool.cl_active).sum();
    let who = if total == 1 { "1 client is".to_owned() } else { format!("{total} clients are") };
    say(Cause::Well, format!("All is well: nobody waits for a server, {who} connected."))
}

#[derive(Default)]
struct Waiters {
    count: u32,
    delayed: u32,
    total: Duration,
    longest: Duration,
}

fn why_they_wait(
    database: &str,
    user: &str,
    waiters: &Waiters,
    pool: Option<&PoolRow>,
    holders: &[&WaitRow],
) -> Diagnosis {
    let measures = pool.and_then(|pool| pool.measures.as_ref());
    let who = match waiters.count {
        1 => format!("1 client of {database}/{user} has waited {} for a server", shown(waiters.longest)),
        count => {
            format!("{count} clients of {database}/{user} wait for a server, the first for {}", shown(waiters.longest))
        }
    };
    let say = |cause, why: String| Diagnosis { cause, text: format!("{who}: {why}.") };
    if waiters.delayed == waiters.count {
        let whom = if waiters.count == 1 { "it" } else { "them" };
        return say(Cause::RateLimit, format!("a rate limit delays {whom} (SHOW RATE_LIMITS)"));
    }
    match measures.and_then(|measures| measures.waits_for) {
        Some(WaitReason::Paused) => {
            return say(
                Cause::Paused,
                format!("the database is paused (PAUSE or KILL), and RESUME {database} ends that"),
            );
        }
        Some(WaitReason::Unreachable) => {
            let failure = measures.and_then(|measures| measures.failure.as_deref()).unwrap_or("no login succeeds");
            return say(Cause::Unreachable, format!("its host cannot be reached or refuses us ({failure})"));
        }
        Some(WaitReason::Dialing) => return say(Cause::Dialing, "servers are being opened".to_owned()),
        Some(WaitReason::DatabaseLimit) => {
            let why = "max_db_connections is reached, and pools of other users have what it allows";
            return say(Cause::Limit, why.to_owned());
        }
        Some(WaitReason::UserLimit) => {
            let why = "max_user_connections is reached, and pools of other databases have what it allows";
            return say(Cause::Limit, why.to_owned());
        }
        Some(WaitReason::NoneFree) | None => {}
    }
    let servers = holders.len();
    let of = |wanted: fn(&WaitRow) -> bool| {
        let is_long = |row: &&&WaitRow| row.doing_for >= TROUBLE && wanted(row);
        let mut found: Vec<&WaitRow> = holders.iter().filter(is_long).copied().collect();
        found.sort_by_key(|row| std::cmp::Reverse(row.doing_for));
        found
    };
    let thinking = of(|row| matches!(row.doing, Doing::In(Phase::Thinking)));
    let blocked = of(|row| matches!(row.doing, Doing::In(Phase::Blocked)));
    let kept = of(|row| matches!(row.doing, Doing::Kept | Doing::Session));
    let working = of(|row| matches!(row.doing, Doing::In(Phase::FirstByte | Phase::Streaming)));
    let locking = working.iter().filter(|row| row.may_wait_for_lock).count();
    // The suspected lock holder has had its transaction open for longer than the others have waited for their locks.
    let keeper = holders
        .iter()
        .filter(|row| !matches!(row.doing, Doing::In(Phase::FirstByte)))
        .max_by_key(|row| row.transaction);
    let keeper = keeper.filter(|keeper| {
        locking > 0 && working.iter().any(|row| row.may_wait_for_lock && keeper.transaction >= row.doing_for)
    });
    let most = [thinking.len(), blocked.len(), kept.len(), working.len()].into_iter().max().unwrap_or(0);
    if let Some(keeper) = keeper.filter(|_| locking * 2 >= working.len().max(1) && locking >= thinking.len()) {
        let one = "works on a statement that seems to wait for a lock";
        let more = "work on statements that seem to wait for a lock";
        let why = format!(
            "{}, probably that of {}, whose transaction has been open for {} and is {}",
            part_of(locking, servers, one, more),
            named(keeper),
            shown(keeper.transaction),
            keeper.doing.words(),
        );
        return say(Cause::Lock, why);
    }
    if most == 0 {
        let limit = measures.map_or(0, |measures| measures.limit);
        let all = if servers == 1 { "its only server is".to_owned() } else { format!("all {servers} servers are") };
        let why = format!(
            "{all} busy with short transactions, and the pool may have {limit}: it is too small for its load (default_pool_size, pool_size)"
        );
        return say(Cause::PoolSize, why);
    }
    let first = |rows: &[&WaitRow]| {
        let which = if rows.len() == 1 { "" } else { "longest: " };
        rows.first().map_or(String::new(), |row| format!("{which}{}, for {}", named(row), shown(row.doing_for)))
    };
    let those = |rows: &[&WaitRow], one, more| part_of(rows.len(), servers, one, more);
    if thinking.len() == most {
        let one = "stands idle in a transaction that its client does not continue";
        let more = "stand idle in transactions that their clients do not continue";
        return say(Cause::Thinking, format!("{} ({})", those(&thinking, one, more), first(&thinking)));
    }
    if blocked.len() == most {
        let one = "waits for a client that does not read its answer";
        let more = "wait for clients that do not read their answers";
        return say(Cause::SlowReader, format!("{} ({})", those(&blocked, one, more), first(&blocked)));
    }
    if kept.len() == most {
        let what = kept.first().map(|row| &*row.pins).filter(|pins| !pins.is_empty()).unwrap_or("the session itself");
        let those = those(&kept, "is kept by an idle client", "are kept by idle clients");
        let why = format!("{those} because of session state, such as {what} ({}; SHOW PINS)", first(&kept));
        return say(Cause::Kept, why);
    }
    let statement = working.first().map(|row| &*row.statement).unwrap_or_default();
    let those = those(&working, "works on a slow statement", "work on slow statements");
    say(Cause::SlowQuery, format!("{those} ({}: {statement})", first(&working)))
}

/// The subject and the predicate of a sentence about some of a pool's servers.
fn part_of(count: usize, servers: usize, one: &str, more: &str) -> String {
    match (count, servers) {
        (1, 1) => format!("its only server {one}"),
        (1, servers) => format!("1 of its {servers} servers {one}"),
        (count, servers) => format!("{count} of its {servers} servers {more}"),
    }
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

/// Returns the fraction of the time since the previous sample in which a worker was busy, if that time is long enough.
fn busy_part(view: &View<'_>, number: usize) -> Option<f64> {
    let snapshot = view.snapshots.get(number)?;
    let (busy, alive) = view.busy_before.get(number).copied().unwrap_or_default();
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

/// Waits and other states shorter than this are ignored.
const TROUBLE: Duration = Duration::from_millis(100);
/// The load of a worker is measured over at least this time.
const BUSY_OVER: Duration = Duration::from_millis(500);
const BUSY_MOST: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;
    use base::Wall;
    use worker::letters::Snapshot;

    use crate::console::show::tests::{pool_row, settings, with_view};

    /// A client that has been in this state for so many milliseconds, in a transaction of the same age.
    fn row(number: u64, doing: Doing, millis: u64) -> WaitRow {
        let has_server = !matches!(doing, Doing::Waits(_) | Doing::Delayed);
        WaitRow {
            database: "d".into(),
            user: "u".into(),
            application_name: format!("app{number}").into(),
            addr: "10.0.0.7".to_owned(),
            port: 5000,
            client: number,
            server: has_server.then_some((number, 77)),
            doing,
            since: Wall(0),
            doing_for: Duration::from_millis(millis),
            transaction: Duration::from_millis(millis),
            statement: "SELECT f(?)".into(),
            may_wait_for_lock: false,
            pins: "an advisory lock".into(),
            ends: None,
        }
    }

    fn waiter(why: WaitReason) -> WaitRow {
        row(1, Doing::Waits(why), 700)
    }

    /// The diagnosis for these rows, in a pool whose clients wait for this reason.
    fn told(why: Option<WaitReason>, waits: Vec<WaitRow>) -> Diagnosis {
        let mut pool = pool_row("d", "u");
        if let Some(measures) = &mut pool.measures {
            (measures.waits_for, measures.failure, measures.limit) = (why, Some("connect failed".into()), 2);
        }
        let snapshot = Snapshot { pools: vec![pool], waits, ..Snapshot::default() };
        with_view(&settings("[databases]\nd =\n[pgbouncer]\nauth_type=any\n"), &[snapshot], of)
    }

    /// The diagnosis for a pool without a free server, whose servers are held by these rows.
    fn held_by(holders: Vec<WaitRow>) -> Diagnosis {
        let waiters = std::iter::once(waiter(WaitReason::NoneFree));
        told(Some(WaitReason::NoneFree), waiters.chain(holders).collect())
    }

    #[test]
    fn who_waits_for_an_instant_is_no_trouble() {
        assert_eq!(told(None, Vec::new()).cause, Cause::Well);
        let told = told(Some(WaitReason::NoneFree), vec![row(1, Doing::Waits(WaitReason::NoneFree), 99)]);
        assert_eq!(told.cause, Cause::Well);
    }

    #[test]
    fn one_client_is_said_to_be_one() {
        let connected = |count: u32| {
            let pool = PoolRow { cl_active: count, ..pool_row("d", "u") };
            let snapshot = Snapshot { pools: vec![pool], ..Snapshot::default() };
            with_view(&settings("[databases]\nd =\n[pgbouncer]\nauth_type=any\n"), &[snapshot], of).text
        };
        assert_eq!(connected(1), "All is well: nobody waits for a server, 1 client is connected.");
        assert_eq!(connected(2), "All is well: nobody waits for a server, 2 clients are connected.");
    }

    #[test]
    fn what_keeps_a_pool_from_having_a_server_is_the_cause() {
        for (why, cause) in [
            (WaitReason::Paused, Cause::Paused),
            (WaitReason::Unreachable, Cause::Unreachable),
            (WaitReason::Dialing, Cause::Dialing),
            (WaitReason::DatabaseLimit, Cause::Limit),
            (WaitReason::UserLimit, Cause::Limit),
        ] {
            let told = told(Some(why), vec![waiter(why)]);
            assert_eq!(told.cause, cause, "{told:?}");
            assert!(told.text.starts_with("1 client of d/u has waited 700 ms for a server: "), "{told:?}");
        }
        assert_eq!(told(None, vec![row(1, Doing::Delayed, 500)]).cause, Cause::RateLimit);
        assert!(
            told(Some(WaitReason::Unreachable), vec![waiter(WaitReason::Unreachable)]).text.contains("connect failed")
        );
    }

    #[test]
    fn what_most_servers_are_held_by_is_the_cause() {
        for (doing, cause) in [
            (Doing::In(Phase::Thinking), Cause::Thinking),
            (Doing::In(Phase::Blocked), Cause::SlowReader),
            (Doing::In(Phase::FirstByte), Cause::SlowQuery),
            (Doing::In(Phase::Streaming), Cause::SlowQuery),
            (Doing::Kept, Cause::Kept),
            (Doing::Session, Cause::Kept),
        ] {
            let told = held_by(vec![row(2, doing, 400), row(3, doing, 4000), row(4, Doing::In(Phase::FirstByte), 5)]);
            assert_eq!(told.cause, cause, "{told:?}");
            assert!(told.text.contains("2 of its 3 servers") && told.text.contains("app3"), "{told:?}");
        }
        let busy = held_by(vec![row(2, Doing::In(Phase::FirstByte), 5), row(3, Doing::In(Phase::Settings), 1)]);
        assert_eq!(busy.cause, Cause::PoolSize);
        assert!(busy.text.contains("the pool may have 2"), "{busy:?}");
        for (rows, words) in [
            (vec![row(2, Doing::In(Phase::FirstByte), 5)], "its only server is busy with"),
            (vec![row(2, Doing::In(Phase::Thinking), 400)], "its only server stands idle in a transaction that"),
            (vec![row(2, Doing::In(Phase::Blocked), 400)], "its only server waits for a client that"),
            (vec![row(2, Doing::Kept, 400), row(3, Doing::Kept, 5)], "1 of its 2 servers is kept by an idle client"),
        ] {
            let told = held_by(rows);
            assert!(told.text.contains(words) && !told.text.contains("longest"), "{told:?}");
        }
    }

    #[test]
    fn a_lock_is_suspected_only_where_somebody_may_hold_it_for_longer() {
        let blocked =
            |number, millis| WaitRow { may_wait_for_lock: true, ..row(number, Doing::In(Phase::FirstByte), millis) };
        let keeper = row(9, Doing::In(Phase::Thinking), 3000);
        let suspected = held_by(vec![blocked(2, 2000), blocked(3, 1000), keeper.clone()]);
        assert_eq!(suspected.cause, Cause::Lock);
        assert!(suspected.text.contains("app9") && suspected.text.contains("2 of its 3 servers"), "{suspected:?}");
        let young =
            WaitRow { transaction: Duration::from_millis(150), doing_for: Duration::from_millis(150), ..keeper };
        assert_eq!(held_by(vec![blocked(2, 2000), blocked(3, 1000), young]).cause, Cause::SlowQuery);
    }

    #[test]
    fn a_worker_without_rest_is_the_cause_where_nobody_waits() {
        let of_load = |busy, alive| {
            let (busy, alive) = (Duration::from_millis(busy), Duration::from_millis(alive));
            let snapshot = Snapshot { busy, alive, ..Snapshot::default() };
            with_view(&settings("[pgbouncer]\nauth_type=any\n"), &[snapshot], of).cause
        };
        assert_eq!(of_load(950, 1000), Cause::Worker);
        assert_eq!(of_load(800, 1000), Cause::Well);
        assert_eq!(of_load(499, 499), Cause::Well, "too short to tell");
    }

    #[test]
    fn a_worker_without_rest_is_the_cause_where_servers_are_never_free() {
        let of_load = |busy| {
            let waits = vec![waiter(WaitReason::NoneFree), row(2, Doing::In(Phase::FirstByte), 5)];
            let (busy, alive) = (Duration::from_millis(busy), Duration::from_millis(1000));
            let snapshot = Snapshot { pools: vec![pool_row("d", "u")], waits, busy, alive, ..Snapshot::default() };
            with_view(&settings("[pgbouncer]\nauth_type=any\n"), &[snapshot], of).cause
        };
        assert_eq!(of_load(950), Cause::Worker);
        assert_eq!(of_load(500), Cause::PoolSize);
    }

    #[test]
    fn every_cause_has_a_word_of_its_own() {
        use Cause::*;
        let all = [
            Well,
            Suspended,
            Paused,
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
        ];
        let words: std::collections::BTreeSet<_> = all.map(Cause::word).into();
        assert_eq!(words.len(), all.len());
    }
}
