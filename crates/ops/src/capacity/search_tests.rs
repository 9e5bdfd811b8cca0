//! Searches against theory, on a queue M/M/c on a virtual clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Random;
use hdrhistogram::Histogram;

use super::evidence::Evidence;
use super::knee::knee_of;
use super::plan::{Bound, Plan};
use super::search::{End, Search};
use super::slo::Slo;
use super::step::{Ask, Phase, Step};
use crate::theory::mmc::Mmc;

const SERVICE: f64 = 0.02;
const BOUND: Bound = Bound { rate: 200.0, service: SERVICE };

/// Four servers of 20 ms. What waits at the end of a step waits at the beginning of the next one.
struct Queue {
    random: Random,
    now: f64,
    /// When servers are free, in nanoseconds.
    free_at: BinaryHeap<Reverse<u64>>,
    slo: Slo,
}

impl Queue {
    fn new(seed: u64, slo: Slo) -> Self {
        Self { random: Random::new(seed), now: 0.0, free_at: (0..4).map(|_| Reverse(0)).collect(), slo }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -((self.random.below(1 << 53) as f64 + 1.0) / (1_u64 << 53) as f64).ln() * mean
    }

    fn load(&mut self, rate: f64, seconds: f64, mut seen: impl FnMut(f64, f64)) {
        let begin = self.now;
        loop {
            self.now += self.exponential(1.0 / rate);
            if self.now > begin + seconds {
                break;
            }
            let free = self.free_at.pop().map_or(0.0, |Reverse(at)| at as f64 / 1e9);
            let done = free.max(self.now) + self.exponential(SERVICE);
            self.free_at.push(Reverse((done * 1e9) as u64));
            seen(self.now - begin, done - self.now);
        }
        self.now = begin + seconds;
    }

    fn run(&mut self, ask: &Ask) -> Step {
        let (limit, percentile) = (self.slo.seconds, self.slo.percentile);
        assert!(percentile > 0.0);
        if let Some((rate, seconds)) = ask.before {
            self.load(rate, seconds, |_, _| ());
        }
        let mut times = Histogram::new(3).expect("three digits");
        let mut slices = vec![(0, 0); ask.seconds.ceil() as usize];
        let mut answered = 0_u64;
        self.load(ask.rate, ask.seconds, |at, response| {
            times.record((response * 1e6) as u64).expect("a growing histogram");
            let slice = &mut slices[at as usize];
            slice.0 += 1;
            slice.1 += u64::from(response > limit);
            answered += u64::from(at + response <= ask.seconds);
        });
        Step {
            phase: ask.phase,
            offered: ask.rate,
            achieved: answered as f64 / ask.seconds,
            seconds: ask.seconds,
            times,
            failed: 0,
            first_failure: None,
            service: Some(SERVICE),
            slices,
            void: None,
            unsteady: None,
            evidence: Evidence::default(),
        }
    }
}

fn slo(ms: u32) -> Slo {
    Slo { seconds: f64::from(ms) / 1e3, ..Slo::DEFAULT }
}

fn searched(slo: Slo, plan: Plan, seed: u64) -> Search {
    let mut queue = Queue::new(seed, slo);
    let mut search = Search::new(slo, plan, BOUND);
    while let Some(ask) = search.next() {
        search.take(queue.run(&ask));
    }
    search
}

/// Steps that are long enough for a percentile to one part in a hundred.
const LONG: Plan =
    Plan { relative_error: 0.02, seconds_min: 2000.0, seconds_max: 8000.0, confirmations: 3, resolution: 0.02 };

#[test]
fn knees_of_four_servers_are_within_five_percent_of_theory() {
    for (ms, theory) in [(100, 121.3), (150, 164.5), (200, 175.1), (300, 184.0)] {
        let slo = slo(ms);
        let search = searched(slo, LONG, u64::from(ms));
        assert_eq!(search.end(), Some(&End::Found), "{ms} ms");
        let knee = knee_of(&search, &slo).expect("a knee");
        assert!((knee.rate.value / theory - 1.0).abs() < 0.05, "{ms} ms: {knee:?}, theory {theory}");
        assert!(knee.rate.low <= knee.rate.value && knee.rate.value <= knee.rate.high, "{knee:?}");
        let (low, high) = search.sides().expect("two sides");
        for side in [low, high] {
            let level = search.levels().iter().find(|level| (level.rate - side).abs() < 1e-6).expect("a level");
            assert!(level.kept + level.broken >= 4, "{level:?}");
        }
        assert!(search.steps().len() < 40, "{ms} ms took {} steps", search.steps().len());
    }
}

