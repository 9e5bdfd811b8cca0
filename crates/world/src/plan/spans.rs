//! Whose statements carry the context of a trace, and that a collector is told of them (`otlp_endpoint`).
//!
//! Always true: drawn from a stream of chance of its own, so that the stories of other seeds stay what they are.
//! Not here: what the collector answers (`sim::control`), what must be true of spans (`checks::spans`).

use crate::plan::Plan;
use crate::sim::dice::Dice;

impl Plan {
    /// In some worlds there is a collector, and most of the people trace what they do.
    pub(super) fn draw_spans(&mut self) {
        let mut dice = Dice::new(self.seed, STREAM);
        if !dice.chance(OFTEN) {
            return;
        }
        self.shape.set("otlp_endpoint", "http://10.200.0.99:4318");
        self.shape.set("otlp_sample_ratio", dice.pick(&["1", "1", "0.5"]));
        for (_, person, habits) in &mut self.people {
            habits.traces = dice.chance(800) && !person.is_operator() && !habits.replicates;
        }
    }
}

/// The stream of chance for who traces.
const STREAM: u64 = u64::MAX - 71;
/// How many of a thousand worlds are of this kind.
const OFTEN: u32 = 80;
