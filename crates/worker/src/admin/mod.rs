//! What operators see and order.
//!
//! Always true: an order is carried out between two turns, and is confirmed when it is done.
//! Not here: how orders are understood (`control::console`).

use base::Time;
use pool::{Command, ServerKey};
use reactor::Peer;

use crate::admin::suspended::Suspended;
use crate::letters::{Order, Shutdown, ToWorker};

pub(crate) mod commands;
pub(crate) mod console;
pub(crate) mod orders;
pub(crate) mod reload;
pub(crate) mod seen;
pub(crate) mod shutdown;
pub(crate) mod snapshot;
pub(crate) mod spells;
pub(crate) mod stand;
pub(crate) mod standing;
pub(crate) mod stranded_locks;
pub(crate) mod suspend;
pub(crate) mod suspended;
pub(crate) mod waits;

/// What operators have ordered of a worker and is not done yet: how it goes down, that it rests, what they wait for.
#[derive(Debug)]
pub(crate) struct Admin<S> {
    shutdown: Option<Shutdown>,
    is_drained: bool,
    /// The shutdown waits for no client any longer.
    has_ended_clients: bool,
    /// Orders that wait for something, by control's numbers for them.
    awaited: Vec<(u64, Order)>,
    /// It has been suspended.
    suspended: Option<Box<Suspended<S>>>,
    /// Another process goes on with what was here.
    is_handed_over: bool,
}

impl<S> Default for Admin<S> {
    fn default() -> Self {
        let (shutdown, is_drained, has_ended_clients, is_handed_over) = (None, false, false, false);
        Self { shutdown, is_drained, has_ended_clients, awaited: Vec::new(), suspended: None, is_handed_over }
    }
}

impl<S> Admin<S> {
    /// Another process has everything: there is no turn any more.
    pub(crate) fn hand_over(&mut self) {
        (self.is_handed_over, self.shutdown) = (true, Some(Shutdown::Now));
    }

    /// Whether a command of the pools is one for now; one that is to be done on waking is kept.
    pub(crate) fn put_off(&mut self, command: Command, now: Time) -> Option<Command> {
        match &mut self.suspended {
            Some(suspended) => {
                suspended.put_off.push((command, now));
                None
            }
            None => Some(command),
        }
    }

    /// Keeps a letter if it is not to be read now.
    pub(crate) fn keep_letter(&mut self, letter: ToWorker<S>) -> Option<ToWorker<S>> {
        match &mut self.suspended {
            Some(suspended) => suspended.keep_letter(letter),
            None => Some(letter),
        }
    }

    /// Whether the worker has been suspended.
    pub(crate) fn is_resting(&self) -> bool {
        self.suspended.is_some()
    }

    /// When it has had the time to come to rest, if it has been suspended.
    pub(crate) fn rest_deadline(&self) -> Option<Option<Time>> {
        self.suspended.as_ref().map(|suspended| suspended.deadline())
    }

    /// Whether it goes down, in whatever way.
    pub(crate) fn is_going_down(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Whether it goes down and waits for servers: no client gets another.
    pub(crate) fn is_ending_servers(&self) -> bool {
        self.shutdown == Some(Shutdown::WaitForServers)
    }

    /// Whether it has gone down.
    pub(crate) fn is_over(&self) -> bool {
        self.shutdown == Some(Shutdown::Now)
    }

    /// Whether another process goes on with what was here.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Whether a shutdown keeps out whoever comes from there. Where clients are waited for, whoever has come by TCP had knocked before that
    /// door was shut, and would be refused for no reason while another process listens on the same port; the unix socket stays
    /// open, but only for the console and for the cancel requests of peers.
    pub(crate) fn shuts_out(&self, peer: Peer) -> bool {
        match self.shutdown {
            None => false,
            Some(Shutdown::WaitForClients) => matches!(peer, Peer::Unix { .. }) || self.has_ended_clients,
            Some(Shutdown::WaitForServers | Shutdown::Now) => true,
        }
    }

    /// Whether a server is somebody's as soon as everybody goes on.
    fn is_yet_to_be_lent(&self, key: ServerKey) -> bool {
        let is_of = |command: &Command| match command {
            Command::Attach { server, .. } | Command::Bind { server, .. } => *server == key,
            _ => false,
        };
        self.suspended.as_ref().is_some_and(|suspended| suspended.put_off.iter().any(|(command, _)| is_of(command)))
    }
}
