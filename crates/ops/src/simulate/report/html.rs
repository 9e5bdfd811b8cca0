//! The report as one HTML file.
//!
//! Always true: the file needs nothing else: no script, no network. What comes from a spec is escaped.
//! Not here: the plots (`plot`), the words and tables (`text`).

use super::{Part, Report, plots, text};
use crate::report::plot::{escaped, figure, page};

pub(super) fn of(report: &Report) -> String {
    let mut body = format!("<h1>{}</h1>\n", escaped(&report.title));
    for chapter in &report.chapters {
        let studies: Vec<_> = match &chapter.part {
            Part::Study(study) => vec![&**study],
            Part::Comparison(_) | Part::Table { .. } => Vec::new(),
        };
        if report.chapters.len() > 1 {
            body += &format!("<h2>{}</h2>\n", escaped(&chapter.title));
        }
        for plot in studies.into_iter().flat_map(plots) {
            body += &figure(&plot);
        }
        body += &format!("<pre>{}</pre>\n", escaped(&text::of_chapter(chapter)));
    }
    body += &format!("<p>{}</p>\n", escaped(&text::books(report)));
    page(&report.title, &body)
}
