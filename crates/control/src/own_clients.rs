//! Connections of the control thread to its own workers, through which it queries servers like any client, and the
//! orders for each.
//!
//! Always true: bytes are sent on a connection only between its opening and its end; every wait for an answer has a
//! limit; bytes that arrive after the end are ignored.
//! Not here: sockets (`run`), the client side of the protocol (`asking`), the queries (`secrets`, `sweeper`,
//! `listeners`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use config::Settings;
use worker::letters::{AuthQueryAnswer, SecretQuestion};

use crate::asking::{ClientProtocol, Failure, Part};
use crate::{secrets, sweeper};

/// An order for a connection to one of our own workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnClientOrder {
    /// Open a connection: one end is given to the home worker of this database
    /// ([`Control::connect_own`](crate::Control::connect_own) or
    /// [`Control::connect_listener`](crate::Control::connect_listener)), and what arrives at the other end is reported
    /// by [`OwnClientNews`].
    Open {
        /// The number.
        number: u64,
        /// The database to which it connects.
        database: Arc<str>,
        /// The session listens on behalf of all clients of the database.
        is_listener: bool,
    },
    /// Send bytes.
    Say {
        /// The number.
        number: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Close the connection at once.
    Close {
        /// The number.
        number: u64,
    },
}

/// News of a connection to one of our own workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnClientNews {
    /// These bytes were received.
    Heard(Vec<u8>),
    /// The connection has ended, or could not be opened, for this reason.
    Ended(String),
}

/// All connections to our own workers.
#[derive(Debug, Default)]
pub(crate) struct OwnClients {
    opened: u64,
    open: BTreeMap<u64, OwnClient>,
    orders: VecDeque<OwnClientOrder>,
}

/// A connection to one of our own workers.
#[derive(Debug)]
struct OwnClient {
    protocol: ClientProtocol,
    purpose: OwnClientPurpose,
    /// When an answer is no longer waited for.
    ends_at: Option<Time>,
}

/// The purpose of a connection.
#[derive(Debug)]
enum OwnClientPurpose {
    Secret(secrets::SecretInquiry),
    Sweep(sweeper::LockInquiry),
    /// The session that listens on behalf of all clients of this database.
    Listener(Arc<str>),
}

/// The outcome of a conversation.
#[derive(Debug)]
pub(crate) enum OwnClientOutcome {
    /// An `auth_query` is answered, or never will be; the connection is closed.
    Secret(SecretQuestion, AuthQueryAnswer),
    /// A question about locks is answered, or never will be; the connection is closed.
    Locks(sweeper::LockQuestion, Result<sweeper::Answer, String>),
    /// A command of the listening session of this database has completed or failed, or its connection has ended.
    Listener(Arc<str>, Result<(), String>),
}

