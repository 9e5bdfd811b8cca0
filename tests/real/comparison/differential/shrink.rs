//! Makes a program that is answered differently smaller.
//!
//! Always true: the result still differs and is fair; shrinking ends, because each step removes something.
//! Not here: what a program is (`program`), and whether it is fair (`rules`).

use std::time::Duration;

use super::hunt::Difference;
use super::program::{Burst, Cut, Hurry, Program};
use super::rules;
use super::stage::Lane;

/// Returns the smallest difference that can be reached from `best`.
pub(super) fn shrink(lane: &mut Lane<'_>, mut best: Difference) -> Difference {
    let patience = std::mem::replace(&mut lane.patience, PATIENCE);
    // First alone: most differences need no other programs.
    let programs = best.round.programs.clone();
    attempt(lane, &mut best, programs, None);
    for seat in 0..best.round.programs.len() {
        if seat != best.seat {
            let mut programs = best.round.programs.clone();
            programs[seat] = programs[seat].silent();
            let rude = best.round.rude;
            attempt(lane, &mut best, programs, rude);
        }
    }
    for seat in [best.seat].into_iter().chain(0..best.round.programs.len()) {
        shrink_one(lane, &mut best, seat);
    }
    lane.patience = patience;
    best
}

/// Makes the program of one seat smaller.
fn shrink_one(lane: &mut Lane<'_>, best: &mut Difference, seat: usize) {
    loop {
        let before = best.round.programs[seat].size();
        for step in STEPS {
            let mut at = 0;
            while let Some(smaller) = step(&best.round.programs[seat], at) {
                let mut programs = best.round.programs.clone();
                programs[seat] = smaller;
                // After a success the next part has this number.
                if !attempt(lane, best, programs, best.round.rude) {
                    at += 1;
                }
            }
        }
        if best.round.programs[seat].size() == before {
            return;
        }
    }
}

/// Runs smaller programs, and takes their difference if they show one. Each attempt is repeated, because some differences
/// need luck.
fn attempt(lane: &mut Lane<'_>, best: &mut Difference, programs: Vec<Program>, rude: Option<u64>) -> bool {
    if programs.iter().any(|program| rules::check(program).is_err()) {
        return false;
    }
    let round = best.round.with(programs, rude, &best.way);
    for _ in 0..CHANCES {
        match round.play(lane) {
            Ok(Some(smaller)) => {
                *best = smaller;
                return true;
            }
            Ok(None) => {}
            Err(_) => return false,
        }
    }
    false
}

/// A program without its part number `at`, or `None` when there is no such part.
type Step = fn(&Program, usize) -> Option<Program>;

const STEPS: [Step; 7] = [half_of_units, unit, burst, message, parameter, hurry, cut];

fn half_of_units(program: &Program, at: usize) -> Option<Program> {
    let mut smaller = program.clone();
    let middle = program.units.len() / 2;
    match at {
        0 if middle > 0 => drop(smaller.units.drain(..middle)),
        1 if middle > 0 => smaller.units.truncate(middle),
        _ => return None,
    }
    Some(smaller)
}

fn unit(program: &Program, at: usize) -> Option<Program> {
    let mut smaller = program.clone();
    (at < program.units.len()).then(|| smaller.units.remove(at))?;
    Some(smaller)
}

fn burst(program: &Program, at: usize) -> Option<Program> {
    let mut smaller = program.clone();
    let (unit, place) = places(program).nth(at)?;
    smaller.units[unit].bursts.remove(place);
    Some(smaller)
}

fn message(program: &Program, at: usize) -> Option<Program> {
    let mut left = at;
    for (unit, place) in places(program) {
        let messages = &program.units[unit].bursts[place].messages;
        if left < messages.len() {
            let mut smaller = program.clone();
            let bursts = &mut smaller.units[unit].bursts;
            bursts[place].messages.remove(left);
            bursts.retain(|burst| !burst.messages.is_empty());
            return Some(smaller);
        }
        left -= messages.len();
    }
    None
}

fn parameter(program: &Program, at: usize) -> Option<Program> {
    let mut smaller = program.clone();
    (at < program.startup.len()).then(|| smaller.startup.remove(at))?;
    Some(smaller)
}

fn hurry(program: &Program, at: usize) -> Option<Program> {
    (at == 0 && program.hurry == Hurry::Yes).then(|| Program { hurry: Hurry::No, ..program.clone() })
}

/// Writes one burst in one piece that was written in several.
fn cut(program: &Program, at: usize) -> Option<Program> {
    let (unit, place) = places(program).filter(|(unit, place)| is_cut(&program.units[*unit].bursts[*place])).nth(at)?;
    let mut smaller = program.clone();
    smaller.units[unit].bursts[place].cut = Cut::Whole;
    Some(smaller)
}

fn is_cut(burst: &Burst) -> bool {
    burst.cut != Cut::Whole
}

/// Unit and place of each burst.
fn places(program: &Program) -> impl Iterator<Item = (usize, usize)> {
    program.units.iter().enumerate().flat_map(|(unit, units)| (0..units.bursts.len()).map(move |place| (unit, place)))
}

/// How often smaller programs are run before they count as showing no difference.
const CHANCES: usize = 2;
/// How long a message may take during shrinking, where an answer that never comes is waited for often.
const PATIENCE: Duration = Duration::from_secs(2);
