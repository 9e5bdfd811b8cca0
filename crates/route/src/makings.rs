//! Statements that make functions, or what calls them.
//!
//! Always true: a text that cannot be read makes them if it has a word for that.
//! Not here: what functions do (`functions`), what follows from new ones.

use crate::dirty_state::DirtyState;
use crate::words::Words;

/// Whether what is made, changed or dropped is a function, or what calls one; its kind stands here, or behind a word or two.
pub(crate) fn is_behaviour(words: &Words<'_>, at: usize) -> bool {
    (at..at + 3).any(|at| words.is_one_of(at, &BEHAVIOUR))
}

/// Whether a statement of a block does so.
pub(crate) fn makes_behaviour(words: &Words<'_>) -> bool {
    (0..words.end()).any(|at| {
        let kind = if words.is(at + 1, "or") { at + 3 } else { at + 1 };
        words.is_one_of(at, &MAKERS) && is_behaviour(words, kind)
    })
}

/// Whether a text may do so that nobody can read, or whose strings are executed.
pub(crate) fn makings_of(text: &[u8]) -> DirtyState {
    let mentions = |word: &str| text.windows(word.len()).any(|bytes| bytes.eq_ignore_ascii_case(word.as_bytes()));
    if MAKERS.iter().any(|word| mentions(word)) { DirtyState::MAKINGS } else { DirtyState::NOTHING }
}

/// What makes, changes and drops something.
pub(crate) const MAKERS: [&str; 3] = ["create", "alter", "drop"];
/// What is made or changed that calls functions, or is one.
const BEHAVIOUR: [&str; 16] = [
    "function",
    "procedure",
    "routine",
    "aggregate",
    "extension",
    "trigger",
    "event",
    "view",
    "rule",
    "policy",
    "operator",
    "cast",
    "domain",
    "type",
    "schema",
    "owned",
];
