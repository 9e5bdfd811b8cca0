//! The text of a function or a block: what it may do when it is executed.
//!
//! Always true: what may execute a text that does not stand in it, touches anything.
//! Not here: who calls it (`touch`, `classify`).

use crate::classify::calls;
use crate::lexer::{Dialect, Kind};
use crate::meaning::sets_locally;
use crate::words::Words;

/// Whether a text of SQL or PL/pgSQL touches the session.
pub(crate) fn touches(words: &Words<'_>, dialect: Dialect) -> bool {
    is_dark(words) || sets_locally(words) || !calls(*words, dialect).is_nothing()
}

/// Whether a text executes what does not stand in it, or has a statement that touches the session.
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

/// Whether a statement begins here: at the beginning, behind another one, or behind a word that statements stand behind.
fn begins(words: &Words<'_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    words.is_symbol(before, b";")
        || words.is_symbol(before, b">>")
        || words.is_one_of(before, &["begin", "then", "else", "loop", "atomic"])
}

/// Statements that touch the session.
const COMMANDS: [&str; 9] = ["set", "reset", "discard", "listen", "unlisten", "load", "prepare", "deallocate", "do"];
/// What stands in front of `TEMP` where something temporary is made.
const MAKERS: [&str; 7] = ["create", "local", "global", "replace", "or", "into", "unlogged"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::{Lexer, Token};

    fn touches(text: &str) -> bool {
        let tokens: Vec<Token> = Lexer::new(text.as_bytes(), Dialect::default()).collect();
        let dialect = Dialect::default();
        super::touches(&Words::new(text.as_bytes(), &tokens, dialect.encoding), dialect)
    }

    #[test]
    fn what_only_reads_and_writes_tables_touches_nothing() {
        assert!(!touches("BEGIN UPDATE t SET a = 1; IF FOUND THEN RETURN 1; END IF; END"));
        assert!(!touches("SELECT count(*) FROM t WHERE temp > 1"));
        assert!(!touches("BEGIN PERFORM set_config('a.b', 'c', true); PERFORM pg_advisory_xact_lock(1); END"));
        assert!(!touches("BEGIN RAISE NOTICE 'set a = b; execute'; END"));
    }

    #[test]
    fn what_touches_the_session_is_found() {
        for text in [
            "BEGIN SET search_path = a; END",
            "BEGIN -- now\n SET search_path = a; END",
            "BEGIN IF x THEN RESET ALL; END IF; END",
            "BEGIN <<label>> SET a.b = 1; END",
            "BEGIN EXECUTE format('x %s', y); END",
            "BEGIN RETURN QUERY EXECUTE q; END",
            "BEGIN CREATE TEMP TABLE t (a int); END",
            "BEGIN PERFORM pg_advisory_lock(1); END",
            "SELECT set_config('app.tenant', $1, false)",
            "SELECT 1; SET a.b = 1",
            "BEGIN INSERT INTO pg_temp.t VALUES (1); END",
            "BEGIN 'never ended",
        ] {
            assert!(touches(text), "{text}");
        }
    }
}
