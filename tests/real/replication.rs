//! Replication: PostgreSQL's own programs, standbys and subscriptions through the pooler.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::client::Client;
use tests::message::{self, Complaint};
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::program::{finish, run, signal};
use tests::runner::skip;
use tests::wait::{LIMIT, try_wait_for, wait_for, wait_until};

use crate::house::House;

pub(crate) fn a_base_backup_is_taken_with_its_wal(house: &House) {
    if is_too_new(house, "pg_basebackup") {
        return;
    }
    let pooler = physical(house, &["query_timeout = 1", "default_pool_size = 2"]);
    let target = house.place.directory().join("backup");
    // A second connection streams the WAL; the manifest is checked against every file.
    run(
        tool(house, "pg_basebackup", &pooler, "postgres").args(["-c", "fast", "-X", "stream", "-D"]).arg(&target),
        LONG,
    )
    .success();
    let own = house.postgres.major();
    let mut verify = house.place.unleashed("pg_verifybackup");
    // The program that checks the WAL reads only WAL of its own version.
    verify.args((own != major_of(house, "pg_verifybackup")).then_some("--no-parse-wal"));
    if own < 13 {
        skip("of PostgreSQL 10 to 12 a backup has no manifest: its files are not checked");
    } else {
        run(verify.arg(&target), LONG).success();
    }
    pooler.await_log("replication=physical");
    pooler.await_pool(NAME, "sv_active", "0");
    assert_eq!(pooler.pool(NAME, "u")["sv_idle"], "0", "nothing of it is left");
}

pub(crate) fn wal_is_received_as_it_was_written_also_through_reloads(house: &House) {
    if is_too_new(house, "pg_receivewal") {
        return;
    }
    let pooler = physical(house, &["pool_mode = session"]);
    let _slot = Slot::physical(house, "rep_wal_slot");
    // Segments that are compared below must not be recycled meanwhile.
    let _keeper = Slot::physical(house, "rep_wal_keeper");
    let directory = house.place.directory();
    let mut command = tool(house, "pg_receivewal", &pooler, "postgres");
    let receiver = Running::start(command.args(["-S", "rep_wal_slot", "--synchronous", "-D"]).arg(&directory));
    await_streams(&pooler, 1);
    for round in 0..5 {
        house.postgres.query(&format!("select pg_logical_emit_message(false, 'x', repeat('{round}', 1000000))"));
        assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    }
    let reached = house.postgres.value("select pg_switch_wal()");
    await_confirmed(house, "rep_wal_slot", "restart_lsn", &reached);
    let whole = wait_for("a file that was received whole", LONG, || {
        let files = fs::read_dir(&directory).expect("a directory").flatten().map(|file| file.path());
        let whole: Vec<PathBuf> = files.filter(|path| path.extension().is_none()).collect();
        (!whole.is_empty()).then_some(whole)
    });
    assert_eq!(receiver.stop(Signal::SIGINT), 0);
    // The received WAL equals PostgreSQL's own, byte by byte.
    let written = house.postgres.socket_directory().join("pg/pg_wal");
    for path in whole {
        let name = path.file_name().expect("a name");
        assert!(fs::read(&path).expect("a file") == fs::read(written.join(name)).expect("a file"), "{name:?} differs");
    }
    // The connection ended normally.
    pooler.await_log("closing because: replication client was closed");
    assert_eq!(pooler.log().matches("replication=physical").count(), 1, "it was never cut off");
}

pub(crate) fn changes_are_decoded(house: &House) {
    let pooler = house.pooler("rep_decoded", &[]);
    let mut direct = house.postgres.client("rep_decoded");
    direct.run("create table t (a int)");
    let _slot = Slot::decoding(house, "rep_decoded", "rep_decoded_slot");
    let file = house.place.directory().join("changes");
    let mut command = tool(house, "pg_recvlogical", &pooler, "rep_decoded");
    let receiver =
        Running::start(command.args(["-S", "rep_decoded_slot", "--start", "-s", "1", "-F", "1", "-f"]).arg(&file));
    // The same pool serves ordinary sessions meanwhile.
    pooler.client("u", "rep_decoded").run("insert into t values (42)");
    let line = "table public.t: INSERT: a[integer]:42\n";
    wait_until("the change has come", LIMIT, || fs::read_to_string(&file).unwrap_or_default().contains(line));
    assert_eq!(receiver.stop(Signal::SIGINT), 0);
    await_inactive(house, "rep_decoded_slot");
}

