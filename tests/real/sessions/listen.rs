//! LISTEN in transaction pooling: one server listens for all clients of a database.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use base::Random;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::client::Client;
use tests::message::{bind, execute, parse, query, read_strings, sync};
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::hostile::bystander::{Bystander, RunQueue};
use crate::house::House;

/// How many servers are in use.
fn kept(pooler: &Pooler) -> usize {
    let servers = pooler.console("show servers");
    (0..servers.rows.len()).filter(|row| servers.named(*row)["state"] == "active").count()
}

/// Waits until no client keeps a server but the session that listens for all.
fn await_moved(house: &House, pooler: &Pooler, database: &str) {
    wait_until("one server is left in use, and listens for all", Duration::from_secs(20), || {
        !listener(house, database).is_empty() && kept(pooler) == 1
    });
}

fn listener(house: &House, database: &str) -> String {
    house.postgres.value(&format!(
        "select coalesce(max(pid::text), '') from pg_stat_activity
         where application_name = 'trunkline listens' and datname = '{database}'"
    ))
}

pub(crate) fn a_thousand_clients_listen_on_one_server(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 3", "max_client_conn = 2000"];
    let pooler = house.pooler("listen_many", &settings);
    let mut clients: Vec<Client> = (0..1000).map(|_| pooler.client("u", "listen_many")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.run(&format!("listen everybody; listen group_{}", number % 7));
    }
    await_moved(house, &pooler, "listen_many");
    let channels = pooler.console("show channels");
    let everybody = (0..channels.rows.len()).map(|row| channels.named(row)).find(|row| row["channel"] == "everybody");
    let everybody = everybody.expect("the channel of everybody");
    assert_eq!((&*everybody["clients"], &*everybody["state"]), ("1000", "shared"));
    let mut direct = house.postgres.client("listen_many");
    direct.run("notify everybody, 'one'; notify everybody, 'two'; notify everybody, 'one'; notify group_3, 'three'");
    for (number, client) in clients.iter_mut().enumerate() {
        let mut expected = vec!["everybody one", "everybody two"];
        expected.extend((number % 7 == 3).then_some("group_3 three"));
        assert_eq!(client.heard(expected.len()), expected);
    }
    // Every client gets a server as before.
    clients.iter_mut().take(20).for_each(|client| assert_eq!(client.value("select 1"), "1"));
}

pub(crate) fn notifications_come_as_on_a_direct_connection(house: &House) {
    let pooler = house.pooler("listen_rules", &["pool_mode = transaction", "default_pool_size = 2"]);
    let mut direct = house.postgres.client("listen_rules");
    direct.run(
        "create function hark(text) returns void language plpgsql as $$ begin execute format('listen %I', $1); end $$",
    );
    let mut one = pooler.client("u", "listen_rules");
    let mut two = pooler.client("u", "listen_rules");
    // In all forms of the statement.
    for (number, sql) in ["listen c0", "begin; listen c1; commit", "select hark('c2')", "LISTEN \"C3 \"\"x\"\"\""]
        .into_iter()
        .enumerate()
    {
        one.run(sql);
        let channel = if number == 3 { "\"C3 \"\"x\"\"\"".to_owned() } else { format!("c{number}") };
        direct.run(&format!("notify {channel}, 'before'"));
        assert_eq!(one.heard(1)[0].split(' ').next_back(), Some("before"), "{sql}");
        await_moved(house, &pooler, "listen_rules");
        direct.run(&format!("notify {channel}, 'after'"));
        assert_eq!(one.heard(1)[0].split(' ').next_back(), Some("after"), "{sql}");
    }
    one.peer.send(&[parse("s", "listen c4"), bind("", "s", &[]), execute("", 0), sync()].concat());
    assert!(one.answer().errors.is_empty());
    await_moved(house, &pooler, "listen_rules");
    // Its own notifications and those of others, in the order of their commits; none within a transaction.
    two.run("listen c4");
    await_moved(house, &pooler, "listen_rules");
    one.run("begin; notify c4, 'mine'");
    direct.run("notify c4, 'first'");
    assert_eq!(two.heard(1), ["c4 first"]);
    assert_eq!(one.value("select 1"), "1");
    one.run("commit");
    assert_eq!(one.heard(2), ["c4 first", "c4 mine"]);
    assert_eq!(two.heard(1), ["c4 mine"]);
    // A LISTEN or UNLISTEN that is rolled back has no effect.
    two.run("begin; unlisten c4; rollback");
    two.run("begin; listen c5; rollback");
    direct.run("notify c5, 'nobody'; notify c4, 'still'");
    assert_eq!(two.heard(1), ["c4 still"]);
    assert_eq!(one.heard(1), ["c4 still"]);
    assert_eq!(two.query("select 1/0").errors.len(), 1);
    two.run("unlisten c4");
    one.run("unlisten *; listen c0");
    await_moved(house, &pooler, "listen_rules");
    direct.run("notify c4, 'nobody'; notify c0, 'one'");
    assert_eq!(one.heard(1), ["c0 one"]);
    one.run("discard all");
    two.run("listen c0");
    await_moved(house, &pooler, "listen_rules");
    direct.run("notify c0, 'two'");
    assert_eq!(two.heard(1), ["c0 two"]);
    direct.run("notify c4, 'nobody'; notify c0, 'two again'");
    assert_eq!(two.heard(1), ["c0 two again"]);
    assert_eq!(one.query("select 1").errors.len(), 0);
    drop(two);
    wait_until("nobody listens any more", Duration::from_secs(10), || kept(&pooler) == 0);
}

