//! Statements that create functions, or objects that call functions.
//!
//! Always true: a text that cannot be read counts as such a statement if it contains one of the verbs.
//! Not here: what functions do (`functions`), what follows from new ones.

use crate::dirty_state::DirtyState;
use crate::words::Words;

/// Whether what is created, changed or dropped is a function, or calls one; its kind stands here, or behind a word or two.
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

/// Whether a text may do so that cannot be read, or whose strings are executed.
pub(crate) fn makings_of(text: &[u8]) -> DirtyState {
    let mentions = |word: &str| text.windows(word.len()).any(|bytes| bytes.eq_ignore_ascii_case(word.as_bytes()));
    if MAKERS.iter().any(|word| mentions(word)) { DirtyState::MAKINGS } else { DirtyState::NOTHING }
}

/// The verbs that create, change and drop objects.
pub(crate) const MAKERS: [&str; 3] = ["create", "alter", "drop"];
/// Kinds of objects that call functions, or are functions.
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
