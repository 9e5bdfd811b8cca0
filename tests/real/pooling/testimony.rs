//! Agents of a cluster that say what is not so, and a primary that changes again and again: who is the primary is decided by SQL.
//!
//! Not here: agents that are silent, and hosts that are (`clusters`).

use tests::patroni::Patroni;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::pooling::clusters::{await_primary, roles, start, state};
use crate::pooling::hosts::{pair, port};
use crate::pooling::switchovers::promote_soon;

pub(crate) fn agents_that_say_what_is_not_so_lead_nobody_to_a_standby(house: &House) {
    let (mut one, two) = pair(house);
    let three = one.standby(&house.place);
    let patroni = Patroni::open(&[one.port(), two.port(), three.port()]);
    let pooler = start(house, &[&one, &two, &three], &format!("patroni={}", patroni.urls()), |ini| ini);
    one.query("create table ledger (who int, number int)");
    await_primary(&pooler, &one);
    let mut client = pooler.client("u", "rw");
    client.run("insert into ledger values (1, 1)");
    // All name a standby, and its own interface says 200 although it is read-only.
    patroni.leads(Some(1));
    wait_until("writes are stopped", LIMIT * 2, || state(&pooler) != "steady");
    client.ask("insert into ledger values (1, 2)");
    pooler.await_pool("rw", "cl_waiting", "1");
    patroni.leads(Some(0));
    assert!(client.answer_within(LIMIT).errors.is_empty(), "{}", pooler.log());
    assert_eq!(port(&mut client), one.port());
    // One interface repeats what was true before the primary was lost.
    patroni.stops_to_learn(2);
    wait_until("the rows are there", LIMIT, || two.value("select count(*) from ledger") == "2");
    one.crash();
    pooler.await_log("cluster main: the primary is lost");
    two.promote();
    patroni.leads(Some(1));
    client.ask("insert into ledger values (1, 3)");
    assert!(client.answer_within(LIMIT).errors.is_empty(), "{}", pooler.log());
    assert_eq!(port(&mut client), two.port());
    // And the former primary comes back, which that interface still names.
    one.restart(&house.place);
    wait_until("the former primary is fenced", LIMIT, || roles(&pooler).contains(&(one.port(), "fenced".to_owned())));
    client.run("insert into ledger values (1, 4)");
    assert_eq!(port(&mut client), two.port());
    assert_eq!(one.value("select count(*) from ledger"), "2");
    assert_eq!(two.value("select count(*) from ledger"), "4");
}

// Only when named.
pub(crate) fn a_primary_that_changes_all_the_time_is_followed_each_time(house: &House) {
    let (mut here, mut there) = pair(house);
    let patroni = Patroni::open(&[here.port(), there.port()]);
    let pooler = start(house, &[&here, &there], &format!("patroni={}", patroni.urls()), |ini| ini);
    here.query("create table ledger (who int, number int)");
    await_primary(&pooler, &here);
    let mut client = pooler.client("u", "rw");
    for change in 1..=CHANGES {
        client.run(&format!("insert into ledger values (1, {change})"));
        let written = here.value("select pg_current_wal_insert_lsn()");
        let is_there = format!("select pg_last_wal_replay_lsn() >= '{written}'");
        wait_until("the standby has all", LIMIT, || there.value(&is_there) == "t");
        promote_soon(&there);
        here.crash();
        there.promote();
        patroni.leads(Some(change % 2));
        client.ask("insert into ledger values (2, 0)");
        let answer = client.answer_within(LIMIT);
        assert!(answer.errors.is_empty(), "change {change}: {answer:?}");
        assert_eq!(port(&mut client), there.port(), "change {change}");
        here = here.follow(&there, &house.place);
        await_primary(&pooler, &there);
        wait_until("the standby is known", LIMIT, || roles(&pooler).contains(&(here.port(), "replica".to_owned())));
        std::mem::swap(&mut here, &mut there);
    }
    assert_eq!(here.value("select count(*) from ledger"), (2 * CHANGES).to_string());
    pooler.await_log("cluster main: the primary has changed 5 times within ");
    let log = pooler.log();
    let switches = log.matches("is the primary now, on timeline").count();
    assert_eq!(switches, CHANGES, "one switch for each change\n{log}");
}

const CHANGES: usize = 5;
