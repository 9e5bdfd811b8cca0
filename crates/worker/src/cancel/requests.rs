//! Cancel requests: a second connection that asks a server to stop what the first one runs.
//!
//! Always true: a request is sent only while the very query runs that it was meant for; until it has come to its end, which
//! the server tells by closing the connection, the aimed-at server begins nothing new for anybody. (PostgreSQL's postmaster
//! signals the backend before it closes, `ProcessCancelRequest` in `postmaster.c`; a signal that finds the backend between
//! two queries is ignored, `ProcessInterrupts` in `tcop/postgres.c`.)
//! Not here: the keys (`protocol::cancel`).

use std::sync::Arc;

use base::planted::{self, Planted};
use base::{Key, Time, WorkerId};
use pool::{Event, PoolKey, ServerKey};
use protocol::cancel::{Aim, CancelKey, KeyName};
use protocol::fault::Fault;
use reactor::tls::Demand;
use reactor::{Close, Conn, End, Io, Level, Receive, TimerId};
use wire::backend::TxStatus;
use wire::{frontend, write};

use crate::data::client::{Client, Link, Stage as ClientStage};
use crate::letters::{Requester, ToControl, ToWorker, Waits};
use crate::timers::Timer;
use crate::turn::{Owner, Worker};
use crate::upstream::secure::Answer;

/// A cancel request on its way.
#[derive(Debug)]
pub(crate) struct Cancel {
    conn: Conn,
    server: ServerKey,
    pool: PoolKey,
    /// The query that it is meant for.
    query_number: u64,
    is_sent: bool,
    /// What TLS begins with, and the host to be named, if the server that it is for is secured: then the request is too.
    secret: Option<(Arc<Demand>, Arc<str>)>,
    timer: Option<TimerId>,
    since: Time,
    /// Who is told, by the end of their connection, that it is over.
    requesters: Vec<Requester>,
}

impl<I: Io> Worker<I> {
    /// Makes the key of a client that speaks protocol 3.`minor`. It counts from now on.
    pub(crate) fn give_cancel_key(&mut self, client: Key, minor: u16) -> CancelKey {
        let peer = self.force.settings.own_peer();
        let key = CancelKey::draw(self.id, peer, minor, |bytes| self.io.randomness(bytes));
        self.cancel_keys.insert(key.name(), client);
        key
    }

    /// Somebody names a key: its process, or its worker here, looks for the query.
    pub(crate) fn route_cancel(&mut self, key: &[u8], requester: Key, waits: Waits) {
        let requester = (self.id, requester);
        let Some(key) = CancelKey::parse(key) else {
            self.tell_requester(requester);
            return;
        };
        match key.clone().aim(self.force.settings.own_peer()) {
            Aim::Here(key) => self.route_here(key, requester, waits),
            // It may be the key of a client that came before this process had its number.
            Aim::Peer { peer, .. } if !self.force.settings.peers.contains_key(&peer) => {
                let text = format_args!("could not find peer {peer} to forward cancel request to");
                self.log.add(Level::Debug, text);
                self.route_here(key, requester, waits);
            }
            Aim::Peer { peer, key: Some(key) } => self.route_to_peer(peer, key, requester, waits),
            Aim::Peer { peer, key: None } => {
                let text = format_args!(
                    "failed to forward cancel request to peer {peer} because its TTL was exhausted: \
                     peers do not agree about who is who"
                );
                self.log.add(Level::Warning, text);
                self.tell_requester(requester);
            }
        }
    }

    fn route_here(&mut self, key: CancelKey, requester: Requester, waits: Waits) {
        // A key from another process, which had more workers, names none of ours.
        let worker = self.named_by(key.name());
        if worker == self.id || planted::is(Planted::CancelToWrongWorker) {
            self.cancel(key, requester, waits);
        } else if let Some(post) = self.posts.workers.get(usize::from(worker.0)) {
            post(ToWorker::Cancel { key, requester, waits });
        } else {
            self.tell_requester(requester);
        }
    }

    /// The worker that knows where the client of a key is.
    pub(crate) fn named_by(&self, name: KeyName) -> WorkerId {
        WorkerId((usize::from(name.worker().0) % self.posts.workers.len()) as u8)
    }

    /// The request is over, whatever came of it: its connection is closed.
    pub(crate) fn tell_requester(&mut self, (worker, client): Requester) {
        if worker == self.id {
            self.drop_client(client, "cancel request");
        } else {
            (self.posts.workers[usize::from(worker.0)])(ToWorker::CancelOver(client));
        }
    }

