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
