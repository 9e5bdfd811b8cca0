//! A few seconds of the chaos that `cargo xtask soak` runs for minutes.

use std::time::Duration;

use tests::runner::skip;

use crate::house::House;
use crate::soak::{self, options::Options};

// Alone.
pub(crate) fn a_short_soak_shows_nobody_anothers_bytes(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the soak sets what PgBouncer does not know");
    }
    let options = Options { time: Duration::from_secs(12), seed: 1, kernel: None, clients: 80 };
    if let Err(evidence) = soak::run(&house.place, &house.postgres, &options) {
        panic!("{evidence}");
    }
}
