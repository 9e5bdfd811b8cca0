//! When a limit is reached, from a history: a linear trend with a weekly season, and intervals of prediction.
//!
//! Always true: errors that depend on the ones before widen the intervals; nothing is told for more time than three times the history. A history that
//! is too short for a season has none, and one that is too short for a trend is refused.
//! Not here: reading the history (`history`).

use nalgebra::{DMatrix, DVector};

use crate::theory::estimate::{autocorrelation, t_quantile};

/// A history's law.
#[derive(Clone, Debug)]
pub(crate) struct Forecast {
    /// Days since the first sample.
    last: f64,
    /// The distance of samples in days.
    step: f64,
    season: Season,
    coefficients: DVector<f64>,
    covariance: DMatrix<f64>,
    /// Of a single sample.
    variance: f64,
    freedom: f64,
    /// By how much errors that depend on each other make the trend less sure.
    widening: f64,
}

/// What comes again each week.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Season {
    /// Nothing, or not enough is known.
    None,
    /// Each day of the week has its own level.
    Days,
    /// And the course of a day is the same.
    Hours,
}

impl Season {
    fn columns(self) -> usize {
        match self {
            Self::None => 2,
            Self::Days => 2 + OTHER_DAYS,
            Self::Hours => 2 + OTHER_DAYS + 4,
        }
    }
}

/// A value with its interval of prediction of 95 %.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Predicted {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// When a limit is reached, in days since the first sample: the best guess, and the first and the last day that are likely.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Crossing {
    pub(crate) limit: f64,
    /// `None` if it is not reached within what can be told.
    pub(crate) expected: Option<f64>,
    pub(crate) earliest: Option<f64>,
    pub(crate) latest: Option<f64>,
}

impl Forecast {
    /// Fits the law to samples: days since a midnight, and values.
    ///
    /// # Errors
    /// There are too few; the text is for a person.
    pub(crate) fn of(samples: &[(f64, f64)]) -> Result<Self, String> {
        let ([first, .., last], true) = (samples, samples.len() >= SAMPLES_MIN) else {
            return Err(format!("{} samples; at least {SAMPLES_MIN} are needed for a trend", samples.len()));
        };
        let days = last.0 - first.0;
        if days < DAYS_MIN {
            return Err(format!("{days:.1} days of history; at least {DAYS_MIN} are needed for a trend"));
        }
        let step = median_step(samples);
        // Each day of the week has to come twice, and a day is seen in several samples or as a whole.
        let season = match (days >= 2.0 * WEEK - 1.5, step) {
            (true, step) if step <= 0.25 => Season::Hours,
            (true, step) if step <= 1.0 => Season::Days,
            _ => Season::None,
        };
        let rows = DMatrix::from_fn(samples.len(), season.columns(), |row, column| term(samples[row].0, column));
        let values = DVector::from_iterator(samples.len(), samples.iter().map(|sample| sample.1));
        let inverse = (rows.transpose() * &rows)
            .try_inverse()
            .ok_or("the times of the samples do not allow for a trend and a season")?;
        let coefficients = &inverse * rows.transpose() * &values;
        let residuals = &values - &rows * &coefficients;
        let freedom = samples.len() as f64 - rows.ncols() as f64;
        if freedom < FREEDOM_MIN {
            return Err(format!("{} samples are too few for a season", samples.len()));
        }
        let variance = residuals.norm_squared() / freedom;
        let memory = autocorrelation(residuals.as_slice()).clamp(0.0, 0.95);
        Ok(Self {
            last: last.0,
            step,
            season,
            coefficients,
            covariance: inverse * variance,
            variance,
            freedom,
            widening: (1.0 + memory) / (1.0 - memory),
        })
    }

    /// How much the trend grows a day.
    pub(crate) fn trend(&self) -> f64 {
        self.coefficients[1]
    }

    /// Whether there is a weekly season in it.
    pub(crate) fn is_seasonal(&self) -> bool {
        self.season != Season::None
    }

    /// The last day of the history.
    pub(crate) fn last(&self) -> f64 {
        self.last
    }

    /// The value of a day.
    pub(crate) fn at(&self, day: f64) -> Predicted {
        let terms = DVector::from_fn(self.coefficients.len(), |column, _| term(day, column));
        let value = terms.dot(&self.coefficients);
        let of_law = terms.dot(&(&self.covariance * &terms)).max(0.0) * self.widening;
        let reach = t_quantile(self.freedom, 0.95) * (of_law + self.variance).sqrt();
        Predicted { value, low: value - reach, high: value + reach }
    }

    /// When a limit is reached: the first time at which the law, and each end of its interval, does.
    pub(crate) fn crossing(&self, limit: f64) -> Crossing {
        let mut crossing = Crossing { limit, expected: None, earliest: None, latest: None };
        let end = self.last * (1.0 + REACH);
        let step = self.step.max((end - self.last) / POINTS_MAX);
        let mut day = self.last;
        while day <= end && crossing.latest.is_none() {
            let predicted = self.at(day);
            for (found, value) in [
                (&mut crossing.earliest, predicted.high),
                (&mut crossing.expected, predicted.value),
                (&mut crossing.latest, predicted.low),
            ] {
                if found.is_none() && value >= limit {
                    *found = Some(day);
                }
            }
            day += step;
        }
        crossing
    }
}

