//! Cancel keys: what a client may name to have its query cancelled.
//!
//! Always true: a key names the worker of its client in its first byte and is otherwise random, so that nobody finds another
//! one's key; its first bit is clear, as PgBouncer's is. Among peers it also names its process, as PgBouncer's do, and says how
//! often it may still be passed on.
//! Not here: which query it aims at (`worker::cancel`), passing it on (`worker::peers`).

use base::WorkerId;
use base::planted::{self, Planted};

/// A key of our own, as sent in `BackendKeyData`: process id and secret of protocol 3.0 together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CancelKey([u8; KEY_BYTES]);

impl CancelKey {
    /// A key for a client of this worker. `peer` is the number of this process among its peers; 0 if it has none.
    #[must_use]
    pub fn new(worker: WorkerId, peer: u16, random: [u8; KEY_BYTES]) -> Self {
        let mut bytes = random;
        bytes[0] = worker.0 & 0x7f;
        if peer > 0 {
            [bytes[1], bytes[2]] = peer.to_le_bytes();
            bytes[7] |= HOPS;
        }
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

    /// Where a request with this key is to go, as the process with this number among its peers sees it.
    #[must_use]
    pub fn aim(self, own: u16) -> Aim {
        let peer = u16::from_le_bytes([self.0[1], self.0[2]]);
        let mut key = self;
        if own == 0 {
            return Aim::Here(key);
        }
        if peer == own {
            // On its way here it may have lost some of what it was given out with.
            key.0[7] |= HOPS;
            return Aim::Here(key);
        }
        let may_go_on = self.0[7] & HOPS > 0;
        key.0[7] -= u8::from(may_go_on && !planted::is(Planted::ForwardHopUncounted));
        Aim::Peer { peer, key: may_go_on.then_some(key) }
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// Where a cancel request is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// To this process, by the key as it was given out.
    Here(CancelKey),
    /// To another process.
    Peer {
        /// Which.
        peer: u16,
        /// By which key; `None` if the request has been passed on too often.
        key: Option<CancelKey>,
    },
}

impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CancelKey(of worker {})", self.0[0])
    }
}

/// Bytes of a key. Protocol 3.2 allows longer ones; these are 56 random bits, and fit every client.
pub const KEY_BYTES: usize = 8;
/// The bits of the last byte that say how often a request may still be passed on: with three a loop of peers that disagree
/// about who is who has an end.
const HOPS: u8 = 0b11;
/// How many workers a key can tell apart.
pub const WORKERS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_worker_and_hides_its_secret() {
        let key = CancelKey::new(WorkerId(5), 0, [0xff; 8]);
        assert_eq!(CancelKey::parse(key.bytes()), Some(key));
        assert_eq!(key.worker(), WorkerId(5));
        assert!(!format!("{key:?}").contains("255"));
    }

    #[test]
    fn without_peers_every_key_is_looked_for_here() {
        let key = CancelKey::new(WorkerId(0), 0, [0x40; 8]);
        assert_eq!(key.bytes(), &[0, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40]);
        assert_eq!(key.aim(0), Aim::Here(key));
    }

    #[test]
    fn among_peers_a_key_names_its_process_as_pgbouncers_do() {
        let key = CancelKey::new(WorkerId(1), 0x0102, [0x40; 8]);
        assert_eq!(key.bytes(), &[1, 0x02, 0x01, 0x40, 0x40, 0x40, 0x40, 0x43]);
        assert_eq!(key.aim(0x0102), Aim::Here(key));
    }

    #[test]
    fn a_request_is_passed_on_three_times_and_found_after_each() {
        let key = CancelKey::new(WorkerId(0), 2, [0x40; 8]);
        let mut travelling = key;
        for _ in 0..3 {
            let Aim::Peer { peer: 2, key: Some(next) } = travelling.aim(1) else { panic!("it is not passed on") };
            assert_ne!(next, travelling);
            assert_eq!(next.aim(2), Aim::Here(key));
            travelling = next;
        }
        assert_eq!(travelling.aim(1), Aim::Peer { peer: 2, key: None });
        assert_eq!(travelling.aim(2), Aim::Here(key));
    }

    #[test]
    fn a_key_that_is_not_ours_is_none() {
        assert_eq!(CancelKey::parse(&[0x80, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(CancelKey::parse(&[0; 7]), None);
        assert_eq!(CancelKey::parse(&[0; 36]), None);
    }
}
