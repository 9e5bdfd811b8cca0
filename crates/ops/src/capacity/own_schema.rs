//! A schema of our own to write to.
//!
//! Always true: it is made in a database that nobody else uses, or whose name was given as the word for it; what exists under its name is not touched;
//! it is removed at the end, also after a failure, unless it is to be kept.
//! Not here: what is written (`workload`).

use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::measure::LOOKING_ON;
use super::workload::Workload;
use crate::connection::{Line, writing_target};
use crate::hatest::Target;

/// The schema, which is removed with its guard.
pub(crate) struct OwnSchema {
    target: Target,
    is_kept: bool,
    is_there: bool,
}

impl OwnSchema {
    /// Makes it.
    ///
    /// # Errors
    /// The database is in use and `production` is not its name, or the server refuses.
    pub(crate) fn make(conninfo: &str, production: Option<&str>, is_kept: bool) -> Result<Self, String> {
        let target = writing_target(LOOKING_ON, conninfo).map_err(|why| format!("--target: {why}"))?;
        with_line(&target, async |line| {
            admit(line, production).await?;
            line.rows(MAKING, |_| ()).await.map_err(|why| format!("the schema {SCHEMA} cannot be made: {why}"))
        })?;
        Ok(Self { target, is_kept, is_there: true })
    }

    /// What is written to it.
    pub(crate) fn workload(&self) -> Workload {
        Workload::own_writes(SCHEMA, ACCOUNTS)
    }

    /// Removes it. Returns what an operator must know.
    pub(crate) fn remove(mut self) -> Option<String> {
        self.end()
    }

    fn end(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_there) {
            return None;
        }
        if self.is_kept {
            return Some(format!("the schema {SCHEMA} was kept"));
        }
        let removed = with_line(&self.target, async |line| line.rows(REMOVING, |_| ()).await);
        removed.err().map(|why| format!("the schema {SCHEMA} is still there: {why}"))
    }
}

impl Drop for OwnSchema {
    fn drop(&mut self) {
        if let Some(said) = self.end() {
            eprintln!("trunkline capacity: {said}");
        }
    }
}

/// Does something over a connection of its own.
fn with_line(target: &Target, what: impl AsyncFnOnce(&mut Line) -> Result<(), String>) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
    LocalSet::new().block_on(&runtime, async {
        let mut line = Line::open(target).await?;
        let done = what(&mut line).await;
        line.close().await;
        done
    })
}

/// Whether the database may be written to.
async fn admit(line: &mut Line, production: Option<&str>) -> Result<(), String> {
    let mut found = Vec::new();
    line.rows(USE, |row| found.extend(row.into_iter().flatten())).await?;
    let [name, tables, sessions, has_schema] = &found[..] else {
        return Err("the database does not tell its name".to_owned());
    };
    if has_schema != "0" {
        return Err(format!("there is a schema {SCHEMA} in the database \"{name}\" already, which is not touched"));
    }
    match production {
        Some(word) if word == name => Ok(()),
        Some(word) => Err(format!("--production says \"{word}\", but the database is \"{name}\"")),
        None if tables == "0" && sessions == "0" => Ok(()),
        None => Err(format!(
            "the database \"{name}\" is in use ({tables} tables, {sessions} other sessions): writing there slows others down; \
             use a database of its own, or say --production {name}"
        )),
    }
}

/// The name of the schema.
const SCHEMA: &str = "trunkline_capacity";
const ACCOUNTS: u32 = 1000;
const USE: &str = "select current_database(), \
    (select count(*) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
    where c.relkind in ('r', 'p', 'm', 'f') and n.nspname not like 'pg\\_%' and n.nspname not in ('information_schema', 'trunkline_capacity')), \
    (select count(*) from pg_catalog.pg_stat_activity where datname = current_database() and state is distinct from 'idle' and backend_type = 'client backend' and pid <> pg_backend_pid()), \
    (select count(*) from pg_catalog.pg_namespace where nspname = 'trunkline_capacity')";
/// One message, and so one transaction.
const MAKING: &str = "create schema trunkline_capacity; \
    create table trunkline_capacity.accounts (id int primary key, balance bigint not null); \
    insert into trunkline_capacity.accounts select n, 0 from generate_series(1, 1000) n";
const REMOVING: &str = "drop schema if exists trunkline_capacity cascade";
