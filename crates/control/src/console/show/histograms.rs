//! `SHOW HISTOGRAMS`: how the time of transactions is spread.

use measure::{Histogram, PHASES};
use worker::letters::{Detail, Parts};

use super::pools::all;
use super::view::{MEASURES_PART, Subject, View};
use crate::CONSOLE;
use crate::console::table::{Cell, Column, number, text};

pub(super) const HISTOGRAMS: Subject = Subject {
    name: "HISTOGRAMS",
    doc: "How long the transactions of each pool have lasted since the start, in all and in each phase, in microseconds, to within 5 %. `p99` is the duration that 99 of 100 did not exceed.",
    parts: Parts { measures: Detail::Histograms, ..MEASURES_PART },
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::text("user"),
        Column::text("phase"),
        Column::numeric("count"),
        Column::numeric("sum"),
        Column::numeric("p50"),
        Column::numeric("p90"),
        Column::numeric("p99"),
        Column::numeric("p999"),
        Column::numeric("max"),
    ],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for row in all(view).into_values().filter(|row| *row.database != *CONSOLE) {
        let Some(histograms) = row.measures.as_ref().and_then(|measures| measures.histograms.as_ref()) else {
            continue;
        };
        let mut add = |phase: &str, histogram: &Histogram| {
            let parts = [0.5, 0.9, 0.99, 0.999, 1.0].map(|part| number(histogram.quantile(part)));
            let names = [text(&*row.database), text(&*row.user), text(phase)];
            rows.push(
                names.into_iter().chain([number(histogram.count()), number(histogram.sum())]).chain(parts).collect(),
            );
        };
        add("total", &histograms.total);
        PHASES.iter().for_each(|(phase, name)| add(name, &histograms.of(*phase)));
    }
    rows
}
