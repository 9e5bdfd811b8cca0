//! Clients that take what one server tells all of them more slowly than it comes: it waits for them, for a moment.
//!
//! Always true: nobody is waited for longer than [`PATIENCE`] before it has taken everything; who has not by then is on its own, and loses what
//! is too much for `notify_queue_size`. A server that waits is not received from, so that PostgreSQL keeps what comes.
//! Not here: what is told to whom, and what is too much (`listen`).

use std::collections::VecDeque;
use std::time::Duration;

use base::{Key, Time};
use pool::ClientKey;
use reactor::Io;

use crate::client::{Client, Link, Stage};
use crate::flow::QUEUE_BYTES_MARK;
use crate::turn::Worker;

/// Who is waited for, and some who were, in the order of time: until when, of which database.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    rows: VecDeque<(Time, u32, ClientKey)>,
}

impl Patience {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(until, ..)| *until)
    }
}

impl<I: Io> Worker<I> {
    /// So much may wait for one client (`notify_queue_size`).
    pub(crate) fn notify_queue_max(&self) -> usize {
        match self.force.settings.notify_queue_size {
            0 => usize::MAX,
            bytes => bytes as usize,
        }
    }

    /// A client has been told something by the session for all, which waits if that is behind.
    pub(crate) fn wait_for_listener(&mut self, database: u32, key: ClientKey) {
        let Some(client) = self.clients.get(key) else { return };
        let conn = client.conn;
        if self.io.unsent(conn) <= self.behind_mark() {
            return;
        }
        let listening = &mut self.places.databases[database as usize].listening;
        if listening.behind.contains_key(&key) {
            return;
        }
        listening.behind.insert(key, true);
        self.io.tell_when_drained(conn);
        self.patience.rows.push_back((self.now + PATIENCE, database, key));
        if let Some(server) = self.server_for_all(database)
            && let Some(server) = self.servers.get_mut(server)
            && !std::mem::replace(&mut server.is_paused, true)
        {
            self.io.pause(server.conn);
        }
    }

    /// A client has taken what it had been given at some time. What has come since may still be too much.
    pub(crate) fn listener_drained(&mut self, database: u32, key: ClientKey) {
        if !self.places.databases[database as usize].listening.behind.contains_key(&key) {
            return;
        }
        let Some(client) = self.clients.get(key) else { return };
        let conn = client.conn;
        if self.io.unsent(conn) > self.behind_mark() {
            self.io.tell_when_drained(conn);
        } else {
            self.listener_keeps_up(database, key);
        }
    }

    /// With more than this a client is behind.
    fn behind_mark(&self) -> usize {
        QUEUE_BYTES_MARK.min(self.notify_queue_max() / 2)
    }

    /// A client has taken everything, or goes.
    pub(crate) fn listener_keeps_up(&mut self, database: u32, key: ClientKey) {
        let listening = &mut self.places.databases[database as usize].listening;
        if listening.behind.remove(&key).is_some() {
            self.go_on_telling(database);
        }
    }

    /// Gives up waiting for those who have not kept up in time.
    pub(crate) fn end_patience(&mut self) {
        while let Some(&(_, database, key)) = self.patience.rows.front().filter(|(until, ..)| *until <= self.now) {
            self.patience.rows.pop_front();
            let Some(place) = self.places.databases.get_mut(database as usize) else { continue };
            if let Some(is_waited_for) = place.listening.behind.get_mut(&key) {
                *is_waited_for = false;
                self.go_on_telling(database);
            }
        }
    }

    fn go_on_telling(&mut self, database: u32) {
        let behind = &self.places.databases[database as usize].listening.behind;
        if !behind.values().any(|is_waited_for| *is_waited_for)
            && let Some(server) = self.server_for_all(database)
        {
            self.resume_server(server);
        }
    }

    /// The server of the session that listens for all.
    fn server_for_all(&self, database: u32) -> Option<Key> {
        let session = self.places.databases[database as usize].listening.session?;
        match self.clients.get(session) {
            Some(Client { stage: Stage::Ready(ready), .. }) => match ready.link {
                Link::Loan(server) => Some(server),
                _ => None,
            },
            _ => None,
        }
    }
}

/// So long the session for all waits for who is behind: a client that reads has taken what lies before it by then.
const PATIENCE: Duration = Duration::from_secs(1);
