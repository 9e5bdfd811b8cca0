//! A connection string, and a connection on which questions are asked: to a server, to each of its databases, to a pooler's console.
//!
//! Always true: a connection to a server is read-only from its first statement and finds nothing but `pg_catalog` by its names, unless it is to
//! write; each statement has a time limit on both sides; after a connection is lost nothing more is asked on it. No text repeats a password.
//! Not here: the questions (`facts/postgres`, `facts/console`).

use std::time::Duration;

use nix::unistd::{User, geteuid};
use tokio::time::timeout;

use crate::facts::{Answers, Observed, Query, Record};
use crate::hatest::{Codes, Machine, Session, Target};

/// A connection.
pub(crate) struct Line {
    session: Session,
    /// Why nothing more is asked.
    lost: Option<String>,
}

/// Reads the connection string of a server, whose sessions will be read-only, and whose database is `postgres` unless the string or the environment
/// says another. `who` is their `application_name`.
///
/// # Errors
/// Says which value is invalid, and repeats no password.
pub(crate) fn server_target(who: &str, conninfo: &str) -> Result<Target, String> {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let or_postgres = |name: &str| said(name).or_else(|| (name == "PGDATABASE").then(|| "postgres".to_owned()));
    let mut target = target(who, conninfo, &or_postgres)?;
    for host in &mut target.hosts {
        host.login.options(READ_ONLY);
    }
    Ok(target)
}

/// Reads the connection string of a console, whose database is `pgbouncer` unless the string says another.
///
/// # Errors
/// As [`server_target`].
pub(crate) fn console_target(who: &str, conninfo: &str) -> Result<Target, String> {
    // What the string does not say is looked up in the environment.
    target(who, conninfo, &|name| {
        if name == "PGDATABASE" { Some("pgbouncer".to_owned()) } else { std::env::var(name).ok() }
    })
}

/// Reads the connection string of a server, whose sessions may write.
///
/// # Errors
/// As [`server_target`].
pub(crate) fn writing_target(who: &str, conninfo: &str) -> Result<Target, String> {
    target(who, conninfo, &|name| std::env::var(name).ok())
}

