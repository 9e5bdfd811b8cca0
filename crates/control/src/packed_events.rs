//! The events of `SHOW EVENTS` on their way from one process to the next, in an online restart.
//!
//! Always true: the next process keeps no more of them than of its own, and numbers its own events above those of the
//! process before, so that a reader of the event stream continues with the last id it has seen. Events of a kind that
//! another version does not know are left out. Other versions read this: fields may be added, and none renamed.
//! Not here: how the events travel (`transfer`, `successor`).

use std::borrow::Cow;

use base::Wall;
use serde::{Deserialize, Serialize};

use crate::events::{EventKind, EventRecord, Events, HOSTS_KNOWN_MAX};

/// The events of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PackedEvents {
    /// Oldest first.
    events: Vec<PackedEvent>,
    /// The number of the last change to them.
    changes: u64,
    /// The hosts that cannot be reached, and since when.
    down: Vec<(Box<str>, i64)>,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PackedEvent {
    kind: Box<str>,
    at: i64,
    last: i64,
    count: u64,
    #[serde(default)]
    database: Box<str>,
    #[serde(default)]
    user: Box<str>,
    #[serde(default)]
    host: Box<str>,
    detail: Box<str>,
    #[serde(default)]
    class: Box<str>,
    #[serde(default)]
    is_several: bool,
    change: u64,
}

impl Events {
    /// Packs everything for the next process.
    pub(crate) fn pack(&self) -> PackedEvents {
        let event = |event: &EventRecord| PackedEvent {
            kind: event.kind.word().into(),
            at: event.at.0,
            last: event.last.0,
            count: event.count,
            database: (*event.database).into(),
            user: (*event.user).into(),
            host: event.host.clone(),
            detail: event.detail.clone(),
            class: (*event.class).into(),
            is_several: event.is_several,
            change: event.change,
        };
        PackedEvents {
            events: self.iter().map(event).collect(),
            changes: self.changes(),
            down: self.down().map(|(host, since)| (host.into(), since.0)).collect(),
        }
    }

    /// Puts the events of the previous process before those of this one.
    pub(crate) fn carry_on(&mut self, before: PackedEvents) {
        let own = std::mem::take(self);
        for event in before.events {
            let Some(kind) = EventKind::parse(&event.kind) else { continue };
            self.restore(EventRecord {
                kind,
                at: Wall(event.at),
                last: Wall(event.last),
                count: event.count,
                database: event.database.into(),
                user: event.user.into(),
                host: event.host,
                detail: event.detail,
                class: Cow::Owned(event.class.into()),
                is_several: event.is_several,
                change: event.change,
            });
        }
        for (host, since) in before.down.into_iter().take(HOSTS_KNOWN_MAX) {
            self.note_down(host, Wall(since));
        }
        // A process without packed events has numbered none that anybody could ask for.
        let unseen = if before.changes == 0 { 0 } else { UNSEEN_CHANGES };
        self.skip_changes(before.changes.saturating_add(unseen));
        own.into_events().for_each(|event| self.add(event));
    }
}

/// The numbers left to the previous process for changes after its events were packed. A reader may have seen such a
/// number, and must not miss an event of this process for it.
const UNSEEN_CHANGES: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EVENTS_MAX;

    fn start(at: i64) -> Events {
        let mut events = Events::default();
        events.add(EventRecord::new(Wall(at), EventKind::Start, "a process"));
        events
    }

    fn across(events: &Events) -> Events {
        let letter = serde_json::to_vec(&events.pack()).expect("values");
        let mut next = start(1000);
        next.carry_on(serde_json::from_slice(&letter).expect("the same values"));
        next
    }

    fn words(events: &Events) -> Vec<&'static str> {
        events.iter().map(|event| event.kind.word()).collect()
    }

    #[test]
    fn the_next_process_has_the_events_of_the_last_and_numbers_its_own_above_them() {
        let mut old = start(1);
        old.add(EventRecord::new(Wall(2), EventKind::Reload, "pool_mode"));
        let seen = old.changes();
        let next = across(&old);
        assert_eq!(words(&next), ["start", "reload", "start"]);
        assert!(next.iter().zip(old.iter()).all(|(new, old)| new == old));
        // The reader has seen what the old process added after its events were packed.
        for seen in [seen, seen + 2] {
            let news: Vec<_> = next.since(seen).iter().map(|event| (event.kind.word(), event.at)).collect();
            assert_eq!(news, [("start", Wall(1000))]);
        }
        assert_eq!(words(&across(&next)), ["start", "reload", "start", "start"]);
    }

    #[test]
    fn what_comes_from_another_version_is_read_as_far_as_it_is_known() {
        let mut next = start(1000);
        next.carry_on(serde_json::from_str("{}").expect("an old process without events"));
        assert_eq!((words(&next), next.changes()), (vec!["start"], 1));
        let text = r#"{"later": 1, "changes": 7, "events": [
            {"kind": "eclipse", "at": 1, "last": 1, "count": 1, "detail": "of the sun", "change": 6},
            {"kind": "host_up", "at": 2, "last": 3, "count": 4, "detail": "again", "change": 7, "later": 1}]}"#;
        next.carry_on(serde_json::from_str(text).expect("events"));
        assert_eq!(words(&next), ["host_up", "start"]);
    }

    #[test]
    fn no_more_is_taken_over_than_is_kept() {
        let event = |change| PackedEvent {
            kind: "order".into(),
            at: 0,
            last: 0,
            count: 1,
            database: Box::default(),
            user: Box::default(),
            host: Box::default(),
            detail: "x".repeat(if change > 10 { 1 } else { 1 << 20 }).into(),
            class: Box::default(),
            is_several: false,
            change,
        };
        let many = 3 * EVENTS_MAX as u64;
        let down = (0..5000).map(|host: i64| (host.to_string().into(), host)).collect();
        let mut next = start(1000);
        next.carry_on(PackedEvents { events: (1..=many).map(event).collect(), changes: many, down });
        assert_eq!((next.iter().count(), next.down().count()), (EVENTS_MAX, HOSTS_KNOWN_MAX));
        let mut next = start(1000);
        next.carry_on(PackedEvents { events: (1..=10).map(event).collect(), changes: 10, down: Vec::new() });
        assert!(words(&next).len() <= 4, "a megabyte each, of four that are kept");
    }

    #[test]
    fn every_kind_is_known_by_its_word() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::parse(kind.word()), Some(kind));
        }
    }
}
