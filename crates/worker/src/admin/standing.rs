//! What operators order, once or until it is undone.
//!
//! Always true: what stands is part of what is in force, so that pools opened later obey it too.
//! Not here: what is done about it (`orders`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::tracers::Traced;

/// What operators have ordered and not undone. A reload changes nothing about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// PAUSE: no client gets a server.
    pub is_paused: bool,
    /// PAUSE of one database, or KILL: no client of these gets a server.
    pub paused: BTreeSet<Arc<str>>,
    /// DISABLE: nobody new is let in to these databases.
    pub disabled: BTreeSet<Arc<str>>,
}

impl Standing {
    /// Whether clients of a database get no server.
    #[must_use]
    pub fn pauses(&self, database: &str) -> bool {
        self.is_paused || self.paused.contains(database)
    }

    /// Whether somebody new of a database is let in, and gets a server.
    #[must_use]
    pub fn serves(&self, database: &str) -> bool {
        !self.pauses(database) && !self.disabled.contains(database)
    }

    /// Pauses everything, or a database.
    pub fn pause(&mut self, whose: &Whose) {
        match whose {
            Some(name) => drop(self.paused.replace(Arc::clone(name))),
            None => self.is_paused = true,
        }
    }

    /// Ends the pause of everything, or of a database.
    pub fn resume(&mut self, whose: &Whose) {
        match whose {
            Some(name) => drop(self.paused.take(name)),
            None => self.is_paused = false,
        }
    }

    /// Forgets databases that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.paused.retain(|name| is_there(name));
        self.disabled.retain(|name| is_there(name));
    }
}

/// The databases that an order is about: this one, or all of them.
pub type Whose = Option<Arc<str>>;

/// What is to be done once, and answered with [`ToControl::Obeyed`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// RECONNECT: no server that is there now serves another client.
    Reconnect(Whose),
    /// KILL: every client and every server goes at once.
    Kill(Whose),
    /// `KILL_CLIENT`: the client of this number goes at once.
    KillClient(u64),
    /// TRACE: what happens to clients is told from now on. Whether there is a client that it is about.
    Trace {
        /// Which of the tracers that there may be.
        place: usize,
        /// To which clients.
        traced: Traced,
    },
    /// It is not told any more.
    EndTrace {
        /// Which of the tracers.
        place: usize,
    },
    /// Before the process ends: whether nothing is left that the shutdown waits for. Whoever was on the way from one worker to
    /// another when both were drained is seen now.
    ConfirmDrained,
    /// PAUSE: answered when no client has a server, and none is being made clean.
    AwaitUnused(Whose),
    /// `WAIT_CLOSE`: answered when no server from before the last RECONNECT or change of its settings is left.
    AwaitRenewed(Whose),
    /// SUSPEND: answered when nothing of any conversation is under way.
    Suspend {
        /// Another process is to have all conversations, and those on servers with TLS it cannot have: their transactions are
        /// waited for.
        is_handover: bool,
    },
}