    /// Whether a request has been given up: it was in a letter for longer than whoever made it waits, who may have asked for something
    /// else meanwhile.
    pub(crate) fn is_cancel_stale(&self, waits: Waits) -> bool {
        waits.until.is_some_and(|until| until <= self.now)
    }

    /// Cancels what the client of this key runs or waits for.
    pub(crate) fn cancel(&mut self, key: CancelKey, requester: Requester, waits: Waits) {
        if self.is_cancel_stale(waits) {
            self.log.add(Level::Debug, format_args!("failed cancel request: nobody waits for it any more"));
            return self.tell_requester(requester);
        }
        let client = self.cancel_keys.get(&key.name()).copied();
        if client.is_none()
            && let Some(&home) = self.moved_keys.get(&key.name())
        {
            (self.posts.workers[usize::from(home.0)])(ToWorker::Cancel { key, requester, waits });
            return;
        }
        let client = client.filter(|client| self.is_key_of(*client, &key));
        match client.and_then(|client| Some((client, &self.clients.get(client)?.stage))) {
            Some((client, ClientStage::Ready(ready))) => match ready.link {
                Link::Loan(server)
                    if self.servers.get(server).is_some_and(|server| server.session.exchange.is_running()) =>
                {
                    if self.cancel_server(server, Some(requester)) {
                        return;
                    }
                }
                Link::Waiting(_) | Link::Delayed(_) => self.cancel_waiting(client),
                Link::Loan(_) | Link::None => {
                    let line = self.client_prefix(client);
                    self.log.add(Level::Debug, format_args!("{line}cancel request for idle client"));
                }
            },
            Some((client, ClientStage::Console(console))) if console.is_busy => {
                (self.posts.control)(ToControl::ConsoleCancel { from: self.id, client });
            }
            _ => self.log.add(Level::Debug, format_args!("failed cancel request: no client has this key")),
        }
        self.tell_requester(requester);
    }

    /// Whether this is the whole key of a client.
    fn is_key_of(&self, client: Key, key: &CancelKey) -> bool {
        match self.clients.get(client).map(|client| &client.stage) {
            Some(ClientStage::Ready(ready)) => ready.cancel_key == *key,
            Some(ClientStage::Console(console)) => console.cancel_key == *key,
            _ => false,
        }
    }