pub(crate) fn who_may_have_missed_something_is_told(house: &House) {
    for (way, database) in [("disconnect", "listen_gone"), ("notice", "listen_noted"), ("notify", "listen_told")] {
        let way_set = format!("notify_lost = {way}");
        let settings = ["pool_mode = transaction", "default_pool_size = 2", &way_set, "notify_queue_size = 1000"];
        let pooler = house.pooler(database, &settings);
        let mut client = pooler.client("u", database);
        let mut direct = house.postgres.client(database);
        client.run("listen news");
        await_moved(house, &pooler, database);
        let is_told = |client: &mut Client| match way {
            "disconnect" => {
                let answer = client.answer();
                assert_eq!(
                    (&*answer.error().code, &*answer.error().text),
                    ("08006", "notifications may have been lost")
                );
                *client = pooler.client("u", database);
                client.run("listen news");
                await_moved(house, &pooler, database);
            }
            "notice" => {
                let frame = client.peer.frame_within(Duration::from_secs(10)).expect("a notice");
                assert_eq!(frame.tag, b'N', "{frame:?}");
            }
            _ => assert_eq!(client.heard(1), ["trunkline_lost "]),
        };
        let pid = listener(house, database);
        direct.run(&format!("select pg_terminate_backend({pid})"));
        is_told(&mut client);
        wait_until("another one listens", Duration::from_secs(10), || {
            let now = listener(house, database);
            !now.is_empty() && now != pid
        });
        direct.run("notify news, 'again'");
        assert_eq!(client.heard(1), ["news again"]);
        // More than are kept for a client in a transaction.
        client.run("begin");
        direct.run("select pg_notify('news', repeat('x', 90) || i) from generate_series(1, 50) i");
        pooler.await_log("more notifications wait for it than notify_queue_size allows");
        if way == "disconnect" {
            is_told(&mut client);
        } else {
            client.run("commit");
            is_told(&mut client);
        }
        direct.run("notify news, 'well'");
        while client.heard(1)[0] != "news well" {}
    }
}

/// Previously all channels of all clients were processed in one turn when the session for all ended, while all other clients
/// of the worker waited; and later notifications of one channel came before the notice of the loss, which waited for the
/// last channel.
pub(crate) fn many_who_have_lost_something_are_told_in_many_turns(house: &House) {
    house.postgres.database("listen_beside_crowd");
    for (way, database, listeners, channels) in
        [("disconnect", "listen_crowd_gone", 400, 800), ("notice", "listen_crowd_noted", 200, 300)]
    {
        let all: String = (0..channels).map(|number| format!("listen c{number:04};")).collect();
        let ini = house.ini(database, &["pool_mode = transaction", "workers = 1", "max_client_conn = 1000"]);
        let ini = ini.database(&house.line("listen_beside_crowd")).set(&format!("notify_lost = {way}"));
        let pooler = house.start(&ini);
        let mut clients: Vec<Client> = (0..listeners).map(|_| pooler.client("u", database)).collect();
        for client in &mut clients {
            client.run(&all);
        }
        await_moved(house, &pooler, database);
        let bystander =
            Bystander::begin(pooler.address(), "u", "listen_beside_crowd", RunQueue::of(pooler.pid(), "worker"));
        let mut direct = house.postgres.client(database);
        let pid = listener(house, database);
        direct.run(&format!("select pg_terminate_backend({pid})"));
        if way == "notice" {
            // The first channel is listened to again, the others not yet.
            wait_until("another one listens", LIMIT, || {
                let channels = pooler.console("show channels");
                let mut shared = (0..channels.rows.len()).map(|row| channels.named(row)["state"] == "shared");
                shared.next() == Some(true) && listener(house, database) != pid
            });
            (0..10).for_each(|number| direct.run(&format!("notify c0000, '{number}'")));
        }
        for client in &mut clients {
            let frame = client.peer.frame_within(LIMIT).expect("it is told");
            assert_eq!(char::from(frame.tag), if way == "notice" { 'N' } else { 'E' }, "{way}: {frame:?}");
        }
        if way == "notice" {
            direct.run("notify c0000, 'last'");
            for client in &mut clients {
                while client.heard(1)[0] != "c0000 last" {}
            }
        }
        let seen = bystander.end();
        assert!(!seen.is_lost && seen.longest < TURNS_MAX, "{way}: the bystander waited {:?}", seen.longest);
    }
}

