//! The receive buffers of one worker, lent to the kernel and to the code that forwards received bytes.
//!
//! Always true: a buffer is in exactly one of three places: in the free list, with the kernel (or with its writer as a
//! [`Blank`]), or full and shared by [`Span`]s that only read it. A buffer returns to the free list when its last span
//! is dropped. The buffer freed last is used first, so that a quiet worker stays within its cache and untouched memory
//! stays untouched.
//! Not here: which connection a buffer belongs to; a connection without bytes in flight owns none.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::rc::Rc;

/// The buffers of one worker. A clone is another handle to the same buffers.
#[derive(Clone)]
pub struct Buffers {
    shared: Rc<Shared>,
}

struct Shared {
    memory: NonNull<u8>,
    /// How many spans share each buffer.
    spans: Box<[Cell<u32>]>,
    /// The free buffers, the most recently used last.
    free: RefCell<Vec<u16>>,
    /// How many buffers have ever been used; the others cost no memory.
    touched: Cell<u16>,
}

impl Buffers {
    /// Creates `count` buffers of [`BUFFER_BYTES`] each. Memory is reserved now and allocated when a buffer is first
    /// touched.
    ///
    /// # Panics
    /// When the system cannot reserve the memory: without buffers no client can be served.
    #[must_use]
    pub fn new(count: u16) -> Self {
        let bytes = usize::from(count) * BUFFER_BYTES;
        // Safe because an anonymous private mapping touches no memory of ours. It is never unmapped: a worker lives as long
        // as the process, and the kernel may still write to a buffer after its ring is closed.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.max(1),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert!(memory != libc::MAP_FAILED, "no memory for {count} receive buffers");
        let memory = NonNull::new(memory.cast::<u8>()).expect("a mapping is never at address zero");
        let spans = (0..count).map(|_| Cell::new(0)).collect();
        Self {
            shared: Rc::new(Shared {
                memory,
                spans,
                free: RefCell::new((0..count).rev().collect()),
                touched: Cell::new(0),
            }),
        }
    }

    /// Takes a free buffer to write to, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<Blank> {
        let id = self.shared.free.borrow_mut().pop()?;
        self.shared.touched.set(self.shared.touched.get().max(id + 1));
        Some(Blank { shared: self.shared.clone(), id })
    }

    /// Number of free buffers.
    #[must_use]
    pub fn free(&self) -> usize {
        self.shared.free.borrow().len()
    }

    /// Number of buffers that have ever been used.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.shared.touched.get().into()
    }

    /// Number of all buffers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.spans.len()
    }

    /// Makes a span of what the kernel, to which [`Blank::lend`] gave buffer `id`, has written to it.
    ///
    /// # Safety
    /// The kernel has reported that it wrote `len` bytes to this buffer and no longer uses it, and this function is
    /// called once for each such report.
    pub(crate) unsafe fn returned(&self, id: u16, len: usize) -> Span {
        debug_assert!(len <= BUFFER_BYTES && self.shared.spans[usize::from(id)].get() == 0);
        self.shared.spans[usize::from(id)].set(1);
        Span { shared: self.shared.clone(), id, start: 0, len: len as u16 }
    }
}

impl Shared {
    fn start_of(&self, id: u16) -> NonNull<u8> {
        debug_assert!(usize::from(id) < self.spans.len());
        // Safe because every id is below the count that the mapping was made for.
        unsafe { self.memory.add(usize::from(id) * BUFFER_BYTES) }
    }
}

/// A buffer to write to, which nobody reads yet.
pub struct Blank {
    shared: Rc<Shared>,
    id: u16,
}

impl Blank {
    /// The memory to write to.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // Safe because a blank is the only owner of its buffer, and a mapping is readable memory from the start.
        unsafe { std::slice::from_raw_parts_mut(self.shared.start_of(self.id).as_ptr(), BUFFER_BYTES) }
    }

    /// Writes `bytes` to the buffer, which is read-only from then on.
    ///
    /// # Panics
    /// When `bytes` is longer than [`BUFFER_BYTES`].
    #[must_use]
    pub fn fill(mut self, bytes: &[u8]) -> Span {
        self.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        self.into_span(bytes.len())
    }

    /// Makes a span of the first `len` bytes, which have been written; the buffer is read-only from then on.
    pub(crate) fn into_span(self, len: usize) -> Span {
        assert!(len <= BUFFER_BYTES);
        let (shared, id) = (self.shared.clone(), self.id);
        std::mem::forget(self);
        // `forget` skips the drop of the blank's handle, and the clone above replaced that handle: one strong count is
        // too many.
        // Safe because `shared` holds another strong count of the same allocation.
        unsafe { Rc::decrement_strong_count(Rc::as_ptr(&shared)) };
        shared.spans[usize::from(id)].set(1);
        Span { shared, id, start: 0, len: len as u16 }
    }

    /// Lends the buffer to the kernel and returns its id and address. [`Buffers::returned`] takes it back.
    pub(crate) fn lend(self) -> (u16, *mut u8) {
        let (id, start) = (self.id, self.shared.start_of(self.id));
        // Safe as in `into_span`: the worker's own handle keeps the allocation alive.
        unsafe { Rc::decrement_strong_count(Rc::as_ptr(&self.shared)) };
        std::mem::forget(self);
        (id, start.as_ptr())
    }
}