#[test]
fn after_an_overload_the_time_of_recovery_is_measured() {
    let slo = slo(150);
    let search = searched(slo, LONG, 7);
    let step = |phase| &search.steps().iter().find(|(step, _)| step.phase == phase).expect("such a step").0;
    let recovery = step(Phase::Recovery);
    // 40 a second too many for the length of a step, then 50 a second fewer than can be served.
    let (low, high) = search.sides().expect("two sides");
    let backlog = (high.max(200.0) * 1.2 - 200.0) * LONG.seconds_min;
    let fluid = backlog / (200.0 - low * 0.9);
    let recovered = recovery.recovered_after(99.0).expect("it recovers");
    assert!((recovered / fluid - 1.0).abs() < 0.15, "{recovered} s, {fluid} s in theory");
    let down = step(Phase::Descent).at(99.0);
    let queue = Mmc { servers: 4, rate: low * 0.6, service: SERVICE };
    assert!((down / queue.response_quantile(0.99) - 1.0).abs() < 0.05, "{down}");
}

#[test]
fn an_objective_that_no_load_keeps_has_no_knee() {
    let search = searched(slo(10), LONG, 1);
    assert_eq!((search.end(), knee_of(&search, &slo(10))), (Some(&End::NoneKept), None));
}

#[test]
fn a_bound_that_was_measured_too_low_is_climbed_over_and_then_no_knee_is_claimed() {
    let slo = slo(1000);
    let mut search = Search::new(slo, LONG, Bound { rate: 50.0, service: SERVICE });
    let mut queue = Queue::new(1, slo);
    while let Some(ask) = search.next() {
        search.take(queue.run(&ask));
    }
    assert_eq!((search.end(), knee_of(&search, &slo)), (Some(&End::NoneBroken), None));
}

#[test]
fn a_void_step_is_repeated_once_and_then_ends_the_search() {
    let slo = slo(150);
    let mut queue = Queue::new(1, slo);
    let mut search = Search::new(slo, LONG, BOUND);
    for void in 0..2 {
        let ask = search.next().expect("a step");
        assert!((ask.rate - 10.0).abs() < 1e-9, "{void}: {ask:?}");
        search.take(Step { void: Some("late".to_owned()), ..queue.run(&ask) });
    }
    assert_eq!(search.end(), Some(&End::Void("late".to_owned())));
    assert!(search.next().is_none() && search.levels().is_empty());
}

#[test]
fn a_load_that_is_not_steady_twice_is_not_carried() {
    let slo = slo(150);
    let mut queue = Queue::new(1, slo);
    let mut search = Search::new(slo, LONG, BOUND);
    let first = search.next().expect("a step");
    search.take(Step { unsteady: Some("climbing".to_owned()), ..queue.run(&first) });
    let second = search.next().expect("the same");
    assert_eq!((second.rate, second.seconds), (first.rate, first.seconds * 2.0));
    search.take(Step { unsteady: Some("climbing".to_owned()), ..queue.run(&second) });
    assert_eq!(search.levels().iter().map(|level| level.broken).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_search_that_is_stopped_tells_what_it_knows() {
    let slo = slo(150);
    let mut queue = Queue::new(1, slo);
    let mut search = Search::new(slo, LONG, BOUND);
    while search.sides().is_none() {
        let ask = search.next().expect("a step");
        search.take(queue.run(&ask));
    }
    search.stop();
    assert_eq!(search.end(), Some(&End::Early));
    let knee = knee_of(&search, &slo).expect("both sides are known");
    assert!(knee.rate.low <= 164.5 && knee.rate.high >= 155.0, "{knee:?}");
}
