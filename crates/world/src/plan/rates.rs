//! Rate limits of a simulated day: transactions and logins that wait for their turn, and nobody else's.
//!
//! Always true: drawn from a stream of chance of its own, so that the stories of other seeds stay what they are; nothing is rejected, since
//! a day's people take no answer for another.
//! Not here: what is admitted (`pool::Rates`, which has tests of its own).

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::sim::dice::Dice;

impl Plan {
    /// On some days clients are delayed.
    pub(crate) fn draw_rates(&mut self) {
        let mut dice = Dice::new(self.seed, STREAM);
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

/// Of a thousand days.
const OFTEN: u32 = 150;
/// The stream of chance for them.
const STREAM: u64 = u64::MAX - 50;
