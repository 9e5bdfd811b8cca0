//! Cancel keys: what a client may name to have its query cancelled.
//!
//! Always true: a key names the worker of its client in its first byte and is otherwise random, so that nobody finds another
//! one's key; its first bit is clear, as PgBouncer's is.
//! Not here: which query it aims at (`worker::cancel`).

use base::WorkerId;

/// A key of our own, as sent in `BackendKeyData`: process id and secret of protocol 3.0 together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CancelKey([u8; KEY_BYTES]);

impl CancelKey {
    /// A key for a client of this worker.
    #[must_use]
    pub fn new(worker: WorkerId, random: [u8; KEY_BYTES]) -> Self {
        let mut bytes = random;
        bytes[0] = worker.0 & 0x7f;
        Self(bytes)
    }

    /// Reads what a cancel request names; `None` if we never gave out such a key.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<Self> {
        let bytes: [u8; KEY_BYTES] = key.try_into().ok()?;
        (bytes[0] & 0x80 == 0).then_some(Self(bytes))
    }

    /// The worker whose client it is.
    #[must_use]
    pub fn worker(self) -> WorkerId {
        WorkerId(self.0[0])
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CancelKey(of worker {})", self.0[0])
    }
}

/// Bytes of a key. Protocol 3.2 allows longer ones; these are 56 random bits, and fit every client.
pub const KEY_BYTES: usize = 8;
/// How many workers a key can tell apart.
pub const WORKERS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_worker_and_hides_its_secret() {
        let key = CancelKey::new(WorkerId(5), [0xff; 8]);
        assert_eq!(CancelKey::parse(key.bytes()), Some(key));
        assert_eq!(key.worker(), WorkerId(5));
        assert!(!format!("{key:?}").contains("255"));
    }

    #[test]
    fn a_key_that_is_not_ours_is_none() {
        assert_eq!(CancelKey::parse(&[0x80, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(CancelKey::parse(&[0; 7]), None);
        assert_eq!(CancelKey::parse(&[0; 36]), None);
    }
}
