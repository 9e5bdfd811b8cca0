//! Rate limits: no more is admitted than a rule allows, and a delayed client goes on well afterwards.

use std::thread;
use std::time::{Duration, Instant};

use tests::client::Client;
use tests::message::{self, Complaint};
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;
use crate::logins::hashing::enter;

/// A row of `SHOW RATE_LIMITS`, by columns.
fn row(pooler: &Pooler, name: &str) -> std::collections::BTreeMap<String, String> {
    let answer = pooler.console("SHOW RATE_LIMITS");
    let mut rows = (0..answer.rows.len()).map(|row| answer.named(row));
    rows.find(|row| row["name"] == name).unwrap_or_else(|| panic!("no limit {name} in {answer:?}"))
}

fn counts(pooler: &Pooler, name: &str) -> [u64; 3] {
    let row = row(pooler, name);
    ["admitted", "delayed", "rejected"].map(|column| row[column].parse().expect("a number"))
}

fn await_delayed(pooler: &Pooler, name: &str, count: u64) {
    wait_until("somebody is delayed", LIMIT, || counts(pooler, name)[1] == count);
}

fn millis_of(hint: &str) -> u64 {
    let number = hint.strip_prefix("Try again in ").and_then(|rest| rest.strip_suffix(" ms."));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no milliseconds in {hint:?}"))
}

fn refused(pooler: &Pooler, user: &str, database: &str) -> Complaint {
    let mut peer = pooler.knock();
    peer.send(&message::startup(0, &[("user", user), ("database", database)]));
    Client::finish_login(peer, LIMIT).map(drop).expect_err("it is refused")
}

pub(crate) fn transactions_go_on_at_their_rate(house: &House) {
    let ini = house.ini("rate_delay", &["workers = 2", "default_pool_size = 8"]);
    let ini = ini.rate_limit("each = events=transactions by=user rate=50 burst=10");
    // The other database may belong to another worker: the limit covers both.
    let pooler = house.start(&ini.database(&house.line_as("rate_delay_too", "rate_delay")));
    let mut clients: Vec<_> = (0..6)
        .map(|number| pooler.client("u", if number % 2 == 0 { "rate_delay" } else { "rate_delay_too" }))
        .collect();
    let begin = Instant::now();
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| (0..15).for_each(|_| assert_eq!(client.value("select 1"), "1")));
        }
    });
    let took = begin.elapsed();
    // 90 transactions: the burst, and 80 at 50 a second.
    assert!(took >= Duration::from_millis(1600), "{took:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
    let [admitted, delayed, rejected] = counts(&pooler, "each");
    assert_eq!((admitted, rejected), (90, 0));
    assert!((70..=80).contains(&delayed), "{delayed}");
    // Another user has its own bucket, and a transaction counts once, however long it is.
    let mut other = pooler.client("v", "rate_delay");
    other.run("begin");
    let begin = Instant::now();
    (0..30).for_each(|_| other.run("select 1"));
    other.run("commit");
    assert!(begin.elapsed() < Duration::from_secs(1) || counts(&pooler, "each")[1] == delayed);
    assert_eq!(counts(&pooler, "each"), [91, delayed, 0]);
    pooler.await_log(
        "rate limit \"each\" (50 transactions a second by user, burst 10) has ended to hold transactions back: ",
    );
    let log = pooler.log();
    assert_eq!(log.matches("burst 10) begins to delay transactions").count(), 1, "{log}");
    assert_eq!(log.matches("has ended to hold").count(), 1, "{log}");
    assert_eq!(row(&pooler, "each")["limiting_since"], "NULL");
}

