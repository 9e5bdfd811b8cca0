//! The notifications committed in each database, and which of them each application must receive.
//!
//! Always true: notifications are added when their transaction commits, in that order. An application is owed those
//! that were committed while it listened, by its own statements, and no others. Where no server executes its LISTEN, it
//! listens from the answer on, or from its next statement that a server executes, and may receive what was committed
//! since it sent the LISTEN.
//! Not here: when a session of PostgreSQL sends them (`session::channels`), what the pooler does with them
//! (`worker::notify::listen`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::Time;

use crate::checks::witness::Charge;
use crate::postgres::sql::Nonce;

/// A database of a host.
pub(crate) type HostDatabase = (usize, String);

/// A committed notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) channel: String,
    pub(crate) payload: String,
}

/// All notifications of a world, and who listens.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) now: Time,
    queues: BTreeMap<HostDatabase, Vec<Note>>,
    listeners: BTreeMap<u32, Listener>,
    /// Databases whose listening session has ended, or may have lost its server, so that notifications may be lost.
    pub(crate) gaps: BTreeSet<String>,
    /// The place where the listening session of each database last began.
    for_all: BTreeMap<String, HostDatabase>,
    /// Whether no server ever fails in this world.
    pub(crate) is_calm: bool,
    /// Places with new notifications.
    pub(crate) news: BTreeSet<HostDatabase>,
    /// How clients learn that notifications may have been lost; `None` if they are disconnected instead.
    pub(crate) word_of_loss: Option<Word>,
}

/// How applications learn that notifications may have been lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Notice,
    Notification,
}

/// The channels of one application, as they really are, and the notifications that it has not received.
#[derive(Debug, Default)]
struct Listener {
    /// Statements with a number up to this one were sent on an earlier connection.
    before: u32,
    /// Where it listens; an application has one database.
    place: HostDatabase,
    /// Where it listened before the session that listens for all began on another host.
    former_place: Option<HostDatabase>,
    channels: BTreeSet<String>,
    /// The database in which the application sends plain LISTEN statements, and these statements by number.
    database: String,
    joins: BTreeMap<u32, Join>,
    /// The channels that it has left since the last answer outside of transactions with nothing more under way.
    left: BTreeSet<String>,
    due: VecDeque<Due>,
    /// Notifications that were skipped: the application must be told that some may have been lost.
    missed: VecDeque<Due>,
}

/// A LISTEN that a server need not execute.
#[derive(Debug)]
struct Join {
    channel: String,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Said,
    /// A server has executed it.
    Executed,
    /// It was answered without a server.
    Joined,
    /// It had no effect.
    Void,
}

#[derive(Debug)]
struct Due {
    note: Note,
    since: Time,
    /// It must arrive, unless notifications may have been lost.
    is_owed: bool,
    /// It was committed between a LISTEN and its answer: it may arrive if no server executes that LISTEN.
    is_early: bool,
}

impl Listener {
    /// A LISTEN that was only sent is now known to have been answered without a server.
    fn join(&mut self, number: u32, for_all: &BTreeMap<String, HostDatabase>) {
        let Some(join) = self.joins.get_mut(&number).filter(|join| join.stage == Stage::Said) else { return };
        join.stage = Stage::Joined;
        self.channels.insert(join.channel.clone());
        if let Some(place) = for_all.get(&self.database) {
            self.place.clone_from(place);
        }
    }

    /// A server has executed a LISTEN: notifications committed before that must not arrive, unless the application had
    /// joined the channel earlier.
    fn is_executed(&mut self, number: u32) {
        let Some(Join { channel, stage }) = self.joins.get_mut(&number) else { return };
        *stage = Stage::Executed;
        if !self.channels.contains(channel) {
            self.due.retain(|due| !due.is_early || due.note.channel != *channel);
        }
    }
}

impl Board {
    /// The notifications of a place, in the order of their commits.
    pub(crate) fn notes(&self, place: &HostDatabase) -> &[Note] {
        self.queues.get(place).map_or(&[], |notes| notes)
    }

