//! How requests begin, and the course of a transaction where long ones are logged (`log_min_duration_transaction`): how often its client waited for answers,
//! and which of its requests took longest.
//!
//! Always true: no course is kept while the setting is off.
//! Not here: where the time of a transaction has gone (`measure`), the line (`long`).

use std::time::Duration;

use base::Time;
use measure::Phase;

/// Of the present transaction of the client that has a server.
#[derive(Debug, Default)]
pub(crate) struct Course {
    round_trips: u32,
    /// The last request, and when it came.
    last: Option<(Said, Time)>,
    longest: Option<(Said, Duration)>,
}

impl Course {
    /// A request comes, which begins with these bytes; its client was in this phase until now, and the one before had been answered then.
    pub(crate) fn request(&mut self, now: Time, before: Option<Phase>, answered: Time, bytes: &[u8]) {
        // Who has not had its answer sends more of a pipeline: it is one wait, for what came first.
        if self.last.is_some() && matches!(before, Some(Phase::FirstByte | Phase::Streaming | Phase::Blocked)) {
            return;
        }
        self.round_trips += 1;
        self.close(answered);
        let mut said = Said::default();
        said.note(bytes);
        self.last = Some((said, now));
    }

    /// The transaction is over: its round trips, and which request took longest. The next one begins anew.
    pub(crate) fn end(&mut self, now: Time) -> (u32, Option<(Said, Duration)>) {
        self.close(now);
        let Self { round_trips, longest, .. } = std::mem::take(self);
        (round_trips, longest)
    }

    fn close(&mut self, answered: Time) {
        let Some((said, since)) = self.last.take() else { return };
        let took = answered.since(since);
        if self.longest.as_ref().is_none_or(|(_, longest)| took > *longest) {
            self.longest = Some((said, took));
        }
    }
}

/// The beginning of the last request that a server has had of its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    bytes: [u8; SAID_BYTES],
    length: u8,
}

impl Default for Said {
    fn default() -> Self {
        Self { bytes: [0; SAID_BYTES], length: 0 }
    }
}

impl Said {
    /// A request begins with these bytes.
    #[inline]
    pub(crate) fn note(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(SAID_BYTES);
        self.bytes[..length].copy_from_slice(&bytes[..length]);
        self.length = length as u8;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Nothing has been said yet.
    pub(crate) fn forget(&mut self) {
        self.length = 0;
    }
}

/// As much of a request is remembered.
const SAID_BYTES: usize = 96;

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
        let (said, took) = longest.expect("a request");
        assert_eq!((round_trips, said.bytes(), took), (3, &b"slow"[..], Duration::from_micros(500)));
        assert_eq!(course.end(Time(9_200)).0, 0);
    }
}
