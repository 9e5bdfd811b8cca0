//! One connection as io_uring needs it.
//!
//! Always true: the memory of a send that is under way does not move.

use std::io::IoSlice;
use std::os::fd::{AsRawFd as _, OwnedFd};

use io_uring::types;
use socket2::SockAddr;

use crate::Receive;
use crate::kernel::outbox::Outbox;

/// One connection.
pub(crate) struct Line {
    /// `None` once the connection was closed while an operation was still under way.
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) owner: u64,
    pub(crate) outbox: Outbox,
    pub(crate) gather: Option<Box<Gather>>,
    pub(crate) dialed: Option<Box<SockAddr>>,
    /// What the worker wants to receive.
    pub(crate) wanted: Option<Receive>,
    pub(crate) receive: Underway,
    pub(crate) send: Underway,
    /// The bytes of a send that completes before the kernel returns, and of which only a failure is told; 0 for any other.
    pub(crate) prompt_bytes: u32,
    pub(crate) stage: RingStage,
    pub(crate) wants_drained: bool,
    pub(crate) is_unix: bool,
}

/// Whether an operation is with the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Underway {
    No,
    Yes,
    /// Its cancellation has been submitted.
    Recalled,
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingStage {
    Dialing,
    Open,
    /// The other side is gone; the worker was informed and has not closed the connection yet.
    Ended,
    /// The worker has closed it; the row goes when everything is sent.
    Leaving,
    /// The row goes when the last operation has completed.
    Dead,
}

/// The memory that one vectored send needs while it is under way.
pub(crate) struct Gather {
    pub(crate) header: libc::msghdr,
    slices: [libc::iovec; GATHER_MAX],
}

impl Line {
    /// The descriptor in the form that the ring expects.
    pub(crate) fn target(&self) -> types::Fd {
        types::Fd(self.fd.as_ref().map_or(-1, |fd| fd.as_raw_fd()))
    }

    /// Whether no operation is with the kernel and nothing waits to be sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.receive == Underway::No && self.send == Underway::No && self.outbox.is_empty()
    }
}

impl Default for Box<Gather> {
    fn default() -> Self {
        // Safe because a header and slices of zeros are valid: null pointers with lengths of zero.
        Box::new(unsafe { std::mem::zeroed() })
    }
}

impl Gather {
    /// Points at the first chunks of the outbox, which do not move until the send has completed. Returns the number of their
    /// bytes.
    pub(crate) fn fill(&mut self, outbox: &Outbox, bytes_max: usize) -> usize {
        let mut slices = [IoSlice::new(&[]); GATHER_MAX];
        let count = outbox.gather(&mut slices, bytes_max);
        for (slot, slice) in self.slices.iter_mut().zip(&slices[..count]) {
            *slot = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        }
        self.header.msg_iov = self.slices.as_mut_ptr();
        self.header.msg_iovlen = count;
        slices[..count].iter().map(|slice| slice.len()).sum()
    }
}

/// Chunks sent with one call.
const GATHER_MAX: usize = 32;
