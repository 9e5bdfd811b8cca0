//! Ctrl-C as a value: a flag that long waits check, so that guards are dropped in order.
//!
//! The handlers only raise a flag. Blocking the signals and waiting for them in a thread would not do: all programs
//! that we start would inherit the mask, and some of them would then ignore our signals.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::TrialError;

/// Whether the user or the system has asked us to end.
#[derive(Debug)]
pub struct Interrupt {
    is_raised: Arc<AtomicBool>,
    /// Each signal writes a byte, so that it ends a wait.
    bell: UnixStream,
}

impl Interrupt {
    /// Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGQUIT, which from now on only raise the flag and ring the
    /// bell.
    ///
    /// # Errors
    /// The kernel refuses a signal handler.
    pub fn listen() -> Result<Self, TrialError> {
        Self::try_listen().map_err(|why| TrialError::step("cannot listen for signals".into(), why))
    }

    fn try_listen() -> io::Result<Self> {
        let is_raised = Arc::new(AtomicBool::new(false));
        let (bell, rope) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            // Registered first and so run first: when the bell rings, the flag is raised.
            signal_hook::flag::register(signal, Arc::clone(&is_raised))?;
            signal_hook::low_level::pipe::register(signal, rope.try_clone()?)?;
        }
        Ok(Self { is_raised, bell })
    }

    /// Whether a signal has arrived.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Relaxed)
    }

    /// Waits for an interruption, at most for `duration`.
    ///
    /// # Errors
    /// [`TrialError::Interrupted`], at once.
    pub fn wait(&self, duration: Duration) -> Result<(), TrialError> {
        let until = Instant::now() + duration;
        while !self.is_raised() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(());
            }
            // Neither the byte nor a timeout tells more than the flag and the clock.
            let _ = self.bell.set_read_timeout(Some(rest)).and_then(|()| (&self.bell).read(&mut [0]));
        }
        Err(TrialError::Interrupted)
    }
}

/// Raises the soft limit of open files to the hard one, for us and all programs that we start, and returns it.
#[must_use]
pub fn raise_descriptor_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}
