//! Sessions that listen for all clients of a database (LISTEN): clients of our own workers, as any.
//!
//! Always true: every channel that a client waits for is answered, whatever comes; a session that was there and has ended is told of,
//! and comes again as long as somebody listens.
//! Not here: who listens, and what a notification means to whom (`worker::notify::listen`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use protocol::state::MARKS;
use worker::letters::ToWorker;

use crate::asking::{self, Asker};
use crate::control::Control;

/// What a session is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
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

/// What becomes of a session.
#[derive(Debug)]
pub(crate) enum News {
    /// It is here, as a connection to ourselves.
    Comes(OwnedFd),
    /// It says something to the worker on which its database lives.
    Says(Report),
}

/// What a session says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// It listens to a channel.
    Heard {
        /// Which.
        channel: Box<str>,
        /// The number of the order.
        number: u64,
    },
    /// It cannot listen to channels.
    Unheard {
        /// Which, each with the number of the order.
        channels: Vec<(Box<str>, u64)>,
        /// Why.
        error: String,
    },
    /// It has ended.
    Lost,
}

/// An order on its way to the session of a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errand {
    /// Of which database.
    pub database: Arc<str>,
    /// As whom the session logs in, if it is not there yet.
    pub user: Option<Arc<str>>,
    /// What it is to do.
    pub order: Order,
}

/// Orders that have not been given yet.
pub(crate) type Errands = VecDeque<Errand>;

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

impl<S> Control<S> {
    /// Nobody listens any more to a channel of a database, or to any.
    pub(crate) fn unlisten(&mut self, database: Arc<str>, channel: Option<Box<str>>) {
        let order = channel.map_or(Order::UnlistenAll, Order::Unlisten);
        self.errands.push_back(Errand { database, user: None, order });
    }

    /// Something has become of a session that listens for all: the worker on which its database lives is told.
    pub(crate) fn listener_says(&mut self, database: Arc<str>, report: Report) {
        let home = self.force.homes.home_of(&database);
        match report {
            Report::Heard { channel, number } => self.post(home, ToWorker::Heard { database, channel, number }),
            Report::Unheard { channels, error } => self.post(home, ToWorker::Unheard { database, channels, error }),
            Report::Lost => self.post(home, ToWorker::ListenerLost { database }),
        }
    }
}

/// Listens as long as there may be orders. A login or a command takes no longer than `limit`.
pub(crate) async fn listen(
    (database, user): (Arc<str>, Arc<str>),
    mut orders: UnboundedReceiver<Order>,
    limit: Duration,
    tell: impl Fn(News),
) {
    let mut channels = Channels::new();
    loop {
        while channels.is_empty() {
            match orders.recv().await {
                Some(order) => note(&mut channels, order),
                None => return,
            }
        }
        let session = tokio::time::timeout(limit, connect(&database, &user, &tell)).await;
        match session.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(asker) => match attend(asker, &mut channels, &mut orders, limit, &tell).await {
                End::Broken => tell(News::Says(Report::Lost)),
                End::Idle => continue,
            },
            Err(error) => refuse_new(&mut channels, &mut orders, &error, &tell),
        }
        // What was listened to once is listened to again, but in no haste: the server may be starting. Nor is anything else: each attempt may
        // be a line in the log.
        let pause = tokio::time::sleep(PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                order = orders.recv() => match order {
                    Some(order) => note(&mut channels, order),
                    None => return,
                },
            }
        }
    }
}

/// Why a session has ended.
enum End {
    /// What it was to listen to is not listened to any more.
    Broken,
    /// Nobody has wanted anything of it for some time.
    Idle,
}

/// One session from its login to its end.
async fn attend(
    mut asker: Asker,
    channels: &mut Channels,
    orders: &mut UnboundedReceiver<Order>,
    limit: Duration,
    tell: &impl Fn(News),
) -> End {
    // First the marks, at which clients are taken over.
    if obey(&mut asker, "LISTEN", MARKS, limit).await.is_err() {
        refuse_new(channels, orders, "it cannot listen to the marks at which it takes over", tell);
        return End::Broken;
    }
    let names: Vec<Box<str>> = channels.keys().cloned().collect();
    for name in names {
        if !listen_to(&mut asker, &name, channels, orders, limit, tell).await {
            return End::Broken;
        }
    }
    loop {
        tokio::select! {
            () = asker.end() => return End::Broken,
            // Who has nothing to listen to needs no server, and keeps no database in use.
            () = tokio::time::sleep(LINGERS), if channels.is_empty() => return End::Idle,
            order = orders.recv() => {
                let Some(order) = order else { return End::Broken };
                note(channels, order.clone());
                let is_there = match order {
                    Order::Listen { channel, .. } => listen_to(&mut asker, &channel, channels, orders, limit, tell).await,
                    Order::Unlisten(name) => obey(&mut asker, "UNLISTEN", &name, limit).await.is_ok(),
                    Order::UnlistenAll => false,
                };
                if !is_there {
                    return End::Broken;
                }
            }
        }
    }
}

