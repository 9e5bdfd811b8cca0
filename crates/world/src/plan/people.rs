//! The applications of a world: their users, their databases and their habits.
//!
//! Always true: nearly all applications share the habits drawn for the world; some have their own.
//! Not here: clients of the console (`console`), authentication (`auth_plan`).

use crate::plan::streams::Stream;
use crate::plan::{AUTODB, Habits, Person, Plan, USERS};
use crate::sim::dice::Dice;

impl Plan {
    /// Draws the habits that most applications share.
    pub(super) fn draw_common(&mut self, dice: &mut Dice) -> Habits {
        let (seed, is_calm) = (self.seed, self.is_calm);
        let mut common = drawn(dice, is_calm);
        common.is_plain = dice.chance(300);
        // A separate stream, so that the worlds of seeds without named statements do not change.
        let mut names = Dice::new(seed, Stream::Names.number());
        common.named = names.chance(400);
        if common.named && names.chance(700) {
            self.shape.set("max_prepared_statements", names.among(1..=5));
        }
        let mut cancels = Dice::new(seed, Stream::Cancels.number());
        self.manner.signals_late = if !is_calm && cancels.chance(250) { 500 } else { 0 };
        // Where signals come late, there must be somebody whom they could hit.
        common.hurries = if self.manner.signals_late > 0 || cancels.chance(200) { 700 } else { 0 };
        common.tls = self.tls.habit();
        common.hasty = if dice.chance(300) { 300 } else { 0 };
        common.value_max = 3000;
        common
    }

    pub(super) fn draw_people(&mut self, dice: &mut Dice, common: &Habits) {
        let count = dice.among(20..=32) as u32;
        // Only applications that send one request after the other can be counted from outside, and all of a database
        // must be such.
        let is_countable = self.is_calm && Dice::new(self.seed, Stream::Countable.number()).chance(500);
        for number in 0..count {
            let db = &self.shape.databases[dice.among(0..=self.shape.databases.len() as u64 - 1) as usize];
            let is_auto = self.shape.autodb.is_some() && dice.chance(300);
            let mut habits = common.clone();
            if dice.chance(200) {
                let own = drawn(dice, self.is_calm);
                habits = Habits {
                    is_plain: common.is_plain,
                    hasty: common.hasty,
                    value_max: common.value_max,
                    named: common.named,
                    tls: common.tls,
                    hurries: common.hurries,
                    ..own
                };
            }
            if habits.is_plain {
                habits.zones = false;
            }
            if is_countable {
                (habits.pipelines, habits.cancels) = (0, 0);
            }
            let person = Person {
                user: dice.pick(&USERS[..2]).to_owned(),
                database: if is_auto { AUTODB.to_owned() } else { db.name.clone() },
                errands: (1100 / count) + dice.among(1..=10) as u32,
                transactions: is_auto || db.mode != "statement",
                proof: self.proof,
                is_proof_unsure: false,
                knows_any_database: self.shape.autodb.is_some(),
            };
            self.people.push((number, person, habits));
        }
    }
}

/// Draws the habits of an application.
fn drawn(dice: &mut Dice, is_calm: bool) -> Habits {
    let mut often = |chance: u32, range: std::ops::RangeInclusive<u64>| {
        if dice.chance(chance) { dice.among(range) as u32 } else { 0 }
    };
    let mut habits = Habits {
        big: often(300, 5..=100),
        cancels: often(400, 20..=300),
        pipelines: often(500, 50..=500),
        transactions: often(800, 100..=800),
        dawdles: often(300, 20..=300),
        reconnects: often(600, 10..=200),
        ..Habits::default()
    };
    if !is_calm {
        habits.vanishes = often(500, 5..=100);
        habits.deafness = often(300, 5..=50);
        habits.huge = often(200, 2..=20);
        habits.lost = often(150, 10..=100);
        habits.rests = often(200, 1..=20);
    }
    habits.strange = if dice.chance(300) { dice.among(20..=300) as u32 } else { 0 };
    habits.rude = if dice.chance(200) { 10 } else { 0 };
    habits.stubborn = if dice.chance(200) { 20 } else { 0 };
    habits.extended = dice.chance(700);
    habits.flush = dice.chance(300);
    habits.suspend = dice.chance(300);
    habits.functions = dice.chance(300);
    habits.copies = dice.chance(400);
    habits.several = dice.chance(400);
    habits.zones = dice.chance(300);
    habits.dirty = dice.chance(300);
    habits.errors = dice.chance(700);
    habits.think = (0, dice.pick(&[0, 200, 2_000, 20_000]));
    habits.arrival = dice.pick(&[(0, 0), (0, 10_000), (0, 3_000_000)]);
    habits
}
