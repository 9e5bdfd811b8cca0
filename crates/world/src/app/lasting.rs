//! Requests that take long: to be cancelled, or to outlast timers.
//!
//! Always true: the answers do not depend on how long the requests take.
//! Not here: how long they may take (`lengths`), what ends them earlier (`overdue`).

use super::belief::Request;
use super::speaker::Speaker;
use crate::postgres::sql::Verb;

impl Speaker<'_> {
    /// A statement that may outlast a timer.
    pub(super) fn last(&mut self) -> Request {
        let millis = self.habits.lasts.draw(self.dice);
        // The pooler could not follow an UNLISTEN behind a statement that may do anything.
        let is_read = self.belief.is_leaving || self.dice.chance(700);
        let verb = if is_read { Verb::Last { millis } } else { Verb::Sleep { millis } };
        if !self.habits.extended || self.dice.chance(500) {
            let request = self.query(verb);
            return Request { last: *self.next, ..request };
        }
        self.belief.unnamed = None;
        let mut request = self.blank();
        let statement = self.statement(verb);
        self.run_extended(&mut request, &statement);
        self.sync(&mut request);
        request.last = *self.next;
        request
    }

    pub(super) fn sleep(&mut self) -> Request {
        let millis = self.dice.among(1..=30) as u32;
        self.query(Verb::Sleep { millis })
    }
}
