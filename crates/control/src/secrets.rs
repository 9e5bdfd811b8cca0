//! `auth_query`: questions to servers about users, sent through a pool of our own workers as any client would.
//!
//! Always true: every question is answered, whatever happens; the first row of an answer is kept, and a row that
//! differs from it ends the answer; no secret is logged.
//! Not here: which question is sent (`worker::admission::secrets`), who waits for it (`control`).

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::Secret;
use base::WorkerId;
use pool::ClientKey;
use worker::letters::{AuthQueryAnswer, Inquirer, SecretQuestion, ToWorker};

use crate::asking::{ClientProtocol, Failure};
use crate::hands::Hands;

/// Waiting questions, and the number under way per database, so that a database that does not answer delays only its
/// own questions.
#[derive(Debug, Default)]
pub(crate) struct SecretQuestions {
    /// By database, and within a database in order of arrival.
    waiting: BTreeMap<QueuePlace, SecretQuestion>,
    /// The oldest question of each database that may be asked another one, by arrival number.
    next: BTreeMap<u64, Arc<str>>,
    /// The place of each client's question.
    places: BTreeMap<(WorkerId, ClientKey), QueuePlace>,
    under_way: BTreeMap<Arc<str>, usize>,
    /// The arrival number of the latest question.
    clock: u64,
}

/// The place of a question: its database and its arrival number.
type QueuePlace = (Arc<str>, u64);

impl SecretQuestions {
    /// Adds a question of a worker.
    pub(crate) fn ask(&mut self, question: SecretQuestion) {
        self.clock += 1;
        let place = (Arc::clone(&question.database), self.clock);
        if let Inquirer::Client(client) = question.inquirer {
            let before = self.places.insert((question.from, client), place.clone());
            debug_assert!(before.is_none(), "client {client:?} asks twice");
        }
        self.waiting.insert(place.clone(), question);
        self.look_at(&place.0);
    }

    /// Removes the waiting question of a client that is gone. A question under way ends by itself.
    pub(crate) fn forget(&mut self, from: WorkerId, client: ClientKey) {
        let Some(place) = self.places.remove(&(from, client)) else { return };
        self.waiting.remove(&place);
        if self.next.remove(&place.1).is_some() {
            self.look_at(&place.0);
        }
    }

    /// Returns the next question to be sent, if its database may be asked another one.
    pub(crate) fn start(&mut self) -> Option<SecretQuestion> {
        let (number, database) = self.next.pop_first()?;
        let question = self.waiting.remove(&(Arc::clone(&database), number))?;
        if let Inquirer::Client(client) = question.inquirer {
            self.places.remove(&(question.from, client));
        }
        *self.under_way.entry(Arc::clone(&database)).or_default() += 1;
        self.look_at(&database);
        Some(question)
    }

    /// Posts the answer to a question, or the reason why there is none, to its worker.
    pub(crate) fn told<S>(&mut self, question: SecretQuestion, told: AuthQueryAnswer, hands: &Hands<S>) {
        self.answered(&question.database);
        hands.post(question.from, ToWorker::AuthQueryAnswer { inquirer: question.inquirer, answer: told });
    }

    /// Counts one question of this database as finished.
    fn answered(&mut self, database: &Arc<str>) {
        if let Some(count) = self.under_way.get_mut(database) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(database);
            }
        }
        self.look_at(database);
    }

    /// Makes the oldest waiting question of a database eligible, if the database may be asked another one.
    fn look_at(&mut self, database: &Arc<str>) {
        if self.under_way.get(database) >= Some(&QUESTIONS_MAX) {
            return;
        }
        let all = (Arc::clone(database), 0)..=(Arc::clone(database), u64::MAX);
        if let Some(((database, number), _)) = self.waiting.range(all).next() {
            self.next.insert(*number, Arc::clone(database));
        }
    }
}

/// A question under way.
#[derive(Debug)]
pub(crate) struct SecretInquiry {
    question: SecretQuestion,
    is_asked: bool,
    /// The first row; further rows with the same values are tolerated.
    first: Option<Vec<Option<Vec<u8>>>>,
    differ: bool,
}

