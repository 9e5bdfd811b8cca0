//! Cancel keys of clients, and cancel requests that are sent to servers.
//!
//! Always true: for each query of a server there is one request at most.
//! Not here: cancel requests of clients, and how a request proceeds (`requests`).

use base::{Key, WorkerId};
use pool::ServerKey;
use protocol::cancel::{CancelKey, KeyName};
use reactor::{Conn, Io, Level};

use crate::cancel::tables::Cancel;
use crate::letters::Requester;
use crate::timers::Timer;
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Draws the cancel key of a client that uses protocol 3.`minor`. The key is valid from now on.
    pub(crate) fn give_cancel_key(&mut self, client: Key, minor: u16) -> CancelKey {
        let peer = self.hands.active.settings.own_peer();
        let key = CancelKey::draw(self.hands.id, peer, minor, |bytes| self.hands.io.randomness(bytes));
        self.cancel.keys.insert(key.name(), client);
        key
    }

    /// The worker that knows where the client of a key is.
    pub(crate) fn named_by(&self, name: KeyName) -> WorkerId {
        WorkerId((usize::from(name.worker().0) % self.hands.posts.workers.len()) as u8)
    }

    /// Dials a second connection to the server's host; returns whether that has begun. As PostgreSQL's documentation
    /// says too, the request may have no effect.
    pub(crate) fn cancel_server(&mut self, key: ServerKey, requester: Option<Requester>) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        let (Some(address), false) = (server.address.clone(), server.cancel_key.is_empty()) else { return false };
        let number = server.query_number;
        let demand = server.demand.clone().filter(|_| server.security.is_some());
        let secret = demand.map(|demand| (demand, server.host.clone()));
        let is_same = |cancel: &Cancel| cancel.server == key && cancel.query_number == number;
        if let Some((_, other)) = self.cancel.rows.iter_mut().find(|(_, cancel)| is_same(cancel)) {
            other.requesters.extend(requester);
            return true;
        }
        let cancel = Cancel {
            conn: Conn::NOWHERE,
            server: key,
            pool: server.pool,
            query_number: server.query_number,
            is_sent: false,
            secret,
            timer: None,
            since: self.hands.now,
            requesters: requester.into_iter().collect(),
        };
        let Ok(cancel_key) = self.cancel.rows.insert(cancel) else { return false };
        match self.hands.io.connect(&address, Owner::Cancel(cancel_key).to_bits()) {
            Ok(conn) => {
                let limit = self.hands.active.settings.cancel_wait_timeout;
                let timer =
                    limit.map(|limit| self.hands.timers.insert(self.hands.now + limit, Timer::Cancel(cancel_key)));
                if let Some(cancel) = self.cancel.rows.get_mut(cancel_key) {
                    (cancel.conn, cancel.timer) = (conn, timer);
                }
                true
            }
            Err(error) => {
                self.cancel.rows.remove(cancel_key);
                self.hands.log.add(Level::Warning, format_args!("failed to send cancel request: {error}"));
                false
            }
        }
    }
}
