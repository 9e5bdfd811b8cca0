//! Clients that read notifications more slowly than they come: the listener waits for them for a limited time.
//!
//! Always true: a listener that waits is not read from, so that PostgreSQL keeps its notifications; no notification is
//! dropped for a client while the listener waits for it.
//! Not here: passing notifications on, and when there are too many (`news`); how long the listener waits for a client
//! (`protocol::state::Patience`).

use std::collections::BTreeSet;

use pool::ClientKey;
use reactor::Io;

use crate::lookups::QUEUE_BYTES_MARK;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client got a notification; the listener waits if the client is behind.
    pub(crate) fn wait_for_slow_client(&mut self, database: u32, key: ClientKey) {
        let Some(conn) = self.clients.get(key).map(|client| client.conn) else { return };
        if !self.is_client_behind(key) {
            return;
        }
        let listening = &mut self.registry.database_at_mut(database).listening;
        let Some(until) = listening.patience.falls_behind(key, self.hands.now) else { return };
        self.notify.alarms.rows.push_back((until, database));
        self.hands.io.tell_when_drained(conn);
        if let Some(server) = self.server_for_all(database)
            && let Some(server) = self.servers.get_mut(server)
            && server.pauses()
        {
            self.hands.io.pause(server.conn());
        }
    }

    /// A client has read what was queued for it at some time. It may still be behind with what came later.
    pub(crate) fn slow_client_drained(&mut self, database: u32, key: ClientKey) {
        if !self.registry.database_at(database).listening.patience.is_behind(&key) {
            return;
        }
        match self.clients.get(key).map(|client| client.conn).filter(|_| self.is_client_behind(key)) {
            Some(conn) => self.hands.io.tell_when_drained(conn),
            None => self.end_wait_for_client(database, key),
        }
    }

    /// A client has caught up, or goes.
    pub(crate) fn end_wait_for_client(&mut self, database: u32, key: ClientKey) {
        if self.registry.database_at_mut(database).listening.patience.keeps_up(&key) {
            self.go_on_telling(database);
        }
    }

    /// Stops waiting for clients that have not caught up in time.
    pub(crate) fn end_patience(&mut self) {
        // Called in every turn, and hardly ever is a client waited for.
        if self.notify.alarms.next_deadline().is_some_and(|at| at <= self.hands.now) {
            self.end_due_patience();
        }
    }

    #[cold]
    fn end_due_patience(&mut self) {
        // Each client has an alarm, and one tick of a database handles all clients of it that are due.
        let mut due = BTreeSet::new();
        while let Some(&(_, database)) = self.notify.alarms.rows.front().filter(|(at, _)| *at <= self.hands.now) {
            self.notify.alarms.rows.pop_front();
            due.insert(database);
        }
        for database in due {
            self.registry.database_at_mut(database).listening.patience.tick(self.hands.now);
            self.go_on_telling(database);
        }
    }

    fn go_on_telling(&mut self, database: u32) {
        if !self.registry.database_at(database).listening.patience.is_waiting()
            && let Some(server) = self.server_for_all(database)
        {
            self.resume_server(server);
        }
    }

    /// Whether the output queue of a client is longer than that of a client that reads.
    fn is_client_behind(&self, key: ClientKey) -> bool {
        let mark = QUEUE_BYTES_MARK.min(self.notify_queue_max() / 2);
        self.clients.get(key).is_some_and(|client| self.hands.io.unsent(client.conn) > mark)
    }
}
