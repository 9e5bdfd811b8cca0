//! Statements prepared by SQL `PREPARE`, as strict as in PostgreSQL.
//!
//! Always true: an existing name cannot be prepared again, and a missing one can be neither executed nor dropped; a
//! rollback changes none of that.
//! Not here: statements prepared by `Parse` (`named`).

use std::collections::BTreeMap;

use wire::write;

use super::state::Session;
use crate::postgres::sql::{EVERYBODY, Prepared, Statement, Verb, row_text, unquoted};

/// The SQLSTATE and text of a failed statement.
pub(super) type Failure = (&'static str, String);

/// The statements of a session, by name.
#[derive(Debug, Default)]
pub(super) struct BySql {
    rows: BTreeMap<String, Row>,
    /// The text of the current simple query.
    heard: String,
}

#[derive(Debug)]
struct Row {
    prepared: Prepared,
    /// The whole text of the query that has prepared it, as in `pg_prepared_statements`.
    source: String,
}

impl BySql {
    pub(super) fn hears(&mut self, text: &str) {
        text.clone_into(&mut self.heard);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Prepared> {
        self.rows.get(unquoted(name)).map(|row| &row.prepared)
    }

    /// Returns a statement that an application other than this one has prepared.
    pub(super) fn of_another(&self, app: u32) -> Option<&Prepared> {
        let mut rows = self.rows.values().map(|row| &row.prepared);
        rows.find(|prepared| prepared.key.app != app && prepared.key.app != EVERYBODY)
    }

    fn prepare(&mut self, prepared: Prepared, source: String) -> Result<(), Failure> {
        let name = unquoted(&prepared.name).to_owned();
        if self.rows.contains_key(&name) {
            return Err(("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        self.rows.insert(name, Row { prepared, source });
        Ok(())
    }

    fn drop_one(&mut self, name: &str) -> Result<(), Failure> {
        self.rows.remove(unquoted(name)).map(drop).ok_or_else(|| missing(name))
    }
}

impl Session {
    /// Drops all prepared statements, by SQL or by the protocol.
    pub(super) fn drop_statements(&mut self) {
        self.named.clear();
        self.along.drop_all();
        self.prepared.rows.clear();
    }

    /// Runs a statement of an application.
    pub(super) fn run_prepared(&mut self, statement: &Statement, describes: bool) -> Result<(), Failure> {
        match &statement.verb {
            Verb::Prepare(prepared) => {
                let source = if describes { self.prepared.heard.clone() } else { statement.to_string() };
                self.prepared.prepare(prepared.clone(), source)
            }
            Verb::Execute { name } => {
                let Prepared { key, rows, .. } = *self.prepared.get(name).ok_or_else(|| missing(name))?;
                if describes {
                    self.row_description();
                }
                for at in 0..rows {
                    write::data_row(&mut self.out, [Some(&*row_text(key, at, rows, 0))].into_iter());
                }
                Ok(())
            }
            Verb::Deallocate { name: Some(name) } => self.prepared.drop_one(name),
            _ => Ok(()),
        }
    }

    /// Runs a PREPARE or DEALLOCATE of the pooler itself; `None` if the text is something else.
    pub(super) fn run_about_prepared(&mut self, text: &str) -> Option<Result<(), Failure>> {
        if let Some(name) = text.strip_prefix("DEALLOCATE ") {
            return Some(self.prepared.drop_one(name));
        }
        let prepared = Prepared::read(text)?;
        if prepared.key.is_refused_elsewhere() {
            return Some(Err(("42P01", "relation does not exist".to_owned())));
        }
        Some(self.prepared.prepare(prepared, text.to_owned()))
    }

    /// Writes the prepared statements of the answer to a state probe.
    pub(super) fn tell_prepared(&mut self) {
        for (name, row) in &self.prepared.rows {
            write::data_row(&mut self.out, [Some("p"), Some(name), Some(&*row.source), None].into_iter());
        }
    }
}

fn missing(name: &str) -> Failure {
    ("26000", format!("prepared statement \"{}\" does not exist", unquoted(name)))
}

/// Part of the state probe that asks for prepared statements.
pub(super) const QUESTION: &str = "SELECT 'p',name,";
