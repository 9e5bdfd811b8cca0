//! Connections of the control thread to its own workers, as whose client it asks servers: which there are, and what is said on each.
//!
//! Always true: what is said on a connection comes between its opening and its end; nothing is waited for without a limit; when one
//! has ended, nothing that still comes of it is heard.
//! Not here: sockets (`run`), how a client speaks (`asking`), what is asked (`secrets`, `sweeper`, `listeners`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::asking::{Asker, Failure, Part};
use crate::control::Control;
use crate::{secrets, sweeper};

/// What is to be done with a connection to our own workers, by its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkOrder {
    /// It is to be opened: one end is given to the worker of this database ([`Control::connect_own`] or
    /// [`Control::connect_listener`]), what comes at the other is told by [`LinkNews`].
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
}

impl<S> Control<S> {
    /// What is to be done next with a connection to our own workers; [`Event::Link`](crate::Event::Link) tells what comes of it.
    pub fn next_link_order(&mut self) -> Option<LinkOrder> {
        self.links.orders.pop_front()
    }

    /// Puts all questions that may be put now.
    pub(crate) fn put_questions(&mut self) {
        let ends_at = Some(self.now.time + self.question_limit());
        while let Some(question) = self.questions.start() {
            let database = Arc::clone(&question.database);
            let asker = Arc::clone(&question.asker);
            let talk = Talk::Secret(secrets::Inquiry::new(question));
            self.links.open(&database, &[("user", &asker), ("database", &database)], talk, ends_at);
        }
        while let Some(question) = self.sweeper.next_question() {
            let (database, user) = (Arc::clone(question.database()), Arc::clone(question.user()));
            let parameters = [("user", &*user), ("database", &*database), ("application_name", "trunkline sweeps")];
            self.links.open(&database, &parameters, Talk::Sweep(sweeper::Inquiry::new(question)), ends_at);
        }
    }

    /// Something has come of a connection.
    pub(crate) fn hear_link(&mut self, number: u64, news: &LinkNews) {
        match news {
            LinkNews::Heard(bytes) => {
                if let Some(link) = self.links.open.get_mut(&number) {
                    link.asker.hear(bytes);
                    self.read_link(number);
                }
            }
            LinkNews::Ended(why) => {
                let failure = self.links.open.get_mut(&number).map(|link| link.asker.ended(why));
                if let Some(failure) = failure {
                    self.end_talk(number, Err(failure));
                }
            }
        }
    }

    /// Reads what has come, as far as it is whole.
    fn read_link(&mut self, number: u64) {
        while let Some(Link { asker, talk, .. }) = self.links.open.get_mut(&number) {
            let outcome = match asker.next() {
                None => return,
                Some(Part::Row(row)) => {
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
                Some(Part::End(outcome)) => outcome,
            };
            let mut bytes = Vec::new();
            let is_asked = outcome.is_ok()
                && match talk {
                    Talk::Secret(inquiry) => inquiry.ask(asker, &mut bytes),
                    Talk::Sweep(inquiry) => inquiry.ask(asker, &mut bytes),
                    Talk::Listener(_) => false,
                };
            match is_asked {
                true => self.links.orders.push_back(LinkOrder::Say { link: number, bytes }),
                false => self.end_talk(number, outcome),
            }
        }
    }

    /// What was asked on a connection is answered, or never will be.
    fn end_talk(&mut self, number: u64, outcome: Result<(), Failure>) {
        let Some(Link { talk, .. }) = self.links.open.get_mut(&number) else { return };
        if let Talk::Listener(database) = talk {
            let database = Arc::clone(database);
            return self.listener_is_told(&database, outcome.map_err(|failure| failure.words()));
        }
        let Some(Link { talk, .. }) = self.links.open.remove(&number) else { return };
        self.links.orders.push_back(LinkOrder::Close { link: number });
        match talk {
            Talk::Secret(inquiry) => {
                let (question, told) = inquiry.end(outcome);
                self.told(question, told);
            }
            Talk::Sweep(inquiry) => {
                let (question, answer) = inquiry.end(outcome.map_err(|failure| failure.words()));
                self.swept(question, answer);
            }
            Talk::Listener(_) => {}
        }
    }

    /// Gives up whom nobody has answered in time.
    pub(crate) fn expire_links(&mut self) {
        let now = self.now.time;
        let is_late = |link: &Link| link.ends_at.is_some_and(|end| end <= now);
        let late: Vec<u64> =
            self.links.open.iter().filter(|(_, link)| is_late(link)).map(|(&number, _)| number).collect();
        for number in late {
            self.end_talk(number, Err(Failure::Late));
        }
    }

    /// How long a question may take: longer than the login that needs it, so that
    /// who waits too long is always told of the setting that it met, `client_login_timeout`.
    #[must_use]
    pub fn question_limit(&self) -> Duration {
        self.force.settings.client_login_timeout.map_or(QUESTION_MAX, |limit| limit + AFTER_THE_LOGIN)
    }
}

/// How long a question to a server may take where logins have no limit.
const QUESTION_MAX: Duration = Duration::from_secs(60);

/// How much longer a question may take than the login that needs it.
const AFTER_THE_LOGIN: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
