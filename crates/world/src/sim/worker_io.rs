//! The I/O state of a simulated worker: its connections, its completions, its buffers.
//!
//! Not here: what the worker asks of the network (`io`).

use std::collections::VecDeque;

use base::{Key, Slab, Time};
use reactor::{Accepting, BUFFER_BYTES, Buffers, Completion, Level};

use crate::sim::dice::Dice;
use crate::sim::fake_tls::Shake;
use crate::sim::io::SimSocket;

/// The I/O state of a worker.
#[derive(Debug)]
pub(crate) struct WorkerIo {
    pub(super) lines: Slab<Line>,
    pub(super) done: VecDeque<Completion<SimSocket>>,
    /// Connections that may have something to read.
    pub(super) ready: VecDeque<Key>,
    /// Connections that were given bytes in this turn.
    pub(super) dirty: Vec<Key>,
    pub(crate) accepting: Accepting,
    pub(crate) buffers: Buffers,
    /// How many buffers may be in use at once.
    pub(crate) buffers_max: usize,
    pub(super) buffers_all: usize,
    /// The longest piece that a receive returns.
    pub(crate) piece_max: usize,
    pub(super) dice: Dice,
    /// When the next turn is planned.
    pub(crate) turn_at: Option<Time>,
    /// The worker has no turn before this time.
    pub(crate) busy_until: Time,
    /// How far the worker's clock is ahead of the world's, microseconds.
    pub(crate) ahead: u64,
    /// Log lines that were not checked yet.
    pub(crate) log: Vec<(Level, String)>,
    /// The most bytes that ever waited for one connection.
    pub(crate) backlog_most: usize,
    /// Bytes received from servers, and from clients.
    pub(crate) heard: (u64, u64),
    /// The applications whose requests were sent to servers, if that is wanted.
    pub(crate) sent: Option<Vec<u32>>,
    /// Number of accepted connections to servers that were closed.
    pub(crate) servers_closed: u64,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) end: u32,
    pub(super) owner: u64,
    pub(super) wish: Wish,
    pub(super) life: Life,
    pub(super) is_in_ready: bool,
    pub(super) is_ours: bool,
    /// The last bytes sent to a server, in which a nonce may begin.
    pub(super) tail: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    Nothing,
    Once,
    Stream,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Dialing,
    Open,
    /// A TLS handshake is under way.
    Handshaking(Shake),
    /// The worker knows that the other side has gone.
    Ended,
}

impl WorkerIo {
    pub(crate) fn new(dice: Dice, buffers: Buffers, buffers_max: usize) -> Self {
        let buffers_all = buffers.count();
        Self {
            lines: Slab::with_capacity(u32::MAX),
            done: VecDeque::new(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            accepting: Accepting::Closed,
            buffers,
            buffers_max,
            buffers_all,
            piece_max: BUFFER_BYTES,
            dice,
            turn_at: None,
            busy_until: Time(0),
            ahead: 0,
            log: Vec::new(),
            backlog_most: 0,
            heard: (0, 0),
            sent: None,
            servers_closed: 0,
        }
    }

    pub(super) fn buffers_in_use(&self) -> usize {
        self.buffers_all - self.buffers.free()
    }

    /// Returns a connection's end and stage.
    pub(crate) fn life_of(&self, line: Key) -> Option<(u32, Life)> {
        self.lines.get(line).map(|row| (row.end, row.life.clone()))
    }

    pub(crate) fn set_life(&mut self, line: Key, life: Life) {
        if let Some(row) = self.lines.get_mut(line) {
            row.life = life;
        }
    }

    /// Returns the worker's own number for a connection.
    pub(crate) fn owner_of(&self, line: Key) -> Option<u64> {
        self.lines.get(line).map(|row| row.owner)
    }

    /// Number of open connections.
    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }
}
