//! The text of a function or a block: what it may do when it is executed.
//!
//! Always true: what may execute a text that does not stand in it, touches anything.
//! Not here: who calls it (`touch`, `classify`).

use std::collections::BTreeSet;

use crate::classify::calls;
use crate::lexer::{Dialect, Kind, Lexer, Token};
use crate::meaning::sets_locally;
use crate::setting::{self, canonical};
use crate::words::Words;

/// What a text of SQL or PL/pgSQL does.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// Whether it touches the session.
    pub(crate) touches: bool,
    /// Settings with a dot in their names that it mentions.
    pub(crate) settings: BTreeSet<Box<str>>,
    /// The names in it, in small letters where they are not quoted.
    names: BTreeSet<Box<[u8]>>,
}

impl Body {
    pub(crate) fn read(text: &[u8]) -> Self {
        let dialect = Dialect::default();
        let tokens: Vec<Token> = Lexer::new(text, dialect).collect();
        let words = Words::new(text, &tokens, dialect.encoding);
        let named = (0..words.end()).filter(|&at| words.is_name(at));
        let names = named.filter_map(|at| Some(words.name(at)?.bytes().into())).collect();
        let mut settings = BTreeSet::new();
        mentions(&words, dialect, &mut settings);
        let touches = is_dark(&words) || sets_locally(&words) || !calls(words, dialect).is_nothing();
        Self { touches, settings, names }
    }

    /// Whether one of these names stands in it.
    pub(crate) fn mentions(&self, names: &BTreeSet<&str>) -> bool {
        names.iter().any(|name| self.names.contains(name.as_bytes()))
    }
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

/// Gathers settings with a dot in their names: what a SET names, what a string says that looks like such a name, and the same in
/// strings that may be executed.
pub(crate) fn mentions(words: &Words<'_>, dialect: Dialect, names: &mut BTreeSet<Box<str>>) {
    for at in 0..words.end() {
        if words.is_one_of(at, &["set", "reset"]) {
            let at = at + 1 + usize::from(words.is_one_of(at + 1, &["local", "session"]));
            names.extend(dotted(words, at).filter(|name| name.contains('.')).map(Into::into));
        }
        if !words.is_string(at) {
            continue;
        }
        let Some(text) = words.unquoted(at) else { continue };
        if is_dotted(&text) {
            names.insert(canonical(&text.to_ascii_lowercase()).into());
        } else if text.len() > 4 && text.to_ascii_lowercase().contains("set") {
            let tokens: Vec<Token> = Lexer::new(text.as_bytes(), dialect).collect();
            mentions(&Words::new(text.as_bytes(), &tokens, dialect.encoding), dialect, names);
        }
    }
}

fn dotted(words: &Words<'_>, at: usize) -> Option<String> {
    Some(setting::name(words, at)?.0)
}

fn is_dotted(text: &str) -> bool {
    let is_part = |part: &str| {
        let first = part.chars().next();
        first.is_some_and(|first| first.is_alphabetic() || first == '_')
            && part.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '$')
    };
    text.contains('.') && text.len() <= SETTING_BYTES_MAX && text.split('.').all(is_part)
}

/// No setting has a longer name.
const SETTING_BYTES_MAX: usize = 200;
/// Statements that touch the session.
const COMMANDS: [&str; 9] = ["set", "reset", "discard", "listen", "unlisten", "load", "prepare", "deallocate", "do"];
/// What stands in front of `TEMP` where something temporary is made.
const MAKERS: [&str; 7] = ["create", "local", "global", "replace", "or", "into", "unlogged"];

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(text: &str) -> bool {
        Body::read(text.as_bytes()).touches
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

    #[test]
    fn settings_are_found_wherever_they_are_named() {
        let text = "BEGIN SET LOCAL app.one = 1; PERFORM set_config('App.Two', x, false); \
                    EXECUTE 'SET app.three TO ' || y; EXECUTE 'SELECT set_config(''app.four'', $1, false)'; \
                    RAISE NOTICE 'no. nothing at all'; END";
        let body = Body::read(text.as_bytes());
        let settings: Vec<&str> = body.settings.iter().map(|name| &**name).collect();
        assert_eq!(settings, ["app.four", "app.one", "app.three", "app.two"]);
    }

    #[test]
    fn names_are_found_as_they_are_called() {
        let body = Body::read(b"BEGIN PERFORM App.Set_Tenant(1), \"Other\"(); END");
        assert!(body.mentions(&BTreeSet::from(["set_tenant"])) && body.mentions(&BTreeSet::from(["Other"])));
        assert!(!body.mentions(&BTreeSet::from(["other"])));
    }
}
