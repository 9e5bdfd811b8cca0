//! The machines of a loan and the cleanup of a server, against a model of PostgreSQL.
//!
//! Input: whether the clients keep to the protocol, what the reset query does, how the streams are cut, and then steps:
//! a client sends a message, the server reads one, the pooler reads one, the server sends one unasked, the client
//! leaves. So messages and answers are under way in both directions, as late as the input wants.
//!
//! Always true: see `model/pair.rs`. At the end everything arrives, the client leaves, and the server comes to rest.

use crate::Target;
use crate::draw::Draw;
use crate::model::pair::{Manner, Pair};
use crate::model::postgres::{self, Asks, Does};

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "loan",
    run,
    // Steps that belong together; the second byte of a client's step is the message and what it does.
    words: &[
        // A query, read and answered.
        b"\x00\x00\x04\x06\x06\x06\x06",
        // A batch with its Sync.
        b"\x00\x02\x00\x03\x00\x05\x00\x08",
        // The beginning of a COPY FROM STDIN.
        b"\x00\x50\x04\x06",
        b"\x00\x0b\x00\x0c",
        b"\x07\x03",
        b"\x04\x04\x04\x04\x06\x06\x06\x06",
    ],
    bytes_max: 240,
};

/// Runs the steps.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let manner = draw.pick(&[Manner::Polite, Manner::Polite, Manner::Rude]);
    let reset = draw.pick(&[None, None, Some(Does::Nothing), Some(Does::Fails)]);
    let pair = Pair::new(manner, reset);
    let pair = match draw.byte() {
        0 => pair,
        seed => pair.in_parts(seed.into()),
    };
    let mut story = Story { pair, manner, is_late: false, has_ended_early: false };
    while !draw.is_over() && !story.pair.is_over() {
        match draw.byte() % 8 {
            0..=3 => story.client(draw.byte()),
            4 | 5 => drop(story.pair.server_reads()),
            6 => drop(story.pair.pooler_hears()),
            _ => story.event(draw.byte()),
        }
    }
    story.pair.settle();
    story.pair.client_leaves(false);
    story.pair.settle();
}

struct Story {
    pair: Pair,
    manner: Manner,
    /// A COPY has failed, and the rest of its data, which was under way, may still arrive.
    is_late: bool,
    /// A COPY was ended before it was known to begin.
    has_ended_early: bool,
}

impl Story {
    fn client(&mut self, choice: u8) {
        // What the protocol allows depends on whether a COPY reads.
        let is_copy = self.pair.may_become_copy() || self.pair.exchange().is_copying_in();
        if is_copy && !self.pair.client_is_heard() {
            self.pair.client_leaves(false);
        }
        if !self.pair.is_open() {
            return;
        }
        let kinds = if self.pair.exchange().is_copying_in() { COPYING } else { KINDS };
        let asks = Asks {
            kind: kinds[usize::from(choice & 15)],
            does: postgres::ALL[usize::from(choice >> 4) % postgres::ALL.len()],
        };
        if self.manner == Manner::Polite && !self.is_polite(asks) {
            return;
        }
        let was_copying = self.pair.exchange().is_copying_in();
        self.is_late = if was_copying { asks.kind == b'd' } else { self.is_late && asks.kind == b'd' };
        self.has_ended_early =
            self.pair.may_become_copy() && (self.has_ended_early || matches!(asks.kind, b'c' | b'f'));
        if !self.pair.client_says(asks) {
            self.pair.client_leaves(false);
        }
    }

    fn is_polite(&self, asks: Asks) -> bool {
        let is_copying = self.pair.exchange().is_copying_in();
        let is_early = self.pair.may_become_copy() && !self.has_ended_early;
        match asks.kind {
            b'z' => false,
            b'd' | b'c' | b'f' => is_copying || self.is_late || is_early,
            // Anything but a Sync behind a COPY that may be about to begin would be read as its data. And where it is
            // unknown whether such a Sync is answered, a client that continued could not match its answers either.
            kind if self.pair.may_become_copy() || !self.pair.exchange().is_proven() => kind == b'S',
            kind => !is_copying || matches!(kind, b'S' | b'H'),
        }
    }

    fn event(&mut self, choice: u8) {
        match choice % 8 {
            0 => self.pair.server_says(b'N'),
            1 => self.pair.server_says(b'S'),
            2 => self.pair.server_says(b'A'),
            3 | 4 => self.pair.client_leaves(self.manner == Manner::Rude && choice & 0x80 != 0),
            5 => self.pair.catch_up(if choice & 0x80 == 0 { Does::Rows } else { Does::Fails }),
            _ => self.pair.settle(),
        }
    }
}

const KINDS: &[u8; 16] = b"QQPBDECFSSHdcfQz";
/// The messages of a client during a COPY; others would be refused, which ends the run early.
const COPYING: &[u8; 16] = b"ddddddcccffSSHQP";
