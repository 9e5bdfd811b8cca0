//! What is known of the functions of a database.
//!
//! Always true: a function that is not among those that may change the session does not, as far as texts tell.
//! Not here: how that is read from their texts (`functions`).

use std::collections::BTreeSet;

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
