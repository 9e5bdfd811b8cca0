//! Surveys: questions to all workers.
//!
//! Always true: one survey is under way at a time; it answers everything that was asked before it began, and nothing that
//! was asked later, so that an answer shows whatever happened before its question. A survey ends when every worker has
//! answered, or at its deadline; later answers are ignored.
//! Not here: what is done with the answers (`control`), how workers answer (`worker::admin::slices`).

use std::time::Duration;

use base::{Time, WorkerId};
use worker::letters::{Parts, Snapshot};

/// The survey under way, and what waits for the next; `P` is the purpose of a question.
#[derive(Debug)]
pub(crate) struct Surveys<P> {
    begun: u64,
    under_way: Option<Survey<P>>,
    waiting: Vec<(Parts, P)>,
}

#[derive(Debug)]
struct Survey<P> {
    purposes: Vec<P>,
    deadline: Time,
    answers: Vec<Option<Box<Snapshot>>>,
}

impl<P> Default for Surveys<P> {
    fn default() -> Self {
        Self { begun: 0, under_way: None, waiting: Vec::new() }
    }
}

impl<P> Surveys<P> {
    /// Takes a question for the next survey.
    pub(crate) fn ask(&mut self, parts: Parts, purpose: P) {
        self.waiting.push((parts, purpose));
    }

    /// Begins the next survey, of `workers` workers, if one is asked for and none is under way. Returns its number and its
    /// parts, which each of them must be sent.
    pub(crate) fn begin(&mut self, now: Time, workers: usize) -> Option<(u64, Parts)> {
        if self.under_way.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.begun += 1;
        let (parts, purposes): (Vec<Parts>, Vec<P>) = std::mem::take(&mut self.waiting).into_iter().unzip();
        let answers = (0..workers).map(|_| None).collect();
        self.under_way = Some(Survey { purposes, deadline: now + PATIENCE, answers });
        Some((self.begun, parts.into_iter().fold(Parts::default(), Parts::union)))
    }

    /// Takes the answer of a worker. Returns the purposes and all answers, in the order of the workers, if it was the
    /// last one.
    pub(crate) fn answer(
        &mut self,
        from: WorkerId,
        question: u64,
        snapshot: Box<Snapshot>,
    ) -> Option<(Vec<P>, Vec<Snapshot>)> {
        let survey = self.under_way.as_mut().filter(|_| question == self.begun)?;
        *survey.answers.get_mut(usize::from(from.0))? = Some(snapshot);
        if survey.answers.iter().any(Option::is_none) {
            return None;
        }
        let survey = self.under_way.take()?;
        Some((survey.purposes, survey.answers.into_iter().flatten().map(|answer| *answer).collect()))
    }

    /// Ends a survey whose deadline has passed, and returns its purposes and the workers that have not answered.
    pub(crate) fn give_up(&mut self, now: Time) -> Option<(Vec<P>, Vec<WorkerId>)> {
        let survey = self.under_way.take_if(|survey| survey.deadline <= now)?;
        let workers = (0..=u8::MAX).map(WorkerId).zip(&survey.answers);
        let silent = workers.filter(|(_, answer)| answer.is_none()).map(|(worker, _)| worker).collect();
        Some((survey.purposes, silent))
    }

    /// Returns when [`Surveys::give_up`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.under_way.as_ref().map(|survey| survey.deadline)
    }
}

/// Turns take a millisecond at most, and a snapshot some hundred of them; a worker that has not answered by then is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(names: u32) -> Box<Snapshot> {
        Box::new(Snapshot { names, ..Snapshot::default() })
    }

    fn stats() -> Parts {
        Parts { stats: true, ..Parts::default() }
    }

    #[test]
    fn a_survey_ends_with_the_last_answer() {
        let mut surveys = Surveys::default();
        surveys.ask(stats(), "first");
        let (first, parts) = surveys.begin(Time(0), 2).expect("a survey");
        assert_eq!(parts, stats());
        assert!(surveys.answer(WorkerId(1), first, snapshot(11)).is_none());
        assert!(surveys.answer(WorkerId(0), first + 1, snapshot(20)).is_none(), "no such survey");
        let (purposes, answers) = surveys.answer(WorkerId(0), first, snapshot(10)).expect("all have answered");
        let names: Vec<_> = answers.iter().map(|answer| answer.names).collect();
        assert_eq!((purposes, names), (vec!["first"], vec![10, 11]));
        assert!(surveys.answer(WorkerId(0), first, snapshot(10)).is_none(), "it is over");
    }

    /// Each question had a survey of its own, however many came together.
    #[test]
    fn what_is_asked_during_a_survey_shares_the_next_one() {
        let mut surveys = Surveys::default();
        surveys.ask(stats(), "first");
        let (first, _) = surveys.begin(Time(0), 1).expect("a survey");
        surveys.ask(stats(), "second");
        surveys.ask(Parts { pools: true, ..Parts::default() }, "third");
        assert_eq!(surveys.begin(Time(1), 1), None, "one survey at a time");
        assert_eq!(surveys.answer(WorkerId(0), first, snapshot(1)).expect("an answer").0, ["first"]);
        let (second, parts) = surveys.begin(Time(2), 1).expect("a survey");
        assert!(parts.stats && parts.pools && !parts.clients);
        assert_eq!(surveys.answer(WorkerId(0), second, snapshot(2)).expect("an answer").0, ["second", "third"]);
        assert_eq!(surveys.begin(Time(3), 1), None, "nothing is asked");
    }

    #[test]
    fn a_survey_that_somebody_does_not_answer_is_given_up() {
        let mut surveys = Surveys::default();
        surveys.ask(stats(), 1);
        let (question, _) = surveys.begin(Time::from_secs(1), 3).expect("a survey");
        surveys.ask(stats(), 2);
        assert!(surveys.answer(WorkerId(1), question, snapshot(0)).is_none());
        assert_eq!(surveys.next_deadline(), Some(Time::from_secs(6)));
        assert_eq!(surveys.give_up(Time::from_secs(5)), None);
        assert_eq!(surveys.give_up(Time::from_secs(6)), Some((vec![1], vec![WorkerId(0), WorkerId(2)])));
        assert!(surveys.answer(WorkerId(0), question, snapshot(0)).is_none(), "too late");
        assert_eq!(surveys.next_deadline(), None);
        assert!(surveys.begin(Time::from_secs(6), 3).is_some(), "what was asked meanwhile");
    }
}
