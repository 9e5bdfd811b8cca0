//! What texts that have been read before say of the server that may answer them.
//!
//! Always true: an answer from here is the one that reading the text again would give; what is held is bounded.
//! Not here: the reading (`reads`).

use crate::cache::{TEXT_BYTES_MAX, hash};
use crate::lexer::Dialect;
use crate::read_names::ReadNames;
use crate::reads::{Reads, reads};

/// Answers of [`reads`], each in the one place that the hash of its text gives it.
#[derive(Debug, Default)]
pub struct ReadsCache {
    /// Empty before the first text.
    rows: Vec<Option<Row>>,
}

#[derive(Debug)]
struct Row {
    hash: u64,
    dialect: Dialect,
    scope: u64,
    text: Box<[u8]>,
    reads: Reads,
}

impl ReadsCache {
    /// Returns what [`reads`] says of a text. The same `scope` stands for the same names.
    pub fn reads(&mut self, text: &[u8], dialect: Dialect, scope: u64, names: Option<&ReadNames>) -> Reads {
        if text.len() > TEXT_BYTES_MAX {
            return reads(text, dialect, names);
        }
        if self.rows.is_empty() {
            self.rows.resize_with(ROWS, || None);
        }
        let hash = hash(text);
        let row = &mut self.rows[(hash >> 32) as usize % ROWS];
        if let Some(row) = row
            && (row.hash, row.dialect, row.scope) == (hash, dialect, scope)
            && *row.text == *text
        {
            return row.reads;
        }
        let reads = reads(text, dialect, names);
        *row = Some(Row { hash, dialect, scope, text: text.into(), reads });
        reads
    }
}

const ROWS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_the_names_that_it_was_given_with() {
        let (mut cache, mut names) = (ReadsCache::default(), ReadNames::default());
        let mut of = |scope, names: &ReadNames| cache.reads(b"select f()", Dialect::default(), scope, Some(names));
        assert_eq!(of(1, &names), Reads::No);
        names.add_function("f", false, false);
        assert_eq!(of(1, &names), Reads::No, "it is remembered");
        assert_eq!(of(2, &names), Reads::Proven);
    }

    #[test]
    fn a_long_text_is_read_each_time() {
        let (mut cache, names) = (ReadsCache::default(), ReadNames::default());
        let text = format!("select '{}'", "x".repeat(TEXT_BYTES_MAX));
        assert_eq!(cache.reads(text.as_bytes(), Dialect::default(), 1, Some(&names)), Reads::Proven);
        assert!(cache.rows.is_empty());
    }
}
