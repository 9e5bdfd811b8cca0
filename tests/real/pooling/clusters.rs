//! Clusters: clients follow the primary, a switchover costs no error, and nobody writes to a host that may be no primary any more.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::client::Client;
use tests::etcd::Etcd;
use tests::message;
use tests::patroni::Patroni;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::program::{run, without_preferences};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::pooling::hosts::{pair, port};

pub(crate) fn clients_follow_the_primary_of_a_cluster(house: &House) {
    let (mut one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "", |ini| ini.database("ro = cluster=main role=replica dbname=postgres"));
    one.query("create table ledger (who int, number int)");
    await_primary(&pooler, &one);
    let mut clients: Vec<_> = (0..20).map(|_| pooler.client("u", "rw")).collect();
    for client in &mut clients {
        assert_eq!(port(client), one.port());
    }
    assert_eq!(port(&mut pooler.client("u", "ro")), two.port());
    wait_until("the table is there", LIMIT, || two.value("select to_regclass('ledger') is not null") == "t");
    one.crash();
    pooler.await_log(&format!("cluster main: the primary is lost: host 127.0.0.1:{} cannot be asked", one.port()));
    let writers: Vec<_> = clients
        .into_iter()
        .map(|mut client| thread::spawn(move || (client.query("insert into ledger values (1, 1)").errors, client)))
        .collect();
    pooler.await_pool("rw", "cl_waiting", "20");
    two.promote();
    for writer in writers {
        let (errors, mut client) = writer.join().expect("a client");
        assert!(errors.is_empty(), "{errors:?}\n{}", pooler.log());
        assert_eq!(port(&mut client), two.port());
    }
    await_primary(&pooler, &two);
    // Nobody is lent the idle server that was one of a standby.
    pooler.await_pool("ro", "sv_idle", "0");
    // The former primary comes back as if nothing had happened, and accepts writes.
    one.restart(&house.place);
    let line = format!("host 127.0.0.1:{} accepts writes, but 127.0.0.1:{} is the primary", one.port(), two.port());
    pooler.await_log(&line);
    pooler.console("RECONNECT rw");
    for _ in 0..5 {
        assert_eq!(port(&mut pooler.client("u", "rw")), two.port());
    }
    assert_eq!(roles(&pooler), [(one.port(), "fenced".to_owned()), (two.port(), "primary".to_owned())]);
    assert_eq!(one.value("select count(*) from ledger"), "0");
    // A program that knows nothing yet finds the same.
    let events = pooler.console("SHOW EVENTS").rows;
    let told = events.iter().filter(|row| row.iter().flatten().any(|cell| cell == "cluster")).count();
    assert!(told >= 4, "found, lost, found elsewhere, and two that accept writes: {events:?}");
}

pub(crate) fn the_members_of_a_cluster_are_those_that_patroni_tells(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    patroni.is_unknown(1, true);
    patroni.is_silent(0, true);
    // One interface is named; it tells the others.
    let line = format!("main = patroni={} user=u", patroni.url(0));
    let ini =
        Ini::new("rw = cluster=main dbname=postgres\nro = cluster=main role=replica dbname=postgres").cluster(&line);
    let pooler = house.start(&ini.set("pool_mode = transaction"));
    pooler.await_log("cluster main: no member is known, since none of 1 interfaces of Patroni answers");
    let mut early = thread::scope(|scope| {
        let login = scope.spawn(|| pooler.client("u", "rw"));
        pooler.await_pool("rw", "cl_waiting", "1");
        patroni.is_silent(0, false);
        login.join().expect("a client")
    });
    await_primary(&pooler, &one);
    assert_eq!(port(&mut early), one.port());
    let server = early.value("select pg_backend_pid()");
    // Who reads from a replica waits for one to come.
    let mut reader = thread::scope(|scope| {
        let login = scope.spawn(|| pooler.client("u", "ro"));
        pooler.await_pool("ro", "cl_waiting", "1");
        patroni.is_unknown(1, false);
        pooler.await_log(&format!("cluster main: host 127.0.0.1:{} is a member now (node2)", two.port()));
        login.join().expect("a client")
    });
    assert_eq!((port(&mut reader), early.value("select pg_backend_pid()")), (two.port(), server.clone()));
    pooler.console("RELOAD");
    assert_eq!(roles(&pooler), [(one.port(), "primary".to_owned()), (two.port(), "replica".to_owned())]);
    assert_eq!(early.value("select pg_backend_pid()"), server, "the server stays");
    // The interface that is named is not needed any more.
    patroni.is_silent(0, true);
    two.promote();
    patroni.leads(Some(1));
    await_primary(&pooler, &two);
    assert_eq!(port(&mut early), two.port());
}

