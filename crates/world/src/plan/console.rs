//! Clients of the admin console.
//!
//! Always true: they use SHOW or wait for something; none of their commands changes anything.
//! Not here: their commands (`app::console`), the commands of the operator (`faults::operator`).

use worker::letters::Right;

use crate::plan::streams::Stream;
use crate::plan::{ADMIN, CONSOLE, Habits, Person, Plan, WATCHER};
use crate::sim::dice::Dice;

impl Plan {
    /// Draws clients of the console.
    pub(crate) fn draw_operators(&mut self, dice: &mut Dice, common: &Habits) {
        for _ in 0..dice.among(1..=3) {
            let user = dice.pick(&[ADMIN, WATCHER]);
            let person = Person {
                user: user.to_owned(),
                database: CONSOLE.to_owned(),
                errands: dice.among(1..=30) as u32,
                transactions: false,
                proof: self.proof,
                is_proof_unsure: false,
                knows_any_database: self.shape.autodb.is_some(),
            };
            let habits = Habits {
                errors: common.errors,
                big: common.big,
                pipelines: common.pipelines,
                vanishes: common.vanishes,
                deafness: common.deafness,
                dawdles: common.dawdles,
                reconnects: common.reconnects,
                think: common.think,
                arrival: common.arrival,
                hasty: common.hasty,
                strange: common.strange,
                tls: common.tls,
                rude: common.rude * 5,
                console: Some(if user == ADMIN { Right::Admin } else { Right::Stats }),
                ..Habits::default()
            };
            self.people.push((self.people.len() as u32, person, habits));
        }
    }

    /// In some worlds clients of the console cancel their commands.
    pub(crate) fn draw_console(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Console.number());
        if !dice.chance(OFTEN) {
            return;
        }
        for (_, person, habits) in self.people.iter_mut().filter(|(_, person, _)| person.is_operator()) {
            habits.cancels = 300;
            person.errands += 10;
        }
    }
}

/// How many of a thousand worlds.
const OFTEN: u32 = 400;
