//! Where the statements of a text end.
//!
//! Always true: a semicolon within parentheses ends nothing, because a rule may have several commands.
//! Not here: what the statements do (`classify`).

use std::ops::Range;

use crate::lexer::{Dialect, Encoding, Kind, Lexer, Token};

/// Why it is not known where the statements of a text begin and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsplit {
    /// The text cannot be read to its end: a quote or a comment does not end.
    Broken,
    /// The text can be read in several ways, depending on settings of the session, or it creates a function or a rule of
    /// several statements.
    Unclear,
}

/// Where each statement of a text stands, without its semicolon, in whatever session it is executed. A text without a
/// statement has none.
///
/// # Errors
/// That is not known.
pub fn statements(text: &[u8]) -> Result<Vec<Range<usize>>, Unsplit> {
    let read = |dialect| {
        let split = Split::of(text, dialect);
        if split.tokens.iter().any(|token| token.kind == Kind::Broken) {
            return Err(Unsplit::Broken);
        }
        if split.is_dark {
            return Err(Unsplit::Unclear);
        }
        let whole = |at: Range<usize>| split.tokens[at.start].range().start..split.tokens[at.end - 1].range().end;
        Ok(split.statements().map(whole).collect::<Vec<_>>())
    };
    let usual = read(Dialect::default())?;
    let is_plain = text.iter().all(|byte| byte.is_ascii() && *byte != b'\\');
    let others = [Encoding::Safe, Encoding::Sjis, Encoding::Pairs, Encoding::Gb18030]
        .into_iter()
        .flat_map(|encoding| [false, true].map(|backslashes| Dialect { encoding, backslashes }));
    let is_clear = is_plain || others.map(read).all(|other| other.as_ref() == Ok(&usual));
    if is_clear { Ok(usual) } else { Err(Unsplit::Unclear) }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<Vec<&str>, Unsplit> {
        statements(text.as_bytes()).map(|found| found.into_iter().map(|at| &text[at]).collect())
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_literals_and_comments() {
        assert_eq!(split("DISCARD ALL; LOAD 'login_hook';"), Ok(vec!["DISCARD ALL", "LOAD 'login_hook'"]));
        assert_eq!(
            split(" select ';' /* ; */ ;; -- a; b\n;\"a;b\"; $$;$$ "),
            Ok(vec!["select ';'", "\"a;b\"", "$$;$$"])
        );
        assert_eq!(
            split("create rule r as on insert to t do (delete from a; delete from b); x").map(|all| all.len()),
            Ok(2)
        );
        assert_eq!(split(" ; /* nothing */ "), Ok(vec![]));
    }

    #[test]
    fn what_does_not_end_is_broken() {
        for text in ["discard all; select 'a", "discard all /* b", "$$ ;", "\"a;"] {
            assert_eq!(split(text), Err(Unsplit::Broken), "{text}");
        }
    }

    #[test]
    fn a_text_that_depends_on_the_session_is_not_split() {
        assert_eq!(split(r"select 'a\'; select 'b'"), Err(Unsplit::Unclear));
        assert_eq!(split(r"select 'a\b'; select 2"), Ok(vec![r"select 'a\b'", "select 2"]));
        assert_eq!(split("select 'ä'; select 2"), Ok(vec!["select 'ä'", "select 2"]));
        assert_eq!(split("create function f() begin atomic; select 1; end; select 2"), Err(Unsplit::Unclear));
    }
}
