//! The members of a cluster that is told them by its agents: who has come, and who has gone.
//!
//! Always true: a member comes if most agents that have answered lately know it, and not before all have been asked. It goes after
//! no agent has known it for [`ABSENT`], in which some have answered all the time; so nobody goes because agents are silent, and the primary
//! never goes. There are at most [`MEMBERS_MAX`] members, and their list changes at most once in [`PAUSE`].
//! Not here: what an agent's answer is (`agents`), putting another list in force (`control`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::agents::{AgentMember, Agents, authority};
use crate::cluster::Cluster;
use crate::event::{Command, News};

/// What the agents tell of the members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    /// The members, in the order in which they have come.
    members: Vec<Listed>,
    /// When their list was last told.
    told: Option<Time>,
    has_told_waiting: bool,
    has_told_full: bool,
}

/// A member of the list.
#[derive(Clone, Debug)]
struct Listed {
    member: AgentMember,
    /// Since when no agent knows it, of those that answer.
    absent_since: Option<Time>,
}

impl Roster {
    /// The list of members that are known already, by their hosts and ports.
    fn of<'m>(members: impl Iterator<Item = &'m Arc<str>>) -> Self {
        let member = |place: &Arc<str>| AgentMember {
            name: Arc::clone(place),
            place: place.to_string(),
            ..AgentMember::default()
        };
        let listed = members.map(|place| Listed { member: member(place), absent_since: None });
        Self { members: listed.collect(), ..Self::default() }
    }

    /// Looks at what the agents have told lately; `primary` is the host and port of the member that proves to be the primary.
    fn look(&mut self, now: Time, agents: &Agents, lasts: Duration, primary: Option<&str>, news: &mut Vec<News>) {
        let mut views = agents.views(now, lasts);
        // A list without members is no list.
        views.retain(|view| !view.is_empty());
        let mut votes: BTreeMap<&str, (usize, &AgentMember)> = BTreeMap::new();
        for view in &views {
            let seen: BTreeMap<&str, &AgentMember> = view.iter().map(|member| (&*member.place, member)).collect();
            for (place, member) in seen {
                votes.entry(place).or_insert((0, member)).0 += 1;
            }
        }
        for Listed { member, absent_since } in &mut self.members {
            match votes.get(&*member.place) {
                Some((_, told)) => {
                    *absent_since = None;
                    member.name = Arc::clone(&told.name);
                    // Patroni knows no interface of a member that is starting.
                    if told.agent.is_some() {
                        member.agent.clone_from(&told.agent);
                    }
                }
                None if views.is_empty() => *absent_since = None,
                None => drop(absent_since.get_or_insert(now)),
            }
        }
        let is_gone = |listed: &Listed| {
            primary != Some(&*listed.member.place)
                && listed.absent_since.is_some_and(|since| now.since(since) >= ABSENT)
        };
        self.members.retain(|listed| !is_gone(listed));
        let is_settled =
            |votes: usize| !self.members.is_empty() || agents.are_all_asked() || votes * 2 > agents.count();
        let is_new = |place: &str| self.members.iter().all(|listed| listed.member.place != place);
        let come = votes
            .into_iter()
            .filter(|(place, (votes, _))| votes * 2 > views.len() && is_settled(*votes) && is_new(place));
        let mut come: Vec<Listed> =
            come.map(|(_, (_, member))| Listed { member: member.clone(), absent_since: None }).collect();
        come.sort_by(|one, other| one.member.name.cmp(&other.member.name));
        let room = MEMBERS_MAX.saturating_sub(self.members.len());
        let is_full = come.len() > room;
        if is_full && !self.has_told_full {
            news.push(News {
                is_warning: true,
                text: format!("Patroni names more than {MEMBERS_MAX} members: the others are not used"),
            });
        }
        self.has_told_full = is_full;
        self.members.extend(come.into_iter().take(room));
    }

    fn members(&self) -> Vec<AgentMember> {
        self.members.iter().map(|listed| listed.member.clone()).collect()
    }
}

impl Cluster {
    /// Its members are those that its agents tell. What is not known of them is asked for. Agents of a cluster with another name are not
    /// listened to, if one is given.
    #[must_use]
    pub fn told_by_agents(mut self, scope: Option<Arc<str>>) -> Self {
        self.roster = Some(Roster::of(self.members.iter().map(|member| member.name())));
        self.agents.keep_to(scope);
        self
    }

    /// Looks whether there are other members now.
    pub(crate) fn look_at_roster(&mut self, now: Time, out: &mut Vec<Command>) {
        let lasts = self.answer_lasts();
        let primary = self.primary().filter(|_| self.without_since.is_none()).cloned();
        let Some(roster) = &mut self.roster else { return };
        let mut news = Vec::new();
        roster.look(now, &self.agents, lasts, primary.as_deref(), &mut news);
        if self.members.is_empty() && roster.members.is_empty() && !roster.has_told_waiting {
            let (count, answering, error) = self.agents.counts();
            if let Some(error) = error.filter(|_| answering == 0 && self.agents.are_all_asked()) {
                roster.has_told_waiting = true;
                let whose = match count {
                    0 => "since no question is answered".to_owned(),
                    _ => format!("since none of {count} interfaces of Patroni answers"),
                };
                let text = format!("no member is known, {whose}: {error}");
                news.push(News { is_warning: true, text });
            }
        }
        out.extend(news.into_iter().map(Command::Tell));
        if let Some(first) = roster.members.first() {
            self.agents.keep_to_cluster_of(&first.member.place);
        }
        let is_resting = roster.told.is_some_and(|told| now.since(told) < PAUSE);
        if is_resting || self.switchover.is_some() || roster.members.is_empty() {
            return;
        }
        let is_same = self
            .members
            .iter()
            .map(|member| &**member.name())
            .eq(roster.members.iter().map(|listed| &*listed.member.place));
        let knows = |agent: &str| self.agents.has(authority(agent));
        if !is_same
            || roster.members.iter().any(|listed| listed.member.agent.as_deref().is_some_and(|agent| !knows(agent)))
        {
            roster.told = Some(now);
            out.push(Command::Members(roster.members()));
        }
    }
}

/// More members than any cluster has.
const MEMBERS_MAX: usize = 32;
/// A member whose Patroni is restarted, or whose machine is, is away from Patroni's store for a while.
const ABSENT: Duration = Duration::from_secs(60);
/// Another list of members is another configuration for all workers.
const PAUSE: Duration = Duration::from_secs(2);

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