/// Previously all that the session for all received in one piece was passed on in one turn, to all who listened.
pub(crate) fn a_burst_for_many_is_told_in_many_turns(house: &House) {
    house.postgres.database("listen_beside_burst");
    let database = "listen_burst_for_many";
    let ini = house.ini(database, &["pool_mode = transaction", "workers = 1", "max_client_conn = 1000"]);
    let pooler = house.start(&ini.database(&house.line("listen_beside_burst")));
    let mut clients: Vec<Client> = (0..400).map(|_| pooler.client("u", database)).collect();
    clients.iter_mut().for_each(|client| client.run("listen c"));
    await_moved(house, &pooler, database);
    let bystander =
        Bystander::begin(pooler.address(), "u", "listen_beside_burst", RunQueue::of(pooler.pid(), "worker"));
    let mut direct = house.postgres.client(database);
    let told: Vec<String> = (0..1000).map(|number| format!("c {number}")).collect();
    direct.run("select pg_notify('c', n::text) from generate_series(0, 999) n");
    for client in &mut clients {
        assert_eq!(client.heard(told.len()), told);
    }
    let seen = bystander.end();
    assert!(!seen.is_lost && seen.longest < TURNS_MAX, "the bystander waited {:?}", seen.longest);
}

/// More clients than one turn notifies: later notifications wait until the last client has got this one, and none is sent
/// twice when clients connect or leave meanwhile.
// Alone.
pub(crate) fn one_notification_for_very_many_is_told_in_order(house: &House) {
    let database = "listen_very_many";
    let pooler = house.pooler(database, &["pool_mode = transaction", "workers = 1", "max_client_conn = 5000"]);
    let mut clients = vec![pooler.client("u", database)];
    clients[0].run("listen c");
    await_moved(house, &pooler, database);
    clients.extend((0..4_200).map(|_| pooler.client("u", database)));
    clients.iter_mut().skip(1).for_each(|client| client.ask("listen c"));
    clients.iter_mut().skip(1).for_each(|client| assert!(client.answer().errors.is_empty()));
    let mut direct = house.postgres.client(database);
    direct.run("notify c, 'one'; notify c, 'two'");
    direct.run("notify c, 'three'");
    // The clients at the end of the list leave and reconnect.
    let first = clients.len() - 20;
    for client in &mut clients[first..] {
        client.ask("unlisten c");
        client.ask("listen c");
    }
    for client in &mut clients[first..] {
        assert!(client.answer().errors.is_empty() && client.answer().errors.is_empty());
    }
    direct.run("notify c, 'four'");
    for client in &mut clients[..first] {
        assert_eq!(client.heard(4), ["c one", "c two", "c three", "c four"]);
    }
    for client in &mut clients[first..] {
        let mut heard = client.heard(1);
        while heard.last().expect("one at least") != "c four" {
            heard.extend(client.heard(1));
        }
        let before = ["c one", "c two", "c three"];
        assert!(before[..heard.len() - 1] == heard[..heard.len() - 1], "{heard:?}");
    }
    clients.iter_mut().for_each(|client| client.ask("select 1"));
    for client in &mut clients {
        assert_eq!((client.answer().value(), client.has_heard().len()), ("1".to_owned(), 0));
    }
}

