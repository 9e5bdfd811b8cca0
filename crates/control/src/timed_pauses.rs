//! Pauses and holds that end by themselves: `PAUSE db FOR n`, `HOLD db`.
//!
//! Always true: of one database, and of all together, the last order counts; there are no more of them than standing pauses.
//! Not here: what a pause does (`worker::letters::Standing`), ending it (`orders`).

use std::collections::BTreeMap;
use std::time::Duration;

use base::Time;
use worker::letters::{Standing, Whose};

/// The ends of pauses, and for how many seconds they were ordered.
#[derive(Debug, Default)]
pub(crate) struct TimedPauses(BTreeMap<Whose, (Time, u64)>);

impl TimedPauses {
    /// A pause begins, or is ordered once more: for some seconds, or until RESUME.
    pub(crate) fn begins(&mut self, now: Time, whose: &Whose, seconds: Option<u64>) {
        match seconds {
            Some(seconds) => drop(self.0.insert(whose.clone(), (now + Duration::from_secs(seconds), seconds))),
            None => self.ends(whose),
        }
    }

    /// A pause has ended, or lasts until RESUME from now on.
    pub(crate) fn ends(&mut self, whose: &Whose) {
        self.0.remove(whose);
    }

    /// Forgets the pauses that do not stand any longer.
    pub(crate) fn keep(&mut self, stands: impl Fn(&Whose) -> bool) {
        self.0.retain(|whose, _| stands(whose));
    }

    /// Removes and returns a pause whose time is over, and its seconds.
    pub(crate) fn next_over(&mut self, now: Time) -> Option<(Whose, u64)> {
        let (whose, _) = self.0.iter().find(|(_, (until, _))| *until <= now)?;
        let whose = whose.clone();
        self.0.remove(&whose).map(|(_, seconds)| (whose, seconds))
    }

    /// When the next pause ends.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.values().map(|(until, _)| *until).min()
    }

    /// When a paused database resumes by itself; `None` if it is not paused, or until RESUME.
    pub(crate) fn until(&self, standing: &Standing, database: &str) -> Option<Time> {
        let own = standing.paused().get(database).map(|name| Some(name.clone()));
        let all = standing.is_all_paused().then_some(None);
        let ends = [own, all].into_iter().flatten().map(|whose| self.0.get(&whose).map(|(until, _)| *until));
        ends.reduce(|one, other| Some(one?.max(other?))).flatten()
    }
}

#[cfg(test)]
mod tests {
    use base::WorkerId;
    use worker::letters::{Order as Task, ToControl, ToWorker};

    use super::*;
    use crate::control::tests::{CLIENT, TestControl};
    use crate::event::Event;

    fn passes(test: &mut TestControl, time: Duration) {
        test.now.time = test.now.time + time;
        test.happens(Event::Tick);
    }

    fn of(name: &str) -> Whose {
        Some(name.into())
    }

    #[test]
    fn a_pause_ends_after_its_time_and_the_last_order_counts() {
        let mut pauses = TimedPauses::default();
        pauses.begins(Time::from_secs(10), &of("a"), Some(30));
        pauses.begins(Time::from_secs(10), &of("b"), Some(5));
        pauses.begins(Time::from_secs(10), &of("c"), Some(5));
        pauses.begins(Time::from_secs(12), &of("b"), Some(9));
        pauses.begins(Time::from_secs(12), &of("c"), None);
        assert_eq!(pauses.next_deadline(), Some(Time::from_secs(21)));
        assert_eq!(pauses.next_over(Time::from_secs(20)), None);
        assert_eq!(pauses.next_over(Time::from_secs(21)), Some((of("b"), 9)));
        assert_eq!(pauses.next_deadline(), Some(Time::from_secs(40)));
        pauses.ends(&Some("a".into()));
        assert_eq!(pauses.next_deadline(), None);
    }

    #[test]
    fn a_database_resumes_when_no_pause_is_left() {
        let (mut pauses, mut standing) = (TimedPauses::default(), Standing::default());
        let mut begin = |pauses: &mut TimedPauses, whose: Option<&str>, seconds| {
            standing.pause(&whose.map(Into::into));
            pauses.begins(Time::from_secs(10), &whose.map(Into::into), seconds);
            standing.clone()
        };
        let standing = begin(&mut pauses, Some("a"), Some(5));
        assert_eq!(pauses.until(&standing, "a"), Some(Time::from_secs(15)));
        assert_eq!(pauses.until(&standing, "b"), None);
        let standing = begin(&mut pauses, None, Some(7));
        assert_eq!(pauses.until(&standing, "a"), Some(Time::from_secs(17)));
        assert_eq!(pauses.until(&standing, "b"), Some(Time::from_secs(17)));
        let standing = begin(&mut pauses, Some("a"), None);
        assert_eq!(pauses.until(&standing, "a"), None, "its own pause lasts until RESUME");
        pauses.keep(|_| false);
        assert_eq!(pauses.next_deadline(), None);
    }

    #[test]
    fn a_pause_with_a_time_ends_by_itself_although_its_console_has_gone() {
        let mut test = TestControl::new("timed", 1, "");
        test.says("PAUSE d FOR 30");
        let question = test.order(0, &Task::AwaitUnused(Some("d".into())));
        test.happens(Event::Letter(ToControl::ConsoleLeft { from: WorkerId(0), client: CLIENT }));
        test.obeyed(0, question, true);
        drop(test.letters(0));
        passes(&mut test, Duration::from_millis(29_999));
        assert!(test.letters(0).is_empty());
        assert_eq!(test.control.next_deadline().since(test.control.hands.now.time), Duration::from_millis(1));
        passes(&mut test, Duration::from_millis(1));
        assert!(!test.control.hands.active.standing.pauses("d"));
        let line = "the time of PAUSE 'd' FOR 30 SECONDS is over, doing RESUME 'd'";
        assert!(test.log().contains(line), "{}", test.log());
        let told =
            test.control.events.iter().last().map(|event| (event.detail.to_string(), event.database.to_string()));
        assert_eq!(told, Some((line.to_owned(), "d".to_owned())));
    }

    #[test]
    fn the_last_order_about_a_pause_counts_and_one_that_waits_is_told() {
        let mut test = TestControl::new("retimed", 1, "");
        test.says("PAUSE FOR 5 SECONDS");
        drop(test.letters(0));
        passes(&mut test, Duration::from_secs(5));
        let letters = test.letters(0);
        let [ToWorker::ActiveConfig(active), ToWorker::ForgetOrder { .. }, ToWorker::ConsoleAnswer { bytes, .. }] =
            &letters[..]
        else {
            panic!("{letters:?}")
        };
        assert!(!active.standing.is_all_paused());
        let answer = String::from_utf8_lossy(bytes);
        assert!(answer.contains("C57014\0MPAUSE was ended by its time\0"), "{answer:?}");
        for last in ["PAUSE d", "KILL d"] {
            test.says("PAUSE d FOR 5");
            test.says(last);
            passes(&mut test, Duration::from_secs(6));
            assert!(test.control.hands.active.standing.pauses("d"), "{last}");
            test.says("RESUME d");
        }
        test.says("PAUSE d FOR 5");
        test.says("RESUME d");
        test.says("PAUSE d");
        passes(&mut test, Duration::from_secs(6));
        assert!(test.control.hands.active.standing.pauses("d"), "the time was that of a pause which has ended");
    }
}
