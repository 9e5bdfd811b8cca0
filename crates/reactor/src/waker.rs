//! The eventfd by which other threads wake a worker for its letters.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Wakes a worker from any thread.
#[derive(Clone, Debug)]
pub struct Waker {
    bell: Arc<OwnedFd>,
}

impl Waker {
    /// Ends the worker's current or next wait. Calling this twice has the same effect as once.
    pub fn wake(&self) {
        // The write fails only when the counter is at its maximum, and then the worker is being woken already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }

    /// Resets the eventfd.
    pub(crate) fn quiet(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8][..]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Creates a waker.
///
/// # Errors
/// When no descriptor is left.
pub fn waker() -> std::io::Result<Waker> {
    let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
    Ok(Waker { bell: Arc::new(rustix::event::eventfd(0, flags)?) })
}
