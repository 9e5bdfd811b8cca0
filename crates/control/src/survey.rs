//! Surveys: questions to all workers.
//!
//! Always true: a survey ends when every worker has answered, or at its deadline; later answers are ignored.
//! Not here: what is done with the answers (`control`).

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Time, WorkerId};
use worker::letters::Snapshot;

/// All surveys under way; `P` is the purpose of a survey.
#[derive(Debug)]
pub(crate) struct Surveys<P> {
    asked: u64,
    open: BTreeMap<u64, Survey<P>>,
}

#[derive(Debug)]
struct Survey<P> {
    purpose: P,
    deadline: Time,
    answers: Vec<Option<Box<Snapshot>>>,
}

impl<P> Default for Surveys<P> {
    fn default() -> Self {
        Self { asked: 0, open: BTreeMap::new() }
    }
}

impl<P> Surveys<P> {
    /// Opens a survey of `workers` workers and returns its number, which each of them must be sent.
    pub(crate) fn open(&mut self, now: Time, workers: usize, purpose: P) -> u64 {
        self.asked += 1;
        let answers = (0..workers).map(|_| None).collect();
        self.open.insert(self.asked, Survey { purpose, deadline: now + PATIENCE, answers });
        self.asked
    }

    /// Takes the answer of a worker. Returns the purpose and all answers, in the order of the workers, if it was the
    /// last one.
    pub(crate) fn answer(
        &mut self,
        from: WorkerId,
        question: u64,
        snapshot: Box<Snapshot>,
    ) -> Option<(P, Vec<Snapshot>)> {
        let survey = self.open.get_mut(&question)?;
        *survey.answers.get_mut(usize::from(from.0))? = Some(snapshot);
        if survey.answers.iter().any(Option::is_none) {
            return None;
        }
        let survey = self.open.remove(&question)?;
        Some((survey.purpose, survey.answers.into_iter().flatten().map(|answer| *answer).collect()))
    }

    /// Ends a survey whose deadline has passed, and returns its purpose and the workers that have not answered.
    pub(crate) fn give_up(&mut self, now: Time) -> Option<(P, Vec<WorkerId>)> {
        // Surveys are numbered in the order of time and have the same time limit, so the first expires first.
        let first = self.open.first_entry().filter(|survey| survey.get().deadline <= now)?;
        let survey = first.remove();
        let workers = (0..=u8::MAX).map(WorkerId).zip(&survey.answers);
        let silent = workers.filter(|(_, answer)| answer.is_none()).map(|(worker, _)| worker).collect();
        Some((survey.purpose, silent))
    }

    /// Returns when [`Surveys::give_up`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.open.first_key_value().map(|(_, survey)| survey.deadline)
    }
}

/// A turn takes microseconds; a worker that has not answered by then is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(names: u32) -> Box<Snapshot> {
        Box::new(Snapshot { names, ..Snapshot::default() })
    }

    #[test]
    fn a_survey_ends_with_the_last_answer() {
        let mut surveys = Surveys::default();
        let first = surveys.open(Time(0), 2, "first");
        let second = surveys.open(Time(0), 2, "second");
        assert!(surveys.answer(WorkerId(1), first, snapshot(11)).is_none());
        assert!(surveys.answer(WorkerId(0), second, snapshot(20)).is_none());
        let (purpose, answers) = surveys.answer(WorkerId(0), first, snapshot(10)).expect("all have answered");
        assert_eq!((purpose, answers.iter().map(|answer| answer.names).collect::<Vec<_>>()), ("first", vec![10, 11]));
        assert!(surveys.answer(WorkerId(0), first, snapshot(10)).is_none(), "it is over");
    }

    #[test]
    fn a_survey_that_somebody_does_not_answer_is_given_up() {
        let mut surveys = Surveys::default();
        let question = surveys.open(Time::from_secs(1), 3, ());
        assert!(surveys.answer(WorkerId(1), question, snapshot(0)).is_none());
        assert_eq!(surveys.next_deadline(), Some(Time::from_secs(6)));
        assert_eq!(surveys.give_up(Time::from_secs(5)), None);
        assert_eq!(surveys.give_up(Time::from_secs(6)), Some(((), vec![WorkerId(0), WorkerId(2)])));
        assert!(surveys.answer(WorkerId(0), question, snapshot(0)).is_none(), "too late");
        assert_eq!(surveys.next_deadline(), None);
    }
}
