//! Planned switchovers as many clients see them: no error, a short pause, and no more servers than the limits allow.
//!
//! Not here: which host is the primary, and switchovers that fail (`clusters`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tests::patroni::Patroni;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::wait::{LIMIT, wait_until};

use crate::console::http::get;
use crate::house::House;
use crate::pooling::clusters::{Writers, await_primary, hand_over, roles, start, state};
use crate::pooling::hosts::pair;

pub(crate) fn two_hundred_writers_notice_a_switchover_only_as_a_pause(house: &House) {
    switch_over_under_writers(house, 1);
}

// Only when named.
pub(crate) fn twenty_switchovers_cost_two_hundred_writers_no_error(house: &House) {
    switch_over_under_writers(house, 20);
}

/// Switches over so many times, there and back, while 200 clients write. Prints the pauses.
fn switch_over_under_writers(house: &House, times: usize) {
    let (mut one, mut two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    let more = format!("patroni={} hold_timeout=60", patroni.urls());
    let pooler =
        start(house, &[&one, &two], &more, |ini| ini.set("default_pool_size = 20").set("max_client_conn = 500"));
    one.query("create table ledger (who int, number int, primary key (who, number))");
    await_primary(&pooler, &one);
    promote_soon(&two);
    for number in 1..=times {
        let (primary, standby) = if number % 2 == 1 { (&one, &two) } else { (&two, &one) };
        wait_until("the standby is known", LIMIT * 3, || {
            roles(&pooler).contains(&(standby.port(), "replica".to_owned())) && state(&pooler) == "steady"
        });
        let writers = Writers::start(&pooler, 200);
        writers.await_all(primary, 2);
        let floor = hands_over(&patroni, primary, standby);
        writers.longest_pause();
        let mut console = pooler.client("admin", "pgbouncer");
        console.ask("SWITCHOVER");
        let answer = console.answer_within(Duration::from_secs(60));
        assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
        writers.await_all(standby, 2);
        let (pause, floor) = (writers.longest_pause(), Duration::from_micros(floor.load(Ordering::SeqCst)));
        let (written, failed) = writers.end();
        assert!(failed.is_empty(), "switchover {number}: {} errors: {:?}", failed.len(), failed.first());
        assert_eq!(standby.value("select count(*) from ledger"), written.to_string());
        println!(
            "switchover {number}: {written} rows, no error, longest pause {pause:.2?}, of which shutdown and promotion took {floor:.2?}"
        );
        if number < times {
            standby.query("truncate ledger");
            // The former primary becomes the standby of the new one.
            match number % 2 {
                1 => one = one.follow(&two, &house.place),
                _ => two = two.follow(&one, &house.place),
            }
            promote_soon(if number % 2 == 1 { &one } else { &two });
        }
    }
}

/// Lets a standby whose primary has gone look for a promotion more often than every five seconds.
pub(super) fn promote_soon(standby: &Postgres) {
    standby.query("alter system set wal_retrieve_retry_interval = '100ms'");
    standby.query("select pg_reload_conf()");
}

/// A switchover of the agents shuts the primary down and promotes the standby. Returns where it notes how many microseconds
/// that takes.
fn hands_over(patroni: &Patroni, primary: &Postgres, standby: &Postgres) -> Arc<AtomicU64> {
    let (pid, address) = (primary.postmaster(), standby.address());
    let took = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&took);
    patroni.on_switchover(move |_| {
        let since = Instant::now();
        hand_over(pid, address);
        noted.store(since.elapsed().as_micros() as u64, Ordering::SeqCst);
        Ok(())
    });
    took
}

