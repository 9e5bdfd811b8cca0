//! Spans of statements that carry a `traceparent` are posted to an OpenTelemetry collector.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Random;
use tests::authority::Authority;
use tests::client::Client;
use tests::collector::{Answers, Collector, Span};
use tests::message;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_until};

use crate::console::http::get;
use crate::house::House;

/// A trace ID made from this number, and the comment that makes a statement part of the trace.
fn trace(number: u32) -> (String, String) {
    let trace = format!("{:032x}", u128::from(number) << 64 | 0xfeed_0000_0000_0000);
    let comment = format!("/*traceparent='00-{trace}-{PARENT}-01'*/");
    (trace, comment)
}

/// The application's span.
const PARENT: &str = "00f067aa0ba902b7";

/// A configuration with these settings besides the common ones, for an existing database.
fn ini(house: &House, database: &str, settings: &[&str]) -> Ini {
    let ini = Ini::new(&house.line(database)).set("pool_mode = transaction");
    settings.iter().fold(ini, |ini, setting| ini.set(setting))
}

fn pooler(house: &House, database: &str, collector: &Collector, settings: &[&str]) -> Pooler {
    house.postgres.database(database);
    house.start(&ini(house, database, settings).set(&collector.setting()))
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name:?} in {spans:#?}"))
}

fn roots(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.parent == PARENT).collect()
}

fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64
}

/// Returns whether a post contains this text.
fn is_posted(collector: &Collector, text: &str) -> bool {
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    collector.posts().iter().any(|post| has(&post.body) || has(post.head.as_bytes()))
}

