//! What pins a server to one client: what the session holds there, since when, and what ends it.
//!
//! Always true: a pin exists until a server has reported that the hold is gone, or until nobody can have it any more; of
//! each kind at most [`PINS_MAX`] are listed, and one more pin says that there are more. Of channels, which the listener
//! takes over, all are listed.
//! Not here: how holds are found (`probe`), what may have caused them (`session_effects`).

use std::collections::{BTreeMap, BTreeSet};

use base::Time;
use route::DirtyState;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::vars::Literal;

/// Something that a session has on this one server only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// Its kind.
    pub kind: Kind,
    /// Its name or key, in words.
    pub what: Box<str>,
    /// The mode of a lock, as `pg_locks` shows it.
    pub mode: Option<Box<str>>,
    /// Not a hold, but says that there are more of this kind than are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_more: bool,
}

/// A hold with its history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// What is held.
    pub hold: Hold,
    /// When it became known.
    pub since: Time,
    /// The statement that caused it, without its values; empty if none was read.
    pub statement: Box<str>,
}

/// All that pins the server of one client. Each kind has its own list, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pins {
    /// Only kinds that have pins.
    kinds: BTreeMap<Kind, OfKind>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct OfKind {
    listed: Vec<Pin>,
    /// Says that there are more than the listed ones.
    more: Option<Pin>,
}

impl OfKind {
    fn iter(&self) -> impl DoubleEndedIterator<Item = &Pin> {
        self.listed.iter().chain(&self.more)
    }

    fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.more.is_none()
    }

    fn oldest(&self) -> Option<&Pin> {
        self.listed.first().into_iter().chain(&self.more).min_by_key(|pin| pin.since)
    }
}

impl Pins {
    /// Whether nothing pins the server.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// All pins.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.kinds.values().flat_map(OfKind::iter)
    }

    /// The kinds that have pins.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.kinds.keys().copied()
    }

    /// The pins of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Pin> {
        self.kinds.get(&kind).into_iter().flat_map(OfKind::iter)
    }

    /// Whether all pins of a kind are listed, and one more can be.
    #[must_use]
    pub fn has_room_for(&self, kind: Kind) -> bool {
        self.kinds.get(&kind).is_none_or(|of| of.more.is_none() && has_room(kind, of.listed.len()))
    }

    /// Whether there are more of a kind than are listed.
    #[must_use]
    pub fn has_more(&self, kind: Kind) -> bool {
        self.kinds.get(&kind).is_some_and(|of| of.more.is_some())
    }

    /// Whether there is a pin of a kind that `what` touches.
    #[must_use]
    pub fn meets(&self, what: DirtyState) -> bool {
        self.kinds().any(|kind| what.meets(kind.touches()))
    }

    /// The oldest pin. Numbers of sequences are left out, because they are kept for a moment only.
    #[must_use]
    pub fn oldest(&self) -> Option<&Pin> {
        let lasting = self.kinds.iter().filter(|(kind, _)| **kind != Kind::Sequence);
        lasting.filter_map(|(_, of)| of.oldest()).min_by_key(|pin| pin.since)
    }

    /// The pins that began at `now`. Older ones are not visited.
    pub fn news(&self, now: Time) -> impl Iterator<Item = &Pin> {
        let is_new = move |pin: &&Pin| pin.since == now;
        self.kinds.values().flat_map(move |of| {
            let old = of.listed.len() - of.listed.iter().rev().take_while(is_new).count();
            of.listed[old..].iter().chain(of.more.iter().filter(is_new))
        })
    }

    /// The kinds whose oldest pin began at `now`.
    pub fn begun(&self, now: Time) -> impl Iterator<Item = Kind> {
        self.kinds.iter().filter(move |(_, of)| of.oldest().is_some_and(|pin| pin.since == now)).map(|(kind, _)| *kind)
    }

    /// Adds a pin for something that was not held before.
    pub(super) fn push(&mut self, pin: Pin) {
        let of = self.kinds.entry(pin.hold.kind).or_default();
        if !pin.hold.is_more && has_room(pin.hold.kind, of.listed.len()) {
            of.listed.push(pin);
        } else {
            let hold = Hold::more(pin.hold.kind);
            of.more.get_or_insert(Pin { hold, ..pin });
        }
    }

    /// Removes the pins whose holds are gone.
    pub(super) fn retain(&mut self, is_held: impl Fn(&Hold) -> bool) {
        self.kinds.retain(|_, of| {
            of.listed.retain(|pin| is_held(&pin.hold));
            of.more.take_if(|pin| !is_held(&pin.hold));
            !of.is_empty()
        });
    }

    /// Removes the pins of a kind and returns them.
    pub(super) fn remove(&mut self, kind: Kind) -> Vec<Pin> {
        let OfKind { mut listed, more } = self.kinds.remove(&kind).unwrap_or_default();
        listed.extend(more);
        listed
    }
}

