//! What is known of a text of SQL: a summary that has a bound, however long the text is.
//!
//! Always true: what has no room in it may be anything.
//! Not here: how it is read from the text (`classify`).

use crate::act::{Act, Control, all_touched, names_bytes};
use crate::dirty_state::DirtyState;
use crate::lexer::{Dialect, Token};
use crate::mentions::Mentions;
use crate::sequences::Sequences;
use crate::shape::shape;
use crate::words::Words;

/// What a text does. However long the text is, it takes no more than [`Self::BYTES_MAX`]: a text with more statements, or that names or sets
/// more than has room there, is taken to do anything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Class {
    /// Statement by statement.
    pub acts: Box<[Act]>,
    /// All that they touch.
    pub touches: DirtyState,
    /// Settings with a dot in their names that the text mentions, if it touches anything.
    pub mentions: Box<[Box<str>]>,
    /// What it plainly takes hold of, by its own words.
    pub takes: DirtyState,
    /// Whether it changes what other texts mean, be it only until its transaction ends.
    pub sets_locally: bool,
    /// The names of prepared statements that it says.
    pub statements: Box<[Box<str>]>,
    /// What it does with the numbers that its session has drawn from sequences.
    pub sequences: Sequences,
    /// The text without its values, if it touches anything: for people.
    pub shape: Box<str>,
    /// Nobody has read all of it: it may also be the end of a transaction.
    pub is_unread: bool,
    /// Whether it may notify whoever listens (NOTIFY, `pg_notify`), by itself or by what it calls.
    pub notifies: bool,
}

impl Class {
    /// How many bytes it may have: those of its acts, of the settings that are mentioned, and of what people are shown.
    pub const BYTES_MAX: usize = ACTS_BYTES_MAX + MENTIONS_MAX * 256 + 2048;

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.acts_bytes() + names_bytes(&self.mentions) + self.shape.len()
    }

    /// How many bytes tell what its statements do.
    pub(crate) fn acts_bytes(&self) -> usize {
        self.acts.iter().map(Act::bytes).sum::<usize>() + names_bytes(&self.statements)
    }

    /// Of a text that nobody has read: it may do anything.
    #[must_use]
    pub fn unread() -> Self {
        Self::unread_with(DirtyState::NOTHING)
    }

    /// The same of one that plainly touches this besides.
    pub(crate) fn unread_with(more: DirtyState) -> Self {
        let touches = DirtyState::ANYTHING.with(more);
        Self { acts: [Act::other(touches)].into(), touches, is_unread: true, notifies: true, ..Self::default() }
    }

    /// Whether it takes back what was done in a transaction, or may.
    #[must_use]
    pub fn takes_back(&self) -> bool {
        let is_so = |act: &Act| matches!(act, Act::Transaction(Control::Rollback { .. } | Control::RollbackTo(_)));
        self.is_unread || self.acts.iter().any(is_so)
    }

    /// Whether nothing outlives its transaction.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        self.touches.is_nothing()
    }

    /// Adds what is of interest only in a text that touches something. A text that mentions more settings than are read, or goes deeper, may
    /// set those: who may have done so keeps the server, for nobody could ask for them.
    pub(crate) fn with_mentions(mut self, text: &[u8], tokens: &[Token], dialect: Dialect) -> Self {
        let mut mentions = Mentions::new(MENTIONS_MAX);
        mentions.read(&Words::new(text, tokens, dialect.encoding), dialect);
        if mentions.are_incomplete() {
            self.acts.iter_mut().for_each(Act::untell);
            self.touches = all_touched(&self.acts);
        }
        let names = mentions.into_names();
        Self { mentions: names.into_iter().collect(), shape: shape(text, tokens.iter().copied()), ..self }
    }
}

/// So many settings are kept that a text mentions.
const MENTIONS_MAX: usize = 256;
/// Names and values of so many bytes are kept of a text's statements.
pub(crate) const ACTS_BYTES_MAX: usize = 64 * 1024;
