//! Whether io_uring works on this machine, with the features that [`crate::Uring`] uses.

use std::io;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use io_uring::{IoUring, cqueue, opcode, types};

use crate::Buffers;
use crate::kernel::ring::{BUFFER_GROUP, BufferRing, build_ring};

/// A kernel interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// io_uring: completions in batches.
    Uring,
    /// epoll: readiness, and a system call for each transfer.
    Epoll,
}

/// Tries each feature that [`crate::Uring`] uses on throw-away sockets.
///
/// # Errors
/// Names the missing feature, for the log.
pub fn probe_uring() -> Result<(), String> {
    let fail = |step: &str| {
        let step = step.to_owned();
        move |error: io::Error| format!("{step}: {error}")
    };
    let mut ring = build_ring(8).map_err(fail("io_uring_setup with single issuer and deferred task run"))?;
    let buffers = Buffers::new(4);
    let mut given = BufferRing::register(&ring, 4).map_err(fail("a ring of provided buffers"))?;
    given.top_up(&buffers, 4);

    let (mut near, far) = UnixStream::pair().map_err(fail("socketpair"))?;
    near.write_all(b"x").map_err(fail("write"))?;
    let receive = opcode::RecvMulti::new(types::Fd(far.as_raw_fd()), BUFFER_GROUP).build();
    let (result, flags) = one(&mut ring, receive).map_err(fail("multishot receive"))?;
    if result != 1 || !cqueue::more(flags) {
        return Err(format!("multishot receive: result {result}, more {}", cqueue::more(flags)));
    }
    let id = cqueue::buffer_select(flags).ok_or("multishot receive: no buffer was selected")?;
    // Safe because the kernel has just reported that it has written to this buffer.
    drop(unsafe { given.returned(&buffers, id, 1) });

    use std::os::linux::net::SocketAddrExt as _;
    let name =
        SocketAddr::from_abstract_name(format!("trunkline-probe-{}", std::process::id())).map_err(fail("a name"))?;
    let listener = UnixListener::bind_addr(&name).map_err(fail("bind"))?;
    let _caller = UnixStream::connect_addr(&name).map_err(fail("connect"))?;
    let accept = opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).build();
    let (result, flags) = one(&mut ring, accept).map_err(fail("multishot accept"))?;
    if result < 0 || !cqueue::more(flags) {
        return Err(format!("multishot accept: {}", io::Error::from_raw_os_error(-result)));
    }
    // Safe because the kernel has just given this descriptor to us, and nobody else knows it.
    drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(result) });
    Ok(())
}

/// Submits one entry and waits for its first completion.
fn one(ring: &mut IoUring, entry: io_uring::squeue::Entry) -> io::Result<(i32, u32)> {
    // Safe because the entry points only at descriptors and buffers that outlive the ring of the caller.
    unsafe { ring.submission().push(&entry.user_data(PROBED)) }
        .map_err(|_| io::Error::other("the submission queue is full"))?;
    ring.submit_and_wait(1)?;
    let completion = ring.completion().find(|done| done.user_data() == PROBED);
    completion.map(|done| (done.result(), done.flags())).ok_or_else(|| io::Error::other("no completion came"))
}

const PROBED: u64 = 1;
