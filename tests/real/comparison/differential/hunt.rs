//! Runs rounds of programs, and shrinks one that is answered differently through the pooler.
//!
//! Always true: a round depends on its seed alone; a difference is reported with the smallest program that still shows it.
//! Not here: how a difference is reported (`report`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use base::Random;

use super::dice::Dice;
use super::generate::program;
use super::normal::{Parting, is_listed, parting};
use super::play::Transcript;
use super::program::{Confinement, Program};
use super::stage::{Lane, SEATS, Stage, Way};
use super::{report, rules, shrink};
use crate::house::House;

/// Programs that run at the same time, on some of the ways to PostgreSQL.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub(super) seed: u64,
    pub(super) programs: Vec<Program>,
    /// The seed of the badly behaved clients beside them.
    pub(super) rude: Option<u64>,
    ways: Vec<Way>,
}

/// On how many of the ways that fit its programs a round is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ways {
    Each,
    /// One that the seed chooses: PostgreSQL takes most of the time of a long run, and other programs find more than the same
    /// ones on another way.
    OneOfThem,
}

/// A program that was answered differently.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) round: Round,
    /// Which of the programs it is.
    pub(super) seat: usize,
    pub(super) way: Way,
    pub(super) direct: Transcript,
    pub(super) pooled: Transcript,
    pub(super) parting: Parting,
}

impl Round {
    /// The round of this seed, for a major version of PostgreSQL.
    pub(super) fn new(seed: u64, major: u32, ways: Ways) -> Self {
        let mut dice = Dice::new(seed);
        let confinement = if dice.percent(20) { Confinement::Session } else { Confinement::Transaction };
        let mut fitting = Way::all(confinement, dice.seed());
        let mut programs: Vec<_> = (0..SEATS).map(|seat| program(dice.seed(), seat, confinement)).collect();
        let rude = dice.percent(50).then(|| dice.seed());
        // Drawn last, so that the round of a seed has the same programs either way.
        if ways == Ways::OneOfThem {
            fitting = vec![dice.pick(&fitting)];
        }
        programs.iter_mut().for_each(|program| rules::leave_out(program, major));
        for program in &programs {
            if let Err(rule) = rules::check(program) {
                panic!("seed {seed:#x} makes a program that is not fair, {rule}:\n{}", program.script(&[]));
            }
        }
        Self { seed, programs, rude, ways: fitting }
    }

    /// The same round with other programs, on one way only.
    pub(super) fn with(&self, programs: Vec<Program>, rude: Option<u64>, way: &Way) -> Self {
        Self { seed: self.seed, programs, rude, ways: vec![way.clone()] }
    }

    /// Runs the round directly and on its ways. Returns the first difference, if there is one.
    ///
    /// # Errors
    /// Why one of the programs is not fair.
    pub(super) fn play(&self, lane: &mut Lane<'_>) -> Result<Option<Difference>, String> {
        let direct = lane.directly(&self.programs)?;
        for way in &self.ways {
            let pooled = lane.through(way, &self.programs, &direct, self.rude);
            for (seat, (direct, pooled)) in direct.iter().zip(pooled).enumerate() {
                if let Some(parting) = parting(direct, &pooled) {
                    if is_listed(direct, &pooled, &parting) {
                        lane.listed += 1;
                        continue;
                    }
                    let (round, way, direct) = (self.clone(), way.clone(), direct.clone());
                    return Ok(Some(Difference { round, seat, way, direct, pooled, parting }));
                }
            }
        }
        Ok(None)
    }
}

/// Runs rounds with these seeds; panics with the first difference, shrunk.
pub(super) fn hunt(house: &House, name: &str, seeds: &[u64], ways: Ways) {
    let stage = Stage::open(house, name, LANES);
    let (next, is_over, found) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Vec::new()));
    let listed = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..LANES {
            let (stage, next, is_over, found, listed) = (&stage, &next, &is_over, &found, &listed);
            scope.spawn(move || {
                let mut lane = stage.lane(number);
                while !is_over.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(seed) = seeds.get(at) else { break };
                    if at % PROGRESS_EVERY == PROGRESS_EVERY - 1 {
                        println!("{} programs, {:.0} s", at * SEATS, begun.elapsed().as_secs_f32());
                    }
                    if let Some(text) = round(&mut lane, *seed, house.postgres.major(), ways) {
                        is_over.store(true, Ordering::Relaxed);
                        found.lock().expect("no lane holds it").push(text);
                    }
                }
                listed.fetch_add(lane.listed, Ordering::Relaxed);
            });
        }
    });
    let found = found.into_inner().expect("no lane holds it");
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    let (programs, listed) = (seeds.len() * SEATS, listed.into_inner());
    println!("{programs} programs in {:.1} s, no difference but {listed} of rule 7", begun.elapsed().as_secs_f32());
}

/// So many seeds, derived from one.
pub(super) fn seeds(first: u64, programs: u64) -> Vec<u64> {
    let mut random = Random::new(first);
    (0..programs.div_ceil(SEATS as u64)).map(|_| random.next_u64()).collect()
}

fn round(lane: &mut Lane<'_>, seed: u64, major: u32, ways: Ways) -> Option<String> {
    match Round::new(seed, major, ways).play(lane) {
        Ok(None) => None,
        Ok(Some(difference)) => {
            println!(
                "seed {seed:#x} differs on the way {}: looking for a small program that still does",
                difference.way.name()
            );
            println!("{}", report::parted(&difference));
            let difference = shrink::shrink(lane, difference);
            Some(report::report(&difference))
        }
        Err(reason) => Some(format!("seed {seed:#x} makes a program that is not fair: {reason}")),
    }
}

/// Rounds that run at the same time.
const LANES: usize = 2;
/// Rounds between two progress lines.
const PROGRESS_EVERY: usize = 500;
