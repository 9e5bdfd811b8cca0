//! Clients, servers and whole PostgreSQL instances that vanish or refuse.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Stdio};
use std::time::Duration;

use tests::client::Client;
use tests::message::{self, Complaint};
use tests::peer::Peer;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::program::psql;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

/// PostgreSQL 18 fails with messages after a `Query` or a `FunctionCall` in a batch (`StartTransactionCommand: unexpected
/// state STARTED`).
pub(crate) fn a_server_that_was_told_a_function_call_in_a_batch_is_nobody_elses(house: &House) {
    let pooler = house.pooler("loss_function", &["pool_mode = transaction", "default_pool_size = 1"]);
    let (mut one, mut two) = (pooler.client("u", "loss_function"), pooler.client("u", "loss_function"));
    let pid = two.server_pid();
    // int4pl(40, 2), whose OID is 177.
    let call = [&177_u32.to_be_bytes()[..], b"\0\0\0\x02\0\0\0\x0240\0\0\0\x012\0\0"].concat();
    let batch = [message::parse("", "select 1"), message::bind("", "", &[]), message::execute("", 0)].concat();
    one.peer.send(&[&batch[..], &message::frame(b'F', &call), &message::sync()].concat());
    for _ in ["the function", "the Sync"] {
        assert!(one.answer().errors.is_empty());
    }
    assert_ne!(two.server_pid(), pid, "the same server");
    let pid = two.server_pid();
    one.peer.send(&[&batch[..], &message::query("select 2"), &message::sync()].concat());
    for _ in ["the query", "the Sync"] {
        assert!(one.answer().errors.is_empty());
    }
    assert_ne!(two.server_pid(), pid, "the same server");
    let pid = two.server_pid();
    one.peer.send(&[&batch[..], &message::sync(), &message::frame(b'F', &call)].concat());
    for _ in ["the batch", "the function"] {
        assert!(one.answer().errors.is_empty());
    }
    assert_eq!(two.server_pid(), pid, "a batch of its own is nothing special");
    // It is not lent to another client either when its client had it exclusively and leaves.
    let pooler =
        house.pooler("loss_function_alone", &["pool_mode = session", "default_pool_size = 1", "server_reset_query ="]);
    let mut one = pooler.client("u", "loss_function_alone");
    let pid = one.server_pid();
    one.peer.send(&[&batch[..], &message::frame(b'F', &call), &message::sync()].concat());
    for _ in ["the function", "the Sync"] {
        assert!(one.answer().errors.is_empty());
    }
    drop(one);
    assert_ne!(pooler.client("u", "loss_function_alone").server_pid(), pid, "the same server");
}

pub(crate) fn a_server_terminated_while_idle_is_not_noticed_by_clients(house: &House) {
    let pooler = house.pooler("loss_idle", &[]);
    let mut client = pooler.client("u", "loss_idle");
    let pid = client.server_pid();
    // The server is not idle before its state probe has been answered.
    pooler.await_pool("loss_idle", "sv_idle", "1");
    terminate(house, &pid);
    pooler.await_pool("loss_idle", "sv_idle", "0");
    assert_ne!(client.server_pid(), pid);
}

pub(crate) fn a_server_terminated_in_a_transaction_ends_its_client(house: &House) {
    let pooler = house.pooler("loss_transaction", &[]);
    let mut client = pooler.client("u", "loss_transaction");
    client.run("begin");
    let pid = client.server_pid();
    terminate(house, &pid);
    let error = client.answer().errors.first().cloned().expect("an error");
    assert!(["57P01", "08P01"].contains(&error.code.as_str()), "{error:?}");
    assert!(client.peer.is_closed_within(LIMIT));
    pooler.client("u", "loss_transaction").run("select 1");
}

pub(crate) fn a_server_terminated_while_running_ends_its_client_with_its_words(house: &House) {
    let pooler = house.pooler("loss_running", &[]);
    let mut client = pooler.client("u", "loss_running");
    client.ask("select pg_sleep(60)");
    let pid = house.postgres.await_running("loss_running", "pg_sleep");
    terminate(house, &pid);
    let answer = client.answer();
    assert_eq!(answer.errors.first().expect("an error").code, "57P01", "{answer:?}");
    assert!(client.peer.is_closed_within(LIMIT));
    pooler.client("u", "loss_running").run("select 1");
}

