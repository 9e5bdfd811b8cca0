//! Why servers are opened and closed.
//!
//! Always true: every server that has logged in is counted once as opened and, when it has gone, once as closed.

use crate::words::words;

/// Why a server was opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Opened {
    /// A client waited for one.
    Client,
    /// `min_pool_size` wants it.
    MinPoolSize,
    /// A client had waited for `reserve_pool_timeout`.
    Reserve,
    /// A client wants a replication stream.
    Replication,
    /// The process before this one had it.
    Restart,
}

/// Why a server was closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Closed {
    /// Nobody has used it for `server_idle_timeout`.
    Idle,
    /// It was older than `server_lifetime`.
    Lifetime,
    /// Its place was needed for a pool of the same database or user.
    Evicted,
    /// A reload, RECONNECT or a changed secret made it obsolete.
    Obsolete,
    /// It could not be made clean.
    Dirty,
    /// Its client's stream, or its client, ended with it.
    Client,
    /// It ended by itself.
    Lost,
    /// KILL, or a limit for queries and transactions.
    Killed,
    /// The pooler goes down, or another process has it.
    Shutdown,
    /// Anything else.
    Other,
}

/// Servers opened and closed, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lives {
    opened: [u64; Opened::ALL.len()],
    closed: [u64; Closed::ALL.len()],
}

words!(Opened:
    Client = "client",
    MinPoolSize = "min_pool_size",
    Reserve = "reserve",
    Replication = "replication",
    Restart = "restart",
);
words!(Closed:
    Idle = "idle",
    Lifetime = "lifetime",
    Evicted = "evicted",
    Obsolete = "obsolete",
    Dirty = "dirty",
    Client = "client",
    Lost = "lost",
    Killed = "killed",
    Shutdown = "shutdown",
    Other = "other",
);

impl Lives {
    /// A server has logged in.
    pub fn opens(&mut self, why: Opened) {
        self.opened[why as usize] += 1;
    }

    /// One that had logged in has gone.
    pub fn closes(&mut self, why: Closed) {
        self.closed[why as usize] += 1;
    }

    /// How many were opened for this reason.
    #[must_use]
    pub fn opened(&self, why: Opened) -> u64 {
        self.opened[why as usize]
    }

    /// How many were closed for this reason.
    #[must_use]
    pub fn closed(&self, why: Closed) -> u64 {
        self.closed[why as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_place_and_a_word_of_its_own() {
        assert!(Opened::ALL.iter().enumerate().all(|(place, why)| *why as usize == place));
        assert!(Closed::ALL.iter().enumerate().all(|(place, why)| *why as usize == place));
        let mut words: Vec<_> = Closed::ALL.map(Closed::word).into();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Closed::ALL.len());
        let mut lives = Lives::default();
        lives.opens(Opened::Reserve);
        lives.closes(Closed::Evicted);
        assert_eq!((lives.opened(Opened::Reserve), lives.closed(Closed::Evicted)), (1, 1));
        assert_eq!((lives.opened(Opened::Client), lives.closed(Closed::Idle)), (0, 0));
    }
}
