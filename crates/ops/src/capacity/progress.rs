//! How far a measurement is, at a terminal.
//!
//! Always true: nothing is written unless standard error is a terminal; at the end the line is gone.

use std::cell::Cell;
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The line of a measurement.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    whole: Cell<f64>,
}

impl Progress {
    pub(crate) fn begin() -> Self {
        let bar = stderr().is_terminal().then(|| ProgressBar::new(STEPS));
        if let Some(bar) = &bar
            && let Ok(style) =
                ProgressStyle::with_template("{bar:30} {elapsed} {msg} (Ctrl-C ends it with what is known)")
        {
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self { bar, whole: Cell::new(0.0) }
    }

    /// Says what is done now, and how much of the whole is over, from 0 to 1.
    pub(crate) fn say(&self, what: &str, whole: f64) {
        self.whole.set(whole);
        if let Some(bar) = &self.bar {
            bar.set_position((whole * STEPS as f64) as u64);
            bar.set_message(what.to_owned());
        }
    }

    /// Shows how far a step is.
    pub(crate) fn step(&self, share: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position(((self.whole.get() + share * STEP) * STEPS as f64) as u64);
        }
    }

    /// Removes the line.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

const STEPS: u64 = 1000;
/// About the part of the whole that a step is.
const STEP: f64 = 0.03;