/// Pins that come from another process or client, with their history.
impl FromIterator<Pin> for Pins {
    fn from_iter<T: IntoIterator<Item = Pin>>(pins: T) -> Self {
        let mut all = Self::default();
        let mut pins: Vec<Pin> = pins.into_iter().collect();
        pins.sort_by_key(|pin| pin.since);
        let mut known = BTreeSet::new();
        for pin in pins.iter().filter(|pin| known.insert(&pin.hold)) {
            all.push(pin.clone());
        }
        all
    }
}

/// Whether one more of a kind is listed.
fn has_room(kind: Kind, listed: usize) -> bool {
    kind == Kind::Channel || listed < PINS_MAX
}

/// The kinds of what is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// An advisory lock of the session.
    Lock,
    /// LISTEN.
    Channel,
    /// A temporary table, or anything else in the temporary schema.
    Temporary,
    /// A cursor `WITH HOLD`.
    Cursor,
    /// A statement prepared by SQL.
    Statement,
    /// A library loaded by LOAD.
    Library,
    /// A temporary replication slot.
    Slot,
    /// A setting whose value cannot be carried to another server.
    Setting,
    /// Numbers drawn from sequences, for `currval` and `lastval`.
    Sequence,
    /// The state of the session could not be read.
    Unknown,
}

/// The texts about a kind.
struct Words {
    /// In logs and errors.
    long: &'static str,
    /// In tables and settings.
    short: &'static str,
    touches: DirtyState,
    /// In errors, as a plural.
    many: &'static str,
    /// What a program may use instead.
    instead: &'static str,
    /// The SQL that ends the hold, beside the client's leaving; empty if there is none.
    ends: &'static str,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Lock,
        Self::Channel,
        Self::Temporary,
        Self::Cursor,
        Self::Statement,
        Self::Library,
        Self::Slot,
        Self::Setting,
        Self::Sequence,
        Self::Unknown,
    ];

    fn words(self) -> &'static Words {
        &WORDS[self as usize]
    }

    /// What statements touch that take or release such a hold; a probe for it tells whether the hold still exists.
    /// Nothing for holds that no server can report.
    #[must_use]
    pub fn touches(self) -> DirtyState {
        self.words().touches
    }

    /// The name for the log.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.words().long
    }

    /// The short name, for tables.
    #[must_use]
    pub fn short(self) -> &'static str {
        self.words().short
    }

    /// The plural, for errors.
    #[must_use]
    pub fn many(self) -> &'static str {
        self.words().many
    }

    /// What a program may use instead, for a hint.
    #[must_use]
    pub fn instead(self) -> &'static str {
        self.words().instead
    }

    /// The kinds of holds that a statement takes by its own words.
    pub fn taken(takes: DirtyState) -> impl Iterator<Item = Self> {
        let is_taken = move |kind: &Self| match kind {
            Self::Library => takes.has(DirtyState::LIBRARIES),
            kind => takes.meets(kind.touches()),
        };
        Self::ALL.into_iter().filter(is_taken)
    }

    /// SQL that fails with the error of [`Fault::HoldRefused`](crate::fault::Fault::HoldRefused), sent in place of a
    /// statement.
    #[must_use]
    pub fn refusal(self) -> String {
        let verdict = Fault::HoldRefused { kind: self }.verdict();
        let hint = verdict.hint.unwrap_or_default();
        let [code, message, hint] = [&*verdict.sqlstate, &*verdict.text, &*hint].map(Literal);
        format!("DO $$BEGIN RAISE EXCEPTION USING ERRCODE={code},MESSAGE={message},HINT={hint};END$$")
    }

    /// The SQL that ends the hold; `disconnect` where nothing else does.
    #[must_use]
    pub fn ends_by(self) -> &'static str {
        let ends = self.words().ends;
        if ends.is_empty() { "disconnect" } else { ends }
    }

    /// Whether `DISCARD ALL` ends the hold.
    #[must_use]
    pub fn is_discarded(self) -> bool {
        !matches!(self, Self::Library | Self::Slot | Self::Unknown)
    }
}