    /// A transaction commits these notifications.
    pub(crate) fn commit(&mut self, place: &HostDatabase, notes: Vec<Note>) {
        for Listener { place: at, former_place, channels, database, joins, due, .. } in self.listeners.values_mut() {
            for note in &notes {
                let is_said = |join: &Join| join.stage == Stage::Said && join.channel == note.channel;
                let is_owed = *at == *place && channels.contains(&note.channel);
                let is_early = !is_owed && *database == place.1 && joins.values().any(is_said);
                let is_former = former_place.as_ref() == Some(place) && channels.contains(&note.channel);
                if is_owed || is_early || is_former {
                    due.push_back(Due { note: note.clone(), since: self.now, is_owed, is_early });
                }
            }
        }
        self.queues.entry(place.clone()).or_default().extend(notes);
        self.news.insert(place.clone());
    }

    /// A LISTEN of an application has been committed by a server.
    pub(crate) fn listens(&mut self, by: Nonce, place: &HostDatabase, channel: &str) {
        if let Some(listener) = self.listeners.get_mut(&by.app).filter(|listener| listener.before < by.number) {
            listener.place.clone_from(place);
            listener.is_executed(by.number);
            listener.channels.insert(channel.to_owned());
        }
    }

    /// A session begins to listen for all clients of its database. If the database is on another host now, they listen
    /// there from now on; one whose own server has executed its LISTEN may still be told of the former host's.
    pub(crate) fn listens_for_all(&mut self, place: &HostDatabase) {
        self.for_all.insert(place.1.clone(), place.clone());
        let has_moved = |listener: &&mut Listener| listener.place.1 == place.1 && listener.place != *place;
        for listener in self.listeners.values_mut().filter(has_moved) {
            listener.former_place = Some(std::mem::replace(&mut listener.place, place.clone()));
        }
    }

    /// An application sends a LISTEN that a server need not execute.
    pub(crate) fn says_join(&mut self, by: Nonce, database: &str, channel: &str) {
        let Some(listener) = self.listeners.get_mut(&by.app) else { return };
        database.clone_into(&mut listener.database);
        listener.joins.insert(by.number, Join { channel: channel.to_owned(), stage: Stage::Said });
    }

    /// A server is about to run a statement, so everything before it has been answered. Returns whether the server may
    /// run it.
    pub(crate) fn runs(&mut self, nonce: Nonce) -> bool {
        let Some(listener) = self.listeners.get_mut(&nonce.app).filter(|listener| listener.before < nonce.number)
        else {
            return true;
        };
        let earlier = listener.joins.range(..nonce.number).filter(|(_, join)| join.stage == Stage::Said);
        let earlier: Vec<u32> = earlier.map(|(&number, _)| number).collect();
        earlier.into_iter().for_each(|number| listener.join(number, &self.for_all));
        listener.joins.get(&nonce.number).is_none_or(|join| join.stage == Stage::Said)
    }

