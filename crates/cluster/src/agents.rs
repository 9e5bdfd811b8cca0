//! What the agents of a cluster (Patroni on each member) say of its leader.
//!
//! Always true: an agent's word alone makes no host the primary, and takes none away: it decides only between hosts that say themselves
//! that they accept writes. An answer counts for some seconds.
//! Not here: asking agents and reading their answers (`control::clusters`).

use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::cluster::Cluster;
use crate::member::Member;
use crate::planted::lasts_for;
use crate::schedule::{PlannedSwitchover, Told};
use crate::store::{Store, StoreAnswer, StoreQuestion};

/// What an agent answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentAnswer {
    /// The name of its own member, if it tells that.
    pub own: Option<Arc<str>>,
    /// Its name for the cluster (Patroni's `scope`), if it tells that.
    pub scope: Option<Arc<str>>,
    /// Whether its own member holds the leader lock (`GET /leader` is 200).
    pub holds_lock: bool,
    /// The members of the cluster (`GET /cluster`); empty if that was not told.
    pub members: Vec<AgentMember>,
    /// Whether automatic failover is off (maintenance mode).
    pub is_paused: bool,
    /// How long the leader lock lasts after its last renewal (`ttl`), and the time between two renewals (`loop_wait`), each at most an hour;
    /// `None` if that was not told.
    pub lock: Option<(Duration, Duration)>,
    /// The switchover that will be carried out at a certain time; told with the members.
    pub planned: Option<PlannedSwitchover>,
}

/// A member of a cluster, as an agent knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentMember {
    /// Its name for the agent.
    pub name: Arc<str>,
    /// Its host and port: `10.0.0.1:5432`.
    pub place: String,
    /// The URL of its agent up to the port, `http://10.0.0.1:8008`, or the host and port alone.
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
    /// For how long a confirmation of the leader lock counts.
    lasts: Duration,
    /// When the first of them was asked that has answered.
    first_answer: Option<Time>,
    /// The name of the cluster that they keep; an agent of another is not listened to. `None` if that does not matter.
    scope: Option<Arc<str>>,
    /// Where they keep what they tell, if that is asked, too. While it answers, it decides in their place.
    store: Option<Store>,
    /// Until when a member holds the lock, as another process has known.
    inherited: Option<(Arc<str>, Time)>,
}

#[derive(Debug)]
struct Agent {
    /// Its own host and port.
    place: Arc<str>,
    own: Option<Arc<str>>,
    /// The cluster that it keeps.
    scope: Option<Arc<str>>,
    /// The members as it has told them last, and when it was asked.
    view: Option<(Time, Vec<AgentMember>)>,
    /// When that answer was there.
    heard: Time,
    /// The switchover that it has told with them.
    planned: Option<PlannedSwitchover>,
    /// When it was asked for its last answer, and what that said of maintenance.
    answered: Option<(Time, bool)>,
    /// When it was asked for the last answer by which its member held the lock.
    confirmed: Option<Time>,
    error: Option<Arc<str>>,
    due: Time,
    under_way: Option<Time>,
}

impl Agents {
    pub(crate) fn new(places: Vec<Arc<str>>, now: Time) -> Self {
        let (answered, confirmed, under_way) = (None, None, None);
        let agent = |place| Agent {
            place,
            due: now,
            own: None,
            scope: None,
            view: None,
            heard: now,
            planned: None,
            answered,
            confirmed,
            error: None,
            under_way,
        };
        Self {
            agents: places.into_iter().map(agent).collect(),
            lasts: LOCK_LASTS,
            first_answer: None,
            scope: None,
            store: None,
            inherited: None,
        }
    }

    /// Has the store asked at these addresses.
    pub(crate) fn ask_store_at(&mut self, addresses: Vec<Arc<str>>, now: Time) {
        self.store = (!addresses.is_empty()).then(|| Store::new(addresses, now));
    }

    pub(crate) fn are_there(&self) -> bool {
        !self.agents.is_empty() || self.store.is_some()
    }

