//! `TRACE`: reports what happens to a client, an application or a database as it happens, without values.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::client::Client;
use tests::message::{self, Complaint};
use tests::pooler::Pooler;
use tests::program::{finish, psql, signal};
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

/// A console on which a trace runs.
struct Tracer {
    console: Client,
    /// The lines received so far.
    told: Vec<String>,
}

impl Tracer {
    /// Begins a trace; every worker knows of it when this returns.
    fn begin(pooler: &Pooler, command: &str) -> Self {
        let mut console = pooler.client("admin", "pgbouncer");
        console.ask(command);
        let mut tracer = Self { console, told: Vec::new() };
        tracer.hear("tracing ");
        tracer
    }

    /// Waits for a line that contains this text, and returns it.
    fn hear(&mut self, part: &str) -> String {
        loop {
            let frame = self.console.peer.frame_within(LIMIT);
            let frame = frame.unwrap_or_else(|lost| panic!("{lost} instead of {part:?}, after {:#?}", self.told));
            assert_eq!(char::from(frame.tag), 'N', "{part:?} was expected, after {:#?}", self.told);
            let line = Complaint::read(&frame);
            assert_eq!((&*line.severity, &*line.code), ("INFO", "00000"));
            self.told.push(line.text.clone());
            if line.text.contains(part) {
                return line.text;
            }
        }
    }

    /// Ends the trace. Returns all lines, and the tag of the answer.
    fn end(mut self) -> (Vec<String>, String) {
        self.console.cancel();
        let answer = self.console.answer();
        assert!(answer.errors.is_empty(), "{answer:?}");
        self.told.extend(answer.notices.iter().map(|notice| notice.text.clone()));
        (self.told, answer.tags.concat())
    }
}

/// The ID of the client with this application name.
fn id_of(pooler: &Pooler, application: &str) -> String {
    wait_for(&format!("a client called {application}"), LIMIT, || {
        let answer = pooler.console("SHOW CLIENTS");
        let rows: Vec<_> = (0..answer.rows.len()).map(|row| answer.named(row)).collect();
        let row = rows.into_iter().find(|row| row["application_name"] == application)?;
        Some(format!("C-0x{:x}", row["id"].parse::<u64>().expect("a number")))
    })
}

fn called(pooler: &Pooler, database: &str, application: &str) -> Client {
    let parameters = [("user", "u"), ("database", database), ("application_name", application)];
    Client::try_login(pooler.address(), &parameters).expect("a login")
}

/// Lines of a program's output, as they come.
fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

