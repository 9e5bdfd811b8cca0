//! Lookups of host names for workers.
//!
//! Always true: one lookup answers all workers that ask for the same name while it is under way; at most
//! [`LOOKUPS_MAX`] are under way at a time, the others wait in the order of asking.
//! Not here: how long an answer is used (`worker`), querying name servers ourselves (`resolver`).

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::WorkerId;
use worker::letters::{Addresses, Found};

use crate::source::words_of;

/// The host names asked for, and the workers that asked.
#[derive(Debug, Default)]
pub(crate) struct Names {
    asked: BTreeMap<Arc<str>, Asked>,
    queue: VecDeque<Arc<str>>,
    under_way: usize,
}

/// A host name that a worker waits for.
#[derive(Debug, Default)]
struct Asked {
    askers: Vec<WorkerId>,
    is_under_way: bool,
    /// The workers for which the name is looked up again after this lookup, whose answer may be outdated.
    again: Vec<WorkerId>,
}

impl Names {
    /// A worker asks for the addresses of a name.
    pub(crate) fn ask(&mut self, from: WorkerId, name: Arc<str>) {
        if let Some(asked) = self.asked.get_mut(&name) {
            if !asked.askers.contains(&from) {
                asked.askers.push(from);
            }
            return;
        }
        self.queue.push_back(Arc::clone(&name));
        self.asked.insert(name, Asked { askers: vec![from], ..Asked::default() });
    }

    /// Looks a name up again because its addresses may have changed just now: a lookup under way does not count for
    /// these workers.
    pub(crate) fn ask_again(&mut self, name: Arc<str>, workers: Vec<WorkerId>) {
        match self.asked.get_mut(&name) {
            Some(asked) if asked.is_under_way => asked.again = workers,
            _ => workers.into_iter().for_each(|worker| self.ask(worker, Arc::clone(&name))),
        }
    }

    /// Returns the next name to be looked up now; [`Names::answered`] must follow.
    pub(crate) fn start(&mut self) -> Option<Arc<str>> {
        if self.under_way == LOOKUPS_MAX {
            return None;
        }
        let name = self.queue.pop_front()?;
        self.under_way += 1;
        if let Some(asked) = self.asked.get_mut(&name) {
            asked.is_under_way = true;
        }
        Some(name)
    }

    /// Ends a lookup and returns the workers that asked.
    pub(crate) fn answered(&mut self, name: &Arc<str>) -> Vec<WorkerId> {
        self.under_way = self.under_way.saturating_sub(1);
        let Asked { askers, again, .. } = self.asked.remove(name).unwrap_or_default();
        again.into_iter().for_each(|worker| self.ask(worker, Arc::clone(name)));
        askers
    }
}

/// Asks the system's resolver for the addresses of a name; it does not report their TTL.
pub(crate) async fn look_up(name: &str) -> Found {
    let found = tokio::net::lookup_host((name, 0)).await.map_err(|error| Arc::<str>::from(words_of(&error)))?;
    found_at(found.map(|address| address.ip()), None)
}

/// Returns each address once, in the order found.
pub(crate) fn found_at(found: impl IntoIterator<Item = IpAddr>, ttl: Option<Duration>) -> Found {
    let mut all = Vec::new();
    for address in found {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    if all.is_empty() { Err("the name has no address".into()) } else { Ok(Addresses { all, ttl }) }
}

/// Returns the name of an operating system user; `None` if it has none.
pub(crate) fn user_of_the_system(uid: u32) -> Option<Arc<str>> {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map(|user| user.name.into())
}

/// A lookup without an answer may occupy its thread for half a minute; the others must not wait for it.
pub const LOOKUPS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_ask_for_one_name_are_answered_by_one_lookup() {
        let mut names = Names::default();
        for worker in [0, 1, 0] {
            names.ask(WorkerId(worker), "db".into());
        }
        assert_eq!(names.start().as_deref(), Some("db"));
        assert_eq!(names.start(), None);
        names.ask(WorkerId(2), "db".into());
        assert_eq!(names.answered(&"db".into()), [WorkerId(0), WorkerId(1), WorkerId(2)]);
        assert_eq!(names.answered(&"db".into()), []);
    }

    #[test]
    fn a_lookup_that_began_before_a_change_is_followed_by_another() {
        let mut names = Names::default();
        names.ask(WorkerId(0), "db".into());
        names.ask_again("db".into(), vec![WorkerId(0), WorkerId(1)]);
        assert_eq!(names.start().as_deref(), Some("db"));
        assert_eq!(names.start(), None);
        names.ask_again("db".into(), vec![WorkerId(1), WorkerId(2)]);
        assert_eq!(names.answered(&"db".into()), [WorkerId(0), WorkerId(1)]);
        assert_eq!(names.start().as_deref(), Some("db"));
        assert_eq!(names.answered(&"db".into()), [WorkerId(1), WorkerId(2)]);
        assert_eq!(names.start(), None);
    }

    #[test]
    fn an_address_is_found_once() {
        let [a, b] = ["10.0.0.1", "::1"].map(|text| text.parse().expect("an address"));
        assert_eq!(found_at([a, b, a], None), Ok(Addresses { all: vec![a, b], ttl: None }));
        assert!(found_at([], None).is_err());
    }

    #[test]
    fn beyond_the_limit_lookups_wait_for_one_another() {
        let mut names = Names::default();
        for number in 0..=LOOKUPS_MAX {
            names.ask(WorkerId(0), format!("db{number}").into());
        }
        let started = std::iter::from_fn(|| names.start()).count();
        assert_eq!(started, LOOKUPS_MAX);
        names.answered(&"db3".into());
        assert_eq!(names.start(), Some(format!("db{LOOKUPS_MAX}").into()));
    }

    #[test]
    fn a_name_may_be_asked_for_again_after_its_answer() {
        let mut names = Names::default();
        names.ask(WorkerId(0), "db".into());
        names.start();
        names.answered(&"db".into());
        names.ask(WorkerId(1), "db".into());
        assert_eq!(names.start().as_deref(), Some("db"));
    }
}
