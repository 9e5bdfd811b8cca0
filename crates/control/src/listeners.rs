//! Sessions that LISTEN on behalf of all clients of a database; each is a client of our own workers.
//!
//! Always true: every channel that a client waits for is answered, whatever happens; the end of an established session
//! is reported, and the session logs in again as long as a client listens. A session without channels is closed after a
//! while.
//! Not here: which clients listen, and how a notification reaches them (`worker::notify::listen`), the connection
//! (`links`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use protocol::state::MARKS;
use worker::letters::ToWorker;

use crate::links::{self, Links};
use crate::present::Present;

/// An order for a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Listen on a channel.
    Listen {
        /// The channel.
        channel: Box<str>,
        /// The number that the answer must carry.
        number: u64,
        /// The client has no other server that listens: retry until LISTEN succeeds.
        is_relied_on: bool,
    },
    /// Stop listening on a channel.
    Unlisten(Box<str>),
    /// Stop listening on all channels: the connection ends.
    UnlistenAll,
}

/// The sessions by database.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<Arc<str>, Session>);

/// A listening session.
#[derive(Debug)]
struct Session {
    /// The user that it logs in as.
    user: Arc<str>,
    channels: Channels,
    /// Orders that wait until the current command is complete.
    orders: VecDeque<Order>,
    stage: Stage,
    /// The deadline of this stage.
    ends_at: Option<Time>,
}

/// The state of a session. The number is that of its connection.
#[derive(Debug)]
enum Stage {
    LogsIn(u64),
    /// The first command has been sent; the others follow.
    Says(u64, VecDeque<Word>),
    Attends(u64),
    /// The connection has ended; the session logs in again after a pause.
    Pauses,
}

/// A command for the server.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    /// LISTEN on the channel of the marks, by which the session takes clients over from their own servers.
    Marks,
    Listen(Box<str>),
    Unlisten(Box<str>),
}

/// The channels of a session by name.
type Channels = BTreeMap<Box<str>, Channel>;

/// A channel of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Channel {
    /// The number of the order that asked for it.
    number: u64,
    /// LISTEN is repeated after a failure: it has succeeded before, or no other server listens for the client.
    is_relied_on: bool,
}

/// What the sessions need from the control thread.
pub(crate) struct Around<'a, S> {
    pub(crate) links: &'a mut Links,
    pub(crate) present: &'a Present<S>,
}

impl<S> Around<'_, S> {
    fn now(&self) -> Time {
        self.present.now.time
    }

    /// The deadline for the answer to a command sent now.
    fn answered_by(&self) -> Time {
        self.now() + links::question_limit(&self.present.active.settings)
    }
}

impl Sessions {
    /// Listens on a channel; the session of the database logs in as `user` if there is none yet.
    pub(crate) fn listen<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, user: Arc<str>, order: Order) {
        if let Some(session) = self.0.remove(&database) {
            return self.order(around, database, session, order);
        }
        let (channels, orders) = (Channels::new(), VecDeque::new());
        let mut session = Session { user, channels, orders, stage: Stage::Pauses, ends_at: None };
        session.note(order);
        self.comes(around, database, session);
    }

    /// No client listens any more on this channel of a database, or on any channel if `None`.
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

    /// Sends the first of `words`, or carries out the next order, or waits.
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
                // A session without channels should occupy no server and not keep its database in use.
                session.ends_at = session.channels.is_empty().then(|| around.now() + LINGERS);
            }
        }
        self.0.insert(database, session);
    }

    /// Handles the outcome of a session's command, or the end of its connection.
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

    /// Ends the connection of a session, which logs in again after a pause. Channels that were never listened on are
    /// refused with `refusal`, if given.
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
        // Channels are listened on again, but only after a pause: the server may be starting, and each attempt may
        // write a log line.
        session.ends_at = Some(around.now() + PAUSE);
        session.note_all();
        self.0.insert(database, session);
    }

    /// Handles the sessions whose stage has reached its deadline.
    pub(crate) fn expire<S>(&mut self, around: &mut Around<'_, S>) {
        let now = around.now();
        let is_late = |session: &Session| session.ends_at.is_some_and(|end| end <= now);
        let late = self.0.iter().filter(|(_, session)| is_late(session));
        let late: Vec<Arc<str>> = late.map(|(database, _)| Arc::clone(database)).collect();
        for database in late {
            let Some(session) = self.0.remove(&database) else { continue };
            match session.stage {
                // A session without channels need not log in again.
                Stage::Pauses if session.channels.is_empty() => {}
                Stage::Pauses => self.comes(around, database, session),
                // The session has had no channels for `LINGERS`.
                Stage::Attends(link) => around.links.close(link),
                Stage::LogsIn(_) | Stage::Says(..) => {
                    self.0.insert(Arc::clone(&database), session);
                    self.told(around, &database, Err("no answer in time".to_owned()));
                }
            }
        }
    }

    /// Returns the earliest deadline of a stage.
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

    /// Removes the channels that were never listened on, including those in pending orders, and returns their names and
    /// numbers; there may be thousands, which are refused in one letter. Their clients keep their own servers.
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

/// Returns the name as a quoted identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

const NO_MARKS: &str = "it cannot listen to the marks at which it takes over";
/// How long a session without channels stays, because clients that listen briefly often do so again.
const LINGERS: Duration = Duration::from_secs(5);
/// Pause before the next login.
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
