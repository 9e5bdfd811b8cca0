//! `trunkline capacity --replay`: plays a recording again, and compares targets by their answers and times.
//!
//! Always true: nothing is changed without the word for it; a run whose generator was too slow says that it is void.
//! Not here: the recording (`record`). Begin with `options`, `script`, then `player`.

mod comparison;
mod options;
mod player;
mod report;
mod script;

pub use options::{ReplayOptions, USAGE};

use std::rc::Rc;

use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::connection::{Stop, address, writing_target};
use crate::deliver::deliver;
use crate::hatest::Target;
use crate::load::turns;
use crate::record::Recording;
use comparison::compare;
use player::{Run, play};
use report::{Played, Report};
use script::Script;

/// Why there is no report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// The command line or the recording is wrong.
    Usage(String),
    /// A target cannot be used, or the report cannot be written.
    Failed(String),
}

/// Plays, prints the report, and returns the exit status.
///
/// # Errors
/// In words for an operator.
pub fn run(options: &ReplayOptions) -> Result<u8, ReplayError> {
    let (recording, script, targets) = prepare(options).map_err(ReplayError::Usage)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ReplayError::Failed(error.to_string()))?;
    let runs = LocalSet::new().block_on(&runtime, play_all(options, &script, &targets));
    // A lookup of a host name that is under way is not waited for.
    runtime.shutdown_background();
    let runs = runs.map_err(ReplayError::Failed)?;
    let report = judge(options, &recording, &script, &targets, &runs);
    let text = if options.is_json { report.json() } else { Ok(report.text()) };
    let text = text.map_err(ReplayError::Failed)?;
    deliver(options.output.as_deref(), &text).map_err(ReplayError::Failed)?;
    Ok(report.status())
}

fn prepare(options: &ReplayOptions) -> Result<(Recording, Script, Vec<Rc<Target>>), String> {
    let file = &options.file;
    let named = |why: String| format!("{file}: {why}");
    let size = std::fs::metadata(file).map_err(|error| named(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(named(format!("{size} bytes are more than a recording has")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    let recording = Recording::read(&text).map_err(named)?;
    let script = Script::new(&recording, options.speed, options.seed, options.may_write).map_err(named)?;
    if script.requests() == 0 {
        return Err(named(format!("nothing of it can be played{}", report::left_out_words(&script))));
    }
    let names = ["--target", "--against"];
    let targets =
        options.targets.iter().zip(names).map(|(conninfo, name)| {
            writing_target(NAME, conninfo).map(Rc::new).map_err(|why| format!("{name}: {why}"))
        });
    Ok((recording, script, targets.collect::<Result<_, String>>()?))
}

/// The runs, each with the number of its target.
async fn play_all(
    options: &ReplayOptions,
    script: &Script,
    targets: &[Rc<Target>],
) -> Result<Vec<(usize, Run)>, String> {
    let mut stop = Stop::listen()?;
    let mut runs = Vec::new();
    let progress = report::progress(script, options.rounds * targets.len());
    for number in turns(targets.len(), options.rounds) {
        let run = play(script, &targets[number], options.patience, &mut stop).await;
        let run = run.map_err(|why| format!("{}: {why}", ["--target", "--against"][number]))?;
        let is_cut = run.is_cut;
        runs.push((number, run));
        progress.inc(1);
        if is_cut {
            break;
        }
    }
    progress.finish_and_clear();
    Ok(runs)
}

fn judge(
    options: &ReplayOptions,
    recording: &Recording,
    script: &Script,
    targets: &[Rc<Target>],
    runs: &[(usize, Run)],
) -> Report {
    let of = |target: usize| -> Vec<&Run> {
        runs.iter().filter(|(number, _)| *number == target).map(|(_, run)| run).collect()
    };
    let played = targets.iter().enumerate().map(|(number, target)| Played::new(address(target), &of(number)));
    let comparison = (targets.len() == 2).then(|| {
        // A run that was cut off has answers of its beginning only, which are compared all the same.
        compare(&of(0), &of(1), options.seed)
    });
    Report::new(options, recording, script, played.collect(), comparison)
}

const NAME: &str = "trunkline replay";
/// A trace has 100,000 lines of 16 kB at most, and most are far shorter.
const FILE_BYTES_MAX: u64 = 2 << 30;
