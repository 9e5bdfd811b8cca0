//! Connections of the control thread to its own workers, as whose client it asks servers: which there are, and what is said on each.
//!
//! Always true: what is said on a connection comes between its opening and its end; nothing is waited for without a limit; when one
//! has ended, nothing that still comes of it is heard.
//! Not here: sockets (`run`), how a client speaks (`asking`), what is asked (`secrets`, `sweeper`, `listeners`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use config::Settings;
use worker::letters::{SecretQuestion, Told};

use crate::asking::{Asker, Failure, Part};
use crate::{secrets, sweeper};

/// What is to be done with a connection to our own workers, by its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkOrder {
    /// It is to be opened: one end is given to the worker of this database ([`Control::connect_own`](crate::Control::connect_own) or
    /// [`Control::connect_listener`](crate::Control::connect_listener)), what comes at the other is told by [`LinkNews`].
    Open {
        /// Its number.
        link: u64,
        /// Whose worker it leads to.
        database: Arc<str>,
        /// It listens for all clients of the database.
        is_listener: bool,
    },
    /// This is to be sent.
    Say {
        /// On which.
        link: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// It is to be closed, at once.
    Close {
        /// Which.
        link: u64,
    },
}

/// What becomes of a connection to our own workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkNews {
    /// This has come.
    Heard(Vec<u8>),
    /// It has ended, or never begun, for this reason.
    Ended(String),
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Links {
    opened: u64,
    open: BTreeMap<u64, Link>,
    orders: VecDeque<LinkOrder>,
}

/// One of them.
#[derive(Debug)]
struct Link {
    asker: Asker,
    talk: Talk,
    /// When it is waited for no longer.
    ends_at: Option<Time>,
}

/// What a connection is for.
#[derive(Debug)]
enum Talk {
    Secret(secrets::Inquiry),
    Sweep(sweeper::Inquiry),
    /// The session that listens for all clients of this database.
    Listener(Arc<str>),
}

/// What a connection was for has come to this.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A question about a user is answered, or never will be; the connection is closed.
    Secret(SecretQuestion, Told),
    /// So is one about locks.
    Locks(sweeper::Question, Result<sweeper::Answer, String>),
    /// What the session that listens for all clients of this database has said is answered, or its connection has ended.
    Listener(Arc<str>, Result<(), String>),
}

