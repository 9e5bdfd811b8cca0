//! The events of `SHOW EVENTS`: the last [`EVENTS_MAX`] of importance.
//!
//! Always true: the events take at most [`BYTES_MAX`] bytes, and the oldest are forgotten first; refused logins and
//! server failures, however many, are combined into few events with a count.
//! Not here: how many a worker reports (`worker::reports`), how they are shown (`console::show::events`), how they outlive
//! an online restart (`packed_events`).

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Wall, cut};
use worker::letters::{Report, ReportKind};

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EventRecord {
    pub(crate) kind: EventKind,
    /// When it first occurred.
    pub(crate) at: Wall,
    /// When it last occurred.
    pub(crate) last: Wall,
    pub(crate) count: u64,
    /// The database concerned; empty for none or several.
    pub(crate) database: Arc<str>,
    /// The user concerned, or the user who gave the order.
    pub(crate) user: Arc<str>,
    /// The client's address, or the server's host.
    pub(crate) host: Box<str>,
    pub(crate) detail: Box<str>,
    /// Events of the same class may be combined.
    pub(crate) class: Cow<'static, str>,
    /// The event combines different clients or servers.
    pub(crate) is_several: bool,
    /// The number of its last change among all changes to the events, from 1 on.
    pub(crate) change: u64,
}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum EventKind {
    /// The process started.
    Start,
    /// The configuration was reloaded.
    Reload,
    /// An order on the console.
    Order,
    /// A signal of the operating system.
    Signal,
    /// A step of a shutdown.
    Shutdown,
    /// A step of an online restart.
    Restart,
    /// The primary of a cluster, and switchovers.
    Cluster,
    /// Reports that a worker dropped because there were too many.
    Dropped,
    /// A report of a worker.
    Told(ReportKind),
}

impl EventKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 15] = [
        Self::Start,
        Self::Reload,
        Self::Order,
        Self::Signal,
        Self::Shutdown,
        Self::Restart,
        Self::Cluster,
        Self::Dropped,
        Self::Told(ReportKind::WaitBegins),
        Self::Told(ReportKind::WaitEnds),
        Self::Told(ReportKind::HostDown),
        Self::Told(ReportKind::HostUp),
        Self::Told(ReportKind::HostRole),
        Self::Told(ReportKind::ServerFault),
        Self::Told(ReportKind::LoginRefused),
    ];

    /// The kind with this word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Reload => "reload",
            Self::Order => "order",
            Self::Signal => "signal",
            Self::Shutdown => "shutdown",
            Self::Restart => "restart",
            Self::Cluster => "cluster",
            Self::Dropped => "dropped",
            Self::Told(ReportKind::WaitBegins) => "wait_begins",
            Self::Told(ReportKind::WaitEnds) => "wait_ends",
            Self::Told(ReportKind::HostDown) => "host_down",
            Self::Told(ReportKind::HostUp) => "host_up",
            Self::Told(ReportKind::HostRole) => "host_role",
            Self::Told(ReportKind::ServerFault) => "server_fault",
            Self::Told(ReportKind::LoginRefused) => "login_refused",
        }
    }

    /// Returns whether outsiders can cause any number of these events.
    fn is_folded(self) -> bool {
        matches!(self, Self::Dropped | Self::Told(ReportKind::ServerFault | ReportKind::LoginRefused))
    }
}

impl EventRecord {
    /// An event that concerns no database, user or host.
    pub(crate) fn new(at: Wall, kind: EventKind, detail: &str) -> Self {
        let (class, is_several) = (Cow::default(), false);
        let (database, user, host) = (Arc::default(), Arc::default(), Box::default());
        Self {
            kind,
            at,
            last: at,
            count: 1,
            database,
            user,
            host,
            detail: cut(detail, TEXT_MAX).into(),
            class,
            is_several,
            change: 0,
        }
    }

    fn told(Report { kind, class, database, user, host, detail, at, count }: Report) -> Self {
        let (kind, class, last, is_several) = (EventKind::Told(kind), Cow::Borrowed(class), at, false);
        Self { kind, at, last, count, database, user, host, detail, class, is_several, change: 0 }
    }

    fn bytes(&self) -> usize {
        let class = if let Cow::Owned(class) = &self.class { class.len() } else { 0 };
        size_of::<Self>() + self.database.len() + self.user.len() + self.host.len() + self.detail.len() + class
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.database, &self.user, &self.host) == (&other.database, &other.user, &other.host)
    }

    /// Adds the count of another event to this one.
    fn fold(&mut self, other: &Self) {
        self.count += other.count;
        self.last = self.last.max(other.last);
        self.change = other.change;
    }
}

/// The latest events, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: VecDeque<EventRecord>,
    bytes: usize,
    changes: u64,
    /// Hosts that cannot be reached, and since when. The pool that reported one may vanish, or move to another host,
    /// without reporting the end.
    down: BTreeMap<Box<str>, Wall>,
    /// What was told last of the roles of hosts: each worker finds out by itself.
    roles: BTreeMap<Box<str>, Box<str>>,
}

