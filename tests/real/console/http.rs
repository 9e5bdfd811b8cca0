//! HTTP: metrics, health, tables; who may read them, and what an unauthenticated client can do.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::place::free_port;
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

pub(super) fn pooler(house: &House, database: &str, settings: &[&str]) -> (Pooler, SocketAddr) {
    let port = free_port();
    let http = format!("http_port = {port}");
    let settings: Vec<&str> = settings.iter().copied().chain([http.as_str()]).collect();
    (house.pooler(database, &settings), ([127, 0, 0, 1], port).into())
}

/// The status and the body of an answer.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    say(address, &format!("GET {path} HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n{headers}\r\n"))
}

fn say(address: SocketAddr, request: &str) -> (u16, String) {
    let answer = String::from_utf8_lossy(&answer_to(address, request)).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, body.to_owned())
}

/// Everything that comes until the connection ends.
fn answer_to(address: SocketAddr, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

pub(crate) fn metrics_tell_what_has_been_done_in_both_formats(house: &House) {
    let (pooler, address) = pooler(house, "http_metrics", &[]);
    let mut client = pooler.client("u", "http_metrics");
    (0..5).for_each(|_| client.run("select 1"));
    let (status, body) = get(address, "/metrics", "");
    assert_eq!(status, 200);
    for line in [
        "trunkline_transactions_total{database=\"http_metrics\"} 5.0",
        "trunkline_servers_opened_total{database=\"http_metrics\",user=\"u\",cause=\"client\"} 1.0",
        "trunkline_transaction_duration_seconds_count{database=\"http_metrics\",user=\"u\"} 5",
        "pgbouncer_pools_server_idle_connections{database=\"http_metrics\",user=\"u\"} 1.0",
        "pgbouncer_stats_queries_pooled_total{database=\"http_metrics\"} 5.0",
        "# TYPE trunkline_transactions_total counter",
    ] {
        assert!(body.lines().any(|told| told == line), "{line} is missing:\n{body}");
    }
    let (_, open) = get(address, "/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(open.contains("# TYPE trunkline_transactions counter\n") && open.ends_with("# EOF\n"), "{open}");
}

pub(crate) fn metrics_are_compressed_for_clients_that_accept_gzip(house: &House) {
    let (_pooler, address) = pooler(house, "http_gzip", &[]);
    let request = "GET /metrics HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n";
    let answer = answer_to(address, request);
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let (head, body) = (String::from_utf8_lossy(&answer[..head]).to_lowercase(), &answer[head + 4..]);
    assert!(head.contains("\r\ncontent-encoding: gzip\r\n"), "{head}");
    assert!(head.contains("\r\nvary: accept, accept-encoding"), "{head}");
    let mut gzip = Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip");
    gzip.stdin.take().expect("its input").write_all(body).expect("a body");
    let output = gzip.wait_with_output().expect("an output");
    assert!(output.status.success() && output.stdout.starts_with(b"# HELP trunkline_"), "{output:?}");
}

pub(crate) fn tables_are_told_as_json(house: &House) {
    let (pooler, address) = pooler(house, "http_tables", &[]);
    pooler.client("u", "http_tables").run("select 1");
    let (status, body) = get(address, "/api/v1/pools", "");
    assert_eq!(status, 200);
    assert!(body.starts_with("{\"rows\":[{\"database\":\"http_tables\",\"user\":\"u\",\"cl_active\":"), "{body}");
    assert_eq!(get(address, "/api/v1/fds", "").0, 404, "descriptors and secrets stay with the console");
    assert_eq!(get(address, "/api/v1/nonsense", "").0, 404);
    let (status, body) = get(address, "/api/v1", "");
    assert!(status == 200 && body.contains("/api/v1/waits") && !body.contains("fds"), "{body}");
}

pub(crate) fn slow_connections_leave_places_to_who_sends_a_request(house: &House) {
    let (pooler, address) = pooler(house, "http_slow", &[]);
    // A page that is open keeps its place.
    let mut follower = Follower::begin(address, "");
    follower.await_text("event: at");
    let slow = |_| {
        let mut stream = TcpStream::connect(address).expect("a connection");
        // The pooler may have closed it already for another.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc");
        stream
    };
    let mut all: Vec<TcpStream> = (0..300).map(slow).collect();
    for _ in 0..3 {
        let begun = Instant::now();
        assert_eq!(get(address, "/metrics", "").0, 200);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        all.extend((0..100).map(slow));
    }
    pooler.console("PAUSE http_slow");
    follower.await_text("PAUSE 'http_slow'");
}

pub(crate) fn health_says_whether_clients_are_served(house: &House) {
    let (pooler, address) = pooler(house, "http_health", &[]);
    let ready = |path: &str| get(address, path, "");
    assert_eq!(ready("/live"), (200, "alive\n".to_owned()));
    assert_eq!(ready("/ready"), (200, "ready\n".to_owned()));
    assert_eq!(ready("/ready?db=http_health").0, 200);
    assert_eq!(ready("/ready?db=nobody").0, 404);
    pooler.console("PAUSE http_health");
    assert_eq!(ready("/ready?db=http_health"), (503, "database \"http_health\" is paused\n".to_owned()));
    assert_eq!(ready("/ready").0, 200);
    pooler.console("RESUME http_health");
    let _client = pooler.client("u", "http_health");
    pooler.console("SHUTDOWN WAIT_FOR_CLIENTS");
    assert_eq!(ready("/ready").0, 503);
    assert_eq!(ready("/live").0, 200);
}

pub(crate) fn a_database_whose_host_refuses_is_not_ready(house: &House) {
    let http = free_port();
    let line = format!("gone = host=127.0.0.1 port={} dbname=postgres", free_port());
    let settings = [format!("http_port = {http}"), "server_login_retry = 60".to_owned()];
    let ini = settings.iter().fold(tests::pooler::Ini::new(&line), |ini, setting| ini.set(setting));
    let pooler = house.start(&ini);
    let address = ([127, 0, 0, 1], http).into();
    assert_eq!(get(address, "/ready?db=gone", "").0, 200, "nobody has tried");
    let mut waiter = pooler.knock();
    waiter.send(&tests::message::startup(0, &[("user", "u"), ("database", "gone")]));
    let mut told = (0, String::new());
    let is_told = || {
        told = get(address, "/ready?db=gone", "");
        told.0 == 503
    };
    wait_until("the database is not ready", LIMIT, is_told);
    let wanted = "database \"gone\": its host cannot be reached or refuses us (connect failed";
    assert!(told.1.starts_with(wanted), "{told:?}");
    assert_eq!(get(address, "/ready", "").0, 200);
}

pub(crate) fn the_stream_tells_events_as_they_happen(house: &House) {
    let (pooler, address) = pooler(house, "http_news", &[]);
    let mut follower = Follower::begin(address, "");
    follower.await_text("event: at");
    pooler.console("PAUSE http_news");
    follower.await_text("PAUSE 'http_news'");
    assert!(follower.told.contains("event: events") && follower.told.contains("\"kind\":\"order\""));
    assert!(!follower.told.contains("\"kind\":\"start\""), "what was before is told only to who asks");
    let mut back = Follower::begin(address, "Last-Event-ID: 0\r\n");
    back.await_text("PAUSE 'http_news'");
    assert!(back.told.contains("\"kind\":\"start\""), "{}", back.told);
    pooler.console("RESUME http_news");
}

/// Before, the new process began with an empty list, and its own events had ids that readers knew already.
pub(crate) fn events_and_their_ids_outlive_an_online_restart(house: &House) {
    let (mut pooler, address) = pooler(house, "http_heritage", &[]);
    let mut follower = Follower::begin(address, "");
    follower.await_text("event: at");
    pooler.console("PAUSE http_heritage");
    pooler.console("RESUME http_heritage");
    follower.await_text("RESUME 'http_heritage'");
    pooler.restart_online();
    let events = pooler.console("SHOW EVENTS");
    let kinds: Vec<_> = (0..events.rows.len()).map(|row| events.named(row)["kind"].clone()).collect();
    assert_eq!(kinds, ["start", "order", "order", "order", "restart", "start"], "{events:?}");
    let id = follower.last_id();
    let mut back = Follower::begin(address, &format!("Last-Event-ID: {id}\r\n"));
    back.await_text(&format!("process {}", pooler.pid()));
    assert!(!back.told.contains("PAUSE") && back.last_id() > id, "{}", back.told);
}

/// The stream broke off in the middle of its body, which browsers report as an error.
pub(crate) fn the_stream_ends_properly_when_its_process_ends(house: &House) {
    let (mut pooler, address) = pooler(house, "http_ends", &[]);
    let mut old = Follower::begin(address, "");
    old.await_text("event: at");
    pooler.restart_online();
    assert!(old.rest().ends_with("\r\n0\r\n\r\n"), "{}", old.told);
    let mut new = Follower::begin(address, "");
    new.await_text("event: at");
    pooler.signal(Signal::SIGQUIT);
    assert!(new.rest().ends_with("\r\n0\r\n\r\n"), "{}", new.told);
    pooler.await_end(LIMIT);
}

/// A client that reads the event stream.
struct Follower {
    stream: TcpStream,
    told: String,
}

impl Follower {
    fn begin(address: SocketAddr, headers: &str) -> Self {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
        let request = format!("GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        Self { stream, told: String::new() }
    }

    /// The id of the last events.
    fn last_id(&self) -> u64 {
        let (_, rest) = self.told.rsplit_once("\"next\":").expect("events");
        rest.split(',').next().and_then(|id| id.parse().ok()).expect("an id")
    }

    /// Everything until the connection ends.
    fn rest(&mut self) -> &str {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the rest of the stream");
        self.told.push_str(&String::from_utf8_lossy(&rest));
        &self.told
    }

    fn await_text(&mut self, wanted: &str) {
        let (begun, mut piece) = (Instant::now(), [0; 65_536]);
        while !self.told.contains(wanted) {
            let read = self.stream.read(&mut piece).expect("more of the stream");
            assert!(read > 0 && begun.elapsed() < LIMIT, "the stream is without {wanted}: {}", self.told);
            self.told.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    }
}

pub(crate) fn what_strangers_send_is_refused_with_words(house: &House) {
    let (pooler, address) = pooler(house, "http_strangers", &[]);
    assert_eq!(say(address, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").0, 405);
    assert_eq!(say(address, "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").0, 421);
    assert_eq!(say(address, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").0, 400);
    assert_eq!(get(address, "/metrics", "Origin: https://evil.example\r\n").0, 403);
    assert_eq!(get(address, "/metrics", &format!("X: {}\r\n", "x".repeat(100_000))).0, 431);
    assert_eq!(say(address, "\0\0\0\u{8}\u{4}\u{d2}\u{16}/ nonsense\r\n\r\n").0, 400);
    let sockets: Vec<_> =
        (0..200).filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()).collect();
    pooler.client("u", "http_strangers").run("select 1");
    drop(sockets);
    wait_until("an answer again", LIMIT, || get(address, "/live", "").0 == 200);
}

pub(crate) fn a_hundred_scrapers_keep_nobody_waiting(house: &House) {
    let (pooler, address) = pooler(house, "http_scrapes", &[]);
    let mut client = pooler.client("u", "http_scrapes");
    client.run("select 1");
    let scrapers: Vec<_> = (0..40)
        .map(|_| std::thread::spawn(move || (0..5).map(|_| get(address, "/metrics", "").0).collect::<Vec<_>>()))
        .collect();
    for _ in 0..50 {
        client.run("select 1");
    }
    for scraper in scrapers {
        let told = scraper.join().expect("a scraper");
        assert!(told.iter().all(|status| matches!(status, 200 | 503)), "{told:?}");
    }
    let stats = pooler.console("SHOW STATS EXTENDED");
    let rows = (0..stats.rows.len()).map(|row| stats.named(row));
    assert!(rows.filter(|row| row["database"] == "http_scrapes").all(|row| row["slow_turn_count"] == "0"), "{stats:?}");
}
