//! A mistake in a configuration, described to an operator in one line: where, what, and what was probably meant.
//!
//! Always true: a message is one line whatever the file contains, and never repeats the text of a password.
//! Not here: what counts as a mistake.

use std::fmt;
use std::sync::Arc;

/// A line of a file; line 0 is the file as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file as its name was written.
    pub file: Arc<str>,
    /// The line, counted from 1; 0 is the whole file.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", OneLine(&self.file)),
            line => write!(f, "{}:{line}", OneLine(&self.file)),
        }
    }
}

/// An error in a configuration. Its `Display` is one line for an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The position of the mistake.
    pub place: Place,
    /// What is wrong, with the text in question.
    pub text: String,
    /// What was probably meant, as a clause of its own: `did you mean "pool_mode"?`
    pub advice: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // PgBouncer's own messages contain the position themselves, and scripts look for that.
        match self.text.contains(&format!("({})", self.place)) {
            true => write!(f, "{}", OneLine(&self.text))?,
            false => write!(f, "{}: {}", self.place, OneLine(&self.text))?,
        }
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, "; {}", OneLine(advice)))
    }
}

impl std::error::Error for Mistake {}

/// A setting that works, but probably not as the operator expects. Its `Display` is one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The position of its cause.
    pub place: Place,
    /// What happens, and what to do about it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, OneLine(&self.text))
    }
}

/// A mistake whose position is not known yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrong {
    pub(crate) text: String,
    pub(crate) advice: Option<String>,
}

impl Wrong {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), advice: None }
    }

    pub(crate) fn advise(mut self, advice: Option<String>) -> Self {
        self.advice = advice;
        self
    }

    pub(crate) fn at(self, place: Place) -> Mistake {
        Mistake { place, text: self.text, advice: self.advice }
    }
}

/// The question that suggests one of `names`, if one is near.
pub(crate) fn did_you_mean<'n>(written: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    nearest(written, names).map(|name| format!("did you mean \"{name}\"?"))
}

/// The name at the smallest edit distance, the first of these in a tie, or else the only name that begins with
/// `written`; `None` if all names are too different.
#[must_use]
pub fn nearest<'n>(written: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if written.len() > WRITTEN_BYTES_MAX {
        return None;
    }
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let written = plain(written);
    let distance = |name: &str| strsim::damerau_levenshtein(&written, &plain(name));
    let names: Vec<&str> = names.into_iter().collect();
    let near = names
        .iter()
        .map(|name| (distance(name), *name))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1) && *distance < name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name);
    let mut begun =
        names.iter().filter(|name| written.len() >= BEGINNING_BYTES_MIN && plain(name).starts_with(&written));
    near.or_else(|| begun.next().copied().filter(|_| begun.next().is_none()))
}

/// Whether a value ends with what looks like a comment; a comment needs a line of its own.
pub(crate) fn has_comment(value: &str) -> bool {
    value.contains(" ;") || value.contains(" #") || value.contains("\t;") || value.contains("\t#")
}

/// The advice for such a value.
pub(crate) const COMMENT: &str = "a comment needs a line of its own, which begins with ; or #";

/// Escapes control characters, so that a message stays on one line and cannot drive a terminal.
struct OneLine<'t>(&'t str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for c in self.0.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

/// A longer word is no typing mistake, and computing the distance costs the product of the lengths.
const WRITTEN_BYTES_MAX: usize = 64;
/// A shorter beginning is too ambiguous.
const BEGINNING_BYTES_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name_and_another_word_finds_none() {
        let names = ["pool_mode", "pidfile", "peer_id"];
        for written in ["pool_mod", "poolmode", "pool-mode", "POOL_MODE", "pool_moed"] {
            assert_eq!(nearest(written, names), Some("pool_mode"), "{written}");
        }
        assert_eq!(nearest("frobnicate", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("scram", ["md5", "scram-sha-256"]), Some("scram-sha-256"));
        assert_eq!(nearest("server", ["server_lifetime", "server_fast_close"]), None);
        assert_eq!(nearest(&"pool_mode".repeat(20), names), None);
    }

    #[test]
    fn a_place_that_the_text_has_is_not_said_twice() {
        let place = Place { file: "a.ini".into(), line: 3 };
        let mistake = Wrong::new("syntax error in configuration (a.ini:3): no").at(place);
        assert_eq!(mistake.to_string(), "syntax error in configuration (a.ini:3): no");
    }

    #[test]
    fn a_message_is_one_line_even_when_the_file_name_is_not() {
        let place = Place { file: "a\nb.ini".into(), line: 3 };
        let mistake = Wrong::new("bad \u{1b}[2J").advise(Some("stop\r".into())).at(place);
        assert_eq!(mistake.to_string(), "a\\nb.ini:3: bad \\u{1b}[2J; stop\\r");
    }
}
