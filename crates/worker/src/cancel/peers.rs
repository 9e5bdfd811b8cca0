//! Forwards cancel requests for clients of another process of the group (`[peers]`).
//!
//! Always true: all requests for one peer go through one worker, so that its `pool_size` is exact; a request ends when
//! the peer closes the connection, cannot be reached or is removed, or when its time is over, and the requester is told
//! then.
//! Not here: which process a key belongs to (`requests`, `protocol::cancel`).

use base::{Id, Key, Time, WorkerId};
use config::{Host, Peer};
use measure::CancelRequest;
use reactor::{Close, Io, Level, Receive, Subject};
use wire::write;

use crate::cancel::Cancels;
use crate::cancel::requests::{end_request, is_stale};
use crate::cancel::tables::{CANCELS_MAX, Forward, ForwardStage};
use crate::hands::Hands;
use crate::letters::{CancelWish, PeerRow, ToWorker};
use crate::planted::{is_ready_for_next, take_out, who_asked};
use crate::timers::Timer;
use crate::upstream::attempt::Attempt;
use crate::upstream::dial::{NO_ANSWER, words};
use crate::upstream::host_names::{Asker, HostNames, Known};
use crate::upstream::proxy_header::begin_own;
use crate::worker::Owner;

impl Cancels {
    /// Sends a request for a client of this peer to the worker that keeps the connections to the peer.
    pub(super) fn route_to_peer<I: Io>(
        &mut self,
        peer: u16,
        wish: CancelWish,
        hands: &mut Hands<I>,
        names: &mut HostNames,
    ) {
        let home = WorkerId((usize::from(peer) % hands.posts.workers.len()) as u8);
        if home == hands.id {
            self.pass_on(peer, wish, hands, names);
        } else {
            (hands.posts.workers[usize::from(home.0)])(ToWorker::PassOn { peer, wish });
        }
    }

    /// Forwards a request, as soon as there is a connection for it.
    pub(crate) fn pass_on<I: Io>(&mut self, peer: u16, wish: CancelWish, hands: &mut Hands<I>, names: &mut HostNames) {
        let CancelWish { key, requester, waits } = wish;
        if is_stale(waits, hands) {
            return end_request(requester, CancelRequest::Expired, hands);
        }
        hands.log.add(Level::Debug, format_args!("forwarding cancellation request to peer {peer}"));
        if !hands.active.settings.peers.contains_key(&peer) {
            // A reload has removed the peer while the request came from another worker.
            return end_request(requester, CancelRequest::Failed, hands);
        }
        let id = hands.posts.ids.take();
        let forward =
            Forward { peer, key, id, waits, timer: None, stage: ForwardStage::Waiting, attempt: None, requester };
        let Ok(row) = self.forwards.rows.insert(forward) else {
            let text = format_args!("failed to forward cancel request: {CANCELS_MAX} are on their way already");
            hands.log.add(Level::Warning, text);
            return end_request(requester, CancelRequest::Failed, hands);
        };
        self.forwards.known.insert(peer);
        self.time_forward(row, hands);
        self.start_forwards(peer, hands, names);
    }

    /// Dials for waiting requests, up to the number of connections that the peer may have.
    fn start_forwards<I: Io>(&mut self, peer: u16, hands: &mut Hands<I>, names: &mut HostNames) {
        let active = hands.active.clone();
        let Some(place) = active.settings.peers.get(&peer) else { return };
        let limit = active.settings.peer_pool_size(place).unwrap_or(CANCELS_MAX) as usize;
        while self.forwards.connections(peer) < limit
            && let Some(key) = self.forwards.first_waiting(peer)
        {
            if let Err(why) = self.dial_peer(key, place, hands, names) {
                self.fail_forward(key, &why, hands);
            }
        }
    }

    fn dial_peer<I: Io>(
        &mut self,
        key: Key,
        peer: &Peer,
        hands: &mut Hands<I>,
        names: &mut HostNames,
    ) -> Result<(), String> {
        let since = hands.now;
        let attempt = match names.addresses_of(&peer.host, peer.port, Asker::Forward(key), hands) {
            Known::Addresses(addresses) => Attempt::begin(addresses, since),
            Known::Nothing(_) => None,
            Known::Later => {
                self.move_forward(key, ForwardStage::Resolving { since }, hands);
                return Ok(());
            }
        };
        let Some(forward) = self.forwards.rows.get_mut(key) else { return Ok(()) };
        forward.attempt = Some(Box::new(attempt.ok_or("DNS lookup failed")?));
        self.connect_forward(key, since, hands, names)
    }

