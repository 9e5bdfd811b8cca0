//! Cancel requests: a second connection that asks a server to stop what the first one runs.
//!
//! Always true: a request is sent only while the very query runs that it was meant for; until it is over, which the
//! server shows by closing the connection, the server begins no query for any client. (PostgreSQL's postmaster signals
//! the backend before it closes, `ProcessCancelRequest` in `postmaster.c`; a signal that finds the backend between two
//! queries is ignored, `ProcessInterrupts` in `tcop/postgres.c`.)
//! Not here: the keys (`protocol::cancel`), how a request is begun (`aim`), the rows of clients and servers (`rows`).

use base::Key;
use config::ProxyProtocol;
use measure::CancelRequest;
use protocol::cancel::{Aim, CancelKey};
use reactor::{Close, Conn, End, Io, Level, Receive, Subject};
use wire::write;

use crate::cancel::Cancels;
use crate::cancel::aim::{Target, named_by};
use crate::hands::Hands;
use crate::letters::{CancelWait, CancelWish, Requester, ToControl, ToWorker};
use crate::planted::{is_here, is_meant, may_arrive_after, may_still_arrive, note_sent};
use crate::tasks::Task;
use crate::upstream::host_names::HostNames;
use crate::upstream::proxy_header::begin_own;
use crate::upstream::secure::{TLS_REFUSED, begin_tls, request_tls, tls_answer};
use crate::worker::Owner;

/// What a cancel request is meant for: what the client of its key does at the moment.
#[derive(Debug)]
pub(crate) enum Meant {
    /// The query that its server runs; `None` if that server can be sent no cancel request.
    Query(Option<Target>),
    /// Its wait for a server.
    Wait(Key),
    /// Its command, which the console has not answered.
    Command(Key),
    /// Nothing. The log says so of clients with a pool.
    Nothing(Option<Subject>),
    /// No client has this key.
    Unknown,
}

/// The server of a request that can be sent now.
#[derive(Debug)]
pub(crate) struct Reached<'a> {
    pub(crate) query_number: u64,
    pub(crate) is_running: bool,
    pub(crate) cancel_key: &'a [u8],
    /// The requests that it has been sent and that are not over.
    pub(crate) under_way: &'a mut u32,
}

impl Cancels {
    /// Sends a cancel request to the process, or the worker, that its key names. Returns it if that is this worker.
    pub(crate) fn route<I: Io>(
        &mut self,
        key: &[u8],
        requester: Key,
        waits: CancelWait,
        hands: &mut Hands<I>,
        names: &mut HostNames,
    ) -> Option<CancelWish> {
        let requester = (hands.id, requester);
        let Some(key) = CancelKey::parse(key) else {
            end_request(requester, CancelRequest::UnknownKey, hands);
            return None;
        };
        match key.clone().aim(hands.active.settings.own_peer()) {
            Aim::Here(key) => route_here(CancelWish { key, requester, waits }, hands),
            // It may be the key of a client that connected before this process had its peer number.
            Aim::Peer { peer, .. } if !hands.active.settings.peers.contains_key(&peer) => {
                let text = format_args!("could not find peer {peer} to forward cancel request to");
                hands.log.add(Level::Debug, text);
                route_here(CancelWish { key, requester, waits }, hands)
            }
            Aim::Peer { peer, key: Some(key) } => {
                self.route_to_peer(peer, CancelWish { key, requester, waits }, hands, names);
                None
            }
            Aim::Peer { peer, key: None } => {
                let text = format_args!(
                    "failed to forward cancel request to peer {peer} because its TTL was exhausted: \
                     peers do not agree about who is who"
                );
                hands.log.add(Level::Warning, text);
                end_request(requester, CancelRequest::Failed, hands);
                None
            }
        }
    }

    /// Returns a request that has come to its worker, unless it has expired or its client has moved to another worker.
    pub(crate) fn heed<I: Io>(&self, wish: CancelWish, hands: &mut Hands<I>) -> Option<CancelWish> {
        if is_stale(wish.waits, hands) {
            hands.log.add(Level::Debug, format_args!("failed cancel request: nobody waits for it any more"));
            end_request(wish.requester, CancelRequest::Expired, hands);
            return None;
        }
        let name = wish.key.name();
        match self.moved_keys.get(&name) {
            Some(&home) if !self.keys.contains_key(&name) => {
                (hands.posts.workers[usize::from(home.0)])(ToWorker::Cancel(wish));
                None
            }
            _ => Some(wish),
        }
    }

