//! The simulated peers of the group, and strangers whose cancel requests may be for a client of one.
//!
//! Always true: a peer receives exactly the request that a stranger has made, with one hop counted; the stranger's
//! connection ends when the peer has finished with the request, and earlier only for a reason that this world has
//! given.
//! Not here: which peers and requests there are (`group`), how applications cancel (`app::cancel`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::checks::witness::{Charge, Witness};
use crate::plan::Plan;
use crate::plan::group::{Fate, peer_at};
use crate::plan::streams::Stream;
use crate::sim::agenda::{Alarm, Event};
use crate::sim::dead_addresses::silence_at;
use crate::sim::dice::Dice;
use crate::sim::net::Net;

/// The peers, and the strangers that send requests for them.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(super) dice: Dice,
    pub(super) calls: Vec<Call>,
    pub(super) askers: Vec<Asker>,
    /// When a peer last ended a connection before it had finished with its request.
    pub(super) failed: BTreeMap<u16, Time>,
    /// When each host name was last not found.
    pub(super) nameless: BTreeMap<Arc<str>, Time>,
    /// Strangers that waited at the last look though a connection was free, each with the number of connections to its peer so far: one
    /// may have been under way.
    pub(super) suspects: BTreeMap<usize, usize>,
}

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) end: u32,
    pub(super) peer: u16,
    pub(super) fate: Fate,
    pub(super) said: Vec<u8>,
    pub(super) since: Time,
    /// The peer has closed it.
    pub(super) is_over: bool,
}

/// A stranger with a cancel request.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) end: u32,
    pub(super) request: Vec<u8>,
    /// The peer that must receive the request, and the bytes that must arrive there.
    pub(super) wants: Option<(u16, Vec<u8>)>,
    pub(super) patience: Option<u64>,
    pub(super) said: Option<Time>,
    /// The connection by which the request has reached its peer.
    pub(super) call: Option<u32>,
    /// The stranger's connection has ended, whichever side has closed it.
    pub(super) is_over: bool,
    /// The pooler has closed it.
    pub(super) is_closed_by_pooler: bool,
    pub(super) is_refused: bool,
}

impl Asker {
    /// Returns since when the stranger waits for the end of its connection.
    pub(super) fn waits_since(&self) -> Option<Time> {
        self.said.filter(|_| !self.is_over)
    }
}

