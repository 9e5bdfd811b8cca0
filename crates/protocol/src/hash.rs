//! Hashes by which equal contents are found.
//!
//! Always true: the hash of a value is the same in every process and at any time, so that a simulation can be repeated.
//! Not here: what happens when two contents have the same hash; whoever needs certainty compares them.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The hash of bytes that come in parts.
pub(crate) type Hashing = DefaultHasher;

/// The hash of a value.
pub(crate) fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