    /// Takes over what another list has known of the same agents.
    pub(crate) fn succeed(&mut self, former: &Self) {
        (self.lasts, self.first_answer) = (former.lasts, former.first_answer);
        self.inherited.clone_from(&former.inherited);
        if let Some((store, former)) = self.store.as_mut().zip(former.store.as_ref()) {
            store.succeed(former);
        }
        for agent in &mut self.agents {
            if let Some(known) = former.agents.iter().find(|known| known.place == agent.place) {
                (agent.own, agent.scope, agent.view) = (known.own.clone(), known.scope.clone(), known.view.clone());
                (agent.planned, agent.heard) = (known.planned.clone(), known.heard);
                (agent.answered, agent.confirmed) = (known.answered, known.confirmed);
                self.scope = self.scope.take().or_else(|| former.scope.clone());
            }
        }
    }

    /// Another process has known that this member holds the lock until then.
    pub(crate) fn inherit(&mut self, member: &Arc<str>, until: Time) {
        self.inherited = Some((Arc::clone(member), until));
    }

    /// Agents that keep a cluster of another name are not listened to from now on.
    pub(crate) fn keep_to(&mut self, scope: Option<Arc<str>>) {
        self.scope = scope.or(self.scope.take());
    }

    /// The next agent to be asked.
    pub(crate) fn start(&mut self, now: Time) -> Option<usize> {
        let place = self.agents.iter().position(|agent| agent.under_way.is_none() && agent.due <= now)?;
        self.agents[place].under_way = Some(now);
        Some(place)
    }

    /// The next question to the store.
    pub(crate) fn start_store(&mut self, now: Time) -> Option<StoreQuestion> {
        self.store.as_mut()?.start(now)
    }