pub(crate) fn an_online_restart_hands_the_members_and_the_lease_over(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    patroni.lock_lasts(10, 1);
    let line = format!("main = patroni={} user=u check_interval=0.2", patroni.urls());
    let ini = Ini::new("rw = cluster=main dbname=postgres").cluster(&line);
    let mut pooler = house.start(&ini.set("pool_mode = transaction"));
    await_primary(&pooler, &one);
    let mut client = pooler.client("u", "rw");
    let server = client.value("select pg_backend_pid()");
    // The new process gets no answer from any interface.
    patroni.is_silent(0, true);
    patroni.is_silent(1, true);
    let since = Instant::now();
    pooler.restart_online();
    assert_eq!(client.value("select pg_backend_pid()"), server, "{}", pooler.log());
    wait_until("writes are stopped", LIMIT * 2, || state(&pooler) == "fenced");
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    client.ask("select inet_server_port()");
    pooler.await_pool("rw", "cl_waiting", "1");
    patroni.is_silent(0, false);
    assert!(client.answer_within(LIMIT).errors.is_empty());
    assert_eq!(port(&mut client), one.port());
}

pub(crate) fn a_change_of_the_leader_in_etcd_is_followed_at_once(house: &House) {
    let (one, two) = pair(house);
    let etcd = Etcd::open(&[one.port(), two.port()]);
    etcd.asks_for_login("pooler", "s3cret");
    // The first address is none; nobody but etcd knows the members.
    let line = format!(
        "main = etcd=http://127.0.0.1:1,{} etcd_user=pooler etcd_password=s3cret user=u check_interval=60 lease_fencing=off",
        etcd.url()
    );
    let ini = Ini::new("rw = cluster=main dbname=postgres").cluster(&line);
    let pooler = house.start(&ini.set("pool_mode = transaction"));
    await_primary(&pooler, &one);
    let mut client = pooler.client("u", "rw");
    assert_eq!((port(&mut client), etcd.logins()), (one.port(), 1));
    // The next question of its own is a minute away.
    wait_until("it is watched", LIMIT, || etcd.is_watched());
    etcd.forgets_tokens();
    two.promote();
    etcd.leads("node2", 18);
    await_primary(&pooler, &two);
    assert_eq!(port(&mut client), two.port());
    assert_eq!(etcd.logins(), 102);
    wait_until("it is watched again", LIMIT, || etcd.is_watched());
    etcd.goes_back("node1");
    pooler.await_log("it tells an older state than before (revision 3, term 2 after revision ");
    assert_eq!(port(&mut client), two.port());
    assert_eq!(state(&pooler), "steady");
    assert!(!pooler.log().contains("s3cret"));
}

