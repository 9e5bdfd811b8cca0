//! How a worker shuts down: which clients are rejected, what is waited for and how long, and when nothing is left.
//!
//! Always true: a shutdown that waits for clients closes no client that has been let in, until shortly before its timeout;
//! and none that has a server until the timeout.
//! Not here: when the process ends (`control`), how a client is closed (`data::close`).

use base::Key;
use protocol::fault::Fault;
use reactor::Io;

use crate::data::client::ClientStage;
use crate::data::server::ServerStage;
use crate::letters::{Shutdown, ToControl};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Notes in which way the worker is to shut down.
    pub(crate) fn begin_to_go_down(&mut self, way: Shutdown) {
        self.admin.shutdown = Some(way);
        self.admin.is_drained = false;
    }

    /// Begins the shutdown of a worker that is not suspended: new connections come only over the Unix socket.
    pub(crate) fn go_down(&mut self, way: Shutdown) {
        self.hands.io.accept(reactor::Accepting::OnlyUnix);
        if way == Shutdown::WaitForServers {
            self.pause_for_good();
        }
    }

    /// `shutdown_timeout` has nearly passed: clients that have no server are closed, the others when they ask for one again,
    /// so that transactions that have begun can end. Clients of the console stay.
    pub(crate) fn stop_lending(&mut self, secs: u64) {
        self.admin.stopped_lending = Some(secs);
        for key in self.clients.keys() {
            let Some(client) = self.clients.get(key).filter(|client| !client.is_own) else { continue };
            let has_no_server = match &client.stage {
                ClientStage::Login(_) => true,
                ClientStage::Ready(ready) => ready.link().server().is_none() && ready.replication().is_none(),
                ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => false,
            };
            if has_no_server {
                self.fail_client(key, &Fault::ShutdownTimeout { secs });
            }
            self.settle();
        }
    }

    /// `shutdown_timeout` has passed: the remaining clients get an error and are closed; their servers are cleaned up.
    pub(crate) fn end_clients(&mut self, secs: u64) {
        self.admin.has_ended_clients = true;
        self.admin.is_drained = false;
        for key in self.clients.keys() {
            match self.clients.get(key).map(|client| &client.stage) {
                Some(ClientStage::Cancelling(_)) => self.drop_client(key, "shutdown_timeout"),
                Some(_) => self.fail_client(key, &Fault::ShutdownTimeout { secs }),
                None => {}
            }
            self.settle();
        }
    }

    /// Reports to the control thread when nothing is left that the shutdown waits for, and when a client has come after
    /// all: to the console, or from a worker that had accepted it before.
    pub(crate) fn report_drained(&mut self) {
        if self.admin.shutdown.is_none() {
            return;
        }
        let is_drained = self.has_nothing_left();
        if std::mem::replace(&mut self.admin.is_drained, is_drained) != is_drained {
            (self.hands.posts.control)(ToControl::Drained { from: self.hands.id, is_drained });
        }
    }

    /// For a shutdown that waits for servers: idle servers are closed now, the others when their loans end, and no
    /// client gets another server.
    pub(crate) fn pause_for_good(&mut self) {
        for client in self.waiting_clients() {
            self.fail_client(client, &Fault::ServersShuttingDown);
            self.settle();
        }
        for pool in self.registry.pool_keys() {
            self.stand(pool);
            self.settle();
        }
    }

    /// The clients that wait for a server.
    fn waiting_clients(&self) -> Vec<Key> {
        self.clients.iter().filter(|(_, client)| client.is_waiting()).map(|(key, _)| key).collect()
    }

    /// Whether nothing is left that the shutdown waits for.
    pub(crate) fn has_nothing_left(&self) -> bool {
        match self.admin.shutdown {
            Some(Shutdown::WaitForClients) => {
                // Queries of the clients that were closed are being cancelled, and their transactions rolled back.
                let mut servers = self.servers.iter();
                let is_mending = self.admin.has_ended_clients
                    && servers.any(|(_, server)| matches!(server.stage(), ServerStage::Cleaning(_)));
                !is_mending && self.clients.iter().all(|(_, client)| client.is_own)
            }
            Some(Shutdown::WaitForServers) => self.servers.iter().next().is_none(),
            Some(Shutdown::Now) | None => false,
        }
    }
}