/// As on a direct connection; the query was cancelled.
pub(crate) fn what_stands_before_a_terminate_is_run_and_answered(house: &House) {
    let database = "loss_terminate";
    let pooler = house.pooler(database, &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut direct = house.postgres.client(database);
    direct.run("create table told (who text)");
    let insert = |who: &str| format!("insert into told select '{who}' from pg_sleep(0.2)");
    let executed = |sql: &str| [message::parse("", sql), message::bind("", "", &[]), message::execute("", 0)].concat();
    let rest = |client: &mut Client| {
        client.peer.send(&message::terminate());
        let mut said = Vec::new();
        while let Ok(frame) = client.peer.frame() {
            let text = if frame.tag == b'E' { Complaint::read(&frame).code } else { String::new() };
            said.push((char::from(frame.tag), text));
        }
        said
    };
    let both = || [pooler.address(), house.postgres.address()].map(|address| Client::login(address, "u", database));
    for messages in [
        message::query(&insert("query")),
        message::query("select 1/0"),
        [message::query("select 1"), message::query("select 2")].concat(),
        [executed(&insert("batch")), message::sync()].concat(),
        // Without a Sync, PostgreSQL keeps the answers and rolls back.
        executed("insert into told values ('unsynced')"),
        [message::query("copy told from stdin"), message::frame(b'f', b"no more\0")].concat(),
        message::query("begin"),
    ] {
        let [ours, theirs] = both().map(|mut client| {
            client.peer.send(&messages);
            rest(&mut client)
        });
        assert_eq!(ours, theirs);
    }
    let [ours, theirs] = both().map(|mut client| {
        client.peer.send(&[executed("copy told from stdin"), message::frame(b'H', b"")].concat());
        while client.peer.frame().expect("the answer").tag != b'G' {}
        client.peer.send(&message::frame(b'f', b"no more\0"));
        rest(&mut client)
    });
    assert_eq!(ours, theirs);
    // A client that does not wait for the answer. In the wait queue it has nothing to wait for.
    let mut other = pooler.client("u", database);
    other.run("begin");
    let mut hasty = pooler.client("u", database);
    hasty.peer.send(&[message::query(&insert("queued")), message::terminate()].concat());
    drop(hasty.peer);
    wait_until("it has left the queue", LIMIT, || pooler.log().contains("before its request was sent to a server"));
    other.run("commit");
    let mut hasty = pooler.client("u", database);
    hasty.peer.send(&[message::query(&insert("gone")), message::terminate()].concat());
    drop(hasty.peer);
    let told = "select string_agg(who || ' ' || count, ', ' order by who) from (select who, count(*) from told group by 1) as told";
    wait_until("all is told", LIMIT, || direct.value(told) == "batch 2, gone 1, query 2");
    other.run("select 1");
    pooler.await_pool(database, "sv_active", "0");
}

pub(crate) fn the_query_of_a_killed_client_is_cancelled_within_a_second(house: &House) {
    let pooler = house.pooler("loss_killed", &["default_pool_size = 1"]);
    let mut child = spawn(&pooler, "loss_killed", "select pg_sleep(60)");
    let pid = house.postgres.await_running("loss_killed", "pg_sleep");
    kill_hard(&mut child);
    let took = await_state(house, &pid, "idle");
    assert!(took < Duration::from_millis(1500), "the query went on for {took:?}");
    // The server has been cleaned up, so it is used again; closing it would be right as well.
    assert_eq!(pooler.client("u", "loss_killed").value("select 1"), "1");
    assert!(house.postgres.servers("loss_killed") <= 1);
}

/// Such a server cannot be used again, and previously was closed at once: PostgreSQL went on with the query, which no limit
/// counted any more.
pub(crate) fn the_query_of_a_client_that_leaves_in_the_middle_of_a_message_is_cancelled(house: &House) {
    let pooler = house.pooler("loss_torn", &["default_pool_size = 1", "server_mend_timeout = 60"]);
    let sleep = "select pg_sleep(60)";
    let batch = [message::parse("", sleep), message::bind("", "", &[]), message::execute("", 0)].concat();
    for asked in [message::query(sleep), batch] {
        let mut client = pooler.client("u", "loss_torn");
        client.peer.send(&[&asked[..], &message::query("select 2")[..7]].concat());
        leaves_no_query(house, &pooler, client, "loss_torn");
    }
}

/// The same, because the server cannot run DISCARD.
pub(crate) fn the_query_of_a_client_whose_server_cannot_be_discarded_is_cancelled(house: &House) {
    let pooler = house.pooler("loss_library", &["default_pool_size = 1", "server_mend_timeout = 60"]);
    let mut client = pooler.client("u", "loss_library");
    client.run("load 'plpgsql'");
    client.ask("select pg_sleep(60)");
    leaves_no_query(house, &pooler, client, "loss_library");
}

/// A client leaves while its query runs: the query ends long before it is done, and the next client gets another server.
fn leaves_no_query(house: &House, pooler: &Pooler, client: Client, database: &str) {
    let pid = house.postgres.await_running(database, "pg_sleep");
    drop(client);
    assert_ne!(pooler.client("u", database).server_pid(), pid);
    house.postgres.await_servers(database, 1);
}

pub(crate) fn the_transaction_of_a_killed_client_is_rolled_back(house: &House) {
    let pooler = house.pooler("loss_locks", &["default_pool_size = 2"]);
    let mut other = pooler.client("u", "loss_locks");
    other.run("create table t (a int)");
    other.run("insert into t values (1)");
    let script = "begin; update t set a = 2; select 'x' from pg_sleep(0.01);";
    let mut child = psql(&pooler, "u", "loss_locks");
    child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().expect("psql starts");
    std::io::Write::write_all(child.stdin.as_mut().expect("a pipe"), format!("{script}\n").as_bytes())
        .expect("psql reads");
    let idle = "select count(*) from pg_stat_activity where datname = 'loss_locks' and state = 'idle in transaction'
                and query like '%pg_sleep%'";
    wait_until("psql idles in a transaction", LIMIT, || house.postgres.value(idle) == "1");
    kill_hard(&mut child);
    let took = wait_until("the transaction has ended", LIMIT, || {
        house
            .postgres
            .value("select count(*) from pg_stat_activity where datname = 'loss_locks' and state like 'idle in%'")
            == "0"
    });
    assert!(took < Duration::from_millis(1500), "the locks were held for {took:?}");
    other.run("update t set a = 3 where a = 1");
    assert_eq!(other.value("select a from t"), "3");
}

pub(crate) fn many_killed_clients_leave_no_server_behind(house: &House) {
    let pooler = house.pooler("loss_many", &["default_pool_size = 5"]);
    for _ in 0..3 {
        let mut children: Vec<_> = (0..10).map(|_| spawn(&pooler, "loss_many", "select pg_sleep(60)")).collect();
        pooler.await_pool("loss_many", "sv_active", "5");
        children.iter_mut().for_each(kill_hard);
        pooler.await_pool("loss_many", "cl_active", "0");
        pooler.await_pool("loss_many", "sv_active", "0");
        let running = "select count(*) from pg_stat_activity where datname = 'loss_many' and state = 'active'";
        wait_until("no query of the dead runs", LIMIT, || house.postgres.value(running) == "0");
    }
    assert!(house.postgres.servers("loss_many") <= 5);
    assert_eq!(pooler.client("u", "loss_many").value("select 1"), "1");
}

pub(crate) fn too_many_connections_are_told_in_the_servers_words(house: &House) {
    let pooler = house.pooler("loss_crowded", &["server_login_retry = 1"]);
    // PostgreSQL applies the limit to roles that are no superusers.
    house.postgres.query("create role loss_small login");
    house.postgres.query("alter database loss_crowded connection limit 0");
    let ini = Ini::new(&format!("{} user=loss_small", house.line("loss_crowded"))).set("server_login_retry = 1");
    let small = house.start(&ini);
    let error = refused(&small, "loss_crowded");
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "53300"));
    assert_eq!(error.text, "too many connections for database \"loss_crowded\"");
    small.await_log("server login failed: FATAL too many connections");
    house.postgres.query("alter database loss_crowded connection limit 5");
    wait_until("there is room again", LIMIT, || {
        Client::try_login(small.address(), &[("user", "u"), ("database", "loss_crowded")]).is_ok()
    });
    drop(pooler);
}