fn target(who: &str, conninfo: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Target, String> {
    let machine = Machine {
        variable,
        passwords: &|path| conninfo::read_private(path).ok().flatten(),
        user: User::from_uid(geteuid()).ok().flatten().map(|user| user.name),
    };
    let mut target = Target::read(conninfo, CONNECT_TIME_MAX, &machine)?;
    for host in &mut target.hosts {
        host.login.application_name(who);
    }
    Ok(target)
}

/// The same server, another database.
pub(crate) fn in_database(target: &Target, database: &str) -> Target {
    let mut target = target.clone();
    for host in &mut target.hosts {
        host.login.dbname(database);
    }
    target
}

/// Where a target is, for a reader.
pub(crate) fn address(target: &Target) -> String {
    target.hosts.iter().map(|host| host.address.name()).collect::<Vec<_>>().join(",")
}

impl Line {
    /// Connects.
    ///
    /// # Errors
    /// Why not, with the address.
    pub(crate) async fn open(target: &Target) -> Observed<Self> {
        let session = Session::open(target, &mut Codes::default()).await?;
        Ok(Self { session, lost: None })
    }

    /// Limits the time of statements. The server's own limits have been read before, because a session sees only what holds for it.
    pub(crate) async fn limit(&mut self) {
        for statement in LIMITS {
            // A version without one of the settings refuses that statement.
            let _ = self.rows(statement, |_| ()).await;
        }
    }

    /// Asks what a version has, and adds the answers.
    pub(crate) async fn ask(&mut self, queries: &[Query], major: u32, answers: &mut Answers) {
        for query in queries {
            if !query.suits(major) {
                continue;
            }
            let mut rows = Vec::new();
            let answer = self.rows(&query.statement(), |row| rows.extend(row.into_iter().flatten())).await;
            answers.put(query.name, answer.map(|()| rows).map_err(|why| format!("{} ({why})", query.name)));
        }
    }

    /// Asks a console for tables, and adds the answers as JSON objects.
    pub(crate) async fn show(&mut self, tables: &[&'static str], answers: &mut Answers) {
        for table in tables {
            let answer = self.records(&format!("SHOW {table}")).await;
            let json = |records: Vec<Record>| {
                records.iter().map(|record| serde_json::to_string(record).unwrap_or_default()).collect()
            };
            answers.put(table, answer.map(json).map_err(|why| format!("SHOW {table} ({why})")));
        }
    }

    /// Runs a statement; values are by the names of their columns.
    pub(crate) async fn records(&mut self, statement: &str) -> Observed<Vec<Record>> {
        self.check()?;
        let answer = timeout(ANSWER_TIME_MAX, self.session.records(statement)).await;
        self.settle(answer.map(|answer| answer.map_err(|failure| failure.text())))
    }

    /// Runs a statement, and passes on each row.
    pub(crate) async fn rows(&mut self, statement: &str, each: impl FnMut(Vec<Option<String>>)) -> Observed<()> {
        self.check()?;
        let answer = timeout(ANSWER_TIME_MAX, self.session.rows(statement, each)).await;
        self.settle(answer.map(|answer| answer.map_err(|failure| failure.text())))
    }

    fn check(&self) -> Observed<()> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    fn settle<T>(&mut self, answer: Result<Observed<T>, tokio::time::error::Elapsed>) -> Observed<T> {
        let answer = answer.unwrap_or_else(|_| {
            let why = format!("no answer in {} s", ANSWER_TIME_MAX.as_secs());
            self.lost = Some(why.clone());
            Err(why)
        });
        if let (Err(why), true) = (&answer, self.session.is_broken()) {
            self.lost.get_or_insert_with(|| format!("the connection was lost: {why}"));
        }
        answer
    }

    /// Why nothing more is asked, if so.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Ends the connection.
    pub(crate) async fn close(self) {
        // One that has ended has nobody to say it to.
        if !self.session.is_broken() {
            self.session.close().await;
        }
    }
}

/// Startup options of a session at a server.
const READ_ONLY: &str = "-c default_transaction_read_only=on -c search_path=pg_catalog";
const LIMITS: [&str; 5] = [
    "set statement_timeout = '5s'",
    "set lock_timeout = '500ms'",
    "set jit = off",
    "set max_parallel_workers_per_gather = 0",
    "set idle_session_timeout = 0",
];
/// For one host.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// For one statement; more than the server's own limit.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_in_the_database_pgbouncer_unless_the_string_says_another() {
        let database = |conninfo: &str| {
            let target = console_target("test", conninfo).expect("a target");
            target.hosts[0].login.get_dbname().map(str::to_owned)
        };
        assert_eq!(database("host=a user=u").as_deref(), Some("pgbouncer"));
        assert_eq!(database("postgres://u@a:6432/console").as_deref(), Some("console"));
        assert_eq!(database("host=a user=u dbname=u").as_deref(), Some("u"));
    }

    #[test]
    fn a_server_is_asked_in_the_database_postgres_unless_another_is_said() {
        let database = |conninfo: &str| {
            let target = server_target("test", conninfo).expect("a target");
            target.hosts[0].login.get_dbname().map(str::to_owned)
        };
        let said = std::env::var("PGDATABASE").ok().filter(|name| !name.is_empty());
        assert_eq!(database("host=a user=monitor"), said.or(Some("postgres".to_owned())));
        assert_eq!(database("host=a user=monitor dbname=app").as_deref(), Some("app"));
    }

    #[test]
    fn only_a_server_is_sent_options() {
        let options =
            |target: Result<Target, String>| target.expect("a target").hosts[0].login.get_options().map(str::to_owned);
        assert!(options(server_target("test", "host=a user=u")).is_some_and(|sent| sent.contains("read_only=on")));
        assert_eq!(options(console_target("test", "host=a user=u")), None);
        assert_eq!(options(writing_target("test", "host=a user=u")), None);
    }

    #[test]
    fn a_mistake_does_not_repeat_the_password() {
        for conninfo in ["host=a password=geheim sslmode=sure", "postgres://u:geheim@a:port/d"] {
            let why = server_target("test", conninfo).expect_err("a mistake");
            assert!(!why.contains("geheim"), "{why}");
        }
    }
}
