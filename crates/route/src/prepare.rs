//! Statements prepared by SQL: what another server must be sent to have them, too.
//!
//! Always true: the text that is found means on every server what it has meant on the first, whatever the settings of the
//! session that have a part in reading it.
//! Not here: what such a statement may touch (`classify`).

use crate::lexer::{Dialect, Kind, Token};
use crate::split::Split;
use crate::words::Words;

/// Returns the only `PREPARE` of this name in `text`, which is what `pg_prepared_statements` has: all that was sent at
/// once. `None` if there is not exactly one, or if it might be read otherwise elsewhere: it has a character beyond ASCII,
/// a backslash that `standard_conforming_strings` decides upon, or a time that is evaluated when it is prepared
/// (`'now'`).
#[must_use]
pub fn prepared<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (bytes, dialect) = (text.as_bytes(), Dialect::default());
    if !text.is_ascii() {
        return None;
    }
    let split = Split::of(bytes, dialect);
    if split.is_dark {
        return None;
    }
    let is_it = |tokens: &&[Token]| {
        let words = Words::new(bytes, tokens, dialect.encoding);
        words.is(0, "prepare") && words.cut_name(1).as_deref() == Some(name) && !words.is(1, "transaction")
    };
    let mut found = split.statements().map(|range| &split.tokens[range]).filter(is_it);
    let (tokens, None) = (found.next()?, found.next()) else { return None };
    let is_steady = |token: &Token| {
        let written = &text[token.range()];
        match token.kind {
            Kind::Unicode => false,
            Kind::String if written.contains('\\') => false,
            Kind::String | Kind::Escaped | Kind::Dollar => {
                let small = written.to_ascii_lowercase();
                !TIMES.iter().any(|time| small.contains(time))
            }
            _ => true,
        }
    };
    let (first, last) = (tokens.first()?.range(), tokens.last()?.range());
    // A backslash before the statement may have moved the ends of the strings.
    let may_be_cut = text[..first.start].contains('\\');
    (tokens.iter().all(is_steady) && !may_be_cut).then(|| &text[first.start..last.end])
}

/// The name of the statement that a text drops, if that is all it does: `DEALLOCATE name`, `DEALLOCATE PREPARE name`.
/// `None` for a name that PostgreSQL truncates, which it reports in a NOTICE.
#[must_use]
pub fn deallocated(text: &[u8], dialect: Dialect) -> Option<String> {
    let word = text.trim_ascii_start().get(..DEALLOCATE.len())?;
    if !word.eq_ignore_ascii_case(DEALLOCATE) {
        return None;
    }
    let split = Split::of(text, dialect);
    let mut statements = split.statements();
    let (range, None) = (statements.next()?, statements.next()) else { return None };
    let words = Words::new(text, &split.tokens[range], dialect.encoding);
    let at = if words.is(1, "prepare") && words.end() == 3 { 2 } else { 1 };
    let is_all = words.kind(at) == Some(Kind::Word) && words.is(at, "all");
    let is_one = !split.is_dark && words.is(0, "deallocate") && words.is_name(at) && words.end() == at + 1;
    words.unquoted(at).filter(|_| is_one && !is_all)
}

/// The name of the prepared statement that a statement creates, executes, explains or drops.
pub(crate) fn named(words: &Words<'_>) -> Option<String> {
    let at = match () {
        () if words.is(0, "prepare") && words.is(1, "transaction") => return None,
        () if words.is_one_of(0, &["prepare", "execute"]) => 1,
        () if words.is(0, "deallocate") => {
            let at = if words.is(1, "prepare") && words.end() == 3 { 2 } else { 1 };
            let is_all = words.kind(at) == Some(Kind::Word) && words.is(at, "all");
            return words.cut_name(at).filter(|_| !is_all);
        }
        () if words.is_one_of(0, &["explain", "create"]) => {
            let first = if words.is(0, "explain") { explained(words) } else { 0 };
            let is_it = |&at: &usize| words.is(at, "execute") && (at == first || words.is(at - 1, "as"));
            (first..words.end()).find(is_it)? + 1
        }
        () => return None,
    };
    words.cut_name(at)
}

