//! The course of a run: options, measurement, report.
//!
//! Always true: Ctrl-C ends with what is known, and with nothing left behind.
//! Not here: exit statuses of a wrong command line (crate `trunkline`).

use std::fmt;

use super::growth::{Growth, Headroom};
use super::history::{History, parse_history};
use super::measure::{Measurement, measure};
use super::options::{CapacityOptions, Format};
use super::outlook::{Outlook, outlooks};
use super::search::End;
use super::{formats, page, words};
use crate::deliver::deliver;
use crate::facts;
use crate::trial::Interrupt;

/// Why there is no report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CapacityError {
    /// The command line is wrong.
    Usage(String),
    /// Something cannot be read, reached or written.
    Failed(String),
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

/// All that is reported.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) measurement: Option<Measurement>,
    /// The load now, against the knee or the limit that was given, and how it grows.
    pub(crate) headroom: Option<(Headroom, Option<Growth>)>,
    pub(crate) outlook: Option<(History, Vec<Outlook>)>,
}

/// Prints the report, and returns the exit status: 0, 1 if there is no room, 4 if it was ended early, 5 if nothing can be concluded.
///
/// # Errors
/// There is no report.
pub fn run(options: &CapacityOptions) -> Result<u8, CapacityError> {
    let history = options.forecast.as_deref().map(history).transpose()?;
    let interrupt = Interrupt::listen().map_err(|why| CapacityError::Failed(why.to_string()))?;
    let mut report = Report::default();
    if let Some(target) = &options.target {
        report.measurement = Some(measure(target, options, &interrupt)?);
    }
    let knee = report.measurement.as_ref().and_then(|measured| measured.knee).map(|knee| knee.rate.value);
    let limit = options.hard.or(knee);
    if let (Some(now), Some(limit)) = (options.now, knee.or(options.hard)) {
        report.headroom = Some((Headroom { now, limit }, options.growth));
    }
    if let (Some(history), Some(hard)) = (history, limit) {
        let told = outlooks(&history, options.soft, hard);
        report.outlook = Some((history, told));
    }
    if let Some(path) = &options.output {
        deliver(Some(path), &page::html(&report)).map_err(CapacityError::Failed)?;
    }
    let text = match options.format {
        Format::Text => words::text(&report),
        Format::Json => formats::json(&report),
    };
    deliver(None, &text).map_err(CapacityError::Failed)?;
    Ok(status(&report, interrupt.is_raised()))
}

fn history(path: &str) -> Result<History, CapacityError> {
    let failed = |why: String| CapacityError::Failed(format!("{path}: {why}"));
    let bytes = facts::read(path).map_err(|why| failed(why.to_string()))?;
    parse_history(&String::from_utf8_lossy(&bytes)).map_err(failed)
}

fn status(report: &Report, is_ended_early: bool) -> u8 {
    let outlooks: Vec<_> =
        report.outlook.iter().flat_map(|(_, outlooks)| outlooks).map(|outlook| &outlook.told).collect();
    let is_reached = outlooks.iter().any(|told| told.as_ref().is_ok_and(|told| told.is_reached))
        || report.headroom.as_ref().is_some_and(|(headroom, _)| headroom.share() <= 0.0);
    let end = report.measurement.as_ref().map(|measured| measured.search.as_ref().and_then(|search| search.end()));
    match end {
        _ if is_ended_early => ENDED_EARLY,
        Some(Some(End::NoneKept)) => NO_ROOM,
        _ if is_reached => NO_ROOM,
        Some(Some(End::Found)) => 0,
        // It took all its time: both sides of a knee may be known.
        Some(Some(End::Early)) if report.measurement.as_ref().is_some_and(|measured| measured.knee.is_some()) => 0,
        Some(_) => NOTHING_CONCLUDED,
        None if !outlooks.is_empty() && outlooks.iter().all(|told| told.is_err()) => NOTHING_CONCLUDED,
        None => 0,
    }
}

/// A limit is reached, or no load kept the objective.
const NO_ROOM: u8 = 1;
const ENDED_EARLY: u8 = 4;
const NOTHING_CONCLUDED: u8 = 5;
