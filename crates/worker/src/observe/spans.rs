//! Spans of statements that carry a trace context: which traces have spans, and the spans that wait to be exported.
//!
//! Always true: every table has a bound; the spans of one letter are bounded in number and in bytes, and one client
//! gets only a part of that; there is at most one letter in [`LETTER_PAUSE`]; spans that find no room are only counted.
//! Not here: which event begins and ends which span (`spanning`), how spans are posted (`control::otlp`).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Time, Wall};
use config::Settings;
use measure::Spent;
use protocol::fault::Fault;
use route::{Dialect, TraceParent};

/// The spans of a statement that carries a trace context: one for the statement, and inside it one for each part of its time.
#[derive(Clone, Debug)]
pub struct StatementSpans {
    /// The application's span.
    pub parent: TraceParent,
    /// The `tracestate` of its trace; empty if there is none.
    pub state: Box<str>,
    /// When its request arrived, or its wait for a server began.
    pub begun: Wall,
    /// How long it took.
    pub took: Duration,
    /// The database.
    pub database: Arc<str>,
    /// The user.
    pub user: Arc<str>,
    /// The number of its client.
    pub client: u64,
    /// The client's address, if it is connected by TCP.
    pub client_address: Option<SocketAddr>,
    /// Why and how long it waited for a server, if it did.
    pub wait: Option<(Option<&'static str>, Duration)>,
    /// The part of its server, if it got one.
    pub server: Option<ServerSpan>,
    /// The error, if it failed.
    pub error: Option<SpanError>,
    /// Its text.
    pub text: SpanText,
    /// Whether the text may be exported with its values (`otlp_values`).
    pub shows_values: bool,
}

/// The text of a statement, or its beginning.
#[derive(Clone, Debug, Default)]
pub struct SpanText {
    /// The text, including all values.
    pub bytes: Box<[u8]>,
    /// Whether that is all of it.
    pub is_whole: bool,
    /// How to read it.
    pub dialect: Dialect,
}

/// The part of a server in a statement.
#[derive(Clone, Debug)]
pub struct ServerSpan {
    /// Its number in the logs and on the console.
    pub id: u64,
    /// Its host as it is configured; empty for a unix socket.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// Its address, if connected by TCP.
    pub address: Option<SocketAddr>,
    /// How long settings of the client were applied before the request.
    pub settings: Duration,
    /// From forwarding the request to the end of its answer.
    pub took: Duration,
    /// Where that time went.
    pub spent: Spent,
    /// Rows that were returned or changed.
    pub rows: u64,
    /// Bytes of the answer.
    pub bytes: u64,
}

/// The error of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanError {
    /// Its SQLSTATE.
    State([u8; 5]),
    /// A word for an error without SQLSTATE.
    Word(&'static str),
}

impl SpanError {
    pub(crate) fn of(fault: &Fault) -> Self {
        let state = <[u8; 5]>::try_from(fault.verdict().sqlstate.as_bytes());
        state.map_or(Self::Word("pooler_error"), Self::State)
    }
}

impl StatementSpans {
    /// The number of spans.
    #[must_use]
    pub fn count(&self) -> u64 {
        let settings = self.server.as_ref().is_some_and(|server| !server.settings.is_zero());
        1 + u64::from(self.wait.is_some()) + u64::from(settings) + u64::from(self.server.is_some())
    }

    /// Approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.bytes.len() + self.state.len()
    }
}

/// The spans of a worker.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Whether spans are exported at all.
    pub(super) is_on: bool,
    /// A trace has spans if the last seven bytes of its ID, as a number, are not below this (OpenTelemetry's consistent
    /// probability sampling).
    threshold: u64,
    waiting: Vec<StatementSpans>,
    /// Approximate size of `waiting`.
    bytes: usize,
    /// Number of waiting statements of each client.
    waiting_of: HashMap<u64, usize>,
    dropped: u64,
    pub(super) is_armed: bool,
    /// When the last letter was sent.
    last_letter: Time,
    /// Requests whose text has not arrived completely.
    pub(super) torn: Places<Torn>,
    /// Statements that were prepared and not executed yet.
    pub(super) prepared: Places<Prepared>,
    /// Why clients wait whose statements will have spans.
    pub(super) waits: Places<&'static str>,
}

