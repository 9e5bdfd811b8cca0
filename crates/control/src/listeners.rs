//! Listeners that LISTEN on behalf of all clients of a database; each is a client of our own workers.
//!
//! Always true: every channel that a client waits for is answered, whatever happens; the end of an established session
//! is reported, and the session logs in again as long as a client listens. A session without channels is closed after a
//! while.
//! Not here: which clients listen, and how a notification reaches them (`worker::notify::listen`), the connection
//! (`own_clients`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use protocol::state::MARKS;
use worker::letters::ToWorker;

use crate::hands::Hands;
use crate::own_clients::{self, OwnClients};

/// An order for a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ListenOrder {
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

/// The listeners by database.
#[derive(Debug, Default)]
pub(crate) struct Listeners(BTreeMap<Arc<str>, Listener>);

/// The one session of a database that executes LISTEN.
#[derive(Debug)]
struct Listener {
    /// The user that it logs in as.
    user: Arc<str>,
    channels: Channels,
    /// Orders that wait until the current command is complete.
    orders: VecDeque<ListenOrder>,
    stage: ListenerStage,
    /// The deadline of this stage.
    ends_at: Option<Time>,
}

/// The state of a session. The number is that of its connection.
#[derive(Debug)]
enum ListenerStage {
    LogsIn(u64),
    /// The first command has been sent; the others follow.
    Says(u64, VecDeque<ListenCommand>),
    Attends(u64),
    /// The connection has ended; the session logs in again after a pause.
    Pauses,
}

/// A command for the server.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ListenCommand {
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
    pub(crate) own_clients: &'a mut OwnClients,
    pub(crate) hands: &'a Hands<S>,
}

impl<S> Around<'_, S> {
    fn now(&self) -> Time {
        self.hands.now.time
    }

    /// The deadline for the answer to a command sent now.
    fn answered_by(&self) -> Time {
        self.now() + own_clients::question_limit(&self.hands.active.settings)
    }
}

impl Listeners {
    /// Listens on a channel; the session of the database logs in as `user` if there is none yet.
    pub(crate) fn listen<S>(
        &mut self,
        around: &mut Around<'_, S>,
        database: Arc<str>,
        user: Arc<str>,
        order: ListenOrder,
    ) {
        if let Some(listener) = self.0.remove(&database) {
            return self.order(around, database, listener, order);
        }
        let (channels, orders) = (Channels::new(), VecDeque::new());
        let mut listener = Listener { user, channels, orders, stage: ListenerStage::Pauses, ends_at: None };
        listener.note(order);
        self.comes(around, database, listener);
    }

