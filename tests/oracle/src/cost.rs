//! The cost of reading a text: `cargo xtask oracle --cost`.
//!
//! Always true: each figure is the fastest of several rounds, because other work can only make one slower.
//! Not here: measurements of a running pooler (`make bench`).

use std::hint::black_box;
use std::time::Instant;

use route::{Cache, Dialect, Knowledge, classify};

/// Measures and prints the figures.
pub(crate) fn tell() {
    let tame = Knowledge::new(["set_tenant", "touch_session"], false);
    let short = "SELECT abalance FROM pgbench_accounts WHERE aid = 4711";
    let long = "SELECT o.id, o.total, c.name AS \"Customer\" FROM orders o JOIN customers c ON c.id = o.customer_id \
                WHERE o.created > now() - interval '1 day' AND c.region IN ('north', 'south') /* shop */ "
        .repeat(6);
    for text in [short, &long] {
        let mut cache = Cache::default();
        let cached = quickest(|| drop(black_box(cache.class(text.as_bytes(), Dialect::default(), 0, Some(&tame)))));
        let new = quickest(|| drop(black_box(classify(text.as_bytes(), Dialect::default(), Some(&tame)))));
        let kilobyte = new * 1024.0 / text.len() as f64;
        println!(
            "{} bytes: {cached:.0} ns when cached, {new:.0} ns when new, {kilobyte:.0} ns for a kilobyte",
            text.len()
        );
    }
}

/// Nanoseconds for one call, in the fastest of the rounds.
fn quickest(mut what: impl FnMut()) -> f64 {
    let mut round = || {
        let since = Instant::now();
        (0..CALLS).for_each(|_| what());
        since.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}

const CALLS: u32 = 20_000;
const ROUNDS: u32 = 15;
