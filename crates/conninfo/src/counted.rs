//! A stream that fails when one answer is too long.
//!
//! Always true: the owner of the count sets it to 0 before each answer. The driver keeps each message as a whole, so
//! the limit is applied here, below it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Stream;

/// A stream that fails when more bytes than a limit have been received since the count was last set to 0.
pub struct Counted<S> {
    stream: S,
    received: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl<S: Stream> Counted<S> {
    /// Counts the bytes that are received in `received`, up to `bytes_max`.
    pub fn new(stream: S, received: Arc<AtomicUsize>, bytes_max: usize) -> Self {
        Self { stream, received, bytes_max }
    }
}

impl<S: Stream> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let more = buffer.filled().len() - before;
        if self.received.fetch_add(more, Ordering::Relaxed) + more > self.bytes_max {
            let text = format!("an answer is longer than {} MiB", self.bytes_max >> 20);
            return Poll::Ready(Err(io::Error::other(text)));
        }
        read
    }
}

impl<S: Stream> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