pub(crate) fn a_switchover_by_patroni_costs_no_error(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    let pooler = start(house, &[&one, &two], &format!("patroni={} hold_timeout=60", patroni.urls()), |ini| ini);
    one.query("create table ledger (who int, number int, primary key (who, number))");
    await_primary(&pooler, &one);
    let (pid, address) = (one.postmaster(), two.address());
    patroni.on_switchover(move |name| {
        assert_eq!(name, "node2");
        hand_over(pid, address);
        Ok(())
    });
    let writers = Writers::start(&pooler, 20);
    writers.await_all(&one, 5);
    // A transaction that is open ends in its own time.
    let mut open = pooler.client("u", "rw");
    open.run("begin");
    open.run("insert into ledger values (-1, 1)");
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("SWITCHOVER");
    pooler.await_log("cluster main: switchover: holding new transactions, waiting for open ones");
    assert_eq!(state(&pooler), "draining");
    open.run("insert into ledger values (-1, 2)");
    open.run("commit");
    let answer = console.answer_within(Duration::from_secs(60));
    assert!(answer.errors.is_empty(), "{answer:?}\n{}", pooler.log());
    let told: Vec<_> = answer.notices.iter().map(|notice| notice.text.clone()).collect();
    let summary = told.last().expect("a summary");
    let (from, to) = (one.port(), two.port());
    let line = format!("switched over from 127.0.0.1:{from} to 127.0.0.1:{to} in ");
    assert!(summary.starts_with(&line), "{told:?}");
    assert!(told.iter().any(|line| line.contains("holding new transactions")), "{told:?}");
    assert_eq!((state(&pooler), patroni.asked()), ("steady".to_owned(), 1));
    writers.await_all(&two, 5);
    let (written, failed) = writers.end();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(two.value("select count(*) from ledger where who >= 0"), written.to_string());
    assert_eq!(two.value("select count(*) from ledger where who = -1"), "2");
    assert_eq!(open.value("select inet_server_port()"), two.port().to_string());
}

pub(crate) fn a_switchover_that_fails_leaves_clients_at_the_primary(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    let line = format!("patroni={} drain_timeout=3 hold_timeout=20", patroni.urls());
    let pooler = start(house, &[&one, &two], &line, |ini| ini);
    await_primary(&pooler, &one);
    patroni.on_switchover(|_| Err("Switchover failed".to_owned()));
    let mut open = pooler.client("u", "rw");
    open.run("begin");
    let mut waits = pooler.client("u", "rw");
    waits.run("select 1");
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("SWITCHOVER main TO node2");
    pooler.await_log("cluster main: switchover: holding new transactions, waiting for open ones");
    pooler.await_pool("rw", "sv_active", "1");
    waits.ask("select 1");
    assert_eq!(waits_for(&pooler), "held");
    // The open transaction does not end: it is ended.
    let answer = console.answer_within(LIMIT);
    assert_eq!(
        (&*answer.error().code, &*answer.error().text),
        ("55000", "no switchover: Patroni: status 503: Switchover failed")
    );
    let ended = open.query("select 1");
    assert_eq!((&*ended.error().code, ended.status), ("57P01", ' '), "{ended:?}");
    assert_eq!(ended.error().text, "terminating connection because the primary changes");
    assert!(waits.answer_within(LIMIT).errors.is_empty());
    assert_eq!((port(&mut waits), state(&pooler)), (one.port(), "steady".to_owned()));
    for (command, words) in [
        ("SWITCHOVER main TO node3", "no switchover: the cluster has no member \"node3\""),
        ("SWITCHOVER main TO node1", &format!("no switchover: host 127.0.0.1:{} is the primary already", one.port())),
        ("SWITCHOVER other", "no such cluster: other"),
    ] {
        assert_eq!(console.query(command).error().text, *words);
    }
    // Who gives up is obeyed.
    open = pooler.client("u", "rw");
    open.run("begin");
    console.ask("SWITCHOVER");
    let held = || pooler.log().matches("switchover: holding new transactions").count();
    wait_until("clients are held again", LIMIT, || held() == 2);
    console.cancel();
    assert_eq!(console.answer_within(LIMIT).error().text, "no switchover: canceled");
    assert_eq!(open.value("select inet_server_port()"), one.port().to_string());
}