impl Links {
    /// When somebody is waited for no longer.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.open.values().filter_map(|link| link.ends_at).min()
    }

    fn open(&mut self, database: &Arc<str>, parameters: &[(&str, &str)], talk: Talk, ends_at: Option<Time>) -> u64 {
        self.opened += 1;
        let (link, mut bytes) = (self.opened, Vec::new());
        let asker = Asker::log_in(parameters, &mut bytes);
        self.open.insert(link, Link { asker, talk, ends_at });
        let is_listener = matches!(self.open[&link].talk, Talk::Listener(_));
        self.orders.push_back(LinkOrder::Open { link, database: Arc::clone(database), is_listener });
        self.orders.push_back(LinkOrder::Say { link, bytes });
        link
    }

    /// The session that listens for all comes, as this user.
    pub(crate) fn listen(&mut self, database: &Arc<str>, user: &str) -> u64 {
        let parameters = [("user", user), ("database", &**database), ("application_name", "trunkline listens")];
        self.open(database, &parameters, Talk::Listener(Arc::clone(database)), None)
    }

    /// Runs a command whose rows are of no interest.
    pub(crate) fn run(&mut self, link: u64, sql: &str) {
        if let Some(Link { asker, .. }) = self.open.get_mut(&link) {
            let mut bytes = Vec::new();
            asker.run(sql, &mut bytes);
            self.orders.push_back(LinkOrder::Say { link, bytes });
        }
    }

    /// It is of no more use.
    pub(crate) fn close(&mut self, link: u64) {
        if self.open.remove(&link).is_some() {
            self.orders.push_back(LinkOrder::Close { link });
        }
    }

    /// What is to be done next with a connection.
    pub(crate) fn next_order(&mut self) -> Option<LinkOrder> {
        self.orders.pop_front()
    }

    /// Puts a question about a user.
    pub(crate) fn ask_secret(&mut self, question: SecretQuestion, ends_at: Time) {
        let (database, asker) = (Arc::clone(&question.database), Arc::clone(&question.asker));
        let talk = Talk::Secret(secrets::Inquiry::new(question));
        self.open(&database, &[("user", &asker), ("database", &database)], talk, Some(ends_at));
    }

    /// Puts a question about locks.
    pub(crate) fn ask_locks(&mut self, question: sweeper::Question, ends_at: Time) {
        let (database, user) = (Arc::clone(question.database()), Arc::clone(question.user()));
        let parameters = [("user", &*user), ("database", &*database), ("application_name", "trunkline sweeps")];
        self.open(&database, &parameters, Talk::Sweep(sweeper::Inquiry::new(question)), Some(ends_at));
    }

    /// This has come; [`Links::next_outcome`] tells what follows.
    pub(crate) fn hear(&mut self, number: u64, bytes: &[u8]) {
        if let Some(link) = self.open.get_mut(&number) {
            link.asker.hear(bytes);
        }
    }

    /// Reads what has come, as far as it is whole, up to the next outcome.
    pub(crate) fn next_outcome(&mut self, number: u64) -> Option<Outcome> {
        while let Some(Link { asker, talk, .. }) = self.open.get_mut(&number) {
            let outcome = match asker.next()? {
                Part::Row(row) => {
                    let is_enough = match talk {
                        Talk::Secret(inquiry) => inquiry.row(&row),
                        Talk::Sweep(inquiry) => inquiry.row(&row),
                        Talk::Listener(_) => false,
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
                && match talk {
                    Talk::Secret(inquiry) => inquiry.ask(asker, &mut bytes),
                    Talk::Sweep(inquiry) => inquiry.ask(asker, &mut bytes),
                    Talk::Listener(_) => false,
                };
            match is_asked {
                true => self.orders.push_back(LinkOrder::Say { link: number, bytes }),
                false => return self.end_talk(number, outcome),
            }
        }
        None
    }

    /// A connection has ended, or never begun.
    pub(crate) fn ended(&mut self, number: u64, why: &str) -> Option<Outcome> {
        let failure = self.open.get_mut(&number)?.asker.ended(why);
        self.end_talk(number, Err(failure))
    }

    /// What was asked on a connection is answered, or never will be.
    fn end_talk(&mut self, number: u64, outcome: Result<(), Failure>) -> Option<Outcome> {
        if let Talk::Listener(database) = &self.open.get(&number)?.talk {
            return Some(Outcome::Listener(Arc::clone(database), outcome.map_err(|failure| failure.words())));
        }
        let Link { talk, .. } = self.open.remove(&number)?;
        self.orders.push_back(LinkOrder::Close { link: number });
        match talk {
            Talk::Secret(inquiry) => {
                let (question, told) = inquiry.end(outcome);
                Some(Outcome::Secret(question, told))
            }
            Talk::Sweep(inquiry) => {
                let (question, answer) = inquiry.end(outcome.map_err(|failure| failure.words()));
                Some(Outcome::Locks(question, answer))
            }
            Talk::Listener(_) => None,
        }
    }

    /// Those that nobody has answered in time.
    pub(crate) fn late(&self, now: Time) -> Vec<u64> {
        let is_late = |link: &Link| link.ends_at.is_some_and(|end| end <= now);
        self.open.iter().filter(|(_, link)| is_late(link)).map(|(&number, _)| number).collect()
    }

    /// Gives up one of them.
    pub(crate) fn give_up(&mut self, number: u64) -> Option<Outcome> {
        self.end_talk(number, Err(Failure::Late))
    }
}

/// How long a question may take: longer than the login that needs it, so that
/// who waits too long is always told of the setting that it met, `client_login_timeout`.
pub(crate) fn question_limit(settings: &Settings) -> Duration {
    settings.client_login_timeout.map_or(QUESTION_MAX, |limit| limit + AFTER_THE_LOGIN)
}

/// How long a question to a server may take where logins have no limit.
const QUESTION_MAX: Duration = Duration::from_secs(60);

/// How much longer a question may take than the login that needs it.
const AFTER_THE_LOGIN: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
