//! Trace contexts of statements, and the collector for their spans (`otlp_endpoint`).
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change.
//! Not here: what the collector answers (`sim::control`), what must be true of spans (`checks::spans`).

use crate::plan::Plan;
use crate::plan::streams::Stream;
use crate::sim::dice::Dice;

impl Plan {
    /// In some worlds there is a collector, and most applications trace their statements.
    pub(super) fn draw_spans(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Spans.number());
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

/// How many of a thousand worlds are of this kind.
const OFTEN: u32 = 80;
