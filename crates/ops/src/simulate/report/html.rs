//! The report as one HTML file.
//!
//! Always true: the file needs nothing else: no script, no network. What comes from a spec is escaped.
//! Not here: the plots (`plot`), the words and tables (`text`).

use super::plot::escaped;
use super::{Part, Report, plots, text};

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
            body += &format!("<figure><figcaption>{}</figcaption>{}</figure>\n", escaped(&plot.title), plot.svg());
        }
        body += &format!("<pre>{}</pre>\n", escaped(&text::of_chapter(chapter)));
    }
    body += &format!("<p>{}</p>\n", escaped(&text::books(report)));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escaped(&report.title)
    )
}

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
figure{margin:1.5rem 0}figcaption{font-weight:600}svg{width:100%;height:auto}pre{overflow-x:auto;font-size:12px}\
text{font-size:11px;fill:#555}.axes line{stroke:#e3e3e3}.mark{stroke:#999;stroke-dasharray:4 3}\
polyline{fill:none;stroke-width:1.8}.c0{stroke:#1f5fa8}.c1{stroke:#c2571a}.c2{stroke:#2f8f4e}\
circle.c0,.band.c0,text.c0{fill:#1f5fa8}circle.c1,.band.c1,text.c1{fill:#c2571a}circle.c2,.band.c2,text.c2{fill:#2f8f4e}\
.band{opacity:.15;stroke:none}text.name{stroke:none}";
