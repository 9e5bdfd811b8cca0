//! Who replicates in a world.
//!
//! Always true: drawn from a stream of chance of its own, so that the stories of other seeds stay what they are.
//! Not here: what else is drawn (`plan`), what is said on a stream (`app::stream`).

use crate::plan::{Habits, Plan};
use crate::sim::dice::Dice;

impl Plan {
    /// Some of the people replicate.
    pub(crate) fn draw_replicas(&mut self) {
        let mut dice = Dice::new(self.seed, STREAM);
        if !dice.chance(300) {
            return;
        }
        if dice.chance(400) {
            self.shape.set("replication_pool_size", dice.among(1..=3));
        }
        for (_, person, habits) in &mut self.people {
            if !dice.chance(250) {
                continue;
            }
            person.errands = person.errands.min(30);
            *habits = Habits {
                replicates: true,
                tls: habits.tls,
                errors: habits.errors,
                big: habits.big,
                cancels: habits.cancels,
                pipelines: habits.pipelines,
                transactions: habits.transactions,
                vanishes: habits.vanishes,
                deafness: habits.deafness,
                dawdles: habits.dawdles,
                reconnects: habits.reconnects.max(100),
                rests: habits.rests,
                think: habits.think,
                arrival: habits.arrival,
                hasty: habits.hasty,
                is_plain: habits.is_plain,
                strange: habits.strange,
                rude: habits.rude,
                ..Habits::default()
            };
        }
    }
}

/// The stream of chance for who replicates.
const STREAM: u64 = u64::MAX - 1;
