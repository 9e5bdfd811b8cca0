//! Chooses the requests that are sampled for `SHOW STATEMENTS`, and keeps what is known of a sampled one.
//!
//! Always true: about the wanted number of requests per second is sampled, or all if there are fewer; each sample
//! stands for the requests since the previous one, so that together they stand for all; the choice is random, so that a
//! client that repeats a fixed sequence of statements is sampled fairly.
//! Not here: what is done with a sample (`statements`).

use base::{Random, Time};
use measure::{Description, Room, Spent};
use protocol::loan::AnswerTally;

use crate::observe::pipeline::Pipeline;
use crate::observe::spans::OpenSpans;

/// Chooses the requests to sample.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Number of requests until the next sample, including it.
    left: u32,
    /// That number when the next sample was chosen.
    gap: u32,
    /// Its average.
    mean: u32,
    /// Samples wanted per second; 0 switches sampling off.
    per_second: u32,
    /// When the last sample was taken.
    last: Option<Time>,
    random: Random,
    /// Rows of statements in all databases of the worker.
    pub(super) room: Room,
}

/// A request that is sampled, traced or has spans.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// The number of requests for which it stands; 0 if it is only traced or has spans.
    pub(super) weight: u32,
    /// Its statement, if it could be read.
    pub(super) statement: Option<(u64, Description)>,
    /// Where the time of its transaction had gone before it.
    pub(super) before: Spent,
    /// If a console traces its client: this request, and those that are pipelined behind it.
    pub(super) traced: Option<Box<Pipeline>>,
    /// The answers to those of a pipeline that have been answered and reported.
    pub(super) reported: AnswerTally,
    /// If it carries the context of a trace with spans.
    pub(super) spans: Option<Box<OpenSpans>>,
}

impl Sampler {
    pub(crate) fn new(per_second: u32) -> Self {
        let (random, room) = (Random::new(0), Room::new(ROWS_MAX));
        Self { left: 1, gap: 1, mean: 1, per_second, last: None, random, room }
    }

    /// Sets the number of samples per second; 0 switches sampling off.
    pub(crate) fn look_at(&mut self, per_second: u32) {
        if self.per_second != per_second {
            (self.left, self.gap, self.mean, self.last, self.per_second) = (1, 1, 1, None, per_second);
        }
    }

    /// A request begins. Returns the number of requests for which it stands, if it is sampled.
    #[inline]
    pub(crate) fn begins(&mut self, now: Time) -> Option<u32> {
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 { self.chosen(now) } else { None }
    }

    #[cold]
    fn chosen(&mut self, now: Time) -> Option<u32> {
        let weight = self.gap;
        if self.per_second == 0 {
            (self.gap, self.left) = (u32::MAX, u32::MAX);
            return None;
        }
        // The number of requests in the interval of one sample, at the rate since the last sample.
        let wanted = MICROS / u64::from(self.per_second);
        let past = self.last.map_or(wanted, |last| now.since(last).as_micros() as u64).max(1);
        let mean = u64::from(weight) * wanted / past;
        self.mean = mean.clamp(1, u64::from(self.mean) * 2).min(GAP_MAX) as u32;
        self.last = Some(now);
        self.gap = 1 + self.random.below(2 * u64::from(self.mean) - 1) as u32;
        self.left = self.gap;
        Some(weight)
    }
}

const MICROS: u64 = 1_000_000;
/// However fast requests come, at least one in this many is sampled.
const GAP_MAX: u64 = 65_536;
/// Number of statements with a row in one worker.
const ROWS_MAX: u32 = 8000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs this many requests, one per `micros` microseconds: returns how many are sampled, and for how many they stand.
    fn run(sampler: &mut Sampler, requests: std::ops::Range<u64>, micros: u64) -> (u64, u64) {
        let weights = requests.filter_map(|request| sampler.begins(Time(1 + request * micros)));
        weights.fold((0, 0), |(count, sum), weight| (count + 1, sum + u64::from(weight)))
    }

    #[test]
    fn so_many_a_second_are_looked_at_however_many_come_and_stand_for_all() {
        for per_second in [10, 100] {
            for micros in [10, 100, 1000] {
                let (mut sampler, requests) = (Sampler::new(per_second), 100_000_000 / micros);
                let (count, stands_for) = run(&mut sampler, 0..requests, micros);
                let expected = 100 * u64::from(per_second);
                assert!(count > expected / 2 && count < expected * 2, "{count} of {expected}, one in {micros} us");
                let most = (requests / count) * 10;
                assert!(stands_for <= requests && stands_for + most >= requests, "{stands_for} of {requests}");
            }
        }
    }

    #[test]
    fn where_few_come_all_are_looked_at() {
        let mut sampler = Sampler::new(100);
        assert_eq!(run(&mut sampler, 0..1000, 20_000), (1000, 1000));
        // Many requests came, and then few again.
        run(&mut sampler, 2_000_000..3_000_000, 10);
        let (_, before) = run(&mut sampler, 2000..102_000, 20_000);
        assert!(before > 90_000);
        assert_eq!(run(&mut sampler, 102_000..102_100, 20_000), (100, 100));
    }

    /// An application that asks sixteen statements by turns is seen with all of them.
    #[test]
    fn statements_by_turns_are_all_seen() {
        let mut sampler = Sampler::new(1000);
        let mut seen = [0_u32; 16];
        for request in 0..1_600_000 {
            seen[request % 16] += sampler.begins(Time(1 + request as u64 * 60)).unwrap_or(0);
        }
        assert!(seen.iter().all(|calls| (80_000..120_000).contains(calls)), "{seen:?}");
    }

    #[test]
    fn none_is_looked_at_until_that_is_asked_for() {
        let mut sampler = Sampler::new(0);
        assert_eq!(run(&mut sampler, 0..100_000, 1000), (0, 0));
        sampler.look_at(1_000_000);
        assert_eq!(run(&mut sampler, 100_000..100_010, 1000), (10, 10));
        sampler.look_at(0);
        assert_eq!(run(&mut sampler, 200_000..300_000, 1000), (0, 0));
    }
}
