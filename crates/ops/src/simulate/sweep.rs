//! Sweeps: which value of a spec is varied, and over which values.
//!
//! Always true: a sweep has at least one value and at most [`VALUES_MAX`].
//! Not here: running them (`experiment`).

/// A value of the spec that is varied.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sweep {
    pub(crate) path: String,
    pub(crate) values: Vec<String>,
}

impl Sweep {
    /// Reads `PATH=0.5..4`, `PATH=1..9:2` or `PATH=a,b,c`.
    ///
    /// # Errors
    /// The text is none of these; the error is for who typed it.
    pub(crate) fn parse(written: &str) -> Result<Self, String> {
        let wanted = || format!("\"{written}\": PATH=FROM..TO, PATH=FROM..TO:STEP or PATH=VALUE,VALUE,... is wanted");
        let (path, values) = written.split_once('=').ok_or_else(wanted)?;
        let (path, values) = (path.trim().to_owned(), values.trim());
        if path.is_empty() || values.is_empty() {
            return Err(wanted());
        }
        let Some((from, rest)) = values.split_once("..") else {
            let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
            return Self { path, values }.checked(written);
        };
        let (to, step) = rest.split_once(':').map_or((rest, None), |(to, step)| (to, Some(step)));
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let (from, to) = (number(from).ok_or_else(wanted)?, number(to).ok_or_else(wanted)?);
        let are_whole = from.fract() == 0.0 && to.fract() == 0.0;
        let step = match step {
            Some(step) => number(step).filter(|step| *step > 0.0).ok_or_else(wanted)?,
            None if are_whole && to - from >= POINTS => ((to - from) / POINTS).round().max(1.0),
            None if are_whole && to - from > 5.0 => 1.0,
            None => (to - from) / POINTS,
        };
        if to <= from || (to - from) / step > VALUES_MAX as f64 {
            return Err(format!("\"{written}\": 2 to {VALUES_MAX} ascending values are wanted"));
        }
        let steps = ((to - from) / step + 1e-9).floor() as u32;
        let values = (0..=steps).map(|step_number| plain(from + f64::from(step_number) * step)).collect();
        Self { path, values }.checked(written)
    }

    fn checked(self, written: &str) -> Result<Self, String> {
        match self.values.len() {
            1..=VALUES_MAX => Ok(self),
            _ => Err(format!("\"{written}\": at most {VALUES_MAX} values are wanted")),
        }
    }

    /// The values as numbers, if all of them are and they ascend.
    pub(crate) fn numbers(&self) -> Option<Vec<f64>> {
        let numbers: Vec<f64> = self.values.iter().map(|value| value.parse().ok()).collect::<Option<_>>()?;
        numbers.windows(2).all(|pair| pair[0] < pair[1]).then_some(numbers)
    }
}

/// A number without the noise of its last digits.
pub(crate) fn plain(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

const VALUES_MAX: usize = 10_000;
/// The steps of a range that says none.
const POINTS: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists_are_read() {
        let values = |text: &str| Sweep::parse(text).map(|sweep| sweep.values.join(" "));
        assert_eq!(values("a.b=1,2, x"), Ok("1 2 x".to_owned()));
        assert_eq!(values("n=1..9:2"), Ok("1 3 5 7 9".to_owned()));
        assert_eq!(values("n=0.5..4:0.5"), Ok("0.5 1 1.5 2 2.5 3 3.5 4".to_owned()));
        assert_eq!(
            Sweep::parse("n=0.5..4").map(|sweep| (sweep.values.len(), sweep.values[14].clone())),
            Ok((15, "4".to_owned()))
        );
        assert_eq!(values("n=1..8"), Ok("1 2 3 4 5 6 7 8".to_owned()));
        for wrong in ["n", "=1", "n=", "n=4..1", "n=1..2:0", "n=a..b", "n=1..1000000:1"] {
            assert!(Sweep::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Sweep::parse("n=1,2,3").map(|sweep| sweep.numbers().is_some()), Ok(true));
        assert_eq!(Sweep::parse("n=1,x").map(|sweep| sweep.numbers().is_some()), Ok(false));
    }
}