    /// Cancels what the request is meant for. The request is over at once, or when it has been sent to the client's server.
    pub(crate) fn cancel<I: Io>(&mut self, meant: Meant, requester: Requester, hands: &mut Hands<I>) {
        let how = match meant {
            Meant::Query(target) => {
                if target.is_some_and(|target| self.aim(target, Some(requester), hands)) {
                    return;
                }
                CancelRequest::Failed
            }
            Meant::Wait(client) => {
                hands.enqueue(Task::CancelWaiting(client));
                CancelRequest::Queued
            }
            Meant::Command(client) => {
                (hands.posts.control)(ToControl::ConsoleCancel { from: hands.id, client });
                CancelRequest::Sent
            }
            Meant::Nothing(line) => {
                if let Some(line) = line {
                    hands.log.about(&line, Level::Debug, format_args!("cancel request for idle client"));
                }
                CancelRequest::Idle
            }
            Meant::Unknown => {
                hands.log.add(Level::Debug, format_args!("failed cancel request: no client has this key"));
                CancelRequest::UnknownKey
            }
        };
        end_request(requester, how, hands);
    }

    /// The second connection is established and begins with this PROXY header. Returns whether the request can be sent. If the server's own connection is
    /// encrypted, this one has to be first: the request carries the server's secret key.
    pub(crate) fn connected<I: Io>(&self, key: Key, header: ProxyProtocol, hands: &mut Hands<I>) -> bool {
        let Some(cancel) = self.rows.get(key) else { return false };
        let header = cancel.legacy.as_ref().map_or(header, |legacy| legacy.header);
        let mut out = Vec::new();
        begin_own(&mut out, header, &hands.io, cancel.conn);
        if !out.is_empty() {
            hands.io.send(cancel.conn, out.into());
        }
        if cancel.secret.is_some() {
            request_tls(&mut hands.io, cancel.conn);
        }
        cancel.secret.is_none()
    }

    /// The server sends something on the second connection: the answer to our SSLRequest. A server sends no answer to
    /// the cancel request itself.
    pub(crate) fn answered<I: Io>(&mut self, key: Key, bytes: &[u8], hands: &mut Hands<I>) {
        let Some(cancel) = self.rows.get_mut(key).filter(|cancel| !cancel.is_sent) else { return };
        let Some((demand, host)) = cancel.secret.take() else { return };
        let is_forbidden = hands.active.settings.server_tls_sslmode.forbids_clear_text();
        let done = match tls_answer(bytes, is_forbidden) {
            Ok(true) => begin_tls(&mut hands.io, cancel.conn, Owner::Cancel(key), demand, host),
            // The server's own connection has TLS: a man in the middle wants to read the request.
            Ok(false) => Err(TLS_REFUSED.to_owned()),
            Err(why) => Err(why.to_owned()),
        };
        if let Err(why) = done {
            hands.log.add(Level::Warning, format_args!("failed to send cancel request: {why}"));
            self.over(key, CancelRequest::Failed, hands);
        }
    }

    /// The second connection is ready: sends the request, if its query still runs. `server` is `None` if it has gone; a server that
    /// was closed in the middle of its query may run it still.
    pub(crate) fn send<I: Io>(&mut self, key: Key, server: Option<Reached<'_>>, hands: &mut Hands<I>) {
        let Some(cancel) = self.rows.get_mut(key) else { return };
        if let Some(legacy) = &cancel.legacy {
            let mut out = Vec::new();
            write::cancel_request(&mut out, &legacy.cancel_key);
            cancel.is_sent = true;
            hands.io.send(cancel.conn, out.into());
            hands.io.receive(cancel.conn, Receive::Stream);
            return;
        }
        let is_at_it = |server: &Reached<'_>| is_meant(server.query_number == cancel.query_number) && server.is_running;
        match server.filter(is_at_it) {
            Some(server) => {
                let mut out = Vec::new();
                write::cancel_request(&mut out, server.cancel_key);
                note_sent(server.under_way, &mut cancel.is_sent);
                hands.io.send(cancel.conn, out.into());
                hands.io.receive(cancel.conn, Receive::Stream);
            }
            None => {
                let text = format_args!("not sending cancel request for client that is now idle");
                hands.log.add(Level::Debug, text);
                self.over(key, CancelRequest::Idle, hands);
            }
        }
    }

