//! Makes a recording of the lines of a trace.
//!
//! Always true: an answer belongs to the oldest request of its client that has none, unless it began at another time: then a line was dropped.
//! What is not understood changes nothing and is counted. Memory is bounded by the length of a trace.
//! Not here: how lines are read (`trace_line`), where they come from (`mod`).

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::recording::{RecordedRequest, RecordedSession, Statement, Values};
use super::spread::Collector;
use super::template::{Literal, Said, Template};
use super::trace_line::{TraceEvent, TraceLine, dropped};

/// What is known so far.
#[derive(Debug)]
pub(super) struct Recorder {
    values: Values,
    /// The time of day of the first line, and of the last one, in microseconds; days that have ended since count.
    first: Option<u64>,
    last: u64,
    days: u64,
    statements: Vec<Known>,
    places: BTreeMap<Template, usize>,
    sessions: Vec<RecordedSession>,
    /// The clients that are there.
    clients: HashMap<String, Client>,
    pub(super) dropped: u64,
    pub(super) left_out: u64,
}

#[derive(Debug)]
struct Known {
    template: Template,
    calls: u64,
    collectors: Vec<Collector>,
}

#[derive(Debug, Default)]
struct Client {
    /// The number of its session.
    session: usize,
    /// Its requests without an answer: when they came, and their numbers; `None` for one that is not kept.
    unanswered: VecDeque<(f64, Option<usize>)>,
}

impl Recorder {
    pub(super) fn new(values: Values) -> Self {
        Self {
            values,
            first: None,
            last: 0,
            days: 0,
            statements: Vec::new(),
            places: BTreeMap::new(),
            sessions: Vec::new(),
            clients: HashMap::new(),
            dropped: 0,
            left_out: 0,
        }
    }

    /// A line has come.
    pub(super) fn hear(&mut self, line: &str) {
        if let Some(count) = dropped(line) {
            self.dropped += count;
            return;
        }
        let Some(line) = TraceLine::read(line) else { return };
        let at = self.seconds(line.at);
        match line.what {
            TraceEvent::LoggedIn { application, .. } => {
                let session =
                    RecordedSession { came: Some(at), application: Some(application.into()), ..Default::default() };
                self.enter(line.client, session);
            }
            TraceEvent::Requested { kinds, text } => self.request(line.client, at, kinds, text),
            TraceEvent::Failed(code) => {
                if let Some(request) = self.unanswered(line.client) {
                    request.error.get_or_insert_with(|| code.into());
                }
            }
            TraceEvent::Completed { took, rows, .. } => {
                self.answered(line.client, at, took.as_secs_f64(), rows);
            }
            TraceEvent::Left => {
                if let Some(client) = self.clients.remove(line.client) {
                    self.sessions[client.session].left = Some(at);
                }
            }
            TraceEvent::Other => {}
        }
    }

    /// Statements with how their values are spread, and the sessions that asked for something.
    pub(super) fn end(self) -> (Vec<Statement>, Vec<RecordedSession>) {
        let keeps_spreads = self.values != Values::None;
        let statement = |known: Known| Statement {
            parts: known.template.0,
            calls: known.calls,
            spreads: if keeps_spreads { known.collectors.iter().map(Collector::spread).collect() } else { Vec::new() },
        };
        let sessions = self.sessions.into_iter().filter(|session| !session.requests.is_empty());
        (self.statements.into_iter().map(statement).collect(), sessions.collect())
    }

    /// How long the trace has lasted, in seconds.
    pub(super) fn length(&self) -> f64 {
        self.first.map_or(0.0, |first| (self.days * DAY + self.last).saturating_sub(first) as f64 / 1e6)
    }

    fn seconds(&mut self, at: u64) -> f64 {
        let first = *self.first.get_or_insert(at);
        // Lines of different workers may be out of order by a moment, and a day ends.
        if at + DAY / 2 < self.last {
            self.days += 1;
            self.last = at;
        }
        self.last = self.last.max(at);
        let late = at > self.last.saturating_add(DAY / 2);
        let days = self.days.saturating_sub(u64::from(late));
        (days * DAY + at).saturating_sub(first) as f64 / 1e6
    }

    fn enter(&mut self, client: &str, session: RecordedSession) -> usize {
        let number = self.sessions.len();
        self.sessions.push(session);
        self.clients.insert(client.to_owned(), Client { session: number, ..Client::default() });
        number
    }

