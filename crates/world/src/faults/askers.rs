//! Strangers who send cancel requests with keys that may belong to another process of the group, and what the peers do
//! with these.
//!
//! Always true: the connection of a stranger ends when the peer has finished with the request, and earlier only for a
//! reason that this world has given.
//! Not here: what is remembered of peers (`peers`), which there are (`group`), how applications cancel (`app::cancel`).

use std::collections::BTreeMap;
use std::time::Duration;

use base::Time;
use config::Host;
use wire::{backend, write};
use worker::letters::PeerRow;

use crate::checks::checkers::{Checkers, Phase};
use crate::checks::witness::Charge;
use crate::faults::peers::{Asker, Call};
use crate::plan::fault::{Command, Fault, What};
use crate::plan::group::{Ask, Fate, HOPS, Whose, count_hops};
use crate::sim::agenda::{Alarm, Event};
use crate::sim::net::{Holder, Net};
use crate::state::{START, World};

impl Checkers {
    /// Returns the largest number of connections to a peer under any configuration in force.
    fn peer_limit(&self, peer: u16) -> usize {
        let sizes = self.forces.iter().filter_map(|(_, active)| {
            let line = active.settings.peers.get(&peer)?;
            Some(active.settings.peer_pool_size(line).map_or(usize::MAX, |size| size as usize))
        });
        sizes.max().unwrap_or(0)
    }

    /// Returns whether every configuration in force lists this peer, with a number other than that of this process.
    fn is_peer_known(&self, peer: u16) -> bool {
        let is_known = |settings: &config::Settings| {
            settings.own_peer() > 0 && settings.own_peer() != peer && settings.peers.contains_key(&peer)
        };
        self.forces.iter().all(|(_, active)| is_known(&active.settings))
    }

    /// Returns the shortest time after which a cancel request may be given up, and the longest.
    fn cancel_patience(&self) -> (Duration, Duration) {
        let waits = self.forces.iter().map(|(_, active)| active.settings.cancel_wait_timeout.unwrap_or(Duration::MAX));
        let dials =
            self.forces.iter().map(|(_, active)| active.settings.server_connect_timeout.unwrap_or(Duration::MAX));
        let least = waits.clone().chain(dials).min().unwrap_or(Duration::ZERO);
        (least, waits.max().unwrap_or(Duration::MAX))
    }
}

impl World {
    /// Schedules the cancel requests of strangers.
    pub(crate) fn begin_group(&self, net: &mut Net) {
        for (number, ask) in self.plan.group.asks.iter().enumerate() {
            net.agenda.at(Time(START + ask.at), Event::Peers(Alarm::Asks(number as u32)));
        }
    }

    /// Handles an alarm of a peer or of a stranger.
    pub(crate) fn peers_happen(&mut self, alarm: Alarm) {
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        match alarm {
            Alarm::Asks(number) => self.ask(net, number),
            Alarm::Leaves(asker) => {
                let asker = &mut self.peers.askers[asker as usize];
                if !asker.is_over {
                    asker.is_over = true;
                    self.witness.count("requests that nobody waits for");
                    net.drop_end(asker.end);
                }
            }
            Alarm::Done(call) => {
                let Call { end, peer, fate, .. } = self.peers.calls[call as usize];
                if !net.end(end).is_closed {
                    if let Fate::Reset(_) = fate {
                        self.peers.failed.insert(peer, self.witness.now);
                    }
                    self.peers.part(net, call);
                }
            }
        }
    }

    /// A stranger connects to send a cancel request.
    fn ask(&mut self, net: &mut Net, number: u32) {
        if !matches!(self.checkers.phase, Phase::Faults | Phase::Healing { .. } | Phase::GoingDown { .. }) {
            return;
        }
        let ask = self.plan.group.asks[number as usize].clone();
        let (key, wants) = self.key_of(&ask);
        let mut request = Vec::new();
        write::cancel_request(&mut request, &key);
        let asker = self.peers.askers.len() as u32;
        let end = net.dial(Holder::Asker(asker), None);
        self.witness.count("requests of strangers");
        self.witness.note(|| format!("asker {asker} asks by {request:x?}"));
        let patience = ask.patience;
        let (said, call, is_over, is_closed_by_pooler, is_refused) = (None, None, false, false, false);
        self.peers.askers.push(Asker {
            end,
            request,
            wants,
            patience,
            said,
            call,
            is_over,
            is_closed_by_pooler,
            is_refused,
        });
    }

