//! The last log lines before the process ends because of an error.
//!
//! Always true: the line is in the log before the process ends.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use control::{SharedLog, wall_now};
use reactor::{Level, LogTarget};

/// Why the process cannot start: a line for the log and for standard error.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Fatal(pub(crate) String);

impl From<String> for Fatal {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A log to standard error, or to nothing, until the real log is open.
pub(crate) fn first_log(is_quiet: bool) -> SharedLog {
    Arc::new(RwLock::new(Arc::new(LogTarget::new(!is_quiet, None))))
}

/// Writes a line to the current log.
pub(crate) fn say(shared_log: &SharedLog, level: Level, line: fmt::Arguments<'_>) {
    let log = Arc::clone(&shared_log.read().unwrap_or_else(PoisonError::into_inner));
    log.write_one(wall_now(), level, line);
}

/// Waits for the last lines, whose threads end with the process.
pub(crate) fn finish(shared_log: &SharedLog) {
    let log = Arc::clone(&shared_log.read().unwrap_or_else(PoisonError::into_inner));
    log.finish();
}

/// Installs the panic hook. A panic in any thread is a broken invariant: it is logged, and the process aborts at once,
/// because a missing thread would leave its clients without an answer for ever.
pub(crate) fn hear_panics(shared_log: &SharedLog) {
    let shared_log = Arc::clone(shared_log);
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a thread without a name");
        // A blocking read would wait for a thread that holds the lock for writing, and this may be the one that panics.
        match shared_log.try_read() {
            Ok(log) => {
                log.write_one(wall_now(), Level::Fatal, format_args!("in {name}: {panic}"));
                log.finish();
            }
            Err(_) => eprintln!("in {name}: {panic}"),
        }
        std::process::abort();
    }));
}
