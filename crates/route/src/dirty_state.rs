//! The state of a session that a statement may change beyond its transaction.
//!
//! Always true: a statement touches no more than is recorded for it here, and may touch less.
//! Not here: how it is read from the text (`classify`).

use std::ops::{BitOr, BitOrAssign};

/// A set of kinds of session state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DirtyState(u16);

impl DirtyState {
    /// Nothing that outlives the transaction.
    pub const NOTHING: Self = Self(0);
    /// Settings whose names stand in the text.
    pub const SETTINGS: Self = Self(1);
    /// Settings of any name.
    pub const ANY_SETTING: Self = Self(1 << 1);
    /// Session-level advisory locks.
    pub const LOCKS: Self = Self(1 << 2);
    /// Channels that are listened to.
    pub const CHANNELS: Self = Self(1 << 3);
    /// Temporary tables, and anything else in the temporary schema.
    pub const TEMPORARY: Self = Self(1 << 4);
    /// Cursors `WITH HOLD`.
    pub const CURSORS: Self = Self(1 << 5);
    /// Statements prepared by SQL.
    pub const STATEMENTS: Self = Self(1 << 6);
    /// Libraries that have been loaded.
    pub const LIBRARIES: Self = Self(1 << 7);
    /// Temporary replication slots.
    pub const SLOTS: Self = Self(1 << 8);
    /// The functions of the database, and what they do.
    pub const FUNCTIONS: Self = Self(1 << 9);
    /// A setting whose name stands in no text that was read.
    pub const UNTOLD: Self = Self(1 << 10);
    /// Everything else in the set may be touched by a function that is called, or by a block (`DO`).
    pub const CALLS: Self = Self(1 << 11);
    /// Functions, or objects that call them, are created, changed or dropped, visibly to other sessions.
    pub const MAKINGS: Self = Self(1 << 12);
    /// Anything that a server can be asked about: no query tells which libraries are loaded.
    pub const ANYTHING: Self = Self(((1 << 10) - 1) & !Self::LIBRARIES.0);

    /// Whether all of `other` is in it.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether some of `other` is in it.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// The union of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `DISCARD ALL` ends everything in it that is certain from a text: it unloads no library.
    #[must_use]
    pub fn is_discarded(self) -> bool {
        !self.has(Self::LIBRARIES)
    }

    /// The set without `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for DirtyState {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for DirtyState {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl std::fmt::Debug for DirtyState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            "settings",
            "any-setting",
            "locks",
            "channels",
            "temporary",
            "cursors",
            "statements",
            "libraries",
            "slots",
            "functions",
            "untold",
            "calls",
            "makings",
        ];
        let held = names.iter().enumerate().filter(|(place, _)| self.0 & 1 << place != 0).map(|(_, name)| *name);
        match *self {
            Self::NOTHING => f.write_str("nothing"),
            all if all.without(Self::CALLS) == Self::ANYTHING => f.write_str("anything"),
            _ => f.write_str(&held.collect::<Vec<_>>().join("+")),
        }
    }
}

/// The first OID of a user-defined function (`FirstNormalObjectId` in `access/transam.h`).
pub const FIRST_MADE: u32 = 16_384;

/// Whether a function of PostgreSQL's own, by its OID, touches nothing of the session (`pg_proc.dat`): it is neither
/// `set_config`, nor one of those that take and release advisory locks.
#[must_use]
pub fn is_tame(oid: u32) -> bool {
    oid < FIRST_MADE && oid != 2078 && !(2880..=2892).contains(&oid)
}
