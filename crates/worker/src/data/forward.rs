//! Forwards the bytes of a client to its server.
//!
//! Always true: messages are counted one by one and bytes are forwarded uncopied; the server owes the answers to all
//! that was forwarded before the next byte is looked at.
//! Not here: which bytes are held (`hear`), whether the loan ends (`loan_over`).

use std::ops::Range;

use base::Key;
use measure::Phase;
use pool::{Mode, ServerKey};
use protocol::loan::{Forwarded, NextStep, Requests, ToServer};
use protocol::prepared::Bytes;
use protocol::state::Unseen;
use reactor::{Chunk, Conn, Io};

use crate::data::advance::are_asked_about;
use crate::data::claims::may_claim;
use crate::data::client::ClientStage;
use crate::data::flow::{send_part, unpinned_for};
use crate::registry::DatabasePlace;
use crate::tasks::Task;
use crate::worker::Worker;

/// Sends what the bytes of a client become on their way to the server.
struct Parts<'a, I: Io> {
    io: &'a mut I,
    conn: Conn,
    chunk: &'a Chunk,
}

impl<I: Io> ToServer for Parts<'_, I> {
    fn part(&mut self, range: Range<usize>) {
        send_part(self.io, self.conn, self.chunk, range);
    }

    fn send(&mut self, bytes: Bytes) {
        let chunk = match bytes {
            Bytes::Own(bytes) => Chunk::Own(bytes.into()),
            Bytes::Shared(bytes) => Chunk::Shared(bytes),
        };
        self.io.send(self.conn, chunk);
    }
}

impl<I: Io> Worker<I> {
    /// Forwards bytes of a client to its server: counts message by message, and copies none.
    pub(crate) fn forward(&mut self, key: Key, server_key: ServerKey, chunk: Chunk) {
        let mut next = Some(chunk);
        while let Some(chunk) = next {
            next = self.forward_some(key, server_key, chunk);
        }
    }

