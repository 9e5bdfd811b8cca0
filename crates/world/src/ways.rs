//! The plain ways of a transaction: which worlds have them, and the proof that nothing but the speed depends on them.
//!
//! Always true: a world with all ways open and the same world with all of them closed have the same events, each at the same
//! microsecond.
//! Not here: the ways (decision 0026).

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use world::Teller;

use crate::for_each;

/// Opens the plain ways to all worlds of this process, or closes them, where it can.
pub(crate) fn open(are_open: bool) {
    #[cfg(feature = "planted")]
    base::planted::open_ways(are_open);
    #[cfg(not(feature = "planted"))]
    let _ = are_open;
}

/// Whether the world of a seed has the plain ways: three of four have.
pub(crate) fn has(seed: u64) -> bool {
    !seed.is_multiple_of(4)
}

/// Runs the worlds of these seeds with the ways open and with the ways closed, and prints where they differ.
pub(crate) fn compare(seeds: &[u64], threads: u64) -> ExitCode {
    if cfg!(not(feature = "planted")) {
        eprintln!("world: built without the feature `planted`; use `cargo xtask world --both-ways`");
        return ExitCode::from(2);
    }
    let started = Instant::now();
    let [with, without] = [true, false].map(|are_open| {
        open(are_open);
        let sums = Mutex::new(BTreeMap::new());
        for_each(seeds, threads, |teller, seed| {
            let sum = teller.tell_uncut(seed, 0).sum;
            sums.lock().expect("no thread has panicked").insert(seed, sum);
        });
        sums.into_inner().expect("no thread has panicked")
    });
    let differing: Vec<u64> = seeds.iter().copied().filter(|seed| with.get(seed) != without.get(seed)).collect();
    for &seed in &differing {
        println!("seed {seed}: what happens depends on the plain ways: {}", difference(seed));
    }
    println!("{} seeds by both ways in {:.1} s", seeds.len(), started.elapsed().as_secs_f64());
    if differing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The first log lines that differ.
fn difference(seed: u64) -> String {
    let mut teller = Teller::default();
    let [with, without] = [true, false].map(|are_open| {
        open(are_open);
        teller.tell_uncut(seed, usize::MAX).moments
    });
    let first = with.iter().zip(&without).find(|(with, without)| with != without);
    first.map_or("when bytes arrive".to_owned(), |(with, without)| format!("{with}, or {without}"))
}
