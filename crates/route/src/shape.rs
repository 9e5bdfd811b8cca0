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

/// The same for a text of which it is unknown whether a backslash in its strings was an escape
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

/// Whether a text seems to change or lock rows or tables, so that it may wait until another transaction ends. Only for
/// display: nothing is decided by it.
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
        if ADVISORY_CALLS.iter().any(|call| is(&word, call)) {
            return true;
        }
        if is_behind_for && (is(&word, "update") || is(&word, "share") || is(&word, "no") || is(&word, "key")) {
            return true;
        }
        is_behind_for = is(&word, "for");
    }
    false
}

/// Whether a text calls a function that waits for an advisory lock. Only for display.
#[must_use]
pub fn may_wait_for_advisory_lock(text: &[u8]) -> bool {
    let mut words = Lexer::new(text, Dialect::default()).filter(|token| token.kind == Kind::Word).take(WORDS_LOOKED_AT);
    words.any(|word| ADVISORY_CALLS.iter().any(|call| text[word.range()].eq_ignore_ascii_case(call.as_bytes())))
}

/// Whether a text seems to lock a table as a whole, so that even readers of the table may wait for the end of its
/// transaction. Only for display.
#[must_use]
pub fn may_lock_tables(text: &[u8]) -> bool {
    let first = Lexer::new(text, Dialect::default()).find(|token| token.kind == Kind::Word);
    first.is_some_and(|word| TABLE_VERBS.iter().any(|verb| text[word.range()].eq_ignore_ascii_case(verb.as_bytes())))
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

const LOCKING_VERBS: [&str; 14] = [
    "update", "delete", "insert", "merge", "lock", "alter", "drop", "truncate", "create", "reindex", "cluster",
    "vacuum", "refresh", "comment",
];
const TABLE_VERBS: [&str; 8] = ["lock", "alter", "drop", "truncate", "create", "reindex", "cluster", "vacuum"];
const ADVISORY_CALLS: [&str; 4] =
    ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"];
/// How many words behind the first are examined.
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
        for text in ["lock t", " -- x\nALTER table t add a int", "truncate t", "drop table t", "create trigger t"] {
            assert!(may_lock_tables(text.as_bytes()), "{text}");
        }
        for text in ["update t set a = 1", "select 1", "", "select 'lock'"] {
            assert!(!may_lock_tables(text.as_bytes()), "{text}");
        }
        assert!(may_wait_for_advisory_lock(b"select pg_advisory_lock(1)"));
        assert!(!may_wait_for_advisory_lock(b"lock t"));
    }
}