    /// When an agent or the store is to be asked next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let agents = self.agents.iter().filter(|agent| agent.under_way.is_none()).map(|agent| agent.due);
        agents.chain(self.store.as_ref().and_then(Store::next_deadline)).min()
    }

    /// The store has answered, or not. Returns what an operator should know.
    pub(crate) fn store_told(
        &mut self,
        now: Time,
        next: Duration,
        answer: Result<StoreAnswer, Arc<str>>,
    ) -> Option<(bool, String)> {
        let store = self.store.as_mut()?;
        let told = store.told(now, next, answer);
        if let Some((asked, answer)) = store.last() {
            let (asked, lock) = (*asked, answer.lock);
            self.first_answer.get_or_insert(asked);
            self.lock_lasts(lock);
        }
        told
    }

    /// Something in the store has changed, or it cannot be watched.
    pub(crate) fn store_changes(&mut self, now: Time, change: Result<(), Arc<str>>) {
        if let Some(store) = &mut self.store {
            store.changes(now, change);
        }
    }

    /// An agent has answered, or not.
    pub(crate) fn told(&mut self, place: usize, now: Time, next: Duration, answer: Result<AgentAnswer, Arc<str>>) {
        let Some(agent) = self.agents.get_mut(place) else { return };
        let Some(asked) = agent.under_way.take() else { return };
        agent.due = (asked + next).max(now);
        let is_other = |ours: &Arc<str>, scope: &Arc<str>| ours != scope;
        let answer = match answer {
            Ok(AgentAnswer { scope: Some(scope), .. })
                if self.scope.as_ref().is_some_and(|ours| is_other(ours, &scope)) =>
            {
                agent.error = Some(format!("it belongs to another cluster, {scope}").into());
                return;
            }
            Ok(answer) => answer,
            Err(why) => {
                agent.error = Some(why);
                return;
            }
        };
        (agent.answered, agent.error) = (Some((asked, answer.is_paused)), None);
        agent.own = answer.own.or(agent.own.take());
        if answer.holds_lock {
            agent.confirmed = Some(asked);
        }
        if !answer.members.is_empty() {
            (agent.view, agent.heard) = (Some((asked, answer.members)), now);
            agent.planned = answer.planned;
            agent.scope = answer.scope;
        }
        self.first_answer.get_or_insert(asked);
        self.lock_lasts(answer.lock);
    }

    fn lock_lasts(&mut self, lock: Option<(Duration, Duration)>) {
        if let Some((ttl, loop_wait)) = lock {
            let (ttl, loop_wait) = (ttl.min(LOCK_MAX), loop_wait.min(LOCK_MAX));
            self.lasts = ttl.saturating_sub(loop_wait + LEASE_MARGIN).max(LEASE_MIN);
        }
    }

    /// Until when the member at this host and port, which is the primary since that time, surely holds the leader lock, by the word of its
    /// agent or of the store. Where neither has confirmed that yet, the time counts from when the first of them has answered. `None` if no
    /// agent is known to be its own and the store does not answer, if none has answered yet, or if nobody else would take the lock.
    pub(crate) fn lease_of(&self, member: &str, since: Time) -> Option<Time> {
        // One agent may be known by two addresses.
        let own = (0..self.agents.len()).filter(|agent| self.member_of(*agent) == Some(member));
        let confirmed = own.map(|agent| self.agents[agent].confirmed).max();
        let store = self.store.as_ref().filter(|store| store.last().is_some_and(|(_, last)| last.lock_left.is_some()));
        let inherited = self.inherited.as_ref().filter(|(whose, _)| **whose == *member).map(|(_, until)| *until);
        if self.is_paused() || confirmed.is_none() && store.is_none() && inherited.is_none() {
            return None;
        }
        let by_agent = confirmed.flatten().filter(|asked| *asked >= since).map(|asked| asked + lasts_for(self.lasts));
        // The store tells how long the lock lasts itself.
        let by_store = store.and_then(|store| store.lock_of(member, since));
        let by_store = by_store.map(|until| Time(until.0.saturating_sub(LEASE_MARGIN.as_micros() as u64)));
        let known = by_agent.max(by_store).max(inherited);
        known.or_else(|| Some(self.first_answer?.max(since) + lasts_for(self.lasts)))
    }

    /// Whether all agents have been asked, and some have answered, and none of them is that of this member.
    pub(crate) fn has_none_for(&self, member: &str) -> bool {
        let has_answered = self.agents.iter().any(|agent| agent.answered.is_some());
        let is_confirmed_by_store = self.store.as_ref().is_some_and(|store| store.lock_of(member, Time(0)).is_some());
        has_answered
            && !is_confirmed_by_store
            && self.are_all_asked()
            && (0..self.agents.len()).all(|agent| self.member_of(agent) != Some(member))
    }

    /// What the agent beside the member at this host and port has told last of a switchover at a certain time, else another one that
    /// answers. Which one matters, because its clock says how far away that is: the agent of the primary carries it out.
    pub(crate) fn told_switchover(&self, member: &str, now: Time, lasts: Duration) -> Option<Told<'_>> {
        let agent = &self.agents[self.best_beside(member)?];
        let (asked, members) = agent.view.as_ref().filter(|(asked, _)| now.since(*asked) <= lasts)?;
        let leads = members.iter().any(|other| other.is_leader && other.place == member);
        Some(Told { asked: *asked, heard: agent.heard, leads, planned: agent.planned.as_ref() })
    }

    /// Whether automatic failover is off, as the agent has said that answered last.
    pub(crate) fn is_paused(&self) -> bool {
        let store = self.store.as_ref().and_then(Store::last).map(|(asked, answer)| (*asked, answer.is_paused));
        let told = self.agents.iter().filter_map(|agent| agent.answered).chain(store);
        told.max().is_some_and(|(_, is_paused)| is_paused)
    }

    /// Asks all agents at once.
    pub(crate) fn hurry(&mut self, now: Time) {
        self.agents.iter_mut().for_each(|agent| agent.due = agent.due.min(now));
        if let Some(store) = &mut self.store {
            store.hurry(now);
        }
    }

    /// The members as the store tells them, if it has answered lately; else as agents tell them that have. An agent that is known by
    /// two addresses counts once.
    pub(crate) fn views(&self, now: Time, lasts: Duration) -> Vec<&Vec<AgentMember>> {
        if let Some(answer) = self.store.as_ref().and_then(|store| store.view(now, lasts)) {
            return vec![&answer.members];
        }
        let asked = |agent: &Agent| agent.view.as_ref().map(|(asked, _)| *asked);
        let is_shadowed = |place: usize, agent: &Agent| {
            let is_same = |(other_place, other): (usize, &Agent)| {
                other_place != place && other.own == agent.own && (asked(other), place) > (asked(agent), other_place)
            };
            agent.own.is_some() && self.agents.iter().enumerate().any(is_same)
        };
        let agents = self.agents.iter().enumerate().filter(|(place, agent)| !is_shadowed(*place, agent));
        let views = agents.filter_map(|(_, agent)| agent.view.as_ref());
        views.filter(|(asked, _)| now.since(*asked) <= lasts).map(|(_, members)| members).collect()
    }

    /// Whether each of them has answered once, or has failed to, or the store has answered.
    pub(crate) fn are_all_asked(&self) -> bool {
        let (is_asked, has_answered) =
            self.store.as_ref().map_or((true, false), |store| (store.is_asked(), store.last().is_some()));
        has_answered || is_asked && self.agents.iter().all(|agent| agent.answered.is_some() || agent.error.is_some())
    }

    /// How many agents there are.
    pub(crate) fn count(&self) -> usize {
        self.agents.len()
    }

    /// Keeps to the cluster of this member from now on, unless it is settled already which one it is.
    pub(crate) fn keep_to_cluster_of(&mut self, place: &str) {
        if self.scope.is_none() {
            self.scope = self.scope_of(place);
        }
    }

    /// Whether the agent at this host and port is one of them.
    pub(crate) fn has(&self, place: &str) -> bool {
        self.agents.iter().any(|agent| *agent.place == *place)
    }

    /// The name of the cluster for most of those that know a member at this host and port.
    fn scope_of(&self, place: &str) -> Option<Arc<str>> {
        let knows = |agent: &&Agent| {
            agent.view.as_ref().is_some_and(|(_, members)| members.iter().any(|member| member.place == place))
        };
        let scopes: Vec<&Arc<str>> =
            self.agents.iter().filter(knows).filter_map(|agent| agent.scope.as_ref()).collect();
        let count = |scope: &Arc<str>| scopes.iter().filter(|other| **other == scope).count();
        scopes.iter().max_by_key(|scope| count(scope)).map(|scope| Arc::clone(scope))
    }

    /// The host and port of the leader, as most agents say that have answered lately; of as many, those that know the newest
    /// timeline, for an agent that is cut off repeats what it knew. `Some(None)`: there is no leader.
    pub(crate) fn leader(&self, now: Time, lasts: Duration) -> Option<Option<&str>> {
        let told: Vec<(Option<&str>, u32)> = self
            .views(now, lasts)
            .into_iter()
            .map(|members| match members.iter().find(|member| member.is_leader) {
                Some(member) => (Some(&*member.place), member.timeline),
                None => (None, 0),
            })
            .collect();
        let votes = |leader: Option<&str>| told.iter().filter(|(other, _)| *other == leader).count();
        told.iter().max_by_key(|(leader, timeline)| (votes(*leader), *timeline)).map(|(leader, _)| *leader)
    }

    /// Whether an agent that has answered lately knows a member at this host and port.
    pub(crate) fn knows(&self, place: &str, now: Time, lasts: Duration) -> bool {
        self.views(now, lasts).into_iter().flatten().any(|member| member.place == place)
    }

    /// The host and port of the member that an agent stands beside, as itself or the others say.
    pub(crate) fn member_of(&self, agent: usize) -> Option<&str> {
        let Agent { place, own, .. } = self.agents.get(agent)?;
        let is_own = |member: &&AgentMember| match own {
            Some(name) => member.name == *name,
            None => member.agent.as_deref().map(authority) == Some(&**place),
        };
        self.known().find(is_own).map(|member| &*member.place)
    }

    /// The name that agents have for the member at this host and port.
    pub(crate) fn name_of(&self, place: &str) -> Option<&Arc<str>> {
        self.known().find(|member| member.place == place).map(|member| &member.name)
    }

    /// The host and port of the member of this name.
    pub(crate) fn place_of(&self, name: &str) -> Option<&str> {
        self.known().find(|member| *member.name == *name).map(|member| &*member.place)
    }

    /// The members that agents have told at any time.
    fn known(&self) -> impl Iterator<Item = &AgentMember> {
        let store = self.store.as_ref().and_then(Store::last).into_iter().flat_map(|(_, answer)| &answer.members);
        store.chain(self.agents.iter().filter_map(|agent| agent.view.as_ref()).flat_map(|(_, members)| members))
    }

    /// An agent that has answered lately, rather than one that has not; of these the one beside the member at this host and port.
    /// A switchover that is ordered there begins at once; one that is ordered elsewhere, when the primary's Patroni looks again, after up
    /// to `loop_wait`.
    pub(crate) fn best_beside(&self, member: &str) -> Option<usize> {
        (0..self.agents.len()).max_by_key(|place| {
            let agent = &self.agents[*place];
            (agent.error.is_none(), self.member_of(*place) == Some(member), agent.answered.map(|(asked, _)| asked))
        })
    }

    /// How many agents there are, how many of them have answered the last question, and the last error with whose it is.
    pub(crate) fn counts(&self) -> (usize, usize, Option<String>) {
        let is_answering = |agent: &&Agent| agent.error.is_none() && agent.answered.is_some();
        let error = |agent: &Agent| Some(format!("{}: {}", agent.place, agent.error.as_ref()?));
        let of_store = || Some(format!("etcd {}", self.store.as_ref()?.error()?));
        let error = self.agents.iter().find_map(error).or_else(of_store);
        (self.agents.len(), self.agents.iter().filter(is_answering).count(), error)
    }
}