pub(crate) fn a_subscription_is_fed_also_with_a_transaction_in_progress(house: &House) {
    if house.is_older_than(14, "streaming of transactions in progress") {
        return;
    }
    let pooler = house.pooler("rep_source", &["default_pool_size = 6"]);
    let mut source = house.postgres.client("rep_source");
    source.run("create table t (a int primary key, b text)");
    source.run("insert into t select i, 'first' from generate_series(1, 1000) i");
    source.run("create publication p for table t");
    // A transaction larger than this is streamed before its commit.
    source.run("alter database rep_source set logical_decoding_work_mem = '64kB'");
    let target = Postgres::start(&house.place);
    let mut sink = target.client("postgres");
    sink.run("create table t (a int primary key, b text)");
    let reached = format!("host=127.0.0.1 port={} user=u dbname=rep_source", pooler.port());
    // The slot, the copy of the table and the stream are three connections; the second one uses a snapshot of the first.
    sink.ask(&format!("create subscription s connection '{reached}' publication p with (streaming = on)"));
    let answer = sink.answer_within(LONG);
    assert!(answer.errors.is_empty(), "{answer:?}");
    let count = |target: &Postgres| target.value("select count(*) from t");
    wait_until("the table is copied", LONG, || count(&target) == "1000");
    source.run("begin");
    source.run("insert into t select i, repeat('x', 1000) from generate_series(1001, 21000) i");
    wait_until("a part of it has been streamed", LONG, || {
        house
            .postgres
            .value("select coalesce(sum(stream_bytes), 0) from pg_stat_replication_slots where slot_name = 's'")
            != "0"
    });
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    source.run("commit");
    wait_until("the transaction has come", LONG, || count(&target) == "21000");
    let sum = "select md5(string_agg(a || b, ',' order by a)) from t";
    assert_eq!(target.value(sum), source.value(sum));
    let row = streams(&pooler).into_iter().find(|row| row["type"] == "C").expect("a stream");
    assert_eq!((&*row["replication"], &*row["state"], &*row["application_name"]), ("logical", "active", "s"));
    // RECONNECT disconnects the stream; the subscriber reconnects and misses nothing.
    pooler.console("RECONNECT");
    source.run("insert into t values (0, 'last')");
    wait_until("the stream goes on", LONG, || count(&target) == "21001");
    pooler.await_log("closing because: database configuration changed");
    sink.run("drop subscription s");
    assert_eq!(house.postgres.value("select count(*) from pg_replication_slots where slot_name = 's'"), "0");
}

pub(crate) fn whoever_may_not_replicate_is_told_why(house: &House) {
    let pooler = house.pooler("rep_refused", &["default_pool_size = 2"]);
    let mut session = pooler.client("admin", "rep_refused");
    session.run("select 1");
    let refused_by = |address: SocketAddr, user: &str, kind: &str| -> Complaint {
        let parameters = [("user", user), ("database", "rep_refused"), ("replication", kind)];
        Client::try_login(address, &parameters).map(|_| ()).expect_err("it may not")
    };
    let refused = |user: &str, kind: &str| refused_by(pooler.address(), user, kind);
    // First no HBA rule of PostgreSQL allows it, then the role lacks the right.
    let told = refused("admin", "true");
    assert_eq!((&*told.text, &*told.code), ("login failed", "28000"));
    let told = refused("admin", "database");
    assert_eq!((&*told.text, &*told.code), ("login failed", "42501"));
    pooler.await_log("S: login failed: FATAL: no pg_hba.conf entry for replication connection from host");
    let directly = refused_by(house.postgres.address(), "admin", "database");
    pooler.await_log(&format!("S: login failed: FATAL: {}", directly.text));
    // No other client notices.
    session.run("select 2");
    pooler.client("admin", "rep_refused").run("select 3");
    // An error of the walsender after the login is passed to the client, which stays connected.
    let mut client = replica(&pooler, "rep_refused", "true");
    assert_eq!(client.query("START_REPLICATION SLOT nowhere PHYSICAL 0/0").error().code, "42704");
    assert_eq!(client.query("select 1").error().code, "0A000");
    assert_eq!(client.query("IDENTIFY_SYSTEM").rows.len(), 1);
}

