//! What is measured of requests: three times each, from the moment at which the request was to be sent; and how each ended.
//!
//! Always true: each request that was due is in exactly one counter. Percentiles are of all of them but those that ended with an error:
//! one that has not been answered counts with the time for which it was waited for, and whatever percentile that reaches is marked.
//! Not here: sending them (`driver`), whether the figures are worth anything (`check`, `steady`).

use super::Times;

/// The course of a request. In microseconds of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passage {
    /// When it was to be sent.
    pub(crate) at: u64,
    /// When the generator came to it.
    pub(crate) noticed: u64,
    /// When a client connection was there for it, and its first statement was sent; `None` if that never was.
    pub(crate) sent: Option<u64>,
    /// When it had ended.
    pub(crate) ended: u64,
    /// How.
    pub(crate) end: End,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// With its whole answer.
    Done,
    /// With an error, or because its connection broke or was refused.
    Errored,
    /// It was not waited for any longer.
    TimedOut,
    /// It was never sent, because it was too late for it, or too many waited for a client connection.
    Skipped,
    /// The run ended before it.
    Abandoned,
}

/// What is known of all requests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The generator's own delay.
    pub(crate) lag: Times,
    /// Until a client connection was free, or logged in.
    pub(crate) wait: Times,
    /// From the first statement to the end of the last answer.
    pub(crate) response: Times,
    /// All three.
    pub(crate) total: Times,
    pub(crate) done: u64,
    pub(crate) errored: u64,
    pub(crate) timed_out: u64,
    pub(crate) skipped: u64,
    pub(crate) abandoned: u64,
    /// Of those that are done, those that took longer than the limit.
    pub(crate) late: u64,
    late_after: u64,
    /// The shortest time after which a request was not waited for any longer.
    censored_from: Option<u64>,
    /// Answers by second of the run.
    per_second: Vec<u32>,
    /// Times of the first requests, in the order of their ends.
    samples: Vec<Sample>,
}

/// One request: when it was to be sent, and how long it took, both in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    pub(crate) at: u64,
    pub(crate) total: u64,
}

/// A percentile; if it is at least that, the truth may be more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Percentile {
    /// In microseconds.
    pub(crate) micros: u64,
    /// Whether requests that were not waited for are among those that it is made of.
    pub(crate) is_at_least: bool,
}

impl Tally {
    /// `late_after` is the limit above which an answer is late, in microseconds; `u64::MAX` is no limit.
    pub(crate) fn new(late_after: u64) -> Self {
        Self {
            lag: Times::new(3),
            wait: Times::new(3),
            response: Times::new(3),
            total: Times::new(3),
            done: 0,
            errored: 0,
            timed_out: 0,
            skipped: 0,
            abandoned: 0,
            late: 0,
            late_after,
            censored_from: None,
            per_second: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Counts a request that has ended.
    pub(crate) fn note(&mut self, passage: &Passage) {
        let total = passage.ended.saturating_sub(passage.at);
        self.lag.note(passage.noticed.saturating_sub(passage.at));
        match passage.end {
            End::Done => {
                self.done += 1;
                self.late += u64::from(total > self.late_after);
                self.answered_at(passage.ended);
            }
            End::Errored => {
                self.errored += 1;
                return;
            }
            End::TimedOut => self.timed_out += 1,
            End::Skipped => self.skipped += 1,
            End::Abandoned => self.abandoned += 1,
        }
        self.wait.note(passage.sent.unwrap_or(passage.ended).saturating_sub(passage.noticed));
        if let Some(sent) = passage.sent {
            self.response.note(passage.ended.saturating_sub(sent));
        }
        self.total.note(total);
        if passage.end != End::Done {
            self.censored_from = Some(self.censored_from.map_or(total, |least| least.min(total)));
        }
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(Sample { at: passage.at, total });
        }
    }

    fn answered_at(&mut self, micros: u64) {
        let second = (micros / 1_000_000) as usize;
        if second >= self.per_second.len() && second < SECONDS_MAX {
            self.per_second.resize(second + 1, 0);
        }
        if let Some(count) = self.per_second.get_mut(second) {
            *count += 1;
        }
    }

    /// Adds what another worker has measured in the same run.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.lag.merge(&other.lag);
        self.wait.merge(&other.wait);
        self.response.merge(&other.response);
        self.total.merge(&other.total);
        self.done += other.done;
        self.errored += other.errored;
        self.timed_out += other.timed_out;
        self.skipped += other.skipped;
        self.abandoned += other.abandoned;
        self.late += other.late;
        self.censored_from = self.censored_from.into_iter().chain(other.censored_from).min();
        if other.per_second.len() > self.per_second.len() {
            self.per_second.resize(other.per_second.len(), 0);
        }
        self.per_second.iter_mut().zip(&other.per_second).for_each(|(sum, more)| *sum += more);
        let room = SAMPLES_MAX.saturating_sub(self.samples.len());
        self.samples.extend(other.samples.iter().take(room));
    }