/// The beginning of a request, kept until its spans are complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// When its time began, by the worker's clock and as calendar time.
    pub(super) since: Time,
    pub(super) wall: Wall,
    /// When it was forwarded to its server.
    pub(super) forwarded: Time,
    /// Where the time of its transaction had gone before it.
    pub(super) before: Spent,
    /// Why it waited for a server.
    pub(super) why: Option<&'static str>,
}

/// A request under way that will have spans.
#[derive(Debug)]
pub(crate) struct OpenSpans {
    pub(super) parent: TraceParent,
    pub(super) state: Box<str>,
    pub(super) begun: Begun,
    pub(super) text: SpanText,
}

/// A request whose text has not arrived completely.
#[derive(Debug)]
pub(crate) struct Torn {
    pub(super) begun: Begun,
    pub(super) bytes: Vec<u8>,
}

/// A statement that was prepared and not executed yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) name: Box<[u8]>,
    pub(super) parent: TraceParent,
    pub(super) state: Box<str>,
    pub(super) text: SpanText,
}

/// A value for each of a bounded number of clients; when there are too many, all are forgotten.
#[derive(Debug)]
pub(crate) struct Places<T>(HashMap<Key, T>);

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Places<T> {
    pub(crate) fn put(&mut self, client: Key, value: T, most: usize) {
        if self.0.len() >= most && !self.0.contains_key(&client) {
            self.0.clear();
        }
        self.0.insert(client, value);
    }

    #[inline]
    pub(crate) fn take(&mut self, client: Key) -> Option<T> {
        if self.0.is_empty() { None } else { self.0.remove(&client) }
    }

    pub(crate) fn get(&self, client: Key) -> Option<&T> {
        if self.0.is_empty() { None } else { self.0.get(&client) }
    }
}

impl Spans {
    /// Whether spans are exported at all (`otlp_endpoint`).
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(crate) fn new(settings: &Settings) -> Self {
        let mut spans = Self::default();
        spans.heed(settings);
        spans
    }

    /// Applies new settings.
    pub(crate) fn heed(&mut self, settings: &Settings) {
        self.is_on = settings.otlp_endpoint.is_some();
        self.threshold = ((1.0 - settings.otlp_sample_ratio) * ALL as f64) as u64;
        if !self.is_on {
            let last_letter = self.last_letter;
            let is_armed = self.is_armed;
            *self = Self { threshold: self.threshold, last_letter, is_armed, ..Self::default() };
        }
    }

    /// Whether the statements of a trace have spans.
    pub(crate) fn has(&self, parent: &TraceParent) -> bool {
        let random = parent.trace_id[9..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        parent.is_sampled && random >= self.threshold
    }

    /// Whether there is room for the spans of one more statement of a client; if not, counts them.
    pub(crate) fn has_room(&mut self, client: u64, spans: u64) -> bool {
        let its = self.waiting_of.get(&client).copied().unwrap_or(0);
        let has = self.waiting.len() < STATEMENTS_MAX && self.bytes < BYTES_MAX && its < STATEMENTS_OF_CLIENT_MAX;
        self.dropped += if has { 0 } else { spans };
        has
    }

    pub(crate) fn add(&mut self, spans: StatementSpans) {
        *self.waiting_of.entry(spans.client).or_default() += 1;
        self.bytes += spans.bytes();
        self.waiting.push(spans);
    }

    /// When the next letter may be sent.
    pub(crate) fn due(&self, now: Time) -> Time {
        (self.last_letter + LETTER_PAUSE).max(now)
    }

    /// Returns all waiting spans, and the number of those that found no room.
    pub(crate) fn tell(&mut self, now: Time) -> (Vec<StatementSpans>, u64) {
        (self.is_armed, self.last_letter, self.bytes) = (false, now, 0);
        self.waiting_of.clear();
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.dropped))
    }
}

