//! Places of connections that have not logged in: how many there are, and one that is given back.
//!
//! Always true: what is shared out is half of the places, also of fewer than before.
//! Not here: who takes one (`newcomers`).

use std::num::NonZeroU64;

use reactor::{Io, Peer};

use crate::data::client::Client;
use crate::limits::unauthenticated::UNLISTED;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// New settings say how many there may be.
    pub(crate) fn limit_unauthenticated(&mut self) {
        let limit = self.force.settings.unauthenticated_connections_max();
        let mut book = self.posts.unauthenticated.book();
        book.limit = limit as usize;
        // What is shared out is half of the places, also of fewer than before.
        for (key, Client { peer, seat, .. }) in self.clients.iter_mut() {
            if book.unlisted <= book.limit / 2 {
                break;
            }
            if seat.unauthenticated == Some(UNLISTED) {
                seat.unauthenticated = book.list(peer.origin(), (self.id, key));
            }
        }
    }

    /// A place that is not needed any more, if it was one.
    pub(crate) fn give_back_unauthenticated(&self, peer: &Peer, number: Option<NonZeroU64>) {
        if let Some(number) = number {
            self.posts.unauthenticated.book().leave(peer, number);
        }
    }
}
