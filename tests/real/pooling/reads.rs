//! Reads that go to replicas (`read_routing`): which requests, that a client reads what it has written, and that a read is answered as the
//! primary answers it.

use std::time::{Duration, Instant};

use base::Random;
use tests::client::Client;
use tests::message;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::wait::{LIMIT, wait_until};

use crate::console::http::get;
use crate::house::House;
use crate::pooling::clusters::{await_primary, start};
use crate::pooling::hosts::pair;

/// A function of which the catalog says that it only reads; it tells where it was executed.
const PORT: &str = "create function port() returns int language sql stable as 'select inet_server_port()'";

pub(crate) fn a_read_goes_to_a_replica_if_it_says_so(house: &House) {
    let (one, two) = pair(house);
    let pooler = routed(house, &[&one, &two], "explicit", "");
    let mut client = pooler.client("u", "rw");
    let at = |client: &mut Client, sql: &str| client.value(sql).parse::<u16>().expect("a port");
    let hinted = "/* trunkline: replica */ select inet_server_port()";
    wait_until("a replica is known", LIMIT, || at(&mut client, hinted) == two.port());
    assert_eq!(at(&mut client, "select inet_server_port()"), one.port());
    assert_eq!(at(&mut client, "/* trunkline: primary */ select inet_server_port()"), one.port());
    // A transaction that only reads stays where it has begun.
    let goes_there = |client: &mut Client, begin: &str| {
        client.run(begin);
        let is_there = at(client, "select inet_server_port()") == two.port();
        client.run(if is_there || begin.starts_with("set") { "select 1" } else { "commit" });
        is_there
    };
    wait_until("transactions that only read go there", LIMIT, || goes_there(&mut client, "begin read only"));
    assert_eq!(at(&mut client, "/* trunkline: primary */ select inet_server_port()"), two.port());
    client.run("commit");
    assert_eq!(at(&mut client, "select inet_server_port()"), one.port());
    // So does a session whose transactions only read, but for those that say something else.
    wait_until("a session that only reads does", LIMIT, || {
        goes_there(&mut client, "set default_transaction_read_only = on")
    });
    client.run("begin read write");
    assert_eq!(at(&mut client, "select inet_server_port()"), one.port());
    client.run("create table t (a int)");
    client.run("commit");
    assert_eq!(client.value("show default_transaction_read_only"), "on");
    client.run("set default_transaction_read_only = off");
    assert_eq!(at(&mut client, "select inet_server_port()"), one.port());
    // A write that asks for a replica is refused as on a direct connection.
    wait_until("the replica has the table", LIMIT, || two.value("select to_regclass('t') is not null") == "t");
    let refused = client.query("/* trunkline: replica */ insert into t values (1)");
    if refused.errors.is_empty() {
        // Not all was known to be replayed, so the primary was asked.
        assert_eq!(client.value("select count(*) from t"), "1");
    } else {
        assert_eq!(refused.error().code, "25006");
    }
    // What the client has set goes with it.
    client.run("set work_mem = '7MB'");
    wait_until("the replica has replayed that", LIMIT, || at(&mut client, hinted) == two.port());
    assert_eq!(client.value("/* trunkline: replica */ show work_mem"), "7MB");
}