    /// Dials a second connection to the server's host; whether it has been begun. What comes of it may be nothing, as
    /// PostgreSQL says too.
    pub(crate) fn cancel_server(&mut self, key: ServerKey, requester: Option<Requester>) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        let (Some(address), false) = (server.address.clone(), server.cancel_key.is_empty()) else { return false };
        let (pool, number) = (server.pool, server.query_number);
        let demand = server.demand.clone().filter(|_| server.security.is_some());
        let secret = demand.map(|demand| (demand, server.host.clone()));
        let is_same = |cancel: &Cancel| cancel.server == key && cancel.query_number == number;
        if let Some((_, other)) = self.cancels.iter_mut().find(|(_, cancel)| is_same(cancel)) {
            other.requesters.extend(requester);
            return true;
        }
        let cancel = Cancel {
            conn: Conn { index: u32::MAX, generation: 0 },
            server: key,
            pool: server.pool,
            query_number: server.query_number,
            is_sent: false,
            secret,
            timer: None,
            since: self.now,
            requesters: requester.into_iter().collect(),
        };
        let Ok(cancel_key) = self.cancels.insert(cancel) else { return false };
        match self.io.connect(&address, Owner::Cancel(cancel_key).to_bits()) {
            Ok(conn) => {
                let limit = self.force.settings.cancel_wait_timeout;
                let timer = limit.map(|limit| self.timers.insert(self.now + limit, Timer::Cancel(cancel_key)));
                if let Some(cancel) = self.cancels.get_mut(cancel_key) {
                    (cancel.conn, cancel.timer) = (conn, timer);
                }
                self.count_cancel(pool, 1);
                true
            }
            Err(error) => {
                self.cancels.remove(cancel_key);
                self.log.add(Level::Warning, format_args!("failed to send cancel request: {error}"));
                false
            }
        }
    }

    /// Whether a cancel request is on its way to a server.
    pub(crate) fn is_aimed_at(&self, server: ServerKey) -> bool {
        self.cancels.iter().any(|(_, cancel)| cancel.server == server)
    }

    fn count_cancel(&mut self, pool: PoolKey, change: i32) {
        if let Some(place) = self.places.pool_mut(pool) {
            place.cancels = place.cancels.saturating_add_signed(change);
        }
    }

    /// The second connection stands. To a server that is secured the request goes in secret too: it carries the server's secret.
    pub(crate) fn cancel_connected(&mut self, key: Key) {
        let Some(cancel) = self.cancels.get(key) else { return };
        if cancel.secret.is_some() {
            self.send_tls_request(cancel.conn);
        } else {
            self.send_cancel(key);
        }
    }

    /// The server says something on the second connection: the answer to the question whether it speaks TLS. To the request
    /// itself it says nothing.
    pub(crate) fn cancel_answered(&mut self, key: Key, bytes: &[u8]) {
        let Some(cancel) = self.cancels.get_mut(key).filter(|cancel| !cancel.is_sent) else { return };
        let Some((demand, host)) = cancel.secret.take() else { return };
        let conn = cancel.conn;
        let answer = match self.tls_answer(bytes) {
            // The server itself has spoken TLS: somebody in between wants to read the request.
            Answer::No => Answer::Refused,
            answer => answer,
        };
        let done = match answer {
            Answer::Yes => self.secure_server(conn, Owner::Cancel(key), demand, host),
            answer => Err(answer.fault().unwrap_or_default().to_owned()),
        };
        if let Err(why) = done {
            self.log.add(Level::Warning, format_args!("failed to send cancel request: {why}"));
            self.cancel_over(key);
        }
    }

    /// The second connection is ready: now or never.
    pub(crate) fn send_cancel(&mut self, key: Key) {
        let Some(cancel) = self.cancels.get_mut(key) else { return };
        if planted::is(Planted::CancelIgnoresQuery) {
            cancel.query_number = self.servers.get(cancel.server).map_or(0, |server| server.query_number);
        }
        let server = self.servers.get_mut(cancel.server);
        match server.filter(|server| server.query_number == cancel.query_number && server.session.exchange.is_running())
        {
            Some(server) => {
                let mut out = Vec::new();
                write::cancel_request(&mut out, &server.cancel_key);
                if !planted::is(Planted::CancelForgottenOnceSent) {
                    server.session.cancels_sent += 1;
                    cancel.is_sent = true;
                }
                self.io.send(cancel.conn, out.into());
                self.io.receive(cancel.conn, Receive::Stream);
            }
            None => {
                self.log.add(Level::Debug, format_args!("not sending cancel request for client that is now idle"));
                self.cancel_over(key);
            }
        }
    }

    /// The second connection has ended. If the server has closed it, the signal has been sent.
    pub(crate) fn cancel_ended(&mut self, key: Key, end: &End) {
        let fault = match end {
            End::Eof => return self.cancel_over(key),
            End::Broken(_) if planted::is(Planted::CutOffCancelBelieved) => return self.cancel_over(key),
            End::Broken(error) => error.to_string(),
            End::Insecure(why) => format!("TLS handshake error: {why}"),
        };
        self.log.add(Level::Warning, format_args!("failed to send cancel request: {fault}"));
        self.cancel_lost(key, "cancel request was cut off");
    }

    /// The second connection did not come about.
    pub(crate) fn cancel_failed(&mut self, key: Key) {
        self.log.add(Level::Warning, format_args!("failed to send cancel request: could not connect"));
        if let Some(cancel) = self.cancels.get_mut(key) {
            // The reactor has closed it.
            cancel.conn = Conn { index: u32::MAX, generation: 0 };
        }
        self.cancel_over(key);
    }

    /// Nobody waits for the request any longer.
    pub(crate) fn cancel_too_late(&mut self, key: Key) {
        let Some(cancel) = self.cancels.get_mut(key) else { return };
        cancel.timer = None;
        let waited = self.now.since(cancel.since);
        self.log
            .add(Level::Log, format_args!("closing cancel request: cancel_wait_timeout (age={}s)", waited.as_secs()));
        if planted::is(Planted::LateCancelBelieved) {
            return self.cancel_over(key);
        }
        self.cancel_lost(key, "cancel_wait_timeout");
    }

    /// Nobody can say any more when the request will arrive. The server that it may still hit is closed, whatever it does.
    fn cancel_lost(&mut self, key: Key, why: &str) {
        let Some(&Cancel { server, is_sent, .. }) = self.cancels.get(key) else { return };
        if is_sent && let Some(row) = self.servers.get(server) {
            let client = row.client();
            self.lose_server(server, why);
            if let Some(client) = client {
                self.fail_client(client, &Fault::ServerCrashed);
            }
        }
        self.cancel_over(key);
    }

    fn cancel_over(&mut self, key: Key) {
        let Some(cancel) = self.cancels.remove(key) else { return };
        self.count_cancel(cancel.pool, -1);
        self.io.close(cancel.conn, Close::Now);
        if let Some(timer) = cancel.timer {
            self.timers.remove(timer);
        }
        for requester in cancel.requesters {
            self.tell_requester(requester);
        }
        self.plan_another_cancel(cancel.server, cancel.is_sent);
        if !cancel.is_sent {
            return;
        }
        let Some(server) = self.servers.get_mut(cancel.server) else { return };
        server.session.cancels_sent -= 1;
        if server.session.cancels_sent == 0 {
            self.cancels_over(cancel.server);
        }
    }

    /// A client in the queue takes its first request back: it is answered as a cancelled one.
    fn cancel_waiting(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else {
            return;
        };
        let Some(syncs) = ready.drop_first_request() else { return };
        let is_delayed = matches!(ready.link, Link::Delayed(_));
        ready.link = Link::None;
        *answered = self.now;
        let (conn, pool, rest) = (*conn, ready.pool, ready.held.take());
        let mut out = Vec::new();
        // A Sync alone, such as the rest of a COPY that has failed, is nothing to cancel: it has its answer.
        (0..syncs).for_each(|_| write::ready_for_query(&mut out, TxStatus::Idle));
        let detail = match is_delayed {
            true => "The request was delayed by a rate limit.",
            false => "The request was waiting for a server connection.",
        };
        write_cancelled(&mut out, "canceling statement due to user request", detail);
        self.io.send(conn, out.into());
        self.rating.forget(key);
        self.tell_pools(Event::Left { pool, client: key });
        // What it has said beyond that is looked at as if it had just come.
        self.hold_again(key, rest);
        self.resume_client(key);
    }
}

