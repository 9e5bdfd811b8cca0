//! Statements that need a database to themselves: PostgreSQL allows no other session in a database that is dropped,
//! renamed, moved to another tablespace, or copied.
//!
//! Always true: a name is that of the catalog; a text of several statements claims nothing, because PostgreSQL refuses
//! these statements in a transaction.
//! Not here: what is done about it (crate `worker`). What a function or a `DO` block executes is not seen.

use std::fmt;

use crate::lexer::{Dialect, Lexer, Token};
use crate::words::Words;

/// A statement that needs a database to itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The database that no other session may be connected to.
    pub database: Box<str>,
    /// What is done to it.
    pub purpose: Purpose,
    /// The name that means another database when the statement has been executed, beside that of the database itself.
    pub made: Option<Box<str>>,
}

/// What is done to a database that no other session may be connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// `DROP DATABASE`
    Drop,
    /// `ALTER DATABASE ... RENAME TO`
    Rename,
    /// `ALTER DATABASE ... SET TABLESPACE`
    Move,
    /// `CREATE DATABASE`, whose template it is.
    Copy,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drop => "drop",
            Self::Rename => "rename",
            Self::Move => "move",
            Self::Copy => "copy",
        })
    }
}

impl Claim {
    /// Whether a text may claim anything, by its first two letters. A comment may stand in front.
    #[must_use]
    pub fn may_begin(text: &[u8]) -> bool {
        let first = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
        let [a, b, ..] = text[first..] else { return false };
        let is_verb = matches!([a | 0x20, b | 0x20], [b'd', b'r'] | [b'a', b'l'] | [b'c', b'r']);
        is_verb || matches!([a, b], [b'/', b'*'] | [b'-', b'-'])
    }

    /// What a text claims.
    #[must_use]
    pub fn of(text: &[u8], dialect: Dialect) -> Option<Self> {
        if text.len() > CLAIM_BYTES_MAX || !Self::may_begin(text) {
            return None;
        }
        let tokens: Vec<Token> = Lexer::new(text, dialect).collect();
        let end = tokens.iter().position(|token| text[token.range()] == *b";").unwrap_or(tokens.len());
        let is_alone = tokens[end..].iter().all(|token| text[token.range()] == *b";");
        let words = Words::new(text, &tokens[..end], dialect.encoding);
        if is_alone && words.is(1, "database") { claim(&words) } else { None }
    }

    /// The names that mean another database, or none, when the statement has been executed.
    pub fn changed(&self) -> impl Iterator<Item = &str> {
        let is_gone = matches!(self.purpose, Purpose::Drop | Purpose::Rename);
        self.made.as_deref().into_iter().chain(is_gone.then_some(&*self.database))
    }
}

fn claim(words: &Words<'_>) -> Option<Claim> {
    let name = |at: usize| words.unquoted(at).filter(|_| words.is_name(at)).map(Box::<str>::from);
    match () {
        () if words.is(0, "drop") => {
            let at = if words.are(2, &["if", "exists"]) { 4 } else { 2 };
            Some(Claim { database: name(at)?, purpose: Purpose::Drop, made: None })
        }
        () if words.is(0, "alter") && words.are(3, &["rename", "to"]) => {
            Some(Claim { database: name(2)?, purpose: Purpose::Rename, made: Some(name(5)?) })
        }
        () if words.is(0, "alter") && words.are(3, &["set", "tablespace"]) => {
            Some(Claim { database: name(2)?, purpose: Purpose::Move, made: None })
        }
        () if words.is(0, "create") => {
            Some(Claim { database: template(words)?, purpose: Purpose::Copy, made: Some(name(2)?) })
        }
        () => None,
    }
}

/// The database that `CREATE DATABASE` copies (`createdb_opt_item` in `parser/gram.y`).
fn template(words: &Words<'_>) -> Option<Box<str>> {
    let mut at = if words.is(3, "with") { 4 } else { 3 };
    let mut template = None;
    while at < words.end() {
        let is_template = words.unquoted(at).as_deref() == Some("template") && words.is_name(at);
        at += if words.are(at, &["connection", "limit"]) { 2 } else { 1 };
        at += usize::from(words.is_symbol(at, b"="));
        at += usize::from(words.is_symbol(at, b"-") || words.is_symbol(at, b"+"));
        if is_template && !words.is(at, "default") {
            template = Some(words.unquoted(at)?);
        }
        at += 1;
    }
    Some(template.map_or(DEFAULT_TEMPLATE.into(), String::into_boxed_str))
}

/// The database that is copied where no template is named.
const DEFAULT_TEMPLATE: &str = "template1";
/// A longer text is not read: names have 63 bytes at most.
const CLAIM_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text claims, as `purpose database > made`.
    fn read(text: &str) -> String {
        let Some(claim) = Claim::of(text.as_bytes(), Dialect::default()) else { return "-".to_owned() };
        let made = claim.made.map_or(String::new(), |made| format!(" > {made}"));
        format!("{} {}{made}", claim.purpose, claim.database)
    }

    #[test]
    fn statements_that_need_a_database_to_themselves_are_read() {
        for (text, claims) in [
            ("DROP DATABASE a", "drop a"),
            ("  drop\n database IF exists A;", "drop a"),
            ("/* app: x */ DROP DATABASE \"A \"\"b\" WITH (FORCE) ;;", "drop A \"b"),
            ("-- once more\ndrop database \"Größe\"", "drop Größe"),
            ("DROP DATABASE if", "drop if"),
            ("ALTER DATABASE a RENAME TO \"B\"", "rename a > B"),
            ("ALTER DATABASE a SET TABLESPACE fast", "move a"),
            ("CREATE DATABASE b", "copy template1 > b"),
            ("CREATE DATABASE b WITH OWNER = template ENCODING 'UTF8'", "copy template1 > b"),
            ("CREATE DATABASE b TEMPLATE A", "copy a > b"),
            ("create database b with connection limit = -1 template = \"A\" owner u", "copy A > b"),
            ("CREATE DATABASE b OWNER u TEMPLATE 'A'", "copy A > b"),
            ("CREATE DATABASE b TEMPLATE DEFAULT", "copy template1 > b"),
            ("CREATE DATABASE b \"template\" = a", "copy a > b"),
        ] {
            assert_eq!(read(text), claims, "{text}");
        }
    }

    #[test]
    fn other_statements_claim_nothing() {
        let long = format!("DROP DATABASE {}", "a".repeat(64));
        for text in [
            "",
            "d",
            "SELECT 1",
            "DROP TABLE database",
            "DROP DATABASE",
            "DROP DATABASE 'a'",
            "DROP DATABASE a; SELECT 1",
            "SELECT 1; DROP DATABASE a",
            "ALTER DATABASE a SET work_mem = 1",
            "ALTER DATABASE a OWNER TO u",
            "CREATE TABLE a (b int)",
            "DO $$ BEGIN EXECUTE 'DROP DATABASE a'; END $$",
            "-- DROP DATABASE a",
            "EXPLAIN DROP DATABASE a",
            &long,
        ] {
            assert_eq!(read(text), "-", "{text}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_afterwards_are_told() {
        for (text, names) in [
            ("DROP DATABASE a", &["a"][..]),
            ("ALTER DATABASE a RENAME TO b", &["b", "a"]),
            ("ALTER DATABASE a SET TABLESPACE t", &[]),
            ("CREATE DATABASE b TEMPLATE a", &["b"]),
        ] {
            let claim = Claim::of(text.as_bytes(), Dialect::default()).expect("it claims a database");
            assert_eq!(claim.changed().collect::<Vec<_>>(), names, "{text}");
        }
    }
}
