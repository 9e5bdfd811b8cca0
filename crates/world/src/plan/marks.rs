//! Who sets, locks, prepares and listens in a session that follows its client (`session_state`).
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change.
//! Not here: the statements (`app::speech`), what a server does with them (`session`).

use crate::plan::streams::Stream;
use crate::plan::{Plan, Shape};
use crate::sim::dice::Dice;

impl Plan {
    /// In some worlds sessions follow their clients, and some of the applications use that.
    pub(crate) fn draw_marks(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Marks.number());
        if !dice.chance(250) {
            self.shape.set("session_state", "pgbouncer");
            return;
        }
        self.shape.set("session_state", "follow");
        for (_, person, habits) in &mut self.people {
            if dice.chance(500) && person.database.starts_with("transaction") && !habits.replicates {
                habits.marks = true;
                // A request pipelined behind a RESET would reach a server that was not sent the startup value.
                habits.is_given_mark = habits.pipelines == 0 && dice.chance(400);
                // An application with a cancelled statement does not know what it has done.
                habits.cancels = 0;
            }
        }
        self.draw_listeners();
        self.draw_statements();
        self.draw_limits();
        if Dice::new(self.seed, Stream::Verify.number()).chance(400) {
            self.shape.set("session_verify", 1);
        }
    }

    /// In some of them few servers may be pinned, or not for long.
    fn draw_limits(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Limits.number());
        if self.is_calm || !dice.chance(300) {
            return;
        }
        if dice.chance(600) {
            self.shape.set("max_pinned_servers", dice.among(1..=2));
        }
        if dice.chance(600) {
            self.shape.set("pinned_server_timeout", dice.among(1..=3));
        }
    }

    /// In some of them applications that set marks also PREPARE statements by SQL.
    fn draw_statements(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Statements.number());
        if !dice.chance(600) {
            return;
        }
        for (_, _, habits) in &mut self.people {
            if habits.marks && dice.chance(700) {
                habits.prepares = true;
            }
        }
    }

    /// In some of them applications use LISTEN and NOTIFY.
    fn draw_listeners(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Listeners.number());
        // Where a user may have few servers, the sessions that listen for all take them from everybody else.
        if !dice.chance(500) || self.shape.has_shared_limits() {
            return;
        }
        if dice.chance(700) {
            self.shape.set("notify_lost", dice.pick(&["notice", "notify", "disconnect"]));
        }
        if !self.is_calm && dice.chance(300) {
            self.shape.set("notify_queue_size", dice.among(50..=2_000));
        }
        for (_, person, habits) in &mut self.people {
            if dice.chance(600) && person.database.starts_with("transaction") && !habits.replicates {
                habits.listens = true;
            }
        }
    }
}

impl Shape {
    /// The settings in force that limit pinned servers.
    pub(crate) fn limits_of_pins(&self) -> Vec<&'static str> {
        let limits = ["max_pinned_servers", "pinned_server_timeout"];
        limits.into_iter().filter(|name| self.settings.contains_key(name)).collect()
    }
}