/// The position in an `EXPLAIN` at which the statement begins that it explains.
pub(crate) fn explained(words: &Words<'_>) -> usize {
    let mut at = 1;
    if words.is_symbol(at, b"(") && !is_query(&words.from(at + 1)) {
        // Options contain no parentheses.
        at = (at..words.end()).find(|&at| words.is_symbol(at, b")")).unwrap_or(at) + 1;
    }
    while words.is_one_of(at, &["analyze", "analyse", "verbose"]) {
        at += 1;
    }
    at
}

/// Whether a statement reads or writes tables, and so can be prepared and explained.
pub(crate) fn is_query(words: &Words<'_>) -> bool {
    words.is_symbol(0, b"(") || words.is_one_of(0, &QUERIES)
}

const DEALLOCATE: &[u8] = b"deallocate";

/// Words for a time that is evaluated when they are read (`datetktbl` in `utils/adt/datetime.c`).
const TIMES: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// The first words of statements that can be prepared (`PreparableStmt` in `parser/gram.y`).
const QUERIES: [&str; 8] = ["select", "insert", "update", "delete", "merge", "with", "values", "table"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_statement_of_a_name_is_found() {
        for (text, name, expected) in [
            ("prepare a as select 1", "a", "prepare a as select 1"),
            (" /* b */ PREPARE \"A b\"(int) AS SELECT $1 -- c\n;", "A b", "PREPARE \"A b\"(int) AS SELECT $1"),
            ("select 1; prepare a as select ';'; prepare b as select 2", "a", "prepare a as select ';'"),
            ("prepare B as select 1; deallocate b", "b", "prepare B as select 1"),
            (r"prepare a as select E'\\d', $$x\y$$", "a", r"prepare a as select E'\\d', $$x\y$$"),
            ("prepare transaction as select 1", "transaction", ""),
            (
                &format!("prepare {} as select 1", "a".repeat(70)),
                &"a".repeat(63),
                &format!("prepare {} as select 1", "a".repeat(70)),
            ),
        ] {
            assert_eq!(prepared(text, name).unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_deallocated_is_one_statement_by_its_name() {
        for (text, expected) in [
            ("DEALLOCATE pdo_stmt_00000001", Some("pdo_stmt_00000001")),
            ("  deallocate prepare \"A b\" ;", Some("A b")),
            ("deallocate Abc -- it", Some("abc")),
            ("deallocate prepare", Some("prepare")),
            ("deallocate \"all\"", Some("all")),
            ("deallocate all", None),
            ("deallocate prepare all", None),
            ("deallocate a; select 1", None),
            ("deallocate a b", None),
            (&format!("deallocate {}", "a".repeat(64)), None),
            ("deallocate", None),
            ("deallocated a", None),
            ("select 1", None),
        ] {
            assert_eq!(deallocated(text.as_bytes(), Dialect::default()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_names_are_known_that_a_text_says() {
        for (text, expected) in [
            ("execute a", &["a"][..]),
            ("EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE \"A b\"(NULL, (select 1))", &["A b"]),
            ("explain analyze verbose execute a", &["a"]),
            ("explain create table t as execute a", &["a"]),
            ("create temp table t on commit drop as execute a(1)", &["a"]),
            ("prepare a as select 1; select 2; execute b; deallocate prepare c; deallocate d", &["a", "b", "c", "d"]),
            ("deallocate \"all\"", &["all"]),
            ("deallocate all; prepare transaction 'x'; explain select 1; create table execute (a int)", &[]),
            ("select execute(a)", &[]),
            (&format!("execute {}", "Ab".repeat(40)), &[&format!("{}a", "ab".repeat(31))]),
            (&format!("deallocate \"a{}\"", "ä".repeat(40)), &[&format!("a{}", "ä".repeat(31))]),
            (&format!("prepare \"{}\" as select 1", "ä".repeat(40)), &["ä".repeat(31).as_str()]),
        ] {
            let class = crate::classify(text.as_bytes(), Dialect::default(), None);
            assert_eq!(class.statements.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn what_might_be_read_otherwise_is_not_carried() {
        for text in [
            "prepare a as select 1; deallocate a; prepare a as select 2",
            "prepare b as select 1",
            r"prepare a as select '\d'",
            r"select '\'; prepare a as select 1",
            r"prepare a as select U&'\0041'",
            "prepare a as select 'ä'",
            "prepare a as select ' Now'::timestamptz",
            "prepare a as select $$tomorrow 10:00$$::timestamp",
            "prepare a as select 'open",
            "execute a",
            "",
        ] {
            assert_eq!(prepared(text, "a"), None, "{text}");
        }
    }
}
