//! Which statements draw values from sequences, and which read the values that their session has drawn (`currval`, `lastval`).
//!
//! Always true: what functions and triggers do is left out; a statement that writes rows may draw values for their defaults.
//! Not here: what follows from it for a client and its servers (`protocol::state`).

use crate::name_filter::NameFilter;
use crate::words::Words;

/// What a text does with the sequence values of its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sequences {
    /// It may draw values.
    pub are_drawn: bool,
    /// It reads values that were drawn before it.
    pub are_read: bool,
}

impl Sequences {
    /// A statement that creates rows, and does not mention sequences.
    pub(crate) const DRAWN: Self = Self { are_drawn: true, are_read: false };

    /// What two statements do, one after the other: what the second reads may have been drawn by the first.
    pub(crate) fn and_then(self, next: Self) -> Self {
        Self {
            are_drawn: self.are_drawn || next.are_drawn,
            are_read: self.are_read || next.are_read && !self.are_drawn,
        }
    }

    /// Whether it does neither.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// What a statement does with sequence values.
pub(crate) fn of(words: &Words<'_>) -> Sequences {
    let mut are_drawn = words.is_one_of(0, &["copy", "call", "do", "execute"]);
    let (mut are_named, mut are_read) = (false, false);
    for at in words.places(may_concern) {
        match Word::read(words.bare(at)) {
            Some(Word::Makes) => are_drawn = true,
            Some(Word::Draws) => are_named = true,
            Some(Word::Reads) => are_read = true,
            None => {}
        }
    }
    Sequences { are_drawn: are_drawn || are_named, are_read: are_read && !are_named }
}

/// Whether a word or a name matters here.
pub(crate) fn concerns(word: &[u8]) -> bool {
    may_concern(word[0], word.len()) && Word::read(word).is_some()
}

/// A word that matters here.
#[derive(Clone, Copy)]
enum Word {
    /// It creates rows, whose defaults may be drawn.
    Makes,
    Draws,
    Reads,
}

impl Word {
    fn read(word: &[u8]) -> Option<Self> {
        let known = WORDS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known));
        known.map(|(_, meaning)| *meaning)
    }
}

/// Whether a word with this first byte and length may be one of them.
fn may_concern(first: u8, length: usize) -> bool {
    FILTER.passes(first, length)
}

/// Which words may be one of them.
pub(crate) static FILTER: NameFilter = {
    let (mut filter, mut at) = (NameFilter::NONE, 0);
    while at < WORDS.len() {
        filter = filter.with(WORDS[at].0);
        at += 1;
    }
    filter
};

const WORDS: [(&[u8], Word); 6] = [
    (b"insert", Word::Makes),
    (b"merge", Word::Makes),
    (b"nextval", Word::Draws),
    (b"setval", Word::Draws),
    (b"currval", Word::Reads),
    (b"lastval", Word::Reads),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, Knowledge, classify};

    #[test]
    fn what_is_drawn_and_what_is_read_is_told_by_the_text() {
        for (text, are_drawn, are_read) in [
            ("select 1", false, false),
            ("insert into t values (1)", true, false),
            ("INSERT INTO t DEFAULT VALUES RETURNING id", true, false),
            ("with x as (insert into t default values returning id) select * from x", true, false),
            ("merge into t using s on t.a = s.a when not matched then insert values (1)", true, false),
            ("copy t from stdin", true, false),
            ("call p()", true, false),
            ("select nextval('s')", true, false),
            ("select pg_catalog.setval('s', 7)", true, false),
            ("select lastval()", false, true),
            ("SELECT CURRVAL('t_id_seq')", false, true),
            ("select \"currval\"('s')", false, true),
            ("select currval(pg_get_serial_sequence('t', 'id'))", false, true),
            ("insert into u values (currval('t_id_seq'))", true, true),
            ("select nextval('s'), currval('s')", true, false),
            ("insert into t default values; select lastval()", true, false),
            ("select lastval(); insert into t default values", true, true),
            ("begin", false, false),
            ("update t set a = 1", false, false),
            ("select 'lastval()'", false, false),
            ("select 1 -- nextval", false, false),
        ] {
            let class = classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default()));
            assert_eq!(class.sequences, Sequences { are_drawn, are_read }, "{text}");
        }
    }
}
