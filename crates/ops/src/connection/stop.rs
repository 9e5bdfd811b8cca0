//! The end of a run before its time.
//!
//! Always true: the first Ctrl-C ends the run, which reports what is known; the second ends the command.
//! Not here: what is reported then.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_local;

/// Knows whether the run is to end.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens for SIGINT and SIGTERM. Needs a `LocalSet`.
    ///
    /// # Errors
    /// The kernel refuses a signal handler.
    pub(crate) fn listen() -> Result<Self, String> {
        let (sender, receiver) = watch::channel(false);
        let sender = std::rc::Rc::new(sender);
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let mut signals = signal(kind).map_err(|error| format!("cannot listen for signals: {error}"))?;
            let sender = sender.clone();
            spawn_local(async move {
                while signals.recv().await.is_some() {
                    if sender.send_replace(true) {
                        std::process::exit(INTERRUPTED);
                    }
                }
            });
        }
        Ok(Self(receiver))
    }

    /// As another one says it.
    pub(crate) fn by(raised: watch::Receiver<bool>) -> Self {
        Self(raised)
    }

    /// Waits until the run is to end.
    pub(crate) async fn raised(&mut self) {
        if self.0.wait_for(|is_raised| *is_raised).await.is_err() {
            // Nobody can raise it any more.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for something; `None` if the run is to end before.
    pub(crate) async fn or<T>(&mut self, other: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.raised() => None,
            value = other => Some(value),
        }
    }
}

/// As shells show a program that SIGINT has ended.
const INTERRUPTED: i32 = 130;
