//! Long texts that were sent while the functions of the database were not known.
//!
//! Always true: such a text counts as one that may have done anything, unless the functions that are read behind it tell that
//! it was harmless.
//! Not here: what is left of a long text (`route::Condenser`), when the functions are read (`probe`).

use route::{Dialect, Knowledge};

/// What is left of texts that are harmless if no function that they call does anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct LongTexts(Vec<(Box<[u8]>, Dialect)>);

impl LongTexts {
    /// Adds one. Returns false if there is no room.
    pub(crate) fn add(&mut self, text: &[u8], dialect: Dialect) -> bool {
        let has_room = text.len() <= BYTES_MAX && self.0.len() < COUNT_MAX;
        if has_room {
            self.0.push((text.into(), dialect));
        }
        has_room
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|(text, _)| text.len()).sum()
    }

    /// Whether all of them were harmless, by the functions of the database, if these are known; forgets them.
    pub(super) fn were_harmless(&mut self, knowledge: Option<&Knowledge>) -> bool {
        let is_harmless = |(text, dialect): (Box<[u8]>, Dialect)| {
            knowledge.is_some_and(|knowledge| route::classify(&text, dialect, Some(knowledge)).is_harmless())
        };
        std::mem::take(&mut self.0).into_iter().all(is_harmless)
    }
}

/// How many are remembered,
const COUNT_MAX: usize = 8;
/// and how much may be left of each.
const BYTES_MAX: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_tell_whether_texts_were_harmless() {
        let known = Knowledge::new(["suspect"], false);
        for (text, knowledge, expected) in [
            ("insert $0 values f", Some(&known), true),
            ("insert $0 values suspect", Some(&known), false),
            ("insert $0 values f", None, false),
        ] {
            let mut texts = LongTexts::default();
            assert!(texts.were_harmless(knowledge), "there is none");
            assert!(texts.add(b"select 1", Dialect::default()) && texts.add(text.as_bytes(), Dialect::default()));
            assert_eq!(texts.were_harmless(knowledge), expected, "{text}");
            assert!(texts.is_empty());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut texts = LongTexts::default();
        assert!(!texts.add(&[b'x'; BYTES_MAX + 1], Dialect::default()) && texts.is_empty());
        assert!((0..COUNT_MAX).all(|_| texts.add(b"select", Dialect::default())));
        assert!(!texts.add(b"select", Dialect::default()));
        assert_eq!(texts.bytes(), 6 * COUNT_MAX);
    }
}