/// Patroni's `scheduled_switchover`: nobody has told the pooler to hold clients.
pub(crate) fn writers_notice_a_switchover_at_a_time_of_patroni_only_as_a_pause(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    promote_soon(&two);
    let pooler = start(house, &[&one, &two], &format!("patroni={} hold_timeout=60", patroni.urls()), |ini| ini);
    one.query("create table ledger (who int, number int, primary key (who, number))");
    await_primary(&pooler, &one);
    let writers = Writers::start(&pooler, 20);
    writers.await_all(&one, 2);
    let at = patroni.schedules(1, Duration::from_secs(3));
    let words = format!("Patroni will switch over at {at} from node1 to node2");
    pooler.await_log(&format!("cluster main: {words}"));
    assert_eq!(pooler.console("SHOW CLUSTERS").named(0)["scheduled"], format!("{at} from node1 to node2"));
    writers.longest_pause();
    pooler.await_log("cluster main: switchover: holding new transactions, waiting for open ones");
    wait_until("its time has come, and nobody writes", LIMIT, || Timestamp::now() >= at && state(&pooler) == "hold");
    let since = Instant::now();
    hand_over(one.postmaster(), two.address());
    patroni.leads(Some(1));
    let floor = since.elapsed();
    writers.await_all(&two, 2);
    let pause = writers.longest_pause();
    let (written, failed) = writers.end();
    assert!(failed.is_empty(), "{} errors: {:?}\n{}", failed.len(), failed.first(), pooler.log());
    assert_eq!(two.value("select count(*) from ledger"), written.to_string());
    pooler.await_log(&format!("switched over from 127.0.0.1:{} to 127.0.0.1:{} in ", one.port(), two.port()));
    assert_eq!(state(&pooler), "steady");
    println!("{written} rows, no error, longest pause {pause:.2?}, of which shutdown and promotion took {floor:.2?}");
}

pub(crate) fn a_thousand_held_clients_open_no_more_servers_than_the_limits_allow(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    // PostgreSQL itself refuses a server too many: of the database, or of a user.
    one.database("shop");
    one.client("shop").run("create table ledger (who int, number int); grant all on ledger to public");
    for user in USERS {
        one.query(&format!("create role {user} login connection limit {POOL_SIZE}"));
    }
    one.query(&format!("alter database shop connection limit {DATABASE_MAX}"));
    let line = format!(
        "main = hosts=127.0.0.1,127.0.0.1 port={},{} user=u patroni={} hold_timeout=60",
        one.port(),
        two.port(),
        patroni.urls()
    );
    let ini =
        Ini::new(&format!("rw = cluster=main dbname=shop pool_size={POOL_SIZE} max_db_connections={DATABASE_MAX}"));
    let ini = USERS.iter().fold(ini, |ini, user| ini.secret(user, ""));
    let pooler = house.start(&ini.cluster(&line).set("max_client_conn = 1500").set("log_connections = 0"));
    await_primary(&pooler, &one);
    let mut clients: Vec<_> = (0..HELD).map(|number| pooler.client(USERS[number % USERS.len()], "rw")).collect();
    let is_held = Arc::new(AtomicBool::new(false));
    let (ready, pid, address) = (Arc::clone(&is_held), one.postmaster(), two.address());
    patroni.on_switchover(move |_| {
        wait_until("all are held", LIMIT * 3, || ready.load(Ordering::SeqCst));
        hand_over(pid, address);
        Ok(())
    });
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("SWITCHOVER");
    pooler.await_log("cluster main: switchover: holding new transactions");
    // The workers have heard of it before they answer this.
    assert_eq!(waiting(&pooler), 0);
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask(&format!("insert into ledger values ({number}, 1)"));
    }
    wait_until("all are held", LIMIT * 3, || waiting(&pooler) == HELD);
    let most = Most::watch(&two);
    is_held.store(true, Ordering::SeqCst);
    let answer = console.answer_within(LIMIT * 3);
    assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
    let since = Instant::now();
    for client in &mut clients {
        let answer = client.answer_within(LIMIT);
        assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
    }
    let (released, most) = (since.elapsed(), most.end());
    println!("{HELD} held clients were released within {released:.2?}, by at most {most} servers");
    assert!(released < Duration::from_secs(2), "{released:?}");
    assert!((1..=DATABASE_MAX).contains(&most), "{most} servers");
    let refused: Vec<_> =
        two.log().lines().filter(|line| line.contains("too many connections")).map(str::to_owned).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(two.client("shop").value("select count(*) from ledger"), HELD.to_string());
}