impl Drop for Blank {
    fn drop(&mut self) {
        self.shared.free.borrow_mut().push(self.id);
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffers({} of {} free)", self.free(), self.count())
    }
}

impl fmt::Debug for Blank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blank(buffer {})", self.id)
    }
}

/// Received bytes, in the buffer where the kernel put them.
pub struct Span {
    shared: Rc<Shared>,
    id: u16,
    // Short, because each connection has room for a chunk that it sends.
    start: u16,
    len: u16,
}

impl Span {
    /// A part of these bytes, which shares the buffer.
    ///
    /// # Panics
    /// When the range does not lie within the span.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= usize::from(self.len), "a slice lies within its span");
        let count = &self.shared.spans[usize::from(self.id)];
        count.set(count.get() + 1);
        Self {
            shared: self.shared.clone(),
            id: self.id,
            start: self.start + range.start as u16,
            len: (range.end - range.start) as u16,
        }
    }

    /// Whether no other span shares this buffer.
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.spans[usize::from(self.id)].get() == 1
    }

    /// The bytes for writing, if no other span shares this buffer.
    pub(crate) fn only(&mut self) -> Option<&mut [u8]> {
        if !self.is_alone() {
            return None;
        }
        // Safe because this span is the only one of its buffer and is mutably borrowed, and its range lies within what
        // was received.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                self.shared.start_of(self.id).as_ptr().add(usize::from(self.start)),
                usize::from(self.len),
            )
        })
    }

    /// Drops the first `bytes` from this span.
    ///
    /// # Panics
    /// When the span is shorter than that.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= usize::from(self.len), "no more is let go than there is");
        self.start += bytes as u16;
        self.len -= bytes as u16;
    }
}

impl Deref for Span {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // Safe because nobody writes to a buffer that spans share until the last of them is dropped, and `start` and
        // `len` only ever shrink within what was received.
        unsafe {
            std::slice::from_raw_parts(
                self.shared.start_of(self.id).as_ptr().add(usize::from(self.start)),
                usize::from(self.len),
            )
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let count = &self.shared.spans[usize::from(self.id)];
        count.set(count.get() - 1);
        if count.get() == 0 {
            self.shared.free.borrow_mut().push(self.id);
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({} bytes of buffer {})", self.len, self.id)
    }
}

/// Bytes of one buffer: two pages. Most requests and answers fit, and a stream of rows costs few system calls.
pub const BUFFER_BYTES: usize = 8192;
const _: () = assert!(BUFFER_BYTES <= u16::MAX as usize, "the places of a span are this short");

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(buffers: &Buffers, bytes: &[u8]) -> Span {
        let mut blank = buffers.take().expect("a free buffer");
        blank.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        blank.into_span(bytes.len())
    }

    #[test]
    fn a_buffer_goes_home_with_its_last_span() {
        let buffers = Buffers::new(1);
        let span = filled(&buffers, b"hello world");
        let part = span.slice(6..11);
        drop(span);
        assert_eq!(&*part, b"world");
        assert!(buffers.take().is_none());
        drop(part);
        assert_eq!(buffers.free(), 1);
    }

    #[test]
    fn an_unused_blank_goes_home() {
        let buffers = Buffers::new(1);
        drop(buffers.take());
        assert_eq!(buffers.free(), 1);
    }

    #[test]
    fn the_warmest_buffer_is_used_first() {
        let buffers = Buffers::new(3);
        let first = filled(&buffers, b"a");
        let id = first.id;
        drop(first);
        assert_eq!(filled(&buffers, b"b").id, id);
        assert_eq!(buffers.touched(), 1);
    }

    #[test]
    fn only_a_span_that_is_alone_is_written_over() {
        let buffers = Buffers::new(1);
        let mut span = filled(&buffers, b"hello world");
        let mut part = span.slice(6..11);
        assert!(span.only().is_none() && part.only().is_none());
        drop(span);
        part.only().expect("alone").copy_from_slice(b"there");
        assert_eq!(&*part, b"there");
    }

    #[test]
    fn what_is_let_go_is_not_read_again() {
        let buffers = Buffers::new(1);
        let mut span = filled(&buffers, b"abc");
        span.advance(2);
        assert_eq!(&*span, b"c");
    }

    #[test]
    #[should_panic(expected = "within its span")]
    fn a_slice_beyond_the_span_is_our_own_fault() {
        let buffers = Buffers::new(1);
        let _ = filled(&buffers, b"abc").slice(1..4);
    }

    #[test]
    fn a_buffer_lent_to_the_kernel_comes_back_full() {
        let buffers = Buffers::new(1);
        let (id, place) = buffers.take().expect("a free buffer").lend();
        // Safe because this test plays the kernel: it owns the buffer that it was lent.
        let span = unsafe {
            *place = b'x';
            buffers.returned(id, 1)
        };
        assert_eq!(&*span, b"x");
        drop(span);
        assert_eq!(buffers.free(), 1);
    }
}