impl SecretInquiry {
    pub(crate) fn new(question: SecretQuestion) -> Self {
        Self { question, is_asked: false, first: None, differ: false }
    }

    /// Sends the question; returns false if it was sent before.
    pub(crate) fn ask(&mut self, protocol: &mut ClientProtocol, out: &mut Vec<u8>) -> bool {
        if self.is_asked {
            return false;
        }
        self.is_asked = true;
        let SecretQuestion { sql, user, .. } = &self.question;
        protocol.ask(CATALOG_FIRST, sql, (user, UNSPECIFIED), ANSWER_BYTES_MAX, out);
        true
    }

    /// Takes a row of the answer; returns true if no further rows are needed.
    pub(crate) fn row(&mut self, row: &[Option<&[u8]>]) -> bool {
        let is_same = |(before, value): (&Option<Vec<u8>>, &Option<&[u8]>)| before.as_deref() == *value;
        self.differ = self.first.as_ref().is_some_and(|first| !first.iter().zip(row).take(2).all(is_same));
        self.first.get_or_insert_with(|| row.iter().map(|value| value.map(<[u8]>::to_vec)).collect());
        self.differ
    }

    /// Returns the answer for the worker, now that the server's answer is complete or will not come.
    pub(crate) fn end(self, outcome: Result<(), Failure>) -> (SecretQuestion, AuthQueryAnswer) {
        let told = match (outcome, self.first.as_deref()) {
            (Err(failure), _) => failed(failure),
            (Ok(()), _) if self.differ => {
                AuthQueryAnswer::Unanswered("expected 1 row from auth_query, not several that differ".to_owned())
            }
            (Ok(()), None) => AuthQueryAnswer::Nobody,
            (Ok(()), Some([name, secret])) => told(name.as_deref(), secret.as_deref()),
            (Ok(()), Some(row)) => {
                AuthQueryAnswer::Unanswered(format!("expected 2 columns from auth_query, not {}", row.len()))
            }
        };
        (self.question, told)
    }
}

fn told(name: Option<&[u8]>, secret: Option<&[u8]>) -> AuthQueryAnswer {
    match (name, secret) {
        (Some(_), Some(secret)) if is_broken(secret) => {
            AuthQueryAnswer::Unanswered("auth_query response contained a broken SCRAM secret".to_owned())
        }
        (Some(name), secret) => {
            // A user without a secret, such as one whose password has expired, cannot log in with any password.
            let secret = Arc::new(secret.map_or(Secret::None, Secret::parse));
            AuthQueryAnswer::User { name: String::from_utf8_lossy(name).as_ref().into(), secret }
        }
        (None, _) => AuthQueryAnswer::Unanswered("auth_query response contained null user name".to_owned()),
    }
}

/// Returns whether this is a damaged SCRAM secret. PgBouncer takes it for a plain-text password, with which everybody
/// who can read it could log in.
fn is_broken(secret: &[u8]) -> bool {
    secret.starts_with(b"SCRAM-SHA-256$") && matches!(Secret::parse(secret), Secret::Plain(_))
}

/// Turns a failure into the answer for the worker. A FATAL error ended the connection, would affect every client, and
/// is passed on; any other error concerns only the question.
fn failed(failure: Failure) -> AuthQueryAnswer {
    let said = match failure {
        Failure::Said(said) => said,
        Failure::Broken(words) => return AuthQueryAnswer::Unanswered(format!("error in auth_query: {words}")),
        Failure::Late => return AuthQueryAnswer::Unanswered("no answer to auth_query in time".to_owned()),
    };
    match said.sqlstate.as_bytes().first_chunk::<5>() {
        Some(sqlstate) if said.severity == "FATAL" => AuthQueryAnswer::Refused {
            sqlstate: *sqlstate,
            text: said.message.into(),
            detail: said.detail.map(Arc::from),
            hint: said.hint.map(Arc::from),
        },
        _ => AuthQueryAnswer::Unanswered(format!("S: error in auth_query: {}: {}", said.severity, said.message)),
    }
}

/// Sent before the question in the same transaction: unqualified names are looked up in `pg_catalog` first, whatever
/// `search_path` the owner of the database has set, and only then in the session's own path. It returns no row.
const CATALOG_FIRST: &str = "SELECT WHERE pg_catalog.set_config('search_path',pg_catalog.concat('pg_catalog',\
    CASE WHEN pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) '' \
    THEN pg_catalog.concat(',',pg_catalog.current_setting('search_path')) END),true) IS NULL";
