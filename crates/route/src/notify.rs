//! Which statements may send notifications (NOTIFY, `pg_notify`), by themselves or through what they call.
//!
//! Always true: every statement that notifies is among them, as far as functions in languages that are read do it.
//! Not here: what functions do (`functions`), which clients wait for the notifications (`worker::notify::own_news`).

use crate::knowledge::Knowledge;
use crate::words::{NAME_BYTES_MAX, Words};

/// Whether a statement may notify. Without knowledge of the database's functions every call may.
pub(crate) fn may_notify(words: &Words<'_>, knowledge: Option<&Knowledge>) -> bool {
    if words.end() == 0 || words.is_one_of(0, &SILENT) {
        return false;
    }
    let Some(knowledge) = knowledge.filter(|_| !words.is_one_of(0, &UNTOLD)) else { return true };
    let only_reads = words.is_one_of(0, &["select", "values", "table"]) || words.is_symbol(0, b"(");
    let lengths = knowledge.notifier_lengths() | 1 << PG_NOTIFY.len();
    let is_wanted = |_: u8, length: usize| length > NAME_BYTES_MAX || lengths & 1 << (length % 64) != 0;
    let notifies = |name: &[u8]| name == PG_NOTIFY || knowledge.notifies(name);
    knowledge.notifies_silently(only_reads)
        || words.places(is_wanted).any(|at| words.name(at).is_none_or(|name| notifies(name.bytes())))
}

/// PostgreSQL's own function that notifies.
pub(crate) const PG_NOTIFY: &[u8] = b"pg_notify";

/// The first words of statements that call nothing: what a cursor or a prepared statement calls is examined when it is
/// declared or executed.
const SILENT: [&str; 20] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "set",
    "reset",
    "show",
    "listen",
    "unlisten",
    "discard",
    "prepare",
    "deallocate",
    "close",
    "fetch",
    "move",
    "checkpoint",
];
/// The first words of statements that notify, or do not tell what they execute.
const UNTOLD: [&str; 4] = ["notify", "execute", "do", "explain"];

#[cfg(test)]
mod tests {
    use crate::knowledge::Source;
    use crate::{Dialect, Knowledge, classify};

    fn notifies(text: &str, knowledge: &Knowledge) -> bool {
        classify(text.as_bytes(), Dialect::default(), Some(knowledge)).notifies
    }

    #[test]
    fn what_notifies_by_its_own_words_is_found() {
        let none = Knowledge::default();
        for text in [
            "NOTIFY a",
            "begin; notify a, 'x'; commit",
            "select pg_notify('a', 'x')",
            "select \"pg_notify\"('a', 'x')",
            "with x as (select PG_CATALOG.PG_NOTIFY('a', 'x')) select 1",
            "insert into t select pg_notify('a', 'x')::text",
            "do $$ begin notify a; end $$",
            "execute tell('x')",
            "select 'never ended",
        ] {
            assert!(notifies(text, &none), "{text}");
        }
        for text in [
            "select 1",
            "insert into t values ('notify')",
            "begin",
            "commit",
            "set a.b = 1",
            "listen a",
            "unlisten *",
            "fetch c",
        ] {
            assert!(!notifies(text, &none), "{text}");
        }
        assert!(classify(b"select 1", Dialect::default(), None).notifies, "functions are not known");
        assert!(notifies("select 1", &Knowledge::trusting()), "functions are not read");
    }

    #[test]
    fn what_notifies_by_a_function_is_found() {
        let source = |name, text| Source { name, is_readable: true, is_hidden: false, is_in_queries: false, text };
        let tell = source("tell", "begin perform pg_notify('a', $1); end");
        let call = source("call_tell", "select tell('x')");
        let write = source("write", "insert into t values (1)");
        let knowledge = Knowledge::read([tell, call, write].into_iter());
        for (text, expected) in [
            ("select tell('x')", true),
            ("select call_tell()", true),
            ("select tall('x')", false),
            ("select write()", false),
            ("insert into t values (1)", false),
        ] {
            assert_eq!(notifies(text, &knowledge), expected, "{text}");
        }
        let trigger = Source { is_hidden: true, ..tell };
        let knowledge = Knowledge::read([trigger, call, write].into_iter());
        for (text, expected) in [
            ("select write()", true),
            ("insert into t values (1)", true),
            ("with x as (insert into t values (1) returning a) select * from x", true),
            ("copy t from stdin", true),
            ("select * from t", false),
            ("(select 1) union (select 2)", false),
            ("commit", false),
        ] {
            assert_eq!(notifies(text, &knowledge), expected, "{text}");
        }
        let of_view = Source { is_in_queries: true, ..trigger };
        assert!(notifies("select * from t", &Knowledge::read([of_view].into_iter())));
    }
}
