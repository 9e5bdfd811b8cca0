//! The bell at a worker's letter box.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Rings a worker's bell from any thread.
#[derive(Clone, Debug)]
pub struct Waker {
    bell: Arc<OwnedFd>,
}

impl Waker {
    /// Makes the worker's current or next wait end. Ringing twice is as good as once.
    pub fn wake(&self) {
        // The write can only fail when the counter stands at its end, and then the bell rings already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }

    /// Stops the bell.
    pub(crate) fn quiet(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8][..]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// A new bell.
///
/// # Errors
/// When no descriptor is left.
pub fn waker() -> std::io::Result<Waker> {
    let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
    Ok(Waker { bell: Arc::new(rustix::event::eventfd(0, flags)?) })
}