pub(crate) fn a_switchover_without_patroni_demotes_by_a_command(house: &House) {
    if house.is_older_than(12, "pg_promote()") {
        return;
    }
    let (one, two) = pair(house);
    // The shell that runs it has our rights, as its parent has.
    let log = house.place.directory().join("demoted");
    let demote = format!(
        "echo $TRUNKLINE_CLUSTER $TRUNKLINE_PRIMARY $TRUNKLINE_TARGET > {}; kill -INT {}",
        log.display(),
        one.postmaster()
    );
    house.place.write(&log, "");
    let pooler = start(house, &[&one, &two], &format!("demote_command='{demote}'"), |ini| ini);
    one.query("create table ledger (who int, number int, primary key (who, number))");
    await_primary(&pooler, &one);
    let writers = Writers::start(&pooler, 5);
    writers.await_all(&one, 3);
    let told =
        run(&mut switchover(house, &pooler, &["--to", &format!("127.0.0.1:{}", two.port())]), LIMIT * 3).success();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].ends_with("waiting for a checkpoint"), "{told}");
    assert!(lines.last().is_some_and(|line| line.starts_with("switched over from ")), "{told}");
    let refused = run(&mut switchover(house, &pooler, &["--cluster", "other"]), LIMIT).failure();
    assert_eq!(refused.trim(), "trunkline switchover: ERROR: no such cluster: other");
    writers.await_all(&two, 3);
    let (written, failed) = writers.end();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(two.value("select count(*) from ledger"), written.to_string());
    let told = std::fs::read_to_string(&log).expect("what the command has written");
    assert_eq!(told.trim(), format!("main 127.0.0.1:{} 127.0.0.1:{}", one.port(), two.port()));
}

pub(crate) fn writes_stop_before_the_lease_of_the_primary_has_run_out(house: &House) {
    let (one, two) = pair(house);
    let patroni = Patroni::open(&[one.port(), two.port()]);
    patroni.lock_lasts(10, 1);
    let pooler = start(house, &[&one, &two], &format!("patroni={} check_interval=0.2", patroni.urls()), |ini| ini);
    one.query("create table ledger (who int, number int)");
    await_primary(&pooler, &one);
    let (mut idle, mut open) = (pooler.client("u", "rw"), pooler.client("u", "rw"));
    idle.run("insert into ledger values (1, 1)");
    open.run("begin");
    open.run("insert into ledger values (2, 1)");
    // Patroni is killed beside the primary, PostgreSQL goes on: after 10 seconds another may be promoted.
    patroni.is_silent(0, true);
    let since = Instant::now();
    wait_until("writes are stopped", LIMIT * 2, || state(&pooler) == "fenced");
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    assert_eq!(open.query("commit").error().code, "57P01");
    idle.ask("insert into ledger values (1, 2)");
    pooler.await_pool("rw", "cl_waiting", "1");
    // The other one is promoted: two hosts accept writes.
    two.promote();
    patroni.leads(Some(1));
    assert!(idle.answer_within(LIMIT).errors.is_empty());
    assert_eq!(port(&mut idle), two.port());
    assert_eq!(one.value("select count(*) from ledger"), "1");
    assert_eq!(two.value("select count(*) from ledger"), "2");
    assert_eq!(roles(&pooler)[0], (one.port(), "fenced".to_owned()));
}

pub(crate) fn a_silent_primary_is_left_when_another_one_is_promoted(house: &House) {
    let (one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "check_interval=0.5", |ini| ini);
    one.query("create table ledger (who int, number int)");
    await_primary(&pooler, &one);
    let (mut asks, mut late, mut inside) =
        (pooler.client("u", "rw"), pooler.client("u", "rw"), pooler.client("u", "rw"));
    inside.run("begin");
    asks.run("insert into ledger values (1, 1)");
    wait_until("the row is there", LIMIT, || two.value("select to_regclass('ledger') is not null") == "t");
    // As when its machine has lost power: nobody says anything any more, and a connection is neither refused nor answered.
    one.freeze();
    asks.ask("insert into ledger values (1, 2)");
    pooler.await_pool("rw", "sv_active", "2");
    late.ask("insert into ledger values (2, 1)");
    pooler.await_log("cluster main: the primary is lost");
    let since = Instant::now();
    two.promote();
    // A login at the silent host is under way for `server_connect_timeout`, 15 seconds, and is not waited for.
    assert!(late.answer_within(LIMIT).errors.is_empty(), "{}", pooler.log());
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(port(&mut late), two.port());
    let unknown = asks.answer_within(LIMIT);
    assert_eq!((&*unknown.error().code, unknown.status), ("08007", ' '), "{unknown:?}");
    assert_eq!(inside.query("insert into ledger values (3, 1)").error().code, "57P01");
    one.thaw();
}

