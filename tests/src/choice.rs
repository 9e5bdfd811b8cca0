//! The command line of a comparison: the selected programs, cases and stages.
//!
//! Always true: an unknown name is an error; without names everything is selected.
//! Not here: the names (a `Menu`), which each comparison has of its own.

use std::path::{Path, PathBuf};

/// The names that can be selected.
#[derive(Debug)]
pub struct Menu {
    /// Names of programs.
    pub programs: Vec<&'static str>,
    /// Names of cases, in the order in which they are run.
    pub cases: Vec<&'static str>,
    /// The name of the stage without a pooler.
    pub direct: &'static str,
    /// The folder below `target`.
    pub folder: &'static str,
    /// What `--help` says.
    pub usage: &'static str,
}

/// What was selected.
#[derive(Debug)]
pub struct Choice {
    menu: Menu,
    /// Only these programs; all when empty.
    programs: Vec<String>,
    /// Only these cases; all when empty.
    cases: Vec<String>,
    /// Only stages whose name contains this.
    stage: Option<String>,
    /// Lines for the pooler's configuration, after all others.
    pub settings: Vec<String>,
    /// Whether an unavailable program fails the run.
    pub strict: bool,
}

impl Choice {
    /// Reads the command line.
    ///
    /// # Errors
    /// What is wrong with it, and the usage.
    pub fn read(menu: Menu, mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let usage = menu.usage;
        let (programs, cases, settings) = (Vec::new(), Vec::new(), Vec::new());
        let mut choice = Self { menu, programs, cases, stage: None, settings, strict: false };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{usage}"));
            match name.as_str() {
                "--strict" => choice.strict = true,
                "--case" => choice.cases.push(value()?),
                "--stage" => choice.stage = Some(value()?),
                "--set" => choice.settings.push(value()?),
                "--help" => return Err(usage.to_string()),
                flag if flag.starts_with('-') => return Err(format!("what is {flag}?\n\n{usage}")),
                program => choice.programs.push(program.to_string()),
            }
        }
        let stranger = |names: &[String], known: &[&str]| names.iter().find(|n| !known.contains(&n.as_str())).cloned();
        for (names, known) in [(&choice.programs, &choice.menu.programs), (&choice.cases, &choice.menu.cases)] {
            if let Some(name) = stranger(names, known) {
                return Err(format!("nothing is called {name}\n\n{usage}"));
            }
        }
        Ok(choice)
    }

    /// Returns whether this program is selected.
    pub fn wants(&self, program: &str) -> bool {
        self.programs.is_empty() || self.programs.iter().any(|name| name == program)
    }

    /// The selected cases, in their order.
    pub fn wanted_cases(&self) -> impl Iterator<Item = &'static str> {
        let is_wanted = |case: &&str| self.cases.is_empty() || self.cases.iter().any(|name| name == case);
        self.menu.cases.iter().copied().filter(is_wanted)
    }

    /// Returns whether this stage is selected. The direct one always is, because it shows whose failure a failure is.
    pub fn wants_stage(&self, name: &str) -> bool {
        name == self.menu.direct || self.stage.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }

    /// The folder where dependencies of the programs are installed.
    pub fn folder(&self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
        target.join(self.menu.folder)
    }
}