    /// Connects to the next address of the peer; if that fails at once, to the one after it. Returns why none is left.
    fn connect_forward<I: Io>(
        &mut self,
        key: Key,
        since: Time,
        hands: &mut Hands<I>,
        names: &mut HostNames,
    ) -> Result<(), String> {
        loop {
            let Some(forward) = self.forwards.rows.get_mut(key) else { return Ok(()) };
            let Some(attempt) = &mut forward.attempt else { return Ok(()) };
            match hands.io.connect(attempt.address(), Owner::Forward(key).to_bits()) {
                Ok(conn) => {
                    attempt.starts(hands.now);
                    self.move_forward(key, ForwardStage::Connecting { conn, since }, hands);
                    return Ok(());
                }
                Err(error) => self.pass_over(key, &words(&error), hands, names)?,
            }
        }
    }

    /// An address of the peer could not be reached. Returns the whole reason if it was the last one.
    fn pass_over<I: Io>(&mut self, key: Key, why: &str, hands: &Hands<I>, names: &mut HostNames) -> Result<(), String> {
        let Some(forward) = self.forwards.rows.get_mut(key) else { return Ok(()) };
        let Some(attempt) = &mut forward.attempt else { return Ok(()) };
        let failed = attempt.address().clone();
        let is_last = attempt.fails(why).is_none();
        let why = attempt.reasons().unwrap_or_else(|| why.to_owned());
        let active = hands.active.clone();
        if let Some(Host::Name(name)) = active.settings.peers.get(&forward.peer).map(|peer| &peer.host) {
            names.note_unreached(name, &failed, hands.now);
        }
        if is_last { Err(format!("connect failed: {why}")) } else { Ok(()) }
    }

    fn move_forward<I: Io>(&mut self, key: Key, stage: ForwardStage, hands: &mut Hands<I>) {
        if let Some(forward) = self.forwards.rows.get_mut(key) {
            forward.stage = stage;
            self.time_forward(key, hands);
        }
    }

    /// Sets the timer for the request's deadline.
    fn time_forward<I: Io>(&mut self, key: Key, hands: &mut Hands<I>) {
        let Some(forward) = self.forwards.rows.get_mut(key) else { return };
        if let Some(timer) = forward.timer.take() {
            hands.timers.remove(timer);
        }
        let due = forward.due(&hands.active.settings);
        forward.timer = due.map(|(at, _)| hands.timers.insert(at, Timer::Forward(key)));
    }

    /// The host name of a peer has been looked up.
    pub(crate) fn forward_resolved<I: Io>(&mut self, key: Key, hands: &mut Hands<I>, names: &mut HostNames) {
        let Some(forward) = self.forwards.rows.get(key) else { return };
        if let (peer, ForwardStage::Resolving { .. }) = (forward.peer, forward.stage) {
            self.move_forward(key, ForwardStage::Waiting, hands);
            self.start_forwards(peer, hands, names);
        }
    }

    /// The connection to a peer is established: sends the request. The request carries no password and nothing that the
    /// peer did not give out itself, and goes in clear text, as PgBouncer's do.
    pub(crate) fn forward_connected<I: Io>(&mut self, key: Key, hands: &mut Hands<I>) {
        let Some(forward) = self.forwards.rows.get(key) else { return };
        let ForwardStage::Connecting { conn, .. } = forward.stage else { return };
        let mut out = Vec::new();
        if let Some(peer) = hands.active.settings.peers.get(&forward.peer) {
            begin_own(&mut out, peer.proxy_protocol, &hands.io, conn);
        }
        write::cancel_request(&mut out, forward.key.bytes());
        self.move_forward(key, ForwardStage::Sent(conn), hands);
        hands.io.send(conn, out.into());
        hands.io.receive(conn, Receive::Stream);
    }

    /// The connection to a peer failed; the reactor has closed it.
    pub(crate) fn forward_failed<I: Io>(
        &mut self,
        key: Key,
        error: &std::io::Error,
        hands: &mut Hands<I>,
        names: &mut HostNames,
    ) {
        let Some(forward) = self.forwards.rows.get_mut(key) else { return };
        let ForwardStage::Connecting { since, .. } = forward.stage else { return };
        forward.stage = ForwardStage::Unreached;
        let peer = forward.peer;
        if let Err(why) = self.try_next_peer(key, since, &words(error), hands, names) {
            self.fail_forward(key, &why, hands);
            self.start_forwards(peer, hands, names);
        }
    }