pub(crate) fn a_silent_replica_is_left_by_those_who_wait_for_it(house: &House) {
    let (one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "check_interval=0.5", |ini| {
        ini.database("ro = cluster=main target_session_attrs=prefer-standby dbname=postgres")
    });
    await_primary(&pooler, &one);
    let (mut asks, mut idle) = (pooler.client("u", "ro"), pooler.client("u", "ro"));
    assert_eq!(port(&mut asks), two.port());
    two.freeze();
    asks.ask("select 1");
    pooler.await_log(&format!("host 127.0.0.1:{} does not answer: nobody reads there", two.port()));
    let lost = asks.answer_within(LIMIT);
    assert_eq!((&*lost.error().code, lost.status), ("08P01", ' '), "{lost:?}");
    // Others, and newcomers, go elsewhere.
    assert_eq!(port(&mut idle), one.port());
    assert_eq!(port(&mut pooler.client("u", "ro")), one.port());
    two.thaw();
}

/// A host that accepts connections and says nothing, before it is known whether it is lost or only slow.
pub(crate) fn reads_begin_elsewhere_while_a_replica_is_late_and_what_runs_there_goes_on(house: &House) {
    let (one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "", |ini| {
        ini.database("ro = cluster=main target_session_attrs=prefer-standby dbname=postgres")
    });
    await_primary(&pooler, &one);
    let mut report = pooler.client("u", "ro");
    report.ask("select inet_server_port() from pg_sleep(1)");
    two.await_running("postgres", "pg_sleep(1)");
    let (mut late, mut open) = (pooler.client("u", "ro"), pooler.client("u", "ro"));
    two.freeze();
    let since = Instant::now();
    // A server is dialed for it there, where nobody answers.
    late.ask("select inet_server_port()");
    let answer = late.answer_within(LIMIT);
    println!("a read went elsewhere {:.2?} after its host had stopped to answer", since.elapsed());
    assert_eq!(answer.value(), one.port().to_string(), "{}", pooler.log());
    assert_eq!(port(&mut open), one.port());
    let clusters = pooler.console("SHOW CLUSTERS");
    let late_rows = (0..clusters.rows.len()).filter(|row| clusters.named(*row)["error"] == "a check is late");
    let late_rows = late_rows.count();
    two.thaw();
    let answer = report.answer_within(LIMIT);
    // On a machine that is busy enough it was given up before it was woken up.
    let was_left = pooler.log().contains("does not answer: nobody reads there");
    assert!(was_left || answer.errors.is_empty() && late_rows == 1, "{answer:?}\n{}", pooler.log());
    pooler.await_log(&format!("cluster main: host 127.0.0.1:{} answers again", two.port()));
    wait_until("the standby is read from again", LIMIT * 2, || port(&mut open) == two.port());
}

pub(crate) fn no_server_stays_at_a_former_primary(house: &House) {
    let (one, two) = pair(house);
    // Its servers are not ready before this is over.
    let slow = "slow = cluster=main dbname=postgres connect_query='select pg_sleep(3)'";
    let joins = |line: &str| format!("joins = {line} dbname=postgres");
    let ports = format!("host=127.0.0.1,127.0.0.1 port={},{}", one.port(), two.port());
    let alone = joins(&format!("{ports} target_session_attrs=read-write"));
    let line = format!("main = hosts=127.0.0.1,127.0.0.1 port={},{} user=u", one.port(), two.port());
    let ini = |joins: &str| Ini::new(slow).database(joins).cluster(&line).set("pool_mode = transaction");
    let pooler = house.start(&ini(&alone));
    await_primary(&pooler, &one);
    let mut joins_later = pooler.client("u", "joins");
    assert_eq!(port(&mut joins_later), one.port());
    let mut waits = pooler.knock();
    waits.send(&message::startup(0, &[("user", "u"), ("database", "slow")]));
    wait_until("the server has logged in", LIMIT, || {
        one.value("select count(*) from pg_stat_activity where query = 'select pg_sleep(3)' and state = 'active'")
            == "1"
    });
    // The former primary goes on as if nothing had happened.
    two.promote();
    await_primary(&pooler, &two);
    let mut late = Client::finish_login(waits, LIMIT).expect("a login");
    assert_eq!(port(&mut late), two.port(), "{}", pooler.log());
    assert_eq!(port(&mut joins_later), one.port(), "a list of hosts knows no cluster");
    pooler.rewrite(&ini(&joins("cluster=main")));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    assert_eq!(port(&mut joins_later), two.port());
}

