//! Which startup parameters of clients the servers of a pool have accepted, and which settings the pool's user may reset:
//! only PostgreSQL can judge that, and clients are greeted before their parameters are sent to a server.
//!
//! Always true: parameters that no server of the pool has accepted yet are sent by themselves, ahead of the client's
//! request. A server that refuses them then discards them and stays open; if they went along with a request, it would
//! have to be closed. So are settings of others that nobody has reset yet: another client may have set them with rights
//! that the pool's user lacks. Each list is bounded, and its oldest entry leaves it.
//! Not here: how they are sent to a server (`catch_up`).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use protocol::state::Overrides;
use protocol::vars::{Tracked, Vars};

use crate::data::client::Ready;

/// What servers of a pool have accepted: startup parameters, and resets of settings.
#[derive(Debug, Default)]
pub(crate) struct AcceptedParameters {
    /// Hashes of startup parameters.
    hashes: VecDeque<u64>,
    /// The names of settings that servers have reset.
    resets: VecDeque<Box<str>>,
    /// The parameters of the last client that set nothing else, which spare the next client the hashing.
    pub(super) latest: Option<Rc<Vars>>,
}

impl AcceptedParameters {
    /// The settings that a server with the overrides `theirs` must reset for a client with `ours`, and that no server has
    /// reset yet.
    pub(super) fn unknown_resets(&self, theirs: Option<&Overrides>, ours: Option<&Overrides>) -> Box<[Box<str>]> {
        let (Some(theirs), none) = (theirs, Overrides::default()) else { return Box::default() };
        let resets = theirs.resets_to(ours.unwrap_or(&none));
        resets.filter(|name| !self.resets.iter().any(|known| **known == **name)).map(Box::from).collect()
    }

    pub(super) fn add_resets(&mut self, names: Box<[Box<str>]>) {
        for name in names {
            if !self.resets.contains(&name) {
                self.resets.push_back(name);
                if self.resets.len() > ACCEPTED_MAX {
                    self.resets.pop_front();
                }
            }
        }
    }

    /// A server has refused a reset that was known: the rights of the pool's user have changed.
    pub(super) fn forget_resets(&mut self) {
        self.resets.clear();
    }

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

/// Entries of each list for one pool: programs have few different sets of parameters.
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

    #[test]
    fn a_reset_is_unknown_until_a_server_has_taken_it() {
        let (mut accepted, mut theirs) = (AcceptedParameters::default(), Overrides::default());
        for name in ["work_mem", "role", "a.b"] {
            theirs.set(name, "1");
        }
        let mut ours = Overrides::default();
        ours.set("a.b", "2");
        assert!(accepted.unknown_resets(None, Some(&ours)).is_empty());
        let unknown = accepted.unknown_resets(Some(&theirs), Some(&ours));
        assert_eq!(unknown.iter().map(|name| &**name).collect::<Vec<_>>(), ["work_mem"]);
        accepted.add_resets(unknown);
        let unknown = accepted.unknown_resets(Some(&theirs), None);
        assert_eq!(unknown.iter().map(|name| &**name).collect::<Vec<_>>(), ["a.b"]);
        accepted.add_resets((0..ACCEPTED_MAX).map(|name| name.to_string().into()).collect());
        assert_eq!(accepted.unknown_resets(Some(&theirs), Some(&ours)).len(), 1, "the oldest has left");
        accepted.add_resets(unknown);
        accepted.forget_resets();
        assert_eq!(accepted.unknown_resets(Some(&theirs), None).len(), 2);
    }
}