    /// No client listens any more on this channel of a database, or on any channel if `None`.
    pub(crate) fn unlisten<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, channel: Option<Box<str>>) {
        if let Some(listener) = self.0.remove(&database) {
            self.order(around, database, listener, channel.map_or(ListenOrder::UnlistenAll, ListenOrder::Unlisten));
        }
    }

    fn order<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, mut listener: Listener, order: ListenOrder) {
        match listener.stage {
            ListenerStage::Pauses => {
                listener.note(order);
                self.0.insert(database, listener);
            }
            ListenerStage::LogsIn(_) | ListenerStage::Says(..) => {
                listener.orders.push_back(order);
                self.0.insert(database, listener);
            }
            ListenerStage::Attends(own_client) => {
                listener.orders.push_back(order);
                self.next_command(around, database, listener, own_client, VecDeque::new());
            }
        }
    }

    fn comes<S>(&mut self, around: &mut Around<'_, S>, database: Arc<str>, mut listener: Listener) {
        listener.stage = ListenerStage::LogsIn(around.own_clients.listen(&database, &listener.user));
        listener.ends_at = Some(around.answered_by());
        self.0.insert(database, listener);
    }

    /// Sends the first of `commands`, or carries out the next order, or waits.
    fn next_command<S>(
        &mut self,
        around: &mut Around<'_, S>,
        database: Arc<str>,
        mut listener: Listener,
        own_client: u64,
        mut commands: VecDeque<ListenCommand>,
    ) {
        listener.stage = ListenerStage::Attends(own_client);
        while commands.is_empty()
            && let Some(order) = listener.orders.pop_front()
        {
            listener.note(order.clone());
            match order {
                ListenOrder::Listen { channel, .. } => commands.push_back(ListenCommand::Listen(channel)),
                ListenOrder::Unlisten(name) => commands.push_back(ListenCommand::Unlisten(name)),
                ListenOrder::UnlistenAll => return self.ends(around, database, listener, None),
            }
        }
        match commands.front() {
            Some(command) => {
                around.own_clients.run(own_client, &command.sql());
                listener.ends_at = Some(around.answered_by());
                listener.stage = ListenerStage::Says(own_client, commands);
            }
            None => {
                // A session without channels should occupy no server and not keep its database in use.
                listener.ends_at = listener.channels.is_empty().then(|| around.now() + LINGERS);
            }
        }
        self.0.insert(database, listener);
    }

    /// Handles the outcome of a session's command, or the end of its connection.
    pub(crate) fn told<S>(&mut self, around: &mut Around<'_, S>, database: &Arc<str>, outcome: Result<(), String>) {
        let Some((database, mut listener)) = self.0.remove_entry(database) else { return };
        match (std::mem::replace(&mut listener.stage, ListenerStage::Pauses), outcome) {
            (ListenerStage::LogsIn(own_client), Ok(())) => {
                let names = listener.channels.keys().cloned().map(ListenCommand::Listen);
                let commands = std::iter::once(ListenCommand::Marks).chain(names).collect();
                self.next_command(around, database, listener, own_client, commands);
            }
            (ListenerStage::LogsIn(own_client), Err(error)) => {
                listener.stage = ListenerStage::LogsIn(own_client);
                self.ends(around, database, listener, Some(&error));
            }
            (ListenerStage::Says(own_client, mut commands), Ok(())) => {
                if let Some(ListenCommand::Listen(name)) = commands.pop_front()
                    && let Some(channel) = listener.channels.get_mut(&name)
                {
                    channel.is_relied_on = true;
                    let number = channel.number;
                    around.hands.post_home(
                        &database,
                        ToWorker::Heard { database: Arc::clone(&database), channel: name, number },
                    );
                }
                self.next_command(around, database, listener, own_client, commands);
            }
            (ListenerStage::Says(own_client, commands), Err(error)) => {
                let refusal = match commands.front() {
                    Some(ListenCommand::Marks) => Some(NO_MARKS),
                    Some(ListenCommand::Listen(_)) => Some(&*error),
                    Some(ListenCommand::Unlisten(_)) | None => None,
                };
                listener.stage = ListenerStage::Attends(own_client);
                self.ends(around, database, listener, refusal);
            }
            (ListenerStage::Attends(own_client), outcome) => {
                listener.stage = ListenerStage::Attends(own_client);
                match outcome {
                    Ok(()) => drop(self.0.insert(database, listener)),
                    Err(_) => self.ends(around, database, listener, None),
                }
            }
            (ListenerStage::Pauses, _) => drop(self.0.insert(database, listener)),
        }
    }

    /// Ends the connection of a session, which logs in again after a pause. Channels that were never listened on are
    /// refused with `refusal`, if given.
    fn ends<S>(
        &mut self,
        around: &mut Around<'_, S>,
        database: Arc<str>,
        mut listener: Listener,
        refusal: Option<&str>,
    ) {
        if let Some(error) = refusal {
            let channels = listener.refuse_new();
            if !channels.is_empty() {
                let letter = ToWorker::Unheard { database: Arc::clone(&database), channels, error: error.to_owned() };
                around.hands.post_home(&database, letter);
            }
        }
        if let Some(own_client) = listener.own_client() {
            around.own_clients.close(own_client);
        }
        if !matches!(listener.stage, ListenerStage::LogsIn(_)) {
            around.hands.post_home(&database, ToWorker::ListenerLost { database: Arc::clone(&database) });
        }
        listener.stage = ListenerStage::Pauses;
        // Channels are listened on again, but only after a pause: the server may be starting, and each attempt may
        // write a log line.
        listener.ends_at = Some(around.now() + PAUSE);
        listener.note_all();
        self.0.insert(database, listener);
    }

    /// Handles the sessions whose stage has reached its deadline.
    pub(crate) fn expire<S>(&mut self, around: &mut Around<'_, S>) {
        let now = around.now();
        let is_late = |listener: &Listener| listener.ends_at.is_some_and(|end| end <= now);
        let late = self.0.iter().filter(|(_, listener)| is_late(listener));
        let late: Vec<Arc<str>> = late.map(|(database, _)| Arc::clone(database)).collect();
        for database in late {
            let Some(listener) = self.0.remove(&database) else { continue };
            match listener.stage {
                // A session without channels need not log in again.
                ListenerStage::Pauses if listener.channels.is_empty() => {}
                ListenerStage::Pauses => self.comes(around, database, listener),
                // The session has had no channels for `LINGERS`.
                ListenerStage::Attends(own_client) => around.own_clients.close(own_client),
                ListenerStage::LogsIn(_) | ListenerStage::Says(..) => {
                    self.0.insert(Arc::clone(&database), listener);
                    self.told(around, &database, Err("no answer in time".to_owned()));
                }
            }
        }
    }

    /// Returns the earliest deadline of a stage.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.values().filter_map(|listener| listener.ends_at).min()
    }
}

impl Listener {
    fn note(&mut self, order: ListenOrder) {
        match order {
            ListenOrder::Listen { channel, number, is_relied_on } => {
                self.channels.insert(channel, Channel { number, is_relied_on });
            }
            ListenOrder::Unlisten(name) => {
                self.channels.remove(&name);
            }
            ListenOrder::UnlistenAll => self.channels.clear(),
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

    fn own_client(&self) -> Option<u64> {
        match self.stage {
            ListenerStage::LogsIn(own_client)
            | ListenerStage::Says(own_client, _)
            | ListenerStage::Attends(own_client) => Some(own_client),
            ListenerStage::Pauses => None,
        }
    }
}

impl ListenCommand {
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
        let mut listener = Listener { user: "u".into(), channels, orders, stage: ListenerStage::Pauses, ends_at: None };
        let order =
            |name: &str, number, is_relied_on| ListenOrder::Listen { channel: name.into(), number, is_relied_on };
        listener.note(order("new", 2, false));
        listener.orders.push_back(order("newer", 5, false));
        listener.note(order("left to it", 3, true));
        listener.channels.insert("old".into(), Channel { number: 1, is_relied_on: true });
        assert_eq!(listener.refuse_new(), [("new".into(), 2), ("newer".into(), 5)]);
        assert_eq!(listener.channels.keys().map(|name| &**name).collect::<Vec<_>>(), ["left to it", "old"]);
        listener.note(ListenOrder::Unlisten("old".into()));
        listener.note(ListenOrder::Unlisten("left to it".into()));
        assert!(listener.channels.is_empty());
        listener.note(order("new", 4, false));
        listener.note(ListenOrder::UnlistenAll);
        assert!(listener.channels.is_empty());
    }
}
