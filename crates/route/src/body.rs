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
    /// Whether these are all.
    pub(crate) depth: Depth,
    /// The names in it, in small letters where they are not quoted.
    names: BTreeSet<Box<[u8]>>,
}

/// How deep the texts go that stand in strings of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Depth {
    /// No deeper than [`DEPTH_MAX`]: all have been read.
    Usual,
    /// Deeper: what stands there may name settings that nobody knows of.
    Bottomless,
}

impl Body {
    pub(crate) fn read(text: &[u8]) -> Self {
        let dialect = Dialect::default();
        let tokens: Vec<Token> = Lexer::new(text, dialect).collect();
        let words = Words::new(text, &tokens, dialect.encoding);
        let named = (0..words.end()).filter(|&at| words.is_name(at));
        let names = named.filter_map(|at| Some(words.name(at)?.bytes().into())).collect();
        let mut settings = BTreeSet::new();
        let depth = mentions(&words, dialect, &mut settings);
        let touches = is_dark(&words) || sets_locally(&words) || !calls(words, dialect).is_nothing();
        Self { touches, settings, depth, names }
    }

    /// The names that stand in it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    /// Whether one of these stands in it.
    pub(crate) fn names_one_of(&self, names: &[&str]) -> bool {
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
/// strings that may be executed, and in the strings of these, one depth after the other.
///
/// All texts of one depth stand in those of the one before and do not overlap. So no depth has more bytes than the text, no more than two
/// are held at a time, and all of them take no longer than [`DEPTH_MAX`] texts of that length.
pub(crate) fn mentions(words: &Words<'_>, dialect: Dialect, names: &mut BTreeSet<Box<str>>) -> Depth {
    let (mut inner, mut tokens) = (Vec::new(), Vec::new());
    gather(words, names, &mut inner);
    for _ in 0..DEPTH_MAX {
        for text in std::mem::take(&mut inner) {
            tokens.clear();
            tokens.extend(Lexer::new(text.as_bytes(), dialect));
            gather(&Words::new(text.as_bytes(), &tokens, dialect.encoding), names, &mut inner);
        }
    }
    if inner.is_empty() { Depth::Usual } else { Depth::Bottomless }
}

/// What one text names itself, and the texts in it that may name more.
fn gather(words: &Words<'_>, names: &mut BTreeSet<Box<str>>, inner: &mut Vec<String>) {
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
        } else if may_name(text.as_bytes()) {
            inner.push(text);
        }
    }
}

/// Whether a text may name a setting with a dot: by SET, RESET, `set_config`.
fn may_name(text: &[u8]) -> bool {
    text.contains(&b'.') && text.windows(3).any(|letters| letters.eq_ignore_ascii_case(b"set"))
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

/// So many texts within each other are read: `DO`, what it executes, the function that is made there, what that executes, and then some.
const DEPTH_MAX: usize = 6;
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
        let has = |name: &[u8]| body.names().any(|known| known == name);
        assert!(has(b"set_tenant") && has(b"Other") && !has(b"other"));
    }
}
