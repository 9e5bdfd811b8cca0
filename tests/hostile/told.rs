//! What an attacker was told.
//!
//! Always true: it is the last message before the attacker gave up.
//! Not here: whether that is right.

use std::fmt;
use std::time::Instant;

use tests::message::Complaint;
use tests::peer::{Lost, Peer};

/// The end of an attack, as the attacker sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// It was answered normally.
    Answered,
    /// It got an error with this SQLSTATE.
    Refused(String),
    /// The connection was closed without an error.
    Closed,
    /// Its bytes were not taken any more.
    Held,
    /// Nothing arrived in time.
    Nothing,
    /// The attack itself could not be made, with the reason.
    Failed(String),
}

impl Told {
    /// Reads until an error, the end of the answer, the end of the connection, or `end`.
    pub(crate) fn read(peer: &mut Peer, end: Instant) -> Self {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match peer.frame_within(left) {
                Ok(frame) if frame.tag == b'E' => return Self::Refused(Complaint::read(&frame).code),
                Ok(frame) if frame.tag == b'Z' => return Self::Answered,
                Ok(_) => {}
                Err(Lost::Closed) => return Self::Closed,
                Err(Lost::Late) => return Self::Nothing,
                Err(lost) => return Self::Failed(lost.to_string()),
            }
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => write!(f, "answered"),
            Self::Refused(code) => write!(f, "{code}"),
            Self::Closed => write!(f, "closed"),
            Self::Held => write!(f, "not read from"),
            Self::Nothing => write!(f, "nothing"),
            Self::Failed(what) => write!(f, "not made: {what}"),
        }
    }
}
