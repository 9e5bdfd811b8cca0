//! Every bug of `base::planted` in turn: how many seeds until it is caught, and as what.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::planted::{Planted, plant};
use world::{Charge, Teller};

/// A bug that survives so many seeds has not been caught.
const SEEDS_MAX: u64 = 5000;

/// Plants each bug and tells stories until one is bad.
pub(crate) fn catch_all(only: &str, from: u64, threads: u64) -> ExitCode {
    let (mut counts, mut used, mut free) = (Vec::new(), BTreeSet::new(), Vec::new());
    let bugs: Vec<Planted> = Planted::ALL.into_iter().filter(|bug| bug.name().contains(only)).collect();
    for &bug in &bugs {
        plant(Some(bug));
        match catch(from, threads) {
            Some((seed, charge, text)) => {
                let text: String = text.lines().next().unwrap_or_default().chars().take(100).collect();
                println!("{:<32} {seed:>5} seeds  {charge}: {text}", bug.name());
                counts.push(seed);
                used.insert(charge);
            }
            None => {
                println!("{:<32} not caught by {SEEDS_MAX} seeds", bug.name());
                free.push(bug.name());
            }
        }
    }
    plant(None);
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or_default();
    println!("{} of {} bugs caught, median {median} seeds", counts.len(), bugs.len());
    let used: Vec<String> = used.iter().map(ToString::to_string).collect();
    println!("caught as: {}", used.join("; "));
    if free.is_empty() && median <= MEDIAN_MAX {
        return ExitCode::SUCCESS;
    }
    println!("free: {free:?}; median allowed: {MEDIAN_MAX}");
    ExitCode::FAILURE
}

fn catch(from: u64, threads: u64) -> Option<(u64, Charge, String)> {
    let (next, is_caught, first) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut teller = Teller::default();
                loop {
                    let told = next.fetch_add(1, Ordering::Relaxed) + 1;
                    let seed = from + told - 1;
                    if told > SEEDS_MAX || is_caught.load(Ordering::Relaxed) {
                        return;
                    }
                    let Some((charge, text)) = teller.tell(seed, 0).accusation else { continue };
                    is_caught.store(true, Ordering::Relaxed);
                    // Threads race; the lowest seed is kept.
                    let Ok(mut first) = first.lock() else { return };
                    if first.as_ref().is_none_or(|(other, _, _)| *other > told) {
                        *first = Some((told, charge, text));
                    }
                }
            });
        }
    });
    first.into_inner().ok().flatten()
}

/// Half of the bugs are caught by so many seeds, or fewer.
const MEDIAN_MAX: u64 = 200;
