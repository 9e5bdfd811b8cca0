//! How an application leaves.
//!
//! Always true: after an application has left, no answer is owed to it, and it comes back soon if it has errands left.
//! Not here: when it leaves (`mod`).

use wire::{frontend, write};

use super::state::{Alarm, App, Stage};
use crate::checks::witness::Witness;
use crate::sim::net::Net;

impl App {
    /// Disconnects with `Terminate`.
    pub(super) fn part(&mut self, net: &mut Net, witness: &mut Witness) {
        let Some(end) = self.end else { return };
        let mut bytes = Vec::new();
        write::bare(&mut bytes, frontend::TERMINATE);
        net.say(end, bytes);
        net.close(end);
        self.gone(net, witness, "leaves");
    }

    /// Disconnects without `Terminate`.
    pub(super) fn vanish(&mut self, net: &mut Net, witness: &mut Witness) {
        let (Some(end), Stage::Ready | Stage::Login(_)) = (self.end, &self.stage) else { return };
        witness.count("vanished");
        self.person.errands = self.person.errands.saturating_sub(1);
        match self.dice.among(0..=2) {
            0 => net.reset(end),
            1 => net.drop_end(end),
            _ => {
                // It shuts down its sending half, and closes when the pooler has closed the other half.
                net.shut(end);
                self.has_left_by_itself = true;
                self.is_deaf = false;
                return;
            }
        }
        self.gone(net, witness, "vanishes");
    }

    pub(super) fn gone(&mut self, net: &mut Net, witness: &mut Witness, how: &str) {
        witness.note(|| format!("application {} {how}", self.number));
        self.end = None;
        self.stage = Stage::Away;
        self.input.clear();
        self.asked.clear();
        self.writes.clear();
        self.rest.clear();
        self.is_aborted = false;
        self.readies_allowed = 0;
        self.is_cancel_loose = false;
        self.went_on = None;
        self.after_encryption = None;
        self.shaking = None;
        self.refusal_due = None;
        self.is_deaf = false;
        self.begin_to_listen(witness);
        self.has_left_by_itself = false;
        self.is_hungry = false;
        self.waits_since = None;
        self.alarms.clear();
        let mut after = self.dice.among(1_000..=100_000);
        if self.habits.lasts.often > 0 {
            // An application that is refused again and again while somebody's statement lasts does not come back at
            // once.
            after *= 50;
        }
        self.set_alarm(net, after, Alarm::Act);
    }
}
