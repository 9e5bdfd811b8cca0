//! How a text of SQL is shown to people.
//!
//! Always true: no value of the text is shown, for it may be a secret; what is shown is short, however long the text is.
//! Not here: what the text does (`classify`).

use crate::lexer::{Dialect, Kind, Lexer, Token};

/// A text as a person may see it: without its values, which may be secrets, without comments, and short. Statements that differ in
/// their values only have the same.
#[must_use]
pub fn shape_of(text: &[u8], dialect: Dialect) -> Box<str> {
    shape(text, Lexer::new(text, dialect))
}

/// Whether a text seems to change or lock rows or tables, so that it may wait until another transaction ends. For people who wonder what it waits for:
/// nothing is decided by it.
#[must_use]
pub fn may_lock(text: &[u8]) -> bool {
    let mut words = Lexer::new(text, Dialect::default()).filter(|token| token.kind == Kind::Word);
    let is = |token: &Token, word: &str| text[token.range()].eq_ignore_ascii_case(word.as_bytes());
    let Some(first) = words.next() else { return false };
    if LOCKING_VERBS.iter().any(|verb| is(&first, verb)) {
        return true;
    }
    let mut is_behind_for = false;
    for word in words.take(WORDS_LOOKED_AT) {
        if is_behind_for && (is(&word, "update") || is(&word, "share") || is(&word, "no") || is(&word, "key")) {
            return true;
        }
        is_behind_for = is(&word, "for");
    }
    false
}

const LOCKING_VERBS: [&str; 14] = [
    "update", "delete", "insert", "merge", "lock", "alter", "drop", "truncate", "create", "reindex", "cluster",
    "vacuum", "refresh", "comment",
];
/// As many words are looked at behind the first.
const WORDS_LOOKED_AT: usize = 200;

pub(crate) fn shape(text: &[u8], tokens: impl Iterator<Item = Token>) -> Box<str> {
    let mut shape = String::new();
    let mut end = 0;
    for token in tokens {
        if shape.len() >= SHAPE_BYTES_MAX || token.kind == Kind::Broken {
            shape.push_str("...");
            break;
        }
        let range = token.range();
        if range.start > end && end > 0 {
            shape.push(' ');
        }
        end = range.end;
        match token.kind {
            Kind::Word | Kind::Quoted | Kind::QuotedUnicode | Kind::Symbol | Kind::Parameter => {
                // A word may be as long as a message.
                let shown = range.start..range.end.min(range.start + SHAPE_BYTES_MAX);
                shape.push_str(&String::from_utf8_lossy(&text[shown]));
            }
            _ => shape.push('?'),
        }
    }
    shape.into()
}

/// Of a text, about so much is shown to people.
const SHAPE_BYTES_MAX: usize = 160;