    /// An address of the peer has failed: dials the next one.
    fn try_next_peer<I: Io>(
        &mut self,
        key: Key,
        since: Time,
        why: &str,
        hands: &mut Hands<I>,
        names: &mut HostNames,
    ) -> Result<(), String> {
        self.pass_over(key, why, hands, names)?;
        self.connect_forward(key, since, hands, names)
    }

    /// The deadline of a request has passed.
    pub(crate) fn forward_too_late<I: Io>(&mut self, key: Key, hands: &mut Hands<I>, names: &mut HostNames) {
        let Some(forward) = self.forwards.rows.get_mut(key) else { return };
        forward.timer = None;
        let (peer, waited) = (forward.peer, hands.now.since(forward.waits.since).as_secs());
        if let Some((conn, since)) = forward.late_address(&hands.active.settings, hands.now) {
            hands.io.close(conn, Close::Now);
            forward.stage = ForwardStage::Unreached;
            if let Err(why) = self.try_next_peer(key, since, NO_ANSWER, hands, names) {
                self.fail_forward(key, &why, hands);
                self.start_forwards(peer, hands, names);
            }
            return;
        }
        match forward.due(&hands.active.settings) {
            Some((at, why)) if at <= hands.now => {
                self.fail_forward(key, &format!("{why} (age={waited}s)"), hands);
                self.start_forwards(peer, hands, names);
            }
            // The settings have changed.
            _ => self.time_forward(key, hands),
        }
    }

    /// The peer has closed the connection: it has handled the request.
    pub(crate) fn forward_ended<I: Io>(&mut self, key: Key, hands: &mut Hands<I>, names: &mut HostNames) {
        if let Some(peer) = self.forwards.rows.get(key).map(|row| row.peer) {
            self.end_forward(key, hands);
            if let Some(peer) = is_ready_for_next(peer) {
                self.start_forwards(peer, hands, names);
            }
        }
    }

    /// A request cannot be forwarded.
    fn fail_forward<I: Io>(&mut self, key: Key, why: &str, hands: &mut Hands<I>) {
        let Some(Forward { peer, id, .. }) = self.forwards.rows.get(key) else { return };
        let place = hands.active.settings.peers.get(peer);
        let (host, port) = place.map_or(("(unknown)", 0), |peer| (&*peer.host_text, peer.port));
        let line = format_args!("peer-{peer}@{host}:{port} failed to forward cancel request: {why}");
        hands.log.about(&Subject::id(Id::Client(*id)), Level::Warning, line);
        self.end_forward(key, hands);
    }

    /// A request is over, whatever its result.
    fn end_forward<I: Io>(&mut self, key: Key, hands: &mut Hands<I>) {
        let rows = &mut self.forwards.rows;
        let Some(forward) = take_out(rows, key, |row| row.stage == ForwardStage::Unreached) else { return };
        let requester = who_asked(forward.requester, rows.iter_mut().map(|(_, row)| &mut row.requester));
        if let ForwardStage::Connecting { conn, .. } | ForwardStage::Sent(conn) = forward.stage {
            hands.io.close(conn, Close::Now);
        }
        if let Some(timer) = forward.timer {
            hands.timers.remove(timer);
        }
        let is_sent = matches!(forward.stage, ForwardStage::Sent(_));
        end_request(requester, if is_sent { CancelRequest::Forwarded } else { CancelRequest::Failed }, hands);
    }

    /// The settings have changed: requests for removed peers end, and others may have more time or more connections.
    pub(crate) fn renew_peers<I: Io>(&mut self, hands: &mut Hands<I>, names: &mut HostNames) {
        let active = hands.active.clone();
        let gone: Vec<Key> = self
            .forwards
            .rows
            .iter()
            .filter(|(_, row)| !active.settings.peers.contains_key(&row.peer))
            .map(|(key, _)| key)
            .collect();
        gone.into_iter().for_each(|key| self.fail_forward(key, "peer removed", hands));
        for key in self.forwards.rows.keys() {
            self.time_forward(key, hands);
        }
        self.forwards.known.retain(|peer| active.settings.peers.contains_key(peer));
        for peer in self.forwards.known.clone() {
            self.start_forwards(peer, hands, names);
        }
    }

    /// The peers for which there has been a request.
    pub(crate) fn peer_rows(&self) -> Vec<PeerRow> {
        let row = |&peer: &u16| {
            let count = |fits: fn(ForwardStage) -> bool| {
                let rows = self.forwards.rows.iter();
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
        self.forwards.known.iter().map(row).collect()
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
