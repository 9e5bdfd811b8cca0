//! What the body of a function or a block may do when it is executed.
//!
//! Always true: a body that may execute a text that is not part of it touches anything.
//! Not here: what calls it (`functions`, `classify`).

use crate::lexer::Kind;
use crate::words::Words;

/// Whether a body executes a text that is not part of it, or has a statement that touches the session.
pub(crate) fn is_dark(words: &Words<'_>) -> bool {
    (0..words.end()).any(|at| match words.kind(at) {
        Some(Kind::Broken | Kind::QuotedUnicode) => true,
        Some(Kind::Word) => {
            words.is(at, "execute")
                || words.is_one_of(at, &COMMANDS) && begins(words, at)
                || words.is_one_of(at, &["temp", "temporary"]) && at > 0 && words.is_one_of(at - 1, &MAKERS)
        }
        _ => false,
    })
}

/// Whether a statement begins here: at the beginning, behind another one, or behind a word that precedes statements.
fn begins(words: &Words<'_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    words.is_symbol(before, b";")
        || words.is_symbol(before, b">>")
        || words.is_one_of(before, &["begin", "then", "else", "loop", "atomic"])
}

/// Statements that touch the session.
const COMMANDS: [&str; 9] = ["set", "reset", "discard", "listen", "unlisten", "load", "prepare", "deallocate", "do"];
/// Words in front of `TEMP` where something temporary is created.
const MAKERS: [&str; 7] = ["create", "local", "global", "replace", "or", "into", "unlogged"];
