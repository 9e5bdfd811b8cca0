//! Whole configurations, from the text of their files to the settings.
//!
//! Always true: files are in a table in memory; nothing here touches a disk.

mod catalog;
mod crowd;
mod files;
mod mistakes;
mod precedence;
mod properties;
mod reload;
mod sample;
mod warnings;

use std::collections::BTreeMap;
use std::io;

use config::{Loaded, Mistake, Overrides, Settings, load, load_over};

/// Files in memory.
#[derive(Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// One file, named `t.ini`.
    fn one(text: &str) -> Self {
        Self::default().with("t.ini", text)
    }

    fn with(mut self, name: &str, text: impl AsRef<[u8]>) -> Self {
        self.0.insert(name.to_owned(), text.as_ref().to_vec());
        self
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.get(name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn load(&self) -> Result<Loaded, Vec<Mistake>> {
        load("t.ini", &|name| self.read(name), &Overrides::default())
    }

    fn load_over(&self, previous: &Settings) -> Loaded {
        load_over(previous, "t.ini", &|name| self.read(name), &Overrides::default()).expect("good settings")
    }
}

/// Loads a text that must be valid.
fn loaded(text: &str) -> Loaded {
    Files::one(text).load().expect("good settings")
}

fn settings(text: &str) -> Settings {
    loaded(text).settings
}

/// The messages about a text that must be invalid.
fn told(text: &str) -> Vec<String> {
    lines(&Files::one(text).load().expect_err("bad settings"))
}

fn lines(mistakes: &[Mistake]) -> Vec<String> {
    mistakes.iter().map(ToString::to_string).collect()
}

/// The warnings about a text that must be valid, in full.
fn warned(text: &str) -> Vec<String> {
    loaded(text).warnings.iter().map(ToString::to_string).collect()
}