pub(crate) fn a_statement_at_a_former_primary_is_cancelled(house: &House) {
    let (one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "", |ini| ini);
    one.query("create table ledger (who int, number int)");
    await_primary(&pooler, &one);
    let mut writer = pooler.client("u", "rw");
    // Without more its backend would go on, commit, and only then notice that nobody hears the answer.
    writer.ask("insert into ledger select 1, 1 from pg_sleep(60)");
    one.await_running("postgres", "pg_sleep(60)");
    // The former primary lives on, as when its agent was killed.
    two.promote();
    let unknown = writer.answer_within(LIMIT);
    assert_eq!((&*unknown.error().code, unknown.status), ("08007", ' '), "{unknown:?}");
    let runs = "select count(*) from pg_stat_activity where query like 'insert into ledger%' and state = 'active'";
    wait_until("the statement has ended", LIMIT, || one.value(runs) == "0");
    assert_eq!(one.value("select count(*) from ledger"), "0");
}

pub(crate) fn no_more_clients_and_bytes_are_held_than_the_limits_allow(house: &House) {
    let one = Postgres::start(&house.place);
    let http = free_port();
    let limits = "hold_clients_max=2 hold_bytes_max=12000 hold_timeout=60";
    let pooler = start(house, &[&one], limits, |ini| ini.set(&format!("http_port = {http}")));
    await_primary(&pooler, &one);
    let mut clients: Vec<_> = (0..4).map(|_| pooler.client("u", "rw")).collect();
    assert_eq!(pooler.console("HOLD rw").tags, ["HOLD"]);
    clients[0].ask("select 1");
    clients[1].ask("select 1");
    pooler.await_pool("rw", "cl_waiting", "2");
    let refused = clients[2].query("select 1");
    assert_eq!((&*refused.error().code, refused.status), ("57P03", ' '), "{refused:?}");
    assert_eq!(refused.error().text, "too many clients wait while the primary changes (hold_clients_max)");
    // One gives up, and another one takes its place.
    clients[1].cancel();
    assert_eq!(clients[1].answer().error().code, "57014");
    // What one has sent may be too much as well.
    let refused = clients[3].query(&format!("select '{}'", "x".repeat(30_000)));
    assert_eq!((&*refused.error().code, refused.status), ("57P03", ' '), "{refused:?}");
    assert_eq!(refused.error().text, "too many clients wait while the primary changes (hold_bytes_max)");
    clients[1].ask("select 1");
    pooler.await_pool("rw", "cl_waiting", "2");
    let line = "trunkline_hold_refused_total 2";
    let metrics = get(([127, 0, 0, 1], http).into(), "/metrics", "").1;
    assert!(metrics.lines().any(|told| told.starts_with(line)), "{metrics}");
    assert_eq!(pooler.console("RELEASE rw").tags, ["RELEASE"]);
    for client in &mut clients[..2] {
        assert_eq!(client.answer().value(), "1");
    }
    // The next hold begins anew.
    assert_eq!(pooler.console("HOLD rw").tags, ["HOLD"]);
    clients[0].ask("select 1");
    clients[1].ask("select 1");
    pooler.await_pool("rw", "cl_waiting", "2");
    pooler.console("RELEASE rw");
    assert!(clients[0].answer().errors.is_empty() && clients[1].answer().errors.is_empty());
}