pub(crate) fn transactions_beyond_the_rate_are_rejected_and_sessions_go_on(house: &House) {
    let ini = house.ini("rate_reject", &[]);
    let rule = "events=transactions by=application_name rate=2/h burst=2 action=reject";
    let pooler = house.start(&ini.rate_limit(&format!("r = {rule}")));
    let mut client = pooler.client("u", "rate_reject");
    client.run("begin");
    (0..5).for_each(|_| client.run("select 1"));
    client.run("commit");
    client.run("select 2");
    for _ in 0..3 {
        let answer = client.query("select 3");
        let error = &answer.errors[0];
        assert_eq!((error.severity.as_str(), error.code.as_str(), answer.status), ("ERROR", "53400", 'I'));
        assert_eq!(error.text, "transaction rate exceeded (rate limit \"r\")");
        assert_eq!(error.detail, "The limit is 2 transactions an hour by application_name, burst 2.");
        assert!((1_700_000..=1_800_000).contains(&millis_of(&error.hint)), "{error:?}");
    }
    // The rest of a refused request is skipped up to its Sync, a Query as well, and each request has one answer.
    let batch = |sql: &str| [message::parse("", sql), message::bind("", "", &[]), message::execute("", 0)].concat();
    let stream = [
        batch("select 4"),
        message::query("select 5"),
        batch("select 6"),
        message::sync(),
        batch("select 7"),
        message::sync(),
        message::query("select 8"),
    ]
    .concat();
    for cut in [1, 3, 7, stream.len() / 2, stream.len() - 2, stream.len()] {
        client.peer.send(&stream[..cut]);
        client.peer.send(&stream[cut..]);
        for _ in 0..3 {
            let answer = client.answer();
            assert_eq!((answer.errors.len(), answer.rows.len(), answer.status), (1, 0, 'I'), "{cut}: {answer:?}");
            assert_eq!(answer.errors[0].code, "53400");
        }
    }
    // Longer than what is held of a client's messages.
    client.ask(&format!("select '{}'", "x".repeat(3_000_000)));
    assert_eq!(client.answer().errors[0].code, "53400");
    assert_eq!(counts(&pooler, "r"), [2, 0, 22]);
    // Another application name is counted separately.
    let mut other = pooler.client("u", "rate_reject");
    other.peer.send(&message::query("set application_name = 'other'"));
    assert_eq!(other.answer().errors[0].code, "53400");
    let named = [("user", "u"), ("database", "rate_reject"), ("application_name", "other")];
    let mut named = Client::try_login(pooler.address(), &named).expect("let in");
    assert_eq!(named.value("select 9"), "9");
    assert_eq!(pooler.console(&format!("SET rate_limits.r = '{}'", rule.replace("2/h", "1000"))).errors, []);
    assert_eq!(client.value("select 10"), "10");
    let log = pooler.log();
    assert_eq!(log.matches("begins to reject transactions").count(), 1, "{log}");
}

pub(crate) fn requests_in_one_packet_are_counted_one_by_one(house: &House) {
    let ini = house.ini("rate_pipe", &[]);
    let pooler = house.start(&ini.rate_limit("r = events=transactions by=database rate=3/h burst=3 action=reject"));
    let mut client = pooler.client("u", "rate_pipe");
    client.peer.send(&(1..=6).flat_map(|number| message::query(&format!("select {number}"))).collect::<Vec<_>>());
    let answers: Vec<_> = (0..6).map(|_| client.answer()).collect();
    let told: Vec<_> = answers.iter().map(|answer| answer.errors.is_empty()).collect();
    assert_eq!(told, [true, true, true, false, false, false]);
    assert_eq!([0, 1, 2].map(|place: usize| answers[place].value()), ["1", "2", "3"]);
    // A transaction in one packet counts once.
    assert_eq!(pooler.console("SET rate_limits.r = 'events=transactions by=database rate=1/h burst=1'").errors, []);
    client.peer.send(&["begin", "select 7", "commit", "select 8"].map(message::query).concat());
    assert_eq!((client.answer().status, client.answer().value()), ('T', "7".to_owned()));
    assert_eq!(client.answer().tags, ["COMMIT"]);
    await_delayed(&pooler, "r", 1);
    assert_eq!(pooler.console("SET rate_limits.r = 'events=transactions by=database rate=20 burst=1'").errors, []);
    assert_eq!(client.answer().value(), "8");
    // Delayed requests are answered in order.
    let begin = Instant::now();
    client.peer.send(&(0..12).flat_map(|number| message::query(&format!("select {number}"))).collect::<Vec<_>>());
    (0..12).for_each(|number| assert_eq!(client.answer().value(), number.to_string()));
    assert!(begin.elapsed() >= Duration::from_millis(500), "{:?}", begin.elapsed());
}