    /// How many requests were due.
    pub(crate) fn offered(&self) -> u64 {
        self.done + self.errored + self.timed_out + self.skipped + self.abandoned
    }

    /// A percentile, 0 to 100, of the whole time from the moment at which requests were to be sent.
    pub(crate) fn percentile(&self, percentile: f64) -> Percentile {
        let micros = self.total.histogram().value_at_quantile(percentile / 100.0);
        // A value in the histogram is rounded up to its last digit.
        let is_at_least = self.censored_from.is_some_and(|from| micros >= from);
        Percentile { micros, is_at_least }
    }

    /// Answers by second of the run; the last second may not be a whole one.
    pub(crate) fn per_second(&self) -> &[u32] {
        &self.per_second
    }

    /// Times of the first [`SAMPLES_MAX`] requests, in the order in which they were to be sent.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let mut samples = self.samples.clone();
        samples.sort_by_key(|sample| sample.at);
        samples
    }
}

/// More requests are in the histograms only.
pub(crate) const SAMPLES_MAX: usize = 1 << 22;
/// A day.
const SECONDS_MAX: usize = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    /// One connection, service of 10 ms, requests each 100 ms (a utilisation of 0.1), and a server that stands still for a second in ten.
    fn stalled(is_open: bool) -> Tally {
        let mut tally = Tally::new(u64::MAX);
        let (mut free, mut due) = (0_u64, 0_u64);
        // When service begins, or the stall in which it would have begun ends.
        let begins = |at: u64| if at % 10_000_000 < 1_000_000 { at / 10_000_000 * 10_000_000 + 1_000_000 } else { at };
        while free.max(due) < 1_000_000_000 {
            let sent = free.max(due);
            let ended = begins(sent) + 10_000;
            // The naive generator takes the time when it has the connection, and asks again when it has the answer.
            let at = if is_open { due } else { sent };
            tally.note(&Passage { at, noticed: at, sent: Some(sent), ended, end: End::Done });
            (free, due) = (ended, if is_open { due + 100_000 } else { ended });
        }
        tally
    }

    /// Coordinated omission: the closed loop says that all is well, and a tenth of those who came by the clock waited up to a second.
    #[test]
    fn the_open_loop_reports_the_stall_that_the_closed_loop_leaves_out() {
        let closed = stalled(false);
        let mean = closed.total.histogram().mean() / 1e3;
        assert!((mean - 11.1).abs() < 0.1 && closed.percentile(99.0).micros.abs_diff(10_000) < 20, "{mean}");
        let open = stalled(true);
        // The fluid prediction: 10 ms, and D^2 / 2P / (1 - rho) = 55.6 ms for a D of 1 s and a P of 10 s. Requests at equal gaps come on
        // the edges of the stall, which adds half a gap.
        let mean = open.total.histogram().mean() / 1e3;
        assert!((60.0..75.0).contains(&mean), "{mean}");
        assert!(open.percentile(99.0).micros > 800_000, "{:?}", open.percentile(99.0));
        let above = open.samples().iter().filter(|sample| sample.total > 500_000).count() as f64;
        assert!((above / open.done as f64 - 0.05).abs() < 0.01, "{above}");
    }

    #[test]
    fn every_request_is_in_one_counter_and_unanswered_ones_mark_percentiles() {
        let mut tally = Tally::new(50_000);
        let ends = [End::Done, End::Errored, End::TimedOut, End::Skipped, End::Abandoned];
        for (number, end) in (0..).zip(ends) {
            let at = number * 1_000_000;
            tally.note(&Passage { at, noticed: at + 10, sent: Some(at + 30), ended: at + 100_000 * (number + 1), end });
        }
        assert_eq!((tally.offered(), tally.done, tally.late), (5, 1, 1));
        assert_eq!((tally.errored, tally.timed_out, tally.skipped, tally.abandoned), (1, 1, 1, 1));
        // An error is no answer: its time does not count.
        assert_eq!(tally.total.histogram().len(), 4);
        assert!(!tally.percentile(25.0).is_at_least && tally.percentile(50.0).is_at_least);
        assert_eq!(tally.per_second(), [1]);
        assert_eq!(tally.lag.histogram().value_at_quantile(0.5), 10);
        assert_eq!(tally.wait.histogram().value_at_quantile(0.5), 20);
        let mut twice = tally.clone();
        twice.merge(&tally);
        assert_eq!((twice.offered(), twice.samples().len(), twice.per_second()), (10, 8, &[2][..]));
        assert_eq!(twice.percentile(50.0), tally.percentile(50.0));
    }
}
