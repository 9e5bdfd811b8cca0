//! Plots as inline SVG, and the page around them.
//!
//! Always true: a plot is complete in itself: no script, no font, nothing from the network. All texts are escaped.
//! Not here: what is plotted (the commands).

use std::fmt::Write as _;

/// A plot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) lines: Vec<Line>,
    /// Places on the x axis with a word.
    pub(crate) marks: Vec<(f64, String)>,
    /// Whether the x axis is of shares, which come closer to 1 step by step.
    pub(crate) is_log: bool,
}

/// A line of a plot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Where an interval begins and ends.
    pub(crate) band: Vec<(f64, f64, f64)>,
}

impl Plot {
    /// The plot as an SVG element.
    pub(crate) fn svg(&self) -> String {
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
    crate::simulate::plain((value * 1e6).round() / 1e6)
}

/// Text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page with this title.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escaped(title)
    )
}

/// A plot with its title.
pub(crate) fn figure(plot: &Plot) -> String {
    format!("<figure><figcaption>{}</figcaption>{}</figure>\n", escaped(&plot.title), plot.svg())
}

/// The shares of a percentile plot, with their labels.
pub(crate) const SHARES: [(f64, &str); 9] = [
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

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
figure{margin:1.5rem 0}figcaption{font-weight:600}svg{width:100%;height:auto}pre{overflow-x:auto;font-size:12px}\
text{font-size:11px;fill:#555}.axes line{stroke:#e3e3e3}.mark{stroke:#999;stroke-dasharray:4 3}\
polyline{fill:none;stroke-width:1.8}.c0{stroke:#1f5fa8}.c1{stroke:#c2571a}.c2{stroke:#2f8f4e}\
circle.c0,.band.c0,text.c0{fill:#1f5fa8}circle.c1,.band.c1,text.c1{fill:#c2571a}circle.c2,.band.c2,text.c2{fill:#2f8f4e}\
.band{opacity:.15;stroke:none}text.name{stroke:none}";
