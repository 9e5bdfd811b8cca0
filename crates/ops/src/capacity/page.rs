//! The report for a browser: one HTML file with plots.
//!
//! Always true: the file needs nothing else; what comes from elsewhere is escaped.
//! Not here: the words (`words`), drawing (`report::plot`).

use super::course::Report;
use super::measure::Measurement;
use super::scaling::Scaling;
use super::search::Search;
use super::step::{Phase, Step};
use super::words;
use crate::report::plot::{Line, Plot, escaped, figure, page};
use crate::table::short;

/// The report as HTML.
pub(crate) fn html(report: &Report) -> String {
    let title = report
        .measurement
        .as_ref()
        .map_or("capacity".to_owned(), |measured| format!("capacity of {}", measured.target));
    let mut body = format!("<h1>{}</h1>\n", escaped(&title));
    if let Some(measured) = &report.measurement {
        plots(measured).iter().for_each(|plot| body += &figure(plot));
    }
    body += &format!("<pre>{}</pre>\n", escaped(&words::text(report)));
    page(&title, &body)
}

fn plots(measured: &Measurement) -> Vec<Plot> {
    let mut plots = Vec::new();
    if let Some(search) = &measured.search {
        let steps = ascending(search);
        if steps.len() > 1 {
            plots.push(latency(measured, &steps));
            plots.extend(split(measured, &steps));
        }
    }
    plots.extend(measured.scaling.as_ref().filter(|scaling| scaling.points.len() > 1).map(scalability));
    plots
}

fn ascending(search: &Search) -> Vec<&Step> {
    let of_curve = |step: &&Step| step.void.is_none() && !matches!(step.phase, Phase::Recovery | Phase::Descent);
    let mut steps: Vec<&Step> = search.steps().iter().map(|(step, _)| step).filter(of_curve).collect();
    steps.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    steps
}

/// Response times over loads. Far above the objective a curve says nothing, and would flatten the rest.
fn latency(measured: &Measurement, steps: &[&Step]) -> Plot {
    let most = measured.slo.seconds * CEILING;
    let line = |name: &str, percentile: f64| Line {
        name: name.to_owned(),
        points: steps.iter().map(|step| (step.offered, step.at(percentile).min(most) * 1e3)).collect(),
        band: Vec::new(),
    };
    let objective = Line {
        name: format!("objective p{}", measured.slo.percentile),
        points: [steps.first(), steps.last()]
            .into_iter()
            .flatten()
            .map(|step| (step.offered, measured.slo.seconds * 1e3))
            .collect(),
        band: Vec::new(),
    };
    let mut lines =
        vec![line("p50", 50.0), line(&format!("p{}", measured.slo.percentile), measured.slo.percentile), objective];
    if let Some(knee) = &measured.knee {
        // The interval of the knee, as high as the plot.
        lines[1].band = vec![
            (knee.rate.low, 0.0, most.min(measured.slo.seconds) * 1e3),
            (knee.rate.high.min(steps[steps.len() - 1].offered), 0.0, measured.slo.seconds * 1e3),
        ];
    }
    Plot {
        title: "Response times over load".to_owned(),
        x: "requests offered a second".to_owned(),
        y: "ms".to_owned(),
        lines,
        marks: measured.knee.iter().map(|knee| (knee.rate.value, format!("knee {}", short(knee.rate.value)))).collect(),
        is_log: false,
    }
}

/// Where the mean response time goes, if the pooler tells.
fn split(measured: &Measurement, steps: &[&Step]) -> Option<Plot> {
    let most = measured.slo.seconds * CEILING;
    let told: Vec<(f64, f64, f64)> =
        steps.iter().filter_map(|step| Some((step.offered, step.service?, step.wait()?))).collect();
    let line = |name: &str, of: fn(&(f64, f64, f64)) -> f64| Line {
        name: name.to_owned(),
        points: told.iter().map(|point| (point.0, of(point).min(most) * 1e3)).collect(),
        band: Vec::new(),
    };
    (told.len() > 1).then(|| Plot {
        title: "Service and wait".to_owned(),
        x: "requests offered a second".to_owned(),
        y: "ms, mean".to_owned(),
        lines: vec![line("with a server", |point| point.1), line("waiting", |point| point.2)],
        marks: measured.knee.iter().map(|knee| (knee.rate.value, "knee".to_owned())).collect(),
        is_log: false,
    })
}

fn scalability(scaling: &Scaling) -> Plot {
    let points: Vec<(f64, f64)> =
        scaling.points.iter().map(|closed| (f64::from(closed.clients), closed.throughput)).collect();
    let mut lines = vec![Line { name: "measured".to_owned(), points: points.clone(), band: Vec::new() }];
    let last = points.iter().map(|point| point.0).fold(1.0, f64::max);
    if let Ok(fit) = &scaling.fit {
        let at: Vec<f64> =
            (0..=POINTS).map(|place| 1.0 + (last - 1.0) * f64::from(place) / f64::from(POINTS)).collect();
        // What each point may be off by.
        let spread = |x: f64| {
            fit.residual_error
                * scaling
                    .points
                    .iter()
                    .map(|closed| closed.error.max(closed.throughput * 0.01))
                    .fold(0.0, f64::max)
                    .min(x)
        };
        lines.push(Line {
            name: "law".to_owned(),
            points: at.iter().map(|n| (*n, fit.usl.at(*n))).collect(),
            band: at
                .iter()
                .map(|n| (*n, fit.usl.at(*n) - spread(fit.usl.at(*n)), fit.usl.at(*n) + spread(fit.usl.at(*n))))
                .collect(),
        });
    }
    Plot {
        title: "Scalability".to_owned(),
        x: "clients".to_owned(),
        y: "answers a second".to_owned(),
        lines,
        marks: scaling.peak.iter().map(|peak| (peak.value, format!("highest {}", short(peak.value)))).collect(),
        is_log: false,
    }
}

/// Times above so many objectives are drawn there.
const CEILING: f64 = 3.0;
const POINTS: u32 = 60;