    /// A LISTEN has been answered. Returns whether no server has executed it; an error if one had to.
    pub(crate) fn is_joined(&mut self, by: Nonce) -> Result<bool, &'static str> {
        let Some(listener) = self.listeners.get_mut(&by.app) else { return Err("never said that") };
        listener.join(by.number, &self.for_all);
        match listener.joins.get(&by.number).map(|join| join.stage) {
            Some(Stage::Executed) => Ok(false),
            Some(Stage::Joined) if self.for_all.contains_key(&listener.database) => Ok(true),
            Some(Stage::Joined) => {
                Err("is told so, and neither a server has executed that nor anybody listens for all")
            }
            Some(Stage::Said | Stage::Void) | None => Err("is told so, and has not said that"),
        }
    }

    /// Returns whether a LISTEN has been answered without a server.
    pub(crate) fn has_joined(&self, by: Nonce) -> bool {
        let join = self.listeners.get(&by.app).and_then(|listener| listener.joins.get(&by.number));
        join.is_some_and(|join| join.stage == Stage::Joined)
    }

    /// An UNLISTEN of a channel, or of all, has been committed by a server.
    pub(crate) fn leaves(&mut self, by: Nonce, channel: Option<&str>) {
        if let Some(listener) = self.listeners.get_mut(&by.app).filter(|listener| listener.before < by.number) {
            let left = |known: &str| channel.is_none_or(|channel| known == channel);
            listener.left.extend(listener.channels.iter().filter(|known| left(known)).cloned());
            listener.channels.retain(|known| !left(known));
            // As in PostgreSQL, notifications that have not been sent may never be sent.
            listener.due.iter_mut().filter(|due| left(&due.note.channel)).for_each(|due| due.is_owed = false);
        }
    }

    /// An application connects or has left: statements up to this number no longer count.
    pub(crate) fn begins(&mut self, app: u32, before: u32) {
        self.listeners.insert(app, Listener { before, ..Listener::default() });
    }

    /// An application was answered outside of transactions, so it knows its channels.
    pub(crate) fn is_answered(&mut self, app: u32) {
        if let Some(listener) = self.listeners.get_mut(&app) {
            let Listener { channels, due, left, joins, .. } = listener;
            left.clear();
            joins.values_mut().filter(|join| join.stage == Stage::Said).for_each(|join| join.stage = Stage::Void);
            due.retain(|due| due.is_owed || channels.contains(&due.note.channel));
        }
    }

    /// An application receives a notification. Returns what is wrong with that, if anything.
    pub(crate) fn received(&mut self, app: u32, note: &Note) -> Result<(), (Charge, String)> {
        let Some(listener) = self.listeners.get_mut(&app) else { return Ok(()) };
        let Some(at) = listener.due.iter().position(|due| due.note == *note) else {
            let was_committed = self.queues.values().flatten().any(|known| known == note);
            return Err(match () {
                () if !listener.channels.contains(&note.channel) => {
                    (Charge::LeftOver, format!("it is told {note:?} and does not listen"))
                }
                () if was_committed => {
                    (Charge::ForeignBytes, format!("it is told {note:?} again, or of an earlier time"))
                }
                () => (Charge::ForeignBytes, format!("it is told {note:?}, which was never committed")),
            });
        };
        let is_before = |due: &Due| due.note.channel == note.channel;
        let is_gap = |due: &Due| is_before(due) && due.is_owed;
        let first = listener.due.iter().take(at).find(|due| is_gap(due));
        let missed = first.map(|due| format!("it is told {note:?}, and never {:?}", due.note));
        for (place, due) in std::mem::take(&mut listener.due).into_iter().enumerate() {
            match () {
                () if place > at || place < at && !is_before(&due) => listener.due.push_back(due),
                () if place < at && due.is_owed => listener.missed.push_back(due),
                () => {}
            }
        }
        // The word that notifications were lost may arrive a little later than those behind the gap.
        let may_miss = self.gaps.contains(&listener.place.1);
        missed.filter(|_| !may_miss).map_or(Ok(()), |missed| Err((Charge::NotServed, missed)))
    }

    /// Returns whether an application receives this notification before an older one of another channel.
    pub(crate) fn is_ahead(&self, app: u32, note: &Note) -> bool {
        let due = self.listeners.get(&app).map(|listener| &listener.due);
        due.and_then(|due| due.iter().find(|due| due.is_owed)).is_some_and(|first| first.note.channel != note.channel)
    }

    /// Returns a notification of an application's own that it has not received although it listens, and whether that is
    /// excused: the listening session has ended, is slow or may be broken, or the application has left the channel and
    /// listens to it again, and the outcome of that is not known yet.
    pub(crate) fn own(&self, app: u32, now: Time) -> Option<(&Note, bool)> {
        let Listener { place, due, left, .. } = self.listeners.get(&app)?;
        let is_own = |due: &&Due| due.is_owed && Nonce::read(&due.note.payload).is_some_and(|nonce| nonce.app == app);
        let Due { note, since, .. } = due.iter().find(is_own)?;
        let is_excused = !self.is_calm
            || left.contains(&note.channel)
            || self.gaps.contains(&place.1)
            || now.since(*since) >= PATIENCE;
        Some((note, is_excused))
    }

    /// An application is told that notifications up to now may have been lost.
    pub(crate) fn may_have_lost(&mut self, app: u32) {
        if let Some(listener) = self.listeners.get_mut(&app) {
            listener.due.iter_mut().for_each(|due| due.is_owed = false);
            listener.missed.clear();
        }
    }

    /// Returns the oldest notification that an application is owed (itself, or the word that it may be lost), and since
    /// when.
    pub(crate) fn owed(&self, app: u32) -> Option<(&Note, Time)> {
        let Listener { due, missed, .. } = self.listeners.get(&app)?;
        let first = missed.front().or_else(|| due.iter().find(|due| due.is_owed))?;
        Some((&first.note, first.since))
    }
}

/// How long the end of a transaction waits for the notifications of that transaction.
const PATIENCE: Duration = Duration::from_secs(1);