const WORDS: [Words; Kind::ALL.len()] = [
    Words {
        long: "advisory lock",
        many: "session-level advisory locks",
        instead: "Use pg_advisory_xact_lock, which ends with its transaction.",
        short: "lock",
        touches: DirtyState::LOCKS,
        ends: "pg_advisory_unlock, pg_advisory_unlock_all",
    },
    Words {
        long: "LISTEN",
        many: "LISTEN commands",
        instead: "LISTEN on a connection with pool_mode = session, or on a direct one.",
        short: "listen",
        touches: DirtyState::CHANNELS,
        ends: "UNLISTEN",
    },
    Words {
        long: "temporary object",
        many: "temporary tables, views and sequences",
        instead: "Create a table with ON COMMIT DROP, within a transaction.",
        short: "temporary",
        touches: DirtyState::TEMPORARY,
        ends: "DROP, DISCARD TEMP",
    },
    Words {
        long: "cursor WITH HOLD",
        many: "cursors WITH HOLD",
        instead: "Read the cursor within its transaction.",
        short: "cursor",
        touches: DirtyState::CURSORS,
        ends: "CLOSE",
    },
    Words {
        long: "statement prepared by SQL",
        many: "statements prepared by SQL",
        instead: "Use prepared statements of the protocol, as drivers do.",
        short: "statement",
        touches: DirtyState::STATEMENTS,
        ends: "DEALLOCATE",
    },
    Words {
        long: "library",
        many: "LOAD commands",
        instead: "Name the library in session_preload_libraries.",
        short: "library",
        touches: DirtyState::NOTHING,
        ends: "",
    },
    Words {
        long: "temporary replication slot",
        many: "temporary replication slots",
        instead: "Use a slot that is not temporary.",
        short: "slot",
        touches: DirtyState::SLOTS,
        ends: "pg_drop_replication_slot",
    },
    Words {
        long: "setting",
        many: "settings that cannot be applied to another server",
        instead: "Name the setting in the text of the statement.",
        short: "setting",
        touches: DirtyState::NOTHING,
        ends: "DISCARD ALL",
    },
    Words {
        long: "sequence values",
        many: "currval and lastval in a later transaction than nextval",
        instead: "Use INSERT ... RETURNING.",
        short: "sequence",
        touches: DirtyState::NOTHING,
        ends: "currval, lastval; or sequence_hold_time",
    },
    Words {
        long: "session state",
        many: "sessions whose state cannot be read",
        instead: "The log of PostgreSQL may say why the query for the session state failed.",
        short: "unknown",
        touches: DirtyState::NOTHING,
        ends: "",
    },
];

impl Hold {
    /// The hold in words, for logs and errors.
    #[must_use]
    pub fn words(&self) -> Box<str> {
        if self.is_more {
            return self.what.clone();
        }
        format!("{} {}", self.kind.word(), self.what).into()
    }

    /// A hold without a mode.
    #[must_use]
    pub fn new(kind: Kind, what: &str) -> Self {
        Self { kind, what: what.into(), mode: None, is_more: false }
    }

    /// An advisory lock held in this mode.
    #[must_use]
    pub fn lock(key: &str, mode: Option<&str>) -> Self {
        Self { mode: mode.map(Box::from), ..Self::new(Kind::Lock, key) }
    }

    /// The entry that says that there are more of a kind than are listed.
    pub(super) fn more(kind: Kind) -> Self {
        Self { is_more: true, ..Self::new(kind, &format!("more than 1,000 {}", kind.many())) }
    }
}

/// How many holds of each kind are listed; a session may have a hundred thousand.
pub const PINS_MAX: usize = 1000;

