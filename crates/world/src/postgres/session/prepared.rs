//! Statements prepared by SQL, as strict about them as PostgreSQL is.
//!
//! Always true: a name that is there is not prepared again, and one that is not there is neither executed nor dropped; no transaction
//! takes anything of that back.
//! Not here: statements that have come by the protocol (`named`).

use std::collections::BTreeMap;

use wire::write;

use super::state::Session;
use crate::postgres::sql::{EVERYBODY, Prepared, Statement, Verb, row_text, unquoted};

/// What such a statement answers when it goes wrong.
pub(super) type Failure = (&'static str, String);

/// The statements of a session, by their names.
#[derive(Debug, Default)]
pub(super) struct BySql {
    rows: BTreeMap<String, Row>,
    /// The simple query that is heard.
    heard: String,
}

#[derive(Debug)]
struct Row {
    prepared: Prepared,
    /// All that was sent at once when it was prepared, as `pg_prepared_statements` has it.
    source: String,
}

impl BySql {
    pub(super) fn hears(&mut self, text: &str) {
        text.clone_into(&mut self.heard);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Prepared> {
        self.rows.get(unquoted(name)).map(|row| &row.prepared)
    }

    /// One that an application has not prepared that speaks now.
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
    /// All are gone, however they have come.
    pub(super) fn drop_statements(&mut self) {
        self.named.clear();
        self.told_by.drop_all();
        self.prepared.rows.clear();
    }

    /// What an application says.
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

    /// The pooler's own words about them; `None` if they are about something else.
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

    /// The rows of the answer to which there are.
    pub(super) fn tell_prepared(&mut self) {
        for (name, row) in &self.prepared.rows {
            write::data_row(&mut self.out, [Some("p"), Some(name), Some(&*row.source), None].into_iter());
        }
    }
}

fn missing(name: &str) -> Failure {
    ("26000", format!("prepared statement \"{}\" does not exist", unquoted(name)))
}

/// How the pooler begins to ask for them.
pub(super) const QUESTION: &str = "SELECT 'p',name,";