pub(crate) fn a_read_that_is_proven_goes_to_a_replica(house: &House) {
    let (one, two) = pair(house);
    one.query("create table t (a int primary key, b text)");
    one.query(PORT);
    one.query("create function tick() returns int language sql volatile as 'select inet_server_port()'");
    one.query("create sequence s");
    one.query("create view ticking as select tick() as at");
    one.query("create view over_that as select * from ticking");
    let pooler = routed(house, &[&one, &two], "automatic", "");
    let mut client = pooler.client("u", "rw");
    await_reads(&mut client, &two);
    for sql in ["select tick()", "select at from ticking", "select at from over_that", "select inet_server_port()"] {
        assert_eq!(client.value(sql), one.port().to_string(), "{sql}");
    }
    assert_eq!(client.value("select port() from s"), one.port().to_string(), "sequences differ on a replica");
    for sql in ["select port() for update", "select port(), tick()", "begin; select port(); commit"] {
        assert!(
            !client.query(sql).rows.iter().flatten().flatten().any(|cell| *cell == two.port().to_string()),
            "{sql}"
        );
    }
    // Prepared statements as drivers send them: unnamed, named, and described first.
    await_reads(&mut client, &two);
    let run =
        |name: &str| [message::bind("", name, &[]), message::describe(b'P', ""), message::execute("", 0)].concat();
    let parse = |name: &str| [message::parse(name, "select port()"), message::describe(b'S', name)].concat();
    for batch in [[parse(""), run("")].concat(), parse("a"), run("a"), run("a")] {
        client.peer.send(&[batch, message::sync()].concat());
        let answer = client.answer();
        assert!(answer.errors.is_empty(), "{answer:?}");
        for row in &answer.rows {
            assert_eq!(row[0].as_deref(), Some(&*two.port().to_string()));
        }
    }
    let (reads, writes) = (counted(&pooler, "rw:replica"), counted(&pooler, "rw"));
    assert!(reads >= 3 && writes >= 8, "{reads} {writes}");
}

pub(crate) fn a_client_reads_what_it_has_written(house: &House) {
    let (one, two) = pair(house);
    one.query("create table t (a int primary key, b int)");
    one.query("insert into t values (1, 0)");
    one.query(PORT);
    let pooler = routed(house, &[&one, &two], "automatic", "check_interval=0.1");
    let (mut writer, mut reader) = (pooler.client("u", "rw"), pooler.client("u", "rw"));
    await_reads(&mut writer, &two);
    await_reads(&mut reader, &two);
    for round in 1..=50 {
        writer.run(&format!("update t set b = {round}"));
        assert_eq!(writer.value("select b from t"), round.to_string());
    }
    // Of a replica that stands still nobody reads what he has written; who has written nothing reads the old.
    two.query("select pg_wal_replay_pause()");
    wait_until("the replica stands still", LIMIT, || {
        two.value("select pg_is_wal_replay_paused() and pg_last_wal_receive_lsn() is not null") == "t"
    });
    writer.run("update t set b = 100");
    let until = Instant::now() + Duration::from_millis(700);
    while Instant::now() < until {
        let row = writer.query("select b, port() from t").rows.remove(0);
        assert_eq!(row, [Some("100".to_owned()), Some(one.port().to_string())]);
    }
    let old = reader.query("select b, port() from t").rows.remove(0);
    assert_ne!(old[0].as_deref(), Some("100"));
    assert_eq!(old[1], Some(two.port().to_string()));
    two.query("select pg_wal_replay_resume()");
    wait_until("the writer reads at the replica again", LIMIT, || {
        let row = writer.query("select b, port() from t").rows.remove(0);
        assert_eq!(row[0].as_deref(), Some("100"));
        row[1] == Some(two.port().to_string())
    });
}

pub(crate) fn a_read_that_a_replica_refuses_is_answered_by_the_primary(house: &House) {
    let (one, two) = pair(house);
    let http = free_port();
    one.query("create unlogged table u (a int)");
    one.query("insert into u values (1)");
    one.query(PORT);
    let pooler = routed(house, &[&one, &two], &format!("automatic\nhttp_port = {http}"), "check_interval=0.1");
    let mut client = pooler.client("u", "rw");
    await_reads(&mut client, &two);
    // A table that the replica does not have yet, made by somebody else.
    two.query("select pg_wal_replay_pause()");
    one.query("create table later (a int)");
    one.query("insert into later values (1), (2)");
    assert_eq!(client.value("select count(*) from later"), "2");
    let answer = client.query("select a, port() from later order by a");
    assert_eq!(answer.rows.len(), 2, "{answer:?}");
    assert_eq!(reads(http, "refused"), 2.0);
    two.query("select pg_wal_replay_resume()");
    // An error that the primary gives as well comes once.
    let failed = client.query("select 1 / (a - 1) from later");
    assert_eq!((failed.errors.len(), &*failed.error().code), (1, "22012"));
    assert_eq!(client.query("select nothing from later").error().code, "42703");
    assert_eq!(client.value("select a from u"), "1");
    await_reads(&mut client, &two);
    // A time limit holds once.
    client.run("set statement_timeout = '300ms'");
    let since = Instant::now();
    let sum = "select count(*) from generate_series(1, 1000000000)";
    assert_eq!(client.query(sum).error().code, "57014");
    assert!(since.elapsed() < Duration::from_millis(590) * 5, "{:?}", since.elapsed());
}