/// The number of values of seven bytes.
const ALL: u64 = 1 << 56;
/// Maximum number of statements in a letter,
const STATEMENTS_MAX: usize = 256;
/// of statements of one client,
const STATEMENTS_OF_CLIENT_MAX: usize = STATEMENTS_MAX / 4;
/// and of bytes.
const BYTES_MAX: usize = 512 << 10;
/// Minimum time between two letters.
const LETTER_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a text that are kept.
pub(crate) const SPAN_TEXT_BYTES_MAX: usize = 4096;
/// Maximum number of requests remembered whose text is incomplete,
pub(crate) const TORN_MAX: usize = 64;
/// of prepared statements,
pub(crate) const PREPARED_MAX: usize = 1000;
/// and of waiting clients.
pub(crate) const WAITS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(ratio: f64) -> Settings {
        let endpoint = config::Endpoint::parse("http://a:1").expect("a URL");
        let otlp_endpoint = Some(Arc::new(endpoint));
        Settings { otlp_endpoint, otlp_sample_ratio: ratio, ..Settings::default() }
    }

    fn parent(number: u64, is_sampled: bool) -> TraceParent {
        let mut trace_id = [7; 16];
        trace_id[8..].copy_from_slice(&number.to_be_bytes());
        TraceParent { trace_id, span_id: [1; 8], is_sampled }
    }

    fn statement(client: u64, length: usize) -> StatementSpans {
        StatementSpans {
            parent: parent(1, true),
            state: "".into(),
            begun: Wall(0),
            took: Duration::ZERO,
            database: "d".into(),
            user: "u".into(),
            client,
            client_address: None,
            wait: None,
            server: None,
            error: None,
            text: SpanText { bytes: vec![b'x'; length].into(), ..SpanText::default() },
            shows_values: false,
        }
    }

    fn happens(spans: &mut Spans, client: u64, length: usize) {
        if spans.has_room(client, 3) {
            spans.add(statement(client, length));
        }
    }

    #[test]
    fn the_id_of_a_trace_decides_whether_it_has_spans() {
        for (ratio, expected) in [(0.0, 0..=0), (1.0, 10_000..=10_000), (0.25, 2400..=2600)] {
            let spans = Spans::new(&settings(ratio));
            let mut random = base::Random::new(5);
            let parents: Vec<_> = (0..10_000).map(|_| parent(random.next_u64(), true)).collect();
            let had = parents.iter().filter(|parent| spans.has(parent)).count();
            assert!(expected.contains(&had), "{ratio}: {had}");
            let others = Spans::new(&settings(ratio));
            assert!(parents.iter().all(|parent| spans.has(parent) == others.has(parent)));
        }
        let spans = Spans::new(&settings(1.0));
        assert!(spans.has(&parent(0, true)) && !spans.has(&parent(u64::MAX, false)));
        assert!(!Spans::new(&Settings::default()).is_on);
    }

    #[test]
    fn a_flood_of_one_client_leaves_room_for_others_and_is_counted() {
        let mut spans = Spans::new(&settings(1.0));
        (0..10_000).for_each(|_| happens(&mut spans, 1, 10));
        happens(&mut spans, 2, 10);
        (10..10_010).for_each(|client| happens(&mut spans, client, 10));
        let (told, dropped) = spans.tell(Time(5));
        let of = |client| told.iter().filter(|spans| spans.client == client).count();
        assert_eq!((told.len(), of(1), of(2)), (STATEMENTS_MAX, STATEMENTS_OF_CLIENT_MAX, 1));
        assert_eq!(dropped, 3 * (20_001 - STATEMENTS_MAX as u64));
        assert_eq!(spans.due(Time(6)), Time(5) + LETTER_PAUSE);
        happens(&mut spans, 1, 10);
        assert_eq!(spans.tell(Time(7)).0.len(), 1, "the next letter has room again");
    }

    #[test]
    fn long_texts_fill_a_letter_before_its_number_does() {
        let mut spans = Spans::new(&settings(1.0));
        (0..1000).for_each(|client| happens(&mut spans, client, SPAN_TEXT_BYTES_MAX));
        let (told, _) = spans.tell(Time(0));
        let bytes: usize = told.iter().map(StatementSpans::bytes).sum();
        assert!((BYTES_MAX..BYTES_MAX + 2 * SPAN_TEXT_BYTES_MAX).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_is_remembered_of_clients_has_a_bound() {
        let mut places = Places::default();
        let key = |index| Key::first(index);
        for index in 0..25 {
            places.put(key(index), index, 10);
            assert!(places.0.len() <= 10);
        }
        assert_eq!((places.take(key(24)), places.take(key(24)), places.take(key(3))), (Some(24), None, None));
    }

    #[test]
    fn nothing_is_kept_when_it_is_switched_off() {
        let mut spans = Spans::new(&settings(1.0));
        happens(&mut spans, 1, 10);
        spans.waits.put(Key::first(1), "none_free", 10);
        spans.heed(&Settings::default());
        assert!(!spans.is_on && spans.tell(Time(0)).0.is_empty() && spans.waits.0.is_empty());
    }
}