/// Whether the session is still of use.
async fn listen_to(
    asker: &mut Asker,
    name: &str,
    channels: &mut Channels,
    orders: &mut UnboundedReceiver<Order>,
    limit: Duration,
    tell: &impl Fn(News),
) -> bool {
    match obey(asker, "LISTEN", name, limit).await {
        Ok(()) => {
            if let Some(channel) = channels.get_mut(name) {
                channel.is_relied_on = true;
                tell(News::Says(Report::Heard { channel: name.into(), number: channel.number }));
            }
            true
        }
        Err(error) => {
            refuse_new(channels, orders, &error, tell);
            false
        }
    }
}

/// One command about one channel.
async fn obey(asker: &mut Asker, command: &str, channel: &str, limit: Duration) -> Result<(), String> {
    match tokio::time::timeout(limit, asker.run(&format!("{command} {}", quoted(channel)))).await {
        Ok(outcome) => outcome.map_err(|failure| failure.words()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Those that nobody has listened to yet have their own servers, and keep them. There may be thousands, also among the
/// orders that have not been looked at, and all are told of at once.
fn refuse_new(channels: &mut Channels, orders: &mut UnboundedReceiver<Order>, error: &str, tell: &impl Fn(News)) {
    while let Ok(order) = orders.try_recv() {
        note(channels, order);
    }
    let all = std::mem::take(channels).into_iter();
    let (kept, refused): (Channels, Channels) = all.partition(|(_, channel)| channel.is_relied_on);
    *channels = kept;
    if !refused.is_empty() {
        let refused = refused.into_iter().map(|(name, channel)| (name, channel.number)).collect();
        tell(News::Says(Report::Unheard { channels: refused, error: error.to_owned() }));
    }
}

fn note(channels: &mut Channels, order: Order) {
    match order {
        Order::Listen { channel, number, is_relied_on } => {
            channels.insert(channel, Channel { number, is_relied_on });
        }
        Order::Unlisten(name) => drop(channels.remove(&name)),
        Order::UnlistenAll => channels.clear(),
    }
}

async fn connect(database: &str, user: &str, tell: &impl Fn(News)) -> Result<Asker, String> {
    let (near, far) = asking::pair().map_err(|error| error.to_string())?;
    tell(News::Comes(far));
    let parameters = [("user", user), ("database", database), ("application_name", "trunkline listens")];
    Asker::log_in(near, &parameters).await.map_err(|failure| failure.words())
}

/// An identifier in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

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
        let mut channels = Channels::new();
        let order = |name: &str, number, is_relied_on| Order::Listen { channel: name.into(), number, is_relied_on };
        note(&mut channels, order("new", 2, false));
        let (sender, mut orders) = tokio::sync::mpsc::unbounded_channel();
        sender.send(order("newer", 5, false)).expect("it is there");
        note(&mut channels, order("left to it", 3, true));
        channels.insert("old".into(), Channel { number: 1, is_relied_on: true });
        let told = std::cell::RefCell::new(Vec::new());
        refuse_new(&mut channels, &mut orders, "no", &|news| told.borrow_mut().push(format!("{news:?}")));
        assert_eq!(told.take(), ["Says(Unheard { channels: [(\"new\", 2), (\"newer\", 5)], error: \"no\" })"]);
        assert_eq!(channels.keys().map(|name| &**name).collect::<Vec<_>>(), ["left to it", "old"]);
        note(&mut channels, Order::Unlisten("old".into()));
        note(&mut channels, Order::Unlisten("left to it".into()));
        assert!(channels.is_empty());
        note(&mut channels, order("new", 4, false));
        note(&mut channels, Order::UnlistenAll);
        assert!(channels.is_empty());
    }
}
