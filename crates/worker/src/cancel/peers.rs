//! Forwards cancel requests for clients of another process of the group (`[peers]`).
//!
//! Always true: all requests for one peer go through one worker, so that its `pool_size` is exact; a request ends when
//! the peer closes the connection, cannot be reached or is removed, or when its time is over, and the requester is told
//! then.
//! Not here: which process a key belongs to (`requests`, `protocol::cancel`).

use base::{Id, Key, Time, WorkerId};
use config::{Host, Peer};
use measure::CancelRequest;
use protocol::cancel::CancelKey;
use reactor::{Close, Io, Level, Receive, Subject};
use wire::write;

use crate::cancel::tables::{CANCELS_MAX, Forward, ForwardStage};
use crate::letters::{CancelWait, PeerRow, Requester, ToWorker};
use crate::planted::{is_ready_for_next, take_out, who_asked};
use crate::timers::Timer;
use crate::upstream::attempt::Attempt;
use crate::upstream::dial::{NO_ANSWER, words};
use crate::upstream::host_names::{Asker, Known};
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Sends a request for a client of this peer to the worker that keeps the connections to the peer.
    pub(crate) fn route_to_peer(&mut self, peer: u16, key: CancelKey, requester: Requester, waits: CancelWait) {
        let workers = self.hands.posts.workers.len();
        let home = WorkerId((usize::from(peer) % workers) as u8);
        if home == self.hands.id {
            self.pass_on(peer, key, requester, waits);
        } else {
            (self.hands.posts.workers[usize::from(home.0)])(ToWorker::PassOn { peer, key, requester, waits });
        }
    }

    /// Forwards a request, as soon as there is a connection for it.
    pub(crate) fn pass_on(&mut self, peer: u16, key: CancelKey, requester: Requester, waits: CancelWait) {
        if self.is_cancel_stale(waits) {
            return self.end_cancel_request(requester, CancelRequest::Expired);
        }
        self.hands.log.add(Level::Debug, format_args!("forwarding cancellation request to peer {peer}"));
        if !self.hands.active.settings.peers.contains_key(&peer) {
            // A reload has removed the peer while the request came from another worker.
            return self.end_cancel_request(requester, CancelRequest::Failed);
        }
        let id = self.hands.posts.ids.take();
        let forward =
            Forward { peer, key, id, waits, timer: None, stage: ForwardStage::Waiting, attempt: None, requester };
        let Ok(row) = self.cancel.forwards.rows.insert(forward) else {
            let text = format_args!("failed to forward cancel request: {CANCELS_MAX} are on their way already");
            self.hands.log.add(Level::Warning, text);
            return self.end_cancel_request(requester, CancelRequest::Failed);
        };
        self.cancel.forwards.known.insert(peer);
        self.time_forward(row);
        self.start_forwards(peer);
    }

    /// Dials for waiting requests, up to the number of connections that the peer may have.
    fn start_forwards(&mut self, peer: u16) {
        let active = self.hands.active.clone();
        let Some(place) = active.settings.peers.get(&peer) else { return };
        let limit = active.settings.peer_pool_size(place).unwrap_or(CANCELS_MAX) as usize;
        while self.cancel.forwards.connections(peer) < limit
            && let Some(key) = self.cancel.forwards.first_waiting(peer)
        {
            if let Err(why) = self.dial_peer(key, place) {
                self.fail_forward(key, &why);
            }
        }
    }

    fn dial_peer(&mut self, key: Key, peer: &Peer) -> Result<(), String> {
        let since = self.hands.now;
        let attempt = match self.names.addresses_of(&peer.host, peer.port, Asker::Forward(key), &self.hands) {
            Known::Addresses(addresses) => Attempt::begin(addresses, since),
            Known::Nothing(_) => None,
            Known::Later => {
                self.move_forward(key, ForwardStage::Resolving { since });
                return Ok(());
            }
        };
        let Some(forward) = self.cancel.forwards.rows.get_mut(key) else { return Ok(()) };
        forward.attempt = Some(Box::new(attempt.ok_or("DNS lookup failed")?));
        self.connect_forward(key, since)
    }

    /// Connects to the next address of the peer; if that fails at once, to the one after it. Returns why none is left.
    fn connect_forward(&mut self, key: Key, since: Time) -> Result<(), String> {
        loop {
            let Some(forward) = self.cancel.forwards.rows.get_mut(key) else { return Ok(()) };
            let Some(attempt) = &mut forward.attempt else { return Ok(()) };
            match self.hands.io.connect(attempt.address(), Owner::Forward(key).to_bits()) {
                Ok(conn) => {
                    attempt.starts(self.hands.now);
                    self.move_forward(key, ForwardStage::Connecting { conn, since });
                    return Ok(());
                }
                Err(error) => self.pass_over(key, &words(&error))?,
            }
        }
    }

    /// An address of the peer could not be reached. Returns the whole reason if it was the last one.
    fn pass_over(&mut self, key: Key, why: &str) -> Result<(), String> {
        let Some(forward) = self.cancel.forwards.rows.get_mut(key) else { return Ok(()) };
        let Some(attempt) = &mut forward.attempt else { return Ok(()) };
        let failed = attempt.address().clone();
        let is_last = attempt.fails(why).is_none();
        let why = attempt.reasons().unwrap_or_else(|| why.to_owned());
        let active = self.hands.active.clone();
        if let Some(Host::Name(name)) = active.settings.peers.get(&forward.peer).map(|peer| &peer.host) {
            self.names.note_unreached(name, &failed, self.hands.now);
        }
        if is_last { Err(format!("connect failed: {why}")) } else { Ok(()) }
    }

    fn move_forward(&mut self, key: Key, stage: ForwardStage) {
        if let Some(forward) = self.cancel.forwards.rows.get_mut(key) {
            forward.stage = stage;
            self.time_forward(key);
        }
    }

    /// Sets the timer for the request's deadline.
    fn time_forward(&mut self, key: Key) {
        let Some(forward) = self.cancel.forwards.rows.get_mut(key) else { return };
        if let Some(timer) = forward.timer.take() {
            self.hands.timers.remove(timer);
        }
        let due = forward.due(&self.hands.active.settings);
        forward.timer = due.map(|(at, _)| self.hands.timers.insert(at, Timer::Forward(key)));
    }

    /// The host name of a peer has been looked up.
    pub(crate) fn forward_resolved(&mut self, key: Key) {
        let Some(forward) = self.cancel.forwards.rows.get(key) else { return };
        if let (peer, ForwardStage::Resolving { .. }) = (forward.peer, forward.stage) {
            self.move_forward(key, ForwardStage::Waiting);
            self.start_forwards(peer);
        }
    }

    /// The connection to a peer is established: sends the request. The request carries no password and nothing that the
    /// peer did not give out itself, and goes in clear text, as PgBouncer's do.
    pub(crate) fn forward_connected(&mut self, key: Key) {
        let Some(forward) = self.cancel.forwards.rows.get(key) else { return };
        let ForwardStage::Connecting { conn, .. } = forward.stage else { return };
        let mut out = Vec::new();
        write::cancel_request(&mut out, forward.key.bytes());
        self.move_forward(key, ForwardStage::Sent(conn));
        self.hands.io.send(conn, out.into());
        self.hands.io.receive(conn, Receive::Stream);
    }

    /// The connection to a peer failed; the reactor has closed it.
    pub(crate) fn forward_failed(&mut self, key: Key, error: &std::io::Error) {
        let Some(forward) = self.cancel.forwards.rows.get_mut(key) else { return };
        let ForwardStage::Connecting { since, .. } = forward.stage else { return };
        forward.stage = ForwardStage::Unreached;
        let peer = forward.peer;
        if let Err(why) = self.try_next_peer(key, since, &words(error)) {
            self.fail_forward(key, &why);
            self.start_forwards(peer);
        }
    }

    /// An address of the peer has failed: dials the next one.
    fn try_next_peer(&mut self, key: Key, since: Time, why: &str) -> Result<(), String> {
        self.pass_over(key, why)?;
        self.connect_forward(key, since)
    }

    /// The deadline of a request has passed.
    pub(crate) fn forward_too_late(&mut self, key: Key) {
        let Some(forward) = self.cancel.forwards.rows.get_mut(key) else { return };
        forward.timer = None;
        let (peer, waited) = (forward.peer, self.hands.now.since(forward.waits.since).as_secs());
        if let Some((conn, since)) = forward.late_address(&self.hands.active.settings, self.hands.now) {
            self.hands.io.close(conn, Close::Now);
            forward.stage = ForwardStage::Unreached;
            if let Err(why) = self.try_next_peer(key, since, NO_ANSWER) {
                self.fail_forward(key, &why);
                self.start_forwards(peer);
            }
            return;
        }
        match forward.due(&self.hands.active.settings) {
            Some((at, why)) if at <= self.hands.now => {
                self.fail_forward(key, &format!("{why} (age={waited}s)"));
                self.start_forwards(peer);
            }
            // The settings have changed.
            _ => self.time_forward(key),
        }
    }

    /// The peer has closed the connection: it has handled the request.
    pub(crate) fn forward_ended(&mut self, key: Key) {
        if let Some(peer) = self.cancel.forwards.rows.get(key).map(|row| row.peer) {
            self.end_forward(key);
            if let Some(peer) = is_ready_for_next(peer) {
                self.start_forwards(peer);
            }
        }
    }

    /// A request cannot be forwarded.
    fn fail_forward(&mut self, key: Key, why: &str) {
        let Some(Forward { peer, id, .. }) = self.cancel.forwards.rows.get(key) else { return };
        let place = self.hands.active.settings.peers.get(peer);
        let (host, port) = place.map_or(("(unknown)", 0), |peer| (&*peer.host_text, peer.port));
        let line = format_args!("peer-{peer}@{host}:{port} failed to forward cancel request: {why}");
        self.hands.log.about(&Subject::id(Id::Client(*id)), Level::Warning, line);
        self.end_forward(key);
    }

    /// A request is over, whatever its result.
    fn end_forward(&mut self, key: Key) {
        let rows = &mut self.cancel.forwards.rows;
        let Some(forward) = take_out(rows, key, |row| row.stage == ForwardStage::Unreached) else { return };
        let requester = who_asked(forward.requester, rows.iter_mut().map(|(_, row)| &mut row.requester));
        if let ForwardStage::Connecting { conn, .. } | ForwardStage::Sent(conn) = forward.stage {
            self.hands.io.close(conn, Close::Now);
        }
        if let Some(timer) = forward.timer {
            self.hands.timers.remove(timer);
        }
        let is_sent = matches!(forward.stage, ForwardStage::Sent(_));
        self.end_cancel_request(requester, if is_sent { CancelRequest::Forwarded } else { CancelRequest::Failed });
    }

    /// The settings have changed: requests for removed peers end, and others may have more time or more connections.
    pub(crate) fn renew_peers(&mut self) {
        let active = self.hands.active.clone();
        let gone: Vec<Key> = self
            .cancel
            .forwards
            .rows
            .iter()
            .filter(|(_, row)| !active.settings.peers.contains_key(&row.peer))
            .map(|(key, _)| key)
            .collect();
        gone.into_iter().for_each(|key| self.fail_forward(key, "peer removed"));
        for key in self.cancel.forwards.rows.keys() {
            self.time_forward(key);
        }
        self.cancel.forwards.known.retain(|peer| active.settings.peers.contains_key(peer));
        for peer in self.cancel.forwards.known.clone() {
            self.start_forwards(peer);
        }
    }

    /// The peers for which there has been a request.
    pub(crate) fn peer_rows(&self) -> Vec<PeerRow> {
        let row = |&peer: &u16| {
            let count = |fits: fn(ForwardStage) -> bool| {
                let rows = self.cancel.forwards.rows.iter();
                rows.filter(|(_, row)| row.peer == peer && fits(row.stage)).count() as u32
            };
            PeerRow {
                peer,
                active: count(|stage| matches!(stage, ForwardStage::Sent(_))),
                waiting: count(|stage| !matches!(stage, ForwardStage::Sent(_))),
                dialing: count(|stage| {
                    matches!(stage, ForwardStage::Resolving { .. } | ForwardStage::Connecting { .. })
                }),
            }
        };
        self.cancel.forwards.known.iter().map(row).collect()
    }
}
