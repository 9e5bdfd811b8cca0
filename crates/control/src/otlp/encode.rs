//! Encodes spans as OTLP JSON (opentelemetry-proto, `ExportTraceServiceRequest`): ids in hexadecimal digits, 64-bit
//! numbers as strings.
//!
//! Always true: the text of a statement contains no values unless `otlp_values` is set, and even then none if it
//! mentions a password; a text is no longer than what the worker has kept. Attribute names follow OpenTelemetry's
//! semantic conventions where these define one.
//! Not here: when spans are sent (`exporter`).

use std::net::SocketAddr;
use std::time::Duration;

use base::{Random, Wall};
use measure::Phase;
use serde_json::{Value, json};
use worker::letters::{ServerSpan, SpanError, SpanText, StatementSpans};

use super::exporter::Posting;
use crate::console::{speaks_of_password, text_without_values};

/// Returns the body of a request to a collector.
pub(super) fn encode(posting: &Posting, hostname: &str) -> Vec<u8> {
    let mut random = Random::new(posting.batch.seed);
    let spans: Vec<_> = posting.batch.statements.iter().flat_map(|statement| spans(statement, &mut random)).collect();
    let version = env!("CARGO_PKG_VERSION");
    let mut resource = Attributes::default();
    resource.text("service.name", &posting.service_name);
    resource.text("service.version", version);
    resource.text("host.name", hostname);
    resource.number("process.pid", u64::from(std::process::id()));
    let scope = json!({ "scope": { "name": "trunkline", "version": version }, "spans": spans });
    let all = json!({ "resourceSpans": [{ "resource": { "attributes": resource.0 }, "scopeSpans": [scope] }] });
    all.to_string().into_bytes()
}

/// Returns the span of a statement and its child spans.
fn spans(statement: &StatementSpans, random: &mut Random) -> Vec<Value> {
    let StatementSpans { parent, state, begun, took, wait, server, error, .. } = statement;
    let trace = hex(&parent.trace_id);
    let mut id = || hex(&(random.next_u64() | 1).to_be_bytes());
    let root = id();
    let waited = wait.map_or(Duration::ZERO, |(_, waited)| waited);
    let text = text(&statement.text, statement.shows_values);
    let mut attributes = about(statement, &text);
    attributes.text("trunkline.user", &statement.user);
    attributes.text("trunkline.client", &format!("C-{:#x}", statement.client));
    attributes.socket(["client.address", "client.port"], statement.client_address);
    attributes.error(*error);
    let mut all = vec![span(Span {
        trace: &trace,
        state,
        id: &root,
        parent: &hex(&parent.span_id),
        is_parent_remote: true,
        name: &format!("trunkline {}", statement.database),
        kind: SERVER,
        begun: *begun,
        took: *took,
        attributes,
        error: *error,
        first_byte: None,
    })];
    let mut child = |name, kind, (after, took): (Duration, Duration), attributes, error, first_byte| {
        let begun = Wall(begun.0.saturating_add(after.as_micros() as i64));
        let id = id();
        let (trace, parent, is_parent_remote) = (&*trace, &*root, false);
        all.push(span(Span {
            trace,
            state,
            id: &id,
            parent,
            is_parent_remote,
            name,
            kind,
            begun,
            took,
            attributes,
            error,
            first_byte,
        }));
    };
    if let Some((why, waited)) = wait {
        let mut attributes = Attributes::default();
        why.iter().for_each(|why| attributes.text("trunkline.wait.reason", why));
        let error = error.filter(|_| server.is_none());
        attributes.error(error);
        child("wait for a server", INTERNAL, (Duration::ZERO, *waited), attributes, error, None);
    }
    if let Some(server) = server {
        if !server.settings.is_zero() {
            child("settings", INTERNAL, (waited, server.settings), Attributes::default(), None, None);
        }
        let mut attributes = about(statement, &text);
        of_server(&mut attributes, server);
        attributes.error(*error);
        let first_byte = Duration::from_micros(server.spent.of(Phase::FirstByte).into());
        let first_byte = Some(first_byte).filter(|first_byte| *first_byte < server.took);
        child("server", CLIENT, (took.saturating_sub(server.took), server.took), attributes, *error, first_byte);
    }
    all
}