pub(crate) fn streams_count_in_their_pool_or_apart_from_it(house: &House) {
    let pooler = house.pooler("rep_limits", &["default_pool_size = 2", "query_wait_timeout = 5"]);
    let mut session = pooler.client("u", "rep_limits");
    session.run("select 1");
    let mut one = replica(&pooler, "rep_limits", "database");
    // The second one takes the place of the idle server, and then the pool is full.
    let _two = replica(&pooler, "rep_limits", "true");
    pooler.await_log("closing because: evicted");
    assert_eq!(pooler.connections_to(house.postgres.port()), 2);
    assert_eq!(session.query("select 2").error().text, "query_wait_timeout");
    let parameters = [("user", "u"), ("database", "rep_limits"), ("replication", "true")];
    let told = Client::try_login(pooler.address(), &parameters).map(|_| ()).expect_err("the pool is full");
    assert_eq!(told.text, "query_wait_timeout");
    // The next client gets a place that becomes free.
    one.peer.send(&message::terminate());
    assert_eq!(pooler.client("u", "rep_limits").value("select 3"), "3");
    // With a separate pool size, replication connections take no places of the others.
    let line = format!("{} replication_pool_size=1", house.line("rep_limits"));
    let apart = house.start(&Ini::new(&line).set("default_pool_size = 1").set("query_wait_timeout = 5"));
    let _three = replica(&apart, "rep_limits", "database");
    assert_eq!(apart.client("u", "rep_limits").value("select 4"), "4");
    assert_eq!(apart.connections_to(house.postgres.port()), 2);
    assert_eq!(
        Client::try_login(apart.address(), &parameters).map(|_| ()).expect_err("it is full").text,
        "query_wait_timeout"
    );
}

pub(crate) fn a_client_that_is_killed_frees_its_slot(house: &House) {
    if is_too_new(house, "pg_receivewal") {
        return;
    }
    let (pooler, by_name) = (house.pooler("rep_killed", &[]), physical(house, &[]));
    let _slot = Slot::physical(house, "rep_killed_slot");
    for how in [Signal::SIGKILL, Signal::SIGINT] {
        let directory = house.place.directory();
        let mut command = tool(house, "pg_receivewal", &by_name, "postgres");
        let receiver = Running::start(command.args(["-S", "rep_killed_slot", "-D"]).arg(&directory));
        await_active(house, "rep_killed_slot");
        receiver.stop(how);
        await_inactive(house, "rep_killed_slot");
        by_name.await_pool(NAME, "sv_active", "0");
    }
    // KILL_CLIENT and KILL disconnect it as suddenly.
    let mut client = streaming(house, &pooler, "rep_killed", "rep_killed_slot");
    let id = streams(&pooler).into_iter().find(|row| row["type"] == "C").expect("a stream")["id"].clone();
    pooler.console(&format!("KILL_CLIENT {id}"));
    assert_eq!(last_words(&mut client).text, "admin forced disconnect");
    await_inactive(house, "rep_killed_slot");
    let mut client = streaming(house, &pooler, "rep_killed", "rep_killed_slot");
    pooler.console("KILL rep_killed");
    assert_eq!(last_words(&mut client).text, "database removed");
    await_inactive(house, "rep_killed_slot");
}

