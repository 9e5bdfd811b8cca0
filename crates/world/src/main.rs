//! Runs simulated days: many seeds, one seed with its last log lines, or every planted bug until a seed catches it.

#[cfg(feature = "planted")]
mod planted;
mod ways;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use lexopt::prelude::*;
use world::{Outcome, Teller, has_cluster, keep_panics, verifies};

/// A simulated day allocates all the time, and the results do not depend on where.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line.
struct Options {
    from: u64,
    count: u64,
    one: Option<u64>,
    moments: usize,
    threads: u64,
    is_whole: bool,
    is_planted: bool,
    is_verified: bool,
    has_clusters: bool,
    compares: bool,
    only: String,
    known: Vec<u64>,
    /// The text of the file of recorded seeds.
    recorded: String,
    /// The file to write the recorded seeds to.
    record: Option<OsString>,
}

const USAGE: &str = "\
world [--seeds N] [--from S] [--threads T]    tells the stories of N seeds from S on
world --verified [--seeds N] [--from S]       of these only the seeds in which servers are asked what is known of them
world --clusters [--seeds N] [--from S]       of these only the seeds whose hosts are members of a cluster
world --both-ways [--seeds N] [--from S]      tells each twice, with the plain ways of transactions and without
                                              (needs the feature planted)
world --known FILE                            tells those of the seeds that a file lists
world --seed S [--moments M] [--whole]        tells one story, shortened if it is bad unless --whole is given
world --planted [--from S] [--only BUG] [--clusters]
                                              plants each bug in turn and looks which seed catches it
                                              (needs the feature planted)
world --planted --recorded FILE               the same, and first with the seed that the file has for the bug
world --planted --record FILE                 writes the seeds that caught them
";

fn options() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        from: 1,
        count: 100,
        one: None,
        moments: 60,
        threads: 2,
        is_whole: false,
        is_planted: false,
        is_verified: false,
        has_clusters: false,
        compares: false,
        only: String::new(),
        known: Vec::new(),
        recorded: String::new(),
        record: None,
    };
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next()? {
        match word {
            Long("seeds") => options.count = words.value()?.parse()?,
            Long("from") => options.from = words.value()?.parse()?,
            Long("seed") => options.one = Some(words.value()?.parse()?),
            Long("moments") => options.moments = words.value()?.parse()?,
            Long("threads") => options.threads = words.value()?.parse()?,
            Long("whole") => options.is_whole = true,
            Long("verified") => options.is_verified = true,
            Long("clusters") => options.has_clusters = true,
            Long("both-ways") => options.compares = true,
            Long("planted") => options.is_planted = true,
            Long("only") => options.only = words.value()?.parse()?,
            Long("known") => options.known = known(&read(words.value()?)?)?,
            Long("record") => options.record = Some(words.value()?),
            Long("recorded") => options.recorded = read(words.value()?)?,
            Short('h') | Long("help") => {
                print!("{USAGE}");
                return Ok(None);
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

fn read(path: OsString) -> Result<String, String> {
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The seeds of a file: the first word of each line that is not a comment.
fn known(text: &str) -> Result<Vec<u64>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let word = line.split_whitespace().next().unwrap_or_default();
            word.parse().map_err(|_| format!("not a seed: {line:?}"))
        })
        .collect()
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("world: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    keep_panics();
    match options.one {
        _ if options.is_planted => planted(&options),
        Some(seed) => one(seed, &options),
        None if !options.known.is_empty() => many(&options, &options.known),
        None => {
            let seeds = options.from..options.from + options.count;
            let is_meant =
                |seed: &u64| (!options.is_verified || verifies(*seed)) && (!options.has_clusters || has_cluster(*seed));
            many(&options, &seeds.filter(is_meant).collect::<Vec<_>>())
        }
    }
}

#[cfg(feature = "planted")]
fn planted(options: &Options) -> ExitCode {
    let recorded = match planted::recorded(&options.recorded) {
        Ok(recorded) => recorded,
        Err(error) => {
            eprintln!("world: {error}");
            return ExitCode::from(2);
        }
    };
    let (exit, seeds) = planted::catch_all(options, &recorded);
    match options.record.as_ref().map_or(Ok(()), |path| std::fs::write(path, seeds)) {
        Ok(()) => exit,
        Err(error) => {
            eprintln!("world: cannot write the seeds: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Options) -> ExitCode {
    eprintln!("world: built without the feature `planted`; use `cargo xtask world --planted`");
    ExitCode::from(2)
}

fn one(seed: u64, options: &Options) -> ExitCode {
    let mut teller = Teller::default();
    ways::open(ways::has(seed));
    let outcome = teller.tell(seed, options.moments);
    let outcome = match outcome.accusation {
        Some(_) if !options.is_whole => teller.shorten(seed, options.moments),
        _ => outcome,
    };
    print(seed, &outcome);
    if outcome.accusation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print(seed: u64, outcome: &Outcome) {
    println!("{}", outcome.configuration);
    for moment in &outcome.moments {
        println!("{moment}");
    }
    let (people, faults) = outcome.parts;
    let secs = outcome.lasted as f64 / 1e6;
    println!("seed {seed}: {people} applications, {faults} faults, {secs:.3} s of its time, sum {:016x}", outcome.sum);
    for (what, count) in &outcome.tally {
        println!("  {count:>8} {what}");
    }
    if let Some((charge, text)) = &outcome.accusation {
        println!("seed {seed}: {charge}: {text}");
        println!("    replay: cargo xtask world --seed {seed}");
    }
}

fn many(options: &Options, seeds: &[u64]) -> ExitCode {
    if options.compares {
        return ways::compare(seeds, options.threads);
    }
    let started = Instant::now();
    let has_failed = AtomicBool::new(false);
    let tallies = Mutex::new(BTreeMap::<&'static str, u64>::new());
    let (with, without): (Vec<u64>, Vec<u64>) = seeds.iter().partition(|seed| ways::has(**seed));
    for (are_open, seeds) in [(true, with), (false, without)] {
        ways::open(are_open);
        for_each(&seeds, options.threads, |teller, seed| {
            let outcome = teller.tell(seed, 0);
            if let Some((charge, text)) = &outcome.accusation {
                has_failed.store(true, Ordering::Relaxed);
                println!("seed {seed}: {charge}: {text}\n    replay: cargo xtask world --seed {seed}");
            }
            if let Ok(mut tallies) = tallies.lock() {
                for (what, count) in &outcome.tally {
                    *tallies.entry(what).or_default() += count;
                }
            }
        });
    }
    let secs = started.elapsed().as_secs_f64();
    println!("{} seeds in {secs:.1} s", seeds.len());
    if let Ok(tallies) = tallies.lock() {
        for (what, count) in tallies.iter() {
            println!("  {count:>10} {what}");
        }
    }
    if has_failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Looks at the worlds of these seeds, several at a time.
fn for_each(seeds: &[u64], threads: u64, look: impl Fn(&mut Teller, u64) + Sync) {
    let next = AtomicU64::new(0);
    let look_at_some = || {
        let mut teller = Teller::default();
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            look(&mut teller, seed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(look_at_some);
        }
    });
}
