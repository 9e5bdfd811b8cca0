//! From which host to which one a switchover leads.
//!
//! Always true: the source is the primary, which is known and may be written to; the target is a replica that answers, that the agents
//! know or that may be promoted, and that lacks little of the log.
//! Not here: the steps of a switchover (`switchover`).

use super::Cluster;
use crate::event::Gate;
use crate::member::MemberRole;

impl Cluster {
    /// Chooses the target of a switchover, or says why there can be none.
    pub(super) fn plan(&self, to: Option<&str>) -> Result<(usize, usize), String> {
        if self.switchover.is_some() {
            return Err("another switchover of the cluster is in progress".to_owned());
        }
        let from = self.primary.filter(|_| self.without_since.is_none() && self.gate != Gate::Fenced);
        let from = from.ok_or("the cluster has no primary at present")?;
        if !self.agents.are_there() && !self.terms.can_demote {
            return Err("the cluster has neither patroni= nor demote_command=".to_owned());
        }
        let to = match to {
            None => {
                let received = |place: usize| self.members[place].report().map_or(0, |report| report.received);
                let replicas =
                    (0..self.members.len()).rev().filter(|place| self.role_of(*place) == MemberRole::Replica);
                replicas.max_by_key(|place| received(*place)).ok_or("the cluster has no replica that answers")?
            }
            Some(name) => {
                let place = self.agents.place_of(name).unwrap_or(name);
                let found = self.members.iter().position(|member| **member.name() == *place);
                found.ok_or_else(|| format!("the cluster has no member \"{name}\""))?
            }
        };
        let member = &self.members[to];
        let name = member.name();
        match self.role_of(to) {
            MemberRole::Replica => {}
            MemberRole::Unknown => {
                let why = member.error().map_or("it has not answered", |why| why);
                return Err(format!("host {name} cannot be asked: {why}"));
            }
            role if to == from => return Err(format!("host {name} is the {} already", role.word())),
            role => return Err(format!("host {name} is no replica: {}", role.word())),
        }
        if self.agents.are_there() && self.agents.name_of(name).is_none() {
            return Err(format!("Patroni does not know host {name}"));
        }
        if !self.agents.are_there() && !member.report().is_some_and(|report| report.can_promote) {
            let grant = "GRANT EXECUTE ON FUNCTION pg_catalog.pg_promote";
            return Err(format!("the user of the cluster may not promote host {name} ({grant})"));
        }
        let received = member.report().map_or(0, |report| report.received);
        let written = self.members[from].report().map_or(0, |report| report.replayed);
        match written.saturating_sub(received) {
            lag if lag > LAG_MAX => {
                Err(format!("host {name} lacks {lag} bytes of the log; at most {LAG_MAX} are allowed"))
            }
            _ => Ok((from, to)),
        }
    }
}

/// A target that lacks more of the log than this (one segment) is not switched over to.
const LAG_MAX: u64 = 16 << 20;
