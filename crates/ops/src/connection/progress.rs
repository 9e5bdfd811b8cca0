//! How far a run is, at a terminal.
//!
//! Always true: nothing is written unless standard error is a terminal and the run takes over two seconds; at the end the line is gone.
//! Not here: the run.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, sleep};

/// The line of a run.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// The line of a run that takes `time`; `doing` says what it does.
    pub(crate) fn of(time: Duration, doing: &str) -> Self {
        if time <= SHORT || !stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(STEPS);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:40} {msg} (Ctrl-C ends it with what is known)") {
            bar.set_style(style);
        }
        bar.set_prefix(doing.to_owned());
        bar.set_message(format!("of {} s", time.as_secs()));
        Self(Some(bar))
    }

    /// Shows a share, from 0 to 1.
    pub(crate) fn show(&self, share: f64) {
        if let Some(bar) = &self.0 {
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
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

const SHORT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(200);
const STEPS: u64 = 1000;
