//! The HTTP questions to the workers, in rounds.
//!
//! Always true: one survey of the workers answers all questions asked before it began, and surveys are spaced apart, so
//! that hundreds of scrapers cost a worker no more than one; a question that finds too many waiting is refused at once.
//! Not here: the answers (`Control`), access control (`guard`).

use std::time::Duration;

use axum::body::Bytes;
use base::Time;
use worker::letters::Parts;

use super::overview;
use crate::console::show::{self, Subject};
use crate::metrics;

/// A question asked by HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HttpQuestion {
    /// All metrics.
    Metrics {
        /// In the OpenMetrics format instead of the older Prometheus format.
        is_open: bool,
        /// Compressed with gzip.
        is_gzip: bool,
    },
    /// The overview that the page shows.
    Overview,
    /// The events after a number of changes to them.
    News {
        /// The number of changes that the reader knows; `None` means all until now.
        since: Option<u64>,
    },
    /// Whether clients of a database, or clients at all, are served.
    Ready {
        /// The database.
        database: Option<Box<str>>,
    },
    /// Whether clients of the primary of a cluster are served; for health checks as Patroni answers them.
    Primary {
        /// The cluster; not needed if there is only one.
        cluster: Option<Box<str>>,
    },
    /// Whether a cluster has a replica that can be read.
    Replica {
        /// The cluster; not needed if there is only one.
        cluster: Option<Box<str>>,
        /// By how many bytes it may be behind the primary.
        lag_max: Option<u64>,
    },
    /// A table of the console.
    Table {
        /// The name that SHOW uses, spelled as in the catalog, so that equal questions compare equal.
        name: &'static str,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpAnswer {
    /// The status, such as 200.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// Whether the body is compressed with gzip.
    pub is_gzip: bool,
    /// The body, shared by all requests with the same question.
    pub body: Bytes,
}

impl HttpAnswer {
    pub(crate) fn json(body: String) -> Self {
        Self { status: 200, content_type: "application/json", is_gzip: false, body: body.into() }
    }

    pub(crate) fn words(status: u16, words: impl Into<String>) -> Self {
        let mut body = words.into();
        body.push('\n');
        Self { status, content_type: "text/plain; charset=utf-8", is_gzip: false, body: body.into() }
    }
}

/// Waiting questions, and answers that have not been fetched.
#[derive(Debug, Default)]
pub(crate) struct HttpQueue {
    waiting: Vec<(u64, HttpQuestion)>,
    is_looking: bool,
    next_look: Time,
    answered: Vec<(u64, HttpAnswer)>,
}

/// The questions that one survey answers.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Round(pub(crate) Vec<(u64, HttpQuestion)>);

impl HttpQueue {
    /// Takes a question, or refuses it when too many wait.
    pub(crate) fn ask(&mut self, number: u64, question: HttpQuestion) {
        if self.waiting.len() >= WAITING_MAX {
            let words = "too many requests wait for the workers, try again in a second";
            self.answer(number, HttpAnswer::words(503, words));
        } else {
            self.waiting.push((number, question));
        }
    }

    /// Begins the next round if one is due, and returns the parts of the snapshots that it needs.
    pub(crate) fn begin(&mut self, now: Time) -> Option<(Parts, Round)> {
        if self.is_looking || self.waiting.is_empty() || now < self.next_look {
            return None;
        }
        self.is_looking = true;
        let round = Round(std::mem::take(&mut self.waiting));
        let parts = round.0.iter().map(|(_, question)| parts_of(question)).fold(show::NOTHING, Parts::union);
        Some((parts, round))
    }

    /// Ends a round that has been answered or refused.
    pub(crate) fn end(&mut self, now: Time) {
        self.is_looking = false;
        self.next_look = now + LOOK_EVERY;
    }

    pub(crate) fn answer(&mut self, number: u64, answer: HttpAnswer) {
        self.answered.push((number, answer));
    }

    pub(crate) fn next_answer(&mut self) -> Option<(u64, HttpAnswer)> {
        self.answered.pop()
    }

    /// When [`HttpQueue::begin`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        (!self.is_looking && !self.waiting.is_empty()).then_some(self.next_look)
    }
}

fn parts_of(question: &HttpQuestion) -> Parts {
    match question {
        HttpQuestion::Metrics { .. } => metrics::PARTS,
        HttpQuestion::Overview => overview::PARTS,
        HttpQuestion::Ready { database: None }
        | HttpQuestion::News { .. }
        | HttpQuestion::Primary { .. }
        | HttpQuestion::Replica { .. } => show::NOTHING,
        HttpQuestion::Ready { database: Some(_) } => show::MEASURES_PART,
        HttpQuestion::Table { name } => table(name).map_or(show::NOTHING, |subject| subject.parts),
    }
}

/// Returns the table with this name. `SHOW FDS` reveals secrets, so only the console has it.
pub(crate) fn table(name: &str) -> Option<&'static Subject> {
    show::find(name).filter(|subject| subject.name != show::FOR_ADMINS)
}

/// The answer to a request for an unknown table.
pub(crate) const NO_TABLE: &str = "there is no such table: /api/v1 lists them";
/// Pause between the end of one survey and the beginning of the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many questions may wait for a survey.
const WAITING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> HttpQuestion {
        HttpQuestion::Metrics { is_open: false, is_gzip: false }
    }

    #[test]
    fn one_look_answers_all_that_was_asked_before_it() {
        let mut queue = HttpQueue::default();
        let at = Time::from_secs(5);
        assert_eq!((queue.begin(at), queue.next_deadline()), (None, None));
        queue.ask(1, metrics());
        queue.ask(2, HttpQuestion::Table { name: "CLIENTS" });
        assert!(queue.next_deadline().is_some_and(|deadline| deadline <= at));
        let (parts, round) = queue.begin(at).expect("a round");
        assert!(parts.pools && parts.stats && parts.clients && !parts.servers);
        assert_eq!(round.0.len(), 2);
        queue.ask(3, metrics());
        assert_eq!((queue.begin(at), queue.next_deadline()), (None, None), "it looks already");
        queue.end(at);
        assert_eq!(queue.begin(at), None, "too early for the next look");
        assert_eq!(queue.next_deadline(), Some(at + LOOK_EVERY));
        let (_, round) = queue.begin(at + LOOK_EVERY).expect("a round");
        assert_eq!(round, Round(vec![(3, metrics())]));
    }

    #[test]
    fn who_asks_when_too_many_wait_is_refused_at_once() {
        let mut queue = HttpQueue::default();
        (0..WAITING_MAX as u64).for_each(|number| queue.ask(number, metrics()));
        assert_eq!(queue.next_answer(), None);
        queue.ask(999, metrics());
        assert!(matches!(queue.next_answer(), Some((999, HttpAnswer { status: 503, .. }))));
    }

    #[test]
    fn the_table_of_descriptors_stays_with_the_console() {
        assert!(table("pools").is_some());
        assert!(table("fds").is_none());
        assert!(table("nonsense").is_none());
    }
}
