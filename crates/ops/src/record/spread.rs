//! How the values of one place in a statement are spread, without the values: enough to draw others like them.
//!
//! Always true: no text that was a value is kept, and of numbers two digits at most; memory is bounded, whatever comes.
//! Not here: taking values out of a text (`template`).

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use base::Random;
use serde::{Deserialize, Serialize};

use super::template::Literal;

/// What is known of the values of one place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// How many values were seen.
    seen: u64,
    /// How many of them were NULL.
    nulls: u64,
    /// How many were numbers, or texts that read as whole numbers, as drivers send them.
    numbers: u64,
    /// Whether all numbers were whole.
    are_whole: bool,
    /// Whether all numbers were written without quotes.
    are_bare: bool,
    /// How many different values there were, at least.
    distinct: u64,
    /// The shares of the most frequent values, most frequent first.
    common: Vec<f64>,
    /// Numbers at twenty equal steps from the least to the greatest, rounded to two digits.
    quantiles: Vec<f64>,
    /// Lengths of texts in characters, at twenty equal steps from the shortest to the longest.
    lengths: Vec<f64>,
}

/// Collects the values of one place.
#[derive(Debug)]
pub(super) struct Collector {
    hasher: RandomState,
    seen: u64,
    nulls: u64,
    numbers: Vec<f64>,
    number_count: u64,
    are_whole: bool,
    are_bare: bool,
    lengths: Vec<f64>,
    length_count: u64,
    counts: HashMap<u64, u64>,
    random: Random,
}

impl Default for Collector {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            seen: 0,
            nulls: 0,
            numbers: Vec::new(),
            number_count: 0,
            are_whole: true,
            are_bare: true,
            lengths: Vec::new(),
            length_count: 0,
            counts: HashMap::new(),
            random: Random::new(1),
        }
    }
}

impl Collector {
    /// A value was seen.
    pub(super) fn note(&mut self, value: &Literal) {
        self.seen += 1;
        let text = match value {
            Literal::Null => {
                self.nulls += 1;
                return;
            }
            Literal::Number(text) | Literal::Text(text) | Literal::Other(text) => text,
        };
        let number = match value {
            Literal::Number(text) => text.parse::<f64>().ok(),
            Literal::Text(text) => text.parse::<i64>().ok().map(|number| number as f64),
            _ => None,
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => {
                self.number_count += 1;
                self.are_whole &= number.fract() == 0.0;
                self.are_bare &= matches!(value, Literal::Number(_));
                sample(&mut self.numbers, self.number_count, number, &mut self.random);
            }
            None => {
                self.length_count += 1;
                let length = text.chars().count() as f64;
                sample(&mut self.lengths, self.length_count, length, &mut self.random);
            }
        }
        let hash = self.hasher.hash_one(text);
        if self.counts.len() < DISTINCT_MAX || self.counts.contains_key(&hash) {
            *self.counts.entry(hash).or_default() += 1;
        }
    }

    pub(super) fn spread(&self) -> Spread {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let values = (self.seen - self.nulls).max(1) as f64;
        let common = counts.iter().take(COMMON_MAX).filter(|count| **count > 1).map(|count| *count as f64 / values);
        Spread {
            seen: self.seen,
            nulls: self.nulls,
            numbers: self.number_count,
            are_whole: self.are_whole,
            are_bare: self.are_bare,
            distinct: counts.len() as u64,
            common: common.collect(),
            quantiles: steps(&self.numbers).into_iter().map(two_digits).collect(),
            lengths: steps(&self.lengths),
        }
    }
}

impl Spread {
    /// Draws a value like those that were seen, as SQL writes it. Values that were frequent are as frequent again.
    pub(crate) fn draw(&self, random: &mut Random) -> String {
        if part(random) * (self.seen as f64) < self.nulls as f64 {
            return "NULL".to_owned();
        }
        let mut at = part(random);
        for (rank, share) in self.common.iter().enumerate() {
            if at < *share {
                // The same value each time, which the rank decides.
                return self.fresh(&mut Random::new(rank as u64 + 1));
            }
            at -= share;
        }
        self.fresh(random)
    }

