//! The ring of buffers from which the kernel takes one when bytes arrive, and the io_uring itself.
//!
//! Always true: an entry becomes visible to the kernel only when it is complete; the buffers that the kernel holds are
//! counted.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::{IoUring, types};

use crate::{Blank, Buffers, Span};

/// The ring of buffers from which the kernel takes one when bytes arrive.
pub(crate) struct BufferRing {
    entries: *mut types::BufRingEntry,
    mask: u16,
    tail: u16,
    /// Number of buffers that are with the kernel now.
    pub(crate) lent: u16,
}

impl BufferRing {
    /// Registers an empty ring for `size` buffers, a power of two.
    pub(crate) fn register(ring: &IoUring, size: u16) -> io::Result<Self> {
        assert!(size.is_power_of_two());
        let bytes = usize::from(size) * size_of::<types::BufRingEntry>();
        // Safe because an anonymous mapping touches no memory of ours. Like the buffers, it is never unmapped.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_ANONYMOUS | libc::MAP_PRIVATE,
                -1,
                0,
            )
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Safe because the mapping is large enough for `size` entries, page-aligned, and never unmapped.
        unsafe { ring.submitter().register_buf_ring_with_flags(place as u64, size, BUFFER_GROUP, 0)? };
        Ok(Self { entries: place.cast(), mask: size - 1, tail: 0, lent: 0 })
    }

    /// Lends buffers to the kernel until it has `wanted` or none is free.
    pub(crate) fn top_up(&mut self, buffers: &Buffers, wanted: u16) {
        if self.lent >= wanted {
            return;
        }
        while self.lent < wanted.min(self.mask + 1) {
            let Some(blank) = buffers.take() else { break };
            let (id, place) = Blank::lend(blank);
            // Safe because the index is masked to the ring's size, and the kernel does not read an entry before the
            // tail has moved past it.
            unsafe {
                let entry = &mut *self.entries.add(usize::from(self.tail & self.mask));
                entry.set_addr(place as u64);
                entry.set_len(crate::BUFFER_BYTES as u32);
                entry.set_bid(id);
            }
            self.tail = self.tail.wrapping_add(1);
            self.lent += 1;
        }
        // Safe because the tail lies in the reserved field of the first entry, whose address the crate computes; the
        // release store makes the entries visible before the tail.
        unsafe {
            let tail = types::BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// Makes a span of what the kernel has written to buffer `id`.
    ///
    /// # Safety
    /// A completion has named this buffer, and this function is called once for that completion.
    pub(crate) unsafe fn returned(&mut self, buffers: &Buffers, id: u16, len: usize) -> Span {
        self.lent -= 1;
        // Safe because the caller keeps the same contract.
        unsafe { buffers.returned(id, len) }
    }
}

pub(crate) fn build_ring(entries: u32) -> io::Result<IoUring> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(entries * 4).build(entries)
}

/// The id of our only group of provided buffers.
pub(crate) const BUFFER_GROUP: u16 = 1;
