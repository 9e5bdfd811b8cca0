//! What an application says of statements that it prepares by SQL.
//!
//! Always true: it knows which it has, whatever becomes of its transactions.
//! Not here: statements that it prepares by the protocol (`named`).

use wire::write;

use super::belief::Request;
use super::speaker::Speaker;
use crate::postgres::sql::{EVERYBODY, Nonce, Prepared, Verb};

impl Speaker<'_> {
    /// Prepares, executes or drops one, or does several such things in one query.
    pub(super) fn by_sql(&mut self) -> Request {
        let is_lost = |prepared: &Prepared| prepared.key.is_refused_elsewhere();
        if self.belief.by_sql.values().any(is_lost) {
            // It may be there or not, by the server.
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
                    // Which of them is there, nobody could tell from the text, and the server would be kept.
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

    /// Now and then it is what must go wrong.
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

    /// Its own, or one that others may prepare as well, in the very same words.
    fn new_statement(&mut self, name: String) -> Prepared {
        if self.dice.chance(250) {
            let rows = self.dice.among(1..=2) as u32;
            return Prepared { name, key: Nonce { app: EVERYBODY, number: rows }, rows };
        }
        let key = Nonce { app: self.app, number: *self.next + 1 };
        Prepared { name, key, rows: self.dice.among(0..=3) as u32 }
    }
}

/// Everybody has the same.
const NAMES: [&str; 3] = ["stmt_a", "stmt_b", "\"Stmt_C\""];
