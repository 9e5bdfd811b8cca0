//! Findings as one HTML file.
//!
//! Always true: the page needs no network, no script and no other file, and forbids its browser all three; whatever a file says is shown as text.
//! Not here: plots.

use std::fmt::{self, Write as _};

use crate::findings::{Finding, Findings, Measured, Severity};

/// The report.
pub(super) fn text(command: &str, findings: &Findings) -> String {
    let mut page = format!("{HEAD}<title>trunkline {0}</title>\n<h1>trunkline {0}</h1>\n", Escaped(command));
    // Writing to a string cannot fail.
    let _ = writeln!(page, "<p>{}</p>\n{}", Escaped(&findings.summary()), shares(findings));
    if !findings.examined.is_empty() {
        page.push_str("<ul>\n");
        for file in &findings.examined {
            let _ = writeln!(page, "<li><code>{}</code>: {}</li>", Escaped(&file.file), Escaped(&file.kind));
        }
        page.push_str("</ul>\n");
    }
    findings.found.iter().for_each(|finding| told(&mut page, finding, None));
    if !findings.muted.is_empty() {
        page.push_str("<h2>Muted</h2>\n");
        findings.muted.iter().for_each(|muted| told(&mut page, &muted.finding, Some(&muted.reason)));
    }
    findings.measured.iter().for_each(|one| measured(&mut page, one));
    if !findings.unevaluated.is_empty() {
        page.push_str("<h2>Not evaluated</h2>\n<table>\n<tr><th>rule<th>what it judges<th>needs<th>known</tr>\n");
        for one in &findings.unevaluated {
            let known = one.known.as_deref().unwrap_or_default();
            let _ = writeln!(
                page,
                "<tr><td>{}<td>{}<td>{}<td>{}</tr>",
                one.rule,
                Escaped(one.title),
                Escaped(&one.needs),
                Escaped(known)
            );
        }
        page.push_str("</table>\n");
    }
    if !findings.good.is_empty() {
        let _ = writeln!(page, "<h2>Good</h2>\n<p>{}</p>", findings.good.join(", "));
    }
    page
}

fn told(page: &mut String, finding: &Finding, reason: Option<&str>) {
    let Finding { rule, severity, title, subject, evidence, formula, advice, source } = finding;
    let class = if reason.is_some() { "muted" } else { severity.word(1) };
    let name = if subject.name.is_empty() { String::new() } else { format!(" ({})", subject.name) };
    let _ = write!(
        page,
        "<section class=\"{class}\">\n<h3>{rule} {}{}</h3>\n<p><code>{}</code>\n<p class=\"evidence\">{}\n<p><b>Do:</b> {}\n\
         <p class=\"why\">{} &middot; {}\n",
        Escaped(title),
        Escaped(&name),
        Escaped(&subject.to_string()),
        Escaped(evidence),
        Escaped(advice),
        Escaped(formula),
        Escaped(source)
    );
    if let Some(reason) = reason {
        let _ = writeln!(page, "<p><b>Muted:</b> {}", Escaped(reason));
    }
    page.push_str("</section>\n");
}

/// A table with a bar in each row.
fn measured(page: &mut String, one: &Measured) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "<h2>{}</h2>\n<p>{}</p>\n<table>\n<tr>", Escaped(&one.title), Escaped(&one.note));
    for column in &one.columns {
        let _ = write!(page, "<th>{}", Escaped(column));
    }
    for (cells, share) in &one.rows {
        page.push_str("</tr>\n<tr>");
        for cell in cells {
            let _ = write!(page, "<td>{}", Escaped(cell));
        }
        let wide = share.clamp(0.0, 1.0) * 200.0;
        let _ = write!(
            page,
            "<td><svg width=\"200\" height=\"12\"><rect width=\"{wide:.1}\" height=\"12\" fill=\"#2471a3\"/></svg>"
        );
    }
    page.push_str("</tr>\n</table>\n");
}

/// A bar whose parts are the findings of each severity.
fn shares(findings: &Findings) -> String {
    let severities = [(Severity::Error, "#c0392b"), (Severity::Warning, "#d68910"), (Severity::Information, "#2471a3")];
    let all: usize = findings.found.len();
    if all == 0 {
        return String::new();
    }
    let mut bar = "<svg width=\"400\" height=\"14\" role=\"img\">".to_owned();
    let mut left = 0.0;
    for (severity, colour) in severities {
        let count = findings.count(severity);
        let wide = 400.0 * count as f64 / all as f64;
        let _ = write!(
            bar,
            "<rect x=\"{left:.1}\" width=\"{wide:.1}\" height=\"14\" fill=\"{colour}\"><title>{count} {}</title></rect>",
            severity.word(count)
        );
        left += wide;
    }
    bar + "</svg>"
}

/// A text in which nothing is markup.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n\
<style>\n\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }\n\
section { border-left: 5px solid #999; margin: 1em 0; padding: .1em 1em; background: #f6f6f6 }\n\
section.error { border-color: #c0392b } section.warning { border-color: #d68910 } section.note { border-color: #2471a3 }\n\
section p { margin: .3em 0 } h3 { margin: .4em 0 } .why { color: #666; font-size: .9em } .evidence { font-weight: 600 }\n\
section.muted { opacity: .7 } table { border-collapse: collapse } td, th { text-align: left; padding: .2em .8em .2em 0; vertical-align: top }\n\
</style>\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Muted;
    use crate::lint::finding;

    #[test]
    fn the_page_is_alone_and_shows_what_files_say_as_text() {
        let findings = Findings {
            found: vec![finding("L05", "<script>alert('a')</script>", 7)],
            muted: vec![Muted { finding: finding("L10", "b", 0), reason: "a \"b\" & c".to_owned(), line: 1 }],
            ..Findings::default()
        };
        let page = text("lint", &findings);
        for part in [
            "&lt;script&gt;alert(&#39;a&#39;)&lt;/script&gt;:7",
            "a &quot;b&quot; &amp; c",
            "default-src 'none'",
            "<svg",
        ] {
            assert!(page.contains(part), "{part:?} is not in:\n{page}");
        }
        for part in ["<script", "http://", "https://", "src=\"", "url("] {
            assert!(!page.contains(part), "{part:?} is in:\n{page}");
        }
    }
}
