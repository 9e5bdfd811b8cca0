//! What HTTP asks of the workers, in rounds.
//!
//! Always true: one look at the workers answers all that has been asked until it began, and looks are some time apart, so
//! that hundreds of scrapers cost a worker no more than one; who asks when too many wait is refused at once.
//! Not here: what is answered (`Control`), who may ask (`guard`).

use std::time::Duration;

use axum::body::Bytes;
use base::Time;
use worker::letters::Parts;

use super::overview;
use crate::console::show::{self, Subject};
use crate::metrics;

/// Something that is asked by HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HttpQuestion {
    /// All metrics.
    Metrics {
        /// As OpenMetrics, not as the older text format.
        is_open: bool,
    },
    /// What the page shows at first sight.
    Overview,
    /// The events since there were so many changes to them.
    News {
        /// How many; `None` is now.
        since: Option<u64>,
    },
    /// Whether clients are served: of a database, or at all.
    Ready {
        /// Which database.
        database: Option<Box<str>>,
    },
    /// A table of the console.
    Table {
        /// What SHOW calls it, as the catalog spells it: the same table is the same question.
        name: &'static str,
    },
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpAnswer {
    /// The status, such as 200.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body, which all who have asked the same share.
    pub body: Bytes,
}

impl HttpAnswer {
    pub(crate) fn json(body: String) -> Self {
        Self { status: 200, content_type: "application/json", body: body.into() }
    }

    pub(crate) fn words(status: u16, words: impl Into<String>) -> Self {
        let mut body = words.into();
        body.push('\n');
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// What is asked, and what has been answered and not been fetched.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    waiting: Vec<(u64, HttpQuestion)>,
    is_looking: bool,
    next_look: Time,
    answered: Vec<(u64, HttpAnswer)>,
}

/// Questions that one look answers.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Round(pub(crate) Vec<(u64, HttpQuestion)>);

impl Desk {
    /// Takes a question, or refuses it when too many wait.
    pub(crate) fn ask(&mut self, number: u64, question: HttpQuestion) {
        if self.waiting.len() >= WAITING_MAX {
            let words = "too many requests wait for the workers, try again in a second";
            self.answer(number, HttpAnswer::words(503, words));
        } else {
            self.waiting.push((number, question));
        }
    }

    /// The next round, if one is due: which parts of the workers it needs.
    pub(crate) fn begin(&mut self, now: Time) -> Option<(Parts, Round)> {
        if self.is_looking || self.waiting.is_empty() || now < self.next_look {
            return None;
        }
        self.is_looking = true;
        let round = Round(std::mem::take(&mut self.waiting));
        let parts = round.0.iter().map(|(_, question)| parts_of(question)).fold(show::NOTHING, union);
        Some((parts, round))
    }

    /// The round has been answered, or nobody will answer it.
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

    /// When [`Desk::begin`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        (!self.is_looking && !self.waiting.is_empty()).then_some(self.next_look)
    }
}

fn parts_of(question: &HttpQuestion) -> Parts {
    match question {
        HttpQuestion::Metrics { .. } => metrics::PARTS,
        HttpQuestion::Overview => overview::PARTS,
        HttpQuestion::Ready { database: None } | HttpQuestion::News { .. } => show::NOTHING,
        HttpQuestion::Ready { database: Some(_) } => show::MEASURES_PART,
        HttpQuestion::Table { name } => table(name).map_or(show::NOTHING, |subject| subject.parts),
    }
}

/// The table that is asked for. That of descriptors hands out secrets, and stays with the console.
pub(crate) fn table(name: &str) -> Option<&'static Subject> {
    show::find(name).filter(|subject| subject.name != show::FOR_ADMINS)
}

fn union(one: Parts, other: Parts) -> Parts {
    Parts {
        clients: one.clients || other.clients,
        servers: one.servers || other.servers,
        pools: one.pools || other.pools,
        stats: one.stats || other.stats,
        memory: one.memory || other.memory,
        logins: one.logins || other.logins,
        hosts: one.hosts || other.hosts,
        pins: one.pins || other.pins,
        measures: one.measures.max(other.measures),
        applications: one.applications || other.applications,
        statements: one.statements || other.statements,
        waits: one.waits || other.waits,
    }
}

/// What whoever asks for another table reads.
pub(crate) const NO_TABLE: &str = "there is no such table: /api/v1 lists them";
/// So long after one look ends the next one begins.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many questions wait for a look.
const WAITING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> HttpQuestion {
        HttpQuestion::Metrics { is_open: false }
    }

    #[test]
    fn one_look_answers_all_that_was_asked_before_it() {
        let mut desk = Desk::default();
        let at = Time::from_secs(5);
        assert_eq!((desk.begin(at), desk.next_deadline()), (None, None));
        desk.ask(1, metrics());
        desk.ask(2, HttpQuestion::Table { name: "CLIENTS" });
        assert!(desk.next_deadline().is_some_and(|deadline| deadline <= at));
        let (parts, round) = desk.begin(at).expect("a round");
        assert!(parts.pools && parts.stats && parts.clients && !parts.servers);
        assert_eq!(round.0.len(), 2);
        desk.ask(3, metrics());
        assert_eq!((desk.begin(at), desk.next_deadline()), (None, None), "it looks already");
        desk.end(at);
        assert_eq!(desk.begin(at), None, "too early for the next look");
        assert_eq!(desk.next_deadline(), Some(at + LOOK_EVERY));
        let (_, round) = desk.begin(at + LOOK_EVERY).expect("a round");
        assert_eq!(round, Round(vec![(3, metrics())]));
    }

    #[test]
    fn who_asks_when_too_many_wait_is_refused_at_once() {
        let mut desk = Desk::default();
        (0..WAITING_MAX as u64).for_each(|number| desk.ask(number, metrics()));
        assert_eq!(desk.next_answer(), None);
        desk.ask(999, metrics());
        assert!(matches!(desk.next_answer(), Some((999, HttpAnswer { status: 503, .. }))));
    }

    #[test]
    fn the_table_of_descriptors_stays_with_the_console() {
        assert!(table("pools").is_some());
        assert!(table("fds").is_none());
        assert!(table("nonsense").is_none());
    }
}
