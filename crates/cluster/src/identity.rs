//! The system identifier that the members of a cluster have in common, by which a host of another cluster is told.
//!
//! Always true: it is that of more than half of the members, answering or not, as soon as there is one; before, that of most of those
//! that answer, once all have been asked. So a foreign host does not take the place of members that restart.
//! Not here: what a foreign host must not do (`cluster`).

use std::collections::BTreeSet;

use crate::event::News;
use crate::member::Member;

/// The identifier, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    system: Option<u64>,
    /// Hosts of another cluster of which that has been told, by their places.
    told_foreign: BTreeSet<usize>,
}

impl Identity {
    /// The identifier, if it is known.
    pub(crate) fn system(&self) -> Option<u64> {
        self.system
    }

    /// Begins with the identifier that another process has known.
    pub(crate) fn inherit(&mut self, system: Option<u64>) {
        self.system = system;
    }

    /// What was known before, where the hosts have other places now.
    pub(crate) fn succeed(&mut self, former: &Self, moved: impl Fn(usize) -> Option<usize>) {
        self.system = former.system;
        self.told_foreign = former.told_foreign.iter().filter_map(|place| moved(*place)).collect();
    }

    /// Whether a member with this identifier belongs to the cluster.
    pub(crate) fn is_ours(&self, system: u64) -> bool {
        self.system == Some(system)
    }

    /// Whether a host with this identifier certainly belongs to another cluster.
    pub(crate) fn is_foreign(&self, system: u64) -> bool {
        self.system.is_some_and(|ours| ours != system)
    }

    /// Looks at the answers of the members. Returns whether all that was known of the cluster is void, since it has another identifier, as
    /// after an upgrade.
    pub(crate) fn agree(&mut self, members: &[Member], news: &mut Vec<News>) -> bool {
        let is_asked = |member: &Member| member.report().is_some() || member.error().is_some();
        let systems: Vec<u64> = members.iter().filter_map(|member| Some(member.report()?.system)).collect();
        let count = |system: u64| systems.iter().filter(|other| **other == system).count();
        let Some(most) = systems.iter().rev().copied().max_by_key(|system| count(*system)) else { return false };
        let is_majority = count(most) * 2 > members.len();
        let former = self.system;
        if is_majority || former.is_none() && members.iter().all(is_asked) {
            self.system = Some(most);
        }
        let renewed = former.filter(|former| self.system != Some(*former));
        if let Some(former) = renewed {
            let text = format!("the members have another system identifier: {most} instead of {former}");
            news.push(News { is_warning: true, text });
        }
        self.tell_foreign(members, news);
        renewed.is_some()
    }

    fn tell_foreign(&mut self, members: &[Member], news: &mut Vec<News>) {
        let Some(ours) = self.system else { return };
        for (place, member) in members.iter().enumerate() {
            let Some(report) = member.report() else { continue };
            if report.system == ours {
                self.told_foreign.remove(&place);
            } else if self.told_foreign.insert(place) {
                let (name, other) = (member.name(), report.system);
                let why = format!("it belongs to another cluster (system identifier {other} instead of {ours})");
                news.push(News { is_warning: true, text: format!("host {name} is not used: {why}") });
            }
        }
    }
}
