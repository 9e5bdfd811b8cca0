//! What is known of the names of a database, and when it is asked for.
//!
//! Always true: there is one question at a time for a database; what is known is not older than [`KNOWN_MAX`], and no function or view has been made through this process since it was
//! asked for, as far as texts tell.
//! Not here: the question (`control::clusters`).

use std::sync::Arc;
use std::time::Duration;

use base::Time;
use reactor::Io;
use route::ReadNames;

use crate::letters::ToControl;
use crate::worker::Worker;

/// What is known of the names of one database.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    names: Option<Arc<ReadNames>>,
    /// Tells answers apart.
    number: u64,
    /// How often functions had been created when it was asked, and when that was.
    creations: u64,
    /// When it was asked last, and whether the answer is still to come.
    asked: Option<Time>,
    is_asked: bool,
    answered_for: Option<Time>,
}

impl KnownNames {
    /// The names and the number of the answer, if they can be relied on.
    fn reliable(&self, now: Time, creations: u64) -> Option<(&ReadNames, u64)> {
        let is_fresh = self.answered_for.is_some_and(|asked| now.since(asked) <= KNOWN_MAX);
        let names = self.names.as_deref().filter(|_| is_fresh && self.creations == creations)?;
        Some((names, self.number))
    }

    /// Whether the names are to be asked for now.
    fn is_due(&mut self, now: Time, creations: u64) -> bool {
        let is_stale = self.names.is_none() || self.creations != creations;
        let every = if is_stale { AGAIN } else { RENEWED };
        let is_due = !self.is_asked && self.asked.is_none_or(|asked| now.since(asked) >= every);
        if is_due {
            (self.asked, self.is_asked) = (Some(now), true);
        }
        is_due
    }

    /// The answer.
    fn are(&mut self, names: Option<Arc<ReadNames>>, creations: u64, number: u64) {
        (self.names, self.creations, self.number) = (names, creations, number);
        (self.answered_for, self.is_asked) = (self.asked, false);
    }

    /// The names and their number, for a text that is to be read.
    pub(super) fn names(known: Option<&Self>, now: Time, creations: u64) -> (Option<&ReadNames>, u64) {
        known
            .and_then(|known| known.reliable(now, creations))
            .map_or((None, 0), |(names, number)| (Some(names), number))
    }
}

impl<I: Io> Worker<I> {
    /// Has the names of a database asked for, if that is due.
    pub(super) fn ask_for_names(&mut self, database: u32) {
        let now = self.hands.now;
        let place = self.registry.database_at_mut(database);
        let creations = place.function_catalog.creations();
        if place.read_names.get_or_insert_default().is_due(now, creations) {
            let (from, database) = (self.hands.id, Arc::clone(&place.name));
            (self.hands.posts.control)(ToControl::AskReadNames { from, database, creations });
        }
    }

    /// The control thread has asked for the names of a database.
    pub(crate) fn names_are_known(&mut self, database: &str, creations: u64, names: Option<Arc<ReadNames>>) {
        let Some(number) = self.registry.known_database(database) else { return };
        self.reads.answers += 1;
        if let Some(known) = &mut self.registry.database_at_mut(number).read_names {
            known.are(names, creations, self.reads.answers);
        }
    }
}

/// Others than our clients may have made functions since; as for what functions do to sessions.
const KNOWN_MAX: Duration = Duration::from_secs(60);
const RENEWED: Duration = Duration::from_secs(30);
/// While nothing is known.
const AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Time {
        Time::from_secs(secs)
    }

    #[test]
    fn names_are_asked_for_again_before_they_are_too_old() {
        let mut known = KnownNames::default();
        assert!(known.is_due(at(100), 0) && !known.is_due(at(110), 0), "one question at a time");
        assert!(known.reliable(at(100), 0).is_none());
        known.are(Some(Arc::default()), 0, 1);
        assert!(known.reliable(at(160), 0).is_some() && known.reliable(at(161), 0).is_none());
        assert!(!known.is_due(at(129), 0) && known.is_due(at(130), 0));
    }

    #[test]
    fn a_function_that_is_made_meanwhile_makes_the_answer_worthless() {
        let mut known = KnownNames::default();
        known.is_due(at(100), 0);
        known.are(Some(Arc::default()), 0, 1);
        assert!(known.reliable(at(101), 1).is_none());
        assert!(known.is_due(at(101), 1), "it is asked for again at once");
        known.are(Some(Arc::default()), 1, 2);
        assert_eq!(known.reliable(at(102), 1).map(|(_, number)| number), Some(2));
    }

    #[test]
    fn an_answer_that_is_none_is_asked_for_again_soon() {
        let mut known = KnownNames::default();
        known.is_due(at(100), 0);
        known.are(None, 0, 1);
        assert!(!known.is_due(Time(at(100).0 + 999_999), 0) && known.is_due(at(101), 0));
        assert_eq!(KnownNames::names(Some(&known), at(100), 0), (None, 0));
    }
}
