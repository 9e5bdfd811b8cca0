//! The servers of one pool, each in the list of its state.
//!
//! Always true: a server is in exactly the list of its state, and every list is in the order in which its servers came
//! there. Counts are lengths of lists.
//! Not here: which move is allowed (`slot`), who decides on it (`pool`).

use base::{Slab, Time};

use crate::ServerKey;
use crate::list::List;
use crate::slot::{Move, Slot, State, Work};

/// The servers of one pool.
#[derive(Debug, Default)]
pub(crate) struct PoolServers {
    lists: [List; 9],
}

impl PoolServers {
    /// Takes a slot for a login that begins now: for whoever comes, or for its owner.
    pub(crate) fn dial(&mut self, slots: &mut Slab<Slot>, mut slot: Slot) -> ServerKey {
        let by = if slot.owner.is_some() { Move::Dedicate } else { Move::Dial };
        let state = slot.state.after(by).expect("a new slot is free");
        slot.state = state;
        let key = slots.insert(slot).expect("the table of slots is as large as keys can count");
        self.list_mut(state).push(slots, key);
        key
    }

    /// Takes a slot for a server that comes from another process.
    pub(crate) fn arrive(&mut self, slots: &mut Slab<Slot>, mut slot: Slot) -> ServerKey {
        slot.state = slot.state.after(Move::Arrive).expect("a new slot is free");
        let key = slots.insert(slot).expect("the table of slots is as large as keys can count");
        self.list_mut(State::Idle).push(slots, key);
        key
    }

    /// Moves a server, if the table of moves has it; whether it had. A server whose slot becomes free is gone.
    pub(crate) fn shift(&mut self, slots: &mut Slab<Slot>, server: ServerKey, by: Move, now: Time) -> bool {
        let Some(before) = slots.get(server).map(|slot| slot.state) else { return false };
        let Some(after) = before.after(by) else { return false };
        self.list_mut(before).remove(slots, server);
        if after == State::Free {
            slots.remove(server);
            return true;
        }
        self.list_mut(after).push(slots, server);
        let slot = slots.get_mut(server).expect("it was found above");
        slot.state = after;
        slot.since = now;
        true
    }

    /// The servers in a state, those that came there first at the front.
    pub(crate) fn list(&self, state: State) -> &List {
        &self.lists[place(state)]
    }

    /// How many servers are in a state.
    pub(crate) fn count(&self, state: State) -> u32 {
        self.list(state).len()
    }

    /// All servers: what limits count.
    pub(crate) fn total(&self) -> u32 {
        self.lists.iter().map(List::len).sum()
    }

    /// Servers that are here to stay: all but those being closed.
    pub(crate) fn staying(&self) -> u32 {
        self.total() - self.count(State::Closing)
    }

    /// Servers for whoever comes that are here to stay.
    pub(crate) fn shared(&self) -> u32 {
        self.staying() - self.count(State::Dedicating) - self.count(State::Dedicated)
    }

    /// Servers for one client alone, in any state.
    pub(crate) fn dedicated(&self, slots: &Slab<Slot>) -> u32 {
        let closing = self.list(State::Closing).iter(slots).filter(|(_, slot)| slot.owner.is_some()).count() as u32;
        self.count(State::Dedicating) + self.count(State::Dedicated) + closing
    }

    /// Servers that serve any client sooner or later: logged in and not being closed.
    pub(crate) fn usable(&self) -> u32 {
        self.shared() - self.count(State::Dialing)
    }

    /// Servers that will be idle in a moment, without a login and without a client that could hold them back.
    pub(crate) fn coming(&self) -> u32 {
        self.count(State::Cleaning(Work::Reset)) + self.count(State::Cleaning(Work::Check))
    }

    /// All servers, by state and then by age in it; those being closed come last.
    pub(crate) fn iter<'a>(&'a self, slots: &'a Slab<Slot>) -> impl Iterator<Item = (ServerKey, &'a Slot)> {
        self.lists.iter().flat_map(|list| list.iter(slots))
    }

    /// The keys of all servers that are not being closed; a copy, so that they may be moved while walking it.
    pub(crate) fn keys_staying(&self, slots: &Slab<Slot>) -> Vec<ServerKey> {
        self.iter(slots).filter(|(_, slot)| slot.state != State::Closing).map(|(key, _)| key).collect()
    }

    /// The keys of the servers that the ledger does not count.
    pub(crate) fn ungranted<'a>(&'a self, slots: &'a Slab<Slot>) -> impl Iterator<Item = ServerKey> + 'a {
        self.iter(slots).filter(|(_, slot)| !slot.is_granted).map(|(key, _)| key)
    }

    fn list_mut(&mut self, state: State) -> &mut List {
        &mut self.lists[place(state)]
    }
}

/// Which list is that of a state.
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
