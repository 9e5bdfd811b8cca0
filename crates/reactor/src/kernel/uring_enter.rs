//! The one system call of a turn: it submits the operations and waits for completions.
//!
//! Always true: after a transient error all operations stay in the submission queue; any other error ends the process.
//! Not here: the operations and their completions (`uring`).

use std::io;
use std::time::Duration;

use base::{Time, earliest};
use io_uring::types;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Uring;
use crate::Level;
use crate::kernel::common::Clock;

impl Uring {
    pub(super) fn enter(&mut self, until: Option<Time>) {
        let until = earliest([self.lingering.front().map(|(until, _)| *until), self.accept_again, until]);
        let starving = !self.starved.is_empty() && self.buffers.free() > 0;
        let entered = match until {
            _ if starving => self.ring.submit_and_wait(0),
            None => self.ring.submit_and_wait(1),
            Some(until) => {
                let limit = types::Timespec::from(self.common.clock.left(until));
                let args = types::SubmitArgs::new().timespec(&limit);
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        match entered.map_or_else(|error| Entered::after(&error), |_| Entered::Waited) {
            Entered::Waited => {}
            Entered::NoMemory => self.rest_for_memory(),
            Entered::Broken(error) => panic!("io_uring_enter failed, nothing can be served any more: {error:?}"),
        }
    }

    /// The kernel has no memory for an operation. It stays in the submission queue and is submitted again after
    /// [`MEMORY_REST`], or when the waker is used. The log reports this at most once a second.
    fn rest_for_memory(&mut self) {
        let clock = Clock::read();
        if self.memory_missed.is_none_or(|before| clock.now.since(before) >= MEMORY_TOLD_AFTER) {
            self.memory_missed = Some(clock.now);
            let text = format_args!("io_uring_enter: the kernel is out of memory, trying again");
            self.common.log.write_one(clock.wall(), Level::Warning, text);
        }
        // An error only makes the rest too short.
        let _ = poll(&mut [PollFd::new(&self.waker, PollFlags::IN)], Some(&MEMORY_REST));
    }
}

/// How the system call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entered {
    /// There may be completions.
    Waited,
    /// The kernel has no memory.
    NoMemory,
    /// It failed for good, with this error.
    Broken(Option<i32>),
}

impl Entered {
    fn after(error: &io::Error) -> Self {
        match error.raw_os_error() {
            // A full completion queue is emptied when it is read, and an interrupted or timed-out wait is only a short
            // one.
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Self::Waited,
            Some(libc::ENOMEM) => Self::NoMemory,
            other => Self::Broken(other),
        }
    }
}

/// How long to rest before operations are submitted again for which the kernel had no memory.
const MEMORY_REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// The least time between two log lines about missing memory.
const MEMORY_TOLD_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_pass_ends_the_process() {
        let after = |error| Entered::after(&io::Error::from_raw_os_error(error));
        assert!(
            [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN].iter().all(|&error| after(error) == Entered::Waited)
        );
        assert_eq!(after(libc::ENOMEM), Entered::NoMemory);
        assert_eq!(after(libc::EBADF), Entered::Broken(Some(libc::EBADF)));
    }
}
