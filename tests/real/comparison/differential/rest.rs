//! Detects when PostgreSQL has answered everything and waits for the client.
//!
//! Always true: it follows from the sent and received messages as in PostgreSQL's own main loop and COPY, without a clock. The
//! code is independent of the pooler's code for the same question on purpose: a mistake in one shows in the other.
//! Not here: what the pooler does. From the pooler, as many messages are read as PostgreSQL sent.

use std::collections::VecDeque;

/// A conversation with PostgreSQL, followed by message types.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Messages that were sent and are not answered; the first is the one that is being answered.
    sent: VecDeque<u8>,
    /// Whether a COPY, begun by the first message of `sent`, reads from the client.
    is_copying: bool,
    /// Whether the server skips messages up to the next Sync, after an error in the extended protocol.
    is_skipping: bool,
    /// The status of the last ReadyForQuery; 0 before the first.
    status: u8,
}

impl Rest {
    /// The client has sent a message of this type.
    pub(super) fn sends(&mut self, kind: u8) {
        self.sent.push_back(kind);
        self.settle();
    }

    /// PostgreSQL has sent a message of this type.
    pub(super) fn hears(&mut self, tag: u8, body: &[u8]) {
        match tag {
            b'Z' => {
                self.status = body.first().copied().unwrap_or(0);
                (self.is_copying, self.is_skipping) = (false, false);
                self.sent.pop_front();
            }
            b'E' => {
                self.is_copying = false;
                if self.is_extended() {
                    self.sent.pop_front();
                    self.is_skipping = true;
                }
            }
            b'G' => self.is_copying = true,
            b'1' | b'2' | b'3' | b'n' | b'I' | b's' | b'C' | b'T' if self.is_extended() => {
                self.sent.pop_front();
            }
            _ => {}
        }
        self.settle();
    }

    /// Returns whether everything is answered that PostgreSQL answers without further messages.
    pub(super) fn is_reached(&self) -> bool {
        (self.is_copying && self.sent.len() == 1) || !self.sent.iter().any(|kind| b"SHQF".contains(kind))
    }

    /// Returns whether nothing of the session is open: no transaction, no batch, no COPY.
    pub(super) fn is_neutral(&self) -> bool {
        self.sent.is_empty() && !self.is_copying && !self.is_skipping && matches!(self.status, b'I' | 0)
    }

    /// Returns whether a COPY reads from the client.
    pub(super) fn is_copying_in(&self) -> bool {
        self.is_copying
    }

    /// Removes messages that PostgreSQL reads without an answer.
    fn settle(&mut self) {
        loop {
            let dropped = match (self.is_copying, self.is_skipping) {
                (true, _) => match self.sent.get(1) {
                    Some(b'c' | b'f') => {
                        self.is_copying = false;
                        self.sent.remove(1)
                    }
                    Some(_) => self.sent.remove(1),
                    None => None,
                },
                (false, true) => self.drop_first(|kind| kind != b'S'),
                (false, false) => self.drop_first(|kind| b"dcfH".contains(&kind)),
            };
            if dropped.is_none() {
                return;
            }
        }
    }

    fn drop_first(&mut self, is_dropped: impl Fn(u8) -> bool) -> Option<u8> {
        self.sent.front().copied().filter(|kind| is_dropped(*kind))?;
        self.sent.pop_front()
    }

    fn is_extended(&self) -> bool {
        self.sent.front().is_some_and(|kind| b"PBDEC".contains(kind))
    }
}