/// A column of the law: level, trend, the days of the week, the waves of the day.
fn term(day: f64, column: usize) -> f64 {
    match column {
        0 => 1.0,
        1 => day,
        column if column < 2 + OTHER_DAYS => f64::from(day.rem_euclid(WEEK) as usize == column - 1),
        column => {
            let wave = (column - 2 - OTHER_DAYS) / 2 + 1;
            let angle = std::f64::consts::TAU * wave as f64 * day;
            if column % 2 == 0 { angle.cos() } else { angle.sin() }
        }
    }
}

fn median_step(samples: &[(f64, f64)]) -> f64 {
    let mut steps: Vec<f64> = samples.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps.sort_by(f64::total_cmp);
    steps[steps.len() / 2].max(1e-4)
}

const WEEK: f64 = 7.0;
/// Days of the week besides the first, whose level is that of the law.
const OTHER_DAYS: usize = 6;
const SAMPLES_MIN: usize = 10;
const DAYS_MIN: f64 = 7.0;
const FREEDOM_MIN: f64 = 4.0;
/// How much further than the history a forecast goes.
const REACH: f64 = 3.0;
const POINTS_MAX: f64 = 20_000.0;

#[cfg(test)]
mod tests {
    use base::Random;

    use super::*;

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.below(1 << 32) as f64 / f64::from(u32::MAX)).sum::<f64>() - 6.0
    }

    /// What is true of a day: 0.5 % of the level more each day, 15 % less on Saturday and Sunday.
    fn truth(day: f64) -> f64 {
        let weekday = day.rem_euclid(7.0);
        100.0 + 0.5 * day - if (5.0..7.0).contains(&weekday) { 15.0 } else { 0.0 }
    }

    fn history(days: u32, each_day: u32, noise: f64, memory: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        let mut error = 0.0;
        (0..days * each_day)
            .map(|number| {
                let day = f64::from(number) / f64::from(each_day);
                error = memory * error + (1.0 - memory * memory).sqrt() * noise * normal(&mut random);
                (day, truth(day) + error)
            })
            .collect()
    }

    #[test]
    fn the_day_of_crossing_is_within_the_interval_for_at_least_ninety_of_a_hundred_seeds() {
        let limit = 180.0;
        let crosses = (0..10_000_u32).map(f64::from).find(|day| truth(*day) >= limit).expect("it grows");
        for (memory, noise) in [(0.0, 4.0), (0.5, 4.0), (0.0, 0.5)] {
            let (mut held, mut close) = (0, 0);
            for seed in 0..200 {
                let forecast = Forecast::of(&history(90, 1, noise, memory, seed)).expect("a law");
                let crossing = forecast.crossing(limit);
                let from = crossing.earliest.expect("it is reached");
                let to = crossing.latest.expect("it is reached");
                held += u32::from((from..=to).contains(&crosses));
                close += u32::from(to - from <= 70.0);
            }
            assert!(held >= 180, "noise {noise}, memory {memory}: {held} of 200");
            assert!(close >= 190, "noise {noise}, memory {memory}: only {close} of 200 tell anything");
        }
    }

    #[test]
    fn season_and_trend_are_found_and_new_samples_lie_within_the_interval() {
        let forecast = Forecast::of(&history(60, 24, 2.0, 0.0, 3)).expect("a law");
        assert!(forecast.is_seasonal() && (forecast.trend() - 0.5).abs() < 0.02, "{}", forecast.trend());
        let mut random = Random::new(9);
        // Thursdays at noon and Mondays at midnight, three weeks later.
        let held = (0..1000_u32).filter(|number| {
            let day = 80.0 + f64::from(number % 2) * 3.5 + 0.5;
            let predicted = forecast.at(day);
            let sample = truth(day) + 2.0 * normal(&mut random);
            (predicted.low..=predicted.high).contains(&sample)
        });
        let held = held.count();
        assert!(held >= 900, "{held} of 1000");
    }

    #[test]
    fn what_does_not_grow_is_never_full_and_little_history_is_refused() {
        let flat: Vec<(f64, f64)> = (0..60_u32).map(|day| (f64::from(day), 50.0 + f64::from(day % 3))).collect();
        let crossing = Forecast::of(&flat).expect("a law").crossing(100.0);
        assert_eq!((crossing.earliest, crossing.expected, crossing.latest), (None, None, None));
        assert!(Forecast::of(&flat[..9]).expect_err("few").contains("at least 10"));
        let hours: Vec<(f64, f64)> = (0..48_u32).map(|hour| (f64::from(hour) / 24.0, 1.0)).collect();
        assert!(Forecast::of(&hours).expect_err("short").contains("days of history"));
        assert!(!Forecast::of(&flat[..12]).expect("a law").is_seasonal());
    }
}
