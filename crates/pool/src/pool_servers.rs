//! The servers of one pool, each in the list of its state.
//!
//! Always true: a server is in exactly the list of its state, and every list is in the order in which its servers entered
//! the state. Counts are lengths of lists.
//! Not here: which move is allowed (`slot`), who decides on it (`pool`).

use base::{Slab, Time};

use crate::list::List;
use crate::slot::{Move, Slot, State, Work};
use crate::{Fingerprint, ServerKey};

/// The servers of one pool.
#[derive(Debug, Default)]
pub(crate) struct PoolServers {
    lists: [List; 9],
}

impl PoolServers {
    /// Takes a slot for a login that begins now: of a dedicated server if the slot has an owner.
    pub(crate) fn dial(&mut self, slots: &mut Slab<Slot>, mut slot: Slot) -> ServerKey {
        let by = if slot.owner.is_some() { Move::Dedicate } else { Move::Dial };
        let state = slot.state.after(by).expect("a new slot is free");
        slot.state = state;
        let key = slots.insert(slot).expect("the table of slots is as large as keys can count");
        self.list_mut(state).push(slots, key);
        key
    }

    /// Takes a slot for a server that is taken over from another process.
    pub(crate) fn arrive(&mut self, slots: &mut Slab<Slot>, mut slot: Slot) -> ServerKey {
        slot.state = slot.state.after(Move::Arrive).expect("a new slot is free");
        let key = slots.insert(slot).expect("the table of slots is as large as keys can count");
        self.list_mut(State::Idle).push(slots, key);
        key
    }

    /// Moves a server to another state. Returns false if the table of moves forbids that. A server whose slot becomes free is
    /// removed.
    pub(crate) fn shift(&mut self, slots: &mut Slab<Slot>, server: ServerKey, by: Move, now: Time) -> bool {
        let Some(before) = slots.get(server).map(|slot| slot.state) else { return false };
        self.shift_from(slots, server, before, by, now)
    }

    /// [`PoolServers::shift`] for a server that is in the state `before`.
    #[inline]
    pub(crate) fn shift_from(
        &mut self,
        slots: &mut Slab<Slot>,
        server: ServerKey,
        before: State,
        by: Move,
        now: Time,
    ) -> bool {
        let Some(after) = before.after(by) else { return false };
        self.list_mut(before).remove(slots, server);
        if after == State::Free {
            slots.remove(server);
            return true;
        }
        self.list_mut(after).push(slots, server);
        let slot = slots.get_mut(server).expect("a list names only rows of its table");
        debug_assert_eq!(slot.state, before);
        (slot.state, slot.since) = (after, now);
        true
    }

    /// The loan of a server ends, and the next one begins at once.
    pub(crate) fn lend_on(&mut self, slots: &mut Slab<Slot>, server: ServerKey, fingerprint: Fingerprint, now: Time) {
        let lent = self.list_mut(State::Lent);
        lent.remove(slots, server);
        lent.push(slots, server);
        if let Some(slot) = slots.get_mut(server) {
            (slot.fingerprint, slot.since) = (fingerprint, now);
        }
    }

    /// The servers in a state, those that entered it first at the front.
    pub(crate) fn list(&self, state: State) -> &List {
        &self.lists[place(state)]
    }

    /// How many servers are in a state.
    pub(crate) fn count(&self, state: State) -> u32 {
        self.list(state).len()
    }

    /// How many servers there are in all states, as limits count them.
    pub(crate) fn total(&self) -> u32 {
        self.lists.iter().map(List::len).sum()
    }

    /// How many servers are not being closed.
    pub(crate) fn staying(&self) -> u32 {
        self.total() - self.count(State::Closing)
    }

    /// How many servers are neither being closed nor dedicated.
    pub(crate) fn shared(&self) -> u32 {
        self.staying() - self.count(State::Dedicating) - self.count(State::Dedicated)
    }

    /// How many dedicated servers there are, in any state.
    pub(crate) fn dedicated(&self, slots: &Slab<Slot>) -> u32 {
        let closing = self.list(State::Closing).iter(slots).filter(|(_, slot)| slot.owner.is_some()).count() as u32;
        self.count(State::Dedicating) + self.count(State::Dedicated) + closing
    }

    /// How many servers are logged in and neither being closed nor dedicated, so that they can serve any client.
    pub(crate) fn usable(&self) -> u32 {
        self.shared() - self.count(State::Dialing)
    }

    /// How many servers are being reset or checked, and so are about to become idle without waiting for a login or a client.
    pub(crate) fn coming(&self) -> u32 {
        self.count(State::Cleaning(Work::Reset)) + self.count(State::Cleaning(Work::Check))
    }

    /// All servers, by state and then by the time when they entered it.
    pub(crate) fn iter<'a>(&'a self, slots: &'a Slab<Slot>) -> impl Iterator<Item = (ServerKey, &'a Slot)> {
        self.lists.iter().flat_map(|list| list.iter(slots))
    }

    /// The keys of all servers that are not being closed; a copy, so that the servers may be moved while it is iterated.
    pub(crate) fn keys_staying(&self, slots: &Slab<Slot>) -> Vec<ServerKey> {
        self.iter(slots).filter(|(_, slot)| slot.state != State::Closing).map(|(key, _)| key).collect()
    }

    /// The keys of the servers that have no grant of the ledger.
    pub(crate) fn ungranted<'a>(&'a self, slots: &'a Slab<Slot>) -> impl Iterator<Item = ServerKey> + 'a {
        self.iter(slots).filter(|(_, slot)| !slot.is_granted).map(|(key, _)| key)
    }

    #[inline]
    fn list_mut(&mut self, state: State) -> &mut List {
        &mut self.lists[place(state)]
    }
}

/// The index of the list of a state.
#[inline]
fn place(state: State) -> usize {
    match state {
        State::Dialing => 0,
        State::Idle => 1,
        State::Lent => 2,
        State::Cleaning(Work::Reset) => 3,
        State::Cleaning(Work::Check) => 4,
        State::Cleaning(Work::Cleanup) => 5,
        State::Closing => 6,
        State::Dedicating => 7,
        State::Dedicated => 8,
        State::Free => unreachable!("a free slot has no row and is in no list"),
    }
}