    /// The second connection has ended. If the server has closed it, the backend has been signalled.
    pub(crate) fn ended<I: Io>(&mut self, key: Key, end: &End, hands: &mut Hands<I>) {
        let fault = match end {
            End::Broken(error) if may_arrive_after(error) => error.to_string(),
            End::Eof | End::Broken(_) => return self.over(key, CancelRequest::Failed, hands),
            End::Insecure(why) => format!("TLS handshake error: {why}"),
        };
        hands.log.add(Level::Warning, format_args!("failed to send cancel request: {fault}"));
        self.lost(key, "cancel request was cut off", CancelRequest::Failed, hands);
    }

    /// The second connection could not be established.
    pub(crate) fn failed<I: Io>(&mut self, key: Key, hands: &mut Hands<I>) {
        hands.log.add(Level::Warning, format_args!("failed to send cancel request: could not connect"));
        if let Some(cancel) = self.rows.get_mut(key) {
            // The reactor has closed it.
            cancel.conn = Conn::NOWHERE;
        }
        self.over(key, CancelRequest::Failed, hands);
    }

    /// `cancel_wait_timeout` has passed.
    pub(crate) fn too_late<I: Io>(&mut self, key: Key, hands: &mut Hands<I>) {
        let Some(cancel) = self.rows.get_mut(key) else { return };
        cancel.timer = None;
        let waited = hands.now.since(cancel.since).as_secs();
        hands.log.add(Level::Log, format_args!("closing cancel request: cancel_wait_timeout (age={waited}s)"));
        self.lost(key, "cancel_wait_timeout", CancelRequest::Expired, hands);
    }

    /// It cannot be told any more when the request will arrive. The server that it may still hit is closed, whatever it does.
    fn lost<I: Io>(&mut self, key: Key, why: &'static str, unless_sent: CancelRequest, hands: &mut Hands<I>) {
        let Some(cancel) = self.rows.get(key) else { return };
        if may_still_arrive(cancel.is_sent, cancel.timer.is_none()) {
            hands.enqueue(Task::LoseServer { server: cancel.server, why });
        }
        self.over(key, unless_sent, hands);
    }

    /// The second connection is finished. Its requests have been sent, or end as `unless_sent`.
    fn over<I: Io>(&mut self, key: Key, unless_sent: CancelRequest, hands: &mut Hands<I>) {
        let Some(cancel) = self.rows.remove(key) else { return };
        hands.io.close(cancel.conn, Close::Now);
        if let Some(timer) = cancel.timer {
            hands.timers.remove(timer);
        }
        let how = if cancel.is_sent { CancelRequest::Sent } else { unless_sent };
        for requester in cancel.requesters {
            end_request(requester, how, hands);
        }
        hands.enqueue(Task::CancelOver { server: cancel.server, was_sent: cancel.is_sent });
    }
}

/// Sends a request to the worker whose client has its key. Returns it if that is this worker.
fn route_here<I: Io>(wish: CancelWish, hands: &mut Hands<I>) -> Option<CancelWish> {
    // A key from another process that had more workers may name none of ours.
    let worker = named_by(wish.key.name(), hands);
    if is_here(worker == hands.id) {
        return Some(wish);
    }
    (hands.posts.workers[usize::from(worker.0)])(ToWorker::Cancel(wish));
    None
}

/// A request is over with this result: closes the requester's connection.
pub(super) fn end_request<I: Io>((worker, client): Requester, how: CancelRequest, hands: &mut Hands<I>) {
    hands.connections.cancel_request_ends(how);
    if worker == hands.id {
        hands.enqueue(Task::RequestOver(client));
    } else {
        (hands.posts.workers[usize::from(worker.0)])(ToWorker::CancelOver(client));
    }
}

/// Whether a request has expired: it was in a letter for longer than its requester waits, who may have sent another
/// query meanwhile.
pub(super) fn is_stale<I: Io>(waits: CancelWait, hands: &Hands<I>) -> bool {
    waits.until.is_some_and(|until| until <= hands.now)
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
