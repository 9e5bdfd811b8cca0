//! Where the statements of a text end.
//!
//! Always true: a semicolon within parentheses ends nothing, because a rule may have several commands.
//! Not here: what the statements do (`classify`).

use std::ops::Range;

use crate::lexer::{Dialect, Kind, Lexer, Token};

/// The tokens of a text, and where its statements end.
pub(crate) struct Split {
    pub(crate) tokens: Vec<Token>,
    /// The positions of the semicolons; one more statement may stand behind the last.
    ends: Vec<usize>,
    /// The tokens alone do not tell what the text does.
    pub(crate) is_dark: bool,
}

impl Split {
    pub(crate) fn of(text: &[u8], dialect: Dialect) -> Self {
        let mut tokens: Vec<Token> = Vec::with_capacity(text.len() / 4 + 4);
        // The ends of statements; a rule may have several commands, in parentheses.
        let (mut ends, mut depth) = (Vec::new(), 0_i32);
        let mut is_dark = false;
        for token in Lexer::new(text, dialect) {
            match token.kind {
                Kind::Symbol => match text[token.range().start] {
                    b'(' => depth += 1,
                    b')' => depth -= 1,
                    b';' if depth <= 0 => {
                        ends.push(tokens.len());
                        depth = 0;
                    }
                    _ => {}
                },
                // The body of a function may be a sequence of statements, `BEGIN ATOMIC`. To find its end takes more than
                // single tokens.
                Kind::Word if token.range().len() == 6 && text[token.range()].eq_ignore_ascii_case(b"atomic") => {
                    let first = tokens.get(ends.last().map_or(0, |end| end + 1));
                    is_dark |= first.is_some_and(|first| text[first.range()].eq_ignore_ascii_case(b"create"));
                }
                Kind::Broken | Kind::QuotedUnicode => is_dark = true,
                _ => {}
            }
            tokens.push(token);
        }
        Self { tokens, ends, is_dark }
    }

    /// The positions of each statement's tokens; no statement is empty.
    pub(crate) fn statements(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        let ends = self.ends.iter().copied().chain([self.tokens.len()]);
        let ranges = ends.map(move |end| std::mem::replace(&mut start, end + 1)..end);
        ranges.filter(|range| range.start < range.end)
    }
}
