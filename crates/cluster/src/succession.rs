//! A machine takes the place of another, since the hosts or the agents of its cluster have changed.
//!
//! Always true: what has been found out about hosts that stay is not forgotten, nor is the newest timeline, or when the lock was confirmed.
//! Not here: when a machine is replaced (`control::clusters`).

use std::collections::BTreeSet;

use base::Time;

use crate::cluster::Cluster;

impl Cluster {
    /// Takes over what another machine has found out about the same cluster, so that a changed list of hosts forgets neither the newest
    /// timeline nor when the lock was confirmed.
    pub fn succeed(&mut self, now: Time, former: &Self) {
        let names: Vec<_> = self.members.iter().map(|member| member.name().clone()).collect();
        let moved = |place: usize| {
            let name = former.members.get(place)?.name();
            names.iter().position(|own| own == name)
        };
        for (place, known) in former.members.iter().enumerate() {
            if let Some(own) = moved(place) {
                self.members[own].succeed(known);
            }
        }
        let carried = |places: &BTreeSet<usize>| places.iter().filter_map(|place| moved(*place)).collect();
        self.identity.succeed(&former.identity, moved);
        (self.timeline, self.primary_since) = (former.timeline, former.primary_since);
        self.primary = former.primary.and_then(moved);
        self.without_since = if self.primary.is_some() { former.without_since } else { Some(now) };
        self.told_fenced = carried(&former.told_fenced);
        self.told_denied = carried(&former.told_denied);
        self.left_replicas = carried(&former.left_replicas);
        (self.has_told_stranger, self.has_told_no_lease) = (former.has_told_stranger, former.has_told_no_lease);
        self.agents.succeed(&former.agents);
        self.gate = former.gate.clone();
        if let (Some(roster), Some(former)) = (&mut self.roster, &former.roster) {
            roster.clone_from(former);
        }
    }
}