pub(crate) fn listeners_and_settings_move_to_the_new_primary(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    promote_soon(&two);
    let more = format!("patroni={} hold_timeout=60", patroni.urls());
    let pooler = start(house, &[&one, &two], &more, |ini| ini.set("notify_lost = notify"));
    await_primary(&pooler, &one);
    let (mut listens, mut sets, mut says) =
        (pooler.client("u", "rw"), pooler.client("u", "rw"), pooler.client("u", "rw"));
    listens.run("listen news");
    sets.run("set geqo = off");
    sets.run("prepare p as select inet_server_port()");
    says.run("notify news, 'before'");
    assert_eq!(listens.heard(1), ["news before"]);
    hands_over(&patroni, &one, &two);
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("SWITCHOVER");
    let answer = console.answer_within(Duration::from_secs(60));
    assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
    let summary = &answer.notices.last().expect("a summary").text;
    assert!(!summary.contains("were ended"), "nobody has to be ended for these: {summary}");
    // Nobody has listened for a while, which the client is told, and then it listens at the new primary.
    assert_eq!(listens.heard(1), ["trunkline_lost "]);
    says.run("notify news, 'after'");
    assert_eq!(listens.heard(1), ["news after"]);
    assert_eq!(sets.value("execute p"), two.port().to_string());
    assert_eq!(sets.value("show geqo"), "off");
}

pub(crate) fn what_cannot_move_is_ended_with_words_at_drain_timeout(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    promote_soon(&two);
    let more = format!("patroni={} hold_timeout=60 drain_timeout=1", patroni.urls());
    let session = "session = cluster=main dbname=postgres pool_mode=session";
    let pooler = start(house, &[&one, &two], &more, |ini| ini.database(session));
    await_primary(&pooler, &one);
    let has = |what: &[&str], database: &str| {
        let mut client = pooler.client("u", database);
        what.iter().for_each(|statement| client.run(statement));
        client
    };
    let cursor = ["begin", "declare c cursor with hold for select 1", "commit"];
    let mut clients = [
        has(&["create temp table scratch (a int)"], "rw"),
        has(&["select pg_advisory_lock(41)"], "rw"),
        has(&cursor, "rw"),
        has(&["select 1"], "session"),
    ];
    hands_over(&patroni, &one, &two);
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("SWITCHOVER");
    pooler.await_log("switchover: holding new transactions");
    let mut waits = pooler.client("u", "rw");
    waits.ask("select 1");
    let answer = console.answer_within(Duration::from_secs(60));
    assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
    let summary = &answer.notices.last().expect("a summary").text;
    assert!(summary.contains("transactions that were open for longer than drain_timeout were ended"), "{summary}");
    for client in &mut clients {
        let ended = client.query("select 1");
        assert_eq!((&*ended.error().code, ended.status), ("57P01", ' '), "{ended:?}");
        assert_eq!(ended.error().text, "terminating connection because the primary changes");
    }
    assert!(waits.answer_within(LIMIT).errors.is_empty());
    assert_eq!(locks(&two), "0");
}

/// How many advisory locks there are at a host.
fn locks(at: &Postgres) -> String {
    at.value("select count(*) from pg_locks where locktype = 'advisory'")
}

/// How many clients wait in all pools.
fn waiting(pooler: &Pooler) -> usize {
    let pools = pooler.console("SHOW POOLS");
    (0..pools.rows.len()).map(|row| pools.named(row)["cl_waiting"].parse::<usize>().expect("a number")).sum()
}

/// Counts the servers of the held clients at a host, over and over.
struct Most {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<usize>,
}

impl Most {
    fn watch(at: &Postgres) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, mut client) = (Arc::clone(&is_over), at.client("postgres"));
        let names = USERS.map(|user| format!("'{user}'")).join(",");
        let thread = thread::spawn(move || {
            let mut most = 0;
            while !ends.load(Ordering::SeqCst) {
                let sql = format!("select count(*) from pg_stat_activity where usename in ({names})");
                most = most.max(client.value(&sql).parse().expect("a number"));
            }
            most
        });
        Self { is_over, thread }
    }

    fn end(self) -> usize {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().expect("it counts")
    }
}

const HELD: usize = 1000;
const USERS: [&str; 3] = ["one", "two", "three"];
const POOL_SIZE: usize = 10;
const DATABASE_MAX: usize = 12;
