//! Clients that take what one server tells all of them more slowly than it comes: it waits for them, for a moment.
//!
//! Always true: a server that waits is not received from, so that PostgreSQL keeps what comes; nothing that comes while somebody is waited for
//! is too much for it.
//! Not here: what is told to whom, and what is too much (`news`); for how long whoever is waited for (`protocol::state::Patience`).

use std::collections::BTreeSet;

use pool::ClientKey;
use reactor::Io;

use crate::lookups::QUEUE_BYTES_MARK;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client has been told something by the session for all, which waits if that is behind.
    pub(crate) fn wait_for_listener(&mut self, database: u32, key: ClientKey) {
        let Some(conn) = self.clients.get(key).map(|client| client.conn) else { return };
        if !self.is_listener_behind(key) {
            return;
        }
        let listening = &mut self.registry.databases[database as usize].listening;
        let Some(until) = listening.patience.falls_behind(key, self.now) else { return };
        self.notify.alarms.rows.push_back((until, database));
        self.io.tell_when_drained(conn);
        if let Some(server) = self.server_for_all(database)
            && let Some(server) = self.servers.get_mut(server)
            && !std::mem::replace(&mut server.is_paused, true)
        {
            self.io.pause(server.conn);
        }
    }

    /// A client has taken what it had been given at some time. What has come since may still be too much.
    pub(crate) fn listener_drained(&mut self, database: u32, key: ClientKey) {
        if !self.registry.databases[database as usize].listening.patience.is_behind(&key) {
            return;
        }
        match self.clients.get(key).map(|client| client.conn).filter(|_| self.is_listener_behind(key)) {
            Some(conn) => self.io.tell_when_drained(conn),
            None => self.listener_keeps_up(database, key),
        }
    }

    /// A client has taken everything, or goes.
    pub(crate) fn listener_keeps_up(&mut self, database: u32, key: ClientKey) {
        if self.registry.databases[database as usize].listening.patience.keeps_up(&key) {
            self.go_on_telling(database);
        }
    }

    /// Gives up waiting for those who have not kept up in time.
    pub(crate) fn end_patience(&mut self) {
        // This is asked many times in a turn, and hardly ever is anybody waited for.
        if self.notify.alarms.next_deadline().is_some_and(|at| at <= self.now) {
            self.end_due_patience();
        }
    }

    #[cold]
    fn end_due_patience(&mut self) {
        // There is an alarm for each of them, and one look at a database ends it for all.
        let mut due = BTreeSet::new();
        while let Some(&(_, database)) = self.notify.alarms.rows.front().filter(|(at, _)| *at <= self.now) {
            self.notify.alarms.rows.pop_front();
            due.insert(database);
        }
        for database in due {
            let Some(place) = self.registry.databases.get_mut(database as usize) else { continue };
            place.listening.patience.tick(self.now);
            self.go_on_telling(database);
        }
    }

    fn go_on_telling(&mut self, database: u32) {
        if !self.registry.databases[database as usize].listening.patience.is_waiting()
            && let Some(server) = self.server_for_all(database)
        {
            self.resume_server(server);
        }
    }

    /// Whether more waits for a client than one that reads has before it.
    fn is_listener_behind(&self, key: ClientKey) -> bool {
        let mark = QUEUE_BYTES_MARK.min(self.notify_queue_max() / 2);
        self.clients.get(key).is_some_and(|client| self.io.unsent(client.conn) > mark)
    }
}