pub(crate) fn a_missing_database_or_role_is_told_in_the_servers_words(house: &House) {
    let ini = Ini::new(&house.line_as("missing", "no_such_thing"));
    let pooler = house.start(&ini.database(&format!("{} user=no_such_role", house.line("postgres"))));
    let error = refused(&pooler, "missing");
    assert_eq!((error.code.as_str(), error.text.as_str()), ("3D000", "database \"no_such_thing\" does not exist"));
    let error = refused(&pooler, "postgres");
    assert_eq!((error.code.as_str(), error.text.as_str()), ("28000", "role \"no_such_role\" does not exist"));
}

pub(crate) fn a_server_that_hangs_holds_up_only_its_own(house: &House) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("a bound port").port();
    let ini =
        house.ini("loss_hang", &["query_wait_timeout = 2"]).database(&format!("hangs = host=127.0.0.1 port={port}"));
    let pooler = house.start(&ini);
    let mut stuck: Vec<_> = (0..20)
        .map(|_| {
            let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
            peer.send(&message::startup(0, &[("user", "u"), ("database", "hangs")]));
            peer
        })
        .collect();
    let mut client = pooler.client("u", "loss_hang");
    for number in 0..200 {
        assert_eq!(client.value(&format!("select {number}")), number.to_string());
    }
    for peer in &mut stuck {
        assert_eq!(Complaint::read(&peer.frame().expect("a reason")).text, "query_wait_timeout");
    }
}