impl Events {
    /// Adds an event.
    pub(crate) fn add(&mut self, mut event: EventRecord) {
        self.changes += 1;
        event.change = self.changes;
        self.restore(event);
    }

    /// Adds an event that has the number of its last change.
    pub(crate) fn restore(&mut self, event: EventRecord) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// Adds the report of a worker.
    pub(crate) fn hear(&mut self, report: Report) {
        // Each pool detects a host's failure and recovery by itself; only the first report counts.
        let is_news = match report.kind {
            ReportKind::HostDown if self.down.len() >= HOSTS_KNOWN_MAX => true,
            ReportKind::HostDown => {
                let before = self.down.insert(report.host.clone(), report.at);
                before.is_none_or(|before| !is_soon(before, report.at, FOLDED_WITHIN))
            }
            ReportKind::HostUp => self.down.remove(&report.host).is_some(),
            ReportKind::HostRole if self.roles.len() >= HOSTS_KNOWN_MAX => true,
            ReportKind::HostRole => {
                let before = self.roles.insert(report.host.clone(), report.detail.clone());
                before.is_none_or(|before| before != report.detail)
            }
            ReportKind::WaitBegins | ReportKind::WaitEnds | ReportKind::ServerFault | ReportKind::LoginRefused => true,
        };
        if !is_news {
            return;
        }
        self.add_or_fold(EventRecord::told(report));
    }

    /// Adds an event, or combines it with a recent similar one if its kind may occur any number of times.
    pub(crate) fn add_or_fold(&mut self, mut event: EventRecord) {
        if event.kind.is_folded() {
            let recent = self.events.iter_mut().rev().take(LOOKED_BACK);
            let mut alike: Vec<&mut EventRecord> = recent
                .filter(|known| (known.kind, &known.class) == (event.kind, &event.class))
                .filter(|known| is_soon(known.last, event.at, FOLDED_WITHIN) && is_soon(known.at, event.at, FOLDED_MAX))
                .collect();
            event.change = self.changes + 1;
            if let Some(same) = alike.iter_mut().find(|known| !known.is_several && known.is_like(&event)) {
                same.fold(&event);
                self.changes += 1;
                return;
            }
            if let Some(several) = alike.iter_mut().find(|known| known.is_several) {
                several.fold(&event);
                self.changes += 1;
                return;
            }
            if alike.len() >= TOLD_APART {
                event.is_several = true;
                (event.database, event.user, event.host) = (Arc::default(), Arc::default(), Box::default());
                event.detail = format!("different ones, such as: {}", event.detail).into();
            }
        }
        self.add(event);
    }

    /// Returns the number of changes so far: events added or counted again.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the events that were added or counted again after the given number of changes, oldest change first; at
    /// most the last `NEWS_MAX`. A number greater than the present one comes from another process, and the latest
    /// events are returned.
    pub(crate) fn since(&self, changes: u64) -> Vec<&EventRecord> {
        if changes == self.changes {
            return Vec::new();
        }
        let changes = if changes > self.changes { 0 } else { changes };
        let mut news: Vec<&EventRecord> = self.events.iter().filter(|event| event.change > changes).collect();
        news.sort_by_key(|event| event.change);
        news.split_off(news.len().saturating_sub(NEWS_MAX))
    }

    /// Numbers the next change above `changes`.
    pub(crate) fn skip_changes(&mut self, changes: u64) {
        self.changes = self.changes.max(changes);
    }

    /// Remembers that a host has been down since then.
    pub(crate) fn note_down(&mut self, host: Box<str>, since: Wall) {
        self.down.insert(host, since);
    }

    /// Returns the hosts that are down, and since when.
    pub(crate) fn down(&self) -> impl Iterator<Item = (&str, Wall)> {
        self.down.iter().map(|(host, since)| (&**host, *since))
    }

    /// Returns all events, oldest first, without the rest.
    pub(crate) fn into_events(self) -> impl Iterator<Item = EventRecord> {
        self.events.into_iter()
    }

    /// Returns all events, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &EventRecord> {
        self.events.iter()
    }
}

fn is_soon(one: Wall, other: Wall, within: i64) -> bool {
    other.0.saturating_sub(one.0) <= within
}

