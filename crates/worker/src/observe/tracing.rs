//! Sends the events of traced clients to the consoles that trace them (`TRACE`).
//!
//! Always true: for clients that are not traced, only their row is tested; no client ever waits for a tracer.
//! Not here: how many events are sent (`tracers`), which code reports which event (`data`, `admission`).

use std::time::Duration;

use base::Key;
use pool::{ClientKey, Command, ServerKey};
use protocol::fault::Fault;
use protocol::loan::AnswerTally;
use reactor::Io;
use route::Dialect;

use crate::data::client::{Client, ClientStage, Ready};
use crate::letters::ToControl;
use crate::observe::carried::Messages;
use crate::observe::pipeline::{Begun, KINDS_MAX, Pipeline, TracedRequest};
use crate::observe::sampled::Sampled;
use crate::observe::statements::text_of;
use crate::observe::tracers::{Failed, Happening, Mask, Requested, TRACED_BYTES_MAX, What};
use crate::tasks::Task;
use crate::timers::Timer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Begins and ends tracers at some of the clients.
    pub(crate) fn spread_tracers(&mut self) {
        if !self.tracers.is_any_spreading() {
            return;
        }
        let (of, places) = self.tracers.next_slice(self.clients.places());
        for key in places.filter_map(|place| self.clients.key_at(place)).collect::<Vec<_>>() {
            self.find_tracers(key);
            let found = self.clients.get(key).map_or(0, |client| client.tracers & of);
            self.tracers.found(found);
        }
    }

    /// Sends the waiting events to the control thread.
    pub(crate) fn send_traced(&mut self) {
        let (happenings, dropped) = self.tracers.tell(self.hands.now);
        (self.hands.posts.control)(ToControl::Traced { happenings, dropped });
    }

    /// A client has logged in or changed its `application_name`: finds its tracers.
    pub(crate) fn find_tracers(&mut self, key: Key) {
        let tracers = if self.tracers.is_any() { self.tracers_about(key) } else { 0 };
        self.set_tracers(key, tracers);
    }

    /// Sets which tracers follow a client. While there are none, nobody finds out where its requests begin: those under way
    /// are not followed after that.
    pub(crate) fn set_tracers(&mut self, key: Key, tracers: Mask) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let before = std::mem::replace(&mut client.tracers, tracers);
        let server =
            client.server().filter(|_| before == 0 || tracers == 0).and_then(|server| self.servers.get_mut(server));
        if let Some(sampled) = server.and_then(|server| server.sampled().0.as_mut()) {
            sampled.traced = None;
        }
    }

    fn tracers_about(&self, key: Key) -> Mask {
        let Some(client) = self.clients.get(key).filter(|client| !client.is_own) else { return 0 };
        let Some(subject) = self.subject(key) else { return 0 };
        self.tracers.about(client.id, subject.database, subject.application_name)
    }

    /// Records an event of a client if it is traced.
    #[cold]
    pub(crate) fn trace(&mut self, key: Key, what: impl FnOnce(&Self, &Client) -> Option<What>) {
        let server = self.clients.get(key).and_then(Client::server);
        self.trace_with(key, server, what);
    }

    /// A client has given this server back, unless the server was closed.
    #[cold]
    pub(crate) fn trace_return(&mut self, key: ClientKey, server: ServerKey) {
        if self.servers.get(server).is_some() {
            self.trace_with(key, Some(server), |_, _| Some(What::Returned));
        }
    }

    fn trace_with(&mut self, key: Key, server: Option<ServerKey>, what: impl FnOnce(&Self, &Client) -> Option<What>) {
        let Some(tracers) = self.clients.get(key).map(|client| client.tracers).filter(|tracers| *tracers != 0) else {
            return;
        };
        let tracers = self.tracers.with_room(tracers);
        self.arm_traced();
        let Some(client) = self.clients.get(key).filter(|_| tracers != 0) else { return };
        let Some(what) = what(self, client) else { return };
        let server = server.and_then(|server| self.servers.get(server)).map(|server| server.id());
        self.tracers.add(Happening { at: self.hands.io.wall(), tracers, client: client.id, server, what });
    }

    fn arm_traced(&mut self) {
        if !std::mem::replace(&mut self.tracers.is_armed, true) {
            self.hands.timers.insert(self.tracers.due(self.hands.now), Timer::Traced);
        }
    }

    /// A client is disconnected, perhaps before its login was complete.
    pub(crate) fn trace_failure(&mut self, key: Key, fault: &Fault) {
        if matches!(self.clients.get(key), Some(Client { stage: ClientStage::Login(_), .. })) {
            self.find_tracers(key);
        }
        self.trace(key, |_, _| Some(What::Left { why: fault.text().into() }));
    }

    /// A client has logged in.
    #[cold]
    pub(crate) fn trace_login(&mut self, key: Key) {
        self.find_tracers(key);
        self.trace(key, |worker, client| {
            let ready = client.ready()?;
            let name = worker.hands.active.tracked.application_name();
            Some(What::LoggedIn {
                database: worker.registry.pool(ready.home())?.database_name.clone(),
                user: worker.registry.user_at(ready.session().user).name.clone(),
                application: ready.session().vars.get(name).unwrap_or_default().into(),
                addr: worker.address_of_peer(client).0.into(),
            })
        });
    }

    /// A client wants a server: records its wait, if it does not get one at once.
    #[cold]
    pub(crate) fn trace_wait(&mut self, key: Key) {
        let is_about = |task: &Task| match task {
            Task::Pools(Command::Attach { client, .. } | Command::Refuse { client, .. }) => *client == key,
            _ => false,
        };
        if self.hands.tasks.iter().rev().take(TASKS_LOOKED_AT).any(is_about) {
            return;
        }
        let dialect = self.dialect_of(key);
        self.trace(key, |worker, client| {
            let ready = client.ready()?;
            let request = ready.held_in_one_piece().filter(|_| ready.session().scanner.is_between());
            let request = request.map(|bytes| worker.requested(ready, bytes, &kinds(bytes), dialect));
            Some(What::Waits { why: worker.pools.waits_for(ready.pool()), request })
        });
    }

    pub(crate) fn dialect_of(&mut self, key: Key) -> Dialect {
        let ready = self.clients.ready(key);
        ready.map_or(Dialect::default(), |ready| self.texts.dialect(&ready.session().vars, &self.hands.active.tracked))
    }

    /// Describes a request that begins with these bytes, which contain messages of these kinds.
    fn requested(&self, ready: &Ready, bytes: &[u8], kinds: &[u8], dialect: Dialect) -> Box<Requested> {
        let text = text_of(bytes, ready);
        let begin = |bytes: &[u8]| bytes[..bytes.len().min(TRACED_BYTES_MAX)].into();
        Box::new(Requested {
            kinds: kinds.into(),
            bytes: bytes.len(),
            text: begin(text.bytes),
            is_whole: text.is_whole,
            dialect,
            raw: self.hands.active.settings.trace_values.then(|| begin(bytes)),
        })
    }

    /// These bytes of a client were forwarded to its server. With `begins` they begin a request while no other is under
    /// way. If not `is_at_message`, they begin with the rest of a message.
    #[cold]
    pub(crate) fn trace_requests(
        &mut self,
        key: Key,
        server_key: ServerKey,
        begins: bool,
        bytes: &[u8],
        is_at_message: bool,
    ) {
        let Some(ready) = self.clients.ready(key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if begins {
            let before = ready.meter().division.so_far(self.hands.now);
            let (sampled, session) = server.sampled();
            let sampled = sampled.get_or_insert_with(|| Box::new(Sampled { before, ..Sampled::default() }));
            sampled.traced = Some(Box::new(Pipeline::begin(is_at_message)));
            session.answer_tally = Some(Box::new(AnswerTally { keeps_error: true, ..AnswerTally::default() }));
        }
        let Some(traced) = server.sampled().0.as_mut().and_then(|sampled| sampled.traced.as_mut()) else { return };
        let (mut begun, others) = traced.split(bytes);
        if begins && begun.is_empty() {
            // The header of its first message came with earlier bytes, or is torn.
            begun.push(Begun { range: 0..bytes.len(), kinds: Vec::new(), is_at_message: false });
        }
        for begun in begun {
            self.trace_request(key, server_key, bytes, &begun);
        }
        if others > 0
            && let Some(client) = self.clients.get(key)
        {
            self.tracers.drop_some(client.tracers, others as u64);
            self.arm_traced();
        }
    }

    /// One of these requests, which arrived together.
    fn trace_request(&mut self, key: Key, server: ServerKey, bytes: &[u8], begun: &Begun) {
        let dialect = self.dialect_of(key);
        let Some(client) = self.clients.get(key) else { return };
        let Some(ready) = client.ready() else { return };
        let server = self.servers.get_mut(server).and_then(|server| server.sampled().0.as_mut());
        let Some(traced) = server.and_then(|sampled| sampled.traced.as_mut()) else { return };
        let bytes = if begun.is_at_message { &bytes[begun.range.clone()] } else { &[] };
        let text = text_of(bytes, ready).bytes;
        let text = text[..text.len().min(KEPT_BYTES_MAX)].into();
        traced.add(TracedRequest { since: self.hands.now, text, dialect });
        self.trace(key, |worker, client| {
            Some(What::Requested(worker.requested(client.ready()?, bytes, &begun.kinds, dialect)))
        });
    }

    /// A request has been answered, and others that were sent behind it have not.
    #[cold]
    pub(crate) fn trace_first_answer(&mut self, key: Key, server_key: ServerKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let (sampled, session) = server.sampled();
        let Some(sampled) = sampled else { return };
        let Some(traced) = sampled.traced.as_mut() else { return };
        let fresh = Box::new(AnswerTally { keeps_error: true, ..AnswerTally::default() });
        let Some(tally) = session.answer_tally.replace(fresh) else { return };
        sampled.reported.add(&tally);
        if let Some(request) = traced.answered() {
            self.trace_answer(key, server_key, request, &tally);
        }
    }

    /// A traced request has been answered.
    #[cold]
    pub(crate) fn trace_answer(&mut self, key: Key, server: ServerKey, request: TracedRequest, tally: &AnswerTally) {
        let Some(server) = self.servers.get(server) else { return };
        let status = server.session().exchange.status();
        let (rows, bytes, took) = (tally.rows, tally.bytes, self.hands.now.since(request.since));
        if let Some(state) = tally.state {
            let shows_values = self.hands.active.settings.trace_values;
            let body = tally.error.clone().unwrap_or_default();
            let TracedRequest { text, dialect, .. } = request;
            self.trace(key, |_, _| Some(What::Failed(Box::new(Failed { state, body, text, dialect, shows_values }))));
        }
        self.trace(key, |_, _| Some(What::Answered { rows, bytes, took, status }));
    }

    /// A client has got a server, after this wait.
    #[cold]
    pub(crate) fn trace_loan(&mut self, key: Key, waited: Duration) {
        self.trace(key, |_, _| Some(What::Lent { waited }));
    }

    /// A client's settings are applied to its server.
    #[cold]
    pub(crate) fn trace_settings(&mut self, key: Key, texts: Vec<String>) {
        self.trace(key, |_, _| Some(What::Told { texts }));
    }

    /// The pins of a client are known.
    #[cold]
    pub(crate) fn trace_pins(&mut self, key: Key) {
        self.trace(key, |_, client| {
            let ready = client.ready()?;
            let pins = ready.session().session_effects.as_ref()?.pins();
            let words: Vec<_> = pins.iter().take(PINS_TOLD).map(|pin| pin.hold.words()).collect();
            Some(What::Keeps { what: words.join(", ") })
        });
    }
}

/// The kinds of the first messages in these bytes.
fn kinds(bytes: &[u8]) -> Box<[u8]> {
    Messages(bytes).take(KINDS_MAX).map(|message| message.kind).collect()
}

/// Bytes of a request's text that are kept until it is answered.
const KEPT_BYTES_MAX: usize = 512;
const PINS_TOLD: usize = 3;
/// Number of queued tasks searched for the one that lends the client a server or refuses it: it is the last, or nearly so.
const TASKS_LOOKED_AT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_messages_are_told_as_far_as_they_are_here() {
        assert_eq!(*kinds(b"P\0\0\0\x08s\0x\0B\0\0\0\x04S\0\0\0\x04"), *b"PBS");
        assert_eq!(*kinds(b"Q\0\0\x10\0select"), *b"Q");
        assert_eq!(*kinds(b"Q\0\0"), *b"");
        assert_eq!(*kinds(b""), *b"");
        assert_eq!(kinds(&b"S\0\0\0\0".repeat(100)).len(), KINDS_MAX);
        assert_eq!(*kinds(b"S\xff\xff\xff\xff"), *b"S");
    }
}
