//! A wrapper that fails a connection whose peer does not read, or hardly.
//!
//! Always true: writes fail if together they have waited for the peer for longer than the limit, and than what was written
//! meanwhile needs at the least rate; a peer that has caught up with that rate has the whole limit again. Time in which
//! nothing is to be written does not count; reads have no limit here. A connection that ends while its peer does not read is
//! reset, so that the system does not go on sending what was written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

use super::room::HttpPlace;

/// A connection with a time limit on writes that wait for the peer.
pub(crate) struct Unstalled<S: Socket> {
    inner: S,
    limit: Duration,
    /// It may lose this place while it waits.
    place: Arc<HttpPlace>,
    /// Since when a write has waited for the peer, and when that is too long.
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
    /// For how long writes have waited since the peer had last caught up.
    waited: Duration,
    /// The number of bytes written since then.
    written: u64,
}

/// What carries a connection.
pub(crate) trait Socket: Unpin {
    /// Ends it without sending the rest.
    fn reset(&self);
}

impl Socket for TcpStream {
    fn reset(&self) {
        // If it fails, the system goes on sending.
        let _ = self.set_zero_linger();
    }
}

impl Socket for TlsStream<TcpStream> {
    fn reset(&self) {
        self.get_ref().0.reset();
    }
}

impl<S: Socket> Unstalled<S> {
    pub(crate) fn new(inner: S, limit: Duration, place: Arc<HttpPlace>) -> Self {
        Self { inner, limit, place, wait: None, waited: Duration::ZERO, written: 0 }
    }

    /// Takes note of the outcome of a write, of which `bytes` returns the length.
    fn after<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = &outcome {
            self.written += done.as_ref().map_or(0, bytes) as u64;
            if let Some((since, _)) = self.wait.take() {
                self.waited += since.elapsed();
                self.place.waits();
            }
            if self.due_after_waits() >= self.limit {
                (self.waited, self.written) = (Duration::ZERO, 0);
            }
            return outcome;
        }
        let due = Instant::now() + self.due_after_waits();
        let place = &self.place;
        let (_, late) = self.wait.get_or_insert_with(|| {
            place.waits();
            (Instant::now(), Box::pin(tokio::time::sleep_until(due)))
        });
        ready!(late.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end does not read")))
    }

    /// For how much longer writes may wait.
    fn due_after_waits(&self) -> Duration {
        let earned = Duration::from_secs_f64(self.written as f64 / RATE_MIN);
        (self.limit + earned).saturating_sub(self.waited)
    }
}

impl<S: Socket> Drop for Unstalled<S> {
    fn drop(&mut self) {
        if self.wait.is_some() {
            self.inner.reset();
        }
    }
}

impl<S: Socket + AsyncRead> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: Socket + AsyncWrite> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.after(context, outcome, |count| *count)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(context);
        self.after(context, outcome, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(context);
        self.after(context, outcome, |()| 0)
    }
}

/// Bytes that the peer has to read in each second in which a write waits for it.
const RATE_MIN: f64 = 1024.0;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::http::room::Room;

    impl Socket for DuplexStream {
        fn reset(&self) {}
    }

    const LIMIT: Duration = Duration::from_secs(20);

    fn pair() -> (Unstalled<DuplexStream>, DuplexStream) {
        let (near, far) = tokio::io::duplex(16);
        let place = Arc::new(Room::default()).enter([127, 0, 0, 1].into()).expect("a place");
        (Unstalled::new(near, LIMIT, Arc::new(place)), far)
    }

    /// Reads `bytes` every second; returns for how long the writer bore that, if it did not write `total` bytes.
    async fn borne(bytes: usize, total: usize) -> Option<Duration> {
        let (mut near, mut far) = pair();
        let reader = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut left = bytes;
                while left > 0 {
                    let mut buffer = vec![0; left];
                    left -= far.read(&mut buffer).await.expect("it is open");
                }
            }
        });
        let begun = Instant::now();
        let outcome = near.write_all(&vec![7; total]).await;
        reader.abort();
        outcome.is_err().then(|| begun.elapsed())
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn who_does_not_read_is_not_written_to_for_ever() {
        let (mut near, mut far) = pair();
        let error = near.write_all(&[7; 64]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        far.read_exact(&mut [0; 16]).await.expect("what was written");
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn who_reads_a_byte_a_second_is_not_written_to_for_longer_than_who_reads_none() {
        let time = borne(1, 1000).await.expect("that is no reading");
        assert!((LIMIT..LIMIT + Duration::from_secs(2)).contains(&time), "{time:?}");
        let time = borne(500, 100_000).await.expect("that is too slow");
        assert!((LIMIT..LIMIT * 3).contains(&time), "{time:?}");
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn who_reads_slowly_but_reads_is_written_to_for_as_long_as_it_takes() {
        assert_eq!(borne(1200, 300_000).await, None);
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn time_in_which_nothing_is_written_does_not_count() {
        let (mut near, mut far) = pair();
        for _ in 0..30 {
            let reader = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                far.read_exact(&mut [0; 20]).await.expect("what was written");
            };
            let (written, ()) = tokio::join!(near.write_all(&[7; 20]), reader);
            written.expect("somebody reads");
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
    }
}
