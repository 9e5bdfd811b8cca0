//! Sessions that listen for all clients of a database (LISTEN): clients of our own workers, as any.
//!
//! Always true: every channel that a client waits for is answered, whatever comes; a session that was there and has ended is told of,
//! and comes again as long as somebody listens. One that has nothing to listen to is forgotten after a while.
//! Not here: who listens, and what a notification means to whom (`worker::notify::listen`), the connection (`links`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use protocol::state::MARKS;
use worker::letters::ToWorker;

use crate::links::{self, Links};
use crate::present::Present;

/// What a session is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// To listen to a channel.
    Listen {
        /// Which.
        channel: Box<str>,
        /// The answer has this number.
        number: u64,
        /// Nobody else can listen to it: it is tried again until that succeeds.
        is_relied_on: bool,
    },
    /// To leave it.
    Unlisten(Box<str>),
    /// To leave all channels: it ends.
    UnlistenAll,
}

/// The sessions, by their databases.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<Arc<str>, Session>);

/// One of them.
#[derive(Debug)]
struct Session {
    /// As whom it logs in.
    user: Arc<str>,
    channels: Channels,
    /// What it has not heard yet, since it is about something else.
    orders: VecDeque<Order>,
    stage: Stage,
    /// When this stage ends by itself.
    ends_at: Option<Time>,
}

/// How far it is. A number is that of its connection.
#[derive(Debug)]
enum Stage {
    LogsIn(u64),
    /// It has said the first of these, and is going to say the others.
    Says(u64, VecDeque<Word>),
    Attends(u64),
    /// It has ended, and comes again.
    Pauses,
}

/// What it says to its server.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    /// That it listens to the marks, at which clients are taken over.
    Marks,
    Listen(Box<str>),
    Unlisten(Box<str>),
}

/// The channels of a session.
type Channels = BTreeMap<Box<str>, Channel>;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Channel {
    /// The number of its order.
    number: u64,
    /// It is listened to again after a failure: it has been listened to before, or nobody else can.
    is_relied_on: bool,
}

/// What a session stands on.
pub(crate) struct Around<'a, S> {
    pub(crate) links: &'a mut Links,
    pub(crate) present: &'a Present<S>,
}

impl<S> Around<'_, S> {
    fn now(&self) -> Time {
        self.present.now.time
    }

    /// When what is said now must have been answered.
    fn answered_by(&self) -> Time {
        self.now() + links::question_limit(&self.present.active.settings)
    }
}