/// PostgreSQL infers the type of `$1`, as with PgBouncer. If it were declared as `text`, versions before 12, which have
/// no built-in `name = text` operator, would use an operator of the database's owner, wherever its schema is in the
/// path.
const UNSPECIFIED: u32 = 0;
/// Maximum size of the answer, which should be one row. Queries that join the groups of a user return the same row for
/// each.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Questions under way per database; each takes two descriptors. The pool that they go through may allow fewer.
const QUESTIONS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> ClientKey {
        ClientKey::first(number as u32)
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
        let mut questions = SecretQuestions::default();
        (0..=QUESTIONS_MAX).for_each(|number| questions.ask(question(number, "slow")));
        questions.ask(question(99, "quick"));
        assert_eq!(std::iter::from_fn(|| questions.start()).count(), QUESTIONS_MAX + 1);
        questions.answered(&"quick".into());
        assert_eq!(questions.start(), None);
        questions.answered(&"slow".into());
        assert_eq!(questions.start(), Some(question(QUESTIONS_MAX, "slow")));
    }

    #[test]
    fn what_was_a_hash_once_is_no_password() {
        assert!(is_broken(b"SCRAM-SHA-256$4096:c2FsdA=="));
        assert!(!is_broken(b"SCRAM") && !is_broken(b"md5") && !is_broken(b""));
    }

    #[test]
    fn a_question_for_somebody_who_has_gone_is_not_put() {
        let mut questions = SecretQuestions::default();
        questions.ask(question(1, "d"));
        questions.ask(question(2, "d"));
        questions.forget(WorkerId(0), client(1));
        assert_eq!(questions.start(), Some(question(2, "d")));
        assert_eq!(questions.start(), None);
    }

    #[test]
    fn the_one_that_came_first_is_put_first_of_all_that_may_be() {
        let mut questions = SecretQuestions::default();
        for number in 0..2 * QUESTIONS_MAX {
            questions.ask(question(number, if number % 2 == 0 { "even" } else { "odd" }));
        }
        let more: Vec<_> = ["even", "even", "odd", "third"].into_iter().zip(100..).collect();
        more.iter().for_each(|&(database, number)| questions.ask(question(number, database)));
        // A pool can ask as well.
        let of_pool = SecretQuestion { inquirer: Inquirer::Pool(client(101)), ..question(0, "even") };
        questions.ask(of_pool.clone());
        for number in 0..2 * QUESTIONS_MAX {
            assert_eq!(questions.start().map(|question| question.inquirer), Some(Inquirer::Client(client(number))));
        }
        assert_eq!(questions.start(), Some(question(103, "third")));
        assert_eq!(questions.start(), None);
        ["odd", "even", "even"].iter().for_each(|database| questions.answered(&(*database).into()));
        questions.forget(WorkerId(0), client(100));
        assert_eq!(questions.start(), Some(question(101, "even")));
        assert_eq!(questions.start(), Some(question(102, "odd")));
        assert_eq!(questions.start(), Some(of_pool));
        assert_eq!(questions.start(), None);
        assert!(questions.waiting.is_empty() && questions.next.is_empty() && questions.places.is_empty());
    }

    /// Formerly all waiting questions were searched for each one sent, and for each client that left.
    #[test]
    fn very_many_who_log_in_at_one_time_are_not_compared_with_one_another() {
        const COUNT: usize = 100_000;
        let begun = std::time::Instant::now();
        let mut questions = SecretQuestions::default();
        (0..COUNT).for_each(|number| questions.ask(question(number, "slow")));
        for number in COUNT..2 * COUNT {
            questions.ask(question(number, "quick"));
            while let Some(put) = questions.start() {
                if *put.database == *"quick" {
                    questions.answered(&put.database);
                }
            }
        }
        (0..COUNT).rev().for_each(|number| questions.forget(WorkerId(0), client(number)));
        assert!(questions.waiting.is_empty() && questions.places.is_empty() && questions.under_way.len() == 1);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
