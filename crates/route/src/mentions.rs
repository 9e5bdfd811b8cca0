//! Custom settings (names with a dot) that texts mention: a server has no list of them.
//!
//! Always true: settings that are not gathered are reported as missing; whatever the texts are, no more than a few times
//! their bytes are read, and the number of settings that are gathered is bounded.
//! Not here: what a text does (`classify`, `body`).

use std::collections::BTreeSet;

use crate::lexer::{Dialect, Lexer};
use crate::setting::{self, canonical};
use crate::words::Words;

/// The settings that some texts mention, and how much more of the texts may be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mentions {
    names: BTreeSet<Box<str>>,
    /// Whether these are all.
    is_complete: bool,
    /// How many names are kept.
    names_max: usize,
    /// How many bytes of texts in strings may still be read.
    bytes_left: usize,
}

impl Mentions {
    /// None yet.
    pub(crate) fn new(names_max: usize) -> Self {
        Self { names: BTreeSet::new(), is_complete: true, names_max, bytes_left: INNER_BYTES_FEW }
    }

    /// Gathers the settings that SET names, strings that look like such a name, and the same in strings that may be
    /// executed, and in the strings of these, one depth after the other.
    ///
    /// All texts of one depth are parts of those of the one before and do not overlap: no more than two depths are held
    /// at a time.
    pub(crate) fn read(&mut self, words: &Words<'_>, dialect: Dialect) {
        let (mut inner, mut tokens) = (Vec::new(), Vec::new());
        self.bytes_left += INNER_TIMES_MAX * words.bytes();
        self.gather(words, &mut inner);
        for _ in 0..DEPTH_MAX {
            for text in std::mem::take(&mut inner) {
                tokens.clear();
                tokens.extend(Lexer::new(text.as_bytes(), dialect));
                self.gather(&Words::new(text.as_bytes(), &tokens, dialect.encoding), &mut inner);
            }
        }
        self.is_complete &= inner.is_empty();
    }

    /// Some mentions have not been read.
    pub(crate) fn miss_some(&mut self) {
        self.is_complete = false;
    }

    /// Whether there may be others.
    pub(crate) fn are_incomplete(&self) -> bool {
        !self.is_complete
    }

    pub(crate) fn into_names(self) -> BTreeSet<Box<str>> {
        self.names
    }

    /// Gathers what one text names itself, and the texts in it that may name more. Stops once it is known that not all
    /// are gathered.
    fn gather(&mut self, words: &Words<'_>, inner: &mut Vec<String>) {
        for at in 0..words.end() {
            if !self.is_complete {
                return;
            }
            if words.is_one_of(at, &["set", "reset"]) {
                let at = at + 1 + usize::from(words.is_one_of(at + 1, &["local", "session"]));
                match setting::name(words, at) {
                    Some((name, _)) if name.contains('.') => self.add(&name),
                    Some(_) => {}
                    // PostgreSQL truncates it, or it is written in a rare way.
                    None => self.is_complete &= !(words.is_name(at) && words.is_symbol(at + 1, b".")),
                }
            }
            // The dot stands in the string as it is, or the string is written in a way that is not read at all.
            if !words.is_string(at) || !words.text(at).is_some_and(|text| text.contains(&b'.')) {
                continue;
            }
            let Some(text) = words.unquoted(at) else { continue };
            if is_dotted(&text) {
                self.add(canonical(&text.to_ascii_lowercase()));
            } else if may_name(text.as_bytes()) {
                self.is_complete &= text.len() <= self.bytes_left;
                self.bytes_left = self.bytes_left.saturating_sub(text.len());
                inner.push(text);
            }
        }
    }

    fn add(&mut self, name: &str) {
        if self.names.contains(name) {
            return;
        }
        match self.names.len() < self.names_max && name.len() <= SETTING_BYTES_MAX {
            true => drop(self.names.insert(name.into())),
            false => self.is_complete = false,
        }
    }
}

/// Whether a text may name a setting with a dot: by SET, RESET, `set_config`.
fn may_name(text: &[u8]) -> bool {
    text.contains(&b'.') && text.windows(3).any(|letters| letters.eq_ignore_ascii_case(b"set"))
}

fn is_dotted(text: &str) -> bool {
    let is_part = |part: &str| {
        let first = part.chars().next();
        first.is_some_and(|first| first.is_alphabetic() || first == '_')
            && part.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '$')
    };
    text.contains('.') && text.split('.').all(is_part)
}

/// How many texts within each other are read: `DO`, what it executes, the function that is created there, what that
/// executes, and a few more.
const DEPTH_MAX: usize = 6;
/// Texts in strings are read as long as all of them together are no longer than this many times the text that contains them,
const INNER_TIMES_MAX: usize = 2;
/// and this many bytes more.
const INNER_BYTES_FEW: usize = 64 * 1024;
/// Longer names are not kept, though PostgreSQL has no limit for them.
const SETTING_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::Token;

    fn mentions(text: &str) -> Mentions {
        let (mut mentions, dialect) = (Mentions::new(3), Dialect::default());
        let tokens: Vec<Token> = Lexer::new(text.as_bytes(), dialect).collect();
        mentions.read(&Words::new(text.as_bytes(), &tokens, dialect.encoding), dialect);
        mentions
    }

    #[test]
    fn settings_are_found_wherever_they_are_named() {
        for (text, expected) in [
            ("BEGIN SET LOCAL app.one = 1; PERFORM set_config('App.Two', x, false); END", &["app.one", "app.two"][..]),
            ("EXECUTE 'SET app.three TO ' || y", &["app.three"]),
            ("EXECUTE 'SELECT set_config(''app.four'', $1, false)'", &["app.four"]),
            ("RAISE NOTICE 'no. nothing at all'", &[]),
        ] {
            let found = mentions(text);
            assert!(!found.are_incomplete());
            assert!(found.into_names().iter().map(|name| &**name).eq(expected.iter().copied()), "{text}");
        }
    }

    #[test]
    fn what_is_not_kept_or_not_read_is_said_to_be_missing() {
        let long = "a".repeat(SETTING_BYTES_MAX);
        for (text, is_missing) in [
            ("'a.a', 'a.b', 'a.c', 'a.c'".to_owned(), false),
            ("'a.a', 'a.b', 'a.c', 'a.d'".to_owned(), true),
            (format!("set a.{long} = 1"), true),
            (format!("set {} = 1", ["abcdefghijklmno"; 13].join(".")), true),
            (format!("perform set_config('a.{long}', x, false)"), true),
        ] {
            assert_eq!(mentions(&text).are_incomplete(), is_missing, "{text}");
        }
    }

    /// All texts of one depth are nearly as long as the whole, so that three depths are read, the whole included.
    #[test]
    fn no_more_than_a_few_times_the_bytes_of_a_text_are_read() {
        let within = |depth: usize| {
            let filler = "x".repeat(3 * INNER_BYTES_FEW);
            let core = format!("set a.b = {filler}");
            (0..depth).fold(core, |text, at| format!("execute $t{at}${text}$t{at}$"))
        };
        for (depth, is_read) in [(1, true), (2, true), (3, false), (6, false)] {
            let found = mentions(&within(depth));
            assert_eq!(found.are_incomplete(), !is_read, "{depth}");
            assert_eq!(found.into_names().len(), usize::from(is_read), "{depth}");
        }
    }
}
