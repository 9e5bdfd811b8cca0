//! Cancel requests: a second connection that asks a server to stop what the first one runs.
//!
//! Always true: a request is sent only while the very query runs that it was meant for; until it is over, which the
//! server shows by closing the connection, the server begins no query for any client. (PostgreSQL's postmaster signals
//! the backend before it closes, `ProcessCancelRequest` in `postmaster.c`; a signal that finds the backend between two
//! queries is ignored, `ProcessInterrupts` in `tcop/postgres.c`.)
//! Not here: the keys (`protocol::cancel`), how a request is begun (`aim`).

use base::Key;
use measure::{CancelRequest, Closed};
use protocol::cancel::{Aim, CancelKey};
use protocol::fault::Fault;
use reactor::{Close, Conn, End, Io, Level, Receive};
use wire::write;

use crate::cancel::tables::Cancel;
use crate::data::client::{ClientStage, Link};
use crate::letters::{CancelWait, Requester, ToControl, ToWorker};
use crate::observe::tracers::What;
use crate::planted::{is_here, is_meant, may_arrive_after, may_still_arrive, note_sent};
use crate::upstream::secure::TLS_REFUSED;
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Sends a cancel request to the process, or the worker here, that its key names.
    pub(crate) fn route_cancel(&mut self, key: &[u8], requester: Key, waits: CancelWait) {
        let requester = (self.hands.id, requester);
        let Some(key) = CancelKey::parse(key) else {
            self.end_cancel_request(requester, CancelRequest::UnknownKey);
            return;
        };
        match key.clone().aim(self.hands.active.settings.own_peer()) {
            Aim::Here(key) => self.route_here(key, requester, waits),
            // It may be the key of a client that connected before this process had its peer number.
            Aim::Peer { peer, .. } if !self.hands.active.settings.peers.contains_key(&peer) => {
                let text = format_args!("could not find peer {peer} to forward cancel request to");
                self.hands.log.add(Level::Debug, text);
                self.route_here(key, requester, waits);
            }
            Aim::Peer { peer, key: Some(key) } => self.route_to_peer(peer, key, requester, waits),
            Aim::Peer { peer, key: None } => {
                let text = format_args!(
                    "failed to forward cancel request to peer {peer} because its TTL was exhausted: \
                     peers do not agree about who is who"
                );
                self.hands.log.add(Level::Warning, text);
                self.end_cancel_request(requester, CancelRequest::Failed);
            }
        }
    }

    fn route_here(&mut self, key: CancelKey, requester: Requester, waits: CancelWait) {
        // A key from another process that had more workers may name none of ours.
        let worker = self.named_by(key.name());
        if is_here(worker == self.hands.id) {
            self.cancel(key, requester, waits);
        } else if let Some(post) = self.hands.posts.workers.get(usize::from(worker.0)) {
            post(ToWorker::Cancel { key, requester, waits });
        } else {
            self.end_cancel_request(requester, CancelRequest::UnknownKey);
        }
    }

    /// Cancels what the client of this key runs or waits for.
    pub(crate) fn cancel(&mut self, key: CancelKey, requester: Requester, waits: CancelWait) {
        if self.is_cancel_stale(waits) {
            self.hands.log.add(Level::Debug, format_args!("failed cancel request: nobody waits for it any more"));
            return self.end_cancel_request(requester, CancelRequest::Expired);
        }
        let client = self.cancel.keys.get(&key.name()).copied();
        if client.is_none()
            && let Some(&home) = self.cancel.moved_keys.get(&key.name())
        {
            (self.hands.posts.workers[usize::from(home.0)])(ToWorker::Cancel { key, requester, waits });
            return;
        }
        let client = client.filter(|client| self.is_key_of(*client, &key));
        if let Some(client) = client {
            self.trace(client, |_, _| Some(What::Cancelled));
        }
        let how = match client.and_then(|client| Some((client, &self.clients.get(client)?.stage))) {
            Some((client, ClientStage::Ready(ready))) => match ready.link {
                Link::Loan(server)
                    if self.servers.get(server).is_some_and(|server| server.session.exchange.is_running()) =>
                {
                    if self.cancel_server(server, Some(requester)) {
                        return;
                    }
                    CancelRequest::Failed
                }
                Link::Waiting(_) | Link::Delayed(_) => {
                    self.cancel_waiting(client);
                    CancelRequest::Queued
                }
                Link::Loan(_) | Link::None => {
                    self.log_client(client, Level::Debug, format_args!("cancel request for idle client"));
                    CancelRequest::Idle
                }
            },
            Some((client, ClientStage::Console(console))) if console.is_busy() => {
                (self.hands.posts.control)(ToControl::ConsoleCancel { from: self.hands.id, client });
                CancelRequest::Sent
            }
            Some(_) => CancelRequest::Idle,
            None => {
                self.hands.log.add(Level::Debug, format_args!("failed cancel request: no client has this key"));
                CancelRequest::UnknownKey
            }
        };
        self.end_cancel_request(requester, how);
    }

    /// Whether this is the complete key of the client.
    fn is_key_of(&self, client: Key, key: &CancelKey) -> bool {
        match self.clients.get(client).map(|client| &client.stage) {
            Some(ClientStage::Ready(ready)) => ready.cancel_key == *key,
            Some(ClientStage::Console(console)) => console.cancel_key() == key,
            _ => false,
        }
    }

    /// The second connection is established. If the server's own connection is encrypted, this one is too: the request
    /// carries the server's secret key.
    pub(crate) fn cancel_connected(&mut self, key: Key) {
        let Some(cancel) = self.cancel.rows.get(key) else { return };
        if cancel.secret.is_some() {
            self.send_tls_request(cancel.conn);
        } else {
            self.send_cancel(key);
        }
    }

    /// The server sends something on the second connection: the answer to our SSLRequest. A server sends no answer to
    /// the cancel request itself.
    pub(crate) fn cancel_answered(&mut self, key: Key, bytes: &[u8]) {
        let Some(cancel) = self.cancel.rows.get_mut(key).filter(|cancel| !cancel.is_sent) else { return };
        let Some((demand, host)) = cancel.secret.take() else { return };
        let conn = cancel.conn;
        let done = match self.tls_answer(bytes) {
            Ok(true) => self.secure_server(conn, Owner::Cancel(key), demand, host),
            // The server's own connection has TLS: a man in the middle wants to read the request.
            Ok(false) => Err(TLS_REFUSED.to_owned()),
            Err(why) => Err(why.to_owned()),
        };
        if let Err(why) = done {
            self.hands.log.add(Level::Warning, format_args!("failed to send cancel request: {why}"));
            self.cancel_over(key, CancelRequest::Failed);
        }
    }

    /// The second connection is ready: sends the request, if its query still runs.
    pub(crate) fn send_cancel(&mut self, key: Key) {
        let Some(cancel) = self.cancel.rows.get_mut(key) else { return };
        let server = self.servers.get_mut(cancel.server);
        let is_at_it = |number| is_meant(number == cancel.query_number);
        match server.filter(|server| is_at_it(server.query_number) && server.session.exchange.is_running()) {
            Some(server) => {
                let mut out = Vec::new();
                write::cancel_request(&mut out, &server.cancel_key);
                note_sent(&mut server.session.cancels_sent, &mut cancel.is_sent);
                self.hands.io.send(cancel.conn, out.into());
                self.hands.io.receive(cancel.conn, Receive::Stream);
            }
            None => {
                self.hands
                    .log
                    .add(Level::Debug, format_args!("not sending cancel request for client that is now idle"));
                self.cancel_over(key, CancelRequest::Idle);
            }
        }
    }

    /// The second connection has ended. If the server has closed it, the backend has been signalled.
    pub(crate) fn cancel_ended(&mut self, key: Key, end: &End) {
        let fault = match end {
            End::Broken(error) if may_arrive_after(error) => error.to_string(),
            End::Eof | End::Broken(_) => return self.cancel_over(key, CancelRequest::Failed),
            End::Insecure(why) => format!("TLS handshake error: {why}"),
        };
        self.hands.log.add(Level::Warning, format_args!("failed to send cancel request: {fault}"));
        self.cancel_lost(key, "cancel request was cut off", CancelRequest::Failed);
    }

    /// The second connection could not be established.
    pub(crate) fn cancel_failed(&mut self, key: Key) {
        self.hands.log.add(Level::Warning, format_args!("failed to send cancel request: could not connect"));
        if let Some(cancel) = self.cancel.rows.get_mut(key) {
            // The reactor has closed it.
            cancel.conn = Conn::NOWHERE;
        }
        self.cancel_over(key, CancelRequest::Failed);
    }

    /// `cancel_wait_timeout` has passed.
    pub(crate) fn cancel_too_late(&mut self, key: Key) {
        let Some(cancel) = self.cancel.rows.get_mut(key) else { return };
        cancel.timer = None;
        let waited = self.hands.now.since(cancel.since);
        self.hands
            .log
            .add(Level::Log, format_args!("closing cancel request: cancel_wait_timeout (age={}s)", waited.as_secs()));
        self.cancel_lost(key, "cancel_wait_timeout", CancelRequest::Expired);
    }

    /// It cannot be told any more when the request will arrive. The server that it may still hit is closed, whatever it does.
    fn cancel_lost(&mut self, key: Key, why: &str, unless_sent: CancelRequest) {
        let Some(&Cancel { server, is_sent, timer, .. }) = self.cancel.rows.get(key) else { return };
        if may_still_arrive(is_sent, timer.is_none())
            && let Some(row) = self.servers.get(server)
        {
            let client = row.client();
            self.lose_server(server, Closed::Dirty, why);
            if let Some(client) = client {
                self.fail_client(client, &Fault::ServerCrashed);
            }
        }
        self.cancel_over(key, unless_sent);
    }

    /// The second connection is finished. Its requests have been sent, or end as `unless_sent`.
    fn cancel_over(&mut self, key: Key, unless_sent: CancelRequest) {
        let Some(cancel) = self.cancel.rows.remove(key) else { return };
        self.hands.io.close(cancel.conn, Close::Now);
        if let Some(timer) = cancel.timer {
            self.hands.timers.remove(timer);
        }
        let how = if cancel.is_sent { CancelRequest::Sent } else { unless_sent };
        for requester in cancel.requesters {
            self.end_cancel_request(requester, how);
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

    /// The request is over with this result: closes the requester's connection.
    pub(crate) fn end_cancel_request(&mut self, (worker, client): Requester, how: CancelRequest) {
        self.hands.connections.cancel_request_ends(how);
        if worker == self.hands.id {
            self.drop_client(client, "cancel request");
        } else {
            (self.hands.posts.workers[usize::from(worker.0)])(ToWorker::CancelOver(client));
        }
    }

    /// Whether a request has expired: it was in a letter for longer than its requester waits, who may have sent another
    /// query meanwhile.
    pub(crate) fn is_cancel_stale(&self, waits: CancelWait) -> bool {
        waits.until.is_some_and(|until| until <= self.hands.now)
    }
}
