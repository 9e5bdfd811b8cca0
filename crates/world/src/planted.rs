//! Every bug of `base::planted` in turn: how many seeds until it is caught, and as what.

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::planted::{Planted, plant};
use world::{Charge, Teller};

/// A bug that survives so many seeds has not been caught.
const SEEDS_MAX: u64 = 5000;

/// Plants each bug and tells stories until one is bad; then looks for a bug for every checker that has seen none first.
pub(crate) fn catch_all(only: &str, from: u64, threads: u64) -> ExitCode {
    let (mut counts, mut used, mut free) = (Vec::new(), BTreeSet::new(), Vec::new());
    let bugs: Vec<Planted> = Planted::ALL.into_iter().filter(|bug| bug.name().contains(only)).collect();
    for &bug in &bugs {
        match catch(bug, None, from, SEEDS_MAX, threads) {
            Some(caught) => {
                println!("{:<32} {:>5} seeds  {caught}", bug.name(), caught.seeds);
                counts.push(caught.seeds);
                used.insert(caught.charge);
            }
            None => {
                println!("{:<32} not caught by {SEEDS_MAX} seeds", bug.name());
                free.push(bug.name());
            }
        }
    }
    let is_whole = bugs.len() == Planted::ALL.len();
    let idle: Vec<Charge> = Charge::ALL.into_iter().filter(|charge| is_whole && !used.contains(charge)).collect();
    let idle: Vec<String> =
        idle.into_iter().filter(|&charge| !is_of_use(charge, from, threads)).map(|charge| charge.to_string()).collect();
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or_default();
    println!("{} of {} bugs caught, median {median} seeds", counts.len(), bugs.len());
    if free.is_empty() && idle.is_empty() && (!is_whole || median <= MEDIAN_MAX) {
        return ExitCode::SUCCESS;
    }
    println!("free: {free:?}; checkers that were never the first to see one: {idle:?}; median allowed: {MEDIAN_MAX}");
    ExitCode::FAILURE
}

/// Whether this checker is the first to see some bug in some story.
fn is_of_use(charge: Charge, from: u64, threads: u64) -> bool {
    Planted::ALL.into_iter().any(|bug| {
        let caught = catch(bug, Some(charge), from, SEEDS_OF_A_CHECKER, threads);
        if let Some(caught) = &caught {
            println!("{charge} is the first to see {} within {} seeds: {caught}", bug.name(), caught.seeds);
        }
        caught.is_some()
    })
}

/// How a bug was caught.
struct Caught {
    seeds: u64,
    charge: Charge,
    text: String,
}

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text.lines().next().unwrap_or_default().chars().take(100).collect();
        write!(f, "{}: {text}", self.charge)
    }
}

/// Plants a bug and tells stories until one is bad, and accused of `wanted` if that is given.
fn catch(bug: Planted, wanted: Option<Charge>, from: u64, most: u64, threads: u64) -> Option<Caught> {
    plant(Some(bug));
    let (next, is_caught, first) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None::<Caught>));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut teller = Teller::default();
                loop {
                    let seeds = next.fetch_add(1, Ordering::Relaxed) + 1;
                    if seeds > most || is_caught.load(Ordering::Relaxed) {
                        return;
                    }
                    let Some((charge, text)) = teller.tell(from + seeds - 1, 0).accusation else { continue };
                    if wanted.is_some_and(|wanted| wanted != charge) {
                        continue;
                    }
                    is_caught.store(true, Ordering::Relaxed);
                    // Threads race; the lowest seed is kept.
                    let Ok(mut first) = first.lock() else { return };
                    if first.as_ref().is_none_or(|other| other.seeds > seeds) {
                        *first = Some(Caught { seeds, charge, text });
                    }
                }
            });
        }
    });
    plant(None);
    first.into_inner().ok().flatten()
}

/// So many seeds of each bug are tried for a checker that has caught nothing yet.
const SEEDS_OF_A_CHECKER: u64 = 200;
/// Half of the bugs are caught by so many seeds, or fewer.
const MEDIAN_MAX: u64 = 200;
