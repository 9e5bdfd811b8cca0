//! How far a run is, at a terminal.
//!
//! Always true: nothing is written unless standard error is a terminal and the run takes over two seconds; at the end the line is gone.
//! Not here: the run.

use std::cell::Cell;
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, sleep};

/// The line of a run.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// How much of the whole was over when its present part began, from 0 to 1.
    whole: Cell<f64>,
}

impl Progress {
    /// The line of a run that takes `time`; `doing` says what it does.
    pub(crate) fn of(time: Duration, doing: &str) -> Self {
        let progress = Self::begin(time > SHORT);
        progress.say(&format!("{doing}, of {} s", time.as_secs()), 0.0);
        progress
    }

    /// The line of a run that has parts, of which nobody knows how long they take together.
    pub(crate) fn of_parts() -> Self {
        Self::begin(true)
    }

    fn begin(is_long: bool) -> Self {
        let bar = (is_long && stderr().is_terminal()).then(|| ProgressBar::new(STEPS));
        if let Some(bar) = &bar {
            if let Ok(style) = ProgressStyle::with_template(LINE) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self { bar, whole: Cell::new(0.0) }
    }

    /// Says what is done now, and how much of the whole is over, from 0 to 1.
    pub(crate) fn say(&self, what: &str, whole: f64) {
        self.whole.set(whole);
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
        self.show(whole);
    }

    /// Shows how far the present part is, from 0 to 1.
    pub(crate) fn step(&self, share: f64) {
        self.show(self.whole.get() + share * PART);
    }

    /// Shows a share of the whole, from 0 to 1.
    pub(crate) fn show(&self, share: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            sleep(STEP.min(time.saturating_sub(begin.elapsed()))).await;
            self.show(begin.elapsed().as_secs_f64() / time.as_secs_f64());
        }
    }

    /// Removes the line.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

const LINE: &str = "{bar:30} {elapsed} {msg} (Ctrl-C ends it with what is known)";
const SHORT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(200);
const STEPS: u64 = 1000;
/// About the part of the whole that a part of a run is.
const PART: f64 = 0.03;