/// Longer than a turn in a debug build on a busy machine, and less than a turn in which all of them were notified.
const TURNS_MAX: Duration = Duration::from_millis(250);

pub(crate) fn where_nobody_may_listen_for_all_each_keeps_its_server(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 3", "session_policy = listen=pin"];
    let pooler = house.pooler("listen_pinned", &settings);
    let (mut one, mut two) = (pooler.client("u", "listen_pinned"), pooler.client("u", "listen_pinned"));
    one.run("listen news");
    two.run("listen news");
    pooler.await_log("keeps its server: LISTEN news");
    wait_until("both keep a server", Duration::from_secs(10), || kept(&pooler) == 2);
    house.postgres.client("listen_pinned").run("notify news, 'x'");
    assert_eq!((one.heard(1), two.heard(1)), (vec!["news x".to_owned()], vec!["news x".to_owned()]));
    // Nor where there may be only one server, which could do nothing else then.
    let settings = ["pool_mode = transaction", "max_db_connections = 1"];
    let pooler = house.pooler("listen_alone", &settings);
    let mut client = pooler.client("u", "listen_alone");
    client.run("listen news");
    assert_eq!(client.value("select 1"), "1");
    house.postgres.client("listen_alone").run("notify news, 'y'");
    assert_eq!(client.heard(1), ["news y"]);
    client.run("unlisten news");
    assert_eq!(pooler.client("u", "listen_alone").value("select 1"), "1");
}

/// More at once than may wait for one client: the session for all waits for a client that reads, and a single notification
/// may be longer than the limit.
pub(crate) fn a_burst_is_told_whole_to_who_reads(house: &House) {
    let pooler = house.pooler("listen_burst", &["pool_mode = transaction", "notify_queue_size = 400000"]);
    let mut client = pooler.client("u", "listen_burst");
    client.run("listen news");
    await_moved(house, &pooler, "listen_burst");
    let mut direct = house.postgres.client("listen_burst");
    direct.run("select pg_notify('news', i || repeat('x', 7900)) from generate_series(1, 2000) i");
    let heard = client.heard(2000);
    assert!(heard.iter().zip(1..).all(|(text, number)| text.starts_with(&format!("news {number}x"))));
    let pooler = house.pooler("listen_long", &["pool_mode = transaction", "notify_queue_size = 1000"]);
    let mut client = pooler.client("u", "listen_long");
    client.run("listen news");
    await_moved(house, &pooler, "listen_long");
    house.postgres.client("listen_long").run("select pg_notify('news', repeat('x', 7900))");
    assert_eq!(client.heard(1)[0].len(), "news ".len() + 7900);
}

/// The client reads all the time, and is behind again and again, in total for longer than a single wait may last.
pub(crate) fn who_reads_is_waited_for_as_often_as_it_is_behind(house: &House) {
    let pooler = house.pooler("listen_long_burst", &["pool_mode = transaction", "notify_queue_size = 400000"]);
    let mut client = pooler.client("u", "listen_long_burst");
    client.run("listen news");
    await_moved(house, &pooler, "listen_long_burst");
    let mut direct = house.postgres.client("listen_long_burst");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        direct.run("select pg_notify('news', i || repeat('x', 7900)) from generate_series(1, 1000) i");
        assert_eq!(client.heard(1000).len(), 1000);
    }
}

/// A client that does not read delays the others for a moment, and then loses what exceeds its limit; all others receive
/// everything.
pub(crate) fn who_does_not_read_keeps_nobody_from_hearing(house: &House) {
    let pooler = house.pooler("listen_stuck", &["pool_mode = transaction"]);
    let (mut stuck, mut other) = (pooler.client("u", "listen_stuck"), pooler.client("u", "listen_stuck"));
    stuck.run("listen news");
    other.run("listen news");
    await_moved(house, &pooler, "listen_stuck");
    let mut direct = house.postgres.client("listen_stuck");
    direct.run("select pg_notify('news', i || repeat('x', 7900)) from generate_series(1, 4000) i");
    assert_eq!(other.heard(4000).len(), 4000);
    pooler.await_log("more notifications wait for it than notify_queue_size allows");
}

