//! Classes of texts that have been read before.
//!
//! Always true: an answer from here is the one that reading the text again would give; what is held has an end.
//! Not here: the reading (`classify`).

use std::rc::Rc;

use crate::classify::{Act, Class, classify};
use crate::lexer::Dialect;
use crate::touch::{Knowledge, Touches};

/// The classes of texts, each in the one place that its hash gives it: a text that comes often is there, and what comes once
/// takes no longer than to be read.
#[derive(Debug)]
pub struct Cache {
    rows: Box<[Option<Row>]>,
    /// Of nearly every text: one statement that keeps nothing.
    plain: Rc<Class>,
}

#[derive(Debug)]
struct Row {
    hash: u64,
    dialect: Dialect,
    text: Box<[u8]>,
    class: Rc<Class>,
}

impl Default for Cache {
    fn default() -> Self {
        let plain = Class {
            acts: [Act::Other { touches: Touches::NOTHING, names: Box::default() }].into(),
            touches: Touches::NOTHING,
        };
        Self { rows: (0..ROWS).map(|_| None).collect(), plain: Rc::new(plain) }
    }
}

impl Cache {
    /// What [`classify`] says of a text. Whoever learns something new of functions must [`Cache::forget`] first.
    pub fn class(&mut self, text: &[u8], dialect: Dialect, knowledge: Option<&Knowledge>) -> Rc<Class> {
        if text.len() > TEXT_BYTES_MAX {
            return Rc::new(classify(text, dialect, knowledge));
        }
        let hash = hash(text);
        let row = &mut self.rows[(hash >> 32) as usize % ROWS];
        match row {
            Some(row) if row.hash == hash && row.dialect == dialect && *row.text == *text => row.class.clone(),
            _ => {
                let class = classify(text, dialect, knowledge);
                let class = if class == *self.plain { self.plain.clone() } else { Rc::new(class) };
                *row = Some(Row { hash, dialect, text: text.into(), class: class.clone() });
                class
            }
        }
    }

    /// Forgets all: what they were read by is not so any more.
    pub fn forget(&mut self) {
        self.rows.fill_with(|| None);
    }

    /// How many bytes the texts take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(|row| row.text.len()).sum()
    }
}

/// Quick, and good enough to find a place: who is found there is compared.
fn hash(text: &[u8]) -> u64 {
    let mut hash = text.len() as u64;
    let mut add = |word: u64| hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = text.as_chunks::<8>();
    words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    add(u64::from_le_bytes(last));
    hash
}

/// How many texts are held.
const ROWS: usize = 1024;
/// A text that is longer is read each time, which takes a small part of what its server does.
const TEXT_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_read_is_not_read_again() {
        let (mut cache, tame) = (Cache::default(), Knowledge::default());
        let mut class = |text: &str, knowledge| cache.class(text.as_bytes(), Dialect::default(), knowledge);
        let first = class("SET a.b = 1", Some(&tame));
        assert!(Rc::ptr_eq(&first, &class("SET a.b = 1", Some(&tame))));
        assert!(Rc::ptr_eq(&class("SELECT 1", Some(&tame)), &class("SELECT 2", Some(&tame))));
        assert_eq!(*first, classify(b"SET a.b = 1", Dialect::default(), Some(&tame)));
    }

    #[test]
    fn another_dialect_is_another_text() {
        let (mut cache, tame) = (Cache::default(), Knowledge::default());
        let text = br"SELECT 'a\'; LISTEN c --'";
        let backslashes = Dialect { backslashes: true, ..Dialect::default() };
        assert!(!cache.class(text, Dialect::default(), Some(&tame)).is_harmless());
        assert!(cache.class(text, backslashes, Some(&tame)).is_harmless());
    }

    #[test]
    fn what_is_held_has_an_end() {
        let (mut cache, tame) = (Cache::default(), Knowledge::default());
        for number in 0..10 * ROWS {
            let text = format!("SELECT '{}', {number}", "x".repeat(TEXT_BYTES_MAX - 100));
            cache.class(text.as_bytes(), Dialect::default(), Some(&tame));
        }
        assert!(cache.bytes() > 0 && cache.bytes() <= ROWS * TEXT_BYTES_MAX);
        let long = format!("SELECT '{}'", "x".repeat(TEXT_BYTES_MAX));
        let before = cache.bytes();
        assert!(cache.class(long.as_bytes(), Dialect::default(), Some(&tame)).is_harmless());
        assert_eq!(cache.bytes(), before);
        cache.forget();
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn what_is_learned_counts_once_the_rest_is_forgotten() {
        let mut cache = Cache::default();
        assert!(!cache.class(b"SELECT 1", Dialect::default(), None).is_harmless());
        cache.forget();
        assert!(cache.class(b"SELECT 1", Dialect::default(), Some(&Knowledge::default())).is_harmless());
    }
}
