//! When requests come.
//!
//! Always true: times ascend; the same dice give the same times. What comes next does not depend on how quickly anything is answered.
//! Not here: who asks, and for what (the commands); users who wait for an answer before they ask again.

use super::{Dice, micros};

/// A law of arrivals. Rates are in requests per second.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ArrivalLaw {
    /// Gaps by the exponential law.
    Poisson { rate: f64 },
    /// Equal gaps.
    Regular { rate: f64 },
    /// Rates, and the mean of the exponential time in seconds for which each lasts, one after the other: bursts are `(rate, on)`, `(0, off)`.
    Modulated { states: Vec<(f64, f64)> },
    /// These times, in microseconds, ascending.
    Trace(Vec<u64>),
}

impl ArrivalLaw {
    /// Bursts of requests, with this mean rate over all the time; `on` and `off` are means in seconds.
    pub(crate) fn on_off(rate: f64, on: f64, off: f64) -> Self {
        Self::Modulated { states: vec![(rate * (on + off) / on, on), (0.0, off)] }
    }
}

/// The arrivals of a law, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    law: ArrivalLaw,
    /// Where in the states or in the trace it is.
    place: usize,
    /// When the present state ends.
    state_ends: u64,
    /// What rounding to microseconds has left of the last gap, so that rates are exact in the long run.
    rest: f64,
}

impl Arrivals {
    /// Begins at time 0. A modulated law begins in a state that is drawn by how much of the time each state has.
    pub(crate) fn new(law: ArrivalLaw, dice: &mut Dice) -> Self {
        let mut arrivals = Self { law, place: 0, state_ends: 0, rest: 0.0 };
        if let ArrivalLaw::Modulated { states } = &arrivals.law {
            let all: f64 = states.iter().map(|(_, stay)| stay).sum();
            let mut part = dice.part() * all;
            let place = states.iter().position(|(_, stay)| {
                part -= stay;
                part < 0.0
            });
            arrivals.place = place.unwrap_or(0);
            arrivals.state_ends = micros(states[arrivals.place].1 * dice.exponential());
        }
        arrivals
    }

    /// The next arrival after the one at `now`, in microseconds, if rates are multiplied by `factor`. `None` if none comes.
    pub(crate) fn next(&mut self, now: u64, factor: f64, dice: &mut Dice) -> Option<u64> {
        match &self.law {
            ArrivalLaw::Poisson { rate } => gap(dice.exponential(), rate * factor).map(|gap| now + gap),
            ArrivalLaw::Regular { rate } => {
                let exact = 1e6 / (rate * factor) + self.rest;
                if !exact.is_finite() || exact > NEVER {
                    return None;
                }
                self.rest = exact.fract();
                Some(now + exact as u64)
            }
            ArrivalLaw::Trace(times) => {
                let at = times.get(self.place).copied();
                self.place += 1;
                at.map(|at| at.max(now))
            }
            ArrivalLaw::Modulated { states } => {
                let mut from = now;
                for _ in 0..STATES_IN_A_ROW_MAX {
                    let at = gap(dice.exponential(), states[self.place].0 * factor).map(|gap| from + gap);
                    // The exponential law has no memory, so what is drawn anew in the next state is right.
                    if let Some(at) = at.filter(|at| *at < self.state_ends) {
                        return Some(at);
                    }
                    from = self.state_ends.max(from);
                    self.place = (self.place + 1) % states.len();
                    self.state_ends = from + micros(states[self.place].1 * dice.exponential()).max(1);
                }
                None
            }
        }
    }

    /// How many times of a trace have been given out.
    pub(crate) fn place(&self) -> usize {
        self.place
    }
}

fn gap(part: f64, rate: f64) -> Option<u64> {
    let micros = part / rate * 1e6;
    (micros.is_finite() && micros <= NEVER).then_some((micros + 0.5) as u64)
}

/// A gap of more than a year, in microseconds, does not end.
const NEVER: f64 = 3.2e13;
/// States without an arrival after which there is none any more.
const STATES_IN_A_ROW_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn times(law: ArrivalLaw, seconds: u64) -> Vec<u64> {
        let mut dice = Dice::new(5, 1);
        let mut arrivals = Arrivals::new(law, &mut dice);
        let mut all = Vec::new();
        while let Some(at) = arrivals.next(all.last().copied().unwrap_or(0), 1.0, &mut dice) {
            if at > seconds * 1_000_000 {
                break;
            }
            all.push(at);
        }
        all
    }

    /// The variance of the number of arrivals in a second over its mean: 1 for Poisson's law, 0 for equal gaps.
    fn dispersion(times: &[u64], seconds: u64) -> f64 {
        let mut counts = vec![0.0_f64; seconds as usize];
        times.iter().for_each(|at| counts[(at / 1_000_001) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
    }

    #[test]
    fn rates_are_kept_and_laws_differ_in_how_unevenly() {
        let laws = [
            (ArrivalLaw::Poisson { rate: 50.0 }, 0.8..1.2),
            (ArrivalLaw::Regular { rate: 50.0 }, 0.0..0.01),
            (ArrivalLaw::on_off(50.0, 0.5, 2.0), 20.0..400.0),
        ];
        for (law, wanted) in laws {
            let times = times(law.clone(), 2000);
            let rate = times.len() as f64 / 2000.0;
            assert!((rate / 50.0 - 1.0).abs() < 0.08, "{law:?}: {rate}");
            let found = dispersion(&times, 2000);
            assert!(wanted.contains(&found), "{law:?}: {found}");
        }
    }

    /// 3,000 a second are not 3,003: a gap of 333.33 us is not one of 333.
    #[test]
    fn equal_gaps_of_a_part_of_a_microsecond_add_up() {
        assert_eq!(times(ArrivalLaw::Regular { rate: 3000.0 }, 100).len(), 300_000);
    }

    #[test]
    fn a_trace_is_played_as_it_is_and_ends() {
        assert_eq!(times(ArrivalLaw::Trace(vec![3, 3, 10]), 1), [3, 3, 10]);
        assert!(times(ArrivalLaw::Trace(Vec::new()), 1).is_empty());
        assert!(times(ArrivalLaw::Poisson { rate: 0.0 }, 1).is_empty());
        assert!(times(ArrivalLaw::Modulated { states: vec![(0.0, 0.001), (0.0, 0.001)] }, 1).is_empty());
    }

    #[test]
    fn the_same_dice_give_the_same_times() {
        let law = ArrivalLaw::on_off(100.0, 0.1, 0.1);
        assert_eq!(times(law.clone(), 10), times(law, 10));
    }
}
