//! Who sets and locks things in a session that follows its client (`session_state`).
//!
//! Always true: drawn from a stream of chance of its own, so that the stories of other seeds stay what they are.
//! Not here: what is said (`app::speech`), what a server has and answers (`session`).

use crate::dice::Dice;
use crate::plan::Plan;

impl Plan {
    /// In some worlds sessions follow their clients, and some of the people use them.
    pub(crate) fn draw_marks(&mut self) {
        let mut dice = Dice::new(self.seed, STREAM);
        if !dice.chance(250) {
            self.shape.set("session_state", "pgbouncer");
            return;
        }
        self.shape.set("session_state", "follow");
        for (_, person, habits) in &mut self.people {
            if dice.chance(500) && person.database.starts_with("transaction") && !habits.replicates {
                habits.marks = true;
                // What it says behind a RESET without waiting comes to a server that has not been told what the session began with.
                habits.is_given_mark = habits.pipelines == 0 && dice.chance(400);
                // Who is cancelled does not know what has been done.
                habits.cancels = 0;
            }
        }
    }
}

/// The stream of chance for who marks sessions.
const STREAM: u64 = u64::MAX - 2;
