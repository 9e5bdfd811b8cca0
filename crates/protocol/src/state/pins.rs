//! What keeps a server for one client: what it holds there, since when, and what ends that.
//!
//! Always true: a pin is there until a server has told that it is gone, or nobody can have it any more.
//! Not here: how it is found (`look`), what may have made it (`traces`).

use base::Time;
use route::Touches;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::vars::push_literal;

/// What a session has that only this one server has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// Of which kind.
    pub kind: Kind,
    /// Which one, in words.
    pub what: Box<str>,
    /// The mode of a lock, as `pg_locks` has it.
    pub mode: Option<Box<str>>,
}

/// A hold with its story.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// What is held.
    pub hold: Hold,
    /// Since when that is known.
    pub since: Time,
    /// The statement that did it, without its values; empty if nobody has read it.
    pub statement: Box<str>,
}

/// The kinds of what is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// An advisory lock of the session.
    Lock,
    /// LISTEN.
    Channel,
    /// A temporary table, or what else stands in the temporary schema.
    Temporary,
    /// A cursor `WITH HOLD`.
    Cursor,
    /// A statement prepared by SQL.
    Statement,
    /// A library, by LOAD.
    Library,
    /// A temporary replication slot.
    Slot,
    /// A setting whose value cannot be carried to another server.
    Setting,
    /// What it has drawn from sequences, for `currval` and `lastval`.
    Sequence,
    /// Its state could not be read.
    Unknown,
}

/// What is to be said of each kind.
struct Words {
    /// In logs and errors.
    long: &'static str,
    /// In tables and settings.
    short: &'static str,
    touches: Touches,
    /// In errors, all of them.
    many: &'static str,
    /// What a program may use instead.
    instead: &'static str,
    /// The SQL that ends it, beside a client's leaving; empty if there is none.
    ends: &'static str,
}

impl Kind {
    /// All of them.
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

    /// What touches it, so that a question about that tells whether it is there still; nothing for what no server can tell.
    #[must_use]
    pub fn touches(self) -> Touches {
        self.words().touches
    }

