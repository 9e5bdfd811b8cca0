//! The store in which the agents of a cluster keep its members and its leader lock (etcd), if it is asked itself.
//!
//! Always true: what it tells is advice, as what an agent tells; an answer counts for some seconds. A store that tells an older state
//! than before is not believed for [`REWOUND_MAX`] at least, in which the agents decide. One question is under way at a time, and a store that fails is
//! asked less and less often, at the next of its addresses.
//! Not here: asking it and reading its answers (`control::clusters`).

use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::agents::AgentMember;
use crate::cluster::Cluster;
use crate::event::{Command, News};

/// What the store of the agents answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreAnswer {
    /// How new it is.
    pub version: StoreVersion,
    /// The members of the cluster, with its leader.
    pub members: Vec<AgentMember>,
    /// Whether automatic failover is off (maintenance mode).
    pub is_paused: bool,
    /// How long the leader lock lasts after its last renewal (`ttl`), and the time between two renewals (`loop_wait`), each at most an hour;
    /// `None` if that was not told.
    pub lock: Option<(Duration, Duration)>,
    /// How long the lock of the leader lasts at least, from when that was asked.
    pub lock_left: Option<Duration>,
}

/// How new the state of a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreVersion {
    /// The identity of the store.
    pub store: u64,
    /// How often its own leader has been elected.
    pub term: u64,
    /// How often it was changed.
    pub revision: u64,
}

impl StoreVersion {
    fn is_older_than(self, other: Self) -> bool {
        self.store != other.store || self.term < other.term || self.revision < other.revision
    }
}

/// What is to be asked of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoreQuestion {
    /// What it knows, at this one of its addresses.
    State(usize),
    /// To tell at this address when something changes after this revision.
    Change(usize, u64),
}

/// The store of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// Its addresses, for its errors.
    addresses: Vec<Arc<str>>,
    /// The address that is asked.
    address: usize,
    /// The last answer that is believed, and when it was asked for.
    view: Option<(Time, StoreAnswer)>,
    /// The member whose lock was confirmed last, until when that lasts, and when that was asked.
    lock: Option<(String, Time, Time)>,
    newest: Option<StoreVersion>,
    /// Since when it tells an older state than before.
    rewound_since: Option<Time>,
    error: Option<Arc<str>>,
    /// How many questions in a row have failed.
    failures: u32,
    due: Time,
    under_way: Option<Time>,
    is_watched: bool,
    /// When it may be watched again.
    watch_due: Time,
    /// The revision from which on it has to be watched, if the last change is known.
    watch_from: Option<u64>,
}

impl Store {
    pub(crate) fn new(addresses: Vec<Arc<str>>, now: Time) -> Self {
        Self {
            addresses,
            address: 0,
            view: None,
            lock: None,
            newest: None,
            rewound_since: None,
            error: None,
            failures: 0,
            due: now,
            under_way: None,
            is_watched: false,
            watch_due: now,
            watch_from: None,
        }
    }

    /// Takes over what another machine has known of the same store; it is asked at once.
    pub(crate) fn succeed(&mut self, former: &Self) {
        if self.addresses.iter().any(|address| former.addresses.contains(address)) {
            (self.view, self.lock) = (former.view.clone(), former.lock.clone());
            (self.newest, self.rewound_since, self.error) = (former.newest, former.rewound_since, former.error.clone());
        }
    }

    /// The next question.
    pub(crate) fn start(&mut self, now: Time) -> Option<StoreQuestion> {
        if let Some(revision) = self.watch_from.filter(|_| !self.is_watched && self.watch_due <= now) {
            (self.is_watched, self.watch_from) = (true, None);
            return Some(StoreQuestion::Change(self.address, revision));
        }
        if self.under_way.is_some() || self.due > now {
            return None;
        }
        self.under_way = Some(now);
        Some(StoreQuestion::State(self.address))
    }

