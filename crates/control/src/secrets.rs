//! Questions to servers about users (`auth_query`): put through a pool of our own workers, as any client's.
//!
//! Always true: every question is answered, whatever comes; a secret is in nothing that is logged.
//! Not here: which question is put (`worker::secrets`), who waits for it (`control`).

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use auth::Secret;
use base::WorkerId;
use pool::ClientKey;
use tokio::net::UnixStream;
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Config, NoTls, Row};
use worker::letters::{Inquirer, SecretQuestion, Told};

/// Questions that wait, and how many are under way at each database: one that does not answer holds up its own only.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: VecDeque<SecretQuestion>,
    under_way: BTreeMap<Arc<str>, usize>,
}

impl Questions {
    /// Somebody asks.
    pub(crate) fn ask(&mut self, question: SecretQuestion) {
        self.waiting.push_back(question);
    }

    /// The client for which somebody asked is gone. What is under way ends by itself.
    pub(crate) fn forget(&mut self, from: WorkerId, client: ClientKey) {
        let inquirer = Inquirer::Client(client);
        self.waiting.retain(|question| (question.from, question.inquirer) != (from, inquirer));
    }

    /// The next question to be put, if there may be one more at its database.
    pub(crate) fn start(&mut self) -> Option<SecretQuestion> {
        let under_way = &self.under_way;
        let is_full = |question: &SecretQuestion| under_way.get(&question.database) >= Some(&QUESTIONS_MAX);
        let place = self.waiting.iter().position(|question| !is_full(question))?;
        let question = self.waiting.remove(place)?;
        *self.under_way.entry(Arc::clone(&question.database)).or_default() += 1;
        Some(question)
    }

    /// One has been answered by this database.
    pub(crate) fn answered(&mut self, database: &str) {
        if let Some(count) = self.under_way.get_mut(database) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(database);
            }
        }
    }
}

/// Puts a question over `near`, whose other end is with a worker.
pub(crate) async fn put(question: &SecretQuestion, near: UnixStream) -> Told {
    let mut config = Config::new();
    config.user(&*question.asker).dbname(&*question.database);
    let (client, connection) = match config.connect_raw(near, NoTls).await {
        Ok(pair) => pair,
        Err(error) => return failed(&error),
    };
    let connection = tokio::spawn(connection);
    // Unnamed, so that it meets no other client's statements.
    let rows = client.query_typed(&question.sql, &[(&&*question.user, Type::TEXT)]).await;
    drop(client);
    let told = match rows {
        Ok(rows) => told_by(&rows),
        Err(error) => failed(&error),
    };
    connection.abort();
    told
}

/// Both ends of a connection to ourselves: that of the question, and that of the worker.
pub(crate) fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (near, far) = UnixStream::pair()?;
    Ok((near, far.into_std()?.into()))
}

/// Several rows that say the same are one.
fn told_by(rows: &[Row]) -> Told {
    let Some((first, rest)) = rows.split_first() else { return Told::Nobody };
    let is_same = |row: &Row| text(row, 0) == text(first, 0) && text(row, 1) == text(first, 1);
    match rest.iter().all(is_same) {
        true => told(first),
        false => Told::Unanswered(format!("expected 1 row from auth_query, not {} that differ", rows.len())),
    }
}

fn told(row: &Row) -> Told {
    if row.len() != 2 {
        return Told::Unanswered(format!("expected 2 columns from auth_query, not {}", row.len()));
    }
    match (text(row, 0), text(row, 1)) {
        (Some(_), Some(secret)) if is_broken(secret) => {
            Told::Unanswered("auth_query response contained a broken SCRAM secret".to_owned())
        }
        (Some(name), secret) => {
            // A user without a secret, such as one whose password has expired, cannot log in by any.
            let secret = Arc::new(secret.map_or(Secret::None, Secret::parse));
            Told::User { name: String::from_utf8_lossy(name).as_ref().into(), secret }
        }
        (None, _) => Told::Unanswered("auth_query response contained null user name".to_owned()),
    }
}

/// Whether this was a hash once. As a password in the clear, which PgBouncer takes it for, it would let everybody in who can read it.
fn is_broken(secret: &[u8]) -> bool {
    secret.starts_with(b"SCRAM-SHA-256$") && matches!(Secret::parse(secret), Secret::Plain(_))
}

fn text(row: &Row, column: usize) -> Option<&[u8]> {
    row.try_get::<_, Option<Raw<'_>>>(column).ok().flatten().map(|raw| raw.0)
}

/// The server's error tells everybody's misfortune if it ended the connection, and that of the question otherwise.
fn failed(error: &tokio_postgres::Error) -> Told {
    let Some(said) = error.as_db_error() else {
        return Told::Unanswered(format!("error in auth_query: {}", words(error)));
    };
    match (said.severity(), said.code().code().as_bytes().first_chunk::<5>()) {
        ("FATAL", Some(sqlstate)) => Told::Refused {
            sqlstate: *sqlstate,
            text: said.message().into(),
            detail: said.detail().map(Arc::from),
            hint: said.hint().map(Arc::from),
        },
        (severity, _) => Told::Unanswered(format!("S: error in auth_query: {severity}: {}", said.message())),
    }
}

/// An error and its cause, which the library prints apart.
pub(crate) fn words(error: &tokio_postgres::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// The bytes of a value of any type: those of names and texts are their text.
struct Raw<'r>(&'r [u8]);

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Questions to one database at a time; each takes two descriptors. The pool that they go through may allow fewer.
const QUESTIONS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> ClientKey {
        ClientKey { index: number as u32, generation: 1 }
    }

    fn question(number: usize, database: &str) -> SecretQuestion {
        SecretQuestion {
            from: WorkerId(0),
            inquirer: Inquirer::Client(client(number)),
            database: database.into(),
            asker: "a".into(),
            sql: "q".into(),
            user: "u".into(),
        }
    }

    #[test]
    fn beyond_the_limit_questions_to_a_database_wait_for_one_another_and_for_nobody_else() {
        let mut questions = Questions::default();
        (0..=QUESTIONS_MAX).for_each(|number| questions.ask(question(number, "slow")));
        questions.ask(question(99, "quick"));
        assert_eq!(std::iter::from_fn(|| questions.start()).count(), QUESTIONS_MAX + 1);
        questions.answered("quick");
        assert_eq!(questions.start(), None);
        questions.answered("slow");
        assert_eq!(questions.start(), Some(question(QUESTIONS_MAX, "slow")));
    }

    #[test]
    fn what_was_a_hash_once_is_no_password() {
        assert!(is_broken(b"SCRAM-SHA-256$4096:c2FsdA=="));
        assert!(!is_broken(b"SCRAM") && !is_broken(b"md5") && !is_broken(b""));
    }

    #[test]
    fn a_question_for_somebody_who_has_gone_is_not_put() {
        let mut questions = Questions::default();
        questions.ask(question(1, "d"));
        questions.ask(question(2, "d"));
        questions.forget(WorkerId(0), client(1));
        assert_eq!(questions.start(), Some(question(2, "d")));
        assert_eq!(questions.start(), None);
    }
}