/// A reload leaves only one server, which must not be used for listening.
pub(crate) fn a_reload_that_leaves_one_server_ends_the_session_for_all(house: &House) {
    let ini = house.ini("listen_less", &["pool_mode = transaction", "default_pool_size = 3"]);
    let pooler = house.start(&ini);
    let (mut one, mut two) = (pooler.client("u", "listen_less"), pooler.client("u", "listen_less"));
    one.run("listen news");
    await_moved(house, &pooler, "listen_less");
    pooler.rewrite(&ini.set("max_db_connections = 1"));
    pooler.console("RELOAD");
    assert_eq!(two.value("select 1"), "1");
    assert_eq!(one.answer().errors.last().expect("an error").text, "notifications may have been lost");
    let mut again = pooler.client("u", "listen_less");
    again.run("listen news");
    house.postgres.client("listen_less").run("notify news, 'x'");
    assert_eq!(again.heard(1), ["news x"]);
}

/// Previously each channel had its own line in the log and its own letter, all in one turn.
pub(crate) fn a_reload_that_ends_many_channels_says_so_once(house: &House) {
    let ini = house.ini("listen_less_of_many", &["pool_mode = transaction", "default_pool_size = 3", "workers = 1"]);
    let pooler = house.start(&ini);
    let mut clients: Vec<Client> = (0..3).map(|_| pooler.client("u", "listen_less_of_many")).collect();
    let all: String = (0..300).map(|number| format!("listen c{number:04};")).collect();
    for client in &mut clients {
        client.run(&all);
    }
    await_moved(house, &pooler, "listen_less_of_many");
    pooler.rewrite(&ini.clone().set("max_db_connections = 1"));
    pooler.console("RELOAD");
    for client in &mut clients {
        assert_eq!(client.answer().errors.last().expect("an error").text, "notifications may have been lost");
    }
    let text = "nobody can listen for all clients of listen_less_of_many, they keep their servers: \
                they may have one server only (300 channels)";
    pooler.await_log(text);
    assert_eq!(pooler.log().matches("nobody can listen for all clients").count(), 1);
    // They are listened to again when a session may listen for all.
    pooler.rewrite(&ini);
    pooler.console("RELOAD");
    let (mut again, mut other) = (pooler.client("u", "listen_less_of_many"), pooler.client("u", "listen_less_of_many"));
    again.run("listen c0007");
    other.run("listen c0299; listen c0007");
    await_moved(house, &pooler, "listen_less_of_many");
    house.postgres.client("listen_less_of_many").run("notify c0007, 'x'");
    assert_eq!((again.heard(1), other.heard(1)), (vec!["c0007 x".to_owned()], vec!["c0007 x".to_owned()]));
    assert_eq!(pooler.console("show channels").rows.len(), 2);
}

/// The session for all does not count among the servers of its pool, however few these are and whatever keeps them.
pub(crate) fn who_listens_for_all_takes_no_server_from_the_pool(house: &House) {
    let pooler = house.pooler("listen_beside", &["pool_mode = transaction", "default_pool_size = 1"]);
    let (mut one, mut two) = (pooler.client("u", "listen_beside"), pooler.client("u", "listen_beside"));
    one.run("listen news");
    assert_eq!(two.value("select 1"), "1");
    let pid = listener(house, "listen_beside");
    one.run("begin");
    assert_ne!(one.server_pid(), pid);
    house.postgres.client("listen_beside").run("notify news, 'in a transaction'");
    assert_eq!(one.value("select 2"), "2");
    one.run("commit");
    assert_eq!(one.heard(1), ["news in a transaction"]);
    // When no client listens any more, the server belongs to the pool again, which then has one too many.
    one.run("unlisten news");
    wait_until("one server is left", Duration::from_secs(10), || pooler.console("show servers").rows.len() == 1);
    assert_eq!(two.value("select 3"), "3");
}

