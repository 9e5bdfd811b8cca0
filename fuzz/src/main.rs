//! The search on stable: `cargo xtask fuzz [--seconds N] [--target T] [--seed S] [--replay FILE]`.
//!
//! Always true: a failing input is shrunk, written to `artifacts/TARGET/`, and printed with the command that replays
//! it; an input that does not end is reported as well. The same seed tries the same inputs in the same order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use fuzz::mutate::Mutator;
use fuzz::search::{Failure, attempt, shrink};
use fuzz::{TARGETS, Target, corpus, target};
use lexopt::{Arg, Parser, ValueExt};

fn main() -> ExitCode {
    let wanted = match Wanted::read(Parser::from_env()) {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("{message}\n\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = match &wanted.replay {
        Some(file) => wanted.targets.iter().try_for_each(|target| replay(target, file)),
        None => search_all(&wanted),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The command line.
struct Wanted {
    seconds: u64,
    seed: u64,
    targets: Vec<&'static Target>,
    replay: Option<PathBuf>,
}

impl Wanted {
    fn read(mut arguments: Parser) -> Result<Self, String> {
        let words = |error: lexopt::Error| error.to_string();
        let (mut seconds, mut seed, mut named, mut replay) = (10, 1, None, None);
        while let Some(argument) = arguments.next().map_err(words)? {
            match argument {
                Arg::Long("seconds") => seconds = arguments.value().and_then(|v| v.parse()).map_err(words)?,
                Arg::Long("seed") => seed = arguments.value().and_then(|v| v.parse()).map_err(words)?,
                Arg::Long("target") => named = Some(name(arguments.value().map_err(words)?)?),
                Arg::Long("replay") => replay = Some(PathBuf::from(arguments.value().map_err(words)?)),
                other => return Err(words(other.unexpected())),
            }
        }
        if replay.is_some() && named.is_none() {
            return Err("--replay needs the --target that the input is for".to_owned());
        }
        let targets = named.map_or_else(|| TARGETS.iter().collect(), |target| vec![target]);
        Ok(Self { seconds, seed, targets, replay })
    }
}

fn name(value: OsString) -> Result<&'static Target, String> {
    let value = value.to_string_lossy();
    let all = TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    target(&value).ok_or_else(|| format!("no target is called {value}; there are {all}"))
}

/// Runs one input unchanged, with its panic on standard error.
fn replay(target: &Target, file: &Path) -> Result<(), String> {
    let input = fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    (target.run)(&input);
    println!("{}: nothing is wrong with {} ({} bytes)", target.name, file.display(), input.len());
    Ok(())
}

fn search_all(wanted: &Wanted) -> Result<(), String> {
    let watch = Watch::begin();
    let mut failed = Vec::new();
    for target in &wanted.targets {
        let share = Duration::from_secs(wanted.seconds) / wanted.targets.len() as u32;
        if !search(target, wanted.seed, share, &watch)? {
            failed.push(target.name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("fuzz: {} failed", failed.join(", "))),
    }
}

/// Searches one target. Returns whether nothing was found.
fn search(target: &'static Target, seed: u64, time: Duration, watch: &Watch) -> Result<bool, String> {
    let seeds = corpus::seeds(target.name).map_err(|error| format!("no corpus of {}: {error}", target.name))?;
    let inputs: Vec<Vec<u8>> = seeds.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(seed, &inputs, target.words, target.bytes_max);
    let begun = Instant::now();
    let mut count = 0;
    // All seeds are tried first, however short the time is.
    while count < inputs.len() || begun.elapsed() < time {
        let input = inputs.get(count).cloned().unwrap_or_else(|| mutator.next_input());
        watch.tries(target, &input);
        let since = Instant::now();
        let outcome = attempt(target, &input);
        watch.rests();
        if since.elapsed() > SLOW {
            println!("{}: slow ({:?}): {}", target.name, since.elapsed(), keep(target, &input)?.display());
        }
        if let Err(failure) = outcome {
            tell(target, &shrink(target, &input, &failure), &failure)?;
            return Ok(false);
        }
        count += 1;
    }
    println!("{:<10} {count:>9} inputs in {:.0} s, none failed", target.name, begun.elapsed().as_secs_f64());
    Ok(true)
}

fn tell(target: &Target, input: &[u8], failure: &Failure) -> Result<(), String> {
    println!("{}: {}\n{}", target.name, failure.place, failure.words);
    println!("input: {}", input.escape_ascii());
    let file = keep(target, input)?;
    println!("replay it with: cargo xtask fuzz --target {} --replay {}", target.name, file.display());
    println!("once mended, it belongs into {}", corpus::folder(target.name).join("A-SENTENCE.seed").display());
    Ok(())
}

/// Writes an input to a file, named by its hash.
fn keep(target: &Target, input: &[u8]) -> Result<PathBuf, String> {
    let folder = corpus::home().join("artifacts").join(target.name);
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let file = folder.join(format!("found-{hash:016x}"));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, input));
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(file)
}

/// A thread that notices when the current input does not end.
struct Watch {
    present: Arc<Mutex<Option<Present>>>,
}

/// The current input, and when it was begun.
type Present = (&'static Target, Vec<u8>, Instant);

impl Watch {
    fn begin() -> Self {
        let present: Arc<Mutex<Option<Present>>> = Arc::default();
        let seen = Arc::clone(&present);
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_secs(1));
                let present = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((target, input, since)) = present.as_ref()
                    && since.elapsed() > ENDLESS
                {
                    let words = format!("no end after {} seconds", ENDLESS.as_secs());
                    let told = tell(target, input, &Failure { place: "somewhere".to_owned(), words });
                    told.unwrap_or_else(|error| eprintln!("{error}"));
                    std::process::exit(1);
                }
            }
        });
        Self { present }
    }

    fn tries(&self, target: &'static Target, input: &[u8]) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *present = Some((target, input.to_vec(), Instant::now()));
    }

    fn rests(&self) {
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Thousands of times longer than any input takes.
const ENDLESS: Duration = Duration::from_secs(20);

/// An input that takes longer is reported.
const SLOW: Duration = Duration::from_secs(2);

const USAGE: &str = "\
usage: cargo xtask fuzz [--seconds N] [--target T] [--seed S] [--replay FILE]

  --seconds N    search for so long, shared by the targets (10)
  --target T     this one only
  --seed S       other inputs (1)
  --replay FILE  run one input and show where it fails";
