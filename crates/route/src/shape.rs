//! How an SQL text is displayed.
//!
//! Always true: no value of the text is shown, because it may be a secret; the result is short, however long the text is.
//! Not here: what the text does (`classify`).

use crate::lexer::{Dialect, Encoding, Kind, Lexer, Token};

/// A text for display: without its values, which may be secrets, without comments, and short. Statements that differ only
/// in their values give the same.
#[must_use]
pub fn shape_of(text: &[u8], dialect: Dialect) -> Box<str> {
    shape(text, Lexer::new(text, dialect))
}

/// A text for display, as by [`shape_of`], of which it is unknown whether a backslash in its strings was an escape
/// (`standard_conforming_strings`): as far as both readings agree, because a value in one of them may be a word in the
/// other.
#[must_use]
pub fn shape_however_read(text: &[u8], encoding: Encoding) -> Box<str> {
    let [one, other] = [false, true].map(|backslashes| shape_of(text, Dialect { encoding, backslashes }));
    if one == other {
        return one;
    }
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    same.map(|(one, _)| one).chain("...".chars()).collect::<String>().into()
}

/// Whether a text seems to change or lock rows or tables, or to take an advisory lock, so that it may wait until another transaction ends. Only for
/// display: nothing is decided by it.
#[must_use]
pub fn may_lock(text: &[u8]) -> bool {
    let mut words = words(text);
    let Some(first) = words.next() else { return false };
    if is_one_of(first, &TABLE_VERBS) || is_one_of(first, &ROW_VERBS) {
        return true;
    }
    let mut is_behind_for = false;
    for word in words {
        if is_one_of(word, &ADVISORY_CALLS) || is_behind_for && is_one_of(word, &["update", "share", "no", "key"]) {
            return true;
        }
        is_behind_for = is_one_of(word, &["for"]);
    }
    false
}

/// Whether a text calls a function that waits for an advisory lock. Only for display.
#[must_use]
pub fn may_wait_for_advisory_lock(text: &[u8]) -> bool {
    words(text).any(|word| is_one_of(word, &ADVISORY_CALLS))
}

/// Whether a text seems to lock a table as a whole, so that even readers of the table may wait for the end of its
/// transaction. Only for display.
#[must_use]
pub fn may_lock_tables(text: &[u8]) -> bool {
    words(text).next().is_some_and(|word| is_one_of(word, &TABLE_VERBS))
}

/// The first words of a text.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let tokens = Lexer::new(text, Dialect::default()).filter(|token| token.kind == Kind::Word);
    tokens.map(|token| &text[token.range()]).take(WORDS_LOOKED_AT)
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether a text has this as a name or a keyword, and not only in a value.
#[must_use]
pub fn mentions(text: &[u8], dialect: Dialect, name: &str) -> bool {
    let is_it = |token: Token| match (token.kind, &text[token.range()]) {
        (Kind::Word, word) => word.eq_ignore_ascii_case(name.as_bytes()),
        (Kind::Quoted, quoted) => quoted.get(1..quoted.len() - 1) == Some(name.as_bytes()),
        _ => false,
    };
    Lexer::new(text, dialect).any(is_it)
}

/// Of statements that usually take a lock with which reading the table conflicts.
const TABLE_VERBS: [&str; 7] = ["lock", "alter", "drop", "truncate", "reindex", "cluster", "refresh"];
/// Of statements that lock rows, or tables for those who change them.
const ROW_VERBS: [&str; 7] = ["update", "delete", "insert", "merge", "create", "vacuum", "comment"];
const ADVISORY_CALLS: [&str; 4] =
    ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"];
/// How many words are examined.
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

/// About how many bytes of a text are displayed.
const SHAPE_BYTES_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_reading_of_a_text_shows_a_value() {
        let shape = |text: &str| shape_however_read(text.as_bytes(), Encoding::Safe).into_string();
        assert_eq!(shape("select 'a', 1 from t where b = $1 -- secret"), "select ?, ? from t where b = $1");
        // A string whose quote is escaped in one of the readings.
        assert_eq!(shape(r"select 'a\' secret or ''x' from t"), "select ? ...");
        assert!(!shape(r"select 'a\' secret or ''x' from t").contains("secret"));
        // The known beginning of a text may end anywhere.
        for text in
            ["select 'secret", "select $a$secret", "select 1 /* secret", "select E'secret\\", "select \"a\", 'secret"]
        {
            assert!(!shape(text).contains("secret"), "{text}: {}", shape(text));
        }
    }

    #[test]
    fn what_may_wait_for_a_lock_is_told_by_its_verb_or_its_locking_clause() {
        for text in [
            "update t set a = 1",
            " /* x */ DELETE from t",
            "select 1 from t for update",
            "select for no key update",
            "lock t",
            "select PG_ADVISORY_LOCK(7)",
            "select pg_catalog.pg_advisory_xact_lock_shared(1, 2)",
        ] {
            assert!(may_lock(text.as_bytes()), "{text}");
        }
        for text in ["select 1", "", "select substring('update' for 3)", "show x", "select 'for update'"] {
            assert!(!may_lock(text.as_bytes()), "{text}");
        }
        assert!(!may_lock(b"select pg_try_advisory_lock(7)") && !may_lock(b"select 'pg_advisory_lock'"));
    }

    #[test]
    fn what_locks_a_table_as_a_whole_is_told_by_its_verb() {
        for text in ["lock t", " -- x\nALTER table t add a int", "truncate t", "refresh materialized view v"] {
            assert!(may_lock_tables(text.as_bytes()), "{text}");
        }
        for text in ["update t set a = 1", "create index on t (a)", "vacuum t", "select 1", "", "select 'lock'"] {
            assert!(!may_lock_tables(text.as_bytes()), "{text}");
        }
        assert!(may_wait_for_advisory_lock(b"select pg_advisory_lock(1)"));
        assert!(!may_wait_for_advisory_lock(b"lock t"));
    }
}