pub(crate) fn a_client_that_never_reads_harms_nobody(house: &House) {
    let pooler = house.pooler("loss_deaf", &["default_pool_size = 2"]);
    let mut client = pooler.client("u", "loss_deaf");
    client.run("select 1");
    let before = pooler.memory_kb("VmRSS");
    let mut deaf = pooler.client("u", "loss_deaf");
    deaf.ask("select repeat('x', 1000) from generate_series(1, 300000)");
    house.postgres.await_running("loss_deaf", "generate_series");
    for number in 0..500 {
        assert_eq!(client.value(&format!("select {number}")), number.to_string());
    }
    let grown = pooler.memory_kb("VmRSS").saturating_sub(before);
    assert!(grown < 8 * 1024, "the pooler keeps {grown} kB for it");
    drop(deaf);
    pooler.await_pool("loss_deaf", "sv_active", "0");
}

pub(crate) fn a_postgresql_that_crashes_and_returns_is_used_again(house: &House) {
    let mut postgres = Postgres::start(&house.place);
    let line = format!("d = host=127.0.0.1 port={} dbname=postgres", postgres.port());
    let pooler = house.start(&Ini::new(&line).set("server_login_retry = 1").set("query_wait_timeout = 20"));
    let mut busy: Vec<_> = (0..5).map(|_| pooler.client("u", "d")).collect();
    let mut idle = pooler.client("u", "d");
    idle.run("select 1");
    busy.iter_mut().for_each(|client| client.ask("select pg_sleep(60)"));
    pooler.await_pool("d", "sv_active", "5");
    postgres.crash();
    for client in &mut busy {
        let answer = client.answer();
        assert!(!answer.errors.is_empty() && answer.status == ' ', "{answer:?}");
    }
    postgres.restart(&house.place);
    wait_until("the pooler works again", Duration::from_secs(20), || {
        Client::try_login(pooler.address(), &[("user", "u"), ("database", "d")])
            .is_ok_and(|mut client| client.query("select 2").errors.is_empty())
    });
    assert_eq!(idle.value("select 3"), "3", "a client without a server has no reason to end");
}

fn terminate(house: &House, pid: &str) {
    house.postgres.terminate(pid);
}

fn spawn(pooler: &Pooler, database: &str, sql: &str) -> Child {
    let mut command = psql(pooler, "u", database);
    command.args(["-c", sql]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("psql starts")
}

fn kill_hard(child: &mut Child) {
    child.kill().expect("psql can be killed");
    child.wait().expect("psql ends");
}

/// Waits until a backend has this state or has ended. Returns how long that took.
fn await_state(house: &House, pid: &str, state: &str) -> Duration {
    let sql = format!("select count(*) from pg_stat_activity where pid = {pid} and state <> '{state}'");
    wait_until(&format!("{pid} is {state} or gone"), LIMIT, || house.postgres.value(&sql) == "0")
}

fn refused(pooler: &Pooler, database: &str) -> Complaint {
    Client::try_login(pooler.address(), &[("user", "u"), ("database", database)])
        .map(|_| ())
        .expect_err("the login succeeded")
}

/// Regression: the settings of such a client had gone along with its request, which was never sent, so that PostgreSQL did not
/// answer, and the server was kept until `server_mend_timeout`.
pub(crate) fn a_client_whose_first_request_is_malformed_gives_its_server_back(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 1", "server_mend_timeout = 600"];
    let pooler = house.pooler("losses_malformed", &settings);
    let mut other = pooler.client("u", "losses_malformed");
    // The length of a Parse, a Bind, a Describe, a Close that ends within its name, or that has no such kind.
    let malformed = [
        message::frame(b'P', b"a"),
        message::frame(b'B', b"\0a"),
        message::frame(b'D', b"Sa"),
        message::frame(b'C', b"Sa"),
        message::frame(b'D', b"?\0"),
    ];
    for message in &malformed {
        for _ in 0..2 {
            other.run("select 1");
            let options = [("user", "u"), ("database", "losses_malformed"), ("options", "-c work_mem=5MB")];
            let mut client = Client::try_login(pooler.address(), &options).expect("the login succeeds");
            client.peer.send(&[message.clone(), message::sync()].concat());
            assert!(!client.answer_within(LIMIT).errors.is_empty());
            assert_eq!(other.value("select 7"), "7", "{message:?}");
        }
    }
}
