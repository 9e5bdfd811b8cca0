//! One connection as io_uring sees it.
//!
//! Always true: the memory of a send that is under way stays where it is.

use std::io::IoSlice;
use std::os::fd::{AsRawFd as _, OwnedFd};

use io_uring::types;
use socket2::SockAddr;

use crate::kernel::outbox::Outbox;

/// One connection.
pub(crate) struct Line {
    /// `None` once it has been closed while an operation was still on its way home.
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) owner: u64,
    pub(crate) outbox: Outbox,
    pub(crate) gather: Option<Box<Gather>>,
    pub(crate) dialed: Option<Box<SockAddr>>,
    pub(crate) wish: Wish,
    pub(crate) receive: Underway,
    pub(crate) send: Underway,
    pub(crate) life: Life,
    pub(crate) wants_drained: bool,
    pub(crate) is_unix: bool,
}

/// What the worker wants to receive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    Once,
    Stream,
}

/// Whether an operation is with the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Underway {
    No,
    Yes,
    /// It was asked back.
    Recalled,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Dialing,
    Open,
    /// The other side is gone; the worker knows and has not closed yet.
    Ended,
    /// The worker has closed it; it goes when everything is sent.
    Leaving,
    /// It goes when the last operation has come home.
    Dead,
}

/// The memory that one vectored send needs while it is under way.
pub(crate) struct Gather {
    pub(crate) header: libc::msghdr,
    slices: [libc::iovec; GATHER_MAX],
}

impl Line {
    /// The descriptor as the ring wants it named.
    pub(crate) fn target(&self) -> types::Fd {
        types::Fd(self.fd.as_ref().map_or(-1, |fd| fd.as_raw_fd()))
    }

    /// Whether nothing of it is with the kernel, or is to be.
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
    /// Points at the first chunks of the outbox, which stay where they are until the send has come home.
    pub(crate) fn fill(&mut self, outbox: &Outbox, bytes_max: usize) {
        let mut slices = [IoSlice::new(&[]); GATHER_MAX];
        let count = outbox.gather(&mut slices, bytes_max);
        for (slot, slice) in self.slices.iter_mut().zip(&slices[..count]) {
            *slot = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        }
        self.header.msg_iov = self.slices.as_mut_ptr();
        self.header.msg_iovlen = count;
    }
}

/// Chunks sent with one call.
const GATHER_MAX: usize = 32;
