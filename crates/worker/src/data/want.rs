//! A client without a server: messages that need none are dealt with, and for the rest a server is asked for.
//!
//! Always true: a server is asked for when a complete message is here, or more of it than is worth collecting.
//! Not here: which client gets a server when (crate `pool`), what becomes of held bytes (`hear`).

use std::time::Duration;

use base::{Key, Time};
use measure::Phase;
use pool::{Command, Event};
use protocol::fault::Fault;
use protocol::loan::RequestFate;
use reactor::{Chunk, Io};
use wire::{Step, frontend};

use crate::data::client::{Client, ClientStage, Link};
use crate::data::held::Skips;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Looks at bytes of a client without a server, up to the end of a rejected request if there is one in them.
    #[inline]
    pub(crate) fn take_in_some(&mut self, key: Key, chunk: Chunk) {
        let length_max = self.message_bytes_max();
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let bytes = chunk.bytes();
        let mut at = 0;
        while at < bytes.len() {
            if !ready.session.scanner.is_in_body() {
                let torn = ready.session.scanner.torn_header();
                let kind = torn.first().copied().unwrap_or(bytes[at]);
                // A Flush with a body is refused by a server, which a torn one may be.
                if kind == frontend::FLUSH && ready.skips == Skips::Nothing && !has_empty_flush(torn, &bytes[at..]) {
                    break;
                }
                let needs_none = matches!(
                    kind,
                    frontend::TERMINATE
                        | frontend::FLUSH
                        | frontend::COPY_DATA
                        | frontend::COPY_DONE
                        | frontend::COPY_FAIL
                );
                if !needs_none && ready.skips == Skips::Nothing {
                    break;
                }
                if !needs_none && !is_request(kind) {
                    self.fail_client(key, &Fault::UnknownMessage);
                    return;
                }
                ready.session.fate = RequestFate::Drop;
            }
            match ready.session.scanner.next(bytes, at, length_max) {
                Step::Piece(piece) if piece.kind == frontend::TERMINATE => {
                    self.part_from_client(key, "client close request");
                    return;
                }
                Step::Piece(piece) => {
                    at = piece.range.end;
                    if piece.is_last() && ready.skips.end_with(piece.kind) {
                        self.end_skipping(key);
                        break;
                    }
                }
                Step::More => return,
                Step::Bad { .. } => {
                    let header = *ready.session.scanner.header();
                    self.fail_client(key, &Fault::BadHeader { header });
                    return;
                }
            }
        }
        if at < bytes.len() {
            let rest = if at == 0 { chunk } else { chunk.part(at..bytes.len()) };
            let Some(ready) = self.clients.ready_mut(key) else { return };
            ready.held.get_or_insert_default().push_front(rest);
            self.want_when_whole(key);
            // A server that is free takes them in this turn.
            if !self.is_served_at_once(key) {
                self.unpin_held(key);
            }
        }
    }

    /// Asks for a server once the first message is here, or more of it than is worth collecting: a client that sends a
    /// small message slowly keeps no server from others.
    pub(crate) fn want_when_whole(&mut self, key: Key) {
        let length_max = self.message_bytes_max();
        let is_query_refused = self.hands.active.settings.disable_pqexec;
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let (Some(held), Some((kind, length))) = (&ready.held, ready.next_header()) else { return };
        if ready.skips != Skips::Nothing {
            return;
        }
        let fault = match kind {
            _ if length < 4 || length > length_max => {
                let [a, b, c, d] = length.to_be_bytes();
                Some(Fault::BadHeader { header: [kind, a, b, c, d] })
            }
            frontend::QUERY if is_query_refused => Some(Fault::QueryDisallowed),
            kind if is_request(kind) => None,
            _ => Some(Fault::UnknownMessage),
        };
        if let Some(fault) = fault {
            self.fail_client(key, &fault);
            return;
        }
        let here = ready.session.scanner.torn_header().len() + held.len();
        if here <= length as usize && here < COLLECTED_BYTES_MAX {
            return;
        }
        if !self.answers_without_server(key, kind) && !self.begin_listen_wait(key, length) {
            self.want_first(key);
        }
    }

    /// Asks for a server for the held request, if limits allow it to begin.
    pub(crate) fn want_first(&mut self, key: Key) {
        if self.limits.counts_transactions() && !self.may_begin(key) {
            return;
        }
        if self.clients.ready(key).is_some_and(|ready| ready.routing.is_some()) {
            self.choose_pool(key);
        }
        let Some(ready) = self.clients.ready_mut(key) else { return };
        ready.is_notified = false;
        let (pool, fingerprint) = (ready.pool, ready.fingerprint(key));
        self.want(key, self.hands.now, Event::Wants { pool, client: key, fingerprint });
    }

    /// The client's server was lost before it was sent the request: the held request goes to another server.
    pub(crate) fn want_again(&mut self, key: Key, since: Time) {
        let Some(ready) = self.clients.ready(key) else { return };
        let (pool, fingerprint) = (ready.pool, ready.fingerprint(key));
        self.want(key, since, Event::WantsAgain { pool, client: key, since, fingerprint });
    }

    fn want(&mut self, key: Key, since: Time, event: Event) {
        if let Some(fault) = self.admin.lends_no_more() {
            self.fail_client(key, &fault);
            return;
        }
        let Some(Client { stage: ClientStage::Ready(ready), tracers, .. }) = self.clients.get_mut(key) else { return };
        let tracers = *tracers;
        if ready.replication.is_some() {
            // Its dedicated server has gone, and no other can replace it.
            self.fail_client(key, &Fault::ServerCrashed);
            return;
        }
        ready.link = if ready.is_reading() { Link::AsksReplica(since) } else { Link::Waiting(since) };
        ready.meter.division.enter(self.hands.now, Phase::Waiting);
        if !self.find_for_listener(key) {
            self.tell_pools_of_wish(event);
        }
        if tracers != 0 {
            self.trace_wait(key);
        }
        if self.spans.is_on() {
            self.note_wait(key);
        }
        // A client that gets a server at once has no waiting deadline and needs no timer.
        if !self.is_served_at_once(key) {
            self.arm_client(key);
            self.charge_hold(key);
        }
        self.arm_watch();
    }

    /// Reports what a client needs to the pools. A calm pool lends a server without being settled anew.
    fn tell_pools_of_wish(&mut self, event: Event) {
        if let Event::Wants { pool, client, fingerprint } = event
            && let Some(server) = self.pools.lend(self.hands.now, pool, client, fingerprint)
        {
            self.hands.enqueue(Task::Pools(Command::Attach { client, server, waited: Duration::ZERO }));
        } else {
            self.tell_pools(event);
        }
    }

    /// Returns whether the latest command of the pools lends a server to this client.
    fn is_served_at_once(&self, key: Key) -> bool {
        matches!(self.hands.tasks.back(), Some(Task::Pools(Command::Attach { client, .. })) if *client == key)
    }
}

/// Whether these bytes begin with a Flush of the right length. `torn` is what came of its header before.
fn has_empty_flush(torn: &[u8], bytes: &[u8]) -> bool {
    torn.is_empty() && bytes.get(1..5) == Some(&[0, 0, 0, 4])
}

/// Whether a message of this kind is a request or a part of one.
pub(super) fn is_request(kind: u8) -> bool {
    matches!(
        kind,
        frontend::QUERY
            | frontend::PARSE
            | frontend::BIND
            | frontend::DESCRIBE
            | frontend::EXECUTE
            | frontend::CLOSE
            | frontend::FLUSH
            | frontend::SYNC
            | frontend::FUNCTION_CALL
    )
}

/// A message of up to this many bytes is collected before a server is asked for.
pub(super) const COLLECTED_BYTES_MAX: usize = 8192;
