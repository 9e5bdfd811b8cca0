//! Watches for tests that hang.
//!
//! Always true: a test that still runs after its limit is reported, once.
//! Not here: what is done then.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A thread that checks the limits.
#[derive(Debug)]
pub(crate) struct Watch(Sender<News>);

/// A test that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    name: String,
    watch: Sender<News>,
}

#[derive(Debug)]
enum News {
    Begins { name: String, limit: Duration, end: Instant },
    Ends(String),
}

impl Watch {
    /// Begins to watch; `hung` is called with the name and the limit of the first test that has exceeded its limit.
    pub(crate) fn begin(hung: fn(&str, Duration) -> !) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut watched: Vec<(String, Duration, Instant)> = Vec::new();
            loop {
                let first = watched.iter().min_by_key(|(_, _, end)| *end);
                let pause = first.map_or(IDLE, |(_, _, end)| end.saturating_duration_since(Instant::now()));
                match receiver.recv_timeout(pause) {
                    Ok(News::Begins { name, limit, end }) => watched.push((name, limit, end)),
                    Ok(News::Ends(name)) => watched.retain(|(other, ..)| *other != name),
                    Err(RecvTimeoutError::Timeout) => {
                        if let Some((name, limit, _)) = watched.iter().find(|(_, _, end)| *end <= Instant::now()) {
                            hung(name, *limit)
                        }
                    }
                    // The run is over.
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Self(sender)
    }

    /// Watches a test from now on.
    pub(crate) fn over(&self, name: &str, limit: Duration) -> Watched {
        let (name, watch) = (name.to_owned(), self.0.clone());
        // The thread runs as long as anybody can send to it.
        let _ = watch.send(News::Begins { name: name.clone(), limit, end: Instant::now() + limit });
        Watched { name, watch }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.watch.send(News::Ends(std::mem::take(&mut self.name)));
    }
}

const IDLE: Duration = Duration::from_secs(3600);