/// Returns the attributes common to all spans of a statement.
fn about(statement: &StatementSpans, text: &str) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.text("db.system.name", "postgresql");
    attributes.text("db.namespace", &statement.database);
    if !text.is_empty() {
        let verb = text.split(|char: char| !char.is_ascii_alphabetic()).next().unwrap_or_default();
        if !verb.is_empty() {
            attributes.text("db.operation.name", &verb.to_ascii_uppercase());
        }
        attributes.text("db.query.text", text);
    }
    attributes
}

fn of_server(attributes: &mut Attributes, server: &ServerSpan) {
    attributes.text("trunkline.server", &format!("S-{:#x}", server.id));
    if !server.host.is_empty() {
        attributes.text("server.address", &server.host);
        attributes.number("server.port", server.port.into());
    }
    attributes.text("network.transport", if server.address.is_some() { "tcp" } else { "unix" });
    attributes.socket(["network.peer.address", "network.peer.port"], server.address);
    attributes.number("db.response.returned_rows", server.rows);
    attributes.number("trunkline.response.bytes", server.bytes);
    let phases = [
        ("trunkline.first_byte_seconds", Phase::FirstByte),
        ("trunkline.streaming_seconds", Phase::Streaming),
        ("trunkline.client_blocked_seconds", Phase::Blocked),
    ];
    for (name, phase) in phases {
        attributes.seconds(name, server.spent.of(phase));
    }
}

/// Returns the text of a statement, without values unless they may be shown.
fn text(text: &SpanText, shows_values: bool) -> String {
    let SpanText { bytes, is_whole, dialect } = text;
    if shows_values && !speaks_of_password(bytes) {
        let dots = if *is_whole { "" } else { "..." };
        return format!("{}{dots}", String::from_utf8_lossy(bytes));
    }
    text_without_values(bytes, *is_whole, *dialect).into()
}

struct Span<'s> {
    trace: &'s str,
    /// The `tracestate`; empty if there is none.
    state: &'s str,
    id: &'s str,
    parent: &'s str,
    is_parent_remote: bool,
    name: &'s str,
    kind: u8,
    begun: Wall,
    took: Duration,
    attributes: Attributes,
    error: Option<SpanError>,
    /// Time from the beginning of the span to the first byte.
    first_byte: Option<Duration>,
}

fn span(span: Span<'_>) -> Value {
    let nanos = |after: Duration| {
        let micros = i128::from(span.begun.0) + after.as_micros() as i128;
        (micros.max(0) * 1000).to_string()
    };
    let mut value = json!({
        "traceId": span.trace,
        "spanId": span.id,
        "parentSpanId": span.parent,
        "flags": SAMPLED | KNOWS_REMOTE | if span.is_parent_remote { IS_REMOTE } else { 0 },
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": nanos(Duration::ZERO),
        "endTimeUnixNano": nanos(span.took),
        "attributes": span.attributes.0,
        "status": if span.error.is_some() { json!({ "code": FAILED }) } else { json!({}) },
    });
    if !span.state.is_empty() {
        value["traceState"] = span.state.into();
    }
    if let Some(first_byte) = span.first_byte {
        value["events"] = json!([{ "timeUnixNano": nanos(first_byte), "name": "first byte" }]);
    }
    value
}

/// Attributes: keys with values.
#[derive(Default)]
struct Attributes(Vec<Value>);

impl Attributes {
    fn text(&mut self, key: &str, value: &str) {
        self.0.push(json!({ "key": key, "value": { "stringValue": value } }));
    }