pub(crate) fn a_read_outlives_its_replica(house: &House) {
    let (one, mut two) = pair(house);
    let http = free_port();
    one.query("create table t (a int)");
    one.query("insert into t select generate_series(1, 10)");
    one.query("create function slowly(int) returns int language plpgsql stable as 'begin perform pg_sleep($1); return inet_server_port(); end'");
    one.query(PORT);
    let pooler = routed(house, &[&one, &two], &format!("automatic\nhttp_port = {http}"), "check_interval=0.1");
    let mut client = pooler.client("u", "rw");
    await_reads(&mut client, &two);
    let mut other = pooler.client("u", "rw");
    await_reads(&mut other, &two);
    client.ask("select slowly(2)");
    let batch = [message::parse("", "select slowly(2)"), message::bind("", "", &[]), message::describe(b'P', "")];
    other.peer.send(&[batch.concat(), message::execute("", 0), message::sync()].concat());
    let at_work = "select count(*) from pg_stat_activity where state = 'active' and query like 'select slowly%'";
    wait_until("both are at work there", LIMIT, || two.value(at_work) == "2");
    two.crash();
    for client in [&mut client, &mut other] {
        let answer = client.answer_within(LIMIT);
        assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
        assert_eq!(answer.rows[0][0], Some(one.port().to_string()));
    }
    for _ in 0..20 {
        assert_eq!(client.value("select port()"), one.port().to_string());
    }
    assert_eq!(reads(http, "lost"), 2.0);
    assert!(reads(http, "replica") >= 4.0 && reads(http, "refused") == 0.0);
    // It is used again when it is back.
    two.restart(&house.place);
    wait_until("the replica is read from again", LIMIT * 2, || client.value("select port()") == two.port().to_string());
}

pub(crate) fn requests_that_come_at_once_go_each_where_they_belong(house: &House) {
    let (one, two) = pair(house);
    one.query("create table t (a int)");
    one.query(PORT);
    let pooler = routed(house, &[&one, &two], "automatic", "check_interval=0.1");
    let mut client = pooler.client("u", "rw");
    await_reads(&mut client, &two);
    for round in 1..=20 {
        // A client that sends its next request at once would keep its server for a moment.
        let texts = ["select port()", "insert into t values (1)", "select count(*) from t", "select port()"];
        client.peer.send(&texts.map(message::query).concat());
        let answers: Vec<_> = texts.iter().map(|_| client.answer()).collect();
        assert!(answers.iter().all(|answer| answer.errors.is_empty()), "{answers:?}");
        assert_eq!(answers[2].value(), round.to_string());
    }
    assert_eq!(one.value("select count(*) from t"), "20");
}

