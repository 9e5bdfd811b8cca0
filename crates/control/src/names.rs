//! Names of hosts that workers want the addresses of.
//!
//! Always true: one lookup answers all who ask for the same name while it is under way; at most [`LOOKUPS_MAX`] are under
//! way together, the others wait in the order of asking.
//! Not here: how long an answer is believed (`worker`).

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use base::WorkerId;

use crate::source::words_of;

/// What a lookup found: at least one address, or why there is none.
pub type Found = Result<Vec<IpAddr>, Arc<str>>;

/// Who has asked for which name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    asked: BTreeMap<Arc<str>, Vec<WorkerId>>,
    queue: VecDeque<Arc<str>>,
    under_way: usize,
}

impl Names {
    /// A worker wants the addresses of a name.
    pub(crate) fn ask(&mut self, from: WorkerId, name: Arc<str>) {
        if let Some(askers) = self.asked.get_mut(&name) {
            if !askers.contains(&from) {
                askers.push(from);
            }
            return;
        }
        self.queue.push_back(Arc::clone(&name));
        self.asked.insert(name, vec![from]);
    }

    /// The next name to be looked up now; [`Names::answered`] must follow.
    pub(crate) fn start(&mut self) -> Option<Arc<str>> {
        if self.under_way == LOOKUPS_MAX {
            return None;
        }
        let name = self.queue.pop_front()?;
        self.under_way += 1;
        Some(name)
    }

    /// A lookup is over: who wants to know.
    pub(crate) fn answered(&mut self, name: &str) -> Vec<WorkerId> {
        self.under_way = self.under_way.saturating_sub(1);
        self.asked.remove(name).unwrap_or_default()
    }
}

/// Asks the system for the addresses of a name. Each address is found once, in the system's order.
pub(crate) async fn look_up(name: &str) -> Found {
    let found = tokio::net::lookup_host((name, 0)).await.map_err(|error| Arc::<str>::from(words_of(&error)))?;
    let mut addresses = Vec::new();
    for address in found.map(|address| address.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err("the name has no address".into()) } else { Ok(addresses) }
}

/// The name of a user of the system; `None` if it has none.
pub(crate) fn user_of_the_system(uid: u32) -> Option<Arc<str>> {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map(|user| user.name.into())
}

/// A lookup that nobody answers may hold its thread for half a minute; the others must not wait for it.
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
        assert_eq!(names.answered("db"), [WorkerId(0), WorkerId(1), WorkerId(2)]);
        assert_eq!(names.answered("db"), []);
    }

    #[test]
    fn beyond_the_limit_lookups_wait_for_one_another() {
        let mut names = Names::default();
        for number in 0..=LOOKUPS_MAX {
            names.ask(WorkerId(0), format!("db{number}").into());
        }
        let started = std::iter::from_fn(|| names.start()).count();
        assert_eq!(started, LOOKUPS_MAX);
        names.answered("db3");
        assert_eq!(names.start(), Some(format!("db{LOOKUPS_MAX}").into()));
    }

    #[test]
    fn a_name_may_be_asked_for_again_after_its_answer() {
        let mut names = Names::default();
        names.ask(WorkerId(0), "db".into());
        names.start();
        names.answered("db");
        names.ask(WorkerId(1), "db".into());
        assert_eq!(names.start().as_deref(), Some("db"));
    }
}