    fn fresh(&self, random: &mut Random) -> String {
        let values = (self.seen - self.nulls.min(self.seen)).max(1) as f64;
        if part(random) * values < self.numbers as f64 {
            let number = between(&self.quantiles, part(random));
            let digits = if self.are_whole { format!("{number:.0}") } else { number.to_string() };
            // Where a number stood a text may be refused (`LIMIT '2'`, `balance + '2'`), and the other way round.
            return if self.are_bare { digits } else { format!("'{digits}'") };
        }
        let length = between(&self.lengths, part(random)).round().clamp(0.0, LENGTH_MAX) as usize;
        let letter = |random: &mut Random| char::from(b'a' + (random.next_u64() % 26) as u8);
        let text: String = (0..length).map(|_| letter(random)).collect();
        format!("'{text}'")
    }
}

/// Keeps a fair sample of what has come.
fn sample(kept: &mut Vec<f64>, count: u64, value: f64, random: &mut Random) {
    if kept.len() < SAMPLE {
        kept.push(value);
        return;
    }
    let place = (random.next_u64() % count) as usize;
    if let Some(kept) = kept.get_mut(place) {
        *kept = value;
    }
}

/// The values at equal steps from the least to the greatest.
fn steps(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    (0..=STEPS).map(|step| sorted[last * step / STEPS]).collect()
}

/// The value at a part, from 0 to 1, of equal steps.
fn between(steps: &[f64], part: f64) -> f64 {
    let Some(last) = steps.len().checked_sub(1).filter(|last| *last > 0) else {
        return steps.first().copied().unwrap_or(0.0);
    };
    let at = part * last as f64;
    let place = (at as usize).min(last - 1);
    steps[place] + (steps[place + 1] - steps[place]) * (at - place as f64)
}

/// Rounded to two digits, so that no number that was a value is kept.
fn two_digits(number: f64) -> f64 {
    if number.abs() < 10.0 {
        return number.round();
    }
    let unit = 10_f64.powf(number.abs().log10().floor() - 1.0);
    (number / unit).round() * unit
}

fn part(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

const STEPS: usize = 20;
const SAMPLE: usize = 2000;
const DISTINCT_MAX: usize = 4096;
const COMMON_MAX: usize = 16;
const LENGTH_MAX: f64 = 4096.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = Literal>) -> Spread {
        let mut collector = Collector::default();
        values.into_iter().for_each(|value| collector.note(&value));
        collector.spread()
    }

    fn drawn(spread: &Spread, count: usize) -> Vec<String> {
        let mut random = Random::new(9);
        (0..count).map(|_| spread.draw(&mut random)).collect()
    }

    #[test]
    fn numbers_are_drawn_from_where_they_were() {
        let spread = of((1000..2000).map(|number| Literal::Number(number.to_string())));
        for value in drawn(&spread, 500) {
            let number: i64 = value.parse().expect("a whole number without quotes");
            assert!((1000..=2000).contains(&number), "{number}");
        }
        assert_eq!(spread.distinct, 1000);
    }

    #[test]
    fn what_was_frequent_is_frequent() {
        let value = |n: u32| Literal::Text(if n.is_multiple_of(2) { "the one".into() } else { format!("other {n}") });
        let spread = of((0..1000).map(value));
        let drawn = drawn(&spread, 1000);
        let mut counts = HashMap::<&String, usize>::new();
        drawn.iter().for_each(|value| *counts.entry(value).or_default() += 1);
        let most = counts.values().max().copied().unwrap_or_default();
        assert!((450..550).contains(&most), "{most}");
    }

    #[test]
    fn null_keeps_its_share() {
        let spread = of((0..100).map(|n| if n < 30 { Literal::Null } else { Literal::Number("7".into()) }));
        let nulls = drawn(&spread, 1000).iter().filter(|value| *value == "NULL").count();
        assert!((250..350).contains(&nulls), "{nulls}");
    }

    /// Neither texts nor whole numbers of more than two digits are in what is written.
    #[test]
    fn no_secret_is_kept() {
        let secrets = ["topsecret", "4111111111111111", "hunter2", "1234"];
        let values = secrets.map(|secret| match secret.parse::<i64>() {
            Ok(_) => Literal::Number(secret.into()),
            Err(_) => Literal::Text(secret.into()),
        });
        let written = serde_json::to_string(&of(values)).expect("JSON");
        for secret in secrets {
            assert!(!written.contains(secret), "{secret} in {written}");
        }
    }

    #[test]
    fn a_flood_of_values_is_bounded() {
        let mut collector = Collector::default();
        (0..50_000).for_each(|n| collector.note(&Literal::Text(format!("value {n}"))));
        assert!(collector.counts.len() <= DISTINCT_MAX && collector.lengths.len() <= SAMPLE);
    }
}
