//! Plants every bug of `base::planted` in turn, and tells after how many seeds it was caught, and by which check.
//!
//! Always true: a seed counts as having caught a bug only if its world is good without the bug.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::planted::{Planted, plant};
use world::{Charge, Teller, has_cluster};

use crate::Options;

/// A bug counts as not caught after so many seeds.
const SEEDS_MAX: u64 = 5000;

/// The seed that caught each bug in the last search, by the bug's name.
pub(crate) type Recorded = BTreeMap<String, u64>;

/// Reads `bug seed` in each line that is not a comment.
///
/// # Errors
/// A line that does not have this form, or names no bug.
pub(crate) fn recorded(text: &str) -> Result<Recorded, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [name, seed] if Planted::ALL.iter().any(|bug| bug.name() == name) => {
                    Ok((name.to_owned(), seed.parse().map_err(|_| format!("not a seed: {line:?}"))?))
                }
                _ => Err(format!("not a bug and its seed: {line:?}")),
            }
        })
        .collect()
}

/// Plants each bug and runs seeds until one is bad, the bug's recorded seed first. Then looks for a bug that is first
/// seen by each checker that was never the first. Returns the exit code and the text of a file of recorded seeds.
pub(crate) fn catch_all(options: &Options, recorded: &Recorded) -> (ExitCode, String) {
    let search = Search { from: options.from, threads: options.threads, has_clusters: options.has_clusters };
    let (mut counts, mut used, mut free, mut text) = (Vec::new(), BTreeSet::new(), Vec::new(), HEAD.to_owned());
    let bugs: Vec<Planted> = Planted::ALL.into_iter().filter(|bug| bug.name().contains(&options.only)).collect();
    for &bug in &bugs {
        let known = recorded.get(bug.name()).copied();
        let at_once = known.and_then(|seed| catch_in(bug, seed));
        if let (Some(seed), None) = (known, &at_once) {
            println!("{:<32} seed {seed} shows it no longer: searched for anew", bug.name());
        }
        let is_known = at_once.is_some();
        match at_once.or_else(|| catch(bug, None, SEEDS_MAX, search)) {
            Some(caught) if !is_known && catch_in(bug, caught.seed).is_none() => {
                println!("{:<32} seed {} is bad without it: {caught}", bug.name(), caught.seed);
                free.push(bug.name());
            }
            Some(caught) => {
                println!("{:<32} {:>5} seeds  {caught}", bug.name(), caught.seeds);
                text.push_str(&format!("{} {}\n", bug.name(), caught.seed));
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
        idle.into_iter().filter(|&charge| !is_of_use(charge, search)).map(|charge| charge.to_string()).collect();
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or_default();
    println!("{} of {} bugs caught, median {median} seeds", counts.len(), bugs.len());
    if free.is_empty() && idle.is_empty() && (!is_whole || median <= MEDIAN_MAX) {
        return (ExitCode::SUCCESS, text);
    }
    println!("free: {free:?}; checkers that were never the first to see one: {idle:?}; median allowed: {MEDIAN_MAX}");
    (ExitCode::FAILURE, text)
}

/// Returns whether this checker is the first to see some bug in some seed.
fn is_of_use(charge: Charge, search: Search) -> bool {
    Planted::ALL.into_iter().any(|bug| {
        let caught = catch(bug, Some(charge), SEEDS_OF_A_CHECKER, search);
        if let Some(caught) = &caught {
            println!("{charge} is the first to see {} within {} seeds: {caught}", bug.name(), caught.seeds);
        }
        caught.is_some()
    })
}

/// Which seeds are tried.
#[derive(Clone, Copy)]
struct Search {
    from: u64,
    threads: u64,
    has_clusters: bool,
}

/// How a bug was caught.
struct Caught {
    seed: u64,
    /// Number of seeds run until then.
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

/// Plants a bug and runs one seed, which has to be good without the bug.
fn catch_in(bug: Planted, seed: u64) -> Option<Caught> {
    let mut teller = Teller::default();
    if teller.tell(seed, 0).accusation.is_some() {
        return None;
    }
    plant(Some(bug));
    let accusation = teller.tell(seed, 0).accusation;
    plant(None);
    accusation.map(|(charge, text)| Caught { seed, seeds: seed, charge, text })
}

/// Plants a bug and runs seeds until one is bad, by the charge `wanted` if that is given.
fn catch(bug: Planted, wanted: Option<Charge>, most: u64, search: Search) -> Option<Caught> {
    let Search { from, threads, has_clusters } = search;
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
                    if has_clusters && !has_cluster(from + seeds - 1) {
                        continue;
                    }
                    let Some((charge, text)) = teller.tell(from + seeds - 1, 0).accusation else { continue };
                    if wanted.is_some_and(|wanted| wanted != charge) {
                        continue;
                    }
                    is_caught.store(true, Ordering::Relaxed);
                    // Threads race; the lowest seed is kept.
                    let Ok(mut first) = first.lock() else { return };
                    if first.as_ref().is_none_or(|other| other.seeds > seeds) {
                        *first = Some(Caught { seed: from + seeds - 1, seeds, charge, text });
                    }
                }
            });
        }
    });
    plant(None);
    first.into_inner().ok().flatten()
}

/// The first lines of the file of recorded seeds.
const HEAD: &str = "\
# The seed that showed each bug of docs/planted.md when it was last searched for. `make test` tells its story first, and
# searches only when it shows the bug no longer, as after a change of the plans. `make world ARGS=--planted` searches for all;
# `make world ARGS=\"--planted --record crates/world/planted.txt\"` writes this file.
";
/// How many seeds of each bug are tried for a checker that has not been first yet.
const SEEDS_OF_A_CHECKER: u64 = 200;
/// The highest allowed median of seeds until a bug is caught.
const MEDIAN_MAX: u64 = 200;
