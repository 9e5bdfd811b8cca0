//! Counts why servers are opened and closed.
//!
//! Always true: every server that has logged in is counted once as opened and, after its end, once as closed.

use base::words;

/// Why a server was opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Opened {
    /// A client waited for a server.
    Client,
    /// The pool was below `min_pool_size`.
    MinPoolSize,
    /// A client had waited for `reserve_pool_timeout`.
    Reserve,
    /// A client wanted a replication stream.
    Replication,
    /// It took the place of a server at a host that suited less.
    Moved,
    /// An online restart took it over from the process before this one.
    Restart,
}

/// Why a server was closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Closed {
    /// It was idle for `server_idle_timeout`.
    Idle,
    /// It was older than `server_lifetime`.
    Lifetime,
    /// Another pool of the same database or user needed its place, or a client needed the database without other connections.
    Evicted,
    /// A reload, RECONNECT or a changed secret made it obsolete.
    Obsolete,
    /// Another host suited better.
    Moved,
    /// Its session could not be proved clean: the cleanup, the state probe or the application of settings failed, or the idle
    /// server sent something unexpected.
    Dirty,
    /// Its client was gone, or its replication stream ended.
    Client,
    /// Its connection ended by itself.
    Lost,
    /// An operator had closed its pool while a client had it (`KILL`).
    Killed,
    /// An operator had paused its pool (`PAUSE`, and `KILL`, which pauses first).
    Paused,
    /// The pooler shut down, or an online restart passed the server to another process.
    Shutdown,
    /// Anything else.
    Other,
}

/// Numbers of servers opened and closed, by cause.
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
    Moved = "moved",
    Restart = "restart",
);
words!(Closed:
    Idle = "idle",
    Lifetime = "lifetime",
    Evicted = "evicted",
    Obsolete = "obsolete",
    Moved = "moved",
    Dirty = "dirty",
    Client = "client",
    Lost = "lost",
    Killed = "killed",
    Paused = "paused",
    Shutdown = "shutdown",
    Other = "other",
);

impl Lives {
    /// Counts a server that has logged in.
    pub fn opens(&mut self, why: Opened) {
        self.opened[why as usize] += 1;
    }

    /// Counts the end of a server that had logged in.
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
