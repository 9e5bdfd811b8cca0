//! What the agents of a cluster (Patroni on each member) say of its leader.
//!
//! Always true: an agent's word alone makes no host the primary, and takes none away: it decides only between hosts that say themselves
//! that they accept writes. An answer counts for some seconds.
//! Not here: asking agents and reading their answers (`control::clusters`).

use std::sync::Arc;
use std::time::Duration;

use base::Time;

/// What an agent answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentAnswer {
    /// The members of the cluster (`GET /cluster`).
    pub members: Vec<AgentMember>,
    /// Whether the member of this agent itself holds the leader lock (`GET /leader` is 200).
    pub holds_lock: bool,
    /// How long the leader lock lasts after its last renewal (`ttl`).
    pub ttl: Duration,
    /// The time between two renewals (`loop_wait`).
    pub loop_wait: Duration,
    /// Whether automatic failover is off (maintenance mode).
    pub is_paused: bool,
}

/// A member of a cluster, as an agent knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentMember {
    /// Its name for the agent.
    pub name: Arc<str>,
    /// Its host and port: `10.0.0.1:5432`.
    pub place: String,
    /// The host and port of its agent.
    pub agent: Option<String>,
    /// Whether it is the leader.
    pub is_leader: bool,
    /// Its timeline.
    pub timeline: u32,
}

/// The agents of a cluster.
#[derive(Debug)]
pub(crate) struct Agents {
    agents: Vec<Agent>,
}

#[derive(Debug)]
struct Agent {
    /// Its own host and port.
    place: Arc<str>,
    answer: Option<(Time, AgentAnswer)>,
    /// Until when its member surely holds the leader lock, as it has said itself.
    lease_ends: Option<Time>,
    error: Option<Arc<str>>,
    due: Time,
    under_way: Option<Time>,
}

impl Agents {
    pub(crate) fn new(places: Vec<Arc<str>>, now: Time) -> Self {
        let agent = |place| Agent { place, answer: None, lease_ends: None, error: None, due: now, under_way: None };
        Self { agents: places.into_iter().map(agent).collect() }
    }

    pub(crate) fn are_there(&self) -> bool {
        !self.agents.is_empty()
    }

    /// The next agent to be asked.
    pub(crate) fn start(&mut self, now: Time) -> Option<usize> {
        let place = self.agents.iter().position(|agent| agent.under_way.is_none() && agent.due <= now)?;
        self.agents[place].under_way = Some(now);
        Some(place)
    }

    /// When an agent is to be asked next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.agents.iter().filter(|agent| agent.under_way.is_none()).map(|agent| agent.due).min()
    }

    /// An agent has answered, or not.
    pub(crate) fn told(&mut self, place: usize, now: Time, next: Duration, answer: Result<AgentAnswer, Arc<str>>) {
        let Some(agent) = self.agents.get_mut(place) else { return };
        let Some(asked) = agent.under_way.take() else { return };
        agent.due = (asked + next).max(now);
        match answer {
            Ok(answer) => {
                let lasts = answer.ttl.saturating_sub(answer.loop_wait + LEASE_MARGIN);
                match answer.holds_lock {
                    // Without automatic failover nobody else takes the lock.
                    _ if answer.is_paused => agent.lease_ends = None,
                    true if !lasts.is_zero() => agent.lease_ends = Some(asked + lasts),
                    _ => {}
                }
                (agent.answer, agent.error) = (Some((asked, answer)), None);
            }
            Err(why) => agent.error = Some(why),
        }
    }

    /// Until when the member at this host and port surely holds the leader lock; `None` if its agent has never said that it does, or
    /// if nobody else would take it.
    pub(crate) fn lease_of(&self, member: &str) -> Option<Time> {
        let own = (0..self.agents.len()).find(|agent| self.member_of(*agent) == Some(member))?;
        self.agents[own].lease_ends
    }

    /// Asks all agents at once.
    pub(crate) fn hurry(&mut self, now: Time) {
        self.agents.iter_mut().for_each(|agent| agent.due = agent.due.min(now));
    }

    /// What an agent has answered lately.
    pub(crate) fn answer_of(&self, place: usize, now: Time, lasts: Duration) -> Option<&AgentAnswer> {
        let (asked, answer) = self.agents.get(place)?.answer.as_ref()?;
        (now.since(*asked) <= lasts).then_some(answer)
    }

    /// The host and port of the leader, as most agents say that have answered lately; of as many, those that know the newest
    /// timeline, for an agent that is cut off repeats what it knew. `Some(None)`: there is no leader.
    pub(crate) fn leader(&self, now: Time, lasts: Duration) -> Option<Option<&str>> {
        let leader = |answer: &AgentAnswer| answer.members.iter().position(|member| member.is_leader);
        let views = (0..self.agents.len()).filter_map(|place| self.answer_of(place, now, lasts));
        let told: Vec<(Option<&str>, u32)> = views
            .map(|answer| match leader(answer).map(|place| &answer.members[place]) {
                Some(member) => (Some(&*member.place), member.timeline),
                None => (None, 0),
            })
            .collect();
        let votes = |leader: Option<&str>| told.iter().filter(|(other, _)| *other == leader).count();
        told.iter().max_by_key(|(leader, timeline)| (votes(*leader), *timeline)).map(|(leader, _)| *leader)
    }

    /// The host and port of the member that an agent stands beside, as itself or the others say.
    pub(crate) fn member_of(&self, agent: usize) -> Option<&str> {
        let own = &self.agents.get(agent)?.place;
        let answers = self.agents.iter().filter_map(|agent| agent.answer.as_ref());
        let mut members = answers.flat_map(|(_, answer)| &answer.members);
        members.find(|member| member.agent.as_deref() == Some(&**own)).map(|member| &*member.place)
    }

    /// The name that agents have for the member at this host and port.
    pub(crate) fn name_of(&self, place: &str) -> Option<&Arc<str>> {
        let answers = self.agents.iter().filter_map(|agent| agent.answer.as_ref());
        let mut members = answers.flat_map(|(_, answer)| &answer.members);
        members.find(|member| member.place == place).map(|member| &member.name)
    }

    /// The host and port of the member of this name.
    pub(crate) fn place_of(&self, name: &str) -> Option<&str> {
        let answers = self.agents.iter().filter_map(|agent| agent.answer.as_ref());
        let mut members = answers.flat_map(|(_, answer)| &answer.members);
        members.find(|member| *member.name == *name).map(|member| &*member.place)
    }

    /// An agent that has answered lately, rather than one that has not.
    pub(crate) fn best(&self) -> Option<usize> {
        (0..self.agents.len()).max_by_key(|place| {
            let agent = &self.agents[*place];
            (agent.error.is_none(), agent.answer.as_ref().map(|(asked, _)| *asked))
        })
    }

    /// How many agents there are, how many of them have answered the last question, and the last error.
    pub(crate) fn counts(&self) -> (usize, usize, Option<&Arc<str>>) {
        let answering = self.agents.iter().filter(|agent| agent.error.is_none() && agent.answer.is_some()).count();
        (self.agents.len(), answering, self.agents.iter().find_map(|agent| agent.error.as_ref()))
    }
}

