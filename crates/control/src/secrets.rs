//! Questions to servers about users (`auth_query`): put through a pool of our own workers, as any client's.
//!
//! Always true: every question is answered, whatever comes; a secret is in nothing that is logged.
//! Not here: which question is put (`worker::secrets`), who waits for it (`control`).

use std::collections::VecDeque;
use std::error::Error;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use auth::Secret;
use tokio::net::UnixStream;
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Config, NoTls, Row};
use worker::letters::{SecretQuestion, Told};

/// Questions that wait and how many are under way.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: VecDeque<SecretQuestion>,
    under_way: usize,
}

impl Questions {
    /// Somebody asks.
    pub(crate) fn ask(&mut self, question: SecretQuestion) {
        self.waiting.push_back(question);
    }

    /// The next question to be put, if there may be one more.
    pub(crate) fn start(&mut self) -> Option<SecretQuestion> {
        if self.under_way >= QUESTIONS_MAX {
            return None;
        }
        let question = self.waiting.pop_front()?;
        self.under_way += 1;
        Some(question)
    }

    /// One has been answered.
    pub(crate) fn answered(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
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
        Ok(rows) => rows.first().map_or(Told::Nobody, told),
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

fn told(row: &Row) -> Told {
    if row.len() != 2 {
        return Told::Unanswered(format!("expected 2 columns from auth_query, not {}", row.len()));
    }
    match (text(row, 0), text(row, 1)) {
        (Some(name), secret) => {
            // A user without a secret, such as one whose password has expired, cannot log in by any.
            let secret = Arc::new(secret.map_or(Secret::None, Secret::parse));
            Told::User { name: String::from_utf8_lossy(name).as_ref().into(), secret }
        }
        (None, _) => Told::Unanswered("auth_query response contained null user name".to_owned()),
    }
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
        ("FATAL", Some(sqlstate)) => Told::Refused { sqlstate: *sqlstate, text: said.message().into() },
        (severity, _) => Told::Unanswered(format!("S: error in auth_query: {severity}: {}", said.message())),
    }
}

/// An error and its cause, which the library prints apart.
fn words(error: &tokio_postgres::Error) -> String {
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

/// Questions at a time; each takes two descriptors. The pool that they go through allows fewer.
const QUESTIONS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Key, WorkerId};

    #[test]
    fn beyond_the_limit_questions_wait_for_one_another() {
        let question = |number: usize| SecretQuestion {
            from: WorkerId(0),
            client: Key { index: number as u32, generation: 1 },
            database: "d".into(),
            asker: "a".into(),
            sql: "q".into(),
            user: "u".into(),
        };
        let mut questions = Questions::default();
        (0..=QUESTIONS_MAX).for_each(|number| questions.ask(question(number)));
        assert_eq!(std::iter::from_fn(|| questions.start()).count(), QUESTIONS_MAX);
        questions.answered();
        assert_eq!(questions.start(), Some(question(QUESTIONS_MAX)));
        assert_eq!(questions.start(), None);
    }
}