impl Sessions {
    /// A channel is to be listened to; the session logs in as this user, if it is not there yet.
    pub(crate) fn listen<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, user: Arc<str>, order: Order) {
        if let Some(session) = self.0.remove(&database) {
            return self.order(around, database, session, order);
        }
        let (channels, orders) = (Channels::new(), VecDeque::new());
        let mut session = Session { user, channels, orders, stage: Stage::Pauses, ends_at: None };
        session.note(order);
        self.comes(around, database, session);
    }

    /// Nobody listens any more to a channel of a database, or to any.
    pub(crate) fn unlisten<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, channel: Option<Box<str>>) {
        if let Some(session) = self.0.remove(&database) {
            self.order(around, database, session, channel.map_or(Order::UnlistenAll, Order::Unlisten));
        }
    }

    fn order<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, mut session: Session, order: Order) {
        match session.stage {
            Stage::Pauses => {
                session.note(order);
                self.0.insert(database, session);
            }
            Stage::LogsIn(_) | Stage::Says(..) => {
                session.orders.push_back(order);
                self.0.insert(database, session);
            }
            Stage::Attends(link) => {
                session.orders.push_back(order);
                self.goes_on(around, database, session, link, VecDeque::new());
            }
        }
    }

    fn comes<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, mut session: Session) {
        session.stage = Stage::LogsIn(around.links.listen(&database, &session.user));
        session.ends_at = Some(around.answered_by());
        self.0.insert(database, session);
    }

    /// It says the first of these, or does what it is ordered next, or waits.
    fn goes_on<S>(
        &mut self,
        around: &mut Around<'_, S>,
        database: Arc<str>,
        mut session: Session,
        link: u64,
        mut words: VecDeque<Word>,
    ) {
        session.stage = Stage::Attends(link);
        while words.is_empty()
            && let Some(order) = session.orders.pop_front()
        {
            session.note(order.clone());
            match order {
                Order::Listen { channel, .. } => words.push_back(Word::Listen(channel)),
                Order::Unlisten(name) => words.push_back(Word::Unlisten(name)),
                Order::UnlistenAll => return self.ends(around, database, session, None),
            }
        }
        match words.front() {
            Some(word) => {
                around.links.run(link, &word.sql());
                session.ends_at = Some(around.answered_by());
                session.stage = Stage::Says(link, words);
            }
            None => {
                // Who has nothing to listen to needs no server, and keeps no database in use.
                session.ends_at = session.channels.is_empty().then(|| around.now() + LINGERS);
            }
        }
        self.0.insert(database, session);
    }

    /// What a session has said is answered, or its connection has ended.
    pub(crate) fn told<S>(&mut self, around: &mut Around<'_, S>, database: &Arc<str>, outcome: Result<(), String>) {
        let Some((database, mut session)) = self.0.remove_entry(database) else { return };
        match (std::mem::replace(&mut session.stage, Stage::Pauses), outcome) {
            (Stage::LogsIn(link), Ok(())) => {
                let names = session.channels.keys().cloned().map(Word::Listen);
                let words = std::iter::once(Word::Marks).chain(names).collect();
                self.goes_on(around, database, session, link, words);
            }
            (Stage::LogsIn(link), Err(error)) => {
                session.stage = Stage::LogsIn(link);
                self.ends(around, database, session, Some(&error));
            }
            (Stage::Says(link, mut words), Ok(())) => {
                if let Some(Word::Listen(name)) = words.pop_front()
                    && let Some(channel) = session.channels.get_mut(&name)
                {
                    channel.is_relied_on = true;
                    let number = channel.number;
                    around.present.post_home(
                        &database,
                        ToWorker::Heard { database: Arc::clone(&database), channel: name, number },
                    );
                }
                self.goes_on(around, database, session, link, words);
            }
            (Stage::Says(link, words), Err(error)) => {
                let refusal = match words.front() {
                    Some(Word::Marks) => Some(NO_MARKS),
                    Some(Word::Listen(_)) => Some(&*error),
                    Some(Word::Unlisten(_)) | None => None,
                };
                session.stage = Stage::Attends(link);
                self.ends(around, database, session, refusal);
            }
            (Stage::Attends(link), outcome) => {
                session.stage = Stage::Attends(link);
                match outcome {
                    Ok(()) => drop(self.0.insert(database, session)),
                    Err(_) => self.ends(around, database, session, None),
                }
            }
            (Stage::Pauses, _) => drop(self.0.insert(database, session)),
        }
    }

    /// It has ended, and comes again after a pause. Those that nobody has listened to yet are refused for this reason, if there is one.
    fn ends<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, mut session: Session, refusal: Option<&str>) {
        if let Some(error) = refusal {
            let channels = session.refuse_new();
            if !channels.is_empty() {
                let letter = ToWorker::Unheard { database: Arc::clone(&database), channels, error: error.to_owned() };
                around.present.post_home(&database, letter);
            }
        }
        if let Some(link) = session.link() {
            around.links.close(link);
        }
        if !matches!(session.stage, Stage::LogsIn(_)) {
            around.present.post_home(&database, ToWorker::ListenerLost { database: Arc::clone(&database) });
        }
        session.stage = Stage::Pauses;
        // What was listened to once is listened to again, but in no haste: the server may be starting. Nor is anything else: each attempt may
        // be a line in the log.
        session.ends_at = Some(around.now() + PAUSE);
        session.note_all();
        self.0.insert(database, session);
    }

    /// Does what stages do that have lasted for long enough.
    pub(crate) fn expire<S>(&mut self, around: &mut Around<'_, S>) {
        let now = around.now();
        let is_late = |session: &Session| session.ends_at.is_some_and(|end| end <= now);
        let late = self.0.iter().filter(|(_, session)| is_late(session));
        let late: Vec<Arc<str>> = late.map(|(database, _)| Arc::clone(database)).collect();
        for database in late {
            let Some(session) = self.0.remove(&database) else { continue };
            match session.stage {
                // Who has nothing to listen to need not come again.
                Stage::Pauses if session.channels.is_empty() => {}
                Stage::Pauses => self.comes(around, database, session),
                // Nobody has wanted anything of it for some time.
                Stage::Attends(link) => around.links.close(link),
                Stage::LogsIn(_) | Stage::Says(..) => {
                    self.0.insert(Arc::clone(&database), session);
                    self.told(around, &database, Err("no answer in time".to_owned()));
                }
            }
        }
    }

    /// When a stage ends by itself.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.values().filter_map(|session| session.ends_at).min()
    }
}