/// A Sync that a COPY ignores has no answer: a pooler that waited for one would wait for ever.
pub(crate) fn copies_pass_though_requests_go_one_by_one(house: &House) {
    let ini = house.ini("rate_copy", &[]);
    let pooler = house.start(&ini.rate_limit("r = events=transactions rate=100000 burst=100000"));
    let mut client = pooler.client("u", "rate_copy");
    client.run("create table t (a int)");
    let copy = "copy t from stdin";
    let data = [message::frame(b'd', b"1\n"), message::frame(b'c', b"")].concat();
    let batch = [message::parse("", copy), message::bind("", "", &[]), message::execute("", 0)].concat();
    let shapes = [
        // All at once.
        [message::query(copy), data.clone(), message::query("select 1")].concat(),
        [batch.clone(), data.clone(), message::sync(), message::query("select 1")].concat(),
        // As libpq does: with a Sync that the COPY ignores.
        [batch.clone(), message::sync(), data.clone(), message::sync(), message::query("select 1")].concat(),
    ];
    for shape in &shapes {
        client.peer.send(shape);
        assert_eq!(client.answer().tags, ["COPY 1"]);
        assert_eq!(client.answer().value(), "1");
    }
    // In several pieces.
    client.peer.send(&[batch, message::sync()].concat());
    wait_for("the COPY begins", LIMIT, || client.peer.frame().ok().filter(|frame| frame.tag == b'G'));
    client.peer.send(&[data, message::sync()].concat());
    assert_eq!(client.answer().tags, ["COPY 1"]);
    // A COPY that fails.
    client
        .peer
        .send(&[message::query("copy t from stdin"), message::frame(b'd', b"x\n"), message::frame(b'c', b"")].concat());
    assert_eq!(client.answer().errors[0].code, "22P02");
    assert_eq!(client.value("select count(*) from t"), "4");
    assert_eq!(counts(&pooler, "r")[0], 10);
}

fn clear(house: &House, database: &str) -> Ini {
    let ini = house.ini(database, &["auth_type = plain"]).secret("u", "right").secret("admin", "right");
    ini.database(&format!("{} user=v", house.line_as(&format!("{database}_forced"), database)))
}

pub(crate) fn logins_are_counted_by_address_before_and_by_user_after_the_proof(house: &House) {
    let ini = clear(house, "rate_logins").rate_limit("user = events=logins by=user rate=1/h burst=2 action=reject");
    let pooler = house.start(&ini);
    // A client that fails to log in uses up nothing of the user that it names.
    for _ in 0..5 {
        let error = enter(&pooler, "u", "wrong", "rate_logins_forced").map(drop).expect_err("it is refused");
        assert_eq!(error.text, "password authentication failed");
    }
    for _ in 0..2 {
        assert_eq!(enter(&pooler, "u", "right", "rate_logins_forced").expect("let in").value("select 1"), "1");
    }
    let error = enter(&pooler, "u", "right", "rate_logins_forced").map(drop).expect_err("it is refused");
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "53300"));
    assert_eq!(error.text, "login rate exceeded (rate limit \"user\")");
    assert!((3_500_000..=3_600_000).contains(&millis_of(&error.hint)), "{error:?}");
    pooler.await_log("begins to reject logins");

    // With a limit by address the client is refused before a password is requested, whatever its user; but for the
    // administrators of the console.
    let door = "events=logins by=address rate=1/h burst=1 action=reject";
    let mut console = enter(&pooler, "admin", "right", "pgbouncer").expect("let in");
    assert_eq!(console.query(&format!("SET rate_limits.door = '{door}'")).errors, []);
    let error = enter(&pooler, "u", "wrong", "rate_logins_forced").map(drop).expect_err("it is refused");
    assert_eq!(error.text, "password authentication failed");
    for (user, database) in
        [("u", "rate_logins_forced"), ("nobody", "rate_logins_forced"), ("u", "nowhere"), ("u", "pgbouncer")]
    {
        let error = refused(&pooler, user, database);
        assert_eq!((error.code.as_str(), error.text.as_str()), ("53300", "login rate exceeded (rate limit \"door\")"));
    }
    assert!(enter(&pooler, "admin", "right", "pgbouncer").is_ok());
    // Cancel requests do not count as logins.
    tests::client::send_cancel(pooler.address(), 1, &[1, 2, 3, 4]);
}