    fn number(&mut self, key: &str, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX).to_string();
        self.0.push(json!({ "key": key, "value": { "intValue": value } }));
    }

    fn seconds(&mut self, key: &str, micros: u32) {
        self.0.push(json!({ "key": key, "value": { "doubleValue": f64::from(micros) / 1e6 } }));
    }

    fn socket(&mut self, [address, port]: [&str; 2], socket: Option<SocketAddr>) {
        if let Some(socket) = socket {
            self.text(address, &socket.ip().to_string());
            self.number(port, socket.port().into());
        }
    }

    fn error(&mut self, error: Option<SpanError>) {
        match error {
            Some(SpanError::State(state)) => {
                let state = String::from_utf8_lossy(&state);
                self.text("error.type", &state);
                self.text("db.response.status_code", &state);
            }
            Some(SpanError::Word(word)) => self.text("error.type", word),
            None => {}
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Span kinds: `SPAN_KIND_INTERNAL`,
const INTERNAL: u8 = 1;
/// `SPAN_KIND_SERVER`,
const SERVER: u8 = 2;
/// `SPAN_KIND_CLIENT`.
const CLIENT: u8 = 3;
/// `STATUS_CODE_ERROR`.
const FAILED: u8 = 2;
/// Span flags: `sampled` of the W3C trace flags,
const SAMPLED: u32 = 1;
/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`,
const KNOWS_REMOTE: u32 = 0x100;
/// `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`.
const IS_REMOTE: u32 = 0x200;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use config::{Endpoint, OtlpHeaders};
    use measure::Division;
    use route::{Dialect, TraceParent};

    use super::super::exporter::Batch;
    use super::*;

    fn statement() -> StatementSpans {
        let mut division = Division::default();
        division.enter(base::Time(0), Phase::FirstByte);
        division.enter(base::Time(30), Phase::Streaming);
        StatementSpans {
            parent: TraceParent { trace_id: [0xab; 16], span_id: [0xcd; 8], is_sampled: true },
            state: "vendor=1".into(),
            begun: Wall(1_700_000_000_000_000),
            took: Duration::from_micros(100),
            database: "shop".into(),
            user: "anna".into(),
            client: 42,
            client_address: "10.0.0.7:4711".parse().ok(),
            wait: Some((Some("none_free"), Duration::from_micros(40))),
            server: Some(ServerSpan {
                id: 31,
                host: "db1".into(),
                port: 5432,
                address: "10.0.0.1:5432".parse().ok(),
                settings: Duration::from_micros(10),
                took: Duration::from_micros(50),
                spent: division.end(base::Time(50)).expect("a transaction"),
                rows: 3,
                bytes: u64::MAX,
            }),
            error: None,
            text: SpanText {
                bytes: b"select 'topsecret', 4711 from t /*traceparent='x'*/"[..].into(),
                is_whole: true,
                dialect: Dialect::default(),
            },
            shows_values: false,
        }
    }

    fn encoded(statement: StatementSpans) -> Vec<Value> {
        let posting = Posting {
            batch: Arc::new(Batch { statements: vec![statement], seed: 7 }),
            endpoint: Arc::new(Endpoint::parse("http://a").expect("a URL")),
            headers: Arc::new(OtlpHeaders::default()),
            ca_file: None,
            service_name: "pooler".into(),
        };
        let all: Value = serde_json::from_slice(&encode(&posting, "h")).expect("JSON");
        let resource = &all["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][0],
            json!({ "key": "service.name", "value": { "stringValue": "pooler" } })
        );
        resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
    }

    fn attribute<'v>(span: &'v Value, key: &str) -> Option<&'v Value> {
        let attributes = span["attributes"].as_array().expect("attributes");
        attributes.iter().find(|attribute| attribute["key"] == key)?["value"].as_object()?.values().next()
    }

    #[test]
    fn a_statement_is_a_span_with_one_in_it_for_each_thing_that_took_its_time() {
        let spans = encoded(statement());
        let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["trunkline shop", "wait for a server", "settings", "server"]);
        let times = spans.iter().map(|span| {
            let micros =
                |key: &str| span[key].as_str().and_then(|nanos| nanos.parse::<u64>().ok()).expect("a time") / 1000;
            (micros("startTimeUnixNano") - 1_700_000_000_000_000, micros("endTimeUnixNano") - 1_700_000_000_000_000)
        });
        assert_eq!(times.collect::<Vec<_>>(), [(0, 100), (0, 40), (40, 50), (50, 100)]);
        assert!(spans.iter().all(|span| span["traceState"] == "vendor=1"), "{spans:?}");
        let without = encoded(StatementSpans { state: "".into(), ..statement() });
        assert!(without.iter().all(|span| span.get("traceState").is_none()), "{without:?}");
        let root = &spans[0];
        assert_eq!((&root["traceId"], &root["parentSpanId"]), (&json!("ab".repeat(16)), &json!("cd".repeat(8))));
        assert!(
            spans[1..].iter().all(|span| span["parentSpanId"] == root["spanId"] && span["traceId"] == root["traceId"])
        );
        assert_eq!(spans.iter().map(|span| span["kind"].as_u64().expect("a kind")).collect::<Vec<_>>(), [2, 1, 1, 3]);
        assert_eq!((root["flags"].as_u64(), spans[3]["flags"].as_u64()), (Some(0x301), Some(0x101)));
        assert_eq!(attribute(&spans[1], "trunkline.wait.reason"), Some(&json!("none_free")));
        assert_eq!(attribute(root, "db.query.text"), Some(&json!("select ?, ... from t")));
        assert_eq!(attribute(root, "db.operation.name"), Some(&json!("SELECT")));
        assert_eq!(attribute(root, "client.address"), Some(&json!("10.0.0.7")));
        assert_eq!(attribute(&spans[3], "server.port"), Some(&json!("5432")));
        assert_eq!(attribute(&spans[3], "trunkline.first_byte_seconds"), Some(&json!(30e-6)));
        assert_eq!(attribute(&spans[3], "trunkline.response.bytes"), Some(&json!(i64::MAX.to_string())));
        assert_eq!(spans[3]["events"][0]["timeUnixNano"], json!("1700000000000080000"));
        assert_eq!(spans.len() as u64, statement().count());
    }

    #[test]
    fn values_are_told_only_where_that_is_said_and_passwords_never() {
        let told = |bytes: &[u8], is_whole, shows_values| {
            let text = SpanText { bytes: bytes.into(), is_whole, dialect: Dialect::default() };
            let spans = encoded(StatementSpans { text, shows_values, ..statement() });
            attribute(&spans[3], "db.query.text").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        assert_eq!(told(b"select 'x', 1", true, true), "select 'x', 1");
        assert_eq!(told(b"select 'x', 1", false, true), "select 'x', 1...");
        for text in [
            &b"alter role a password 'topsecret'"[..],
            b"select 'topsecret",
            b"select 1 -- topsecret",
            b"/*topsecret*/ select 1",
        ] {
            let is_shown =
                told(text, true, false).contains("topsecret") || told(text, false, false).contains("topsecret");
            assert!(!is_shown, "{}", text.escape_ascii());
        }
        assert!(!told(b"alter role a password 'topsecret'", true, true).contains("topsecret"));
    }

    #[test]
    fn an_error_is_told_by_its_code_where_it_happened() {
        let error = Some(SpanError::State(*b"22012"));
        let spans = encoded(StatementSpans { error, ..statement() });
        let codes: Vec<_> = spans.iter().map(|span| span["status"]["code"].as_u64()).collect();
        assert_eq!(codes, [Some(2), None, None, Some(2)]);
        assert_eq!(attribute(&spans[3], "db.response.status_code"), Some(&json!("22012")));
        let spans =
            encoded(StatementSpans { error: Some(SpanError::Word("client_left")), server: None, ..statement() });
        assert_eq!(spans.len(), 2);
        assert_eq!(attribute(&spans[1], "error.type"), Some(&json!("client_left")));
        assert_eq!(attribute(&spans[1], "db.response.status_code"), None);
    }
}
