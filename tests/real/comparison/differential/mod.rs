//! Random programs of protocol messages, answered by PostgreSQL and through the pooler: the answers must be the same.
//!
//! Always true: the programs of a round run at the same time, each on its own tables, first directly, then through pools of one,
//! two and eight servers and in session mode, with both kernel interfaces in turn; a long run takes one of these ways for each
//! round. So each program is compared, and interferes with the others; half of the rounds have badly behaved clients beside them. Everything that a client receives is compared,
//! byte by byte and in order, and so is what it leaves in its tables.
//! Not here: servers that misbehave (`tests/talk`), faults (`tests/soak`).
//!
//! `rules` says which programs are fair, `normal` what may differ; read these two first.

mod dice;
mod generate;
mod hunt;
mod messages;
mod normal;
mod play;
mod program;
mod report;
mod rest;
mod rude;
mod rules;
mod shrink;
mod sql;
mod stage;

use tests::runner::skip;

use crate::house::House;
use hunt::Ways;

/// A bounded number of programs, the same in each run.
// Alone.
pub(crate) fn random_programs_are_answered_as_by_postgresql(house: &House) {
    if !house.place.is_trunkline() {
        return skip("the rules of what may differ are written for Trunkline");
    }
    hunt::hunt(house, "differential", &hunt::seeds(FIXED, FIXED_PROGRAMS), Ways::Each);
}

/// As many programs as the environment variables say, from fresh seeds: `cargo xtask differential`.
// Only when named.
pub(crate) fn as_many_random_programs_as_wanted(house: &House) {
    let wish = |name: &str| {
        let text = std::env::var(format!("TRUNKLINE_DIFFERENTIAL_{name}")).ok()?;
        let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
        Some(number.unwrap_or_else(|error| panic!("{text}: {error}")))
    };
    let programs = wish("PROGRAMS").unwrap_or(FIXED_PROGRAMS);
    let (seeds, ways) = match wish("REPLAY") {
        Some(seed) => (vec![seed; REPLAYS], Ways::Each),
        None => (hunt::seeds(wish("SEED").unwrap_or(FIXED), programs), Ways::OneOfThem),
    };
    hunt::hunt(house, "wanted", &seeds, ways);
}

/// The seed of the bounded run, and its number of programs.
const FIXED: u64 = 3;
const FIXED_PROGRAMS: u64 = 450;
/// How often a round is repeated: some differences need luck.
const REPLAYS: usize = 20;