    /// Returns the key of the request, and the peer that must receive it with the bytes that must arrive there.
    fn key_of(&mut self, ask: &Ask) -> (Vec<u8>, Option<(u16, Vec<u8>)>) {
        let dice = &mut self.peers.dice;
        let mut key: Vec<u8> = (0..KEY_BYTES).map(|_| dice.any() as u8).collect();
        let peer = match ask.whose {
            Whose::Peer(peer) => peer,
            Whose::Own => self.active.settings.own_peer(),
            Whose::Namesake { peer, which } => {
                let keys: Vec<&[u8]> = self.apps.iter().filter_map(|app| app.key_in_use()).collect();
                if let Some(theirs) = keys.get((which % keys.len().max(1) as u64) as usize) {
                    key = theirs.to_vec();
                }
                peer
            }
            Whose::Nobody(bytes) => {
                let key = (0..bytes).map(|_| dice.any() as u8 | 0x80).collect();
                return (key, None);
            }
        };
        if matches!(ask.whose, Whose::Peer(_)) && key[3] & 3 == 0 {
            // A key of protocol 3.2.
            key.resize(LONG_KEY_BYTES, key[4]);
        }
        key[0] &= 0x7f;
        key[1..3].copy_from_slice(&peer.to_le_bytes());
        key[7] = key[7] & !HOPS | ask.hops;
        let mut passed = key.clone();
        count_hops(&mut passed, 1);
        let mut request = Vec::new();
        write::cancel_request(&mut request, &passed);
        let is_here = peer == self.active.settings.own_peer() || matches!(ask.whose, Whose::Own);
        (key, (ask.hops > 0 && !is_here).then_some((peer, request)))
    }

    /// A connection attempt has reached a peer.
    pub(crate) fn peer_knocked(&mut self, net: &mut Net, far: u32, peer: u16) {
        let is_well = self.plan.is_calm || self.checkers.phase != Phase::Faults;
        let fates = &self.plan.group.fates;
        let fate = if is_well { Fate::Taken(WELL_MICROS) } else { self.peers.dice.pick(fates) };
        let number = self.peers.calls.len() as u32;
        let since = self.witness.now;
        self.peers.calls.push(Call { end: far, peer, fate, said: Vec::new(), since, is_over: false });
        let (open, most) = (self.peers.open_calls(net, peer), self.checkers.peer_limit(peer));
        // The old process and the new one count separately.
        if open > most && !self.is_another_closing() {
            let text = format!("there are {open} connections to peer {peer}, which may have {most}");
            self.witness.accuse(Charge::LimitExceeded, text);
        }
        self.witness.count("calls of peers");
        self.witness.note(|| format!("peer {peer} is called: {fate:?}"));
        if matches!(fate, Fate::Refused | Fate::Hanging | Fate::Unread | Fate::Kept) {
            self.peers.failed.insert(peer, self.witness.now);
        }
        match fate {
            Fate::Refused => net.answer(far, false),
            Fate::Hanging => {}
            Fate::Unread => {
                net.answer(far, true);
                self.peers.part(net, number);
            }
            Fate::Taken(_) | Fate::Answered(_) | Fate::Reset(_) | Fate::Kept => {
                net.end_mut(far).holder = Holder::Peer(number);
                net.answer(far, true);
            }
        }
    }

    /// Handles an event on a peer's connection.
    pub(crate) fn peer_heard(&mut self, net: &mut Net, call: u32) {
        let is_sure = !self.plan.group.is_fickle();
        self.peers.hear(net, call, is_sure, &mut self.witness);
    }

    /// A stranger's connection was accepted or refused.
    pub(crate) fn asker_answered(&mut self, net: &mut Net, asker: u32, is_welcome: bool) {
        self.peers.asker_connected(net, asker, is_welcome, self.witness.now);
    }

    /// Handles an event on a stranger's connection. Only its end, or an error before that, may arrive.
    pub(crate) fn asker_heard(&mut self, net: &mut Net, number: u32) {
        let asker = &mut self.peers.askers[number as usize];
        if asker.is_over {
            return;
        }
        let mut words = Vec::new();
        net.read(asker.end, usize::MAX, &mut words);
        if !words.is_empty() && !asker.is_refused {
            asker.is_refused = true;
            if words[0] != backend::ERROR_RESPONSE {
                let text = format!("somebody who wants something cancelled is told {words:x?}");
                self.witness.accuse(Charge::ForeignBytes, text);
            }
        }
        let row = net.end(asker.end);
        if row.is_eof || row.is_reset {
            asker.is_over = true;
            net.close(asker.end);
            self.check_closed(number);
            self.peers.askers[number as usize].is_closed_by_pooler = true;
        }
    }

    /// Checks, when a stranger's connection ends, that the peer has finished with the request or that there was a
    /// reason.
    fn check_closed(&mut self, number: u32) {
        self.peers.tell_apart(number);
        let asker = &self.peers.askers[number as usize];
        let (Some((peer, _)), Some(said), false) = (&asker.wants, asker.said, asker.is_refused) else { return };
        let now = self.witness.now;
        let has_failed = self.peers.failed.get(peer).is_some_and(|&at| at >= said) || self.has_no_name(*peer, said);
        let (least, _) = self.checkers.cancel_patience();
        if self.peers.is_done_with(asker) {
            self.witness.count("requests that peers were done with");
        } else if self.checkers.is_peer_known(*peer)
            && !has_failed
            && now.since(said) < least
            && self.calm_since(now) <= said
        {
            let became = match asker.call {
                Some(_) => "has not done with it",
                None => "has never heard of it",
            };
            let text = format!("asker {number} is told that its request is over, and peer {peer} {became}");
            self.witness.accuse(Charge::StrayCancel, text);
        }
    }

