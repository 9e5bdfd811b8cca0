//! What operators see and order on the console.
//!
//! Always true: an order is carried out between two turns, and is confirmed when it is done.
//! Not here: how orders are understood (`control::console`).

use base::Time;
use pool::{Command, ServerKey};
use protocol::fault::Fault;

use crate::admin::suspend::Suspended;
use crate::admin::under_way::Snapshots;
use crate::letters::{Order, Parts, Shutdown, ToWorker};

pub(crate) mod console;
pub(crate) mod orders;
pub(crate) mod reload;
pub(crate) mod seen;
pub(crate) mod shutdown;
pub(crate) mod slices;
pub(crate) mod snapshot;
pub(crate) mod standing;
pub(crate) mod stranded_locks;
pub(crate) mod suspend;
pub(crate) mod under_way;
pub(crate) mod wait_periods;
pub(crate) mod waits;

/// Orders of operators that are not finished in this worker: its shutdown, its suspension, and what they wait for.
#[derive(Debug)]
pub(crate) struct Admin<S> {
    shutdown: Option<Shutdown>,
    is_drained: bool,
    /// The shutdown will soon end clients, having waited for so many seconds: none gets a server any more.
    stopped_lending: Option<u64>,
    /// The shutdown no longer waits for clients.
    has_ended_clients: bool,
    /// Orders that wait for something, with the control thread's numbers for them.
    awaited: Vec<(u64, Order)>,
    /// What the control thread wants to know.
    snapshots: Snapshots,
    /// The suspension, if the worker is suspended.
    suspended: Option<Box<Suspended<S>>>,
    /// Another process has taken over the connections.
    is_handed_over: bool,
}

impl<S> Default for Admin<S> {
    fn default() -> Self {
        Self {
            shutdown: None,
            is_drained: false,
            stopped_lending: None,
            has_ended_clients: false,
            awaited: Vec::new(),
            snapshots: Snapshots::default(),
            suspended: None,
            is_handed_over: false,
        }
    }
}

impl<S> Admin<S> {
    /// Whether the control thread's questions are still being answered.
    pub(crate) fn has_questions(&self) -> bool {
        self.snapshots.is_any_under_way()
    }

    /// The control thread wants to know this.
    pub(crate) fn ask(&mut self, question: u64, what: Parts) {
        self.snapshots.ask(question, what);
    }

    /// Another process has taken over everything: there is no further turn.
    pub(crate) fn hand_over(&mut self) {
        (self.is_handed_over, self.shutdown) = (true, Some(Shutdown::Now));
    }

    /// Returns a command of the pools that is to be carried out now; a suspended worker defers it until it is resumed.
    pub(crate) fn pass_or_defer(&mut self, command: Command, now: Time) -> Option<Command> {
        match &mut self.suspended {
            Some(suspended) => {
                suspended.deferred.push((command, now));
                None
            }
            None => Some(command),
        }
    }

    /// Returns a letter that is to be read now; a suspended worker may keep it.
    pub(crate) fn keep_letter(&mut self, letter: ToWorker<S>) -> Option<ToWorker<S>> {
        match &mut self.suspended {
            Some(suspended) => suspended.keep_letter(letter),
            None => Some(letter),
        }
    }

    /// Whether the worker is suspended.
    pub(crate) fn is_resting(&self) -> bool {
        self.suspended.is_some()
    }

    /// When a suspended worker has to have come to rest, or to log what it waits for.
    pub(crate) fn rest_deadline(&self) -> Option<Option<Time>> {
        self.suspended.as_ref().map(|suspended| suspended.deadline())
    }

    /// Whether the worker is shutting down, in whatever way.
    pub(crate) fn is_going_down(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Whether the worker is shutting down and waits for its servers: no client gets another server.
    pub(crate) fn is_ending_servers(&self) -> bool {
        self.shutdown == Some(Shutdown::WaitForServers)
    }

    /// The error of a client that asks for a server while a shutdown lends none.
    pub(crate) fn lends_no_more(&self) -> Option<Fault> {
        if self.is_ending_servers() {
            return Some(Fault::ServersShuttingDown);
        }
        self.stopped_lending.map(|secs| Fault::ShutdownTimeout { secs })
    }

    /// Whether the worker has shut down.
    pub(crate) fn is_over(&self) -> bool {
        self.shutdown == Some(Shutdown::Now)
    }

    /// Whether another process has taken over the connections.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Whether a shutdown rejects a client on the Unix socket, or one by TCP. While the shutdown waits for clients, a TCP client had
    /// connected before the listener was closed, and would be rejected for no reason while another process listens on
    /// the same port; the Unix socket stays open, but only for the console and for cancel requests of peers.
    pub(crate) fn shuts_out(&self, is_on_unix_socket: bool) -> bool {
        match self.shutdown {
            None => false,
            Some(Shutdown::WaitForClients) => {
                is_on_unix_socket || self.stopped_lending.is_some() || self.has_ended_clients
            }
            Some(Shutdown::WaitForServers | Shutdown::Now) => true,
        }
    }

    /// Whether a server will be lent as soon as the worker is resumed.
    fn is_yet_to_be_lent(&self, key: ServerKey) -> bool {
        let is_of = |command: &Command| match command {
            Command::Attach { server, .. } | Command::Bind { server, .. } => *server == key,
            _ => false,
        };
        self.suspended.as_ref().is_some_and(|suspended| suspended.deferred.iter().any(|(command, _)| is_of(command)))
    }
}
