//! The sources of transactions: when the next one arrives, and at which tenant.
//!
//! Always true: a source has at most one arrival planned; one that was planned at another rate is stale.
//! Not here: what a transaction does (`applications`).

use rand_distr::weighted::WeightedAliasIndex;

use super::clock::{Clock, Next};
use crate::load::{Dice, micros};
use crate::simulate::spec::{Arrivals, Group};

/// A source.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) group: u32,
    /// The only tenant of the source, by its number in the group.
    tenant: Option<u32>,
    /// What an arrival at another rate does not have.
    epoch: u32,
    course: Course,
}

#[derive(Debug)]
enum Course {
    Poisson { rate: f64 },
    Constant { rate: f64 },
    Modulated { share: f64, state: usize },
    Recorded { next: usize },
    Closed { tenants: Vec<u32> },
}

impl Source {
    /// The sources of a group, and what each begins with.
    pub(super) fn of(number: u32, group: &Group, first: u32, dice: &mut Dice, clock: &mut Clock) -> Vec<Self> {
        let new = |tenant, course| Self { group: number, tenant, epoch: 0, course };
        if group.tenants == 0 {
            return Vec::new();
        }
        let mut sources = match &group.arrivals {
            Arrivals::Poisson { rate } => vec![new(None, Course::Poisson { rate: *rate })],
            Arrivals::Constant { rate } => vec![new(None, Course::Constant { rate: *rate })],
            Arrivals::Recorded(_) => vec![new(None, Course::Recorded { next: 0 })],
            Arrivals::Modulated { states } => {
                let each = group.popularity.iter().zip(0..);
                each.map(|(share, tenant)| {
                    let state = dice.below(states.len() as u32) as usize;
                    new(Some(tenant), Course::Modulated { share: *share, state })
                })
                .collect()
            }
            Arrivals::Closed { users, .. } => {
                let weights = weights(&group.popularity);
                let tenants = (0..*users).map(|_| dice.place(&weights) as u32).collect();
                vec![new(None, Course::Closed { tenants })]
            }
        };
        for (source, index) in sources.iter_mut().zip(first..) {
            source.begin(index, group, dice, clock);
        }
        sources
    }

    fn begin(&mut self, index: u32, group: &Group, dice: &mut Dice, clock: &mut Clock) {
        match (&self.course, &group.arrivals) {
            (Course::Closed { tenants }, Arrivals::Closed { think, .. }) => {
                for user in 0..tenants.len() as u32 {
                    // Users do not begin all at once, even if they do not think.
                    let begins = think.draw(dice) + u64::from(dice.below(1000));
                    clock.plan(begins, Next::User { source: index, user });
                }
            }
            (Course::Modulated { state, .. }, Arrivals::Modulated { states }) => {
                clock.plan(micros(states[*state].1 * dice.exponential()), Next::State { source: index });
                self.plan(0, index, 1.0, group, dice, clock);
            }
            _ => self.plan(0, index, 1.0, group, dice, clock),
        }
    }

    /// Plans the next arrival. `factor` multiplies the rate.
    pub(super) fn plan(
        &mut self,
        now: u64,
        index: u32,
        factor: f64,
        group: &Group,
        dice: &mut Dice,
        clock: &mut Clock,
    ) {
        let arrival = Next::Arrival { source: index, epoch: self.epoch };
        let gap = |rate: f64, part: f64| if rate > 0.0 { Some(gap_of(part / rate)) } else { None };
        let after = match (&mut self.course, &group.arrivals) {
            (Course::Poisson { rate }, _) => gap(*rate * factor, dice.exponential()),
            (Course::Constant { rate }, _) => gap(*rate * factor, 1.0),
            (Course::Modulated { share, state }, Arrivals::Modulated { states }) => {
                gap(states[*state].0 * *share * factor, dice.exponential())
            }
            (Course::Recorded { next }, Arrivals::Recorded(times)) => {
                let at = times.get(*next).map(|(at, _)| *at);
                *next += 1;
                at.map(|at| at.saturating_sub(now))
            }
            _ => None,
        };
        if let Some(after) = after {
            clock.plan(now + after, arrival);
        }
    }

    /// The tenant of an arrival that is due, by its number in the group; `None` if the arrival is stale.
    pub(super) fn arrives(
        &self,
        epoch: u32,
        group: &Group,
        popularity: &WeightedAliasIndex<f64>,
        dice: &mut Dice,
    ) -> Option<u32> {
        if epoch != self.epoch {
            return None;
        }
        if let (Course::Recorded { next }, Arrivals::Recorded(times)) = (&self.course, &group.arrivals)
            && let Some((_, Some(tenant))) = times.get(next - 1)
        {
            return Some(*tenant);
        }
        Some(self.tenant.unwrap_or_else(|| dice.place(popularity) as u32))
    }

    /// The tenant of a user.
    pub(super) fn tenant_of(&self, user: u32) -> u32 {
        match &self.course {
            Course::Closed { tenants } => tenants[user as usize],
            _ => 0,
        }
    }

    /// A modulated source enters its next state.
    pub(super) fn next_state(
        &mut self,
        now: u64,
        index: u32,
        factor: f64,
        group: &Group,
        dice: &mut Dice,
        clock: &mut Clock,
    ) {
        if let (Course::Modulated { state, .. }, Arrivals::Modulated { states }) = (&mut self.course, &group.arrivals) {
            *state = (*state + 1) % states.len();
            clock.plan(now + gap_of(states[*state].1 * dice.exponential()), Next::State { source: index });
        }
        self.plan_anew(now, index, factor, group, dice, clock);
    }

    /// The rate has changed: what is planned is stale.
    pub(super) fn plan_anew(
        &mut self,
        now: u64,
        index: u32,
        factor: f64,
        group: &Group,
        dice: &mut Dice,
        clock: &mut Clock,
    ) {
        if matches!(self.course, Course::Poisson { .. } | Course::Constant { .. } | Course::Modulated { .. }) {
            self.epoch += 1;
            self.plan(now, index, factor, group, dice, clock);
        }
    }
}

/// A way to choose places by these weights, which must not all be 0.
pub(super) fn weights(list: &[f64]) -> WeightedAliasIndex<f64> {
    WeightedAliasIndex::new(list.to_vec()).expect("weights are finite, and one is above 0")
}

/// A gap in microseconds; a year is never.
fn gap_of(seconds: f64) -> u64 {
    (seconds.min(3.2e7) * 1e6 + 0.5) as u64
}
