//! What is known of an SQL text: a summary of bounded size, however long the text is.
//!
//! Always true: what has no room in the summary may be anything.
//! Not here: how it is read from the text (`classify`).

use crate::act::{Act, Control, all_touched, names_bytes};
use crate::dirty_state::DirtyState;
use crate::lexer::{Dialect, Token};
use crate::mentions::Mentions;
use crate::sequences::Sequences;
use crate::shape::shape;
use crate::words::Words;

/// What a text does. It takes no more than [`Self::BYTES_MAX`], however long the text is: a text with more statements,
/// names or settings than have room is taken to do anything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Class {
    /// What each statement does, in order.
    pub acts: Box<[Act]>,
    /// Everything that they touch.
    pub touches: DirtyState,
    /// Custom settings (names with a dot) that the text mentions, if it touches anything.
    pub mentions: Box<[Box<str>]>,
    /// The state that it plainly takes hold of, by its own words.
    pub takes: DirtyState,
    /// Whether it changes how other texts are read, even if only until its transaction ends.
    pub sets_locally: bool,
    /// The names of prepared statements that it mentions.
    pub statements: Box<[Box<str>]>,
    /// What it does with the sequence values of its session.
    pub sequences: Sequences,
    /// The text without its values, for display, if it touches anything.
    pub shape: Box<str>,
    /// Not all of it was read: it may also be the end of a transaction.
    pub is_unread: bool,
    /// Whether it may send notifications (NOTIFY, `pg_notify`), by itself or through what it calls.
    pub notifies: bool,
}

impl Class {
    /// The largest size in bytes: of its acts, the settings that are mentioned, and the text for display.
    pub const BYTES_MAX: usize = ACTS_BYTES_MAX + MENTIONS_MAX * 256 + 2048;

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.acts_bytes() + names_bytes(&self.mentions) + self.shape.len()
    }

    /// The size in bytes of what its statements do.
    pub(crate) fn acts_bytes(&self) -> usize {
        self.acts.iter().map(Act::bytes).sum::<usize>() + names_bytes(&self.statements)
    }

    /// The class of a text that was not read: it may do anything.
    #[must_use]
    pub fn unread() -> Self {
        Self::unread_with(DirtyState::NOTHING)
    }

    /// The class of a text that was not read, and plainly touches `more`: it may do anything besides.
    pub(crate) fn unread_with(more: DirtyState) -> Self {
        let touches = DirtyState::ANYTHING.with(more);
        Self { acts: [Act::other(touches)].into(), touches, is_unread: true, notifies: true, ..Self::default() }
    }

    /// Whether it rolls back a transaction or a part of one, or may do so.
    #[must_use]
    pub fn may_roll_back(&self) -> bool {
        let is_so = |act: &Act| matches!(act, Act::Transaction(Control::Rollback { .. } | Control::RollbackTo(_)));
        self.is_unread || self.acts.iter().any(is_so)
    }

    /// Whether it leaves nothing that outlives its transaction.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        self.touches.is_nothing()
    }

    /// Whether a single statement returns no rows, so that it is done when it has been executed, however few rows were asked for.
    /// False where that is not known: a SELECT returns rows, whatever it does besides.
    #[must_use]
    pub fn returns_no_rows(&self) -> bool {
        let first = self.shape.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        ["set", "reset", "discard", "deallocate", "prepare", "unlisten"]
            .iter()
            .any(|verb| verb.eq_ignore_ascii_case(first))
    }

    /// Adds what matters only in a text that touches something. A text that mentions more settings than are read, or
    /// nests deeper, may set those: a client that may have done so keeps the server, because no probe could ask for them.
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

/// How many settings are kept that a text mentions.
const MENTIONS_MAX: usize = 256;
/// How many bytes of names and values are kept of a text's statements.
pub(crate) const ACTS_BYTES_MAX: usize = 64 * 1024;
