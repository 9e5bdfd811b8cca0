//! Rate limits of a world: transactions and logins are delayed.
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change; nothing is
//! rejected, because applications do not expect such errors.
//! Not here: what is admitted (`pool::Rates`, which has its own tests).

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::plan::streams::Stream;
use crate::sim::dice::Dice;

impl Plan {
    /// In some worlds clients are delayed.
    pub(crate) fn draw_rates(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Rates.number());
        if !dice.chance(OFTEN) {
            return;
        }
        let lines = &mut self.shape.rate_limits;
        for number in 0..dice.among(1..=2) {
            let by = dice.pick(&["user", "database", "user,database", "application_name", "address"]);
            let (rate, burst) = (dice.pick(&[20, 100, 500, 5_000]), dice.among(1..=20));
            let _ = writeln!(lines, "t{number} = events=transactions by={by} rate={rate} burst={burst}");
        }
        if dice.chance(400) {
            let by = dice.pick(&["user", "address", "user,database"]);
            let (rate, burst) = (dice.pick(&[5, 20, 100]), dice.among(1..=5));
            let _ = writeln!(lines, "l = events=logins by={by} rate={rate} burst={burst}");
        }
    }
}

/// How many of a thousand worlds.
const OFTEN: u32 = 150;
