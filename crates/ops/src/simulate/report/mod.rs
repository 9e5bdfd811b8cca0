//! Reports of simulations: for a terminal, as JSON, and as one HTML file with plots.
//!
//! Always true: all three tell the same numbers. A percentile is of merged histograms, never a mean of percentiles.
//! Not here: the numbers themselves (`engine::outcome`, `experiment`).

mod html;
mod json;
mod plot;
mod text;

use super::course::Study;
use crate::report::plot::Plot;

/// What is reported: one study, or the chapters of a story.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) title: String,
    pub(super) chapters: Vec<Chapter>,
}

/// A part of a report.
#[derive(Debug)]
pub(super) struct Chapter {
    pub(super) title: String,
    /// What the reader is to know before the numbers.
    pub(super) words: Vec<String>,
    pub(super) part: Part,
}

/// What a chapter shows.
#[derive(Debug)]
pub(super) enum Part {
    Study(Box<Study>),
    /// Several specs side by side, each simulated without a sweep.
    Comparison(Vec<Study>),
    /// Rows of a table that was computed from studies.
    Table {
        heads: Vec<String>,
        rows: Vec<Vec<String>>,
    },
}

impl Report {
    pub(super) fn of_study(study: Study) -> Self {
        let title = study.spec.title.clone();
        let chapter = Chapter { title: title.clone(), words: Vec::new(), part: Part::Study(Box::new(study)) };
        Self { title, chapters: vec![chapter] }
    }

    pub(super) fn studies(&self) -> impl Iterator<Item = &Study> {
        self.chapters.iter().flat_map(|chapter| match &chapter.part {
            Part::Study(study) => std::slice::from_ref(&**study),
            Part::Comparison(studies) => &studies[..],
            Part::Table { .. } => &[],
        })
    }

    pub(super) fn balances(&self) -> bool {
        self.studies().all(Study::balances)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.studies().all(Study::is_complete)
    }

    /// Whether all real runs may be believed.
    pub(super) fn is_valid(&self) -> bool {
        self.studies().flat_map(|study| &study.real).all(super::real::RealRun::is_valid)
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        text::of(self)
    }

    /// For a program.
    pub(super) fn json(&self) -> String {
        json::of(self)
    }

    /// For a browser, without anything from the network.
    pub(super) fn html(&self) -> String {
        html::of(self)
    }
}

/// The plots of a study.
fn plots(study: &Study) -> Vec<Plot> {
    plot::of_study(study)
}