/// The number of events kept.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// The number of bytes kept.
const BYTES_MAX: usize = 4 << 20;
const TEXT_MAX: usize = 1000;
/// The number of events returned at once to a reader that follows them.
const NEWS_MAX: usize = 100;
/// The number of hosts remembered as down; the failure of a further host is an event each time.
pub(crate) const HOSTS_KNOWN_MAX: usize = 1000;
/// The number of similar events, by names, that are kept apart; further ones are combined into one event.
const TOLD_APART: usize = 8;
/// An event is combined with a similar one if it follows within this time, in microseconds, and at most this long after
/// the first.
const FOLDED_WITHIN: i64 = 60_000_000;
const FOLDED_MAX: i64 = 600_000_000;
/// How many of the latest events are searched for a similar one.
const LOOKED_BACK: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn refused(user: &str, at: i64) -> Report {
        Report {
            kind: ReportKind::LoginRefused,
            class: "PasswordWrong",
            database: "d".into(),
            user: user.into(),
            host: "10.0.0.7".into(),
            detail: "password authentication failed".into(),
            at: Wall(at),
            count: 1,
        }
    }

    fn host(kind: ReportKind) -> Report {
        Report { kind, class: "", ..refused("u", 0) }
    }

    fn counts(events: &Events) -> Vec<(String, u64)> {
        events.iter().map(|event| (event.user.to_string(), event.count)).collect()
    }

    #[test]
    fn a_storm_of_refused_logins_is_one_event_with_a_count() {
        let mut events = Events::default();
        (0..1000).for_each(|number| events.hear(refused("u", number * SECOND / 10)));
        assert_eq!(counts(&events), [("u".to_owned(), 1000)]);
        let event = events.iter().next().expect("an event");
        assert_eq!((event.at, event.last), (Wall(0), Wall(999 * SECOND / 10)));
        events.hear(refused("u", 170 * SECOND));
        assert_eq!(counts(&events).len(), 2, "later it is another one");
    }

    #[test]
    fn who_follows_is_told_what_is_new_and_what_was_counted_again() {
        let mut events = Events::default();
        events.hear(refused("u", 0));
        events.add(EventRecord::new(Wall(1), EventKind::Reload, "one"));
        let known = events.changes();
        assert!(events.since(known).is_empty());
        events.add(EventRecord::new(Wall(2), EventKind::Reload, "two"));
        events.hear(refused("u", 3));
        let told: Vec<_> = events.since(known).iter().map(|event| (event.kind.word(), event.count)).collect();
        assert_eq!(told, [("reload", 1), ("login_refused", 2)]);
        assert_eq!(events.since(known + 1000).len(), 3, "the number of another process");
        (0..1000).for_each(|number| events.add(EventRecord::new(Wall(number), EventKind::Order, "PAUSE")));
        let told = events.since(known);
        assert_eq!((told.len(), told.last().map(|event| event.change)), (NEWS_MAX, Some(events.changes())));
    }

    #[test]
    fn names_that_strangers_make_up_make_no_flood() {
        let mut events = Events::default();
        (0..1000).for_each(|number| events.hear(refused(&number.to_string(), SECOND)));
        let counts = counts(&events);
        assert_eq!(counts.len(), TOLD_APART + 1);
        assert_eq!(counts.last(), Some(&(String::new(), 1000 - TOLD_APART as u64)));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut events = Events::default();
        for number in 0..EVENTS_MAX + 10 {
            events.add(EventRecord::new(Wall(number as i64), EventKind::Order, "PAUSE"));
        }
        assert_eq!(events.iter().count(), EVENTS_MAX);
        assert_eq!(events.iter().next().map(|event| event.at), Some(Wall(10)));
        for _ in 0..EVENTS_MAX {
            events.add(EventRecord::new(Wall(0), EventKind::Reload, &"x".repeat(5000)));
        }
        let bytes: usize = events.iter().map(EventRecord::bytes).sum();
        assert!(bytes <= BYTES_MAX && bytes == events.bytes && events.iter().count() > 1000, "{bytes}");
    }

    #[test]
    fn a_host_is_down_once_for_all_its_pools() {
        let mut events = Events::default();
        let kinds = [ReportKind::HostDown, ReportKind::HostDown, ReportKind::HostUp, ReportKind::HostUp];
        kinds.into_iter().for_each(|kind| events.hear(host(kind)));
        // A pool that has moved to another host reports no end for this one.
        events.hear(host(ReportKind::HostDown));
        events.hear(Report { at: Wall(FOLDED_WITHIN + SECOND), ..host(ReportKind::HostDown) });
        let words: Vec<_> = events.iter().map(|event| event.kind.word()).collect();
        assert_eq!(words, ["host_down", "host_up", "host_down", "host_down"]);
    }

    #[test]
    fn a_role_is_told_once_for_all_workers() {
        let mut events = Events::default();
        let told = |detail: &str| Report { detail: detail.into(), ..host(ReportKind::HostRole) };
        for detail in ["primary (was standby)", "primary (was standby)", "standby (was primary)"] {
            events.hear(told(detail));
        }
        assert_eq!(events.iter().count(), 2);
    }

    #[test]
    fn strangers_push_out_nothing_of_importance() {
        let mut events = Events::default();
        events.add(EventRecord::new(Wall(0), EventKind::Reload, "no setting has changed"));
        for second in 0..50_000 {
            let at = Wall(second * SECOND);
            let class = ["PasswordWrong", "NoSuchUser", "OldProtocol"][second as usize % 3];
            events.hear(Report { class, ..refused(&second.to_string(), at.0) });
            events.add_or_fold(EventRecord {
                count: 7,
                ..EventRecord::new(at, EventKind::Dropped, "more than a worker may tell")
            });
        }
        assert_eq!(events.iter().next().map(|event| event.kind), Some(EventKind::Reload));
        assert!(events.iter().count() < EVENTS_MAX / 2, "{}", events.iter().count());
    }
}
