//! Places of connections that have not logged in (`max_unauthenticated_connections`): taken, lost and given back.
//!
//! Always true: a connection that loses its place gets an error, unless it has authenticated meanwhile.
//! Not here: which connection loses its place (`unauthenticated`).

use std::num::NonZeroU64;

use base::{Key, Place};
use protocol::fault::Fault;
use reactor::{Io, Level, Peer};

use crate::data::client::{Client, ClientStage};
use crate::letters::ToWorker;
use crate::limits::unauthenticated::UNLISTED;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Counts an accepted connection until it has logged in. Returns whether it may stay.
    pub(crate) fn count_unauthenticated(&mut self, key: Key) -> bool {
        let Some(client) = self.clients.get_mut(key) else { return false };
        let mut book = self.hands.posts.unauthenticated.book();
        let (number, loser) = book.enter(&client.peer, (self.hands.id, key));
        client.slots.unauthenticated = number;
        let Some((worker, loser)) = loser else { return true };
        let notice = book.turn_away(self.hands.now);
        drop(book);
        self.limits.turned_away += 1;
        if let Some(notice) = notice {
            self.hands.log.add(Level::Warning, format_args!("{notice}"));
        }
        if worker == self.hands.id {
            self.displaced(loser);
        } else {
            (self.hands.posts.workers[usize::from(worker.0)])(ToWorker::Displaced(loser));
        }
        number.is_some()
    }

    /// A connection has lost its place among those that have not logged in. If it has authenticated meanwhile, it stays.
    pub(crate) fn displaced(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        let has_shown = client.slots.unauthenticated.is_none();
        match &client.stage {
            // A cancel request gets no reply. The request itself is carried out all the same.
            ClientStage::Cancelling(_) => self.drop_client(key, "max_unauthenticated_connections"),
            ClientStage::Login(_) if has_shown => {}
            ClientStage::Greeting(_) | ClientStage::Login(_) => {
                self.fail_client_unlogged(key, &Fault::UnauthenticatedFull)
            }
            ClientStage::Ready(_) | ClientStage::Console(_) => {}
        }
    }

    /// A PROXY header has told the address of a connection: it counts among those from there. Returns whether it may stay.
    pub(crate) fn recount_unauthenticated(&mut self, key: Key, told: Peer) -> bool {
        let is_listed = |number: &NonZeroU64| *number != UNLISTED;
        let is_listed = self.clients.get(key).is_some_and(|client| client.slots.unauthenticated.iter().any(is_listed));
        if is_listed {
            self.uncount_unauthenticated(key);
        }
        let Some(client) = self.clients.get_mut(key) else { return false };
        client.peer = told;
        !is_listed || self.count_unauthenticated(key)
    }

    /// A client has authenticated or disconnected: it no longer counts.
    pub(crate) fn uncount_unauthenticated(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        if let Some(number) = client.slots.unauthenticated.take() {
            self.hands.posts.unauthenticated.book().leave(&client.peer, number);
        }
    }

    /// A client that has not logged in has come here from another worker. Returns whether it still has its place.
    pub(crate) fn move_unauthenticated(&mut self, key: Key, number: Option<NonZeroU64>) -> bool {
        let Some(Client { peer, slots, .. }) = self.clients.get_mut(key) else { return false };
        slots.unauthenticated = number;
        let Some(number) = number.filter(|number| *number != UNLISTED) else { return true };
        let mut book = self.hands.posts.unauthenticated.book();
        match book.queue.get_mut(&Place { line: peer.origin(), number }) {
            Some(row) => {
                *row = (self.hands.id, key);
                true
            }
            None => false,
        }
    }

    /// Applies the limit of the new settings.
    pub(crate) fn limit_unauthenticated(&mut self) {
        let limit = self.hands.active.settings.unauthenticated_connections_max();
        let mut book = self.hands.posts.unauthenticated.book();
        book.limit = limit as usize;
        // Only half of the places may be taken without a list, also of a limit that was lowered.
        for (key, Client { peer, slots, .. }) in self.clients.iter_mut() {
            if book.unlisted <= book.limit / 2 {
                break;
            }
            if slots.unauthenticated == Some(UNLISTED) {
                slots.unauthenticated = book.list(peer.origin(), (self.hands.id, key));
            }
        }
    }
}
