//! Rules of this crate that the simulation may have broken, to see whether somebody notices.
//!
//! Always true: without the feature `planted` each function does what its name says and no more, and costs nothing. Each
//! has the mistake beside the rule (`base::planted` tells what each would mean for a user), and no other file of this
//! crate names one.
//! Not here: what the rules are for, which stands where they are asked.

use std::collections::BTreeMap;

use base::planted::{self, Planted};
use base::{Key, Slab, Time};

use crate::ServerKey;
use crate::list::List;
use crate::pool_servers::PoolServers;
use crate::slot::{Slot, State};

/// Whether a server in this state is there for anybody once its login is complete.
pub(crate) fn is_for_anybody(state: State) -> bool {
    state == State::Dialing || planted::is(Planted::PrivateServerLent) && state == State::Dedicating
}

/// Whether a server in this state gives its slot back when its connection ends.
pub(crate) fn frees_its_slot(state: State) -> bool {
    state != State::Free && !(planted::is(Planted::DeadServerCounted) && matches!(state, State::Cleaning(_)))
}

/// Those who are told that they are not served: all of them.
pub(crate) fn all_of<T>(waiting: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    waiting.skip(usize::from(planted::is(Planted::WaiterForgotten)))
}

/// Whether a pause keeps a pool from opening servers.
pub(crate) fn keeps_from_dialing(is_paused: bool) -> bool {
    is_paused && !planted::is(Planted::PauseForgottenByDials)
}

/// How many servers count against the size of a pool, of so many that are counted, some of them in their login.
pub(crate) fn size(counted: u32, dialing: u32) -> u32 {
    if planted::is(Planted::PoolSizeIgnoresDials) { counted - dialing } else { counted }
}

/// How many servers of a pool count against the limit of its database.
pub(crate) fn size_for_database(servers: &PoolServers) -> u32 {
    if planted::is(Planted::DatabaseLimitIgnoresDials) { servers.usable() } else { servers.total() }
}

/// The servers that may be closed for their age: those that are idle.
pub(crate) fn closed_for_age<'a>(
    servers: &'a PoolServers,
    slots: &'a Slab<Slot>,
) -> impl Iterator<Item = (ServerKey, &'a Slot)> {
    let lent = planted::is(Planted::LentServerExpired).then(|| servers.list(State::Lent).iter(slots));
    servers.list(State::Idle).iter(slots).chain(lent.into_iter().flatten())
}

/// What is on an account stays there when its limit changes.
pub(crate) fn keep_account<K: Ord, T>(accounts: &mut BTreeMap<K, T>, key: &K) {
    if planted::is(Planted::SlotLostAtReload) {
        accounts.remove(key);
    }
}

/// Whether a slot that was granted is used, which it is by a claimant who still waits.
pub(crate) fn is_used(has_claimant: bool) -> bool {
    has_claimant || planted::is(Planted::GrantForNobodyLost)
}

/// Whose turn it is.
pub(crate) fn longest_waiting(list: &List) -> Option<Key> {
    if planted::is(Planted::LastComeFirstServed) { list.newest() } else { list.oldest() }
}

/// Whether an alarm that is set will have rung at this time.
pub(crate) fn rings_by(set: Time, time: Time) -> bool {
    set <= time || planted::is(Planted::AlarmNotBroughtForward)
}

/// The place in the queue of who was to have a server of its own that is gone.
pub(crate) fn waits_again<T>(seat: T) -> Option<T> {
    (!planted::is(Planted::PrivateWaiterForgotten)).then_some(seat)
}
