//! `trunkline simulate`: what a pooler's settings do to the transactions of many tenants, on a virtual clock or for real.
//!
//! Always true: on the virtual clock the decisions are those of the crate `pool`, which the pooler itself runs; nothing is connected to
//! anything but by `real`.
//! Not here: theory to compare with (`theory`), exit statuses of a wrong command line (crate `trunkline`).

mod course;
mod demand;
mod engine;
mod experiment;
mod options;
mod presets;
mod real;
mod report;
mod spec;
mod story;
mod sweep;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use demand::{Performance, demand_of, performances, spec_of};
#[cfg(test)]
pub(crate) use demand::{knee_of, spec_of_text};
pub(crate) use options::SpecSource;
pub use options::{SimulateOptions, USAGE};
pub(crate) use spec::{Database, Spec};
pub(crate) use sweep::plain;

use crate::trial::Interrupt;
use options::Format;

/// Why nothing was simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SimulateError {
    /// The command line is wrong.
    Usage(String),
    /// The spec is wrong: a line for each mistake.
    Spec(String),
    /// A file cannot be read or written, or the system refuses something.
    Failed(String),
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Spec(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

/// Runs the simulation, prints its report, and returns the exit status: 0, 1 if books do not balance, or 4 if it was ended early.
///
/// # Errors
/// Nothing could be simulated, or the report could not be written.
pub fn run(options: &SimulateOptions) -> Result<u8, SimulateError> {
    if options.lists_presets {
        print!("{}", presets::list());
        return Ok(0);
    }
    let Some(source) = &options.source else { return Err(SimulateError::Usage("no spec".to_owned())) };
    if let Some(story) = story::of(source).filter(|_| !options.is_print_spec && !options.is_check) {
        if options.is_real {
            return Err(SimulateError::Usage("--real plays one spec, and no story".to_owned()));
        }
        let interrupt = listen()?;
        return finish(&story::tell(story, options, &interrupt)?, options);
    }
    let text = course::text_of(source)?;
    if options.is_print_spec {
        print!("{text}");
        return Ok(0);
    }
    if options.is_check {
        let mut tree = spec::SpecTree::parse(&text).map_err(course::mistaken)?;
        for (path, value) in &options.values {
            tree.set(path, value).map_err(|why| SimulateError::Usage(format!("--set: {why}")))?;
        }
        let spec = course::read_spec(&tree)?;
        println!(
            "\"{}\" has no mistakes: {} tenants in {} databases",
            spec.title,
            spec.tenants(),
            spec.databases.len()
        );
        return Ok(0);
    }
    if options.is_real {
        return finish(&real::tell(&text, options)?, options);
    }
    let interrupt = listen()?;
    let study = course::study(&text, options, &interrupt)?;
    finish(&report::Report::of_study(study), options)
}

fn listen() -> Result<Interrupt, SimulateError> {
    Interrupt::listen().map_err(|why| SimulateError::Failed(why.to_string()))
}

/// Prints and writes a report.
fn finish(report: &report::Report, options: &SimulateOptions) -> Result<u8, SimulateError> {
    match options.format {
        Format::Text => print!("{}", report.text()),
        Format::Json => println!("{}", report.json()),
    }
    if let Some(path) = &options.output {
        std::fs::write(path, report.html())
            .map_err(|why| SimulateError::Failed(format!("cannot write \"{path}\": {why}")))?;
    }
    Ok(match (report.balances(), report.is_complete(), report.is_valid()) {
        (false, ..) => BOOKS_WRONG,
        (true, false, _) => ENDED_EARLY,
        (true, true, false) => VOID,
        (true, true, true) => 0,
    })
}

const BOOKS_WRONG: u8 = 1;
const ENDED_EARLY: u8 = 4;
const VOID: u8 = 5;