pub(crate) fn a_stream_outlives_a_pause_and_ends_with_the_process(house: &House) {
    let mut pooler = house.pooler("rep_down", &[]);
    let _slot = Slot::physical(house, "rep_down_slot");
    let mut client = streaming(house, &pooler, "rep_down", "rep_down_slot");
    let mut console = pooler.client("admin", "pgbouncer");
    console.ask("PAUSE rep_down");
    wait_until("it is paused", LIMIT, || {
        let databases = pooler.console("SHOW DATABASES");
        let mut rows = (0..databases.rows.len()).map(|row| databases.named(row));
        rows.any(|row| row["name"] == "rep_down" && row["paused"] == "1")
    });
    assert_eq!(pooler.pool("rep_down", "u")["sv_active"], "1");
    goes_on(house, &mut client, "while it is paused");
    assert_eq!(pooler.console("RESUME rep_down").tags, ["RESUME"]);
    // A shutdown that waits for clients waits for this one.
    pooler.signal(Signal::SIGTERM);
    pooler.await_log("got SIGTERM");
    goes_on(house, &mut client, "while it shuts down");
    assert!(pooler.is_running());
    pooler.signal(Signal::SIGTERM);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    assert!(client.peer.is_closed_within(LIMIT));
    await_inactive(house, "rep_down_slot");
}

pub(crate) fn a_cancel_request_ends_a_stream_and_not_its_connection(house: &House) {
    let pooler = house.pooler("rep_cancel", &[]);
    let _slot = Slot::physical(house, "rep_cancel_slot");
    let mut client = streaming(house, &pooler, "rep_cancel", "rep_cancel_slot");
    client.cancel();
    let answer = client.answer();
    assert_eq!(answer.error().code, "57014");
    assert_eq!(client.query("IDENTIFY_SYSTEM").rows.len(), 1);
    await_inactive(house, "rep_cancel_slot");
}

pub(crate) fn a_stream_that_nobody_reads_is_held_back(house: &House) {
    let pooler = house.pooler("rep_slow", &[]);
    let _slot = Slot::physical(house, "rep_slow_slot");
    let before = pooler.memory_kb("VmRSS");
    let from = house.postgres.value("select pg_current_wal_flush_lsn()");
    let client = streaming(house, &pooler, "rep_slow", "rep_slow_slot");
    let much = "select count(pg_logical_emit_message(false, 'x', repeat('y', 1000000))) from generate_series(1, 60)";
    house.postgres.query(much);
    // The walsender has sent what fits into the sockets, and waits with the rest. A walsender that has sent everything has
    // the same wait event; one that is only slow makes progress between the two looks.
    let waits = format!(
        "select sent_lsn from pg_stat_replication join pg_stat_activity using (pid)
         where pg_stat_replication.application_name = 'rep_slow' and wait_event in ('WalSenderMain', 'WalSenderWriteData')
         and sent_lsn > '{from}' and sent_lsn < pg_current_wal_flush_lsn()"
    );
    let look = || house.postgres.query(&waits).rows.first().and_then(|row| row[0].clone());
    let sent =
        wait_for("the walsender waits with the rest", LIMIT, || look().filter(|sent| look().as_ref() == Some(sent)));
    let behind = house.postgres.value(&format!("select pg_current_wal_flush_lsn() - '{sent}'::pg_lsn > 40000000"));
    assert_eq!(behind, "t", "it has sent what nobody took");
    let grown = pooler.memory_kb("VmRSS").saturating_sub(before);
    assert!(grown < 10_000, "the pooler has grown by {grown} kB for 60 MB that nobody reads");
    assert_eq!(pooler.client("u", "rep_slow").value("select 1"), "1");
    drop(client);
    await_inactive(house, "rep_slow_slot");
}

pub(crate) fn a_walsender_that_ends_in_good_order_is_no_crash(house: &House) {
    let source = Postgres::start(&house.place);
    let ini = Ini::new(&format!("d = host=127.0.0.1 port={} dbname=postgres", source.port()));
    let pooler = house.start(&ini);
    source.query("select pg_create_physical_replication_slot('s')");
    let mut client = replica(&pooler, "d", "true");
    client.ask("START_REPLICATION SLOT s PHYSICAL 0/1000000");
    assert_eq!(client.peer.frame_within(LIMIT).expect("an answer").tag, b'W');
    // A walsender that has not begun to stream is terminated like any backend (`HandleWalSndInitStopping`).
    let first = client.peer.frame_within(LIMIT).expect("what was written before");
    confirm(&mut client, &first.body);
    source.begin_shutdown();
    // The rest of the WAL, the final message, and the end of the connection.
    loop {
        let frame = client.peer.frame_within(LIMIT).expect("an orderly end");
        match frame.tag {
            b'd' => confirm(&mut client, &frame.body),
            b'C' => break,
            other => panic!("unexpected {:?}: {frame:?}", other as char),
        }
    }
    client.peer.closed_within(LIMIT).expect("nothing more is said");
    pooler.await_log("closing because: server closed the stream");
}

