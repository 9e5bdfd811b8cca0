//! What a session answers to `auth_query`.
//!
//! Always true: the query has a text that no application uses; the answer is about the user that was asked for, or one
//! that the pooler must not believe.
//! Not here: who asks (`control`).

use std::fmt::Write as _;

use wire::backend::{self, TxStatus};
use wire::write;

use super::state::{About, Life, Session};
use crate::checks::witness::{Charge, Witness};
use crate::postgres::manner::{Answers, Manner};

impl Session {
    /// Parses such a query. Returns whether it is one.
    pub(super) fn parse_question(&mut self, text: &str) -> bool {
        let word = match text.starts_with(CATALOG_FIRST) {
            true => Some(FIRST),
            false => text.strip_prefix("SECRET ").and_then(|rest| rest.strip_suffix(" $1")),
        };
        self.about = word.map(|word| About { word: word.to_owned(), user: String::new() });
        if self.about.is_some() {
            self.parsed = None;
            write::bare(&mut self.out, backend::PARSE_COMPLETE);
        }
        self.about.is_some()
    }

    /// Returns whether the bound query asks for a secret.
    pub(super) fn is_about_secret(&self) -> bool {
        self.about.as_ref().is_some_and(|about| about.word != FIRST)
    }

    /// Binds the user. The query is the pooler's own, so no application may have the server.
    pub(super) fn bind_question(&mut self, user: &str, witness: &mut Witness) {
        let number = self.number;
        let mut accuse = |charge, who: &str| {
            witness.accuse(charge, format!("server {number} is asked about {user} {who}"));
        };
        if self.tx != TxStatus::Idle || self.owner.is_some() {
            accuse(Charge::LoanEndedEarly, "in somebody's transaction");
        }
        if self.unanswered.is_some() {
            accuse(Charge::TwoLoans, "while somebody's request is unanswered");
        }
        if self.dirty.is_some() {
            accuse(Charge::LeftOver, "with what somebody has left in the session");
        }
        if let Some(about) = &mut self.about {
            user.clone_into(&mut about.user);
        }
        write::bare(&mut self.out, backend::BIND_COMPLETE);
    }

    /// Describes the answer.
    pub(super) fn describe_answer(&mut self) {
        let column = |name| write::Column { name, type_oid: 25, type_bytes: -1, format: 0 };
        let columns = [column("name"), column("secret"), column("more")];
        let is_wide = self.about.as_ref().is_some_and(|about| about.word == "wide");
        write::row_description(&mut self.out, &columns[..if is_wide { 3 } else { 2 }]);
    }

    /// Writes the answer.
    pub(super) fn tell_secret(&mut self, about: &About, manner: &Manner) {
        if about.word == FIRST {
            return write::command_complete(&mut self.out, "SELECT 0");
        }
        let secret = manner.secrets.get(&about.user).map(|secret| String::from_utf8_lossy(&secret.text()).into_owned());
        let (user, secret) = (Some(about.user.as_str()), secret.as_deref());
        let torn = secret.map(|secret| {
            let mut torn = String::from("SCRAM-SHA-256$");
            let _ = write!(torn, "{}", secret.len());
            torn
        });
        let rows: Vec<Vec<Option<&str>>> = match &*about.word {
            _ if secret.is_none() => Vec::new(),
            "nobody" => Vec::new(),
            "none" => vec![vec![user, None]],
            "several" => vec![vec![user, secret], vec![user, None]],
            "wide" => vec![vec![user, secret, user]],
            "unnamed" => vec![vec![None, secret]],
            "other" => vec![vec![Some("somebody else"), secret]],
            "torn" => vec![vec![user, torn.as_deref()]],
            _ if manner.answers == Answers::Twice => vec![vec![user, secret]; 2],
            _ => vec![vec![user, secret]],
        };
        for row in &rows {
            write::data_row(&mut self.out, row.iter().copied());
        }
        if about.word == "fatal" {
            let _ = self.terminate();
            return;
        }
        match manner.answers {
            Answers::Failing => self.fail("42501", "permission denied for table pg_authid", true),
            Answers::Dying => {
                let half = self.out.len() / 2;
                self.out.truncate(half);
                self.life = Life::Dead;
            }
            Answers::Torn => self.life = Life::Dead,
            Answers::Usual | Answers::Twice | Answers::Slow => write::command_complete(&mut self.out, "SELECT 1"),
        }
    }
}

/// The statement that the control thread sends in front of the `auth_query`, and its name here: it returns no rows.
const CATALOG_FIRST: &str = "SELECT WHERE pg_catalog.set_config('search_path',";
const FIRST: &str = "the catalog first";
