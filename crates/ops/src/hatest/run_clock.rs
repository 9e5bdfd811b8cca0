//! The time of a run, and its end.
//!
//! Always true: all durations count from the start of the run; the time that is written into rows is the system's time at
//! the start and what has passed since, so that a clock that is set meanwhile changes nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    start: Instant,
    /// The system's time at the start, in microseconds since 1970.
    pub(crate) start_micros: i64,
}

impl RunClock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_micros: i64::try_from(since.as_micros()).unwrap_or(i64::MAX) }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A time of the run in microseconds since 1970.
    pub(crate) fn micros(&self, at: Duration) -> i64 {
        self.start_micros.saturating_add(i64::try_from(at.as_micros()).unwrap_or(i64::MAX))
    }

    /// Waits for a time of the run.
    pub(crate) async fn until(&self, at: Duration) {
        sleep_until(self.start + at).await;
    }
}

/// Whether the run is over.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A stop that has not come yet, and what makes it come.
    pub(crate) fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Waits for it.
    pub(crate) async fn come(&mut self) {
        // If nobody is left who could send it, the run is over, too.
        let _ = self.0.wait_for(|has_come| *has_come).await;
    }

    /// Waits for something until the stop; `None` if that came first.
    pub(crate) async fn before<T>(&mut self, something: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.come() => None,
            value = something => Some(value),
        }
    }

    /// Waits for something until `grace` after the stop.
    pub(crate) async fn soon_after<T>(&mut self, grace: Duration, something: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = something => Some(value),
            () = async { self.come().await; sleep(grace).await } => None,
        }
    }
}