    /// Forwards bytes of a client to its server, up to a message that is replaced: returns the replacement and all that
    /// follows it, which is to be forwarded next.
    fn forward_some(&mut self, key: Key, server_key: ServerKey, chunk: Chunk) -> Option<Chunk> {
        if may_claim(chunk.bytes()) || self.has_claimed(key) {
            self.note_claim(key, server_key, chunk.bytes());
        }
        let length_max = self.message_bytes_max();
        let counts = self.limits.counts_transactions() && self.goes_one_by_one(key);
        let settings = &self.hands.active.settings;
        let client = self.clients.get_mut(key)?;
        let ClientStage::Ready(ready) = &mut client.stage else { return None };
        let server = self.servers.get_mut(server_key)?;
        ready.look_at_promise(chunk.bytes(), &server.session.exchange);
        let place = self.registry.pool(server.pool);
        let is_shared = server.dedicated.is_none();
        let follows_statements = is_shared && place.is_some_and(|place| place.mode != Mode::Session);
        let follows = is_shared && place.is_some_and(|place| place.follows);
        let rules = place.map(|place| &place.pin_rules);
        let unseen = rules.map_or(Unseen::Verify, |rules| rules.unseen);
        let refusals = rules.filter(|rules| follows && rules.has_refusals()).cloned();
        let server_user = place.map_or(u32::MAX, |place| place.user);
        let (place, scopes) = self.registry.database_and_scopes(server.database);
        let DatabasePlace { totals, function_catalog, changes, .. } = place;
        let mut requests = Requests {
            now: self.hands.now,
            client: key,
            length_max,
            statements_max: if follows_statements { settings.max_prepared_statements as usize } else { 0 },
            reuses_unnamed: settings.reuse_unnamed_statements,
            refuses_queries: settings.disable_pqexec,
            one_by_one: counts || ready.routing.is_some(),
            follows,
            unseen,
            refusals,
            server_user,
            changes: *changes,
            statement_registry: &mut self.statement_registry,
            texts: &mut self.texts,
            tracked: &self.hands.active.tracked,
            function_catalog,
            scopes,
        };
        let conn = server.conn;
        let mut to_server = Parts { io: &mut self.hands.io, conn, chunk: &chunk };
        let begins_with_message = ready.session.scanner.is_between();
        let was_copying = server.session.exchange.is_copying_in();
        let Forwarded { unsent, mut next_step, waits, begun, tally, makes_functions, is_alone } =
            requests.hear(&mut ready.session, &mut server.session, chunk.bytes(), &mut to_server);
        *totals += tally;
        server.queries_begin(begun, self.hands.now, totals);
        if begun > 0 {
            let bytes = if begins_with_message { chunk.bytes() } else { &[] };
            if settings.log_min_duration_transaction.is_none() {
                server.course = None;
            } else if let Some(course) = &mut server.course {
                let before = ready.meter.division.present().map(|(phase, _)| phase);
                course.request(self.hands.now, before, server.answered, bytes);
            }
            ready.meter.division.enter(self.hands.now, Phase::FirstByte);
            server.request_head.note(bytes);
            if let Some(weight) = self.sampler.begins(self.hands.now) {
                let dialect = self.texts.dialect(&ready.session.vars, &self.hands.active.tracked);
                server.look_at_statement(ready, bytes, weight, dialect, self.hands.now);
            }
        } else if was_copying && !server.session.exchange.is_copying_in() {
            // The client has sent CopyDone or CopyFail: the server works on the rest.
            ready.meter.division.go_on(self.hands.now, Phase::Thinking, Phase::FirstByte);
        }
        let tracers = client.tracers;
        let asks_in_advance = is_alone && are_asked_about(ready, server, chunk.bytes());
        // One test for both, which are nearly always off.
        if (tracers != 0) | self.spans.is_on() {
            if tracers != 0 {
                let bytes = &chunk.bytes()[..unsent.end];
                self.trace_requests(key, server_key, begun > 0, bytes, begins_with_message);
            }
            if self.spans.is_on() {
                self.look_for_spans(key, server_key, begun, chunk.bytes(), begins_with_message);
            }
        }
        let rest = match &mut next_step {
            NextStep::Hold(at) => Some(chunk.part(*at..chunk.len())),
            NextStep::HoldInstead(bytes) => Some(Chunk::Own(std::mem::take(bytes).into())),
            _ => None,
        };
        if unsent == (0..chunk.len()) {
            let chunk = unpinned_for(&self.hands.io, conn, chunk);
            self.hands.io.send(conn, chunk);
        } else {
            send_part(&mut self.hands.io, conn, &chunk, unsent);
        }
        if makes_functions {
            self.tell_of_functions(server_key);
        }
        if asks_in_advance {
            self.ask_in_advance(server_key, key);
        }
        if waits {
            self.wait_for_answers(server_key, key, rest);
        }
        self.give_due(server_key);
        self.go_on_after(key, server_key, next_step)
    }

    /// Does what has to be done once these bytes have been sent. Returns bytes that take the place of the client's.
    #[inline]
    fn go_on_after(&mut self, key: Key, server_key: ServerKey, next_step: NextStep) -> Option<Chunk> {
        match next_step {
            NextStep::Go | NextStep::Hold(_) | NextStep::HoldInstead(_) => {
                self.mind_flow_to_server(key, server_key);
                // These bytes may be the rest of something that the server no longer waits for, such as a failed COPY.
                if self.servers.get(server_key).is_some_and(|server| server.session.exchange.may_end()) {
                    self.hands.enqueue(Task::EndLoan { server: server_key, client: key });
                } else {
                    self.arm_server(server_key);
                }
            }
            NextStep::Instead(bytes) => return Some(bytes.into()),
            NextStep::Leave => self.part_from_client(key, "client close request"),
            NextStep::Fail(fault) => {
                self.explain_statement(key, &fault);
                self.fail_client(key, &fault);
            }
        }
        None
    }
}