/// Clients begin to listen, are notified at once, and leave, many times: each notification is sent once, and none after a
/// client has left.
pub(crate) fn nothing_is_lost_or_told_twice_while_one_server_takes_over(house: &House) {
    let pooler = house.pooler("listen_races", &["pool_mode = transaction", "default_pool_size = 12"]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let pooler = &pooler;
            scope.spawn(move || {
                let mut random = Random::new(number);
                let mut listener = pooler.client("u", "listen_races");
                let mut notifier = pooler.client("u", "listen_races");
                for round in 0..60 {
                    let channel = format!("c{number}_{round}");
                    listener.run(&format!("listen {channel}"));
                    let mut expected = Vec::new();
                    for payload in 0..3 {
                        // So that the notification meets any step of the move.
                        std::thread::sleep(Duration::from_micros(random.below(4) * random.below(1500)));
                        notifier.run(&format!("notify {channel}, '{payload}'"));
                        expected.push(format!("{channel} {payload}"));
                        if random.below(3) == 0 {
                            listener.run("select 1");
                        }
                    }
                    assert_eq!(listener.heard(3), expected);
                    listener.run(&format!("unlisten {channel}"));
                    notifier.run(&format!("notify {channel}, 'late'"));
                    listener.run("select 1");
                    assert!(listener.has_heard().is_empty(), "{channel}");
                }
                // A duplicate would have arrived before this.
                listener.run("listen last");
                notifier.run(&format!("notify last, '{number}'"));
                let own = format!("last {number}");
                let mut heard = listener.heard(1);
                while heard[0] != own {
                    assert!(heard[0].starts_with("last "), "{heard:?}");
                    heard = listener.heard(1);
                }
            });
        }
    });
}

/// A client receives its own notification before the end of its transaction (`ReadyForQuery`), however it has notified.
pub(crate) fn who_notifies_is_told_before_its_transaction_has_ended(house: &House) {
    if house.is_older_than(11, "CREATE PROCEDURE") {
        return;
    }
    let pooler = house.pooler("listen_own", &["pool_mode = transaction", "default_pool_size = 2"]);
    house.postgres.client("listen_own").run(
        "create table t (a text); create table quiet (a text); create table ruled (a text);
         create function tell() returns trigger language plpgsql as
             $$ begin perform pg_notify('news', new.a); return new; end $$;
         create trigger tells after insert on t for each row execute procedure tell();
         create constraint trigger tells_late after update on t deferrable initially deferred
             for each row execute procedure tell();
         create rule rule as on insert to ruled do also notify news, 'x';
         create function write(text) returns void language sql as $$ insert into t values ($1) $$;
         create procedure write_twice(text) language plpgsql as
             $$ begin insert into t values ($1); commit; insert into quiet values ($1); end $$",
    );
    let mut one = pooler.client("u", "listen_own");
    let mut two = pooler.client("u", "listen_own");
    one.run("listen news");
    await_moved(house, &pooler, "listen_own");
    for (sql, rounds) in [
        ("notify news, 'x'", 200),
        ("select pg_notify('news', 'x')", 200),
        ("insert into t values ('x')", 200),
        ("select 1; notify news, 'x'; select 2", 20),
        ("select write('x')", 20),
        ("call write_twice('x')", 20),
        ("do $$ begin notify news, 'x'; end $$", 20),
        ("insert into ruled values ('x')", 20),
        ("begin; notify news, 'x'; commit", 20),
        ("prepare p as select pg_notify('news', 'x'); execute p; deallocate p", 5),
        ("update t set a = 'x' where ctid = (select min(ctid) from t)", 20),
    ] {
        for round in 0..rounds {
            one.run(sql);
            assert_eq!(one.has_heard(), ["news x"], "{sql}, round {round}");
        }
    }
    // In a transaction it is received at the end.
    for round in 0..200 {
        one.run("begin");
        one.run(if round % 2 == 0 { "notify news, 'x'" } else { "insert into t values ('x')" });
        one.run("select 1");
        assert!(one.has_heard().is_empty());
        one.run("commit");
        assert_eq!(one.has_heard(), ["news x"], "round {round}");
    }
    one.run("begin; notify news, 'x'");
    one.run("rollback");
    assert!(one.has_heard().is_empty());
    // The extended protocol, prepared and not.
    let tell = |statement: &str| [bind("", statement, &["x"]), execute("", 0), sync()].concat();
    one.peer
        .send(&[parse("tell", "select pg_notify('news', $1)"), parse("write", "insert into t values ($1)")].concat());
    for round in 0..200 {
        let unnamed = [parse("", "select pg_notify('news', $1)"), tell("")].concat();
        one.peer.send(&[unnamed, tell("tell"), tell("write")][round % 3]);
        assert!(one.answer().errors.is_empty());
        assert_eq!(one.has_heard(), ["news x"], "round {round}");
    }
    // The same for several transactions in one packet: the notification never comes after the end of its transaction. It may
    // come earlier.
    let notify = |text: &str| query(&format!("notify news, '{text}'"));
    one.peer
        .send(&[notify("1"), query("select 1"), notify("2"), tell("tell"), query("select 2"), notify("3")].concat());
    let all = ["news 1", "news 2", "news x", "news 3"];
    let mut heard = Vec::new();
    for count in [1, 1, 2, 3, 3, 4] {
        assert!(one.answer().errors.is_empty());
        heard.extend(one.has_heard());
        assert!(heard.len() >= count && heard == all[..heard.len()], "{heard:?}, not the first {count}");
    }
    // The process ID in the notification is that of the transaction's backend.
    one.run("begin");
    let pid: u32 = one.server_pid().parse().expect("a number");
    one.run("notify news, 'x'");
    one.ask("commit");
    let frames: Vec<_> = (0..3).map(|_| one.peer.frame_within(LIMIT).expect("an answer")).collect();
    assert_eq!(frames.iter().map(|frame| char::from(frame.tag)).collect::<String>(), "CAZ");
    assert_eq!(frames[1].body[..4], pid.to_be_bytes());
    assert_eq!(read_strings(&frames[1].body[4..], 2).0, ["news", "x"]);
    // Notifications of another client that does not listen itself.
    for _ in 0..20 {
        two.run("notify news, 'of another'");
        assert!(two.has_heard().is_empty());
        assert_eq!(one.heard(1), ["news of another"]);
    }
    // Many clients that notify and listen at the same time.
    std::thread::scope(|scope| {
        for number in 0..8 {
            let pooler = &pooler;
            scope.spawn(move || {
                let mut client = pooler.client("u", "listen_own");
                client.run("listen many");
                for round in 0..100 {
                    client.run(&format!("notify many, '{number} {round}'"));
                    let own = format!("many {number} {round}");
                    // Until the session for all listens to the channel, the client keeps its server, which delivers the
                    // notification.
                    assert!(client.has_heard().contains(&own), "{own}");
                }
            });
        }
    });
}

