//! What clients have begun with, as far as a server of their pool has taken it: PostgreSQL judges what a startup packet sets, and clients are
//! greeted before it is asked.
//!
//! Always true: what no server of the pool has taken yet is told by itself, ahead of the client's request. A server that refuses it there forgets
//! what it was told and stays; one that was told along with a request would have to be closed. The list is bounded, and the oldest leaves it.
//! Not here: how a server is told (`catch_up`).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use protocol::vars::{Tracked, Vars};

use crate::data::client::Ready;

/// What servers of a pool have taken, by its hash.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    hashes: VecDeque<u64>,
    /// The parameters of the last client that had begun with nothing else, which spare the next one its hash.
    pub(super) latest: Option<Rc<Vars>>,
}

impl Taken {
    pub(super) fn has(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }

    pub(super) fn add(&mut self, hash: u64) {
        if !self.has(hash) {
            self.hashes.push_back(hash);
            if self.hashes.len() > TAKEN_MAX {
                self.hashes.pop_front();
            }
        }
    }
}

/// Of all that a client began with, but for its name, which no server refuses.
pub(crate) fn hash(ready: &Ready, tracked: &Tracked) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (place, name) in tracked.names().enumerate().filter(|(place, _)| *place != tracked.application_name()) {
        (name, ready.session.began.get(place)).hash(&mut hasher);
    }
    for setting in ready.session.given.iter().flat_map(|given| given.iter()) {
        setting.hash(&mut hasher);
    }
    hasher.finish()
}

/// Of one pool: programs begin in few ways.
const TAKEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaves_a_full_list() {
        let mut taken = Taken::default();
        (0..=TAKEN_MAX as u64).chain([3]).for_each(|hash| taken.add(hash));
        assert!(!taken.has(0) && taken.has(1) && taken.has(TAKEN_MAX as u64));
        assert_eq!(taken.hashes.len(), TAKEN_MAX);
    }
}