    fn request(&mut self, client: &str, at: f64, kinds: &str, text: &str) {
        if !self.clients.contains_key(client) {
            self.enter(client, RecordedSession::default());
        }
        let kept = Said::read(text).filter(|said| !said.text.is_empty()).and_then(|said| said.apart());
        let kept = match (kept, self.values) {
            // Without values a text has `?` for them, and is kept as it is.
            (_, Values::None) if !text.is_empty() => Some((shown_parts(text), Vec::new())),
            (kept, _) => kept,
        };
        let number = kept.map(|(template, values)| self.keep(client, at, template, &values));
        if number.is_none() && kinds != "Sync" {
            self.left_out += 1;
        }
        if let Some(client) = self.clients.get_mut(client) {
            client.unanswered.push_back((at, number));
        }
    }

    /// Keeps a request of a client that is there. Returns its number in its session.
    fn keep(&mut self, client: &str, at: f64, template: Template, values: &[Literal]) -> usize {
        let count = self.statements.len();
        let statement = *self.places.entry(template.clone()).or_insert(count);
        if statement == count {
            let collectors = values.iter().map(|_| Collector::default()).collect();
            self.statements.push(Known { template, calls: 0, collectors });
        }
        let known = &mut self.statements[statement];
        known.calls += 1;
        known.collectors.iter_mut().zip(values).for_each(|(collector, value)| collector.note(value));
        let kept =
            if self.values == Values::Literals { values.iter().map(Literal::written).collect() } else { Vec::new() };
        let session = self.clients.get(client).map_or(0, |client| client.session);
        let requests = &mut self.sessions[session].requests;
        requests.push(RecordedRequest { at, statement, values: kept, ..RecordedRequest::default() });
        requests.len() - 1
    }

    /// An answer is complete, so many seconds after it was asked for.
    fn answered(&mut self, client: &str, at: f64, took: f64, rows: u64) {
        let Some(client) = self.clients.get_mut(client) else { return };
        let asked = at - took;
        let is_it = |request: &(f64, Option<usize>)| (request.0 - asked).abs() < SAME_MOMENT;
        // Lines of answers were dropped: who was asked for later is answered, so those before are, too.
        if let Some(place) = client.unanswered.iter().position(is_it) {
            client.unanswered.drain(..place);
        } else if client.unanswered.front().is_some_and(|request| request.0 > asked + SAME_MOMENT) {
            // The line of its request was dropped.
            return;
        }
        let Some((_, Some(number))) = client.unanswered.pop_front() else { return };
        if let Some(request) = self.sessions[client.session].requests.get_mut(number) {
            (request.took, request.rows) = (Some(took), rows);
        }
    }

    fn unanswered(&mut self, client: &str) -> Option<&mut RecordedRequest> {
        let client = self.clients.get(client)?;
        let number = client.unanswered.front()?.1?;
        self.sessions[client.session].requests.get_mut(number)
    }
}

/// A text in which `?` stands for values, in one part: what stands where is not known, since an operator may be called `?`.
fn shown_parts(text: &str) -> Template {
    Template(vec![text.to_owned()])
}

