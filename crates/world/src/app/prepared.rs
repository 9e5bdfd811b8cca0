//! What an application says of statements that it prepares by SQL.
//!
//! Always true: it knows which it has, whatever becomes of its transactions.
//! Not here: statements that it prepares by the protocol (`named`).

use std::collections::BTreeMap;

use wire::backend;
use wire::write;

use super::speech::{Expect, Request, Speaker};
use crate::postgres::sql::{EVERYBODY, Nonce, Prepared, Statement, Verb};

/// What it has prepared, by the names.
pub(super) type BySql = BTreeMap<String, Prepared>;

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

    /// What it is answered; whether it goes well.
    pub(super) fn run_by_sql(&mut self, request: &mut Request, statement: &Statement, describes: bool) -> bool {
        let nonce = statement.nonce;
        let by_sql = &mut self.belief.by_sql;
        let failure = match &statement.verb {
            Verb::Prepare(Prepared { name, .. }) if by_sql.contains_key(name) => Some("42P05"),
            Verb::Execute { name } | Verb::Deallocate { name: Some(name) } if !by_sql.contains_key(name) => {
                Some("26000")
            }
            _ => None,
        };
        if let Some(sqlstate) = failure {
            request.expects.push_back((nonce, Expect::Error(sqlstate)));
            self.belief.fails();
            return false;
        }
        match &statement.verb {
            Verb::Prepare(prepared) => drop(by_sql.insert(prepared.name.clone(), prepared.clone())),
            Verb::Deallocate { name: Some(name) } => drop(by_sql.remove(name)),
            Verb::Deallocate { name: None } => by_sql.clear(),
            Verb::Execute { name } => {
                if describes {
                    request.expects.push_back((nonce, Expect::Bare(backend::ROW_DESCRIPTION)));
                }
                if let Some(Prepared { key, rows, .. }) = by_sql.get(name) {
                    let row = |at| (*key, Expect::Row { at, of: *rows, size: 0 });
                    request.expects.extend((0..*rows).map(row));
                }
            }
            _ => {}
        }
        let complete = statement.tag(false).map_or(Expect::Complete, Expect::Tag);
        request.expects.push_back((nonce, complete));
        true
    }

    /// Whether what it executes tells of rows before it runs.
    pub(super) fn is_of_rows(&self, verb: &Verb) -> bool {
        match verb {
            Verb::Rows { .. } => true,
            Verb::Execute { name } => self.belief.by_sql.contains_key(name),
            _ => false,
        }
    }
}

/// Everybody has the same.
const NAMES: [&str; 3] = ["stmt_a", "stmt_b", "\"Stmt_C\""];