impl Session {
    fn note(&mut self, order: Order) {
        match order {
            Order::Listen { channel, number, is_relied_on } => {
                self.channels.insert(channel, Channel { number, is_relied_on });
            }
            Order::Unlisten(name) => {
                self.channels.remove(&name);
            }
            Order::UnlistenAll => self.channels.clear(),
        }
    }

    /// Those that nobody has listened to yet have their own servers, and keep them. There may be thousands, also among the orders that have
    /// not been looked at, and all are told of at once: their names and numbers.
    fn refuse_new(&mut self) -> Vec<(Box<str>, u64)> {
        self.note_all();
        let all = std::mem::take(&mut self.channels).into_iter();
        let (kept, refused): (Channels, Channels) = all.partition(|(_, channel)| channel.is_relied_on);
        self.channels = kept;
        refused.into_iter().map(|(name, channel)| (name, channel.number)).collect()
    }

    fn note_all(&mut self) {
        for order in std::mem::take(&mut self.orders) {
            self.note(order);
        }
    }

    fn link(&self) -> Option<u64> {
        match self.stage {
            Stage::LogsIn(link) | Stage::Says(link, _) | Stage::Attends(link) => Some(link),
            Stage::Pauses => None,
        }
    }
}

impl Word {
    fn sql(&self) -> String {
        match self {
            Self::Marks => format!("LISTEN {}", quoted(MARKS)),
            Self::Listen(name) => format!("LISTEN {}", quoted(name)),
            Self::Unlisten(name) => format!("UNLISTEN {}", quoted(name)),
        }
    }
}

/// An identifier in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

const NO_MARKS: &str = "it cannot listen to the marks at which it takes over";
/// So long a session stays that nobody needs: who listens for a moment often does so again.
const LINGERS: Duration = Duration::from_secs(5);
/// Between two logins.
const PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_whatever_they_are() {
        assert_eq!(quoted("news"), "\"news\"");
        assert_eq!(quoted("a\"; drop table t; --"), "\"a\"\"; drop table t; --\"");
    }

    #[test]
    fn only_channels_that_nobody_relies_on_are_refused_and_all_at_once() {
        let (channels, orders) = (Channels::new(), VecDeque::new());
        let mut session = Session { user: "u".into(), channels, orders, stage: Stage::Pauses, ends_at: None };
        let order = |name: &str, number, is_relied_on| Order::Listen { channel: name.into(), number, is_relied_on };
        session.note(order("new", 2, false));
        session.orders.push_back(order("newer", 5, false));
        session.note(order("left to it", 3, true));
        session.channels.insert("old".into(), Channel { number: 1, is_relied_on: true });
        assert_eq!(session.refuse_new(), [("new".into(), 2), ("newer".into(), 5)]);
        assert_eq!(session.channels.keys().map(|name| &**name).collect::<Vec<_>>(), ["left to it", "old"]);
        session.note(Order::Unlisten("old".into()));
        session.note(Order::Unlisten("left to it".into()));
        assert!(session.channels.is_empty());
        session.note(order("new", 4, false));
        session.note(Order::UnlistenAll);
        assert!(session.channels.is_empty());
    }
}
