//! How far the load may grow: headroom, and the time until it is used up.
//!
//! Always true: a load that is above the limit has a headroom below 0, and no time left; one that does not grow never reaches the limit.
//! Not here: growth that is read from a history (`forecast`).

/// What is left of a limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Headroom {
    /// The load now, and the limit.
    pub(crate) now: f64,
    pub(crate) limit: f64,
}

impl Headroom {
    /// The part of the limit that is not used.
    pub(crate) fn share(&self) -> f64 {
        (self.limit - self.now) / self.limit
    }

    /// How many periods it lasts if the load grows by this part in each: `ln(limit / now) / ln(1 + growth)`. `None` if it lasts for ever.
    pub(crate) fn periods(&self, growth: f64) -> Option<f64> {
        if self.now >= self.limit {
            return Some(0.0);
        }
        (growth > 0.0 && self.now > 0.0).then(|| (self.limit / self.now).ln() / growth.ln_1p())
    }
}

/// Growth in each period, as it was written: `5%/month`, `40%/year`, `1%/week`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Growth {
    /// The part by which the load grows in each period.
    pub(crate) part: f64,
    /// The length of a period in days.
    pub(crate) days: f64,
    /// Its word.
    pub(crate) period: &'static str,
}

impl Growth {
    /// Reads `5%/month`; without a period it is of a year.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (part, period) = text.split_once('/').unwrap_or((text, "year"));
        let part: f64 = part.trim().trim_end_matches('%').trim().parse().ok()?;
        let (period, days) = PERIODS.iter().find(|(word, _)| *word == period.trim())?;
        (part > -100.0 && part <= 1e6).then_some(Self { part: part / 100.0, days: *days, period })
    }
}

const PERIODS: [(&str, f64); 4] = [("day", 1.0), ("week", 7.0), ("month", 30.4375), ("year", 365.25)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_follows_from_growth() {
        let half = Headroom { now: 50.0, limit: 100.0 };
        assert_eq!((half.share(), half.periods(1.0), half.periods(0.0)), (0.5, Some(1.0), None));
        // Three quarters used, 10 % a year: ln(4/3) / ln(1.1) years.
        let periods = Headroom { now: 75.0, limit: 100.0 }.periods(0.1).expect("it grows");
        assert!((periods - 3.0184).abs() < 1e-4, "{periods}");
        let over = Headroom { now: 120.0, limit: 100.0 };
        assert_eq!((over.share(), over.periods(0.1)), (-0.2, Some(0.0)));
        assert_eq!(Headroom { now: 0.0, limit: 9.0 }.periods(0.1), None);
    }

    #[test]
    fn growth_is_read_with_its_period() {
        let read = |text: &str| Growth::parse(text).map(|growth| (growth.part, growth.period));
        assert_eq!(read("5%/month"), Some((0.05, "month")));
        assert_eq!((read("40"), read("-3 % / week")), (Some((0.4, "year")), Some((-0.03, "week"))));
        assert_eq!((read("5%/fortnight"), read("much"), read("-100%")), (None, None, None));
    }
}
