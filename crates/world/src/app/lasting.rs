//! Requests that take their time: to be cancelled, or to last longer than timers.
//!
//! Always true: what they are answered does not depend on how long they take.
//! Not here: how long that may be (`lengths`), what ends them before (`overdue`).

use super::belief::Request;
use super::speaker::Speaker;
use crate::postgres::sql::Verb;

impl Speaker<'_> {
    /// A statement that may last longer than a timer.
    pub(super) fn last(&mut self) -> Request {
        let millis = self.habits.lasts.draw(self.dice);
        // What leaves a channel is taken back by what may do anything.
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
