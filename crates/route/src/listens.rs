//! Texts that do nothing but LISTEN.
//!
//! Always true: PostgreSQL executes a text that is found here without an error or a warning, outside of a transaction and where the session
//! may listen and use PL/pgSQL.
//! Not here: who listens (`worker::notify::listen`).

use crate::lexer::{Dialect, Kind, Lexer, Token, unquote};
use crate::setting::is_keyword;
use crate::split::Split;
use crate::words::Words;

/// What a text listens to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listens {
    /// The channels, as PostgreSQL has them.
    pub channels: Vec<Box<str>>,
    /// The number of statements, and the command tag of each.
    pub tags: (usize, &'static str),
}

/// What a text listens to that consists of plain `LISTEN` statements, or of one `DO` whose block does (postgrex sends
/// that). `None` for any other text, even where it means the same.
#[must_use]
pub fn listens(text: &[u8], dialect: Dialect) -> Option<Listens> {
    let first = text.trim_ascii_start().first_chunk::<2>()?.to_ascii_lowercase();
    if text.len() > TEXT_BYTES_MAX || !matches!(&first[..], b"li" | b"do") {
        return None;
    }
    let split = Split::of(text, dialect);
    if split.is_dark {
        return None;
    }
    let statements: Vec<Words<'_>> =
        split.statements().map(|range| Words::new(text, &split.tokens[range], dialect.encoding)).collect();
    match &statements[..] {
        [block] if block.end() == 2 && block.is(0, "do") && block.kind(1) == Some(Kind::Dollar) => {
            let body = unquote(Kind::Dollar, block.text(1)?, dialect.encoding)?;
            Some(Listens { channels: of_block(&body, dialect)?, tags: (1, "DO") })
        }
        _ => {
            let channels: Vec<Box<str>> = statements.iter().map(channel).collect::<Option<_>>()?;
            let count = channels.len();
            (count > 0).then_some(Listens { channels, tags: (count, "LISTEN") })
        }
    }
}

/// The channels of `BEGIN LISTEN name; ... END`, with a final semicolon or without.
fn of_block(body: &[u8], dialect: Dialect) -> Option<Vec<Box<str>>> {
    let tokens: Vec<Token> = Lexer::new(body, dialect).collect();
    let words = |tokens| Words::new(body, tokens, dialect.encoding);
    let mut rest = tokens.get(1..).filter(|_| words(&tokens).is(0, "begin"))?;
    let mut channels = Vec::new();
    while !words(rest).is(0, "end") {
        let ([listen @ .., _], behind) = rest.split_at_checked(3)? else { return None };
        channels.push(channel(&words(listen)).filter(|_| words(rest).is_symbol(2, b";"))?);
        rest = behind;
    }
    let is_whole = rest.len() == 1 || rest.len() == 2 && words(rest).is_symbol(1, b";");
    (is_whole && !channels.is_empty()).then_some(channels)
}

/// The channel of `LISTEN name`.
fn channel(words: &Words<'_>) -> Option<Box<str>> {
    if words.end() != 2 || !words.is(0, "listen") || !words.is_name(1) {
        return None;
    }
    let is_quoted = words.kind(1) == Some(Kind::Quoted);
    let name = words.unquoted(1).filter(|name| name.is_ascii() && !name.is_empty())?;
    (is_quoted || !is_keyword(&name)).then(|| name.into())
}

/// Longer texts are not read.
const TEXT_BYTES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Vec<String>, usize, &'static str)> {
        let Listens { channels, tags: (count, tag) } = listens(text.as_bytes(), Dialect::default())?;
        Some((channels.iter().map(|name| name.to_string()).collect(), count, tag))
    }

    #[test]
    fn what_only_listens_is_found() {
        let found =
            |names: &[&str], count, tag| Some((names.iter().map(|name| name.to_string()).collect(), count, tag));
        assert_eq!(read("LISTEN a"), found(&["a"], 1, "LISTEN"));
        assert_eq!(read(" listen \"pgRst\" ; "), found(&["pgRst"], 1, "LISTEN"));
        assert_eq!(read("LISTEN A; -- and\nLISTEN /* b */ b"), found(&["a", "b"], 2, "LISTEN"));
        assert_eq!(read("LISTEN \"select\""), found(&["select"], 1, "LISTEN"));
        assert_eq!(read("LISTEN \"a\"\"b\""), found(&["a\"b"], 1, "LISTEN"));
        assert_eq!(read("DO $$BEGIN LISTEN \"one\";LISTEN \"two\"; END$$"), found(&["one", "two"], 1, "DO"));
        assert_eq!(read("do $x$ begin listen a; end; $x$;"), found(&["a"], 1, "DO"));
    }

    #[test]
    fn anything_else_is_not() {
        let long = format!("LISTEN {}", "a".repeat(64));
        for text in [
            "",
            "LISTEN",
            "LISTEN select",
            "LISTEN 'a'",
            "LISTEN a.b",
            "LISTEN a b",
            "LISTEN *",
            "LISTEN \"\"",
            "LISTEN U&\"a\"",
            "LISTEN \"é\"",
            "LISTEN a; SELECT 1",
            "LISTEN a; UNLISTEN *",
            "BEGIN; LISTEN a; COMMIT",
            "LISTEN \"a",
            "LISTEN a /* never ended",
            "UNLISTEN a",
            "DO 'BEGIN LISTEN a; END'",
            "DO LANGUAGE plpgsql $$BEGIN LISTEN a; END$$",
            "DO $$BEGIN END$$",
            "DO $$BEGIN LISTEN a END$$",
            "DO $$BEGIN LISTEN a; END a$$",
            "DO $$BEGIN LISTEN a; PERFORM f(); END$$",
            "DO $$DECLARE x int; BEGIN LISTEN a; END$$",
            "DO $$BEGIN LISTEN a; ",
            "DO $$BEGIN LISTEN a;$$",
            "DO $$BEGIN LISTEN a; END$$; DO $$BEGIN END$$",
            &long,
            &format!("LISTEN a{}", " ".repeat(1000)),
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