pub(crate) fn what_was_written_before_reads_were_routed_is_read_as_well(house: &House) {
    let (one, two) = pair(house);
    one.query("create table t (a int)");
    one.query("insert into t values (0)");
    wait_until("the table is there", LIMIT, || two.value("select to_regclass('t') is not null") == "t");
    wait_until("the row is there", LIMIT, || two.value("select count(*) from t") == "1");
    let line = "other = cluster=main dbname=postgres read_routing=automatic";
    let pooler = start(house, &[&one, &two], "", |ini: Ini| ini.database(line));
    await_primary(&pooler, &one);
    let (mut client, mut other) = (pooler.client("u", "rw"), pooler.client("u", "other"));
    let is_read_from = || counted(&pooler, "other:replica") > 0;
    wait_until("the replica is read from", LIMIT, || other.value("select a from t") == "0" && is_read_from());
    two.query("select pg_wal_replay_pause()");
    client.run("update t set a = 1");
    pooler.console("SET read_routing = automatic");
    wait_until("a new client reads what is old", LIMIT, || pooler.client("u", "rw").value("select a from t") == "0");
    assert_eq!(client.value("select a from t"), "1");
    two.query("select pg_wal_replay_resume()");
}

/// One client tells another from where in the log on it has to read.
pub(crate) fn a_client_reads_what_another_has_written_if_it_is_told_where(house: &House) {
    let (one, two) = pair(house);
    one.query("create table t (a int)");
    one.query("insert into t values (0)");
    one.query(PORT);
    wait_until("the row is there", LIMIT, || two.value("select to_regclass('t') is not null") == "t");
    let pooler = routed(house, &[&one, &two], "automatic", "check_interval=0.1");
    let (mut writer, mut reader) = (pooler.client("u", "rw"), pooler.client("u", "rw"));
    let at_replica = |client: &mut Client| client.value("select port()") == two.port().to_string();
    wait_until("reads go to the replica", LIMIT, || at_replica(&mut reader));
    two.query("select pg_wal_replay_pause()");
    writer.run("update t set a = 1");
    let shown = writer.query("show trunkline.lsn;");
    assert_eq!(shown.columns[0].0, "trunkline.lsn");
    let position = shown.value();
    let mut by_batch = message::parse("p", "SHOW trunkline.lsn");
    for part in [message::bind("", "p", &[]), message::execute("", 0), message::sync()] {
        by_batch.extend(part);
    }
    writer.peer.send(&by_batch);
    assert!(writer.answer_within(LIMIT).value() >= position, "it is as far, prepared as well");
    assert_eq!(reader.value("select a from t"), "0", "it knows of no write");
    reader.run(&format!("set trunkline.min_lsn = '{position}'"));
    assert_eq!(reader.value("select a from t"), "1");
    assert!(!at_replica(&mut reader));
    two.query("select pg_wal_replay_resume()");
    wait_until("the replica is as far", LIMIT, || at_replica(&mut reader));
    assert_eq!((&*reader.value("select a from t"), reader.value("show trunkline.min_lsn")), ("1", position));
    reader.run("set trunkline.min_lsn = 'soon'");
    assert!(!at_replica(&mut reader), "that is no position");
    reader.run("reset trunkline.min_lsn");
    wait_until("any will do", LIMIT, || at_replica(&mut reader));
}

/// The request that comes after one whose replica was lost is looked at like any other: it may write.
pub(crate) fn a_write_behind_a_read_that_has_lost_its_replica_is_read(house: &House) {
    let (one, two) = pair(house);
    one.query("create table t (a int)");
    one.query("insert into t values (0)");
    one.query("create function slowly(int) returns int language plpgsql stable as 'begin perform pg_sleep($1); return inet_server_port(); end'");
    one.query(PORT);
    let three = one.standby(&house.place);
    wait_until("the second replica has the table", LIMIT, || three.value("select to_regclass('t') is not null") == "t");
    let pooler = routed(house, &[&one, &two, &three], "automatic", "check_interval=0.1");
    let mut client = pooler.client("u", "rw");
    wait_until("reads go to a replica", LIMIT, || client.value("select port()") != one.port().to_string());
    client.ask("select slowly(2)");
    let at_work = "select count(*) from pg_stat_activity where state = 'active' and query like 'select slowly%'";
    let mut replicas = [two, three];
    wait_until("a replica is at work", LIMIT, || replicas.iter().any(|replica| replica.value(at_work) == "1"));
    replicas.sort_by_key(|replica| replica.value(at_work));
    let [other, lost] = &mut replicas;
    other.query("select pg_wal_replay_pause()");
    lost.crash();
    assert!(client.answer_within(LIMIT).errors.is_empty());
    client.run("update t set a = 1");
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        assert_eq!(client.value("select a from t"), "1");
    }
    other.query("select pg_wal_replay_resume()");
}

