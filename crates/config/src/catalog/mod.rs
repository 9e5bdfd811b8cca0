//! The settings, and everything that follows from their catalog alone: names, `SHOW CONFIG`, the reference page.
//!
//! Always true: a setting takes one entry in `entries`; only what a database or a user may override also takes a
//! field there (`database`, `user`, `limits`).
//! Not here: files, sections, databases.

mod directory;
mod entries;
mod kinds;
mod otlp;
mod policy;
mod shape;
mod words;

pub use entries::{CATALOG, Settings};
pub use kinds::{CheckQuery, List};
pub use policy::Policies;
pub use shape::{Entry, Reload, State};
pub use words::{
    AuthType, FACILITY_DAEMON, IoBackend, LogFormat, NotifyLost, ReadRouting, SessionState, TlsMode, syslog_facility,
};

pub(crate) use kinds::{Kind, Misfit, Range, Word, seconds};
pub(crate) use words::Words;

use crate::mistake::{Wrong, did_you_mean};

/// A row of `SHOW CONFIG`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The name of the setting.
    pub key: &'static str,
    /// Its value; `None` is NULL.
    pub value: Option<String>,
    /// Its default; `None` is NULL.
    pub default: Option<&'static str>,
    /// Whether a change takes effect without a restart.
    pub changeable: bool,
}

impl Settings {
    /// All settings with their values, in the order and format of PgBouncer's `SHOW CONFIG`; our own come last.
    #[must_use]
    pub fn show(&self) -> Vec<Shown> {
        let shown = |entry: &Entry| Shown {
            key: entry.name,
            value: (entry.show)(self),
            default: entry.default,
            changeable: entry.reload == Reload::Live,
        };
        CATALOG.iter().map(shown).collect()
    }
}

/// The index of a setting in the catalog.
pub(crate) fn find(name: &str) -> Option<usize> {
    CATALOG.iter().position(|entry| entry.name == name)
}

/// The mistake for a name that [`find`] does not find.
pub(crate) fn unknown(name: &str) -> Wrong {
    let advice = did_you_mean(name, CATALOG.iter().map(|entry| entry.name));
    Wrong::new(format!("unknown parameter: pgbouncer/{name}")).advise(advice)
}

/// The table of all settings for the reference page, in Markdown.
#[must_use]
pub fn reference() -> String {
    let head = "| setting | type | default | range | change takes effect | meaning |\n|---|---|---|---|---|---|\n";
    CATALOG.iter().fold(head.to_owned(), |page, entry| page + &row(entry))
}

fn row(entry: &Entry) -> String {
    let kind = match entry.unit {
        "" => entry.kind.to_owned(),
        unit => format!("{}, {unit}", entry.kind),
    };
    let default = match entry.default {
        None => "not set".to_owned(),
        Some("") => "empty".to_owned(),
        Some(text) => format!("`{}`", text.replace('|', "\\|")),
    };
    let range = entry.range.map_or(String::new(), |(min, max)| format!("{min} to {max}"));
    let reload = match entry.reload {
        Reload::Live => "at reload",
        Reload::Restart => "at restart",
    };
    let note = match entry.state {
        State::Built => "",
        State::Moot => " Accepted; it has no meaning here.",
    };
    format!("| `{}` | {kind} | {default} | {range} | {reload} | {}{note} |\n", entry.name, entry.doc.trim())
}
