//! When the resources of a history reach their limits.
//!
//! Always true: a resource of which nothing can be told says why; none is left out.
//! Not here: the law (`forecast`), reading the history (`history`).

use serde_json::{Value, json};

use super::forecast::{Crossing, Forecast};
use super::history::History;
use crate::table::short;

/// A resource and its limits.
#[derive(Clone, Debug)]
pub(crate) struct Outlook {
    pub(crate) resource: String,
    /// What is told, or why nothing is.
    pub(crate) told: Result<Told, String>,
}

/// What is told of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    samples: usize,
    /// How much the trend grows a week.
    trend: f64,
    is_seasonal: bool,
    /// The last day of the history, and the last one that is told.
    now: f64,
    /// The word of a limit, and when it is reached.
    crossings: Vec<(&'static str, Crossing)>,
    /// Whether the law is above the hard limit already.
    pub(crate) is_reached: bool,
}

/// The outlook of each resource.
pub(crate) fn outlooks(history: &History, soft: Option<f64>, hard: f64) -> Vec<Outlook> {
    let outlook = |(resource, samples): &(String, Vec<(f64, f64)>)| Outlook {
        resource: resource.clone(),
        told: Forecast::of(samples).map(|forecast| told(&forecast, samples.len(), soft, hard)),
    };
    history.resources.iter().map(outlook).collect()
}

fn told(forecast: &Forecast, samples: usize, soft: Option<f64>, hard: f64) -> Told {
    let limits = soft.map(|soft| ("soft", soft)).into_iter().chain([("hard", hard)]);
    let crossings: Vec<_> = limits.map(|(word, limit)| (word, forecast.crossing(limit))).collect();
    let now = forecast.last();
    let is_reached = crossings.last().is_some_and(|(_, hard)| hard.expected.is_some_and(|day| day <= now));
    Told { samples, trend: forecast.trend() * 7.0, is_seasonal: forecast.is_seasonal(), now, crossings, is_reached }
}

/// Lines for a person.
pub(crate) fn lines(history: &History, outlooks: &[Outlook]) -> Vec<String> {
    let mut lines = Vec::new();
    for outlook in outlooks {
        let told = match &outlook.told {
            Ok(told) => told,
            Err(why) => {
                lines.push(format!("{}: nothing is told: {why}", outlook.resource));
                continue;
            }
        };
        let season = if told.is_seasonal {
            "with a weekly season"
        } else {
            "without a season (less than two weeks, or rare samples)"
        };
        lines.push(format!(
            "{}: {} samples until {}; the trend is {}{} a week, {season}",
            outlook.resource,
            told.samples,
            history.date(told.now),
            if told.trend < 0.0 { "-" } else { "+" },
            short(told.trend.abs()),
        ));
        for (word, crossing) in &told.crossings {
            lines.push(format!("  {word} limit {}: {}", crossing.limit, when(history, told.now, crossing)));
        }
    }
    lines
}

fn when(history: &History, now: f64, crossing: &Crossing) -> String {
    let date = |day: Option<f64>| day.map(|day| history.date(day));
    if crossing.expected.is_some_and(|day| day <= now) {
        return "reached already".to_owned();
    }
    match (date(crossing.earliest), date(crossing.expected), date(crossing.latest)) {
        (Some(from), Some(at), Some(to)) => format!("about {at}, between {from} and {to} (95 %)"),
        (Some(from), Some(at), None) => format!("about {at}, at the earliest {from} (95 %); it may never be reached"),
        (Some(from), None, _) => format!("perhaps from {from} on (95 %); not expected within three times the history"),
        (None, _, _) => "not within three times the history".to_owned(),
    }
}

/// For a program.
pub(crate) fn json(history: &History, outlooks: &[Outlook]) -> Value {
    let date = |day: Option<f64>| day.map(|day| history.date(day));
    let crossing = |(word, crossing): &(&str, Crossing)| {
        json!({
            "limit": word, "value": crossing.limit, "expected": date(crossing.expected), "earliest": date(crossing.earliest),
            "latest": date(crossing.latest),
        })
    };
    let one = |outlook: &Outlook| match &outlook.told {
        Ok(told) => json!({
            "resource": outlook.resource, "samples": told.samples, "until": history.date(told.now), "trend_per_week": told.trend,
            "is_seasonal": told.is_seasonal, "is_reached": told.is_reached,
            "crossings": told.crossings.iter().map(crossing).collect::<Vec<_>>(),
        }),
        Err(why) => json!({ "resource": outlook.resource, "not_told": why }),
    };
    outlooks.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::history::parse_history;
    use super::*;

    #[test]
    fn each_resource_has_its_dates_or_a_reason() {
        let mut text = "time,cpu,idle,new\n".to_owned();
        for day in 0..56_u32 {
            let weekend = if day % 7 >= 5 { 10.0 } else { 0.0 };
            let noise = f64::from(day * 37 % 11) / 10.0;
            let cpu = 40.0 + 0.5 * f64::from(day) - weekend + noise;
            writeln!(text, "{},{cpu},{},{}", day * 86_400, 5.0 + noise, if day > 52 { "1" } else { "" })
                .expect("a string");
        }
        let history = parse_history(&text).expect("a history");
        let outlooks = outlooks(&history, Some(70.0), 80.0);
        let lines = lines(&history, &outlooks);
        assert!(
            lines[0].contains("cpu: 56 samples until 1970-02-25; the trend is +3.5") && lines[0].contains("weekly"),
            "{lines:#?}"
        );
        assert!(
            lines[1].starts_with("  soft limit 70: about 1970-0")
                && lines[2].starts_with("  hard limit 80: about 1970-03"),
            "{lines:#?}"
        );
        assert!(lines[4].contains("not within three times"), "{lines:#?}");
        assert!(lines.last().expect("lines").contains("new: nothing is told: 3 samples"), "{lines:#?}");
        let json = json(&history, &outlooks);
        assert_eq!((&json[0]["crossings"][1]["limit"], &json[0]["is_reached"]), (&"hard".into(), &false.into()));
    }
}
