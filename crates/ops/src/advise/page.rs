//! Advice for a browser: one HTML file.
//!
//! Always true: the file needs nothing else; what comes from elsewhere is escaped; it says what the text says (`words`).
//! Not here: the words, drawing (`report::plot`).

use std::fmt::Write as _;

use super::Advice;
use super::candidates::{Candidate, Decision, Side, Verdict};
use super::rehearsal::ApplyCheck;
use super::words::{self, number};
use crate::report::plot::{Line, Plot, escaped, figure, page};

/// The advice as HTML.
pub(crate) fn html(advice: &Advice) -> String {
    let mut body = format!("<h1>{}</h1>\n<p>{}</p>\n", escaped(&advice.title()), escaped(&advice.verdict()));
    if let Some(plot) = advice.check.as_ref().and_then(tried) {
        body += &figure(&plot);
    }
    let sizes = &advice.sizes;
    let pools = advice.shown_pools().into_iter();
    for decision in pools.chain([&sizes.at_work, &sizes.total]).chain(&advice.others) {
        decided(&mut body, decision);
    }
    // Writing to a string cannot fail.
    let _ = writeln!(body, "<h2>As text</h2>\n<pre>{}</pre>", escaped(&words::text(advice)));
    page("advice", &body)
}

/// A decision as a table of its candidates, the binding ones in bold.
fn decided(body: &mut String, decision: &Decision) {
    let value = match &decision.verdict {
        Verdict::Chosen { value, .. } => number(*value, decision.unit),
        Verdict::NoSizeWorks { .. } => "no size works".to_owned(),
        Verdict::NotConcluded { needs } => format!("not concluded: {needs}"),
    };
    let title = format!("{} of {}: {value}", decision.setting, decision.subject);
    let heads = "<tr><th>bound</th><th>value</th><th>name</th><th>formula</th><th>measured</th></tr>";
    let _ = writeln!(body, "<h2>{}</h2>\n<table>{heads}", escaped(&title));
    for candidate in &decision.candidates {
        let is_binding = match &decision.verdict {
            Verdict::Chosen { binding, .. } => candidate.name == *binding,
            Verdict::NoSizeWorks { floor_by, ceiling_by, .. } => [*floor_by, *ceiling_by].contains(&candidate.name),
            Verdict::NotConcluded { .. } => false,
        };
        row(body, decision, candidate, is_binding);
    }
    body.push_str("</table>\n");
}

fn row(body: &mut String, decision: &Decision, candidate: &Candidate, is_binding: bool) {
    let side = match (candidate.side, candidate.is_counted) {
        (Side::Floor, true) => "floor",
        (Side::Ceiling, true) => "ceiling",
        _ => "compare",
    };
    let value = candidate.value.map_or_else(|| "-".to_owned(), |value| number(value, decision.unit));
    let name = escaped(candidate.name);
    let name = if is_binding { format!("<b>{name}</b>, binds") } else { name };
    let [formula, measured] = [&candidate.formula, &candidate.measured].map(|text| escaped(text));
    let cells = [side, &escaped(&value), &name, &formula, &measured].map(|cell| format!("<td>{cell}</td>"));
    let _ = writeln!(body, "<tr>{}</tr>", cells.concat());
}

/// The sizes that were tried around the recommended one.
fn tried(check: &ApplyCheck) -> Option<Plot> {
    let points = |of: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        (0..check.tried.len()).map(|at| (f64::from(check.tried[at].servers), of(at))).collect()
    };
    let line = |name: &str, points| Line { name: name.to_owned(), points, band: Vec::new() };
    let chosen = check.tried.iter().find(|tried| tried.factor == 1.0)?;
    Some(Plot {
        title: "Sizes around the recommended one, tried".to_owned(),
        x: "servers".to_owned(),
        y: "transactions a second".to_owned(),
        lines: vec![
            line("answered", points(&|at| check.tried[at].performance.throughput)),
            line("within the objective", points(&|at| check.tried[at].performance.good)),
        ],
        marks: vec![(f64::from(chosen.servers), "recommended".to_owned())],
        is_log: false,
    })
}
