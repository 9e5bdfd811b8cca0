//! The replication clients of a world.
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change.
//! Not here: what else is drawn (`plan`), the messages of a stream (`app::stream`).

use crate::plan::streams::Stream;
use crate::plan::{Habits, Plan};
use crate::sim::dice::Dice;

impl Plan {
    /// Makes some applications replication clients.
    pub(crate) fn draw_replicas(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Replicas.number());
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
