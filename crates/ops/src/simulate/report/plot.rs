//! Plots as inline SVG.
//!
//! Always true: a plot is complete in itself: no script, no font, nothing from the network. Texts of a spec are escaped.
//! Not here: the page around it (`html`).

use std::fmt::Write as _;

use super::super::course::Study;
use super::super::experiment::{Figures, Point};
use crate::table::short;

/// A plot.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    x: String,
    y: String,
    lines: Vec<Line>,
    /// Places on the x axis with a word.
    marks: Vec<(f64, String)>,
    is_log: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    /// Where an interval begins and ends.
    band: Vec<(f64, f64, f64)>,
}

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

impl Plot {
    /// The plot as an SVG element.
    pub(super) fn svg(&self) -> String {
        let frame = Frame::of(self);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDE} {HIGH}\" role=\"img\" aria-label=\"{}\"><g class=\"axes\">",
            escaped(&self.title)
        );
        self.axes(&frame, &mut svg);
        svg.push_str("</g>");
        for (place, line) in self.lines.iter().enumerate() {
            draw(line, place, &frame, &mut svg);
        }
        for (x, word) in &self.marks {
            let x = frame.x(*x);
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                HIGH - BOTTOM,
                x + 4.0,
                TOP + 10.0,
                escaped(word)
            );
        }
        svg + "</svg>"
    }

    fn axes(&self, frame: &Frame, svg: &mut String) {
        let bottom = HIGH - BOTTOM;
        for y in ticks(frame.y_max) {
            let at = frame.y(y);
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDE - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                number(y)
            );
        }
        let labels: Vec<(f64, String)> = match self.is_log {
            true => SHARES.iter().map(|(share, label)| (-(1.0 - share).log10(), (*label).to_owned())).collect(),
            false => {
                let step = step_of(frame.x_max - frame.x_min);
                let first = (frame.x_min / step).ceil() as i64;
                let last = (frame.x_max / step + 1e-9).floor() as i64;
                (first..=last.min(first + 40)).map(|n| (n as f64 * step, number(n as f64 * step))).collect()
            }
        };
        for (x, label) in labels {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                frame.x(x),
                bottom + 16.0
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text x=\"{LEFT}\" y=\"14\">{}</text>",
            f64::midpoint(LEFT, WIDE - RIGHT),
            HIGH - 6.0,
            escaped(&self.x),
            escaped(&self.y)
        );
    }
}

fn draw(line: &Line, place: usize, frame: &Frame, svg: &mut String) {
    if line.band.len() > 1 {
        let high = line.band.iter().map(|(x, _, high)| (*x, *high));
        let low = line.band.iter().rev().map(|(x, low, _)| (*x, *low));
        let _ = write!(svg, "<polygon class=\"band c{place}\" points=\"{}\"/>", frame.path(high.chain(low)));
    }
    let _ = write!(svg, "<polyline class=\"c{place}\" points=\"{}\"/>", frame.path(line.points.iter().copied()));
    if line.points.len() <= DOTS_MAX {
        for (x, y) in &line.points {
            let _ = write!(
                svg,
                "<circle class=\"c{place}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
                frame.x(*x),
                frame.y(*y)
            );
        }
    }
    let at = TOP + 12.0 + 16.0 * place as f64;
    let _ = write!(
        svg,
        "<text class=\"name c{place}\" x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>",
        WIDE - RIGHT,
        escaped(&line.name)
    );
}

/// From values to places on the page.
struct Frame {
    x_min: f64,
    x_max: f64,
    y_max: f64,
}

impl Frame {
    fn of(plot: &Plot) -> Self {
        let points = || plot.lines.iter().flat_map(|line| &line.points);
        let x_min = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let x_max = points().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
        let bands = plot.lines.iter().flat_map(|line| &line.band).map(|(_, _, high)| *high);
        let y_max = points().map(|(_, y)| *y).chain(bands).fold(0.0, f64::max);
        let is_there = x_min.is_finite() && x_max > x_min;
        let (x_min, x_max) = if is_there { (x_min, x_max) } else { (0.0, 1.0) };
        Self { x_min, x_max, y_max: if y_max > 0.0 { y_max * 1.05 } else { 1.0 } }
    }

    fn x(&self, x: f64) -> f64 {
        LEFT + (x - self.x_min) / (self.x_max - self.x_min) * (WIDE - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HIGH - BOTTOM - y / self.y_max * (HIGH - TOP - BOTTOM)
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        points.map(|(x, y)| format!("{:.1},{:.1}", self.x(x), self.y(y))).collect::<Vec<_>>().join(" ")
    }
}

/// Round numbers from 0 up to this.
fn ticks(most: f64) -> Vec<f64> {
    let step = step_of(most);
    (0..=20).map(|n| f64::from(n) * step).take_while(|tick| *tick <= most).collect()
}

/// A round number of which some five fit.
fn step_of(span: f64) -> f64 {
    let rough = (span / 5.0).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|round| round * power).into_iter().find(|step| *step >= rough).unwrap_or(power)
}

fn number(value: f64) -> String {
    super::super::sweep::plain((value * 1e6).round() / 1e6)
}

/// Text for HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The shares of a percentile plot, with their labels.
const SHARES: [(f64, &str); 9] = [
    (0.0, "0"),
    (0.5, "50 %"),
    (0.75, ""),
    (0.9, "90 %"),
    (0.95, ""),
    (0.99, "99 %"),
    (0.995, ""),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
];
const WIDE: f64 = 720.0;
const HIGH: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 40.0;
/// More dots than this are a smear.
const DOTS_MAX: usize = 60;
