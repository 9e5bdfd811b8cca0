//! Tests of the diagnosis: rows of the workers, and the cause that is told.

use super::*;
use base::Wall;
use worker::letters::{LockSigns, Snapshot};

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
        locks: LockSigns::default(),
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
fn one_client_is_said_to_be_one_and_the_console_is_not_counted() {
    let connected = |count: u32| {
        let pool = PoolRow { cl_active: count, ..pool_row("d", "u") };
        let console = PoolRow { cl_active: 1, ..pool_row(CONSOLE, CONSOLE) };
        let snapshot = Snapshot { pools: vec![console, pool], ..Snapshot::default() };
        with_view(&settings("[databases]\nd =\n[pgbouncer]\nauth_type=any\n"), &[snapshot], of).text
    };
    assert_eq!(connected(1), "All is well: nobody waits for a server and nobody fails, 1 client is connected.");
    assert_eq!(connected(2), "All is well: nobody waits for a server and nobody fails, 2 clients are connected.");
}

#[test]
fn what_keeps_a_pool_from_having_a_server_is_the_cause() {
    for (why, cause) in [
        (WaitReason::Paused, Cause::Paused),
        (WaitReason::Held, Cause::Held),
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
    assert!(told(Some(WaitReason::Unreachable), vec![waiter(WaitReason::Unreachable)]).text.contains("connect failed"));
}

#[test]
fn the_pools_that_have_what_a_limit_allows_are_named_with_the_largest_first() {
    let pool = |database, user, sv_active, sv_idle| PoolRow { sv_active, sv_idle, ..pool_row(database, user) };
    let told = |why| {
        let mut own = pool("d", "u", 1, 0);
        if let Some(measures) = &mut own.measures {
            measures.waits_for = Some(why);
        }
        let near = vec![pool("d", "third", 1, 0), own, pool("d", "other", 2, 1), pool("d", "none", 0, 0)];
        let far = vec![pool("d", "fourth", 1, 0), pool("d", "fifth", 0, 1), pool("e", "u", 0, 2), pool("e", "v", 9, 0)];
        let near = Snapshot { pools: near, waits: vec![waiter(why)], ..Snapshot::default() };
        let far = Snapshot { pools: far, ..Snapshot::default() };
        with_view(&settings("[databases]\nd =\ne =\n[pgbouncer]\nauth_type=any\n"), &[near, far], of).text
    };
    let by_database = told(WaitReason::DatabaseLimit);
    assert!(by_database.ends_with(" (d/other has 3, d/fifth has 1, d/fourth has 1)."), "{by_database}");
    let by_user = told(WaitReason::UserLimit);
    assert!(by_user.ends_with("pools of other databases have what it allows (e/u has 2)."), "{by_user}");
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
        (Doing::Replicates, Cause::Kept),
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
    let blocked = |number, millis| WaitRow { locks: MAY_WAIT, ..row(number, Doing::In(Phase::FirstByte), millis) };
    let keeper = row(9, Doing::In(Phase::Thinking), 3000);
    let suspected = held_by(vec![blocked(2, 2000), blocked(3, 1000), keeper.clone()]);
    assert_eq!(suspected.cause, Cause::Lock);
    assert!(suspected.text.contains("app9") && suspected.text.contains("2 of its 3 servers"), "{suspected:?}");
    let young = WaitRow { transaction: Duration::from_millis(150), doing_for: Duration::from_millis(150), ..keeper };
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
fn a_worker_is_judged_by_what_it_has_done_lately() {
    let seconds = Duration::from_secs;
    let of_load = |load_before| {
        let snapshot = Snapshot { busy: seconds(9), alive: seconds(3600), load_before, ..Snapshot::default() };
        with_view(&settings("[pgbouncer]\nauth_type=any\n"), &[snapshot], of).cause
    };
    assert_eq!(of_load((seconds(8), seconds(3599))), Cause::Worker);
    assert_eq!(of_load((seconds(9), seconds(3599))), Cause::Well);
}

#[test]
fn every_cause_has_a_word_of_its_own() {
    let words: std::collections::BTreeSet<_> = Cause::ALL.map(Cause::word).into();
    assert_eq!(words.len(), Cause::ALL.len());
}

const MAY_WAIT: LockSigns =
    LockSigns { may_wait: true, wants_advisory: false, locks_table: false, holds_advisory: false };

#[test]
fn readers_behind_a_client_that_locked_a_table_wait_for_its_lock() {
    let reader = |number| row(number, Doing::In(Phase::FirstByte), 2000);
    let thinking = row(9, Doing::In(Phase::Thinking), 3000);
    assert_eq!(held_by(vec![reader(2), reader(3), thinking.clone()]).cause, Cause::SlowQuery);
    let locks = LockSigns { locks_table: true, ..MAY_WAIT };
    let told = held_by(vec![reader(2), reader(3), WaitRow { locks, ..thinking }]);
    assert_eq!(told.cause, Cause::Lock, "{told:?}");
    assert!(told.text.contains("2 of its 3 servers") && told.text.contains("app9"), "{told:?}");
}

#[test]
fn an_advisory_lock_is_named_with_the_client_that_keeps_it() {
    let wants = LockSigns { wants_advisory: true, ..MAY_WAIT };
    let holds = LockSigns { holds_advisory: true, ..LockSigns::default() };
    let waiting = |locks| WaitRow { locks, ..row(2, Doing::In(Phase::FirstByte), 2000) };
    let keeper = WaitRow { locks: holds, ..row(9, Doing::Kept, 3000) };
    let told = held_by(vec![waiting(wants), keeper.clone()]);
    assert_eq!(told.cause, Cause::Lock, "{told:?}");
    assert!(told.text.contains("app9") && told.text.contains("keeps an advisory lock for 3.0 s"), "{told:?}");
    assert_ne!(held_by(vec![waiting(MAY_WAIT), keeper]).cause, Cause::Lock, "rows are not locked by advisory locks");
}

#[test]
fn a_lock_may_be_held_through_the_pool_of_another_user() {
    let waiting = WaitRow { locks: MAY_WAIT, ..row(2, Doing::In(Phase::FirstByte), 2000) };
    let keeper = WaitRow { user: "other".into(), ..row(9, Doing::In(Phase::Thinking), 3000) };
    let told = held_by(vec![waiting.clone(), keeper.clone()]);
    assert_eq!(told.cause, Cause::Lock, "{told:?}");
    assert!(told.text.contains("its only server works on") && told.text.contains("of d/other"), "{told:?}");
    let elsewhere = WaitRow { database: "e".into(), ..keeper };
    assert_eq!(held_by(vec![waiting, elsewhere]).cause, Cause::SlowQuery);
}

#[test]
fn a_slow_statement_is_told_with_the_question_for_its_lock() {
    let told = held_by(vec![row(2, Doing::In(Phase::FirstByte), 2000)]);
    assert!(told.text.contains("pg_blocking_pids(77)"), "{told:?}");
}

#[test]
fn locks_are_told_although_nobody_waits_for_a_server() {
    let waiting = |number| WaitRow { locks: MAY_WAIT, ..row(number, Doing::In(Phase::FirstByte), 2000) };
    let told_of = |rows| told(None, rows);
    let locked = told_of(vec![waiting(2), waiting(3), row(9, Doing::In(Phase::Thinking), 3000)]);
    assert_eq!(locked.cause, Cause::Lock, "{locked:?}");
    let begins = "Nobody waits for a server, but 2 statements of d/u seem to wait for a lock, probably that of C-0x9";
    assert!(locked.text.starts_with(begins), "{locked:?}");
    let young = WaitRow { locks: MAY_WAIT, ..row(2, Doing::In(Phase::FirstByte), 999) };
    assert_eq!(told_of(vec![young, row(9, Doing::In(Phase::Thinking), 3000)]).cause, Cause::Well);
}

#[test]
fn what_lasts_long_is_mentioned_although_all_is_well() {
    for (doing, what) in [
        (Doing::In(Phase::FirstByte), "; 2 statements are slow (longest: C-0x3"),
        (Doing::In(Phase::Blocked), "; 2 clients do not read their answers (longest: C-0x3"),
        (Doing::In(Phase::Thinking), "; 2 clients are idle in their transactions (longest: C-0x3"),
    ] {
        let told = told(None, vec![row(2, doing, 1500), row(3, doing, 4000), row(4, doing, 900)]);
        assert_eq!(told.cause, Cause::Well, "{told:?}");
        assert!(told.text.contains(what) && told.text.contains("for 4.0 s"), "{told:?}");
    }
    let short = vec![row(2, Doing::In(Phase::FirstByte), 900), row(3, Doing::Kept, 5000)];
    let short = told(None, short.into_iter().chain([row(4, Doing::Replicates, 9000)]).collect());
    assert!(short.text.ends_with("connected."), "{short:?}");
}
