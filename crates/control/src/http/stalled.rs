//! A wrapper that fails a connection whose peer does not read.
//!
//! Always true: a write that makes no progress for longer than the limit fails; reads have no limit here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A connection with a time limit on stalled writes.
pub(crate) struct Unstalled<S> {
    inner: S,
    limit: Duration,
    /// Set while a write is stalled.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> Unstalled<S> {
    pub(crate) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit, patience: None }
    }

    fn wait<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.patience = None;
            return outcome;
        }
        let limit = self.limit;
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(patience.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wait(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(context);
        self.wait(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(context);
        self.wait(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(flavor = "current_thread")]
    async fn who_does_not_read_is_not_written_to_for_ever() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = Unstalled::new(near, Duration::from_millis(20));
        let error = near.write_all(&[7; 64]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        far.read_exact(&mut [0; 16]).await.expect("what was written");
        near.write_all(&[7; 16]).await.expect("somebody reads");
    }
}