pub(crate) fn a_hold_ends_by_release_or_by_itself(house: &House) {
    let mut one = Postgres::start(&house.place);
    let line = format!("app = host=127.0.0.1 port={} dbname=postgres", one.port());
    let pooler = house.start(&Ini::new(&line).set("pool_mode = transaction"));
    let (mut client, mut other) = (pooler.client("u", "app"), pooler.client("u", "app"));
    client.run("begin");
    other.run("select 1");
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("HOLD app");
    pooler.await_log("HOLD 'app' command issued");
    pooler.await_pool("app", "sv_active", "1");
    other.ask("select 1");
    pooler.await_pool("app", "cl_waiting", "1");
    client.run("select 1");
    client.run("commit");
    assert_eq!(console.answer_within(LIMIT).tags, ["HOLD"]);
    one.crash();
    one.restart(&house.place);
    assert_eq!(pooler.console("RELEASE app").tags, ["RELEASE"]);
    assert!(other.answer_within(LIMIT).errors.is_empty());
    assert_eq!(pooler.console("RELEASE app").error().text, "database app is not held");
    assert_eq!(pooler.console("HOLD app FOR 1").tags, ["HOLD"]);
    client.ask("select 1");
    assert_eq!(waits_for(&pooler), "held");
    assert_eq!(pooler.console("SUSPEND").error().text, "cannot suspend while clients are held");
    assert!(client.answer_within(LIMIT).errors.is_empty());
    pooler.await_log("the time of HOLD 'app' FOR 1 SECONDS is over, doing RELEASE 'app'");
    assert_eq!(pooler.console("HOLD app FOR 601").error().code, "22023");
    assert_eq!(pooler.console("HOLD").error().text, "a database is required");
    assert_eq!(pooler.console("HOLD nope").error().text, "no such database: nope");
}

pub(crate) fn clusters_that_make_no_sense_are_refused(house: &House) {
    let good = "main = hosts=a,b user=u";
    for (cluster, database, words) in [
        ("main = hosts=a,a user=u", "cluster=main", "host a:5432 is there twice"),
        ("main = hosts=a", "cluster=main", "cluster \"main\" has no user="),
        ("main = host=a user=u", "cluster=main", "unrecognized cluster parameter: host"),
        ("main = hosts=a user=u patroni=a:8008", "cluster=main", "invalid patroni: expected a URL such as"),
        (good, "cluster=mian", "database \"d\": there is no cluster \"mian\""),
        (good, "cluster=main host=a", "cluster= excludes host= and port="),
        (good, "host=a role=replica", "role= needs cluster="),
    ] {
        let ini = Ini::new(&format!("d = {database}")).cluster(cluster);
        let (code, said) = Pooler::start_in_vain(&house.place, &ini);
        assert!(code != 0 && said.contains(words), "{cluster}, {database}: {said}");
    }
}

/// `trunkline switchover` with these arguments.
fn switchover(house: &House, pooler: &Pooler, args: &[&str]) -> Command {
    let mut command = Command::new(house.place.pooler());
    without_preferences(&mut command);
    let console = format!("host=127.0.0.1 port={} user=admin", pooler.port());
    command.arg("switchover").args(args).arg(console);
    command
}

/// Clients that write one row after the other, each in a transaction of its own.
pub(super) struct Writers {
    is_over: Arc<AtomicBool>,
    /// How long one of them has waited for an answer at most, in microseconds.
    longest: Arc<AtomicU64>,
    threads: Vec<JoinHandle<(usize, Vec<String>)>>,
}

