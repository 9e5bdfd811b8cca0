//! Which load is measured next, until the knee is known: a staircase, bisection, confirmations, and the way down.
//!
//! Always true: the search ends; a load counts as carried if most of its steps kept the objective. A step of which nothing follows is repeated once,
//! and if it happens again the search ends with what is known.
//! Not here: running a step (`rig`), the knee as a number (`knee`).

use super::plan::{Bound, Plan};
use super::slo::{Slo, Verdict};
use super::step::{Ask, Phase, Step};

/// A search.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    slo: Slo,
    plan: Plan,
    bound: Bound,
    stage: Stage,
    levels: Vec<Level>,
    /// All steps with what became of them.
    steps: Vec<(Step, Verdict)>,
    repeated: u32,
}

/// A load that was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Level {
    pub(crate) rate: f64,
    /// Steps that kept the objective.
    pub(crate) kept: u32,
    /// Steps that did not.
    pub(crate) broken: u32,
}

impl Level {
    /// Whether the load is carried, as most of its steps say.
    pub(crate) fn is_carried(&self) -> bool {
        self.kept > self.broken
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Stage {
    /// The place on the staircase.
    Climb(u32),
    /// How often a load below the first one was tried.
    Below(u32),
    Narrow,
    Recover,
    Descend,
    Over(End),
}

/// How a search ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Both sides of the knee are known.
    Found,
    /// Every load was carried.
    NoneBroken,
    /// No load was carried.
    NoneKept,
    /// Steps were void.
    Void(String),
    /// It took too many steps, or was told to end.
    Early,
}

impl Search {
    pub(crate) fn new(slo: Slo, plan: Plan, bound: Bound) -> Self {
        Self { slo, plan, bound, stage: Stage::Climb(0), levels: Vec::new(), steps: Vec::new(), repeated: 0 }
    }

    /// What is to be measured next; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Ask> {
        if self.steps.len() >= STEPS_MAX && self.end().is_none() {
            self.stage = Stage::Over(End::Early);
        }
        let (phase, rate, before) = match self.stage {
            Stage::Climb(place) => (Phase::Climb, self.stair(place), None),
            Stage::Below(times) => (Phase::Climb, self.stair(0) / 2_f64.powi(times as i32), None),
            Stage::Narrow => {
                let (phase, rate) = self.between();
                (phase, rate, None)
            }
            Stage::Recover => {
                let (low, high) = self.sides()?;
                let over = high.max(self.bound.rate) * OVERLOAD;
                (Phase::Recovery, low * AFTER_OVERLOAD, Some((over, self.plan.seconds_min)))
            }
            Stage::Descend => (Phase::Descent, self.sides()?.0 * DESCENT, None),
            Stage::Over(_) => return None,
        };
        let longer = f64::from(1 + self.repeated);
        Some(Ask { rate, seconds: self.plan.seconds(&self.bound, rate) * longer, before, phase })
    }

    /// Takes what was measured.
    pub(crate) fn take(&mut self, step: Step) {
        let rate = step.offered;
        let mut verdict = self.slo.judge(&step);
        let is_unsteady = step.void.is_none() && step.unsteady.is_some();
        let phase = step.phase;
        self.steps.push((step, verdict.clone()));
        if phase == Phase::Recovery || phase == Phase::Descent {
            self.stage = if phase == Phase::Recovery { Stage::Descend } else { Stage::Over(End::Found) };
            return;
        }
        if let Verdict::Void(why) = &verdict {
            if self.repeated == 0 {
                self.repeated = 1;
                return;
            }
            if !is_unsteady {
                self.stage = Stage::Over(End::Void(why.clone()));
                return;
            }
            // A load that is not steady twice is not carried.
            verdict = Verdict::Broken(why.clone());
            if let Some((_, last)) = self.steps.last_mut() {
                *last = verdict.clone();
            }
        }
        self.repeated = 0;
        self.note(rate, verdict == Verdict::Kept);
        self.stage = self.after(verdict == Verdict::Kept);
    }

    /// Ends the search with what is known.
    pub(crate) fn stop(&mut self) {
        if self.end().is_none() {
            self.stage = Stage::Over(if self.is_confirmed() { End::Found } else { End::Early });
        }
    }

    /// How it ended, if it did.
    pub(crate) fn end(&self) -> Option<&End> {
        match &self.stage {
            Stage::Over(end) => Some(end),
            _ => None,
        }
    }

    pub(crate) fn steps(&self) -> &[(Step, Verdict)] {
        &self.steps
    }

