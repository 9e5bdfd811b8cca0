//! Prints what reading costs.
//!
//! Not here: what must hold (`hostile`).

use std::time::{Duration, Instant};

use route::{Dialect, Knowledge, Reading, Source};

fn source<'a>(name: &'a str, text: &'a str) -> Source<'a> {
    Source { name, is_readable: true, is_hidden: false, is_in_queries: false, text }
}

/// The time to read the names, the first text and the others, and to compute the result from all: a worker does these
/// in separate turns.
fn steps(functions: &[(String, String)]) -> [Duration; 4] {
    let mut reading = Reading::default();
    let begun = Instant::now();
    functions.iter().for_each(|(name, _)| reading.name(name));
    let named = begun.elapsed();
    let mut functions = functions.iter().map(|(name, text)| source(name, text));
    let begun = Instant::now();
    functions.by_ref().take(1).for_each(|source| reading.add(source));
    let first = begun.elapsed();
    let begun = Instant::now();
    functions.for_each(|source| reading.add(source));
    let others = begun.elapsed();
    let begun = Instant::now();
    let _ = std::hint::black_box(reading.end());
    [named, first, others, begun.elapsed()]
}

/// `cargo test --release -p fuzz --test figures -- --ignored --nocapture` prints the figures.
#[test]
#[ignore = "prints figures"]
fn what_it_takes_to_read_the_functions_of_a_database() {
    let many = |count: usize, text: &dyn Fn(usize) -> String| -> Vec<(String, String)> {
        (0..count).map(|at| (format!("f{at:05}"), text(at))).collect()
    };
    let honest = "DECLARE total numeric; BEGIN SELECT sum(o.total) INTO total FROM orders o JOIN customers c ON c.id = o.customer_id \
                  WHERE o.created > now() - interval '1 day' AND c.region = 'north'; IF total > 100 THEN UPDATE t SET a = 1; END IF; ";
    for (what, functions) in [
        ("10,000 honest", many(10_000, &|at| format!("{} PERFORM f{:05}(); END", honest.repeat(4), (at * 7) % 10_000))),
        (
            "10,000 that set",
            many(10_000, &|at| {
                format!("BEGIN PERFORM set_config('a.b{at}', 'v', false); PERFORM f{:05}(); END", (at * 7) % 10_000)
            }),
        ),
        (
            "10,000 that mention 99 others",
            many(10_000, &|at| (at..at + 99).map(|at| format!("f{:05}(); ", at % 10_000)).collect()),
        ),
        ("a chain", many(100_000, &|at| format!("f{:05}", at + 1))),
        ("letters", many(10, &|_| "a ".repeat(500_000))),
        ("names", many(1000, &|at| format!("f{at:05} ").repeat(1400))),
        ("strings", many(10, &|_| "'a.b',".repeat(160_000))),
        ("texts in strings", many(10, &|_| "'set .',".repeat(120_000))),
        ("calls", many(10, &|_| "set_config('a.b', ".repeat(55_000))),
        ("dollars", many(10, &|_| format!("$a$set . $b$set . {} $b$ $a$", "set a.b;".repeat(120_000)))),
    ] {
        let bytes: usize = functions.iter().map(|(_, text)| text.len()).sum();
        let [named, begun, all, end] = steps(&functions);
        println!(
            "{what}: {bytes} bytes: names {named:?}, the first text {begun:?}, all others {all:?}, the end {end:?}"
        );
    }
    let known = Knowledge::default();
    let text = honest.repeat(4);
    let begun = Instant::now();
    (0..1000)
        .for_each(|_| drop(std::hint::black_box(route::classify(text.as_bytes(), Dialect::default(), Some(&known)))));
    println!("a new text: {:?} for a kilobyte", begun.elapsed() * 1024 / 1000 / text.len() as u32);
}
