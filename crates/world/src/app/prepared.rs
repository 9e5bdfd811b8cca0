//! Requests that use statements prepared by SQL `PREPARE`.
//!
//! Always true: the application knows which statements it has, whether its transactions commit or not.
//! Not here: statements prepared by `Parse` (`named`).

use wire::write;

use super::belief::Request;
use super::speaker::Speaker;
use crate::postgres::sql::{EVERYBODY, Nonce, Prepared, Verb};

impl Speaker<'_> {
    /// PREPARE, EXECUTE or DEALLOCATE, or several of them in one query.
    pub(super) fn by_sql(&mut self) -> Request {
        let is_lost = |prepared: &Prepared| prepared.key.is_refused_elsewhere();
        if self.belief.by_sql.values().any(is_lost) {
            // Whether the statement exists depends on the server.
            return self.drop_all();
        }
        if self.dice.chance(300) {
            return self.several_by_sql();
        }
        let verb = self.verb_by_sql();
        self.word(verb)
    }

    fn several_by_sql(&mut self) -> Request {
        let mut request = self.blank();
        let (mut texts, mut prepared, mut is_well) = (Vec::new(), Vec::new(), true);
        for _ in 0..self.dice.among(2..=4) {
            let verb = self.verb_by_sql();
            if let Verb::Prepare(Prepared { name, .. }) = &verb {
                if prepared.contains(name) {
                    // The pooler could not tell from the text which of the two exists, and would pin the server.
                    continue;
                }
                prepared.push(name.clone());
            }
            let statement = self.statement(verb);
            if texts.is_empty() {
                request.nonce = statement.nonce;
            }
            texts.push(statement.to_string());
            is_well = is_well && self.run(&mut request, &statement, true);
        }
        write::query(&mut request.bytes, &texts.join("; "));
        self.ready(&mut request);
        request
    }

    /// A PREPARE, EXECUTE or DEALLOCATE, which sometimes must fail.
    fn verb_by_sql(&mut self) -> Verb {
        let name = self.dice.pick(&NAMES).to_owned();
        let is_wrong = self.habits.errors && self.dice.chance(60);
        if self.belief.by_sql.contains_key(&name) == is_wrong {
            Verb::Prepare(self.new_statement(name))
        } else if self.dice.chance(200) {
            Verb::Deallocate { name: Some(name) }
        } else {
            Verb::Execute { name }
        }
    }

    /// A statement of its own, or one that others may prepare with exactly the same text.
    fn new_statement(&mut self, name: String) -> Prepared {
        if self.dice.chance(250) {
            let rows = self.dice.among(1..=2) as u32;
            return Prepared { name, key: Nonce { app: EVERYBODY, number: rows }, rows };
        }
        let key = Nonce { app: self.app, number: *self.next + 1 };
        Prepared { name, key, rows: self.dice.among(0..=3) as u32 }
    }
}

/// The names, the same for all applications.
const NAMES: [&str; 3] = ["stmt_a", "stmt_b", "\"Stmt_C\""];