impl OwnClients {
    /// Returns the earliest deadline for an answer.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.open.values().filter_map(|own_client| own_client.ends_at).min()
    }

    fn open(
        &mut self,
        database: &Arc<str>,
        parameters: &[(&str, &str)],
        purpose: OwnClientPurpose,
        ends_at: Option<Time>,
    ) -> u64 {
        self.opened += 1;
        let (number, mut bytes) = (self.opened, Vec::new());
        let protocol = ClientProtocol::log_in(parameters, &mut bytes);
        self.open.insert(number, OwnClient { protocol, purpose, ends_at });
        let is_listener = matches!(self.open[&number].purpose, OwnClientPurpose::Listener(_));
        self.orders.push_back(OwnClientOrder::Open { number, database: Arc::clone(database), is_listener });
        self.orders.push_back(OwnClientOrder::Say { number, bytes });
        number
    }

    /// Opens the connection of a listening session, which logs in as `user`.
    pub(crate) fn listen(&mut self, database: &Arc<str>, user: &str) -> u64 {
        let parameters = [("user", user), ("database", &**database), ("application_name", "trunkline listens")];
        self.open(database, &parameters, OwnClientPurpose::Listener(Arc::clone(database)), None)
    }

    /// Runs a command as a simple query and ignores its rows.
    pub(crate) fn run(&mut self, number: u64, sql: &str) {
        if let Some(OwnClient { protocol, .. }) = self.open.get_mut(&number) {
            let mut bytes = Vec::new();
            protocol.run(sql, &mut bytes);
            self.orders.push_back(OwnClientOrder::Say { number, bytes });
        }
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, number: u64) {
        if self.open.remove(&number).is_some() {
            self.orders.push_back(OwnClientOrder::Close { number });
        }
    }

    /// Returns the next order for a connection.
    pub(crate) fn next_order(&mut self) -> Option<OwnClientOrder> {
        self.orders.pop_front()
    }

    /// Sends an `auth_query`.
    pub(crate) fn ask_secret(&mut self, question: SecretQuestion, ends_at: Time) {
        let (database, asker) = (Arc::clone(&question.database), Arc::clone(&question.asker));
        let purpose = OwnClientPurpose::Secret(secrets::SecretInquiry::new(question));
        self.open(&database, &[("user", &asker), ("database", &database)], purpose, Some(ends_at));
    }

    /// Asks a server for advisory locks.
    pub(crate) fn ask_locks(&mut self, question: sweeper::LockQuestion, ends_at: Time) {
        let (database, user) = (Arc::clone(question.database()), Arc::clone(question.user()));
        let parameters = [("user", &*user), ("database", &*database), ("application_name", "trunkline sweeps")];
        self.open(&database, &parameters, OwnClientPurpose::Sweep(sweeper::LockInquiry::new(question)), Some(ends_at));
    }

    /// Adds received bytes; [`OwnClients::next_outcome`] returns what follows from them.
    pub(crate) fn hear(&mut self, number: u64, bytes: &[u8]) {
        if let Some(own_client) = self.open.get_mut(&number) {
            own_client.protocol.hear(bytes);
        }
    }

    /// Reads the complete messages received, up to the next outcome.
    pub(crate) fn next_outcome(&mut self, number: u64) -> Option<OwnClientOutcome> {
        while let Some(OwnClient { protocol, purpose, .. }) = self.open.get_mut(&number) {
            let outcome = match protocol.next()? {
                Part::Row(row) => {
                    let is_enough = match purpose {
                        OwnClientPurpose::Secret(inquiry) => inquiry.row(&row),
                        OwnClientPurpose::Sweep(inquiry) => inquiry.row(&row),
                        OwnClientPurpose::Listener(_) => false,
                    };
                    if !is_enough {
                        continue;
                    }
                    Ok(())
                }
                Part::End(outcome) => outcome,
            };
            let mut bytes = Vec::new();
            let is_asked = outcome.is_ok()
                && match purpose {
                    OwnClientPurpose::Secret(inquiry) => inquiry.ask(protocol, &mut bytes),
                    OwnClientPurpose::Sweep(inquiry) => inquiry.ask(protocol, &mut bytes),
                    OwnClientPurpose::Listener(_) => false,
                };
            match is_asked {
                true => self.orders.push_back(OwnClientOrder::Say { number, bytes }),
                false => return self.end_with(number, outcome),
            }
        }
        None
    }

    /// Records that a connection has ended, or could not be opened.
    pub(crate) fn ended(&mut self, number: u64, why: &str) -> Option<OwnClientOutcome> {
        let failure = self.open.get_mut(&number)?.protocol.ended(why);
        self.end_with(number, Err(failure))
    }

    /// Ends a conversation; all connections but those of listening sessions are closed.
    fn end_with(&mut self, number: u64, outcome: Result<(), Failure>) -> Option<OwnClientOutcome> {
        if let OwnClientPurpose::Listener(database) = &self.open.get(&number)?.purpose {
            return Some(OwnClientOutcome::Listener(Arc::clone(database), outcome.map_err(|failure| failure.words())));
        }
        let OwnClient { purpose, .. } = self.open.remove(&number)?;
        self.orders.push_back(OwnClientOrder::Close { number });
        match purpose {
            OwnClientPurpose::Secret(inquiry) => {
                let (question, told) = inquiry.end(outcome);
                Some(OwnClientOutcome::Secret(question, told))
            }
            OwnClientPurpose::Sweep(inquiry) => {
                let (question, answer) = inquiry.end(outcome.map_err(|failure| failure.words()));
                Some(OwnClientOutcome::Locks(question, answer))
            }
            OwnClientPurpose::Listener(_) => None,
        }
    }

    /// Returns the connections whose answer is overdue.
    pub(crate) fn late(&self, now: Time) -> Vec<u64> {
        let is_late = |own_client: &OwnClient| own_client.ends_at.is_some_and(|end| end <= now);
        self.open.iter().filter(|(_, own_client)| is_late(own_client)).map(|(&number, _)| number).collect()
    }

    /// Gives up a connection whose answer is overdue.
    pub(crate) fn give_up(&mut self, number: u64) -> Option<OwnClientOutcome> {
        self.end_with(number, Err(Failure::Late))
    }
}

/// The time limit of a question: longer than the login that needs the answer, so that a client that waits too long
/// always gets the error of `client_login_timeout`.
pub(crate) fn question_limit(settings: &Settings) -> Duration {
    settings.client_login_timeout.map_or(QUESTION_MAX, |limit| limit + AFTER_THE_LOGIN)
}

/// The time limit of a question where `client_login_timeout` is off.
const QUESTION_MAX: Duration = Duration::from_secs(60);

/// How much longer a question may take than the login that needs its answer.
const AFTER_THE_LOGIN: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "own_clients_tests.rs"]
mod tests;
