//! Tells by the first two bytes and the length of a name whether it may be one of a few known names.
//!
//! Always true: each of the names passes, in upper case and in lower case, and so does a name that is too long to be examined.
//! Not here: the names (`builtin`, `sequences`, `notify`).

use crate::dirty_state::DirtyState;

/// Which names pass. What it knows is derived from the names themselves, so that no name is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameFilter {
    /// For each first byte: a bit for each length, and a bit for each second byte modulo 32.
    rows: [(u64, u32); 256],
}

impl NameFilter {
    pub(crate) const NONE: Self = Self { rows: [(0, 0); 256] };

    /// Whether a name may be one of them, as far as its first byte and its length tell.
    pub(crate) fn passes(&self, first: u8, length: usize) -> bool {
        length >= 64 || self.rows[usize::from(first)].0 >> length & 1 == 1
    }

    /// The lengths that names with these first two bytes may have, a bit for each below 64.
    #[inline]
    pub(crate) fn lengths(&self, first: u8, second: u8) -> u64 {
        let (lengths, seconds) = self.rows[usize::from(first)];
        if seconds >> (second % 32) & 1 == 1 { lengths } else { 0 }
    }

    /// Lets one more name pass, of at least two bytes that are letters, digits or underscores.
    pub(crate) const fn with(mut self, name: &[u8]) -> Self {
        self.add(name, 1 << name.len());
        self
    }

    pub(crate) const fn with_all(mut self, names: &[&[u8]]) -> Self {
        let mut at = 0;
        while at < names.len() {
            self = self.with(names[at]);
            at += 1;
        }
        self
    }

    pub(crate) const fn with_known(mut self, names: &[(&[u8], DirtyState)]) -> Self {
        let mut at = 0;
        while at < names.len() {
            self = self.with(names[at].0);
            at += 1;
        }
        self
    }

    /// Lets all names pass that begin so.
    pub(crate) const fn with_prefix(mut self, prefix: &[u8]) -> Self {
        self.add(prefix, u64::MAX << prefix.len());
        self
    }

    /// Lets everything pass that begins with this byte.
    pub(crate) const fn with_all_of(mut self, first: u8) -> Self {
        self.rows[first as usize] = (u64::MAX, u32::MAX);
        self
    }

    /// What any of the two lets pass.
    pub(crate) const fn or(mut self, other: &Self) -> Self {
        let mut at = 0;
        while at < self.rows.len() {
            self.rows[at].0 |= other.rows[at].0;
            self.rows[at].1 |= other.rows[at].1;
            at += 1;
        }
        self
    }

    /// Lets names of these lengths pass that begin as this one does.
    pub(crate) const fn add(&mut self, name: &[u8], lengths: u64) {
        let firsts = [name[0].to_ascii_lowercase(), name[0].to_ascii_uppercase()];
        let mut at = 0;
        while at < firsts.len() {
            let row = &mut self.rows[firsts[at] as usize];
            row.0 |= lengths;
            row.1 |= 1 << (name[1] % 32);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_passes_and_few_others_do() {
        let filter = NameFilter::NONE.with_all(&[b"into", b"image", b"nextval"]).with_prefix(b"pg_temp");
        let passes = |name: &str| {
            let (first, second) = (name.as_bytes()[0], name.as_bytes()[1]);
            filter.passes(first, name.len()) && filter.lengths(first, second) >> name.len() & 1 == 1
        };
        for name in ["into", "INTO", "image", "Image", "nextval", "pg_temp", "pg_temp_12", "PG_TOAST"] {
            assert!(passes(name), "{name}");
        }
        for name in ["id", "item", "name", "nickel", "pg", "product", "select"] {
            assert!(!passes(name), "{name}");
        }
        assert!(filter.passes(b'x', 64) && !filter.passes(b'x', 63));
    }
}