    /// When something is to be asked next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let question = self.under_way.is_none().then_some(self.due);
        let watch = (!self.is_watched && self.watch_from.is_some()).then_some(self.watch_due);
        question.into_iter().chain(watch).min()
    }

    /// It is asked as soon as possible, but not all the time.
    pub(crate) fn hurry(&mut self, now: Time) {
        if self.failures == 0 {
            self.due = self.due.min(now);
        }
    }

    /// It has answered, or not. `next` is the time between two questions. Returns what an operator should know.
    pub(crate) fn told(
        &mut self,
        now: Time,
        next: Duration,
        answer: Result<StoreAnswer, Arc<str>>,
    ) -> Option<(bool, String)> {
        let asked = self.under_way.take()?;
        let had_failed = self.failures as usize >= self.addresses.len();
        let was_rewound = self.rewound_since.is_some();
        let answer = answer.and_then(|answer| self.believe(now, asked, answer));
        match answer {
            Ok(renewed) => {
                (self.failures, self.error) = (0, None);
                self.due = (asked + next).max(now);
                match renewed {
                    true => {
                        Some((true, "etcd has an older state than before, which is believed from now on".to_owned()))
                    }
                    false => had_failed.then(|| (false, "etcd answers again".to_owned())),
                }
            }
            Err(why) => {
                self.failures += 1;
                let error = format!("{}: {why}", self.addresses.get(self.address).map_or("", |address| address));
                self.address = (self.address + 1) % self.addresses.len().max(1);
                let rounds = self.failures as usize / self.addresses.len().max(1);
                self.due = now + (FAILED_PAUSE * (1 << rounds.min(8) as u32)).min(FAILED_PAUSE_MAX);
                let is_lost = !had_failed && self.failures as usize >= self.addresses.len();
                self.error = Some(error.clone().into());
                match self.rewound_since.is_some() && !was_rewound {
                    true => Some((true, format!("etcd is not believed: {error}"))),
                    false => is_lost.then(|| (true, format!("etcd does not answer: {error}"))),
                }
            }
        }
    }

    /// Takes an answer, unless it is older than what was told before. Returns whether it is all the same, since it has stayed like that.
    fn believe(&mut self, now: Time, asked: Time, answer: StoreAnswer) -> Result<bool, Arc<str>> {
        let older = self.newest.filter(|newest| answer.version.is_older_than(*newest));
        if let Some(newest) = older {
            let since = *self.rewound_since.get_or_insert(asked);
            // Whoever leads by this state has renewed the lock there by then.
            let patience = answer.lock.map_or(REWOUND_MAX, |(ttl, _)| ttl.max(REWOUND_MAX));
            if now.since(since) < patience {
                let (is, was) = (answer.version, newest);
                let state = |version: StoreVersion| format!("revision {}, term {}", version.revision, version.term);
                let what = if is.store == was.store { "an older state" } else { "the state of another store" };
                return Err(format!("it tells {what} than before ({} after {})", state(is), state(was)).into());
            }
        }
        (self.newest, self.rewound_since) = (Some(answer.version), None);
        let leader = answer.members.iter().find(|member| member.is_leader);
        // Of a leader that has given the lock back another one may be promoted at once.
        self.lock.take_if(|(place, ..)| leader.is_none_or(|leader| leader.place != *place));
        if let Some((leader, left)) = leader.zip(answer.lock_left) {
            self.lock = Some((leader.place.clone(), asked + left, asked));
        }
        self.watch_from = Some(answer.version.revision);
        self.view = Some((asked, answer));
        Ok(older.is_some())
    }

    /// Something has changed, or it cannot tell.
    pub(crate) fn changes(&mut self, now: Time, change: Result<(), Arc<str>>) {
        self.is_watched = false;
        match change {
            Ok(()) => self.hurry(now),
            // Whatever it is, a revision that is too old or a login that has ended: the next question shows it.
            Err(_) if self.failures == 0 => {
                self.watch_due = now + WATCH_PAUSE;
                self.due = self.due.min(self.watch_due);
            }
            Err(_) => self.watch_due = now + WATCH_PAUSE,
        }
        // However fast it changes.
        self.watch_due = self.watch_due.max(now + CHANGE_PAUSE);
    }

    /// The last answer, if it is believed and not too old.
    pub(crate) fn view(&self, now: Time, lasts: Duration) -> Option<&StoreAnswer> {
        self.view.as_ref().filter(|(asked, _)| now.since(*asked) <= lasts).map(|(_, answer)| answer)
    }

    /// The last answer, and when it was asked for.
    pub(crate) fn last(&self) -> Option<&(Time, StoreAnswer)> {
        self.view.as_ref()
    }

    /// Until when the lock of the member at this host and port lasts, as was asked after this time.
    pub(crate) fn lock_of(&self, member: &str, since: Time) -> Option<Time> {
        let (leader, until, asked) = self.lock.as_ref()?;
        (leader == member && *asked >= since).then_some(*until)
    }

    /// Whether it has answered once, or has failed to at all of its addresses.
    pub(crate) fn is_asked(&self) -> bool {
        self.view.is_some() || self.failures as usize >= self.addresses.len()
    }

    /// Why it has not answered last.
    pub(crate) fn error(&self) -> Option<&Arc<str>> {
        self.error.as_ref()
    }
}

