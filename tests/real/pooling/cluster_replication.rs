//! Replication through the port of a cluster: subscribers and receivers of WAL follow the primary, and miss nothing.
//!
//! Not here: replication without a cluster (`replication`), clients that write (`clusters`, `switchovers`).

use std::time::Duration;

use tests::client::Client;
use tests::patroni::Patroni;
use tests::place::free_port;
use tests::pooler::Pooler;
use tests::postgres::Postgres;
use tests::wait::{LIMIT, wait_until};

use crate::console::http::get;
use crate::house::House;
use crate::pooling::clusters::{await_primary, hand_over, roles, start, state};
use crate::pooling::hosts::{pair, port};
use crate::pooling::switchovers::promote_soon;

pub(crate) fn a_subscriber_follows_the_primary_through_switchovers(house: &House) {
    follow_through_switchovers(house, 2);
}

// Only when named.
pub(crate) fn a_subscriber_follows_the_primary_through_ten_switchovers(house: &House) {
    follow_through_switchovers(house, 10);
}

fn follow_through_switchovers(house: &House, times: usize) {
    if house.is_older_than(14, "streaming of transactions in progress") {
        return;
    }
    let (mut one, mut two) = pair(house);
    let http = free_port();
    let patroni = Patroni::open(&[one.port(), two.port()]);
    let more = format!("patroni={} hold_timeout=60", patroni.urls());
    let pooler = start(house, &[&one, &two], &more, |ini| ini.set(&format!("http_port = {http}")));
    await_primary(&pooler, &one);
    promote_soon(&two);
    // Larger transactions are streamed before their commit.
    one.query("alter database postgres set logical_decoding_work_mem = '64kB'");
    one.query("create table t (a int primary key, b text)");
    one.query("create publication p for table t");
    let target = Postgres::start(&house.place);
    target.query("alter system set wal_retrieve_retry_interval = '100ms'");
    target.query("select pg_reload_conf()");
    target.query("create table t (a int primary key, b text)");
    let reached = format!("host=127.0.0.1 port={} user=u dbname=rw", pooler.port());
    let mut sink = target.client("postgres");
    sink.ask(&format!("create subscription s connection '{reached}' publication p with (streaming = on)"));
    let answer = sink.answer_within(LIMIT * 3);
    assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
    let mut writer = pooler.client("u", "rw");
    let mut rows = 0;
    for number in 1..=times {
        let (primary, standby) = if number % 2 == 1 { (&one, &two) } else { (&two, &one) };
        wait_until("the standby is known", LIMIT * 3, || {
            roles(&pooler).contains(&(standby.port(), "replica".to_owned())) && state(&pooler) == "steady"
        });
        wait_until("the subscriber is there", LIMIT * 3, || {
            primary.value("select count(*) from pg_replication_slots where slot_name = 's' and active") == "1"
        });
        wait_until("the lag of the slot is known", LIMIT * 3, || slot_lag(http).is_some());
        let (pid, address) = (primary.postmaster(), standby.address());
        patroni.on_switchover(move |_| {
            hand_over(pid, address);
            // Patroni keeps permanent slots on standbys; a standby of PostgreSQL 15 cannot have one by itself.
            let mut admin = Client::login(address, "postgres", "postgres");
            admin.run("select pg_drop_replication_slot(slot_name) from pg_replication_slots");
            admin.run("select pg_create_logical_replication_slot('s', 'pgoutput')");
            Ok(())
        });
        // This one is large, open when the switchover begins, and in part with the subscriber already.
        writer.run("begin");
        writer
            .run(&format!("insert into t select i, repeat('x', 100) from generate_series({rows}, {}) i", rows + 1999));
        rows += 2000;
        let mut console = pooler.client("admin", "pgbouncer");
        console.ask("SWITCHOVER");
        let held = || pooler.log().matches("switchover: holding new transactions").count();
        wait_until("clients are held", LIMIT, || held() == number);
        writer.run("commit");
        let answer = console.answer_within(Duration::from_secs(60));
        assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
        let summary = answer.notices.last().expect("a summary").text.clone();
        assert!(!summary.contains("were ended"), "the stream is no transaction that has to end: {summary}");
        println!("switchover {number}: {summary}");
        writer.run(&format!("insert into t values ({rows}, 'after')"));
        rows += 1;
        wait_until("the subscriber goes on", LIMIT * 3, || target.value("select count(*) from t") == rows.to_string());
        if number < times {
            match number % 2 {
                1 => one = one.follow(&two, &house.place),
                _ => two = two.follow(&one, &house.place),
            }
            promote_soon(if number % 2 == 1 { &one } else { &two });
        }
    }
    let last = if times % 2 == 1 { &two } else { &one };
    let sum = "select md5(string_agg(a || b, ',' order by a)) from t";
    assert_eq!(target.value(sum), last.value(sum));
    let failed = target.log();
    assert!(!failed.contains("duplicate key"), "{failed}");
}

pub(crate) fn replication_goes_where_the_role_of_its_line_is(house: &House) {
    let (one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "check_interval=0.5", |ini| {
        ini.database("ro = cluster=main role=replica dbname=postgres")
    });
    await_primary(&pooler, &one);
    assert_eq!(port(&mut replicates(&pooler, "ro", "database")), two.port());
    let mut asks = replicates(&pooler, "rw", "database");
    assert_eq!(port(&mut asks), one.port());
    // A stream whose sender says nothing any more would be waited for until `wal_receiver_timeout`.
    let mut streams = replicates(&pooler, "rw", "true");
    let from = one.value("select pg_current_wal_flush_lsn()");
    streams.ask(&format!("START_REPLICATION PHYSICAL {from}"));
    assert_eq!(streams.peer.frame_within(LIMIT).expect("an answer").tag, b'W');
    one.freeze();
    pooler.await_log("cluster main: the primary is lost");
    two.promote();
    await_primary(&pooler, &two);
    for client in [&mut streams, &mut asks] {
        let told = loop {
            let frame = client.peer.frame_within(LIMIT).expect("an error");
            if frame.tag == b'E' {
                break tests::message::Complaint::read(&frame);
            }
        };
        assert_eq!((&*told.code, &*told.text), ("57P01", "terminating connection because the primary changes"));
        assert!(client.peer.is_closed_within(LIMIT));
    }
    assert_eq!(port(&mut replicates(&pooler, "rw", "database")), two.port());
    one.thaw();
}

/// By how many bytes the slot of the subscriber is behind, as the metrics tell.
fn slot_lag(http: u16) -> Option<f64> {
    let metrics = get(([127, 0, 0, 1], http).into(), "/metrics", "").1;
    let line = metrics
        .lines()
        .find(|line| line.starts_with("trunkline_cluster_slot_lag_bytes{cluster=\"main\",slot=\"s\"}"))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// A client with a replication connection.
fn replicates(pooler: &Pooler, database: &str, kind: &str) -> Client {
    let parameters = [("user", "u"), ("database", database), ("replication", kind)];
    Client::try_login(pooler.address(), &parameters).expect("it is let in")
}
