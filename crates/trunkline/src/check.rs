//! `trunkline --check`: says everything that is wrong with a configuration.
//!
//! Always true: nothing is opened but the files that the configuration names; mistakes go to standard error, one a line.

use std::process::ExitCode;

use config::Overrides;
use control::{FileReader, Source};

/// Validates the file `config` and what it names.
pub(crate) fn check(config: &str) -> ExitCode {
    let source = Source::new(config.to_owned(), Overrides::default(), FileReader::from_disk());
    let (files, loaded) = (source.files(), source.read());
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| eprintln!("error: {mistake}"));
            return failed(mistakes.len());
        }
    };
    loaded.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    let mut problems = match control::read_users(&loaded.settings, files) {
        Ok((_, problems)) => problems,
        Err(text) => vec![text],
    };
    match control::read_rules(&loaded.settings, files) {
        Ok((_, _, lines)) => problems.extend(lines),
        Err(lines) => problems.extend(lines),
    }
    problems.extend(control::read_tls(&loaded.settings, files).err());
    problems.extend(control::read_name_servers(&loaded.settings, files).err().unwrap_or_default());
    if !problems.is_empty() {
        problems.iter().for_each(|problem| eprintln!("error: {problem}"));
        return failed(problems.len());
    }
    let (count, databases) = (loaded.files.len(), loaded.settings.databases.len());
    println!("{config}: good ({}, {})", counted(count, "file"), counted(databases, "database"));
    ExitCode::SUCCESS
}

/// A count and its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn failed(mistakes: usize) -> ExitCode {
    eprintln!("{}", counted(mistakes, "mistake"));
    ExitCode::FAILURE
}
