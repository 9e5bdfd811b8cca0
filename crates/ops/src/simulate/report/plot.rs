//! What is plotted of a study.
//!
//! Always true: a point has an interval where there are several runs.
//! Not here: drawing it (`report::plot`), the page around it (`html`).

use super::super::course::Study;
use super::super::experiment::{Figures, Point};
use crate::report::plot::{Line, Plot, SHARES};
use crate::table::short;

/// The plots of a study: over what is swept, or over time.
pub(super) fn of_study(study: &Study) -> Vec<Plot> {
    let swept: Vec<(f64, &Point)> = study.points.iter().filter_map(|point| Some((point.x?, point))).collect();
    if swept.len() > 1 && study.paths.len() == 1 {
        return over_sweep(study, &swept);
    }
    study.points.first().filter(|_| study.paths.is_empty()).map(|point| over_time(study, point)).unwrap_or_default()
}

fn over_sweep(study: &Study, points: &[(f64, &Point)]) -> Vec<Plot> {
    let line = |name: &str, figure: fn(&Figures) -> f64, unit: f64| Line {
        name: name.to_owned(),
        points: points.iter().map(|(x, point)| (*x, point.mean(figure) * unit)).collect(),
        band: points
            .iter()
            .filter_map(|(x, point)| point.interval(figure).map(|e| (*x, e.low.max(0.0) * unit, e.high * unit)))
            .collect(),
    };
    let percentile = |name: &str, percentile: f64| Line {
        name: name.to_owned(),
        points: points.iter().map(|(x, point)| (*x, point.total.wait(percentile) * 1e3)).collect(),
        band: Vec::new(),
    };
    let marks: Vec<(f64, String)> =
        study.knee.iter().map(|knee| (knee.at, format!("knee {}", short(knee.at)))).collect();
    let plot = |title: &str, y: &str, lines: Vec<Line>| Plot {
        title: title.to_owned(),
        x: study.paths[0].clone(),
        y: y.to_owned(),
        lines,
        marks: marks.clone(),
        is_log: false,
    };
    vec![
        plot(
            "Disconnections",
            "for each tenant and minute",
            vec![line("all", |f| f.disconnections, 1.0), line("other than for age", |f| f.churn, 1.0)],
        ),
        plot(
            "Processor time of the server",
            "seconds for 1,000 transactions",
            vec![line("CPU", |f| f.cpu_per_thousand, 1.0)],
        ),
        plot(
            "Wait in the pooler",
            "ms",
            vec![percentile("p50", 50.0), percentile("p95", 95.0), percentile("p99", 99.0)],
        ),
        plot("Open servers", "mean", vec![line("open", |f| f.servers_open, 1.0)]),
    ]
}

fn over_time(study: &Study, point: &Point) -> Vec<Plot> {
    let outcome = &point.total;
    let from = study.spec.warm_up as f64 / 1e6;
    let length = (study.spec.duration - study.spec.warm_up) as f64 / 1e6 / outcome.slices.len().max(1) as f64;
    let runs = point.runs.len().max(1) as f64;
    let at = |place: usize| from + (place as f64 + 0.5) * length;
    let slices = || outcome.slices.iter().enumerate();
    let done = slices().map(|(place, slice)| (at(place), slice.done as f64 / length / runs)).collect();
    let waited = slices()
        .filter(|(_, slice)| slice.attached > 0)
        .map(|(place, slice)| (at(place), slice.waited as f64 / 1e3 / slice.attached as f64))
        .collect();
    let marks: Vec<(f64, String)> =
        study.spec.events.iter().map(|event| (event.at as f64 / 1e6, event.what.word().to_owned())).collect();
    let over = |title: &str, y: &str, name: &str, points| Plot {
        title: title.to_owned(),
        x: "seconds".to_owned(),
        y: y.to_owned(),
        lines: vec![Line { name: name.to_owned(), points, band: Vec::new() }],
        marks: marks.clone(),
        is_log: false,
    };
    let curve = |name: &str, times: &crate::load::Times| Line {
        name: name.to_owned(),
        points: SHARES
            .iter()
            .map(|(share, _)| (-(1.0 - share).log10(), super::super::engine::seconds_at(times, share * 100.0) * 1e3))
            .collect(),
        band: Vec::new(),
    };
    let percentiles = Plot {
        title: "Percentiles".to_owned(),
        x: "share of the transactions".to_owned(),
        y: "ms".to_owned(),
        lines: vec![curve("wait in the pooler", &outcome.waits), curve("response", &outcome.responses)],
        marks: Vec::new(),
        is_log: true,
    };
    vec![
        percentiles,
        over("Transactions", "a second", "done", done),
        over("Wait in the pooler", "ms, mean", "wait", waited),
    ]
}
