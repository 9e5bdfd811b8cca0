//! What is said before the process ends for a reason that nobody wanted.
//!
//! Always true: the line is in the log before the process is gone.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use control::{Speaker, wall_now};
use reactor::{Level, LogTarget};

/// Why the process cannot come up: a line for the log and for standard error.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Fatal(pub(crate) String);

impl From<String> for Fatal {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A log that is standard error or nothing, until the real one is open.
pub(crate) fn first_speaker(is_quiet: bool) -> Speaker {
    Arc::new(RwLock::new(Arc::new(LogTarget::new(!is_quiet, None))))
}

/// Writes a line to whatever log is in force.
pub(crate) fn say(speaker: &Speaker, level: Level, line: fmt::Arguments<'_>) {
    let log = Arc::clone(&speaker.read().unwrap_or_else(PoisonError::into_inner));
    log.write_one(wall_now(), level, line);
}

/// Waits for the last lines: their threads end with the process.
pub(crate) fn finish(speaker: &Speaker) {
    let log = Arc::clone(&speaker.read().unwrap_or_else(PoisonError::into_inner));
    log.finish();
}

/// A panic anywhere is a broken invariant: it is logged, and the process ends at once, whoever it happened to. A thread that
/// is missing would leave its clients without an answer for ever.
pub(crate) fn hear_panics(speaker: &Speaker) {
    let speaker = Arc::clone(speaker);
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a thread without a name");
        // Whoever holds the lock for writing would be waited for, and may be the one that panics.
        match speaker.try_read() {
            Ok(log) => {
                log.write_one(wall_now(), Level::Fatal, format_args!("in {name}: {panic}"));
                log.finish();
            }
            Err(_) => eprintln!("in {name}: {panic}"),
        }
        std::process::abort();
    }));
}