    /// In the words of the log.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.words().long
    }

    /// In one word, for tables.
    #[must_use]
    pub fn short(self) -> &'static str {
        self.words().short
    }

    /// All of them, in the words of errors.
    #[must_use]
    pub fn many(self) -> &'static str {
        self.words().many
    }

    /// What a program may use instead, for a hint.
    #[must_use]
    pub fn instead(self) -> &'static str {
        self.words().instead
    }

    /// The kind that a statement takes hold of by its own words.
    pub fn taken(takes: Touches) -> impl Iterator<Item = Self> {
        let is_taken = move |kind: &Self| match kind {
            Self::Library => takes.has(Touches::LIBRARIES),
            kind => takes.meets(kind.touches()),
        };
        Self::ALL.into_iter().filter(is_taken)
    }

    /// SQL that fails with the words of [`Fault::HoldRefused`](crate::fault::Fault::HoldRefused), in the place of a statement.
    #[must_use]
    pub fn refusal(self) -> String {
        let verdict = Fault::HoldRefused { kind: self }.verdict();
        let mut sql = String::from("DO $$BEGIN RAISE EXCEPTION USING ERRCODE=");
        push_literal(&mut sql, &verdict.sqlstate);
        sql.push_str(",MESSAGE=");
        push_literal(&mut sql, &verdict.text);
        sql.push_str(",HINT=");
        push_literal(&mut sql, &verdict.hint.unwrap_or_default());
        sql.push_str(";END$$");
        sql
    }

    /// The SQL that ends it; `disconnect` where only that does.
    #[must_use]
    pub fn ends_by(self) -> &'static str {
        let ends = self.words().ends;
        if ends.is_empty() { "disconnect" } else { ends }
    }

    /// Whether `DISCARD ALL` ends it.
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
        touches: Touches::LOCKS,
        ends: "pg_advisory_unlock, pg_advisory_unlock_all",
    },
    Words {
        long: "LISTEN",
        many: "LISTEN commands",
        instead: "Listen on a connection of session pooling, or directly.",
        short: "listen",
        touches: Touches::CHANNELS,
        ends: "UNLISTEN",
    },
    Words {
        long: "temporary object",
        many: "temporary tables, views and sequences",
        instead: "Create a table with ON COMMIT DROP, within a transaction.",
        short: "temporary",
        touches: Touches::TEMPORARY,
        ends: "DROP, DISCARD TEMP",
    },
    Words {
        long: "cursor WITH HOLD",
        many: "cursors WITH HOLD",
        instead: "Read the cursor within its transaction.",
        short: "cursor",
        touches: Touches::CURSORS,
        ends: "CLOSE",
    },
    Words {
        long: "statement prepared by SQL",
        many: "statements prepared by SQL",
        instead: "Prepare by the protocol, as drivers do; that works here.",
        short: "statement",
        touches: Touches::STATEMENTS,
        ends: "DEALLOCATE",
    },
    Words {
        long: "library",
        many: "LOAD commands",
        instead: "Name the library in session_preload_libraries.",
        short: "library",
        touches: Touches::NOTHING,
        ends: "",
    },
    Words {
        long: "temporary replication slot",
        many: "temporary replication slots",
        instead: "Use a slot that is not temporary.",
        short: "slot",
        touches: Touches::SLOTS,
        ends: "pg_drop_replication_slot",
    },
    Words {
        long: "setting",
        many: "settings that cannot follow their client",
        instead: "Name the setting in the text of the statement.",
        short: "setting",
        touches: Touches::NOTHING,
        ends: "DISCARD ALL",
    },
    Words {
        long: "numbers of sequences",
        many: "currval and lastval in another transaction than what they tell of",
        instead: "Use INSERT ... RETURNING.",
        short: "sequence",
        touches: Touches::NOTHING,
        ends: "currval, lastval; or sequence_hold_time",
    },
    Words {
        long: "unknown state",
        many: "sessions whose state cannot be read",
        instead: "Look in the log of the server for why it could not answer.",
        short: "unknown",
        touches: Touches::NOTHING,
        ends: "",
    },
];

impl Hold {
    /// In the words of logs and errors.
    #[must_use]
    pub fn words(&self) -> Box<str> {
        format!("{} {}", self.kind.word(), self.what).into()
    }

    fn new(kind: Kind, what: &str) -> Self {
        Self { kind, what: what.into(), mode: None }
    }

    pub(super) fn library() -> Self {
        Self::new(Kind::Library, "LOAD")
    }

    pub(super) fn untold() -> Self {
        Self::new(Kind::Setting, "set_config of a name that is no literal, or a text that goes too deep")
    }

    pub(super) fn unseen() -> Self {
        Self::new(Kind::Setting, "whatever a function may have changed (session_unseen)")
    }

    pub(super) fn uncounted() -> Self {
        Self::new(
            Kind::Setting,
            "there are more settings with a dot than are followed, or a function that goes too deep",
        )
    }

    pub(super) fn too_much() -> Self {
        Self::new(Kind::Setting, "more than 64 kB of settings or statements")
    }

    pub(super) fn temp_buffers() -> Self {
        Self::new(Kind::Setting, "temp_buffers, which no server takes that has had temporary tables")
    }

    pub(super) fn foreign() -> Self {
        Self::new(Kind::Setting, "a value beyond ASCII")
    }

    pub(super) fn numbers() -> Self {
        Self::new(Kind::Sequence, "for currval and lastval")
    }

    pub(super) fn unknown() -> Self {
        Self::new(Kind::Unknown, "it cannot be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_words() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert_eq!(Kind::ALL.iter().filter(|other| other.short() == kind.short()).count(), 1);
        }
        assert_eq!((Kind::Library.ends_by(), Kind::Library.short()), ("disconnect", "library"));
        assert_eq!((Kind::Setting.ends_by(), Kind::Slot.touches()), ("DISCARD ALL", Touches::SLOTS));
    }
}
