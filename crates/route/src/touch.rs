//! What of a session a statement may change that outlives its transaction.
//!
//! Always true: a statement touches at least what is said of it here, and may touch less.
//! Not here: how it is read from the text (`classify`).

use std::collections::BTreeSet;
use std::ops::{BitOr, BitOrAssign};

use crate::functions::{FUNCTIONS_MAX, Reading};

/// A set of kinds of session state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Touches(u16);

impl Touches {
    /// Nothing that outlives the transaction.
    pub const NOTHING: Self = Self(0);
    /// Settings whose names the text tells.
    pub const SETTINGS: Self = Self(1);
    /// Settings of any name.
    pub const ANY_SETTING: Self = Self(1 << 1);
    /// Advisory locks of the session.
    pub const LOCKS: Self = Self(1 << 2);
    /// Channels that are listened to.
    pub const CHANNELS: Self = Self(1 << 3);
    /// Temporary tables, and whatever else stands in the temporary schema.
    pub const TEMPORARY: Self = Self(1 << 4);
    /// Cursors `WITH HOLD`.
    pub const CURSORS: Self = Self(1 << 5);
    /// Statements prepared by SQL.
    pub const STATEMENTS: Self = Self(1 << 6);
    /// Libraries that have been loaded.
    pub const LIBRARIES: Self = Self(1 << 7);
    /// Temporary replication slots.
    pub const SLOTS: Self = Self(1 << 8);
    /// Which functions there are, and what they do.
    pub const FUNCTIONS: Self = Self(1 << 9);
    /// A setting whose name nobody has told: it stands in no text.
    pub const UNTOLD: Self = Self(1 << 10);
    /// What else is touched may be so by a function that is called, or by a block (`DO`).
    pub const CALLS: Self = Self(1 << 11);
    /// Functions, or what calls them, are made, changed or dropped, for others to see.
    pub const MAKINGS: Self = Self(1 << 12);
    /// Anything at all, as far as there is something to ask about: nobody can tell which libraries are loaded.
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

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// It without what is in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Touches {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for Touches {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl std::fmt::Debug for Touches {
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

/// The first number of a function that somebody has made (`FirstNormalObjectId` in `access/transam.h`).
pub const FIRST_MADE: u32 = 16_384;

/// Whether a function of PostgreSQL's own, by its number, touches nothing of the session (`pg_proc.dat`): it is neither `set_config`, nor one of
/// those that lock and unlock.
#[must_use]
pub fn is_tame(oid: u32) -> bool {
    oid < FIRST_MADE && oid != 2078 && !(2880..=2892).contains(&oid)
}

/// A function that somebody has made.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, as the catalog has it.
    pub name: &'a str,
    /// Whether its text is SQL or PL/pgSQL.
    pub is_readable: bool,
    /// Whether a trigger, a view or the like calls it.
    pub is_hidden: bool,
    /// Whether something other than triggers does: then statements that only read may call it.
    pub is_in_queries: bool,
    /// Its text.
    pub text: &'a str,
}

/// Names of functions, as the catalog has them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Functions {
    names: BTreeSet<Box<[u8]>>,
    /// Whether one of them is not all ASCII.
    has_foreign: bool,
    /// A bit for each length that one of them has.
    lengths: u64,
}

impl Functions {
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let names: BTreeSet<Box<[u8]>> = names.into_iter().map(Into::into).collect();
        let lengths = names.iter().fold(0, |lengths, name| lengths | 1 << (name.len() % 64));
        let has_foreign = names.iter().any(|name| !name.is_ascii());
        Self { names, has_foreign, lengths }
    }

    /// How a letter beyond ASCII is made small, and in which encoding it comes, is the server's business: names with such letters are all
    /// alike.
    fn has(&self, name: &[u8]) -> bool {
        !self.names.is_empty() && if name.is_ascii() { self.names.contains(name) } else { self.has_foreign }
    }

    /// A bit for each length that one of them may have, from 0 to 63.
    fn lengths(&self) -> u64 {
        if self.has_foreign { u64::MAX } else { self.lengths }
    }
}

/// Which statements may notify because something behind their tables does: a trigger, a rule, a view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Silent {
    /// None.
    #[default]
    Nothing,
    /// Those that write.
    Writes,
    /// Those that read, too.
    Queries,
}

/// What of the functions of a database has not been read, since they go beyond a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unread {
    /// All has been read.
    #[default]
    Nothing,
    /// Some texts have not: these functions may do anything.
    Some,
    /// Nothing has: any statement may do anything.
    All,
}