pub(crate) fn logins_that_are_delayed_come_in_at_their_rate(house: &House) {
    let ini = house.ini("rate_login_delay", &["workers = 2"]);
    for rule in ["by=address", "by=user,database", "by=application_name"] {
        let pooler = house.start(&ini.clone().rate_limit(&format!("r = events=logins {rule} rate=20 burst=2")));
        // The login at the console during the start is not counted.
        let before = counts(&pooler, "r")[0];
        let begin = Instant::now();
        thread::scope(|scope| {
            for _ in 0..14 {
                scope.spawn(|| assert_eq!(pooler.client("u", "rate_login_delay").value("select 1"), "1"));
            }
        });
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(600), "{rule}: {took:?}");
        assert!(took < Duration::from_secs(8), "{rule}: {took:?}");
        let [admitted, delayed, rejected] = counts(&pooler, "r");
        assert_eq!((admitted - before, rejected), (14, 0), "{rule}");
        assert!((1..=12).contains(&delayed), "{rule}: {delayed}");
    }
}

/// A pooler with a limit of one transaction an hour, which is used up, and a client that waits for the next one.
fn delayed(house: &House, database: &str, settings: &[&str]) -> (Pooler, Client, Client) {
    let ini = house.ini(database, settings).rate_limit("r = events=transactions rate=1/h");
    let pooler = house.start(&ini);
    let (mut first, mut client) = (pooler.client("u", database), pooler.client("u", database));
    first.run("select 1");
    client.ask("select 'went on'");
    await_delayed(&pooler, "r", 1);
    (pooler, first, client)
}

pub(crate) fn whoever_is_delayed_may_leave_in_any_way(house: &House) {
    let (pooler, mut other, mut client) = delayed(house, "rate_leave", &[]);
    assert_eq!(pooler.pool("rate_leave", "u")["cl_waiting"], "1");
    // The client cancels its request.
    client.cancel();
    let answer = client.answer();
    assert_eq!((answer.errors[0].code.as_str(), answer.status), ("57014", 'I'));
    assert_eq!(answer.errors[0].detail, "The request was delayed by a rate limit.");
    // The client disconnects.
    client.ask("select 1");
    await_delayed(&pooler, "r", 2);
    drop(client);
    pooler.await_pool("rate_leave", "cl_waiting", "0");
    // An administrator disconnects the client.
    other.ask("select 1");
    await_delayed(&pooler, "r", 3);
    let clients = pooler.console("SHOW CLIENTS");
    let waiting = (0..clients.rows.len()).map(|row| clients.named(row)).find(|row| row["state"] == "waiting");
    let id = waiting.expect("somebody waits")["id"].clone();
    assert_eq!(pooler.console(&format!("KILL_CLIENT {id}")).errors, []);
    assert_eq!(other.answer().errors[0].text, "admin forced disconnect");
    // The client's wait times out.
    assert_eq!(pooler.console("SET query_wait_timeout = 1").errors, []);
    let mut late = pooler.client("u", "rate_leave");
    late.ask("select 1");
    assert_eq!(late.answer().errors[0].text, "query_wait_timeout");
    // The process ends.
    assert_eq!(pooler.console("SET query_wait_timeout = 0").errors, []);
    let mut last = pooler.client("u", "rate_leave");
    last.ask("select 1");
    await_delayed(&pooler, "r", 5);
    assert_eq!(pooler.console("SHUTDOWN WAIT_FOR_SERVERS").errors, []);
    assert_eq!(last.answer().errors[0].text, "server shutting down");
}