pub(crate) fn psql_shows_what_happens_as_it_happens_and_control_c_ends_it(house: &House) {
    let pooler = house.pooler("trace_psql", &[]);
    let mut client = called(&pooler, "trace_psql", "shop");
    let id = id_of(&pooler, "shop");
    let mut command = psql(&pooler, "admin", "pgbouncer");
    command.args(["-c", &format!("TRACE CLIENT {id}")]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("psql starts");
    let shown = lines(child.stderr.take().expect("it is piped"));
    let mut all = Vec::new();
    let mut await_line = |part: &str| loop {
        let line = shown.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {part:?} in {all:#?}"));
        all.push(line.clone());
        if line.contains(part) {
            return line;
        }
    };
    assert_eq!(await_line("tracing"), format!("INFO:  tracing client {id} for 60 s, without values; Ctrl-C ends it"));
    client.run("select 4711 as one");
    let line = await_line(" request: ");
    assert!(line.starts_with("INFO:  ") && line.ends_with("Query, 24 bytes: select ? as one"), "{line}");
    await_line(" first byte after ");
    assert!(await_line(" completed after ").contains(": 1 row, "));
    signal(child.id(), Signal::SIGINT);
    let line = await_line("NOTICE");
    assert_eq!(line, format!("NOTICE:  the trace of client {id} ends: it was cancelled"));
    let told = all.iter().filter(|line| line.contains(&id) && line.contains("S-0x")).count();
    assert!(told > 3, "{all:#?}");
    // psql reports a failure whatever the answer is, because it was interrupted.
    finish(child, "psql", Duration::from_secs(10));
}

pub(crate) fn values_are_told_only_to_who_asks_for_them_and_passwords_to_nobody(house: &House) {
    let pooler = house.pooler("trace_values", &[]);
    let mut client = called(&pooler, "trace_values", "shop");
    let say = |client: &mut Client| {
        client.run("select 'topsecret' || 'it is'");
        assert_eq!(client.query("select 'topsecret'::int").error().code, "22P02");
        client.query("select * from nowhere where a = 'topsecret'");
        let extended = [
            message::parse("", "select $1::text"),
            message::bind("", "", &["topsecret"]),
            message::execute("", 0),
            message::sync(),
        ];
        client.peer.send(&extended.concat());
        client.answer();
        client.query("alter role nobody_at_all password 'hidden'");
        client.run("do $$ begin raise notice 'topsecret'; end $$");
        client.query("do $$ begin raise exception 'topsecret'; end $$");
    };
    let mut tracer = Tracer::begin(&pooler, "TRACE DATABASE trace_values");
    say(&mut client);
    tracer.hear("error P0001");
    let (told, _) = tracer.end();
    let text = told.join("\n");
    assert!(!text.contains("topsecret") && !text.contains("hidden"), "{text}");
    for part in [
        "select ? || ?",
        "error 22P02: invalid input syntax for type integer: \"?\"",
        "error 42P01: relation \"nowhere\" does not exist",
        "Parse Bind Execute Sync",
        "select ?::text",
        "alter role nobody_at_all password ?",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(pooler.console("SET trace_values = 1").tags, ["SET trace_values=1"]);
    let mut tracer = Tracer::begin(&pooler, "TRACE APPLICATION shop FOR 30 SECONDS");
    assert!(tracer.told[0].contains("application \"shop\" for 30 s, with values"), "{:?}", tracer.told);
    say(&mut client);
    tracer.hear("error P0001: topsecret");
    let (told, _) = tracer.end();
    let text = told.join("\n");
    assert!(!text.contains("hidden"), "{text}");
    for part in [
        "select 'topsecret' || 'it is'",
        "syntax for type integer: \"topsecret\"",
        "select $1::text with $1 = 'topsecret'",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

pub(crate) fn two_clients_are_told_apart(house: &House) {
    let pooler = house.pooler("trace_two", &[]);
    let (mut one, mut other) = (called(&pooler, "trace_two", "one"), called(&pooler, "trace_two", "other"));
    let (one_id, other_id) = (id_of(&pooler, "one"), id_of(&pooler, "other"));
    let mut of_one = Tracer::begin(&pooler, &format!("TRACE CLIENT {one_id}"));
    let mut of_other = Tracer::begin(&pooler, "TRACE APPLICATION other");
    let mut of_both = Tracer::begin(&pooler, "TRACE DATABASE trace_two");
    one.run("select 1 as of_one");
    other.run("select 1 as of_other");
    of_one.hear(" request: ");
    of_other.hear(" request: ");
    drop(one);
    of_one.hear("client left: ");
    let answer = of_one.console.answer();
    assert_eq!(answer.notices[0].text, format!("the trace of client {one_id} ends: the client has gone"));
    assert_eq!(answer.tags, [format!("TRACE {}", of_one.told.len() - 1)], "the first line tells of nothing");
    assert!(of_one.told[1..].iter().all(|line| line.contains(&one_id)), "{:#?}", of_one.told);
    let mut third = called(&pooler, "trace_two", "third");
    third.run("set application_name = 'other'");
    third.run("select 1 as of_third");
    let line = of_other.hear("of_third");
    assert!(line.contains(" request: "), "{line}");
    let (told, _) = of_other.end();
    assert!(told.iter().all(|line| !line.contains("of_one")), "{told:#?}");
    assert!(told.iter().any(|line| line.contains("of_other") && line.contains(&other_id)), "{told:#?}");
    of_both.hear("of_third");
    let (told, tag) = of_both.end();
    let logged_in =
        told.iter().find(|line| line.contains("login: trace_two/u, application \"third\"")).expect("a login");
    assert!(logged_in.ends_with("from 127.0.0.1"), "{logged_in}");
    for part in ["of_one", "of_other", "client left: "] {
        assert!(told.iter().any(|line| line.contains(part)), "no {part:?} in {told:#?}");
    }
    assert!(tag.starts_with("TRACE ") && tag != "TRACE 0", "{tag}");
}

pub(crate) fn a_wait_a_pin_an_open_transaction_and_a_cancel_are_told(house: &House) {
    let pooler = house.pooler("trace_life", &["default_pool_size = 1"]);
    let mut holder = pooler.client("u", "trace_life");
    let mut client = called(&pooler, "trace_life", "waiter");
    let mut tracer = Tracer::begin(&pooler, "TRACE APPLICATION waiter");
    holder.run("begin");
    client.ask("select 7 as waited");
    let line = tracer.hear("waits for a server: ");
    assert!(line.contains("every server of the pool is taken, with Query, 24 bytes: select ? as waited"), "{line}");
    holder.run("commit");
    tracer.hear("server lent after ");
    client.answer();
    tracer.hear("completed after ");
    client.run("begin");
    assert!(tracer.hear("completed after ").ends_with(", in transaction"));
    assert!(!client.query("select * from nowhere").errors.is_empty());
    assert!(tracer.hear("completed after ").ends_with(", in failed transaction"));
    client.run("rollback");
    tracer.hear("server given back");
    client.run("create temp table kept ()");
    tracer.hear("server kept: temporary object kept");
    client.run("discard all");
    tracer.hear("server given back");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("trace_life", "pg_sleep");
    client.cancel();
    tracer.hear("cancel request");
    tracer.hear("error 57014: canceling statement due to user request");
    client.answer();
    let id = id_of(&pooler, "waiter");
    pooler.console(&format!("KILL_CLIENT {id}"));
    tracer.hear("client left: admin forced disconnect");
}

pub(crate) fn what_cannot_be_traced_is_said_with_what_can(house: &House) {
    let pooler = house.pooler("trace_refused", &[]);
    let mut console = pooler.client("admin", "pgbouncer");
    let own = format!("TRACE CLIENT {}", console_id(&pooler));
    for (command, code, text, hint) in [
        ("TRACE CLIENT C-0xfffff", "08P01", "client not found", "SHOW CLIENTS lists"),
        (&*own, "08P01", "client not found", "SHOW CLIENTS lists"),
        ("TRACE CLIENT shop", "08P01", "invalid client pointer supplied", "C-0x2a"),
        ("TRACE clint C-0x1", "08P01", "invalid command", "Did you mean TRACE CLIENT?"),
        ("TRACE", "08P01", "invalid command", "TRACE CLIENT|APPLICATION|DATABASE <name>"),
        ("TRACE DATABASE trace_refusd", "08P01", "no such database: trace_refusd", "Did you mean trace_refused?"),
        ("TRACE DATABASE pgbouncer", "08P01", "cannot trace admin db: pgbouncer", ""),
        ("TRACE DATABASE trace_refused FOR 0", "22023", "TRACE cannot last 0 seconds", "from 1 to 3600"),
        ("TRACE DATABASE trace_refused FOR 5 MINUTES", "08P01", "invalid command", "[SECONDS]"),
        ("TRACE DATABASE trace_refused FOR -5", "08P01", "invalid command", "[SECONDS]"),
        ("TRASE CLIENT", "08P01", "invalid command", "Did you mean TRACE?"),
    ] {
        let answer = console.query(command);
        let error = answer.error();
        let is_right = error.code == code && error.text.starts_with(text) && error.hint.contains(hint);
        assert!(is_right, "{command}: {error:?}");
    }
    let stats = pooler.client("stats", "pgbouncer").query("TRACE DATABASE trace_refused");
    assert_eq!(stats.error().text, "admin access needed");
    let answer = console.query("TRACE DATABASE trace_refused FOR 1 SECOND");
    assert_eq!(answer.tags, ["TRACE 0"]);
    assert!(answer.notices[1].text.ends_with("ends: its time is over"), "{answer:?}");
    let log = pooler.log();
    let line = log.lines().find(|line| line.contains("TRACE DATABASE 'trace_refused' FOR 1 SECONDS command issued"));
    assert!(line.is_some_and(|line| line.contains("pgbouncer/admin@127.0.0.1:")), "{log}");
    let mut tracers: Vec<_> = (0..8).map(|_| Tracer::begin(&pooler, "TRACE DATABASE trace_refused")).collect();
    let answer = console.query("TRACE DATABASE trace_refused");
    assert_eq!((&*answer.error().code, &*answer.error().text), ("53400", "no more than 8 traces at a time"));
    // A trace ends, and makes room for another, when its client leaves or is cancelled.
    drop(tracers.pop());
    tracers.pop().expect("another one").end();
    wait_until("there is room again", LIMIT, || {
        let mut console = pooler.client("admin", "pgbouncer");
        console.ask("TRACE DATABASE trace_refused FOR 1");
        matches!(console.peer.frame_within(LIMIT), Ok(frame) if frame.tag == b'N')
    });
}

/// A trace reported the first request of a pipeline and one answer for all of them.
pub(crate) fn each_request_of_a_pipeline_is_told_with_its_answer(house: &House) {
    let pooler = house.pooler("trace_pipeline", &[]);
    let mut client = called(&pooler, "trace_pipeline", "shop");
    client.run("select 1");
    let mut tracer = Tracer::begin(&pooler, "TRACE APPLICATION shop");
    let batch = |sql: &str| {
        [message::parse("", sql), message::bind("", "", &[]), message::execute("", 0), message::sync()].concat()
    };
    let numbers = message::query("select generate_series(1, 2) as two");
    client.peer.send(&[batch("select 1 as one"), numbers, batch("select 1 / (2 - 2) as three")].concat());
    // Another one comes in pieces, while these may not have been answered.
    let last = batch("select 4 as four");
    client.peer.send(&last[..3]);
    assert_eq!(client.answer().rows.len(), 1);
    client.peer.send(&last[3..]);
    let answers = [client.answer(), client.answer(), client.answer()];
    assert_eq!(answers[1].error().code, "22012");
    client.run("select 5 as five");
    tracer.hear(" as five");
    tracer.hear(" completed after ");
    let shown = |line: &String| {
        let words = ["request: ", "ERROR", "completed after "];
        let at = words.into_iter().find_map(|word| line.find(word))?;
        let line = &line[at..];
        Some(match line.split_once(" ms: ") {
            Some((_, line)) => line.split(',').next().expect("a part").to_owned(),
            None => line.rsplit(": ").next().expect("a part").to_owned(),
        })
    };
    let (told, _) = tracer.end();
    let mut shown: Vec<_> = told.iter().filter_map(shown).collect();
    // Answers may come before the last request.
    let requests: Vec<_> = shown.extract_if(.., |line| line.contains(" as ")).collect();
    let wanted = ["select ? as one", "select generate_series(?, ...) as two", "select ? / (? - ?) as three"];
    assert_eq!(requests[..3], wanted, "{told:#?}");
    assert_eq!(requests.last().map(|line| &**line), Some("select ? as five"), "{told:#?}");
    let rows: Vec<_> = shown.iter().filter(|line| line.ends_with("row") || line.ends_with("rows")).collect();
    assert_eq!(rows, ["1 row", "2 rows", "0 rows", "1 row", "1 row"], "{told:#?}");
}

/// A worker looks at a part of its clients in each turn when a trace begins or ends.
pub(crate) fn every_client_of_a_crowd_is_traced_until_the_trace_ends(house: &House) {
    let pooler = house.pooler("trace_crowd", &["max_client_conn = 1000"]);
    let mut clients: Vec<_> = (0..600).map(|number| called(&pooler, "trace_crowd", &format!("c{number}"))).collect();
    let mut tracer = Tracer::begin(&pooler, "TRACE DATABASE trace_crowd");
    let last = id_of(&pooler, "c599");
    let mut of_last = Tracer::begin(&pooler, &format!("TRACE CLIENT {last}"));
    // Few enough that their events find room, even if all happen at once.
    for (number, client) in clients.iter_mut().enumerate().step_by(60) {
        client.run(&format!("select 1 as of_{number}"));
    }
    clients[599].run("select 1 as of_last");
    of_last.hear(" as of_last");
    // Lines that are still on their way when a trace ends are not sent.
    tracer.hear(" as of_last");
    let (told, _) = tracer.end();
    let count = told.iter().filter(|line| line.contains(" request: ") && line.contains(" as of_")).count();
    assert_eq!(count, 600 / 60 + 1, "{told:#?}");
    let mut again = Tracer::begin(&pooler, "TRACE APPLICATION c3");
    clients[599].run("select 2");
    clients[3].run("select 3 as of_3");
    again.hear(" as of_3");
    let (told, _) = again.end();
    assert!(told.iter().all(|line| !line.contains(&last)), "{told:#?}");
}

/// More events than a client can read: the traced clients do not notice, and the reader is told how many lines are left out.
pub(crate) fn a_storm_is_bounded_and_counted(house: &House) {
    let pooler = house.pooler("trace_storm", &[]);
    pooler.console("SET trace_values = 1");
    let mut client = pooler.client("u", "trace_storm");
    let before = pooler.memory_kb("VmRSS");
    let long = format!("select length('{}')", "x".repeat(15_000));
    let short: Vec<u8> = message::query("select 1").repeat(1_000);
    let deadline = Instant::now() + LIMIT;
    // A worker drops what happens beyond 100 in 50 ms: on a busy machine a storm may be slower than that.
    loop {
        let tracer = Tracer::begin(&pooler, "TRACE DATABASE trace_storm");
        let begun = Instant::now();
        // The console is not read meanwhile.
        (0..300).for_each(|_| client.ask(&long));
        (0..300).for_each(|_| assert!(client.answer().errors.is_empty()));
        client.peer.send(&short);
        (0..1_000).for_each(|_| assert!(client.answer().errors.is_empty()));
        let grown = pooler.memory_kb("VmRSS").saturating_sub(before);
        assert!(grown < 64 << 10, "{grown} kB more");
        let (told, tag) = tracer.end();
        let count: usize = tag.strip_prefix("TRACE ").and_then(|count| count.parse().ok()).expect("a number");
        // 100 in 50 ms, however long that took.
        let most = 100 * (begun.elapsed().as_millis() / 50 + 2) as usize;
        assert!(count <= most, "{tag}, at most {most}");
        let dropped =
            told.iter().filter(|line| line.ends_with("happenings more than can be told were dropped")).count();
        assert_eq!(told.len(), count + dropped + 2, "the first line and the last tell of nothing that happens");
        // A trace may end before the first letter of the worker has come, which waits for up to 50 ms.
        if dropped > 0 && count > 0 {
            assert!(told.last().expect("a line").ends_with("happenings were dropped"), "{told:#?}");
            return;
        }
        assert!(Instant::now() < deadline, "no storm was one: {count} happenings in {:?}", begun.elapsed());
    }
}

pub(crate) fn who_is_not_let_in_or_is_refused_is_told(house: &House) {
    let ini = house.ini("trace_refusals", &["max_user_client_connections = 1"]);
    let pooler = house.start(&ini.rate_limit("r = events=transactions by=database rate=1/h burst=1 action=reject"));
    let mut client = pooler.client("u", "trace_refusals");
    let mut tracer = Tracer::begin(&pooler, "TRACE DATABASE trace_refusals");
    assert!(Client::try_login(pooler.address(), &[("user", "u"), ("database", "trace_refusals")]).is_err());
    tracer.hear("client left: client connections exceeded (max_user_client_connections)");
    client.run("select 1");
    assert!(!client.query("select 2").errors.is_empty());
    tracer.hear("request refused: ");
}

fn console_id(pooler: &Pooler) -> String {
    let answer = pooler.console("SHOW CLIENTS");
    let rows = (0..answer.rows.len()).map(|row| answer.named(row));
    let row = rows.into_iter().find(|row| row["database"] == "pgbouncer").expect("a console");
    row["id"].clone()
}

pub(crate) fn a_trace_goes_on_through_a_reload_and_ends_with_an_online_restart(house: &House) {
    let mut pooler = house.pooler("trace_restart", &[]);
    let mut client = pooler.client("u", "trace_restart");
    let mut tracer = Tracer::begin(&pooler, "TRACE DATABASE trace_restart FOR 600");
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    client.run("select 1 as after_reload");
    tracer.hear("after_reload");
    pooler.restart_online();
    let answer = tracer.console.answer();
    let error = answer.error();
    assert_eq!((&*error.code, &*error.text), ("57P01", "the trace was ended by an online restart"));
    client.run("select 1");
    let mut tracer = Tracer::begin(&pooler, "TRACE DATABASE trace_restart");
    client.run("select 1 as in_the_new_one");
    tracer.hear("in_the_new_one");
}