/// What is known of the functions of a database: which of them may change the session, as far as their text tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Knowledge {
    pub(crate) suspects: Functions,
    /// Those that may notify, among them all suspects.
    pub(crate) notifiers: Functions,
    /// Which statements may notify without saying so.
    pub(crate) silent_notifiers: Silent,
    /// Settings with a dot in their names that their texts mention.
    pub(crate) settings: BTreeSet<Box<str>>,
    /// Whether one has the name of a function of PostgreSQL's own whose calls are read.
    pub(crate) has_namesakes: bool,
    /// Whether one of their texts may mention more of them.
    pub(crate) misses_settings: bool,
    /// Whether one of them is called where no text of a client says so: by a trigger, a view, a policy, an operator.
    pub(crate) is_hidden: bool,
    /// Whether a block that does not tell what it does is taken to do nothing.
    pub(crate) is_trusting: bool,
    /// How much of them has not been read.
    pub(crate) unread: Unread,
}

impl Knowledge {
    /// Of these functions it is known that they may change the session, and may notify; of all others that they do not.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, is_hidden: bool) -> Self {
        let suspects = Functions::new(names.into_iter().map(str::as_bytes));
        let silent_notifiers = if is_hidden { Silent::Queries } else { Silent::Nothing };
        Self { notifiers: suspects.clone(), suspects, silent_notifiers, is_hidden, ..Self::default() }
    }

    /// No function is known to change the session, and whatever does not tell is taken not to. Any may notify.
    #[must_use]
    pub fn trusting() -> Self {
        Self { is_trusting: true, silent_notifiers: Silent::Queries, ..Self::default() }
    }

    /// Of a database with more functions than are read, or that mention each other too often: any statement that reads or writes a table may
    /// change the session, by settings that nobody has named, and may notify.
    pub(crate) fn overfull() -> Self {
        let (silent_notifiers, unread) = (Silent::Queries, Unread::All);
        Self {
            silent_notifiers,
            unread,
            has_namesakes: true,
            misses_settings: true,
            is_hidden: true,
            ..Self::default()
        }
    }

    /// What these functions do. A server tells of its functions one by one: [`Reading`].
    pub fn read<'a>(sources: impl Iterator<Item = Source<'a>>) -> Self {
        let sources: Vec<Source<'a>> = sources.take(FUNCTIONS_MAX + 1).collect();
        let mut reading = Reading::default();
        sources.iter().for_each(|source| reading.name(source.name));
        sources.into_iter().for_each(|source| reading.add(source));
        reading.end()
    }

    /// How much of the functions has not been read, since they go beyond a bound.
    #[must_use]
    pub fn unread(&self) -> Unread {
        self.unread
    }

    /// Settings with a dot in their names that the texts of functions mention.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|name| &**name)
    }

    /// Whether a function of the database may be called by an unqualified `set_config`, `pg_advisory_lock` or the like, instead of PostgreSQL's own.
    #[must_use]
    pub fn has_namesakes(&self) -> bool {
        self.has_namesakes
    }

    /// Whether these may not be all: a function's text goes deeper than it is read, or there are more of them, or of functions. Then nobody can ask for whatever such functions have set.
    #[must_use]
    pub fn misses_settings(&self) -> bool {
        self.misses_settings
    }

    /// Whether a function of this name may change the session.
    #[must_use]
    pub fn suspects(&self, name: &[u8]) -> bool {
        self.suspects.has(name)
    }

    /// A bit for each length that one of them may have, from 0 to 63.
    #[must_use]
    pub fn lengths(&self) -> u64 {
        self.suspects.lengths()
    }

    /// Whether a function of this name may notify.
    #[must_use]
    pub fn notifies(&self, name: &[u8]) -> bool {
        self.notifiers.has(name)
    }

    /// A bit for each length that one of those may have, from 0 to 63.
    #[must_use]
    pub fn notifier_lengths(&self) -> u64 {
        self.notifiers.lengths()
    }

    /// Whether a statement that reads or writes tables may notify without saying so; one that only reads may be spared.
    #[must_use]
    pub fn notifies_silently(&self, only_reads: bool) -> bool {
        match self.silent_notifiers {
            Silent::Nothing => false,
            Silent::Writes => !only_reads,
            Silent::Queries => true,
        }
    }

    /// Whether a block that does not tell what it does is taken to do nothing.
    #[must_use]
    pub fn is_trusting(&self) -> bool {
        self.is_trusting
    }

    /// Whether any statement that reads or writes a table may change the session.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.is_hidden
    }
}
