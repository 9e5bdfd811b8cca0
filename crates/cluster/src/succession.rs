//! A machine takes the place of another, since the hosts or the agents of its cluster have changed, or the process has.
//!
//! Always true: what has been found out about hosts that stay is not forgotten, nor is the newest timeline, or when the lock was confirmed.
//! Not here: when a machine is replaced (`control::clusters`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Time;

use crate::cluster::Cluster;
use crate::event::Gate;

/// What the machine in the next process has to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heritage {
    /// The host and port of the member that is the primary, or was it last.
    pub primary: Arc<str>,
    /// The newest timeline of a primary.
    pub timeline: u32,
    /// The system identifier of the members, if it is known.
    pub system: Option<u64>,
    /// Until when the primary surely holds the leader lock, if that is known.
    pub lease: Option<Time>,
    /// Whether clients may write nowhere.
    pub is_fenced: bool,
}

impl Heritage {
    /// Where clients may write at first.
    #[must_use]
    pub fn gate(&self) -> Gate {
        if self.is_fenced { Gate::Fenced } else { Gate::Only(Arc::clone(&self.primary)) }
    }
}

impl Cluster {
    /// What the machine in the next process has to know; `None` if nothing has been found out.
    #[must_use]
    pub fn heritage(&self) -> Option<Heritage> {
        Some(Heritage {
            primary: Arc::clone(self.primary()?),
            timeline: self.timeline,
            system: self.identity.system(),
            lease: self.lease_ends().filter(|_| self.terms.is_fencing),
            is_fenced: self.gate == Gate::Fenced,
        })
    }

    /// Begins with what the machine in the process before has known. Its lease counts until the lock is confirmed here; none is granted besides.
    pub fn inherit(&mut self, now: Time, heritage: &Heritage) {
        self.identity.inherit(heritage.system);
        self.timeline = heritage.timeline;
        self.primary = self.members.iter().position(|member| *member.name() == heritage.primary);
        self.primary_since = now;
        if let Some(lease) = heritage.lease {
            self.agents.inherit(&heritage.primary, lease);
        }
        if self.primary.is_some() {
            self.gate = heritage.gate();
        }
    }

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
        self.told_silent = carried(&former.told_silent);
        self.left_replicas = carried(&former.left_replicas);
        // One that has gone may have been told.
        (self.suspects, self.are_suspects_told) = (carried(&former.suspects), false);
        (self.has_told_stranger, self.has_told_no_lease) = (former.has_told_stranger, former.has_told_no_lease);
        self.agents.succeed(&former.agents);
        (self.schedule, self.schedule_done) = (former.schedule.clone(), former.schedule_done);
        self.gate = former.gate.clone();
        if let (Some(roster), Some(former)) = (&mut self.roster, &former.roster) {
            roster.clone_from(former);
        }
    }
}