/// `BEGIN READ ONLY` and then `SET TRANSACTION READ WRITE`: a replica refuses that, and the primary, which reads for want of one, does not.
pub(crate) fn who_writes_where_he_wanted_to_read_only_reads_what_he_has_written(house: &House) {
    let (one, two) = pair(house);
    one.query("create table t (a int)");
    one.query("insert into t values (0)");
    one.query(PORT);
    let pooler = routed(house, &[&one, &two], "automatic", "check_interval=0.1");
    let (mut writer, mut reader) = (pooler.client("u", "rw"), pooler.client("u", "rw"));
    await_reads(&mut writer, &two);
    await_reads(&mut reader, &two);
    let turns = |client: &mut Client| {
        client.run("begin read only");
        client.query("set transaction read write")
    };
    wait_until("a replica refuses it", LIMIT, || {
        let answer = turns(&mut writer);
        writer.run("rollback");
        let refused = answer.errors.first().map(|error| (&*error.code, &*error.text));
        refused == Some(("0A000", "cannot set transaction read-write mode during recovery"))
    });
    // The replica stands still, and nobody reads there while it does not answer.
    two.query("select pg_wal_replay_pause()");
    wait_until("the replica stands still", LIMIT, || two.value("select pg_is_wal_replay_paused()") == "t");
    let (mut writer, mut other) = (pooler.client("u", "rw"), pooler.client("u", "rw"));
    two.freeze();
    pooler.await_log(&format!("host 127.0.0.1:{} has not answered for", two.port()));
    assert!(turns(&mut writer).errors.is_empty(), "the primary is asked");
    writer.run("update t set a = 1");
    writer.run("commit");
    // In the same request, but behind the transaction.
    other.run("begin read only");
    other.run("commit; update t set a = 1");
    two.thaw();
    let port = two.port().to_string();
    wait_until("the replica is read from again, and is behind", LIMIT * 2, || {
        let answer = reader.query("select port(), a from t");
        answer.rows == [[Some(port.clone()), Some("0".into())]]
    });
    for _ in 0..20 {
        assert_eq!(writer.value("select a from t"), "1");
        assert_eq!(other.value("select a from t"), "1");
    }
    two.query("select pg_wal_replay_resume()");
    let is_at_replica = |client: &mut Client| client.value("select port()") == port;
    wait_until("the writers read there, too", LIMIT * 2, || is_at_replica(&mut writer) && is_at_replica(&mut other));
}

