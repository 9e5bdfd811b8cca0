//! Spans of statements that carry a trace context (`traceparent`): their waits, and the work of their servers.
//!
//! Always true: while spans are not exported, only a flag is tested; no client ever waits for the export. A trace
//! context is used for the request that contains its text, and for the first execution of the statement that this
//! prepares, if that is the client's next request: later executions do not say to which trace they belong.
//! Not here: how many spans are kept (`spans`), where a request has its context (`carried`), the exported form
//! (`control::otlp`).

use std::borrow::Cow;
use std::time::Duration;

use base::{Key, Time, Wall};
use measure::{Phase, Spent};
use pool::{Command, ServerKey};
use protocol::loan::AnswerTally;
use reactor::{Address, Io};
use route::{Dialect, TraceParent, tracestate};

use crate::data::client::{ClientStage, Link, Ready};
use crate::letters::ToControl;
use crate::observe::carried::{Carried, REQUEST_BYTES_MAX, carried, executes};
use crate::observe::spans::{
    Begun, OpenSpans, PREPARED_MAX, Prepared, SPAN_TEXT_BYTES_MAX, ServerSpan, SpanError, SpanText, StatementSpans,
    TORN_MAX, Torn, WAITS_MAX,
};
use crate::tasks::Task;
use crate::timers::Timer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Sends the waiting spans to the control thread.
    pub(crate) fn send_spans(&mut self) {
        let (statements, dropped) = self.spans.tell(self.hands.now);
        if !statements.is_empty() || dropped > 0 {
            (self.hands.posts.control)(ToControl::Spans { statements, dropped });
        }
    }

    /// These bytes of a client were forwarded to its server and begin `begun` requests; `is_between` says whether a
    /// message begins with them.
    #[cold]
    pub(crate) fn look_for_spans(&mut self, key: Key, server: ServerKey, begun: u32, bytes: &[u8], is_between: bool) {
        if begun == 0 {
            self.go_on_with_request(key, server, bytes, is_between);
            return;
        }
        self.spans.torn.take(key);
        let prepared = self.spans.prepared.take(key);
        let Some(begun) = self.begun(key, server).filter(|_| is_between) else { return };
        match carried(bytes) {
            Carried::Bind(name) => {
                if let Some(prepared) = prepared.filter(|prepared| *prepared.name == *name) {
                    let Prepared { parent, state, text, .. } = prepared;
                    self.open_spans(server, OpenSpans { parent, state, begun, text });
                }
            }
            Carried::Torn => {
                let bytes = bytes[..bytes.len().min(REQUEST_BYTES_MAX)].to_vec();
                self.spans.torn.put(key, Torn { begun, bytes }, TORN_MAX);
            }
            Carried::Context(_) => self.open_carried(key, server, begun, bytes),
            Carried::Nothing => {}
        }
    }

    /// Further bytes of a request were forwarded.
    fn go_on_with_request(&mut self, key: Key, server: ServerKey, bytes: &[u8], is_between: bool) {
        if is_between && self.spans.prepared.get(key).is_some() && executes(bytes) {
            self.spans.prepared.take(key);
        }
        let Some(Torn { begun, bytes: mut all }) = self.spans.torn.take(key) else { return };
        let room = REQUEST_BYTES_MAX.saturating_sub(all.len());
        all.extend_from_slice(&bytes[..bytes.len().min(room)]);
        match carried(&all) {
            Carried::Torn if bytes.len() < room => self.spans.torn.put(key, Torn { begun, bytes: all }, TORN_MAX),
            Carried::Context(_) => self.open_carried(key, server, begun, &all),
            Carried::Torn | Carried::Nothing | Carried::Bind(_) => {}
        }
    }

    /// The beginning of a client's request that is forwarded now.
    fn begun(&mut self, key: Key, server: ServerKey) -> Option<Begun> {
        let why = self.spans.waits.take(key);
        let ready = self.clients.ready_unless_own(key)?;
        let server = self.servers.get(server)?;
        let so_far = ready.meter().division.so_far(self.hands.now);
        // The wait of a transaction is part of its first request.
        let is_first = server.xact_since() == Some(self.hands.now);
        let (before, passed) = if is_first { (Spent::default(), so_far.total()) } else { (so_far, 0) };
        let since = Time(self.hands.now.0.saturating_sub(passed));
        let wall = self.wall_at(since);
        Some(Begun { since, wall, forwarded: self.hands.now, before, why })
    }

    /// The calendar time of a past moment.
    fn wall_at(&self, time: Time) -> Wall {
        let passed = self.hands.io.now().since(time).as_micros();
        Wall(self.hands.io.wall().0.saturating_sub(i64::try_from(passed).unwrap_or(i64::MAX)))
    }

    /// A request carries a trace context: opens its spans if its trace has any.
    fn open_carried(&mut self, key: Key, server: ServerKey, begun: Begun, bytes: &[u8]) {
        let Carried::Context(context) = carried(bytes) else { return };
        if !self.spans.has(&context.parent) {
            return;
        }
        let dialect = self.dialect_of(key);
        let text = || text(context.text, context.is_whole, dialect);
        let state: Box<str> = tracestate(context.text, context.is_whole).into();
        if let Some(name) = context.prepares {
            let prepared = Prepared { name: name.into(), parent: context.parent, state: state.clone(), text: text() };
            self.spans.prepared.put(key, prepared, PREPARED_MAX);
        }
        self.open_spans(server, OpenSpans { parent: context.parent, state, begun, text: text() });
    }

    fn open_spans(&mut self, server: ServerKey, spans: OpenSpans) {
        let Some(server) = self.servers.get_mut(server) else { return };
        server.session_mut().answer_tally.get_or_insert_default();
        server.sampled().0.get_or_insert_default().spans = Some(Box::new(spans));
    }

    /// A request has been answered, or never will be: completes its spans.
    pub(crate) fn close_spans(
        &mut self,
        key: Key,
        server: ServerKey,
        open: OpenSpans,
        tally: &AnswerTally,
        error: Option<SpanError>,
    ) {
        let Some(ready) = self.clients.ready(key) else { return };
        let Some(server) = self.servers.get(server) else { return };
        let OpenSpans { parent, state, begun, text } = open;
        let spent = ready.meter().division.so_far(self.hands.now).since(&begun.before);
        let server = ServerSpan {
            id: server.id(),
            host: server.host().name().clone(),
            port: server.host().port(),
            address: match server.address() {
                Some(Address::Tcp(address)) => Some(*address),
                Some(Address::Unix(_) | Address::Abstract(_)) | None => None,
            },
            settings: micros(spent.of(Phase::Settings)),
            took: self.hands.now.since(begun.forwarded),
            spent,
            rows: tally.rows,
            bytes: tally.bytes,
        };
        let error = tally.state.map(SpanError::State).or(error);
        self.tell_spans(key, (parent, state), &begun, spent, text, Some(server), error);
    }

    #[allow(clippy::too_many_arguments)] // What there is to know of a statement.
    fn tell_spans(
        &mut self,
        key: Key,
        (parent, state): (TraceParent, Box<str>),
        begun: &Begun,
        spent: Spent,
        text: SpanText,
        server: Option<ServerSpan>,
        error: Option<SpanError>,
    ) {
        if !self.spans.is_on {
            return;
        }
        let Some(client) = self.clients.get(key) else { return };
        let ClientStage::Ready(ready) = &client.stage else { return };
        let Some(place) = self.registry.pool(ready.home()) else { return };
        let waited = micros(spent.of(Phase::Waiting));
        let statement = StatementSpans {
            parent,
            state,
            begun: begun.wall,
            took: self.hands.now.since(begun.since),
            database: place.database_name.clone(),
            user: self.registry.user_at(ready.session().user).name.clone(),
            client: client.id,
            client_address: client.peer.tcp(),
            wait: (server.is_none() || !waited.is_zero()).then_some((begun.why, waited)),
            server,
            error,
            text,
            shows_values: self.hands.active.settings.otlp_values,
        };
        if self.spans.has_room(client.id, statement.count()) {
            self.spans.add(statement);
        }
        if !std::mem::replace(&mut self.spans.is_armed, true) {
            self.hands.timers.insert(self.spans.due(self.hands.now), Timer::Spans);
        }
    }

    /// A client is closed, perhaps in the middle of a request or while it waits for a server.
    #[cold]
    pub(crate) fn break_spans(&mut self, key: Key, error: SpanError) {
        let Some(ready) = self.clients.ready(key) else { return };
        match ready.link() {
            Link::Loan(server) => self.break_spans_of(key, server, error),
            Link::None | Link::Waiting(_) | Link::AsksReplica(_) | Link::Delayed(_) => {
                if matches!(ready.meter().division.present(), Some((Phase::Waiting, _))) {
                    self.tell_unserved(key, error);
                }
            }
        }
    }

    /// A server is closed, or its client leaves, perhaps in the middle of a request of this client.
    pub(crate) fn break_spans_of(&mut self, key: Key, server_key: ServerKey, error: SpanError) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let (sampled, session) = server.sampled();
        let Some(sampled) = sampled else { return };
        let Some(open) = sampled.spans.take() else { return };
        let mut tally = sampled.reported.clone();
        session.answer_tally.iter().for_each(|last| tally.add(last));
        self.close_spans(key, server_key, *open, &tally, Some(error));
    }

    /// A request is refused before it got a server.
    #[cold]
    pub(crate) fn tell_unserved(&mut self, key: Key, error: SpanError) {
        let why = self.spans.waits.take(key);
        let dialect = self.dialect_of(key);
        let Some((ready, held)) = self.first_held(key) else { return };
        let Carried::Context(context) = carried(&held) else { return };
        if !self.spans.has(&context.parent) {
            return;
        }
        let spent = ready.meter().division.so_far(self.hands.now);
        let passed = spent.total();
        let since = Time(self.hands.now.0.saturating_sub(passed));
        let wall = self.wall_at(since);
        let begun = Begun { since, wall, forwarded: self.hands.now, before: Spent::default(), why };
        let state = tracestate(context.text, context.is_whole).into();
        let text = text(context.text, context.is_whole, dialect);
        self.tell_spans(key, (context.parent, state), &begun, spent, text, None, Some(error));
    }

    /// A client wants a server: notes why it waits, if it does not get one at once.
    #[cold]
    pub(crate) fn note_wait(&mut self, key: Key) {
        let is_about = |task: &Task| matches!(task, Task::Pools(Command::Attach { client, .. }) if *client == key);
        if !self.hands.tasks.iter().rev().take(TASKS_LOOKED_AT).any(is_about)
            && let Some((ready, _)) = self.first_held(key)
            && let Some(why) = self.pools.waits_for(ready.pool())
        {
            self.note_wait_for(key, why.word());
        }
    }

    /// Notes why a client waits, if its request may have spans.
    pub(crate) fn note_wait_for(&mut self, key: Key, why: &'static str) {
        let Some((_, held)) = self.first_held(key) else { return };
        let is_wanted = match carried(&held) {
            Carried::Context(context) => self.spans.has(&context.parent),
            // The rest of the text may contain a trace context.
            Carried::Torn => true,
            Carried::Bind(name) => self.spans.prepared.get(key).is_some_and(|prepared| *prepared.name == *name),
            Carried::Nothing => false,
        };
        if is_wanted {
            self.spans.waits.put(key, why, WAITS_MAX);
        }
    }

    /// A client with a pending request, and the beginning of that request as far as it has arrived.
    fn first_held(&self, key: Key) -> Option<(&Ready, Cow<'_, [u8]>)> {
        let ready = self.clients.ready(key)?;
        let held = ready.held()?;
        let torn = ready.session().scanner.torn_header();
        match held.in_one_piece() {
            Some(bytes) if torn.is_empty() => Some((ready, bytes.into())),
            Some(_) | None => {
                let bytes: Vec<u8> = torn.iter().copied().chain(held.bytes()).take(REQUEST_BYTES_MAX).collect();
                Some((ready, bytes.into()))
            }
        }
    }
}

fn text(bytes: &[u8], is_whole: bool, dialect: Dialect) -> SpanText {
    let kept = &bytes[..bytes.len().min(SPAN_TEXT_BYTES_MAX)];
    SpanText { bytes: kept.into(), is_whole: is_whole && kept.len() == bytes.len(), dialect }
}

fn micros(count: u32) -> Duration {
    Duration::from_micros(count.into())
}

/// Number of queued tasks searched for the one that lends the client a server: it is the last, or nearly so.
const TASKS_LOOKED_AT: usize = 16;