impl Cluster {
    /// The name that the agents have for a member.
    #[must_use]
    pub fn agents_name_of(&self, member: &Member) -> Option<&Arc<str>> {
        self.agents.name_of(member.name())
    }

    /// How many agents there are, how many have answered, and the last error.
    #[must_use]
    pub fn agents(&self) -> (usize, usize, Option<String>) {
        self.agents.counts()
    }
}

/// Host and port of an agent's URL.
pub(crate) fn authority(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, authority)| authority)
}

/// How long a lease lasts from its confirmation on, before `ttl` and `loop_wait` are known: by the smallest `ttl` that Patroni allows, and
/// its default `loop_wait`.
const LOCK_LASTS: Duration = Duration::from_secs(9);
/// No lock lasts longer, whatever is told.
const LOCK_MAX: Duration = Duration::from_secs(3600);
/// Writes stop this long before the lock can have run out: servers have to be closed by then.
const LEASE_MARGIN: Duration = Duration::from_secs(1);
/// Patroni's own rule (`loop_wait + 2 * retry_timeout <= ttl`) leaves more than this; a smaller one would stop writes between two questions.
const LEASE_MIN: Duration = Duration::from_secs(3);

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
        assert_eq!(agents.counts(), (3, 2, Some("a:8008: connection refused".to_owned())));
        assert_eq!(agents.member_of(2), Some("c:5432"));
        assert_eq!(agents.name_of("b:5432").map(|name| &**name), Some("b"));
        assert_eq!(agents.place_of("b"), Some("b:5432"));
        assert_ne!(agents.best_beside("a:5432"), Some(0), "it does not answer");
        assert_eq!(agents.best_beside("b:5432"), Some(1));
    }

    #[test]
    fn an_agent_that_is_known_by_two_addresses_has_one_vote() {
        let now = Time::from_secs(100);
        let mut agents = Agents::new(["a:8008", "b:8008", "10.0.0.2:8008"].map(Arc::from).into(), now);
        for (place, own, leader, timeline) in [(0, "a", "a", 2), (1, "b", "b", 1), (2, "b", "b", 1)] {
            assert_eq!(agents.start(now), Some(place));
            let own = Some(own.into());
            agents.told(place, now, LASTS, Ok(AgentAnswer { own, ..view(leader, timeline) }));
        }
        assert_eq!(agents.leader(now, LASTS), Some(Some("a:5432")));
    }

    #[test]
    fn an_agent_of_another_cluster_is_not_listened_to() {
        let (mut agents, now) = told(&[]);
        agents.keep_to(Some("main".into()));
        for (place, scope) in [(0, "other"), (1, "main")] {
            assert_eq!(agents.start(now), Some(place));
            let answer = AgentAnswer { scope: Some(scope.into()), holds_lock: true, ..view("a", 9 - place as u32) };
            agents.told(place, now, LASTS, Ok(answer));
        }
        assert_eq!(agents.views(now, LASTS).len(), 1);
        assert_eq!(agents.counts(), (3, 1, Some("a:8008: it belongs to another cluster, other".to_owned())));
        assert_eq!(agents.scope_of("a:5432").as_deref(), Some("main"));
    }
}