    /// Returns whether the worker may believe that the host name of a peer has no address.
    fn has_no_name(&self, peer: u16, since: Time) -> bool {
        let line = self.active.settings.peers.get(&peer);
        line.is_none_or(|line| match &line.host {
            Host::Name(name) => self.peers.nameless.get(name).is_some_and(|&at| at + NAMELESS_FOR >= since),
            _ => false,
        })
    }

    /// Returns since when no fault could affect a cancel request to a peer; `now` if one does.
    pub(crate) fn calm_since(&self, now: Time) -> Time {
        let (faults, phase) = (&self.plan.faults, self.checkers.phase);
        let touching = faults.iter().map(|(_, fault)| fault).filter(|fault| may_touch_requests(&fault.what));
        let touched = touching.filter(|fault| fault_begins(fault) <= now);
        let last = touched.map(|fault| fault_ends(fault, self.plan.heals_at).min(now)).max().unwrap_or(Time(0));
        match phase {
            Phase::Faults => last.max(self.evicted.last.min(now)),
            Phase::Healing { since } => last.max(since + SETTLING).max(self.evicted.last.min(now)),
            _ => now,
        }
    }

    /// Checks that no stranger waits too long, or for nothing.
    pub(crate) fn look_at_askers(&mut self) {
        if self.plan.group.asks.is_empty() {
            return;
        }
        let now = self.witness.now;
        let calm_since = self.calm_since(now);
        let (_, most) = self.checkers.cancel_patience();
        let net = self.net.borrow();
        let mut left = BTreeMap::new();
        for (number, asker) in self.peers.askers.iter().enumerate() {
            let Some(said) = asker.waits_since() else { continue };
            let waited = now.since(said.max(calm_since));
            if waited > most.saturating_add(LATE) {
                let text = format!("asker {number} has not been told for {waited:?} that its request is over");
                self.witness.accuse(Charge::NotServed, text);
            }
            let Some((peer, _)) = &asker.wants else { continue };
            let is_free = self.peers.open_calls(&net, *peer) == 0 && !self.has_no_name(*peer, said);
            let is_late = waited > LATE && asker.call.is_none() && is_free && self.checkers.is_peer_known(*peer);
            if is_late && !self.peers.is_called_in_vain(&net, *peer) {
                // Connections that come and go one after the other may all miss these looks.
                let calls = self.peers.calls.iter().filter(|call| call.peer == *peer).count();
                left.insert(number, calls);
                if self.peers.suspects.get(&number) == Some(&calls) {
                    let text = format!("asker {number} waits for peer {peer}, to which there is no connection");
                    self.witness.accuse(Charge::NotServed, text);
                }
            }
        }
        self.peers.suspects = left;
    }

    /// Checks the rows of the peers in a worker's snapshot.
    pub(crate) fn check_peer_rows(&mut self, worker: u8, rows: &[PeerRow]) {
        for row in rows {
            let most = self.checkers.peer_limit(row.peer);
            if (row.active + row.dialing) as usize > most || row.dialing > row.waiting {
                let text = format!("worker {worker} shows {row:?}, where {most} connections may be");
                self.witness.accuse(Charge::Counters, text);
            }
        }
    }
}

/// Returns whether a fault may end a cancel request or hold it up.
fn may_touch_requests(what: &What) -> bool {
    !matches!(
        what,
        What::Mood { .. }
            | What::Terminate { .. }
            | What::Crash { .. }
            | What::CrashAll { .. }
            | What::Show
            | What::SlowServers { .. }
            | What::Secrets { .. }
            | What::Order(Command::Pause(_) | Command::Disable(_) | Command::Reconnect(_))
    )
}

fn fault_begins(fault: &Fault) -> Time {
    Time(START + fault.at)
}

fn fault_ends(fault: &Fault, heals_at: u64) -> Time {
    let lasts = match fault.what {
        // It lasts to its end even if the world heals before.
        What::Stall { micros, .. } => micros,
        _ => fault.lasts.min(heals_at.saturating_sub(fault.at)),
    };
    fault_begins(fault) + Duration::from_micros(lasts) + SETTLING
}

const KEY_BYTES: usize = 8;
const LONG_KEY_BYTES: usize = 36;
/// The time that a peer without faults takes for a request.
const WELL_MICROS: u64 = 50_000;
/// The time after a fault in which letters, and what waited for them, arrive.
const SETTLING: Duration = Duration::from_millis(20);
/// Longer than the pooler remembers that a name has no address (`dns_nxdomain_ttl`).
const NAMELESS_FOR: Duration = Duration::from_secs(20);
/// Longer than a request takes that has nothing to wait for.
const LATE: Duration = Duration::from_secs(2);