impl Cluster {
    /// The store of its agents is asked, too, at these addresses (host and port of each).
    #[must_use]
    pub fn with_store(mut self, now: Time, addresses: Vec<Arc<str>>) -> Self {
        self.agents.ask_store_at(addresses, now);
        self
    }

    /// The store has answered, or not.
    pub(crate) fn store_tells(&mut self, now: Time, answer: Result<StoreAnswer, Arc<str>>, out: &mut Vec<Command>) {
        let next = self.agent_interval(now);
        let told = self.agents.store_told(now, next, answer);
        out.extend(told.map(|(is_warning, text)| Command::Tell(News { is_warning, text })));
    }

    /// Asks the store what is due.
    pub(crate) fn ask_store(&mut self, now: Time, out: &mut Vec<Command>) {
        while let Some(question) = self.agents.start_store(now) {
            out.push(match question {
                StoreQuestion::State(address) => Command::AskStore(address),
                StoreQuestion::Change(address, revision) => Command::WatchStore { address, revision },
            });
        }
    }
}

/// How long an older state than before is not believed: longer than the usual `ttl`.
const REWOUND_MAX: Duration = Duration::from_secs(60);
/// The pause after a failed question, which grows while all addresses fail,
const FAILED_PAUSE: Duration = Duration::from_millis(100);
/// to this.
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(5);
/// The pause after it could not be watched.
const WATCH_PAUSE: Duration = Duration::from_secs(5);
/// The pause between two changes that are followed at once.
const CHANGE_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Duration = Duration::from_secs(1);

    fn answer(revision: u64, leader: &str) -> StoreAnswer {
        let member = |name: &str| AgentMember {
            name: name.into(),
            place: format!("{name}:5432"),
            is_leader: name == leader,
            ..AgentMember::default()
        };
        StoreAnswer {
            version: StoreVersion { store: 1, term: 2, revision },
            members: ["a", "b"].map(member).into(),
            lock_left: Some(Duration::from_secs(25)),
            ..StoreAnswer::default()
        }
    }

    fn store() -> (Store, Time) {
        let now = Time::from_secs(100);
        (Store::new(["e1:2379", "e2:2379"].map(Arc::from).into(), now), now)
    }

    fn leader(store: &Store, now: Time) -> Option<&str> {
        let view = store.view(now, Duration::from_secs(3))?;
        view.members.iter().find(|member| member.is_leader).map(|member| &*member.place)
    }

    #[test]
    fn a_store_that_fails_is_asked_elsewhere_and_less_often() {
        let (mut store, mut now) = store();
        let (mut asked, mut said) = (Vec::new(), Vec::new());
        let start = now;
        while now < start + Duration::from_secs(60) {
            if let Some(question) = store.start(now) {
                asked.push(question);
                said.extend(store.told(now, NEXT, Err("connection refused".into())));
            }
            now = store.next_deadline().expect("a question").max(now);
        }
        assert_eq!(asked[..3], [StoreQuestion::State(0), StoreQuestion::State(1), StoreQuestion::State(0)]);
        assert!((15..30).contains(&asked.len()), "{}", asked.len());
        assert_eq!(said, [(true, "etcd does not answer: e2:2379: connection refused".to_owned())]);
        assert!(store.start(now).is_some());
        assert_eq!(store.told(now, NEXT, Ok(answer(5, "a"))), Some((false, "etcd answers again".to_owned())));
        assert_eq!((leader(&store, now), store.error()), (Some("a:5432"), None));
        assert_eq!(leader(&store, now + Duration::from_secs(4)), None, "it is too old");
    }

    #[test]
    fn an_older_state_is_not_believed_for_a_minute() {
        let (mut store, now) = store();
        assert!(store.start(now).is_some());
        assert_eq!(store.told(now, NEXT, Ok(answer(50, "b"))), None);
        for (version, why) in [
            (
                StoreVersion { store: 1, term: 2, revision: 49 },
                "it tells an older state than before (revision 49, term 2 after revision 50, term 2)",
            ),
            (
                StoreVersion { store: 1, term: 1, revision: 51 },
                "it tells an older state than before (revision 51, term 1 after revision 50, term 2)",
            ),
            (
                StoreVersion { store: 9, term: 9, revision: 99 },
                "it tells the state of another store than before (revision 99, term 9 after revision 50, term 2)",
            ),
        ] {
            let mut store = store.clone();
            let mut at = now;
            while at < now + Duration::from_secs(60) {
                at = store.next_deadline().expect("a question").max(at);
                store.is_watched = true;
                if store.start(at).is_some() && at < now + Duration::from_secs(60) {
                    store.told(at, NEXT, Ok(StoreAnswer { version, ..answer(0, "a") }));
                    assert_ne!(leader(&store, at), Some("a:5432"));
                    assert!(store.error().is_some_and(|error| error.ends_with(why)), "{:?}", store.error());
                }
            }
            let at = at + Duration::from_secs(10);
            assert!(store.under_way.is_some() || store.start(at).is_some());
            let said = store.told(at, NEXT, Ok(StoreAnswer { version, ..answer(0, "a") }));
            assert_eq!(
                said,
                Some((true, "etcd has an older state than before, which is believed from now on".to_owned()))
            );
            // Its last question was asked before.
            assert_eq!(
                store
                    .last()
                    .and_then(|(_, answer)| answer.members.iter().find(|member| member.is_leader))
                    .map(|member| &*member.name),
                Some("a")
            );
        }
    }

    #[test]
    fn it_is_watched_after_each_answer_and_asked_after_each_change() {
        let (mut store, now) = store();
        assert_eq!(store.start(now), Some(StoreQuestion::State(0)));
        assert_eq!(store.start(now), None);
        store.told(now, NEXT, Ok(answer(7, "a")));
        assert_eq!(store.start(now), Some(StoreQuestion::Change(0, 7)));
        assert_eq!((store.start(now), store.next_deadline()), (None, Some(now + NEXT)));
        let at = now + Duration::from_millis(300);
        store.changes(at, Ok(()));
        assert_eq!(store.start(at), Some(StoreQuestion::State(0)));
        store.told(at, NEXT, Ok(answer(8, "b")));
        assert_eq!(store.start(at), None, "not all the time");
        let at = at + CHANGE_PAUSE;
        assert_eq!(store.start(at), Some(StoreQuestion::Change(0, 8)));
        store.changes(at, Err("it was cut off".into()));
        assert_eq!(store.next_deadline(), Some(now + NEXT + Duration::from_millis(300)), "it is asked as before");
        store.due = at + Duration::from_secs(60);
        (store.is_watched, store.watch_from) = (true, None);
        store.changes(at, Err("it was cut off".into()));
        assert_eq!(store.next_deadline(), Some(at + WATCH_PAUSE), "nobody tells of changes meanwhile");
    }

    #[test]
    fn a_lock_lasts_as_long_as_the_store_has_said() {
        let (mut store, now) = store();
        assert!(store.start(now).is_some());
        store.told(now + Duration::from_secs(2), NEXT, Ok(answer(7, "a")));
        assert_eq!(store.lock_of("a:5432", now), Some(now + Duration::from_secs(25)), "from the question on");
        assert_eq!(store.lock_of("b:5432", now), None);
        assert_eq!(store.lock_of("a:5432", now + Duration::from_secs(1)), None, "it is the primary since later");
        let at = now + Duration::from_secs(3);
        assert!(store.start(at).is_some() && store.start(at).is_some());
        store.told(at, NEXT, Ok(answer(8, "")));
        assert_eq!(store.lock_of("a:5432", now), None, "it was given back");
    }
}