// Holds that no server reports.
pub(super) const LIBRARY: (Kind, &str) = (Kind::Library, "loaded by LOAD");
pub(super) const UNTOLD: (Kind, &str) = (
    Kind::Setting,
    "of an unknown name: set_config whose first argument is not a literal, or a statement nested too deeply",
);
pub(super) const UNSEEN: (Kind, &str) = (Kind::Setting, "that a function may have changed (session_unseen)");
pub(super) const UNCOUNTED: (Kind, &str) =
    (Kind::Setting, "of an unknown name: more custom settings than are tracked, or a function nested too deeply");
pub(super) const TOO_MUCH: (Kind, &str) = (Kind::Setting, "values or statements of more than 64 kB");
pub(super) const TEMP_BUFFERS: (Kind, &str) =
    (Kind::Setting, "temp_buffers, which cannot be set in a session that has used temporary tables");
pub(super) const FOREIGN: (Kind, &str) = (Kind::Setting, "with a value that is not ASCII");

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(number: usize, since: u64) -> Pin {
        let hold = Hold::lock(&number.to_string(), Some("ExclusiveLock"));
        Pin { hold, since: Time(since), statement: "".into() }
    }

    #[test]
    fn more_than_a_thousand_of_a_kind_are_one_more() {
        let mut pins = Pins::default();
        (0..PINS_MAX).for_each(|number| pins.push(pin(number, 1)));
        assert!(!pins.has_room_for(Kind::Lock) && !pins.has_more(Kind::Lock) && pins.has_room_for(Kind::Cursor));
        (0..3 * PINS_MAX).for_each(|number| pins.push(pin(PINS_MAX + number, 2)));
        assert_eq!((pins.iter().count(), pins.of(Kind::Lock).count()), (PINS_MAX + 1, PINS_MAX + 1));
        let more = pins.of(Kind::Lock).last().expect("one");
        assert_eq!(&*more.hold.words(), "more than 1,000 session-level advisory locks");
        assert!(format!("more than {}", PINS_MAX) == more.hold.what.replace(',', "")[..14], "{:?}", more.hold.what);
        pins.retain(|hold| hold.is_more);
        assert!(pins.has_more(Kind::Lock) && !pins.has_room_for(Kind::Lock), "what is not listed is there still");
        pins.push(pin(7, 3));
        assert_eq!(pins.oldest().map(|pin| pin.since), Some(Time(2)));
        pins.retain(|hold| !hold.is_more);
        assert!(pins.has_room_for(Kind::Lock) && !pins.is_empty());
        assert_eq!(pins.remove(Kind::Lock), [pin(7, 3)]);
        assert!(pins.is_empty());
    }

    #[test]
    fn channels_are_known_whole() {
        let channel = |number: usize| Pin { hold: Hold::new(Kind::Channel, &number.to_string()), ..pin(0, 1) };
        let pins: Pins = (0..3 * PINS_MAX).map(channel).collect();
        assert!(pins.of(Kind::Channel).count() == 3 * PINS_MAX && pins.has_room_for(Kind::Channel));
    }

    #[test]
    fn what_is_new_is_found_behind_what_is_old() {
        let cursor = Pin { hold: Hold::new(Kind::Cursor, "c"), ..pin(0, 2) };
        let pins: Pins = [pin(3, 2), pin(1, 1), pin(1, 1), pin(2, 2), cursor.clone()].into_iter().collect();
        assert_eq!(pins.news(Time(2)).collect::<Vec<_>>(), [&pin(3, 2), &pin(2, 2), &cursor]);
        assert_eq!((pins.begun(Time(2)).collect::<Vec<_>>(), pins.news(Time(3)).count()), (vec![Kind::Cursor], 0));
        assert_eq!(pins.kinds().collect::<Vec<_>>(), [Kind::Lock, Kind::Cursor]);
        assert!(pins.meets(DirtyState::LOCKS) && !pins.meets(DirtyState::CHANNELS));
        assert_eq!(pins.oldest(), Some(&pin(1, 1)));
    }

    #[test]
    fn each_kind_has_its_own_words() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert_eq!(Kind::ALL.iter().filter(|other| other.short() == kind.short()).count(), 1);
        }
        assert_eq!((Kind::Library.ends_by(), Kind::Library.short()), ("disconnect", "library"));
        assert_eq!((Kind::Setting.ends_by(), Kind::Slot.touches()), ("DISCARD ALL", DirtyState::SLOTS));
    }
}