/// A pooler for physical replication: programs for physical replication ask for a database of this name.
fn physical(house: &House, settings: &[&str]) -> Pooler {
    let ini = Ini::new(&house.line_as(NAME, "postgres"));
    house.start(&settings.iter().fold(ini, |ini, setting| ini.set(setting)))
}

/// The major version of one of PostgreSQL's programs.
fn major_of(house: &House, name: &str) -> u32 {
    let said = run(house.place.unleashed(name).arg("--version"), LIMIT).success();
    let numbers = said.split(|letter: char| !letter.is_ascii_digit());
    numbers.into_iter().find_map(|number| number.parse().ok()).expect("a version")
}

/// Replication programs refuse a server that is newer than they are; returns whether that is so, and prints that the test is
/// skipped.
fn is_too_new(house: &House, name: &str) -> bool {
    let (program, server) = (major_of(house, name), house.postgres.major());
    if program < server {
        skip(&format!("{name} is of PostgreSQL {program} and refuses {server}"));
    }
    program < server
}

/// One of PostgreSQL's programs that replicates through the pooler.
fn tool(house: &House, name: &str, pooler: &Pooler, database: &str) -> Command {
    let mut command = house.place.unleashed(name);
    command.args(["-w", "-d", &format!("host=127.0.0.1 port={} user=u dbname={database}", pooler.port())]);
    command.env_remove("PGOPTIONS").env_remove("PGAPPNAME").env("PGPASSFILE", "/dev/null");
    command
}

/// A program that runs until it is told to stop.
struct Running(Option<Child>);

impl Running {
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self(Some(child.expect("it starts")))
    }

    /// Stops the program. Returns its exit code; −1 if it was killed.
    fn stop(mut self, how: Signal) -> i32 {
        let child = self.0.take().expect("it runs until here");
        signal(child.id(), how);
        let ended = finish(child, "a program that replicates", LONG);
        assert!(how == Signal::SIGKILL || ended.code() == 0, "{ended:?}");
        ended.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client with a replication connection.
fn replica(pooler: &Pooler, database: &str, kind: &str) -> Client {
    let parameters = [
        ("user", "u"),
        ("database", database),
        ("replication", kind),
        ("application_name", database),
        ("options", "-c geqo=off"),
    ];
    Client::try_login(pooler.address(), &parameters).expect("it is let in")
}

/// A replication client to which WAL is streamed.
fn streaming(house: &House, pooler: &Pooler, database: &str, slot: &str) -> Client {
    let mut client = replica(pooler, database, "true");
    assert_eq!(client.query("SHOW geqo").value(), "off", "options reach the server");
    let from = house.postgres.value("select pg_current_wal_flush_lsn()");
    client.ask(&format!("START_REPLICATION SLOT {slot} PHYSICAL {from}"));
    assert_eq!(client.peer.frame_within(LIMIT).expect("an answer").tag, b'W');
    client
}

/// Confirms to a walsender that everything up to here has been written, if `sent` is a message of the stream.
fn confirm(client: &mut Client, sent: &[u8]) {
    let end = match sent.first() {
        Some(b'w') => u64::from_be_bytes(sent[1..9].try_into().expect("a position")) + (sent.len() - 25) as u64,
        Some(b'k') => u64::from_be_bytes(sent[1..9].try_into().expect("a position")),
        _ => return,
    };
    let mut body = vec![b'r'];
    (0..3).for_each(|_| body.extend(end.to_be_bytes()));
    body.extend([0; 9]);
    // A walsender that has sent its final message does not wait for this.
    let _ = client.peer.try_send(&message::frame(b'd', &body));
}

/// The error with which a stream ends.
fn last_words(client: &mut Client) -> Complaint {
    loop {
        let frame = client.peer.frame_within(LIMIT).expect("a last word");
        if frame.tag == b'E' {
            return Complaint::read(&frame);
        }
    }
}

/// Writes a message into the WAL that no other test writes, and reads the stream until the message arrives. Other tests
/// write WAL, too.
fn goes_on(house: &House, client: &mut Client, mark: &str) {
    // Three messages, only one of which can be split by a page boundary.
    let one = format!("pg_logical_emit_message(true, 'mark', '{mark}')");
    house.postgres.query(&format!("select {one}, {one}, {one}"));
    let end = Instant::now() + LIMIT;
    let mut heard = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let frame = client.peer.frame_within(left).unwrap_or_else(|lost| panic!("no WAL {mark}: {lost}"));
        assert_eq!(frame.tag, b'd', "{mark}");
        // A message may contain part of a record. The WAL of other tests may be many megabytes, each of which is read once.
        if frame.body.first() == Some(&b'w') {
            heard.extend_from_slice(&frame.body[25..]);
        }
        if heard.windows(mark.len()).any(|bytes| bytes == mark.as_bytes()) {
            return;
        }
        heard.drain(..heard.len().saturating_sub(mark.len()));
    }
}