/// The pooler waits once for a session for all that does not answer, and only clients that listen or notify are delayed.
pub(crate) fn who_notifies_does_not_wait_long_for_a_listener_that_hangs(house: &House) {
    let pooler = house.pooler("listen_hangs", &["pool_mode = transaction", "default_pool_size = 3"]);
    let (mut one, mut two) = (pooler.client("u", "listen_hangs"), pooler.client("u", "listen_hangs"));
    one.run("listen news");
    await_moved(house, &pooler, "listen_hangs");
    one.run("notify news, 'x'");
    assert_eq!(one.has_heard(), ["news x"]);
    let listener = Pid::from_raw(listener(house, "listen_hangs").parse().expect("a number"));
    kill(listener, Signal::SIGSTOP).expect("it is there");
    let begun = Instant::now();
    two.run("notify news, 'of another'");
    one.run("select 1");
    assert!(begun.elapsed() < WAITED, "neither has anything to wait for");
    // The second one, and a transaction after it, do not wait.
    for text in ["first", "second"] {
        one.run(&format!("notify news, '{text}'"));
        assert!(one.has_heard().is_empty());
    }
    one.peer.send(&[query("notify news, 'third'"), query("select 7")].concat());
    assert!(one.answer().errors.is_empty());
    assert_eq!(one.answer().value(), "7");
    let took = begun.elapsed();
    assert!(took > WAITED && took < WAITED * 10, "{took:?}");
    // Many answers that arrive at once must not be processed recursively.
    let many = [query("notify news, 'fourth'"), sync().repeat(1000)].concat();
    one.peer.send(&many);
    for _ in 0..1001 {
        assert!(one.answer_within(LIMIT).errors.is_empty());
    }
    kill(listener, Signal::SIGCONT).expect("it is there");
    assert_eq!(one.heard(5), ["news of another", "news first", "news second", "news third", "news fourth"]);
    wait_until("it is waited for again", LIMIT, || {
        one.run("notify news, 'again'");
        let is_so = one.has_heard() == ["news again"];
        if !is_so {
            assert_eq!(one.heard(1), ["news again"]);
        }
        is_so
    });
    // A client that leaves while it waits needs no answer; its server goes back to the pool.
    kill(listener, Signal::SIGSTOP).expect("it is there");
    let mut three = pooler.client("u", "listen_hangs");
    let pid = two.server_pid();
    one.ask("notify news, 'and away'");
    drop(one);
    assert!(!pid.is_empty());
    wait_until("the servers are free", LIMIT, || kept(&pooler) == 1);
    assert_eq!(three.value("select 3"), "3");
    kill(listener, Signal::SIGCONT).expect("it is there");
}