pub(crate) fn whoever_is_delayed_goes_on_after_anything(house: &House) {
    let (pooler, _first, mut client) = delayed(house, "rate_go_on", &[]);
    // Delayed clients do not block the administrator's commands.
    let mut console = pooler.client("admin", "pgbouncer");
    assert_eq!(console.query("PAUSE").tags, ["PAUSE"]);
    assert_eq!(console.query("RESUME").tags, ["RESUME"]);
    assert_eq!(console.query("SUSPEND").tags, ["SUSPEND"]);
    assert!(client.peer.frame_within(Duration::from_millis(100)).is_err());
    assert_eq!(console.query("RESUME").tags, ["RESUME"]);
    assert_eq!(console.query("RELOAD").tags, ["RELOAD"]);
    assert!(
        client.peer.frame_within(Duration::from_millis(100)).is_err(),
        "a reload that changes nothing lets nobody go on"
    );
    // Meanwhile the client sends more than is held of its messages.
    client.peer.send(&(0..3000).flat_map(|_| message::query("select 'and on'")).collect::<Vec<_>>());
    pooler.rewrite(&Ini::new(&house.line("rate_go_on")));
    assert_eq!(console.query("RELOAD").tags, ["RELOAD"]);
    assert_eq!(client.answer().value(), "went on");
    (0..3000).for_each(|_| assert_eq!(client.answer().value(), "and on"));
    assert_eq!(console.query("SHOW RATE_LIMITS").rows.len(), 0);
    // A client that is delayed when a rule begins to reject gets the error.
    assert_eq!(console.query("SET rate_limits.r = 'events=transactions rate=1/h'").errors, []);
    client.run("select 1");
    client.peer.send(&[message::query("select 2"), message::query("select 3")].concat());
    await_delayed(&pooler, "r", 1);
    assert_eq!(console.query("SET rate_limits.r = 'events=transactions rate=1/h action=reject'").errors, []);
    assert_eq!([client.answer(), client.answer()].map(|answer| answer.errors[0].code.clone()), ["53400", "53400"]);
    // A client that does not read its answers is not read either.
    client.peer.send(&(0..20_000).flat_map(|_| message::query("")).collect::<Vec<_>>());
    assert!(pooler.memory_kb("VmRSS") < 200_000);
    (0..20_000).for_each(|_| assert_eq!(client.answer().errors[0].code, "53400"));
    assert_eq!(console.query("SET rate_limits.r = ''").errors, []);
    assert_eq!(client.value("select 4"), "4");
}

pub(crate) fn whoever_is_delayed_is_delayed_in_the_new_process(house: &House) {
    let (mut pooler, _first, mut client) = delayed(house, "rate_takeover", &[]);
    let mut second = pooler.client("u", "rate_takeover");
    second.ask("select 'as well'");
    await_delayed(&pooler, "r", 2);
    pooler.restart_online();
    // The new process begins with a full bucket: one of the clients goes on.
    wait_until("one is admitted", LIMIT, || counts(&pooler, "r") == [1, 1, 0]);
    assert_eq!(pooler.console("SET rate_limits.r = ''").errors, []);
    assert_eq!((client.answer().value(), second.answer().value()), ("went on".to_owned(), "as well".to_owned()));
}

pub(crate) fn rules_are_made_and_removed_on_the_console(house: &House) {
    let pooler = house.pooler("rate_console", &[]);
    let error = pooler.console("SET rate_limits.r = 'events=transactions rat=1'").errors[0].clone();
    assert_eq!(error.detail, "unrecognized rate limit parameter: rat; did you mean \"rate\"?");
    assert_eq!(pooler.console("SET rate_limits.r = ''").errors[0].detail, "there is no rate limit \"r\"");
    let words = "events=transactions by=user,address user=u address=127.0.0.0/8 rate=30/m burst=7 action=reject";
    assert_eq!(pooler.console(&format!("SET rate_limits.r = '{words}'")).errors, []);
    let shown = row(&pooler, "r");
    let columns = ["events", "by", "only", "rate", "burst", "action", "keys"];
    assert_eq!(
        columns.map(|column| &*shown[column]),
        ["transactions", "user,address", "user=u address=127.0.0.0/8", "30/m", "7", "reject", "0"]
    );
    let answer = pooler.client("stats", "pgbouncer").query("SET rate_limits.r = ''");
    assert_eq!(answer.errors[0].text, "admin access needed");
    // `SET` holds until the next reload.
    let mut client = pooler.client("u", "rate_console");
    (0..7).for_each(|_| client.run("select 1"));
    assert_eq!(client.query("select 1").errors[0].code, "53400");
    assert_eq!(row(&pooler, "r")["keys"], "1");
    assert!(row(&pooler, "r")["limiting_since"].len() > 10);
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    client.run("select 1");
    // A mistake in the file leaves everything as it is.
    pooler.rewrite_raw(&format!("{}[rate_limits]\nr = events=transactions\n", pooler.ini_text()));
    assert_eq!(pooler.console("RELOAD").errors.len(), 1);
    pooler.await_log("rate limit \"r\" has no rate");
}