/// Random programs on a primary with two replicas, of which one stands still now and then, and the same on a primary alone.
pub(crate) fn routed_reads_are_answered_as_by_a_primary_alone(house: &House) {
    let (one, two) = pair(house);
    let three = one.standby(&house.place);
    one.database("alone");
    let pooler =
        start(house, &[&one, &two, &three], "check_interval=0.1", |ini: Ini| ini.set("read_routing = automatic"));
    await_primary(&pooler, &one);
    let mut routed = pooler.client("u", "rw");
    let mut alone = one.client("alone");
    let seed = u64::from(std::process::id());
    let mut dice = Random::new(seed);
    for client in [&mut routed, &mut alone] {
        client
            .run("create table t (a int primary key, b int); insert into t select n, 0 from generate_series(1, 20) n");
    }
    wait_until("reads go to the replicas", LIMIT, || {
        routed.run("select count(*) from t");
        counted(&pooler, "rw:replica") > 0
    });
    let mut is_still = false;
    for step in 0..600 {
        if dice.below(15) == 0 {
            // What was written is replayed meanwhile, at one of the two at least.
            let (before, until) = (counted(&pooler, "rw:replica"), Instant::now() + Duration::from_millis(500));
            while counted(&pooler, "rw:replica") == before && Instant::now() < until {
                let [one, other] = [&mut routed, &mut alone].map(|client| client.value("select sum(a * b) from t"));
                assert_eq!(one, other, "seed {seed}, step {step}");
            }
        }
        if dice.below(25) == 0 {
            is_still = !is_still;
            three.query(if is_still { "select pg_wal_replay_pause()" } else { "select pg_wal_replay_resume()" });
        }
        let (one_row, value, table) = (dice.below(25), dice.below(4), dice.below(3));
        let sql = match dice.below(14) {
            0 => format!("update t set b = b + {value} where a = {one_row}"),
            1 => format!("insert into t values ({one_row}, {value})"),
            2 => format!("delete from t where a = {one_row}"),
            3 => format!("create table other{table} as select * from t where a < {one_row}"),
            4 => format!("drop table other{table}"),
            5 => format!("begin; update t set b = {value}; select sum(b) from t; rollback"),
            6 => format!("select {value} / (b - {value}) from t order by a"),
            7 => format!("select count(*), sum(b) from other{table}"),
            8 => format!("with x as (update t set b = {value} where a = {one_row} returning b) select * from x"),
            9 => format!("select a, lower('X' || b) from t where a > {one_row} order by a for update"),
            _ => format!("select a, b from t where a >= {one_row} order by a"),
        };
        let is_batch = dice.below(2) == 0 && !sql.contains(';');
        let mut answers = [&mut routed, &mut alone].map(|client| {
            if is_batch {
                let name = if dice.below(1) == 0 { "" } else { "s" };
                let batch = [message::parse(name, &sql), message::bind("", name, &[]), message::describe(b'P', "")];
                client.peer.send(&[batch.concat(), message::execute("", 0), message::sync()].concat());
                client.answer()
            } else {
                client.query(&sql)
            }
        });
        let [routed, alone] = answers.each_mut().map(|answer| {
            let errors: Vec<_> = answer.errors.iter().map(|error| (error.code.clone(), error.text.clone())).collect();
            (std::mem::take(&mut answer.rows), errors, answer.status)
        });
        assert_eq!(routed, alone, "seed {}, step {step}: {sql}", seed);
    }
    assert!(counted(&pooler, "rw:replica") > 30, "{} reads", counted(&pooler, "rw:replica"));
}

/// A pooler with the database `rw` on the primary of these hosts, whose reads are routed.
fn routed(house: &House, hosts: &[&Postgres], routing: &str, more: &str) -> Pooler {
    let routing = format!("read_routing = {routing}");
    let pooler = start(house, hosts, more, |ini: Ini| ini.set(&routing));
    await_primary(&pooler, hosts[0]);
    pooler
}

/// The metric of reads with this result.
fn reads(port: u16, result: &str) -> f64 {
    let (_, body) = get(([127, 0, 0, 1], port).into(), "/metrics", "");
    let begin = format!("trunkline_reads_routed_total{{database=\"rw\",user=\"u\",result=\"{result}\"}} ");
    body.lines().find_map(|line| line.strip_prefix(&*begin)).map_or(0.0, |count| count.parse().expect("a number"))
}

/// Waits until a client reads from this host.
fn await_reads(client: &mut Client, postgres: &Postgres) {
    let port = postgres.port().to_string();
    wait_until("reads go to the replica", LIMIT, || {
        let answer = client.query("select port()");
        answer.errors.is_empty() && answer.value() == port
    });
}

/// How many queries have gone to the servers of a database.
fn counted(pooler: &Pooler, database: &str) -> u64 {
    let stats = pooler.console("SHOW STATS");
    let row = (0..stats.rows.len()).map(|at| stats.named(at)).find(|row| row["database"] == database);
    row.map_or(0, |row| row["total_query_count"].parse().expect("a number"))
}
