//! An OpenTelemetry collector that accepts OTLP over HTTP as JSON, and records the requests.
//!
//! Always true: each connection carries one request; a request is recorded before it is answered; the collector ends with
//! its guard.
//! Not here: any use of the spans.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::{ServerConnection, StreamOwned};
use serde_json::Value;

use crate::authority::Identity;
use crate::fake_server::{FakeServer, tls};
use crate::wait::{LIMIT, wait_for};

/// A collector on 127.0.0.1.
#[derive(Debug)]
pub struct Collector {
    server: FakeServer,
    book: Arc<Mutex<Book>>,
    scheme: &'static str,
}

/// The recorded requests, and how the collector answers.
#[derive(Debug, Default)]
struct Book {
    posts: Vec<Post>,
    answers: Answers,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Post {
    /// Its request line and its headers.
    pub head: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// How the collector answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// It accepts everything.
    #[default]
    Takes,
    /// It refuses with this status and these lines of the head.
    With(u16, &'static str),
    /// It does not answer.
    Never,
}

/// A span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// The trace, in hexadecimal digits.
    pub trace: String,
    /// Its span ID.
    pub id: String,
    /// The `tracestate` of its trace; empty if there is none.
    pub state: String,
    /// The ID of its parent span.
    pub parent: String,
    /// When it began, in microseconds since 1970.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// Whether its status is an error.
    pub is_error: bool,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    /// Its duration, in microseconds.
    pub fn micros(&self) -> u64 {
        self.ended - self.begun
    }

    /// The value of an attribute; empty if there is none.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    fn read(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}")).to_owned();
        let micros = |key: &str| text(key).parse::<u64>().expect("nanoseconds") / 1000;
        let attributes = value["attributes"].as_array().expect("attributes").iter().map(|attribute| {
            let (_, value) = attribute["value"].as_object().expect("a value").iter().next().expect("of one type");
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (attribute["key"].as_str().expect("a key").to_owned(), value)
        });
        Self {
            name: text("name"),
            trace: text("traceId"),
            id: text("spanId"),
            state: value["traceState"].as_str().unwrap_or_default().to_owned(),
            parent: text("parentSpanId"),
            begun: micros("startTimeUnixNano"),
            ended: micros("endTimeUnixNano"),
            is_error: value["status"]["code"] == 2,
            attributes: attributes.collect(),
        }
    }
}

impl Collector {
    /// Opens a collector that accepts everything.
    ///
    /// # Panics
    /// When no port is free.
    pub fn open() -> Self {
        let book = Arc::new(Mutex::new(Book::default()));
        let known = book.clone();
        let server = FakeServer::open(move |mut stream| serve(&mut stream, &known));
        Self { server, book, scheme: "http" }
    }

    /// The same over TLS.
    ///
    /// # Panics
    /// When no port is free, or the certificate is invalid.
    pub fn open_secured(identity: &Identity) -> Self {
        let (config, book) = (Arc::new(tls(identity)), Arc::new(Mutex::new(Book::default())));
        let known = book.clone();
        let server = FakeServer::open(move |stream: TcpStream| {
            let connection = ServerConnection::new(config.clone()).expect("a good configuration");
            serve(&mut StreamOwned::new(connection, stream), &known);
        });
        Self { server, book, scheme: "https" }
    }

    /// The setting that makes the pooler send spans here.
    pub fn setting(&self) -> String {
        format!("otlp_endpoint = {}", self.url())
    }

    /// The URL of the collector.
    pub fn url(&self) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}/v1/traces", self.scheme, self.server.port())
    }

    /// Sets how it answers from now on.
    pub fn answer(&self, answers: Answers) {
        self.book().answers = answers;
    }

    /// The requests so far.
    pub fn posts(&self) -> Vec<Post> {
        self.book().posts.clone()
    }

    /// The spans received so far.
    pub fn spans(&self) -> Vec<Span> {
        self.posts().iter().flat_map(|post| spans(&post.body)).collect()
    }

    /// Waits for the spans of a trace.
    ///
    /// # Panics
    /// When they do not arrive.
    pub fn await_trace(&self, trace: &str) -> Vec<Span> {
        wait_for(&format!("spans of the trace {trace}"), LIMIT, || {
            let spans: Vec<_> = self.spans().into_iter().filter(|span| span.trace == trace).collect();
            (!spans.is_empty()).then_some(spans)
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nobody panics with it")
    }
}

fn spans(body: &[u8]) -> Vec<Span> {
    let all: Value = serde_json::from_slice(body).expect("JSON");
    let lists = all["resourceSpans"].as_array().expect("resources").iter();
    let lists = lists.flat_map(|resource| resource["scopeSpans"].as_array().expect("scopes"));
    lists.flat_map(|scope| scope["spans"].as_array().expect("spans")).map(Span::read).collect()
}

/// Reads one request and answers it. Anything else is ignored.
fn serve(stream: &mut (impl Read + Write), book: &Mutex<Book>) {
    let Some(post) = read(stream) else { return };
    let answers = {
        let mut book = book.lock().expect("nobody panics with it");
        book.posts.push(post);
        book.answers
    };
    let answer = match answers {
        Answers::Takes => "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
        Answers::With(status, lines) => format!("HTTP/1.1 {status} No\r\n{lines}Content-Length: 0\r\n\r\n"),
        Answers::Never => {
            // Until the other side gives up.
            let _ = stream.read(&mut [0]);
            return;
        }
    };
    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
}

fn read(stream: &mut impl Read) -> Option<Post> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Post { head, body })
}
