//! What is known of the functions of a database.
//!
//! Always true: a function that is not among those that may change the session does not change it, as far as texts tell.
//! Not here: how that is read from the texts of functions (`functions`).

use std::collections::BTreeSet;

/// A user-defined function.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, as the catalog has it.
    pub name: &'a str,
    /// Whether its text is SQL or PL/pgSQL.
    pub is_readable: bool,
    /// Whether a trigger, a view or the like calls it.
    pub is_hidden: bool,
    /// Whether something other than a trigger calls it: then statements that only read may call it.
    pub is_in_queries: bool,
    /// Its text.
    pub text: &'a str,
}

/// Names of functions, as the catalog has them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Functions {
    names: BTreeSet<Box<[u8]>>,
    /// Whether one of them has a character beyond ASCII.
    has_foreign: bool,
    /// A bit for each length of a name, modulo 64.
    lengths: u64,
}

impl Functions {
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let names: BTreeSet<Box<[u8]>> = names.into_iter().map(Into::into).collect();
        let lengths = names.iter().fold(0, |lengths, name| lengths | 1 << (name.len() % 64));
        let has_foreign = names.iter().any(|name| !name.is_ascii());
        Self { names, has_foreign, lengths }
    }

    /// Whether this is one of the names. How a character beyond ASCII is folded, and in which encoding it comes, is up to
    /// the server: names with such characters all match.
    fn has(&self, name: &[u8]) -> bool {
        !self.names.is_empty() && if name.is_ascii() { self.names.contains(name) } else { self.has_foreign }
    }

    /// A bit for each length that a name may have, modulo 64.
    fn lengths(&self) -> u64 {
        if self.has_foreign { u64::MAX } else { self.lengths }
    }
}

/// Which statements may notify because of something behind their tables: a trigger, a rule, a view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Silent {
    /// None.
    #[default]
    Nothing,
    /// Statements that write.
    Writes,
    /// Statements that only read as well.
    Queries,
}

/// Which part of the functions of a database was not read, because it exceeds a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unread {
    /// Everything was read.
    #[default]
    Nothing,
    /// Some texts were not read: these functions may do anything.
    Some,
    /// Nothing was read: any statement may do anything.
    All,
}

/// What is known of the functions of a database: which of them may change the session, as far as their text tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Knowledge {
    pub(crate) suspects: Functions,
    /// Functions that may notify, including all suspects.
    pub(crate) notifiers: Functions,
    /// Which statements may notify without saying so.
    pub(crate) silent_notifiers: Silent,
    /// Custom settings (names with a dot) that their texts mention.
    pub(crate) settings: BTreeSet<Box<str>>,
    /// Whether a function has the name of one of PostgreSQL's own whose calls are read.
    pub(crate) has_namesakes: bool,
    /// Whether one of their texts may mention more settings.
    pub(crate) misses_settings: bool,
    /// Whether a suspect is called where no text of a client shows it: by a trigger, a view, a policy, an operator.
    pub(crate) is_hidden: bool,
    /// Whether a block whose effects cannot be read is taken to do nothing.
    pub(crate) is_trusting: bool,
    /// Which part of them was not read.
    pub(crate) unread: Unread,
}

impl Knowledge {
    /// These functions may change the session, and may notify; no others do.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, is_hidden: bool) -> Self {
        let suspects = Functions::new(names.into_iter().map(str::as_bytes));
        let silent_notifiers = if is_hidden { Silent::Queries } else { Silent::Nothing };
        Self { notifiers: suspects.clone(), suspects, silent_notifiers, is_hidden, ..Self::default() }
    }

    /// No function is known to change the session, and a block whose effects cannot be read is taken not to. Any
    /// statement may notify.
    #[must_use]
    pub fn trusting() -> Self {
        Self { is_trusting: true, silent_notifiers: Silent::Queries, ..Self::default() }
    }

    /// Knowledge of a database with more functions than are read, or whose functions mention each other too often: any
    /// statement that reads or writes a table may change the session, through settings of unknown names, and may notify.
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

    /// Which part of the functions was not read, because it exceeds a bound.
    #[must_use]
    pub fn unread(&self) -> Unread {
        self.unread
    }

    /// Custom settings (names with a dot) that the texts of functions mention.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|name| &**name)
    }

    /// Whether an unqualified `set_config`, `pg_advisory_lock` or the like may call a function of the database instead of
    /// PostgreSQL's own.
    #[must_use]
    pub fn has_namesakes(&self) -> bool {
        self.has_namesakes
    }

    /// Whether these may not be all: a function's text nests deeper than is read, or there are more settings, or
    /// functions, than are read. Then no probe can ask for everything that such functions have set.
    #[must_use]
    pub fn misses_settings(&self) -> bool {
        self.misses_settings
    }

    /// Whether a function of this name may change the session.
    #[must_use]
    pub fn suspects(&self, name: &[u8]) -> bool {
        self.suspects.has(name)
    }

    /// A bit for each length that the name of such a function may have, modulo 64.
    #[must_use]
    pub fn lengths(&self) -> u64 {
        self.suspects.lengths()
    }

    /// Whether a function of this name may notify.
    #[must_use]
    pub fn notifies(&self, name: &[u8]) -> bool {
        self.notifiers.has(name)
    }

    /// A bit for each length that the name of such a function may have, modulo 64.
    #[must_use]
    pub fn notifier_lengths(&self) -> u64 {
        self.notifiers.lengths()
    }

    /// Whether a statement that reads or writes tables may notify without saying so; this may be false for one that `only_reads`.
    #[must_use]
    pub fn notifies_silently(&self, only_reads: bool) -> bool {
        match self.silent_notifiers {
            Silent::Nothing => false,
            Silent::Writes => !only_reads,
            Silent::Queries => true,
        }
    }

    /// Whether a block whose effects cannot be read is taken to do nothing.
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
