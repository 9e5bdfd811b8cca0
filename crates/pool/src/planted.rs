//! Rules of this crate that the simulation can break on purpose, to see whether its checks notice.
//!
//! Always true: without the feature `planted` each function only does what its name says, at no cost. Each function has the
//! bug next to the rule (`base::planted` says what each bug would mean for a user), and no other file of this crate names
//! a planted bug.
//! Not here: the reasons for the rules, which are documented where the rules are used.

use std::collections::BTreeMap;

use base::planted::{self, Planted};
use base::{Key, Slab, Time};

use crate::ServerKey;
use crate::list::List;
use crate::pool_servers::PoolServers;
use crate::slot::{Slot, State};

/// Whether a server in this state may be lent to any client once its login is complete.
pub(crate) fn is_for_anybody(state: State) -> bool {
    state == State::Dialing || planted::is(Planted::DedicatedServerLent) && state == State::Dedicating
}

/// Whether the slot of a server in this state becomes free when the connection ends.
pub(crate) fn frees_its_slot(state: State) -> bool {
    state != State::Free && !(planted::is(Planted::DeadServerCounted) && matches!(state, State::Cleaning(_)))
}

/// The clients that are refused: all of them.
pub(crate) fn all_of<T>(waiting: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    waiting.skip(usize::from(planted::is(Planted::WaiterForgotten)))
}

/// Whether a pause keeps a pool from opening servers.
pub(crate) fn keeps_from_dialing(is_paused: bool) -> bool {
    is_paused && !planted::is(Planted::PauseForgottenByDials)
}

/// How many servers count against the size of a pool: all that are counted, including those being dialed.
pub(crate) fn size(counted: u32, dialing: u32) -> u32 {
    if planted::is(Planted::PoolSizeIgnoresDials) { counted - dialing } else { counted }
}

/// How many servers of a pool count against the limit of its database.
pub(crate) fn size_for_database(servers: &PoolServers) -> u32 {
    if planted::is(Planted::DatabaseLimitIgnoresDials) { servers.usable() } else { servers.total() }
}

/// The servers that may be closed for their age: the idle ones.
pub(crate) fn closed_for_age<'a>(
    servers: &'a PoolServers,
    slots: &'a Slab<Slot>,
) -> impl Iterator<Item = (ServerKey, &'a Slot)> {
    let lent = planted::is(Planted::LentServerExpired).then(|| servers.list(State::Lent).iter(slots));
    servers.list(State::Idle).iter(slots).chain(lent.into_iter().flatten())
}

/// Keeps an account when its limit changes.
pub(crate) fn keep_account<K: Ord, T>(accounts: &mut BTreeMap<K, T>, key: &K) {
    if planted::is(Planted::SlotLostAtReload) {
        accounts.remove(key);
    }
}

/// Whether a granted slot is used: only if its claimant still waits.
pub(crate) fn is_used(has_claimant: bool) -> bool {
    has_claimant || planted::is(Planted::GrantForNobodyLost)
}

/// Which row of a wait queue is served next.
pub(crate) fn longest_waiting(list: &List) -> Option<Key> {
    if planted::is(Planted::LastComeFirstServed) { list.newest() } else { list.oldest() }
}

/// Whether an alarm that is set rings by this time.
pub(crate) fn rings_by(set: Time, time: Time) -> bool {
    set <= time || planted::is(Planted::AlarmNotBroughtForward)
}

/// The row in the queue that a client gets back when its dedicated login has failed or was given up.
pub(crate) fn waits_again<T>(waiter: T) -> Option<T> {
    (!planted::is(Planted::DedicatedWaiterForgotten)).then_some(waiter)
}

// Which way a transaction takes, of which only its speed may depend (decision 0026).

/// Whether the plain ways are open. A simulation closes them to compare.
#[inline]
pub(crate) fn has_plain_ways() -> bool {
    planted::are_ways_open()
}