/// The answer to a request that was cancelled before a server had begun with it.
pub(crate) fn write_cancelled(out: &mut Vec<u8>, message: &str, detail: &str) {
    let says = write::Says { severity: "ERROR", sqlstate: QUERY_CANCELED, message, detail: Some(detail), hint: None };
    write::error(out, says);
    write::ready_for_query(out, TxStatus::Idle);
}

/// `query_canceled` (`errcodes.txt`).
pub(crate) const QUERY_CANCELED: &str = "57014";

/// The first request of a client that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FirstRequest {
    /// How many Syncs stand alone before it.
    pub(crate) syncs: usize,
    /// Where it ends: with the message that is answered by `ReadyForQuery`.
    pub(crate) end: usize,
}

/// The first request of these bytes. `None` while its last message has not come whole.
pub(crate) fn first_request(bytes: &[u8]) -> Option<FirstRequest> {
    let (mut at, mut syncs, mut has_begun) = (0, 0, false);
    loop {
        let (&kind, rest) = bytes.get(at..)?.split_first()?;
        let length = u32::from_be_bytes(*rest.first_chunk::<4>()?) as usize;
        let end = at.checked_add(1)?.checked_add(length)?;
        if end > bytes.len() {
            return None;
        }
        match kind {
            frontend::SYNC if !has_begun => syncs += 1,
            frontend::QUERY | frontend::SYNC | frontend::FUNCTION_CALL => return Some(FirstRequest { syncs, end }),
            _ => has_begun = true,
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_ends_with_the_message_that_ready_answers() {
        let mut bytes = Vec::new();
        write::query(&mut bytes, "select 1");
        let first = bytes.len();
        write::query(&mut bytes, "select 2");
        assert_eq!(first_request(&bytes), Some(FirstRequest { syncs: 0, end: first }));
        let mut batch = Vec::new();
        write::bare(&mut batch, frontend::EXECUTE);
        assert_eq!(first_request(&batch), None);
        write::bare(&mut batch, frontend::SYNC);
        assert_eq!(first_request(&batch), Some(FirstRequest { syncs: 0, end: batch.len() }));
        assert_eq!(first_request(&batch[..batch.len() - 1]), None);
        assert_eq!(first_request(b""), None);
    }

    #[test]
    fn a_sync_alone_is_no_request() {
        let mut bytes = Vec::new();
        write::bare(&mut bytes, frontend::SYNC);
        write::bare(&mut bytes, frontend::SYNC);
        assert_eq!(first_request(&bytes), None);
        write::query(&mut bytes, "select 1");
        assert_eq!(first_request(&bytes), Some(FirstRequest { syncs: 2, end: bytes.len() }));
    }
}
