//! How findings are shown: as a table, as JSON, as SARIF and as one HTML file.
//!
//! Always true: every format has the same findings, with those that are muted and those that could not be judged; control characters of files
//! never reach a terminal. Nothing here knows which command found them.
//! Not here: the findings.

mod html;
mod json;
pub(crate) mod plot;
mod sarif;
mod terminal;

use std::fmt::Write as _;

use crate::findings::{Findings, Rule};

/// How to show findings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// For a terminal.
    #[default]
    Table,
    /// For programs.
    Json,
    /// For code reviews and editors.
    Sarif,
    /// For people and archives.
    Html,
}

impl Format {
    /// The words of the command line.
    pub(crate) const WORDS: &'static str = "table, json, sarif, html";

    /// The format of a word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "table" => Some(Self::Table),
            "json" => Some(Self::Json),
            "sarif" => Some(Self::Sarif),
            "html" => Some(Self::Html),
            _ => None,
        }
    }
}

/// Rules as Markdown, for a reference page.
pub(crate) fn rules_table<'r>(rules: impl Iterator<Item = &'r Rule>) -> String {
    let head = "| rule | severity | what is wrong | when it fires | what to do | source |\n|---|---|---|---|---|---|\n";
    rules.fold(head.to_owned(), |mut page, rule| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} `{}` | {} | {} |",
            rule.id,
            rule.severity.word(1),
            rule.title,
            rule.condition,
            rule.formula,
            rule.advice,
            rule.source
        );
        page
    })
}

/// The report of a command, ending in a newline. `rules` are all that it knows.
pub(crate) fn text(format: Format, command: &str, findings: &Findings, rules: &[&Rule]) -> String {
    match format {
        Format::Table => terminal::text(findings),
        Format::Json => json::text(command, findings, rules),
        Format::Sarif => sarif::text(command, findings, rules),
        Format::Html => html::text(command, findings),
    }
}
