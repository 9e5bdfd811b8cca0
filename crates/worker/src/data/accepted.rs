//! Which startup parameters of clients the servers of a pool have accepted: only PostgreSQL can judge them, and clients
//! are greeted before they are sent to a server.
//!
//! Always true: parameters that no server of the pool has accepted yet are sent by themselves, ahead of the client's
//! request. A server that refuses them then discards them and stays open; if they went along with a request, it would
//! have to be closed. The list is bounded, and the oldest entry leaves it.
//! Not here: how they are sent to a server (`catch_up`).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use protocol::vars::{Tracked, Vars};

use crate::data::client::Ready;

/// Hashes of the startup parameters that servers of a pool have accepted.
#[derive(Debug, Default)]
pub(crate) struct AcceptedParameters {
    hashes: VecDeque<u64>,
    /// The parameters of the last client that set nothing else, which spare the next client the hashing.
    pub(super) latest: Option<Rc<Vars>>,
}

impl AcceptedParameters {
    pub(super) fn has(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }

    pub(super) fn add(&mut self, hash: u64) {
        if !self.has(hash) {
            self.hashes.push_back(hash);
            if self.hashes.len() > ACCEPTED_MAX {
                self.hashes.pop_front();
            }
        }
    }
}

/// Hash of a client's startup parameters without `application_name`, which no server refuses.
pub(crate) fn hash(ready: &Ready, tracked: &Tracked) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (place, name) in tracked.reported_names().enumerate().filter(|(place, _)| *place != tracked.application_name())
    {
        (name, ready.session.initial_vars.get(place)).hash(&mut hasher);
    }
    for setting in ready.session.initial_overrides.iter().flat_map(|given| given.iter()) {
        setting.hash(&mut hasher);
    }
    hasher.finish()
}

/// Entries for one pool: programs connect with few different sets of parameters.
const ACCEPTED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaves_a_full_list() {
        let mut accepted = AcceptedParameters::default();
        (0..=ACCEPTED_MAX as u64).chain([3]).for_each(|hash| accepted.add(hash));
        assert!(!accepted.has(0) && accepted.has(1) && accepted.has(ACCEPTED_MAX as u64));
        assert_eq!(accepted.hashes.len(), ACCEPTED_MAX);
    }
}