    /// The loads that were measured, in ascending order.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The largest load that is carried below the smallest that is not, and that one.
    pub(crate) fn sides(&self) -> Option<(f64, f64)> {
        let high = self.levels.iter().find(|level| !level.is_carried())?.rate;
        let low = self.levels.iter().rev().find(|level| level.is_carried() && level.rate < high)?.rate;
        Some((low, high))
    }

    /// About how much of the search is over, from 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        let expected = f64::from(STEPS_USUAL + 2 * self.plan.confirmations);
        (self.steps.len() as f64 / expected).min(0.99)
    }

    fn after(&self, is_kept: bool) -> Stage {
        match (&self.stage, is_kept) {
            (Stage::Climb(place), true) if self.stair(place + 1) > self.bound.rate * CLIMB_MAX => {
                Stage::Over(End::NoneBroken)
            }
            (Stage::Climb(place), true) => Stage::Climb(place + 1),
            (Stage::Climb(0), false) => Stage::Below(1),
            (Stage::Below(times), false) if *times >= HALVINGS_MAX => Stage::Over(End::NoneKept),
            (Stage::Below(times), false) => Stage::Below(times + 1),
            _ if self.is_confirmed() => Stage::Recover,
            _ => Stage::Narrow,
        }
    }

    /// A stair: geometric up to a part of the bound, then by equal parts of the bound.
    fn stair(&self, place: u32) -> f64 {
        let first = self.plan.first(&self.bound);
        // As many as there are from the first one, by a factor of about 1.6.
        let geometric = ((GEOMETRIC_TO / first).log(FACTOR).round() as u32).clamp(1, GEOMETRIC_MAX);
        let part = match place.checked_sub(geometric) {
            Some(more) => GEOMETRIC_TO + f64::from(more) * EQUAL,
            None => first * (GEOMETRIC_TO / first).powf(f64::from(place) / f64::from(geometric)),
        };
        self.bound.rate * part
    }

    /// The middle of both sides, or the side that has fewer confirmations.
    fn between(&self) -> (Phase, f64) {
        let Some((low, high)) = self.sides() else {
            // All that was carried turned out not to be.
            return (Phase::Bisection, self.levels.first().map_or(self.stair(0), |level| level.rate / 2.0));
        };
        if !self.is_narrow(low, high) {
            return (Phase::Bisection, f64::midpoint(low, high));
        }
        let runs = |rate: f64| self.level(rate).map_or(0, |level| level.kept + level.broken);
        // In turn, and each pair the other way round, so that a drift of the machine meets both sides alike.
        let (of_low, of_high) = (runs(low), runs(high));
        let is_low = if of_low == of_high { of_low % 2 == 1 } else { of_low < of_high };
        (Phase::Confirmation, if is_low { low } else { high })
    }

    fn is_narrow(&self, low: f64, high: f64) -> bool {
        (high - low) / high <= self.plan.resolution * 1.001
    }

    fn is_confirmed(&self) -> bool {
        self.sides().is_some_and(|(low, high)| {
            let wanted = self.plan.confirmations + 1;
            let is_sure = |rate: f64| self.level(rate).is_some_and(|level| level.kept + level.broken >= wanted);
            self.is_narrow(low, high) && is_sure(low) && is_sure(high)
        })
    }

    fn level(&self, rate: f64) -> Option<&Level> {
        self.levels.iter().find(|level| is_same(level.rate, rate))
    }

    fn note(&mut self, rate: f64, is_kept: bool) {
        let place = self.levels.partition_point(|level| level.rate < rate && !is_same(level.rate, rate));
        if self.levels.get(place).is_none_or(|level| !is_same(level.rate, rate)) {
            self.levels.insert(place, Level { rate, kept: 0, broken: 0 });
        }
        let level = &mut self.levels[place];
        *(if is_kept { &mut level.kept } else { &mut level.broken }) += 1;
    }
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// The first stairs grow by about this factor, up to a part of the bound.
const FACTOR: f64 = 1.64;
const GEOMETRIC_MAX: u32 = 7;
const GEOMETRIC_TO: f64 = 0.6;
/// What comes then, each by this part of the bound.
const EQUAL: f64 = 0.05;
/// The staircase ends here: a bound that was measured too low is no reason to climb for ever.
const CLIMB_MAX: f64 = 1.6;
const HALVINGS_MAX: u32 = 5;
/// What is offered to see how long recovery takes, as a multiple of what can be carried.
const OVERLOAD: f64 = 1.2;
/// The load of the recovery, as a part of the knee.
const AFTER_OVERLOAD: f64 = 0.9;
/// The load after that.
const DESCENT: f64 = 0.6;
/// More steps are not worth what they tell.
const STEPS_MAX: usize = 80;
const STEPS_USUAL: u32 = 20;
