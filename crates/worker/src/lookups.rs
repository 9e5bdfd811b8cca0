//! Questions about clients and servers that many files ask.
//!
//! Always true: nothing here changes any state.
//! Not here: deadlines (`deadlines`), log lines (`lines`).

use base::Key;
use pool::{ClientKey, ServerKey, Subject};
use protocol::replication::Replication;
use reactor::Io;
use wire::MESSAGE_BYTES_MAX;

use crate::admin::console::CONSOLE;
use crate::data::client::{ClientStage, Ready};
use crate::data::server::ServerStage;
use crate::planted::is_aimed_at;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Which replication stream a client wants, if any.
    pub(crate) fn replication_of(&self, key: Key) -> Option<Replication> {
        match &self.clients.get(key)?.stage {
            ClientStage::Login(login) => login.request().replication,
            ClientStage::Ready(ready) => ready.replication(),
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => None,
        }
    }

    /// Names and address of a client, by which rate limits and tracers choose clients.
    pub(crate) fn subject(&self, key: Key) -> Option<Subject<'_>> {
        let client = self.clients.get(key)?;
        let name = self.hands.active.tracked.application_name();
        let (user, database, application_name) = match &client.stage {
            ClientStage::Login(login) => {
                (&*login.request().user, &*login.request().database, login.request().vars.get(name).unwrap_or(""))
            }
            ClientStage::Ready(ready) => (
                &*self.registry.user_at(ready.session().user).name,
                &*self.registry.pool(ready.home())?.database_name,
                ready.session().vars.get(name).unwrap_or(""),
            ),
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => return None,
        };
        let address = client.peer.tcp().map(|address| address.ip());
        Some(Subject { user, database, address, application_name })
    }

    /// The longest message accepted from a client, by its length word.
    pub(crate) fn message_bytes_max(&self) -> u32 {
        self.hands.active.settings.max_packet_size.min(MESSAGE_BYTES_MAX)
    }

    /// Whether a client has, or may have, session state on its server that must be probed.
    pub(crate) fn is_marked(&self, client: ClientKey) -> bool {
        self.clients.ready(client).is_some_and(Ready::is_marked)
    }

    /// Whether bytes of the client may go to this server now.
    pub(crate) fn may_forward(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        // A cancel request that is still under way must not hit the client's next query.
        let is_aimed_at = is_aimed_at(server.session().would_be_cancelled());
        let is_free =
            server.session().phase.is_running() && !server.session().repeatable.is_refused() && !server.is_full();
        matches!(server.stage(), ServerStage::Lent { .. }) && is_free && !is_aimed_at
    }

    /// Whether a client has so many answers still to read that it gets no server for new requests. It gets one when it
    /// has read them.
    pub(crate) fn is_behind(&self, client: Key) -> bool {
        self.clients.get(client).is_some_and(|row| self.hands.io.unsent(row.conn) > QUEUE_BYTES_MARK)
    }

    /// The server of a database's listener.
    pub(crate) fn server_for_all(&self, database: u32) -> Option<Key> {
        let session = self.registry.database_at(database).listening.session()?;
        self.clients.ready(session)?.link().server()
    }

    /// Whether this is a listener's server. A suspended worker does not spread work over turns, so the answer is no.
    pub(crate) fn tells_all(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key).filter(|server| !server.is_released()) else { return false };
        let client = server.client().and_then(|client| self.clients.get(client));
        !self.admin.is_resting() && client.is_some_and(|client| client.is_listener)
    }

    /// The bytes that may be queued for one client (`notify_queue_size`).
    pub(crate) fn notify_queue_max(&self) -> usize {
        match self.hands.active.settings.notify_queue_size {
            0 => usize::MAX,
            bytes => bytes as usize,
        }
    }

    /// Whether a user may enter the console however full it is.
    pub(crate) fn is_admin(&self, user: &str) -> bool {
        self.hands.active.settings.admin_users.has(user) || user == CONSOLE
    }
}

/// Bytes in a queue beyond which its source is paused. Together with what the kernel has already received this bounds
/// the memory of one connection.
pub(crate) const QUEUE_BYTES_MARK: usize = 131_072;