/// A replication slot that is dropped at the end: it would retain WAL and dead rows for the other tests.
struct Slot<'h> {
    house: &'h House,
    name: &'static str,
}

impl<'h> Slot<'h> {
    fn physical(house: &'h House, name: &'static str) -> Self {
        house.postgres.query(&format!("select pg_create_physical_replication_slot('{name}', true)"));
        Self { house, name }
    }

    fn decoding(house: &'h House, database: &str, name: &'static str) -> Self {
        let create = format!("select pg_create_logical_replication_slot('{name}', 'test_decoding')");
        house.postgres.client(database).run(&create);
        Self { house, name }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // A test that has failed may leave a connection that uses the slot.
        let ends = format!(
            "select pg_terminate_backend(active_pid) from pg_replication_slots
             where slot_name = '{0}' and active_pid is not null",
            self.name
        );
        let drops = format!("select pg_drop_replication_slot('{}')", self.name);
        if let Ok(mut client) =
            Client::try_login(self.house.postgres.address(), &[("user", "postgres"), ("database", "postgres")])
        {
            try_wait_for(LIMIT, || {
                client.query(&ends);
                client.query(&drops).errors.is_empty().then_some(())
            });
        }
    }
}

fn await_active(house: &House, slot: &str) {
    await_slot(house, slot, "active", "t");
}

fn await_inactive(house: &House, slot: &str) {
    await_slot(house, slot, "active", "f");
}

fn await_slot(house: &House, slot: &str, column: &str, value: &str) {
    let sql = format!("select {column} from pg_replication_slots where slot_name = '{slot}'");
    wait_until(&format!("{column} of {slot} is {value}"), LIMIT, || house.postgres.value(&sql) == value);
}

/// Waits until a slot has reached this position.
fn await_confirmed(house: &House, slot: &str, column: &str, position: &str) {
    let sql = format!("select {column} >= '{position}'::pg_lsn from pg_replication_slots where slot_name = '{slot}'");
    wait_until(&format!("{slot} has reached {position}"), LONG, || house.postgres.value(&sql) == "t");
}

/// The console's rows about replication clients and servers.
fn streams(pooler: &Pooler) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut rows = Vec::new();
    for command in ["SHOW CLIENTS", "SHOW SERVERS"] {
        let answer = pooler.console(command);
        rows.extend((0..answer.rows.len()).map(|row| answer.named(row)).filter(|row| row["replication"] != "none"));
    }
    rows
}

fn await_streams(pooler: &Pooler, count: usize) {
    wait_until("the streams are there", LIMIT, || {
        let rows = streams(pooler);
        rows.len() == 2 * count && rows.iter().all(|row| row["state"] == "active" && !row["link"].is_empty())
    });
}

/// The database name that programs for physical replication ask for.
const NAME: &str = "replication";
/// For large copies and decoding.
const LONG: Duration = Duration::from_secs(120);
