//! The beginnings of requests, and the course of a transaction where long ones are logged
//! (`log_min_duration_transaction`): its round trips, and its longest request.
//!
//! Always true: no course is kept while the setting is off.
//! Not here: where the time of a transaction went (`measure`), the log line (`long`).

use std::time::Duration;

use base::Time;
use measure::Phase;

/// The course of the current transaction on a server.
#[derive(Debug, Default)]
pub(crate) struct Course {
    round_trips: u32,
    /// The last request, and when it came.
    last: Option<(RequestHead, Time)>,
    longest: Option<(RequestHead, Duration)>,
}

impl Course {
    /// A request that begins with these bytes arrives. `before` is the client's phase until now; the previous request
    /// was answered at `answered`.
    pub(crate) fn request(&mut self, now: Time, before: Option<Phase>, answered: Time, bytes: &[u8]) {
        // The client has not got its answer yet and continues a pipeline: this counts as one wait, for the first request.
        if self.last.is_some() && matches!(before, Some(Phase::FirstByte | Phase::Streaming | Phase::Blocked)) {
            return;
        }
        self.round_trips += 1;
        self.close(answered);
        let mut head = RequestHead::default();
        head.note(bytes);
        self.last = Some((head, now));
    }

    /// The transaction is over: returns its round trips and its longest request, and resets the course.
    pub(crate) fn end(&mut self, now: Time) -> (u32, Option<(RequestHead, Duration)>) {
        self.close(now);
        let Self { round_trips, longest, .. } = std::mem::take(self);
        (round_trips, longest)
    }

    fn close(&mut self, answered: Time) {
        let Some((head, since)) = self.last.take() else { return };
        let took = answered.since(since);
        if self.longest.as_ref().is_none_or(|(_, longest)| took > *longest) {
            self.longest = Some((head, took));
        }
    }
}

/// The beginning of the last request that a server got from its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHead {
    bytes: [u8; HEAD_BYTES],
    length: u8,
}

impl Default for RequestHead {
    fn default() -> Self {
        Self { bytes: [0; HEAD_BYTES], length: 0 }
    }
}

impl RequestHead {
    /// A request begins with these bytes.
    #[inline]
    pub(crate) fn note(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(HEAD_BYTES);
        self.bytes[..length].copy_from_slice(&bytes[..length]);
        self.length = length as u8;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Forgets the request.
    pub(crate) fn forget(&mut self) {
        self.length = 0;
    }
}

/// Bytes of a request that are kept.
const HEAD_BYTES: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_request_and_the_round_trips_are_known_at_the_end() {
        let mut course = Course::default();
        course.request(Time(100), Some(Phase::Waiting), Time(0), b"begin");
        course.request(Time(300), Some(Phase::Thinking), Time(200), b"slow");
        course.request(Time(350), Some(Phase::FirstByte), Time(200), b"a pipeline goes on");
        course.request(Time(9_000), Some(Phase::Thinking), Time(800), b"commit");
        let (round_trips, longest) = course.end(Time(9_100));
        let (head, took) = longest.expect("a request");
        assert_eq!((round_trips, head.bytes(), took), (3, &b"slow"[..], Duration::from_micros(500)));
        assert_eq!(course.end(Time(9_200)).0, 0);
    }
}
