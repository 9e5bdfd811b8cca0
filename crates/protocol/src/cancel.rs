//! Cancel keys: the process id and secret that a client sends in a cancel request.
//!
//! Always true: a key names in its first byte the worker that gave it to the client (after an online restart another worker
//! may serve the client, and the named one passes requests on) and is otherwise random, so that nobody can guess
//! another client's key; its first bit is clear, as in PgBouncer's keys. Among peers a key also names its process, as
//! PgBouncer's do, and says how often the request may still be passed on. Whole keys are compared in constant time.
//! Not here: which query a request cancels (`worker::cancel::requests`), passing it on (`worker::cancel::peers`).

use base::WorkerId;
use subtle::ConstantTimeEq;

use crate::planted::hops_used;

/// A key of our own, as sent in `BackendKeyData`: process id and secret together. The secret of a client of protocol 3.0 has four
/// bytes; with protocol 3.2 it may be longer, and has 32.
#[derive(Clone)]
pub struct CancelKey(Bytes);

/// Most clients speak protocol 3.0, so a short key is stored without an allocation.
#[derive(Clone)]
enum Bytes {
    Short([u8; NAME_BYTES]),
    Long(Box<[u8; LONG_BYTES]>),
}

/// The first bytes of a key, by which its client is found; a short key has no others. They are a secret, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName([u8; NAME_BYTES]);

impl CancelKey {
    /// Draws a key for a client of this worker that speaks protocol 3.`minor`. `peer` is the number of this process among
    /// its peers; 0 if it has none.
    #[must_use]
    pub fn draw(worker: WorkerId, peer: u16, minor: u16, randomness: impl FnOnce(&mut [u8])) -> Self {
        let mut key = Self(match minor {
            LONG_SINCE.. => Bytes::Long(Box::new([0; LONG_BYTES])),
            _ => Bytes::Short([0; NAME_BYTES]),
        });
        let bytes = key.bytes_mut();
        randomness(bytes);
        bytes[0] = worker.0 & 0x7f;
        if peer > 0 {
            [bytes[1], bytes[2]] = peer.to_le_bytes();
            bytes[7] |= HOPS;
        }
        key
    }

    /// Reads the key of a cancel request; `None` if we never gave out such a key.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<Self> {
        let bytes = match key.len() {
            NAME_BYTES => Bytes::Short(key.try_into().ok()?),
            LONG_BYTES => Bytes::Long(Box::new(key.try_into().ok()?)),
            _ => return None,
        };
        (key[0] & 0x80 == 0).then_some(Self(bytes))
    }

    /// The part of the key by which its client is found.
    #[must_use]
    pub fn name(&self) -> KeyName {
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&self.bytes()[..NAME_BYTES]);
        KeyName(name)
    }

    /// Where a request with this key must go, seen from the process with the number `own` among its peers.
    #[must_use]
    pub fn aim(mut self, own: u16) -> Aim {
        if own == 0 {
            return Aim::Here(self);
        }
        let bytes = self.bytes_mut();
        let peer = u16::from_le_bytes([bytes[1], bytes[2]]);
        if peer == own {
            // Restore the hops that the request has used on its way here, so that the key equals the one that was given
            // out.
            bytes[7] |= HOPS;
            return Aim::Here(self);
        }
        let may_go_on = bytes[7] & HOPS > 0;
        bytes[7] -= hops_used(may_go_on);
        Aim::Peer { peer, key: may_go_on.then_some(self) }
    }

    /// The key as sent in `BackendKeyData`.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(bytes) => bytes,
            Bytes::Long(bytes) => &bytes[..],
        }
    }

    /// The name of the key and the rest, which is empty for a short key.
    #[must_use]
    pub fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes().split_at(NAME_BYTES)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Short(bytes) => bytes,
            Bytes::Long(bytes) => &mut bytes[..],
        }
    }
}

/// Compares in constant time, so that the duration does not tell how much of a key was right.
impl PartialEq for CancelKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes().ct_eq(other.bytes()).into()
    }
}

impl Eq for CancelKey {}

impl KeyName {
    /// The worker of the client that has this key.
    #[must_use]
    pub fn worker(self) -> WorkerId {
        WorkerId(self.0[0])
    }
}

/// Where a cancel request must go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Aim {
    /// To this process, with the key as it was given out.
    Here(CancelKey),
    /// To a peer.
    Peer {
        /// The number of the peer.
        peer: u16,
        /// The key to send; `None` if the request has been passed on too often.
        key: Option<CancelKey>,
    },
}

impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CancelKey(of worker {}, {} bytes)", self.name().worker().0, self.bytes().len())
    }
}

impl std::fmt::Debug for KeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyName(of worker {})", self.worker().0)
    }
}

/// Length of a protocol 3.0 key, and of the name of any key: 56 of the bits are random, 38 among peers.
const NAME_BYTES: usize = 8;
/// Length of a protocol 3.2 key: 280 of the bits are random, 262 among peers. PostgreSQL's keys are as long. The protocol
/// allows 260 bytes; another proxy between us and a client may need some of them.
const LONG_BYTES: usize = 36;
/// The first minor version of protocol 3 in which the secret of a key may have more than four bytes.
const LONG_SINCE: u16 = 2;
/// The bits of byte 7, the last of a short key, that say how often a request may still be passed on. Three hops end any
/// loop of peers that disagree about their numbers.
const HOPS: u8 = 0b11;
/// How many workers a key can distinguish.
pub const WORKERS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(worker: u8, peer: u16, minor: u16, byte: u8) -> CancelKey {
        CancelKey::draw(WorkerId(worker), peer, minor, |bytes| bytes.fill(byte))
    }

    #[test]
    fn a_key_finds_its_worker_and_hides_its_secret() {
        for minor in [0, 2] {
            let key = drawn(5, 0, minor, 0xff);
            assert_eq!(CancelKey::parse(key.bytes()).as_ref(), Some(&key));
            assert_eq!(key.name().worker(), WorkerId(5));
            assert!(!format!("{key:?} {:?}", key.name()).contains("255"));
        }
    }

    #[test]
    fn without_peers_every_key_is_looked_for_here() {
        let key = drawn(0, 0, 0, 0x40);
        assert_eq!(key.bytes(), &[0, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40]);
        assert_eq!(key.clone().aim(0), Aim::Here(key));
    }

    #[test]
    fn among_peers_a_key_names_its_process_as_pgbouncers_do() {
        let key = drawn(1, 0x0102, 0, 0x40);
        assert_eq!(key.bytes(), &[1, 0x02, 0x01, 0x40, 0x40, 0x40, 0x40, 0x43]);
        assert_eq!(key.clone().aim(0x0102), Aim::Here(key));
    }

    #[test]
    fn a_long_key_begins_like_a_short_one_and_goes_on_at_random() {
        for minor in [2, 9] {
            let key = drawn(1, 0x0102, minor, 0x40);
            assert_eq!(key.bytes()[..NAME_BYTES], *drawn(1, 0x0102, 0, 0x40).bytes());
            assert_eq!(key.bytes()[NAME_BYTES..], [0x40; 28]);
            assert_eq!(key.name(), drawn(1, 0x0102, 1, 0x40).name());
        }
    }

    #[test]
    fn a_key_is_another_one_if_a_bit_differs_or_a_byte_is_missing() {
        for minor in [0, 2] {
            let key = drawn(0, 0, minor, 0x40);
            for at in 0..key.bytes().len() * 8 {
                let mut bytes = key.bytes().to_vec();
                bytes[at / 8] ^= 1 << (at % 8);
                assert_ne!(CancelKey::parse(&bytes), Some(key.clone()), "bit {at}");
            }
        }
        assert_ne!(drawn(0, 0, 0, 0x40), drawn(0, 0, 2, 0x40));
    }

    #[test]
    fn a_request_is_passed_on_three_times_and_found_after_each() {
        for minor in [0, 2] {
            let key = drawn(0, 2, minor, 0x40);
            let mut travelling = key.clone();
            for _ in 0..3 {
                let Aim::Peer { peer: 2, key: Some(next) } = travelling.clone().aim(1) else {
                    panic!("it is not passed on")
                };
                assert_ne!(next, travelling);
                assert_eq!(next.clone().aim(2), Aim::Here(key.clone()));
                travelling = next;
            }
            assert_eq!(travelling.clone().aim(1), Aim::Peer { peer: 2, key: None });
            assert_eq!(travelling.aim(2), Aim::Here(key));
        }
    }

    #[test]
    fn a_key_that_is_not_ours_is_none() {
        assert_eq!(CancelKey::parse(&[0x80, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(CancelKey::parse(&[0x80; LONG_BYTES]), None);
        for length in (0..=260).filter(|length| ![NAME_BYTES, LONG_BYTES].contains(length)) {
            assert_eq!(CancelKey::parse(&vec![0; length]), None, "{length} bytes");
        }
    }
}