impl Writers {
    pub(super) fn start(pooler: &Pooler, count: usize) -> Self {
        let (is_over, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = |who: usize| {
            let (mut client, is_over) = (pooler.client("u", "rw"), Arc::clone(&is_over));
            let longest = Arc::clone(&longest);
            thread::spawn(move || {
                let (mut number, mut failed) = (0, Vec::new());
                while !is_over.load(Ordering::SeqCst) {
                    let since = Instant::now();
                    client.ask(&format!("insert into ledger values ({who}, {number})"));
                    let answer = client.answer_within(Duration::from_secs(60));
                    longest.fetch_max(since.elapsed().as_micros() as u64, Ordering::SeqCst);
                    match answer.errors.first() {
                        None => number += 1,
                        Some(error) => failed.push(format!("{error:?}")),
                    }
                    if answer.status != 'I' {
                        break;
                    }
                }
                (number, failed)
            })
        };
        let threads = (0..count).map(writer).collect();
        Self { is_over, longest, threads }
    }

    /// Waits until each has written this many rows more than any of them has now, at this server.
    pub(super) fn await_all(&self, at: &Postgres, more: u32) {
        let (all, mut watcher) = (self.threads.len().to_string(), at.client("postgres"));
        let most = "select coalesce(max(number), 0) from ledger where who >= 0";
        let wanted = watcher.value(most).parse::<u32>().expect("a number") + more;
        let far = format!("select count(*) from ledger where number = {wanted} and who >= 0");
        wait_until("all writers have written", LIMIT * 3, || watcher.value(&far) == all);
    }

    /// How long one of them has waited for an answer at most since this was asked last.
    pub(super) fn longest_pause(&self) -> Duration {
        Duration::from_micros(self.longest.swap(0, Ordering::SeqCst))
    }

    /// Ends them. Returns how many rows were acknowledged, and all errors.
    pub(super) fn end(self) -> (usize, Vec<String>) {
        self.is_over.store(true, Ordering::SeqCst);
        let mut sums = (0, Vec::new());
        for thread in self.threads {
            let (number, failed) = thread.join().expect("a writer");
            sums.0 += number;
            sums.1.extend(failed);
        }
        sums
    }
}

/// Shuts a primary down, which sends its standby all that it has written, and promotes that.
pub(super) fn hand_over(primary: u32, standby: std::net::SocketAddr) {
    let mut admin = Client::login(standby, "postgres", "postgres");
    kill(Pid::from_raw(primary.cast_signed()), Signal::SIGINT).expect("a postmaster");
    let is_streaming = "select count(*) from pg_stat_wal_receiver where status = 'streaming'";
    wait_until("the primary is down", LIMIT, || admin.value(is_streaming) == "0");
    admin.run("select pg_promote()");
}

/// A pooler with the cluster `main` and the database `rw` on its primary.
pub(super) fn start(house: &House, hosts: &[&Postgres], more: &str, change: impl FnOnce(Ini) -> Ini) -> Pooler {
    let names: Vec<_> = hosts.iter().map(|_| "127.0.0.1".to_owned()).collect();
    let ports: Vec<_> = hosts.iter().map(|postgres| postgres.port().to_string()).collect();
    let line = format!("main = hosts={} port={} user=u {more}", names.join(","), ports.join(","));
    let ini = Ini::new("rw = cluster=main dbname=postgres").cluster(&line).set("pool_mode = transaction");
    house.start(&change(ini))
}

pub(super) fn await_primary(pooler: &Pooler, primary: &Postgres) {
    wait_until("the primary is known", LIMIT, || {
        state(pooler) == "steady" && roles(pooler).contains(&(primary.port(), "primary".to_owned()))
    });
}

pub(super) fn state(pooler: &Pooler) -> String {
    pooler.console("SHOW CLUSTERS").named(0)["state"].clone()
}

/// The roles of the hosts, by their ports.
pub(super) fn roles(pooler: &Pooler) -> Vec<(u16, String)> {
    let clusters = pooler.console("SHOW CLUSTERS");
    let row = |at| {
        let row = clusters.named(at);
        (row["host"].rsplit(':').next().expect("a port").parse().expect("a port"), row["role"].clone())
    };
    (0..clusters.rows.len()).map(row).collect()
}

/// Why the one client that waits does so, once that is shown.
fn waits_for(pooler: &Pooler) -> String {
    tests::wait::wait_for("a client waits", LIMIT, || {
        let pools = pooler.console("SHOW POOLS EXTENDED");
        let waits = (0..pools.rows.len()).map(|at| pools.named(at)).find(|row| row["cl_waiting"] == "1");
        waits.map(|row| row["waits_for"].clone())
    })
}
