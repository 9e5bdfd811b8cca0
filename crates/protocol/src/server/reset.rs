//! The query that resets a server between two clients (`server_reset_query`), sent statement by statement: PostgreSQL
//! refuses `DISCARD ALL` beside other statements in one message.
//!
//! Always true: all statements are sent at once, and take one round trip. What they do is not read, except to find a text
//! that must fail.
//! Not here: when a server is reset (`cleanup`, `worker::upstream::cleanup`).

use std::sync::Arc;

use route::Unsplit;
use wire::write;

use crate::exchange::Exchange;

/// A reset query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResetQuery {
    written: Arc<str>,
    /// What is sent in a message each.
    messages: Arc<[Box<str>]>,
    doubt: Option<&'static str>,
}

impl ResetQuery {
    /// Splits a text into its statements. Where they end may be unknown: then it is sent in one message.
    #[must_use]
    pub fn new(written: &str) -> Self {
        let (statements, doubt) = match route::statements(written.as_bytes()) {
            Ok(found) => {
                let statements: Vec<&str> = found.into_iter().filter_map(|at| written.get(at)).collect();
                let doubt = doubt_of(&statements);
                (statements, doubt)
            }
            Err(Unsplit::Broken) => {
                (Vec::new(), Some("a quote or a comment in it does not end: PostgreSQL refuses it"))
            }
            Err(Unsplit::Unclear) => (Vec::new(), None),
        };
        let messages = match statements.len() {
            0 | 1 => Arc::from([Box::from(written)]),
            _ => statements.into_iter().map(Box::from).collect(),
        };
        Self { written: written.into(), messages, doubt }
    }

    /// The query that restores the state that a session had after its login.
    #[must_use]
    pub fn discard_all() -> Self {
        Self::ours(DISCARD_ALL)
    }

    /// A query of our own, in one message.
    #[must_use]
    pub fn ours(sql: &str) -> Self {
        Self { written: sql.into(), messages: Arc::from([Box::from(sql)]), doubt: None }
    }

    /// The text of the setting.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Why it resets nothing, or fails whenever it is sent, as far as its text tells.
    #[must_use]
    pub fn doubt(&self) -> Option<&'static str> {
        self.doubt
    }

    /// Whether one of its statements is `DISCARD ALL`.
    pub(super) fn discards_all(&self) -> bool {
        self.messages.iter().any(|message| message.eq_ignore_ascii_case(DISCARD_ALL))
    }

    /// Appends its messages to `out`.
    pub fn ask(&self, exchange: &mut Exchange, out: &mut Vec<u8>) {
        for message in &*self.messages {
            write::query(out, message);
            exchange.asks_ours();
        }
    }

    /// The statement that the server executes while it owes answers to this many of them.
    #[must_use]
    pub fn at_work(&self, owed: usize) -> &str {
        let at = self.messages.len().saturating_sub(owed);
        self.messages.get(at).map_or(&*self.written, |message| message)
    }
}

/// What is wrong with these statements in whatever session they are executed, one after the other.
fn doubt_of(statements: &[&str]) -> Option<&'static str> {
    if statements.is_empty() {
        return Some("it has no statement: nothing is reset");
    }
    let mut is_in_block = false;
    for statement in statements {
        let mut words = statement.split(|end: char| !end.is_alphanumeric()).filter(|word| !word.is_empty());
        let [first, second] = [words.next(), words.next()].map(|word| word.unwrap_or_default().to_ascii_lowercase());
        match (&*first, &*second) {
            ("begin", _) | ("start", "transaction") => is_in_block = true,
            ("rollback", "to") => {}
            ("commit" | "end" | "rollback" | "abort", _) => {
                is_in_block = words.any(|word| word.eq_ignore_ascii_case("chain"))
            }
            ("discard", "all") if is_in_block => return Some("DISCARD ALL fails in a transaction block"),
            _ => {}
        }
    }
    is_in_block.then_some("it does not end the transaction block that it begins: no server is clean behind it")
}

const DISCARD_ALL: &str = "DISCARD ALL";

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        ResetQuery::new(text).messages.iter().map(|message| message.to_string()).collect()
    }

    #[test]
    fn each_statement_has_a_message_of_its_own() {
        assert_eq!(messages("DISCARD ALL; LOAD 'login_hook';"), ["DISCARD ALL", "LOAD 'login_hook'"]);
        assert_eq!(messages("discard all;"), ["discard all;"]);
        assert_eq!(messages(r"select 'a\'; select 'b'"), [r"select 'a\'; select 'b'"]);
    }

    #[test]
    fn the_statement_that_fails_is_known_by_what_is_still_owed() {
        let query = ResetQuery::new("a; b; c");
        assert_eq!([3, 2, 1].map(|owed| query.at_work(owed)), ["a", "b", "c"]);
        // The setting has changed meanwhile.
        assert_eq!((query.at_work(9), query.at_work(0)), ("a", "a; b; c"));
    }

    #[test]
    fn a_text_that_must_fail_is_found() {
        for good in [
            "DISCARD ALL",
            "discard all; LOAD 'x'",
            "begin; reset all; commit; discard all",
            "begin; savepoint a; rollback to a; end",
            r"select 'a\'; select 'b'",
        ] {
            assert_eq!(ResetQuery::new(good).doubt(), None, "{good}");
        }
        for bad in [
            " -- DISCARD ALL",
            ";",
            "DISCARD ALL; select 'a",
            "begin; discard all; commit",
            "begin; reset all; commit and chain",
            "START TRANSACTION; reset all",
        ] {
            assert!(ResetQuery::new(bad).doubt().is_some(), "{bad}");
        }
    }

    #[test]
    fn a_discard_all_among_others_is_seen() {
        assert!(ResetQuery::new("reset all; discard ALL; select 1").discards_all());
        assert!(ResetQuery::discard_all().discards_all());
        assert!(!ResetQuery::new("reset all").discards_all());
    }
}
