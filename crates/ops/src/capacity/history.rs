//! Reads a history of loads: a table of times and values, one column for each resource.
//!
//! Always true: a line that is not understood is told with its number; times must ascend, and a value that is missing is left out.
//! Not here: what follows (`forecast`).

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// A history.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct History {
    /// The midnight (UTC) before it begins, in seconds since 1970.
    pub(crate) begin: f64,
    /// Resources with their samples: days since that midnight, and values.
    pub(crate) resources: Vec<(String, Vec<(f64, f64)>)>,
}

/// Reads `time,NAME,NAME...` and its lines; without such a head the columns are named by their numbers.
///
/// # Errors
/// A line is not understood; the text is for a person.
pub(crate) fn parse_history(text: &str) -> Result<History, String> {
    let mut resources: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut begin: Option<f64> = None;
    let mut last = f64::NEG_INFINITY;
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut cells = line.split([',', ';', '\t']).map(|cell| cell.trim().trim_matches('"'));
        let time = cells.next().unwrap_or_default();
        let Some(at) = time_of(time) else {
            if begin.is_none() && resources.is_empty() {
                resources = cells.take(RESOURCES_MAX).map(|name| (name.to_owned(), Vec::new())).collect();
                continue;
            }
            return Err(wrong(&format!(
                "\"{time}\" is no time: seconds since 1970, a date, or a date and a time are wanted"
            )));
        };
        if at <= last {
            return Err(wrong("its time is not after the one before"));
        }
        last = at;
        let begin = *begin.get_or_insert((at / DAY).floor() * DAY);
        for (place, cell) in cells.take(RESOURCES_MAX).enumerate() {
            if place >= resources.len() {
                resources.push((format!("column {}", place + 2), Vec::new()));
            }
            if cell.is_empty() {
                continue;
            }
            let value: f64 =
                cell.trim_end_matches('%').trim().parse().map_err(|_| wrong(&format!("\"{cell}\" is no number")))?;
            if !value.is_finite() {
                return Err(wrong(&format!("\"{cell}\" is no number")));
            }
            resources[place].1.push(((at - begin) / DAY, value));
        }
        if resources.iter().any(|(_, samples)| samples.len() > SAMPLES_MAX) {
            return Err(wrong(&format!("more than {SAMPLES_MAX} samples")));
        }
    }
    match begin {
        Some(begin) => Ok(History { begin, resources }),
        None => Err("there is no sample in it".to_owned()),
    }
}

impl History {
    /// The date of a day of a sample.
    pub(crate) fn date(&self, day: f64) -> String {
        let seconds = self.begin + day * DAY;
        let time = Timestamp::from_second(seconds as i64).map(|time| time.to_zoned(TimeZone::UTC).date().to_string());
        time.unwrap_or_else(|_| format!("in {day:.0} days"))
    }
}

fn time_of(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds.is_finite().then_some(seconds);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_second() as f64);
    }
    let civil = text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(DateTime::from))?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second() as f64)
}

const DAY: f64 = 86_400.0;
const RESOURCES_MAX: usize = 1000;
/// Twenty years of hours.
const SAMPLES_MAX: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_dates_or_both() {
        let text = "time,cpu,connections\n2026-01-01,40%,7\n2026-01-02 12:00:00,41,\n2026-01-03T00:00:00Z,42,9\n";
        let history = parse_history(text).expect("a history");
        assert_eq!(history.resources[0], ("cpu".to_owned(), vec![(0.0, 40.0), (1.5, 41.0), (2.0, 42.0)]));
        assert_eq!(history.resources[1].1, [(0.0, 7.0), (2.0, 9.0)]);
        assert_eq!((&*history.date(31.0), &*history.date(0.0)), ("2026-02-01", "2026-01-01"));
        let plain = parse_history("0 ,1\n86400,2\n").expect("a history");
        assert_eq!(plain.resources, [("column 2".to_owned(), vec![(0.0, 1.0), (1.0, 2.0)])]);
    }

    #[test]
    fn what_is_not_understood_is_told_with_its_line() {
        for (text, part) in [
            ("", "no sample"),
            ("time,a\n1,2\nsoon,3\n", "line 3: \"soon\" is no time"),
            ("1,2\n1,3\n", "line 2: its time"),
            ("1,many\n", "line 1: \"many\" is no number"),
            ("1,NaN\n", "no number"),
        ] {
            let why = parse_history(text).expect_err(text);
            assert!(why.contains(part), "{why}");
        }
    }
}