const DAY: u64 = 86_400_000_000;
/// Lines have the time of their worker's turn, which is a little before or after the request was sent; in seconds.
const SAME_MOMENT: f64 = 0.002;

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(values: Values, lines: &[&str]) -> (Recorder, Vec<Statement>, Vec<RecordedSession>) {
        let hear = || {
            let mut recorder = Recorder::new(values);
            lines.iter().for_each(|line| recorder.hear(line));
            recorder
        };
        let (statements, sessions) = hear().end();
        (hear(), statements, sessions)
    }

    #[test]
    fn answers_go_to_their_requests_in_order() {
        let (_, statements, sessions) = recorded(
            Values::Literals,
            &[
                "tracing database shop for 60 s, with values; Ctrl-C ends it",
                "10:00:00.000000 C-0x1 login: shop/u, application \"web\", from 10.0.0.1:5",
                "10:00:01.000000 C-0x1 S-0x2 request: Query, 14 bytes: select 7",
                "10:00:01.100000 C-0x1 S-0x2 request: Query, 14 bytes: select 8",
                "10:00:01.200000 C-0x9 S-0x3 request: Query, 14 bytes: select nope",
                "10:00:01.250000 C-0x9 S-0x3 error 42703: column ? does not exist",
                "10:00:01.250000 C-0x9 S-0x3 completed after 50.000 ms: 0 rows, 9 bytes, idle",
                "10:00:01.500000 C-0x1 S-0x2 completed after 500.000 ms: 1 row, 9 bytes, idle",
                "10:00:01.500000 C-0x1 S-0x2 completed after 400.000 ms: 2 rows, 9 bytes, idle",
                "10:00:02.000000 C-0x1 client left: client close request",
            ],
        );
        assert_eq!(
            statements.iter().map(|one| (one.parts.join("?"), one.calls)).collect::<Vec<_>>(),
            [("select ?".to_owned(), 2), ("select nope".to_owned(), 1)]
        );
        let [web, other] = &sessions[..] else { panic!("{sessions:?}") };
        assert_eq!((web.application.as_deref(), web.came, web.left), (Some("web"), Some(0.0), Some(2.0)));
        let told = |request: &RecordedRequest| (request.at, request.took, request.rows, request.values.join(","));
        assert_eq!(
            web.requests.iter().map(told).collect::<Vec<_>>(),
            [(1.0, Some(0.5), 1, "7".to_owned()), (1.1, Some(0.4), 2, "8".to_owned())]
        );
        assert_eq!((other.came, other.requests[0].error.as_deref()), (None, Some("42703")));
    }

    #[test]
    fn an_answer_finds_its_request_where_lines_were_dropped() {
        let (_, _, sessions) = recorded(
            Values::Literals,
            &[
                "10:00:01.000000 C-0x1 S-0x2 request: Query, 14 bytes: select 1",
                "10:00:02.000000 C-0x1 S-0x2 request: Query, 14 bytes: select 2",
                "10:00:02.300000 C-0x1 S-0x2 completed after 300.000 ms: 2 rows, 9 bytes, idle",
                "10:00:04.000000 C-0x1 S-0x2 completed after 500.000 ms: 3 rows, 9 bytes, idle",
                "10:00:05.000000 C-0x1 S-0x2 request: Query, 14 bytes: select 4",
                "10:00:05.100000 C-0x1 S-0x2 completed after 600.000 ms: 5 rows, 9 bytes, idle",
                "10:00:05.200000 C-0x1 S-0x2 completed after 200.000 ms: 4 rows, 9 bytes, idle",
            ],
        );
        let told: Vec<_> = sessions[0].requests.iter().map(|request| (request.took, request.rows)).collect();
        assert_eq!(told, [(None, 0), (Some(0.3), 2), (Some(0.2), 4)]);
    }

    #[test]
    fn values_are_kept_only_if_they_are_asked_for() {
        let lines = ["10:00:00.000000 C-0x1 S-0x2 request: Query, 9 bytes: select 'topsecret', 471147114711"];
        let text = |values| {
            let (_, statements, sessions) = recorded(values, &lines);
            serde_json::to_string(&(statements, sessions)).expect("JSON")
        };
        let spread = text(Values::Spread);
        assert!(!spread.contains("topsecret") && !spread.contains("471147114711"), "{spread}");
        assert!(text(Values::Literals).contains("'topsecret'"));
    }

    #[test]
    fn midnight_does_not_turn_time_back() {
        let (recorder, _, sessions) = recorded(
            Values::None,
            &[
                "23:59:59.500000 C-0x1 S-0x2 request: Query, 9 bytes: select ?",
                "00:00:00.500000 C-0x1 S-0x2 request: Query, 9 bytes: select ?",
            ],
        );
        assert_eq!(sessions[0].requests.iter().map(|request| request.at).collect::<Vec<_>>(), [0.0, 1.0]);
        assert!((recorder.length() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_lost_is_counted() {
        let (recorder, statements, _) = recorded(
            Values::Spread,
            &[
                "12 happenings more than can be told were dropped",
                "10:00:00.000000 C-0x1 S-0x2 request: Query, 20000 bytes: select 'aaaa...",
                "10:00:00.000000 C-0x1 S-0x2 request: Sync, 5 bytes",
                "nonsense",
            ],
        );
        assert_eq!((recorder.dropped, recorder.left_out, statements.len()), (12, 1, 0));
    }
}