/// The value of a metric.
fn metric(port: u16, name: &str) -> f64 {
    let (_, body) = get(([127, 0, 0, 1], port).into(), "/metrics", "");
    let line = body.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {body}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

pub(crate) fn a_statement_has_spans_of_its_wait_and_of_its_server(house: &House) {
    let collector = Collector::open();
    let pooler = pooler(house, "spans_wait", &collector, &["default_pool_size = 1", "otlp_service_name = front"]);
    let (mut first, mut second) = (pooler.client("u", "spans_wait"), pooler.client("u", "spans_wait"));
    let (trace, comment) = trace(1);
    let comment = comment.replace("/*", "/*tracestate='congo%3Dt61rcWkgMzE',");
    first.run("begin");
    let begun = micros();
    second.ask(&format!("select 'topsecret', 4711.0815, pg_sleep(300e-4) {comment}"));
    pooler.await_pool("spans_wait", "cl_waiting", "1");
    let waits = Instant::now();
    wait_until("20 ms", LIMIT, || waits.elapsed() >= Duration::from_millis(20));
    first.run("commit");
    assert!(second.answer().errors.is_empty());
    let ended = micros();
    let spans = collector.await_trace(&trace);
    let (root, wait, server) =
        (named(&spans, "trunkline spans_wait"), named(&spans, "wait for a server"), named(&spans, "server"));
    assert_eq!((&*root.parent, &*wait.parent, &*server.parent), (PARENT, &*root.id, &*root.id));
    // All processes use the clock of one machine; the tolerance covers adjustments of the clock in between.
    assert!(begun <= root.begun + 5_000 && root.ended <= ended + 5_000, "{begun} {root:#?} {ended}");
    assert!(wait.micros() >= 20_000 && server.micros() >= 30_000, "{spans:#?}");
    assert!(wait.micros() + server.micros() <= root.micros() && root.micros() <= ended - begun, "{spans:#?}");
    assert_eq!((wait.begun, server.ended), (root.begun, root.ended));
    assert_eq!(wait.attribute("trunkline.wait.reason"), "none_free");
    assert!(spans.iter().all(|span| span.state == "congo=t61rcWkgMzE"), "{spans:#?}");
    for span in [root, server] {
        assert_eq!(span.attribute("db.system.name"), "postgresql");
        assert_eq!(span.attribute("db.namespace"), "spans_wait");
        assert_eq!(span.attribute("db.query.text"), "select ?, ..., pg_sleep(?)");
        assert!(!span.is_error && span.attribute("error.type").is_empty());
    }
    assert_eq!(server.attribute("server.port"), house.postgres.port().to_string());
    assert_eq!(server.attribute("db.response.returned_rows"), "1");
    let first_byte: f64 = server.attribute("trunkline.first_byte_seconds").parse().expect("a number");
    assert!(first_byte >= 0.03, "{server:#?}");
    for secret in ["topsecret", "4711.0815", "300e-4"] {
        assert!(!is_posted(&collector, secret), "{secret}");
    }
    let post = collector.posts().remove(0);
    let head = post.head.to_ascii_lowercase();
    assert!(
        head.starts_with("post /v1/traces http/1.1\r\n") && head.contains("\r\ncontent-type: application/json\r\n")
    );
    assert!(is_posted(&collector, r#"{"key":"service.name","value":{"stringValue":"front"}}"#));
}

pub(crate) fn only_statements_of_sampled_traces_have_spans(house: &House) {
    let collector = Collector::open();
    let pooler = pooler(house, "spans_sampled", &collector, &[]);
    let mut client = pooler.client("u", "spans_sampled");
    let (other, good) = trace(1);
    let unsampled = good.replace("-01'", "-00'");
    for comment in [
        "",
        &unsampled,
        &good.to_uppercase(),
        &good.replace("-01'", "-01"),
        &good.replace("-01'", "-1'"),
        &good.replace("'00-", "'ff-"),
        &good.replace(&other, &"0".repeat(32)),
        &good.replace(PARENT, &"0".repeat(16)),
        &good.replace(PARENT, &"a".repeat(10_000)),
        &good.replace("-01'", &format!("-01{}'", "0".repeat(10_000))),
    ] {
        client.run(&format!("select 1 {comment}"));
    }
    client.run(&format!("select '{}'", good.replace('\'', "''")));
    let (trace, comment) = trace(2);
    client.run(&format!("{comment} select 1"));
    assert_eq!(roots(&collector.await_trace(&trace)).len(), 1);
    assert!(collector.spans().iter().all(|span| span.trace == trace), "{:#?}", collector.spans());
}

pub(crate) fn the_ratio_decides_by_the_id_of_the_trace(house: &House) {
    let collector = Collector::open();
    let pooler = pooler(house, "spans_ratio", &collector, &["otlp_sample_ratio = 0.5"]);
    let mut client = pooler.client("u", "spans_ratio");
    let mut random = Random::new(7);
    let traces: Vec<_> = (0..60).map(|_| u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())).collect();
    for trace in &traces {
        client.run(&format!("select 1 /*traceparent='00-{trace:032x}-{PARENT}-01'*/"));
    }
    // A trace ID of all ones is above any sampling threshold.
    let last = "f".repeat(32);
    client.run(&format!("select 1 /*traceparent='00-{last}-{PARENT}-01'*/"));
    collector.await_trace(&last);
    let spans = collector.spans();
    for trace in traces {
        let has = spans.iter().any(|span| span.trace == format!("{trace:032x}"));
        assert_eq!(
            has,
            trace as u64 & (1 << 55) != 0,
            "{trace:032x}: its last seven bytes are a number above the half, or not"
        );
    }
}

pub(crate) fn a_prepared_statement_has_them_when_it_is_prepared_and_executed_first(house: &House) {
    let collector = Collector::open();
    let pooler = pooler(house, "spans_prepared", &collector, &[]);
    let mut client = pooler.client("u", "spans_prepared");
    let mut say = |messages: &[Vec<u8>]| {
        client.peer.send(&messages.concat());
        assert!(client.answer().errors.is_empty());
    };
    let execute = |name: &str| [message::bind("", name, &["topsecret"]), message::execute("", 0)].concat();
    let ((one, one_comment), (two, two_comment), (last, last_comment)) = (trace(1), trace(2), trace(3));
    say(&[
        message::parse("a", &format!("select $1::text {one_comment}")),
        message::describe(b'S', "a"),
        message::sync(),
    ]);
    say(&[execute("a"), message::sync()]);
    say(&[execute("a"), message::sync()]);
    // All in one write, as drivers without a statement cache do.
    say(&[message::parse("b", &format!("select $1::text {two_comment}")), execute("b"), message::sync()]);
    say(&[execute("b"), message::sync()]);
    say(&[message::parse("c", &format!("select $1::text {last_comment}")), message::sync()]);
    // Another trace's statement comes in between.
    say(&[execute("a"), message::sync()]);
    say(&[execute("c"), message::sync()]);
    let (end, comment) = trace(4);
    say(&[message::query(&format!("select 1 {comment}"))]);
    collector.await_trace(&end);
    let spans = collector.spans();
    let count = |trace: &str| roots(&spans).iter().filter(|span| span.trace == trace).count();
    assert_eq!((count(&one), count(&two), count(&last)), (2, 1, 1), "{spans:#?}");
    assert!(!is_posted(&collector, "topsecret"));
}

pub(crate) fn a_text_may_come_in_parts_and_be_long(house: &House) {
    let collector = Collector::open();
    let pooler = pooler(house, "spans_parts", &collector, &[]);
    let mut client = pooler.client("u", "spans_parts");
    client.run("begin");
    let ((torn, torn_comment), (before, before_comment), (behind, behind_comment)) = (trace(1), trace(2), trace(3));
    // A client that has a server is forwarded as its bytes arrive.
    let request = message::query(&format!("select 1 {torn_comment}"));
    let received = || {
        let stats = pooler.console("SHOW STATS");
        let mut rows = (0..stats.rows.len()).map(|row| stats.named(row));
        rows.find(|row| row["database"] == "spans_parts").map(|row| row["total_received"].clone())
    };
    let before_it = received();
    client.peer.send(&request[..40]);
    wait_until("a part of it is received", LIMIT, || received() != before_it);
    client.peer.send(&request[40..]);
    assert!(client.answer().errors.is_empty());
    client.run("commit");
    let long = "x".repeat(100_000);
    client.run(&format!("{before_comment} select '{long}'"));
    client.run(&format!("select '{}' {behind_comment}", &long[..12_000]));
    client.run(&format!("select '{long}' {}", trace(4).1));
    let (end, comment) = trace(5);
    client.run(&format!("select 1 {comment}"));
    collector.await_trace(&end);
    let spans = collector.spans();
    let traces: Vec<_> = roots(&spans).iter().map(|span| span.trace.clone()).collect();
    assert_eq!(traces, [torn, before, behind, end], "what stands behind 16 kB is not looked at");
    assert!(!is_posted(&collector, "xxxx"));
}

pub(crate) fn errors_are_told_by_their_codes(house: &House) {
    let collector = Collector::open();
    let settings = ["default_pool_size = 1", "query_wait_timeout = 1"];
    let pooler = pooler(house, "spans_errors", &collector, &settings);
    let client = || pooler.client("u", "spans_errors");
    let (mut first, mut second) = (client(), client());
    let text = |number: u32, sql: &str| format!("{sql} {}", trace(number).1);
    let code = |number: u32| {
        let spans = collector.await_trace(&trace(number).0);
        let root = named(&spans, "trunkline spans_errors");
        assert!(root.is_error, "{spans:#?}");
        (root.attribute("error.type").to_owned(), root.attribute("db.response.status_code").to_owned(), spans)
    };
    let both = |code: &str| (code.to_owned(), code.to_owned());
    assert_eq!(first.query(&text(1, "select 1/0")).error().code, "22012");
    let (kind, state, spans) = code(1);
    assert_eq!((kind, state), both("22012"));
    assert!(named(&spans, "server").is_error);
    // The client waits for a server in vain.
    first.run("begin");
    let unserved = second.query(&text(2, "select 1")).error().code.clone();
    let (kind, state, spans) = code(2);
    assert_eq!((kind, state), both(&unserved));
    let wait = named(&spans, "wait for a server");
    assert!(wait.is_error && wait.micros() >= 900_000 && spans.len() == 2, "{spans:#?}");
    assert_eq!(wait.attribute("trunkline.wait.reason"), "none_free");
    // The client cancels its request while it waits.
    let mut third = client();
    third.ask(&text(3, "select 1"));
    pooler.await_pool("spans_errors", "cl_waiting", "1");
    third.cancel();
    assert_eq!(third.answer().error().code, "57014");
    let (kind, state, spans) = code(3);
    assert_eq!(((kind, state), spans.len()), (both("57014"), 2));
    // The server ends.
    first.run("commit");
    let pid = first.value("select pg_backend_pid()");
    first.ask(&text(4, "select pg_sleep(100)"));
    pooler.await_pool("spans_errors", "sv_active", "1");
    house.postgres.client("spans_errors").run(&format!("select pg_terminate_backend({pid})"));
    first.answer();
    let (kind, _, _) = code(4);
    assert_eq!(kind, "57P01");
    // The client disconnects.
    let mut fourth = client();
    fourth.ask(&text(5, "select pg_sleep(100)"));
    pooler.await_pool("spans_errors", "sv_active", "1");
    drop(fourth);
    let (kind, state, _) = code(5);
    assert_eq!((&*kind, &*state), ("client_left", ""));
}

pub(crate) fn they_are_off_by_default_and_a_reload_switches_them(house: &House) {
    let (collector, other) = (Collector::open(), Collector::open());
    let database = "spans_reload";
    house.postgres.database(database);
    let pooler = house.start(&ini(house, database, &[]));
    let mut client = pooler.client("u", database);
    client.run(&format!("select 1 {}", trace(1).1));
    let set = |settings: &[&str]| {
        pooler.rewrite(&ini(house, database, settings));
        pooler.console("RELOAD");
    };
    set(&[&collector.setting()]);
    client.run(&format!("select 2 {}", trace(2).1));
    collector.await_trace(&trace(2).0);
    set(&[&other.setting(), "otlp_values = 1"]);
    client.run(&format!("select 3 {}", trace(3).1));
    let spans = other.await_trace(&trace(3).0);
    assert!(spans[0].attribute("db.query.text").starts_with("select 3 /*traceparent="), "{spans:#?}");
    set(&[]);
    client.run(&format!("select 4 {}", trace(4).1));
    set(&[&other.setting()]);
    client.run(&format!("select 5 {}", trace(5).1));
    other.await_trace(&trace(5).0);
    let traces =
        |collector: &Collector| roots(&collector.spans()).iter().map(|span| span.trace.clone()).collect::<Vec<_>>();
    assert_eq!((traces(&collector), traces(&other)), (vec![trace(2).0], vec![trace(3).0, trace(5).0]));
}

pub(crate) fn a_collector_that_is_down_or_slow_delays_nobody(house: &House) {
    let collector = Collector::open();
    collector.answer(Answers::With(503, "Retry-After: 1\r\n"));
    let port = free_port();
    let http = format!("http_port = {port}");
    let pooler = pooler(house, "spans_down", &collector, &[&http]);
    let mut client = pooler.client("u", "spans_down");
    client.run(&format!("select 1 {}", trace(1).1));
    pooler.await_log("spans cannot be posted to");
    wait_until("another try", LIMIT, || collector.posts().len() >= 2);
    let posts = collector.posts();
    assert!(posts.iter().all(|post| post.body == posts[0].body), "a batch keeps its ids");
    collector.answer(Answers::Takes);
    pooler.await_log("again; 0 have been dropped meanwhile");
    assert!(
        metric(port, "trunkline_spans_sent_total") >= 2.0
            && metric(port, "trunkline_span_export_failures_total") >= 2.0
    );
    // A refused batch is dropped, and the log has one line about it.
    collector.answer(Answers::With(401, ""));
    for number in 10..13 {
        let seen = collector.posts().len();
        client.run(&format!("select 1 {}", trace(number).1));
        wait_until("it is posted", LIMIT, || collector.posts().len() > seen);
    }
    wait_until("three are counted", LIMIT, || metric(port, "trunkline_spans_dropped_total{reason=\"refused\"}") >= 6.0);
    assert_eq!(pooler.log().matches("spans cannot be posted to").count(), 2, "{}", pooler.log());
    assert!(pooler.log().contains("it answers with status 401"));
    // A collector that does not answer, and far more spans than the pooler keeps.
    collector.answer(Answers::Never);
    let seen = collector.posts().len();
    client.run(&format!("select 1 {}", trace(20).1));
    wait_until("it is posted", LIMIT, || collector.posts().len() > seen);
    let before = pooler.memory_kb("VmRSS");
    let batch: Vec<u8> = (0..100).flat_map(|number| message::query(&format!("select 1 {}", trace(number).1))).collect();
    let begun = Instant::now();
    let mut rounds = 0;
    while metric(port, "trunkline_spans_dropped_total{reason=\"full\"}") == 0.0 {
        assert!(begun.elapsed() < LIMIT, "nothing is dropped after {rounds} rounds");
        for one in batch.chunks(batch.len() / 100) {
            client.peer.send(one);
            assert!(client.answer().errors.is_empty());
        }
        rounds += 1;
    }
    assert!(pooler.memory_kb("VmRSS") < before + 32 * 1024, "{before} kB before");
    let slow = Instant::now();
    (0..100).for_each(|_| client.run("select 1"));
    assert!(slow.elapsed() < Duration::from_secs(5));
}

pub(crate) fn a_collector_may_want_tls_and_a_token(house: &House) {
    let authority = Authority::new("the authority of collectors");
    let collector = Collector::open_secured(&authority.signs("collector", &["localhost"]));
    let file = format!("otlp_ca_file = {}", authority.file(&house.place).display());
    let headers = "otlp_headers = api-key=topsecret%2C1, x-other=2";
    let settings = [&*file, headers, "log_connections = 0"];
    let pooler = pooler(house, "spans_tls", &collector, &settings);
    let mut client = pooler.client("u", "spans_tls");
    client.run(&format!("select 1 {}", trace(1).1));
    collector.await_trace(&trace(1).0);
    let head = collector.posts().remove(0).head.to_ascii_lowercase();
    assert!(head.contains("\r\napi-key: topsecret,1\r\n") && head.contains("\r\nx-other: 2\r\n"), "{head}");
    let shown = pooler.console("SHOW CONFIG");
    let rows: Vec<_> = (0..shown.rows.len()).map(|row| shown.named(row)).collect();
    let row = rows.iter().find(|row| row["key"] == "otlp_headers").expect("it is a setting");
    assert_eq!(row["value"], "api-key=***,x-other=***");
    // A certificate of another authority is not accepted.
    let stranger = Authority::new("a stranger");
    let other = format!("otlp_ca_file = {}", stranger.file(&house.place).display());
    pooler.rewrite(&ini(house, "spans_tls", &[&other, headers, &collector.setting()]));
    pooler.console("RELOAD");
    client.run(&format!("select 1 {}", trace(2).1));
    pooler.await_log("spans cannot be posted to https://localhost:");
    assert!(collector.spans().iter().all(|span| span.trace == trace(1).0));
    assert!(!pooler.log().contains("topsecret"), "{}", pooler.log());
}

pub(crate) fn a_bad_url_is_refused_by_name(house: &House) {
    for (setting, why) in [
        ("otlp_endpoint = banana", "parameter otlp_endpoint"),
        ("otlp_endpoint = http://user:topsecret@a/", "it has a user in it"),
        ("otlp_headers = topsecret", "parameter otlp_headers"),
        ("otlp_sample_ratio = 10%", "write 0.1"),
    ] {
        let (status, said) = Pooler::start_in_vain(&house.place, &Ini::new(&house.line("postgres")).set(setting));
        assert!(status != 0 && said.contains(why) && !said.contains("topsecret"), "{setting}: {said}");
    }
}

/// A client that sends statements with spans at full speed takes neither the processor nor the spans of others.
pub(crate) fn a_flood_of_traces_leaves_room_for_others(house: &House) {
    let collector = Collector::open();
    let pooler = pooler(house, "spans_flood", &collector, &["workers = 1"]);
    let mut flooder = pooler.client("u", "spans_flood");
    let mut bystander: Client = pooler.client("u", "spans_flood");
    let batch: Vec<u8> = (0..500).flat_map(|number| message::query(&format!("select 1 {}", trace(number).1))).collect();
    let mut slowest = Duration::ZERO;
    for number in 1000..1020 {
        flooder.peer.send(&batch);
        let begun = Instant::now();
        bystander.run(&format!("select 1 {}", trace(number).1));
        slowest = slowest.max(begun.elapsed());
        (0..500).for_each(|_| assert!(flooder.answer().errors.is_empty()));
    }
    collector.await_trace(&trace(1019).0);
    let spans = collector.spans();
    assert!((1000..1020).all(|number| spans.iter().any(|span| span.trace == trace(number).0)));
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}