/// How long the pooler waits for a session for all.
const WAITED: Duration = Duration::from_secs(1);

/// A client that listens to a channel of the session for all needs no server for that, and receives what is committed from
/// then on: nothing from before.
pub(crate) fn who_listens_to_what_all_listen_to_needs_no_server(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1"];
    let pooler = house.pooler("listen_joined", &settings);
    let mut first = pooler.client("u", "listen_joined");
    first.run("listen news; listen \"Other\"");
    await_moved(house, &pooler, "listen_joined");
    // A server that becomes the session for all listens already, but is sent LISTEN all the same: until then no client
    // joins.
    wait_until("both channels are listened to for all", Duration::from_secs(20), || {
        let channels = pooler.console("show channels");
        channels.rows.len() == 2 && (0..2).all(|row| channels.named(row)["state"] == "shared")
    });
    let mut direct = house.postgres.client("listen_joined");
    let mut busy = pooler.client("u", "listen_joined");
    busy.run("begin");
    busy.run("notify news, 'not committed before'");
    // The only server is in a transaction.
    let mut joined: Vec<Client> = (0..3).map(|_| pooler.client("u", "listen_joined")).collect();
    direct.run("notify news, 'before'; notify \"Other\", 'before'");
    joined[0].run("LISTEN news; listen \"Other\"");
    joined[1].run("DO $$BEGIN LISTEN \"news\";LISTEN \"Other\"; END$$");
    joined[2].peer.send(&[query("listen news"), query("listen \"Other\""), query("select 5")].concat());
    assert!(joined[2].answer().errors.is_empty());
    assert!(joined[2].answer().errors.is_empty());
    direct.run("notify \"Other\", 'behind'");
    busy.run("commit");
    assert_eq!(joined[2].answer().value(), "5");
    for client in &mut joined {
        assert_eq!(client.heard(2), ["Other behind", "news not committed before"]);
    }
    // It can stop listening like any client, and a channel that is not listened to yet takes a server.
    joined[0].run("unlisten news");
    joined[0].run("listen fresh");
    direct.run("notify news, 'left'; notify fresh, 'own'");
    assert_eq!(joined[0].heard(1), ["fresh own"]);
    assert_eq!(joined[1].heard(1), ["news left"]);
    // The pooler waits once for a session for all that does not answer: then a server of the pool executes the LISTEN.
    await_moved(house, &pooler, "listen_joined");
    let all = Pid::from_raw(listener(house, "listen_joined").parse().expect("a number"));
    kill(all, Signal::SIGSTOP).expect("it is there");
    let begun = Instant::now();
    let mut late = pooler.client("u", "listen_joined");
    late.run("listen news");
    assert!(begun.elapsed() > WAITED && begun.elapsed() < WAITED * 10);
    direct.run("notify news, 'late'");
    kill(all, Signal::SIGCONT).expect("it is there");
    assert_eq!(late.heard(1), ["news late"]);
    assert_eq!(joined[1].heard(1), ["news late"]);
}

/// Clients begin to listen while others notify: each receives everything that is committed after the answer to its LISTEN,
/// in order, and nothing that was committed before the LISTEN was sent.
pub(crate) fn who_joins_hears_what_is_committed_from_then_on(house: &House) {
    let pooler = house.pooler("listen_joins", &["pool_mode = transaction", "default_pool_size = 4"]);
    let mut first = pooler.client("u", "listen_joins");
    first.run("listen news");
    await_moved(house, &pooler, "listen_joins");
    let (begun, ended, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut notifier = house.postgres.client("listen_joins");
            for number in 1.. {
                begun.store(number, SeqCst);
                notifier.run(&format!("notify news, '{number}'"));
                ended.store(number, SeqCst);
                if is_over.load(SeqCst) {
                    return;
                }
            }
        });
        for _ in 0..200 {
            let mut client = pooler.client("u", "listen_joins");
            let before = ended.load(SeqCst);
            client.run("listen news");
            let after = begun.load(SeqCst);
            let heard: Vec<u64> = client.heard(3).iter().map(|news| news[5..].parse().expect("a number")).collect();
            assert!(heard[0] > before, "{heard:?} was committed before {before}");
            assert!(heard[0] <= after + 1, "{heard:?} begins behind {after}");
            assert!(heard.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{heard:?}");
        }
        is_over.store(true, SeqCst);
    });
}
