//! Who sets, locks, prepares and listens to things in a session that follows its client (`session_state`).
//!
//! Always true: drawn from a stream of chance of its own, so that the stories of other seeds stay what they are.
//! Not here: what is said (`app::speech`), what a server has and answers (`session`).

use crate::plan::{Plan, Shape};
use crate::sim::dice::Dice;

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
        self.draw_listeners();
        self.draw_statements();
        self.draw_limits();
        if Dice::new(self.seed, VERIFY_STREAM).chance(400) {
            self.shape.set("session_verify", 1);
        }
    }

    /// In some of them few may keep a server, or not for long.
    fn draw_limits(&mut self) {
        let mut dice = Dice::new(self.seed, LIMITS_STREAM);
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

    /// In some of them those who mark their sessions prepare statements by SQL, too.
    fn draw_statements(&mut self) {
        let mut dice = Dice::new(self.seed, STATEMENTS_STREAM);
        if !dice.chance(600) {
            return;
        }
        for (_, _, habits) in &mut self.people {
            if habits.marks && dice.chance(700) {
                habits.prepares = true;
            }
        }
    }

    /// In some of those worlds some listen, and notify.
    fn draw_listeners(&mut self) {
        let mut dice = Dice::new(self.seed, LISTENERS_STREAM);
        // Where a user may have few servers, those that listen for all take them from everybody else.
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
    /// The limits that hold for who keeps a server.
    pub(crate) fn limits_of_pins(&self) -> Vec<&'static str> {
        let limits = ["max_pinned_servers", "pinned_server_timeout"];
        limits.into_iter().filter(|name| self.settings.contains_key(name)).collect()
    }
}

/// The stream of chance for who listens.
const LISTENERS_STREAM: u64 = u64::MAX - 45;
/// The stream of chance for who may keep a server.
const LIMITS_STREAM: u64 = u64::MAX - 47;
/// The stream of chance for who prepares statements by SQL.
const STATEMENTS_STREAM: u64 = u64::MAX - 46;
/// The stream of chance for whether servers are asked what is known.
const VERIFY_STREAM: u64 = u64::MAX - 49;
/// The stream of chance for who marks sessions.
const STREAM: u64 = u64::MAX - 2;