/// Writes stop this long before the lock can have run out: servers have to be closed by then.
const LEASE_MARGIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(5);

    fn view(leader: &str, timeline: u32) -> AgentAnswer {
        let member = |name: &str| AgentMember {
            name: name.into(),
            place: format!("{name}:5432"),
            agent: Some(format!("{name}:8008")),
            is_leader: name == leader,
            timeline,
        };
        AgentAnswer { members: ["a", "b", "c"].map(member).into(), ..AgentAnswer::default() }
    }

    fn told(views: &[(&str, u32)]) -> (Agents, Time) {
        let now = Time::from_secs(100);
        let mut agents = Agents::new(["a:8008", "b:8008", "c:8008"].map(Arc::from).into(), now);
        for (place, (leader, timeline)) in views.iter().enumerate() {
            assert_eq!(agents.start(now), Some(place));
            agents.told(place, now, LASTS, Ok(view(leader, *timeline)));
        }
        (agents, now)
    }

    #[test]
    fn most_agents_say_who_leads_and_of_as_many_the_newest() {
        for (views, leader) in [
            (&[("a", 1), ("b", 1), ("b", 1)][..], Some(Some("b:5432"))),
            (&[("a", 2), ("a", 2), ("b", 3)], Some(Some("a:5432"))),
            (&[("a", 2), ("b", 3)], Some(Some("b:5432"))),
            (&[("", 0), ("", 0), ("a", 1)], Some(None)),
            (&[], None),
        ] {
            let (agents, now) = told(views);
            assert_eq!(agents.leader(now, LASTS), leader, "{views:?}");
            assert_eq!(agents.leader(now + LASTS + Duration::from_micros(1), LASTS), None, "too old");
        }
    }

    #[test]
    fn an_agent_is_asked_again_after_its_answer_and_keeps_what_it_knew() {
        let (mut agents, now) = told(&[("a", 1), ("a", 1), ("a", 1)]);
        assert_eq!((agents.start(now), agents.next_deadline()), (None, Some(now + LASTS)));
        agents.hurry(now + Duration::from_secs(1));
        assert_eq!(agents.start(now + Duration::from_secs(1)), Some(0));
        agents.told(0, now + Duration::from_secs(2), LASTS, Err("connection refused".into()));
        assert_eq!(agents.counts(), (3, 2, Some(&"connection refused".into())));
        assert_eq!(agents.member_of(2), Some("c:5432"));
        assert_eq!(agents.name_of("b:5432").map(|name| &**name), Some("b"));
        assert_eq!(agents.place_of("b"), Some("b:5432"));
        assert_ne!(agents.best(), Some(0));
    }
}