impl Peers {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            dice: Dice::new(plan.seed, Stream::Peers.number()),
            calls: Vec::new(),
            askers: Vec::new(),
            failed: BTreeMap::new(),
            nameless: BTreeMap::new(),
            suspects: BTreeMap::new(),
        }
    }

    /// A host name was not found.
    pub(crate) fn has_no_address(&mut self, name: Arc<str>, now: Time) {
        self.nameless.insert(name, now);
    }

    /// The peer closes or resets a connection.
    pub(super) fn part(&mut self, net: &mut Net, call: u32) {
        let call = &mut self.calls[call as usize];
        call.is_over = true;
        match call.fate {
            Fate::Reset(_) => net.reset(call.end),
            _ => net.close(call.end),
        }
    }

    /// The peer reads from a connection: exactly one cancel request may arrive.
    pub(super) fn hear(&mut self, net: &mut Net, number: u32, is_sure: bool, witness: &mut Witness) {
        let call = &mut self.calls[number as usize];
        if net.end(call.end).is_closed {
            return;
        }
        let was_whole = is_whole(&call.said);
        net.read(call.end, usize::MAX, &mut call.said);
        let (peer, end) = (call.peer, call.end);
        let most = request_bytes(&call.said).unwrap_or(REQUESTS_BYTES[0]);
        if call.said.len() > most || !REQUESTS_BYTES.contains(&most) {
            let text = format!("peer {peer} is told {} bytes, {REQUESTS_BYTES:?} are a request", call.said.len());
            witness.accuse(Charge::ForeignBytes, text);
        }
        if is_whole(&call.said) && !was_whole {
            let said = call.said.clone();
            let is_wanted = |asker: &&mut Asker| {
                asker.call.is_none() && asker.wants.as_ref().is_some_and(|wants| wants.0 == peer && wants.1 == said)
            };
            // The request may be that of a stranger that has not waited for it.
            match self.askers.iter_mut().filter(is_wanted).min_by_key(|asker| asker.is_over) {
                Some(asker) => asker.call = Some(number),
                None if is_sure => {
                    let text = format!("peer {peer} is told {said:x?}, and nobody wants that");
                    witness.accuse(Charge::StrayCancel, text);
                }
                None => witness.count("keys that name a peer by chance"),
            }
            witness.count("requests passed on");
            witness.note(|| format!("peer {peer} has a request: {said:x?}"));
            let call = &self.calls[number as usize];
            if let Fate::Answered(_) = call.fate {
                net.say(end, b"?".to_vec());
            }
            if let Fate::Taken(most) | Fate::Answered(most) | Fate::Reset(most) = call.fate {
                let after = self.dice.micros(0..=most);
                net.agenda.after(after, Event::Peers(Alarm::Done(number)));
            }
        }
        let row = net.end(end);
        if row.is_eof || row.is_reset {
            net.close(end);
        }
    }

    /// Returns whether the peer has finished with the request of a stranger.
    pub(super) fn is_done_with(&self, asker: &Asker) -> bool {
        asker.call.is_some_and(|call| self.calls[call as usize].is_over)
    }

    /// Identical requests cannot be told apart: the first that is finished is assigned to the first stranger whose
    /// connection ends.
    pub(super) fn tell_apart(&mut self, number: u32) {
        let (at, asker) = (number as usize, &self.askers[number as usize]);
        // A connection can only carry a request made before it was opened.
        let may_be_of =
            |asker: &Asker, call: u32| asker.said.is_some_and(|said| said <= self.calls[call as usize].since);
        let is_same = |other: &Asker| {
            let may_be_swapped = other.call.is_some_and(|call| may_be_of(asker, call));
            other.wants == asker.wants && !other.is_closed_by_pooler && self.is_done_with(other) && may_be_swapped
        };
        if let Some(other) = self.askers.iter().position(is_same).filter(|_| !self.is_done_with(asker)) {
            (self.askers[at].call, self.askers[other].call) = (self.askers[other].call, self.askers[at].call);
        }
        // The stranger's own connection has failed unread, so what a peer reads now belongs to another stranger.
        let asker = &self.askers[at];
        let is_left = |other: &Asker| {
            let may_inherit = asker.call.is_some_and(|call| may_be_of(other, call));
            other.wants == asker.wants && !other.is_closed_by_pooler && other.call.is_none() && may_inherit
        };
        let heir = self.askers.iter().enumerate().position(|(place, other)| place != at && is_left(other));
        if let Some(heir) = heir.filter(|_| !self.is_done_with(asker)) {
            self.askers[heir].call = self.askers[at].call.take();
        }
    }

    /// Number of connections to a peer that the pooler has not closed.
    pub(super) fn open_calls(&self, net: &Net, peer: u16) -> usize {
        self.calls.iter().filter(|call| call.peer == peer && !net.end(call.end ^ 1).is_closed).count()
    }

    /// Whether the pooler waits for an answer from the dead address of a peer's name.
    pub(super) fn is_called_in_vain(&self, net: &Net, peer: u16) -> bool {
        let mut aims = net.aims.iter().enumerate().filter_map(|(end, aim)| Some((end, aim.as_ref()?)));
        aims.any(|(end, aim)| {
            silence_at(aim).is_some() && peer_at(aim) == Some(peer) && !net.end(end as u32 ^ 1).is_closed
        })
    }

    /// A stranger's connection was accepted or refused.
    pub(super) fn asker_connected(&mut self, net: &mut Net, number: u32, is_welcome: bool, now: Time) {
        let asker = &mut self.askers[number as usize];
        if !is_welcome {
            (asker.is_over, asker.is_refused) = (true, true);
            return;
        }
        asker.said = Some(now);
        net.say(asker.end, asker.request.clone());
        if let Some(patience) = asker.patience {
            net.agenda.after(Duration::from_micros(patience), Event::Peers(Alarm::Leaves(number)));
        }
    }
}

/// The length that a cancel request states in its first bytes.
fn request_bytes(said: &[u8]) -> Option<usize> {
    said.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)
}

fn is_whole(said: &[u8]) -> bool {
    request_bytes(said).is_some_and(|bytes| said.len() >= bytes)
}

/// Lengths of a cancel request with a key of ours: in protocol 3.0 and in 3.2.
const REQUESTS_BYTES: [usize; 2] = [16, 44];
