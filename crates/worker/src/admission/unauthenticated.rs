//! Connections that have not logged in: so many may there be, and who floods from one address keeps nobody from another one out.
//!
//! Always true: a connection counts from when it is accepted until it has shown who it is, or has gone; a cancel request counts to its end.
//! Whoever comes while more than half of the places are free takes one and is on no list, so that a login costs little. The other half is shared
//! out: where all are taken, one more takes the place of the youngest from the address that has most of it, or has none itself. The control thread's
//! connections do not count.
//! Not here: the queue (`base::FairQueue`), clients that have shown who they are (`limits::shared_slots`).

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{FairQueue, Key, Origin, Place, Time, WorkerId};
use protocol::fault::Fault;
use reactor::{Io, Level, Peer};

use crate::data::client::{Client, Stage};
use crate::letters::ToWorker;
use crate::turn::Worker;

/// The connections of the process that have not logged in. It is behind one lock, which is taken twice for a login and never after it.
#[derive(Clone, Debug)]
pub struct Unauthenticated(Arc<Mutex<Book>>);

#[derive(Debug)]
struct Book {
    /// So many may there be.
    limit: usize,
    /// How many are there that are not in `queue`.
    unlisted: usize,
    /// Which connection of which worker, by where it comes from.
    queue: FairQueue<Origin, (WorkerId, Key)>,
    /// How many were turned away since the last line about them, and when that was.
    untold: u64,
    told_at: Option<Time>,
}

/// Some were turned away.
#[derive(Debug)]
struct Notice {
    turned_away: u64,
    limit: usize,
    most: Option<(Origin, usize)>,
}

/// Who loses its place.
enum Loser {
    Nobody,
    /// One that was there.
    Other(WorkerId, Key),
    /// Whoever has come.
    Newcomer,
}

impl Default for Unauthenticated {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Book::default())))
    }
}

impl Unauthenticated {
    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic ends the process: nobody leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Book {
    fn default() -> Self {
        let queue = FairQueue::with_capacity(usize::MAX);
        Self { limit: usize::MAX, unlisted: 0, queue, untold: 0, told_at: None }
    }
}

impl Book {
    /// Somebody has connected; the number of its place, and who has to go for it.
    fn enter(&mut self, peer: &Peer, who: (WorkerId, Key)) -> (Option<NonZeroU64>, Loser) {
        if self.unlisted + self.queue.len() < self.limit / 2 {
            self.unlisted += 1;
            return (Some(UNLISTED), Loser::Nobody);
        }
        self.queue.set_capacity(self.limit.saturating_sub(self.unlisted));
        match self.queue.push(peer.origin(), who) {
            Ok((place, None)) => (Some(place.number), Loser::Nobody),
            Ok((place, Some((worker, key)))) => (Some(place.number), Loser::Other(worker, key)),
            Err(_) => (None, Loser::Newcomer),
        }
    }

    /// Whoever is on no list comes on one.
    fn list(&mut self, origin: Origin, who: (WorkerId, Key)) -> Option<NonZeroU64> {
        self.unlisted -= 1;
        self.queue.set_capacity(usize::MAX);
        self.queue.push(origin, who).ok().map(|(place, _)| place.number)
    }

    /// A place is given back.
    fn leave(&mut self, peer: &Peer, number: NonZeroU64) {
        if number == UNLISTED {
            self.unlisted -= 1;
        } else {
            self.queue.remove(&Place { line: peer.origin(), number });
        }
    }

    /// One was turned away. What the log is told of that, which is once in a second.
    fn turn_away(&mut self, now: Time) -> Option<Notice> {
        self.untold += 1;
        if self.told_at.is_some_and(|at| now.since(at) < TOLD_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        let turned_away = std::mem::take(&mut self.untold);
        Some(Notice { turned_away, limit: self.limit, most: self.queue.longest() })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { turned_away, limit, most } = self;
        write!(
            f,
            "{limit} connections have not logged in (max_unauthenticated_connections), {turned_away} turned away"
        )?;
        match most {
            Some((origin, count)) => write!(f, ", {count} come from {origin}"),
            None => Ok(()),
        }
    }
}

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

    /// A connection has been accepted and counts until it has logged in. Whether it may stay.
    pub(crate) fn count_unauthenticated(&mut self, key: Key) -> bool {
        let Some(client) = self.clients.get_mut(key) else { return false };
        let mut book = self.posts.unauthenticated.book();
        let (number, loser) = book.enter(&client.peer, (self.id, key));
        client.seat.unauthenticated = number;
        let loser = match loser {
            Loser::Nobody => return true,
            Loser::Other(worker, key) => (worker, key),
            Loser::Newcomer => (self.id, key),
        };
        let notice = book.turn_away(self.now);
        drop(book);
        self.turned_away += 1;
        if let Some(notice) = notice {
            self.log.add(Level::Warning, format_args!("{notice}"));
        }
        if loser.0 == self.id {
            self.displaced(loser.1);
        } else {
            (self.posts.workers[usize::from(loser.0.0)])(ToWorker::Displaced(loser.1));
        }
        number.is_some()
    }

    /// A connection has lost its place among those that have not logged in. If it has logged in meanwhile, it does not need it.
    pub(crate) fn displaced(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        let has_shown = client.seat.unauthenticated.is_none();
        match &client.stage {
            // Nothing is said to whoever sends a cancel request. The request goes its way.
            Stage::Cancelling(_) => self.drop_client(key, "max_unauthenticated_connections"),
            Stage::Login(_) if has_shown => {}
            Stage::Greeting(_) | Stage::Login(_) => self.fail_client_unlogged(key, &Fault::UnauthenticatedFull),
            Stage::Ready(_) | Stage::Console(_) => {}
        }
    }

    /// A client has shown who it is, or has gone: it does not count any longer.
    pub(crate) fn uncount_unauthenticated(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        if let Some(number) = client.seat.unauthenticated.take() {
            self.posts.unauthenticated.book().leave(&client.peer, number);
        }
    }

    /// A place that is not needed any more, if it was one.
    pub(crate) fn give_back_unauthenticated(&self, peer: &Peer, number: Option<NonZeroU64>) {
        if let Some(number) = number {
            self.posts.unauthenticated.book().leave(peer, number);
        }
    }

    /// A client that has not logged in has come here from another worker. Whether its place is still its own.
    pub(crate) fn move_unauthenticated(&mut self, key: Key, number: Option<NonZeroU64>) -> bool {
        let Some(Client { peer, seat, .. }) = self.clients.get_mut(key) else { return false };
        seat.unauthenticated = number;
        let Some(number) = number.filter(|number| *number != UNLISTED) else { return true };
        let mut book = self.posts.unauthenticated.book();
        match book.queue.get_mut(&Place { line: peer.origin(), number }) {
            Some(row) => {
                *row = (self.id, key);
                true
            }
            None => false,
        }
    }
}

/// The place of whoever is on no list.
const UNLISTED: NonZeroU64 = NonZeroU64::MAX;
/// How often the log is told that some were turned away.
const TOLD_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn book(limit: usize) -> Book {
        Book { limit, ..Book::default() }
    }

    fn from(last: u8) -> Peer {
        Peer::Tcp(([127, 0, 0, last], 5432).into())
    }

    fn enter(book: &mut Book, address: u8, number: u32) -> Result<Option<u32>, ()> {
        match book.enter(&from(address), (WorkerId(0), Key { index: number, generation: 1 })) {
            (Some(_), Loser::Nobody) => Ok(None),
            (Some(_), Loser::Other(_, key)) => Ok(Some(key.index)),
            _ => Err(()),
        }
    }

    #[test]
    fn who_floods_from_one_address_keeps_nobody_from_another_one_out() {
        let mut book = book(50);
        for number in 0..50 {
            assert_eq!(enter(&mut book, 2, number), Ok(None));
        }
        assert_eq!(enter(&mut book, 2, 50), Err(()));
        assert_eq!(enter(&mut book, 1, 100), Ok(Some(49)));
        assert_eq!(enter(&mut book, 3, 101), Ok(Some(48)));
        assert_eq!(enter(&mut book, 2, 51), Err(()));
    }

    #[test]
    fn while_half_of_the_places_are_free_nobody_is_on_a_list() {
        let mut book = book(10);
        let who = |number| (WorkerId(0), Key { index: number, generation: 1 });
        let places: Vec<_> = (0..10).filter_map(|number| book.enter(&from(2), who(number)).0).collect();
        assert_eq!((places.len(), book.unlisted, book.queue.len()), (10, 5, 5));
        assert!(places[..5].iter().all(|place| *place == UNLISTED));
        book.leave(&from(2), places[0]);
        // Not while the others are there.
        assert_eq!(enter(&mut book, 2, 10), Ok(None));
        assert_eq!((book.unlisted, book.queue.len()), (4, 6));
        assert_eq!(enter(&mut book, 1, 11), Ok(Some(10)));
        places[1..].iter().for_each(|place| book.leave(&from(2), *place));
        assert_eq!((book.unlisted, book.queue.len()), (0, 1));
        assert_eq!(book.enter(&from(2), who(12)).0, Some(UNLISTED));
    }

    #[test]
    fn the_log_is_told_once_a_second_of_all_since_the_last_time() {
        let mut book = book(1);
        assert_eq!(enter(&mut book, 2, 0), Ok(None));
        let at = |millis: u64| Time(millis * 1000);
        let told = book.turn_away(at(5000)).expect("a line").to_string();
        let words = "1 connections have not logged in (max_unauthenticated_connections)";
        assert_eq!(told, format!("{words}, 1 turned away, 1 come from 127.0.0.2"));
        assert!(book.turn_away(at(5999)).is_none() && book.turn_away(at(5999)).is_none());
        let told = book.turn_away(at(6000)).expect("a line").to_string();
        assert_eq!(told, format!("{words}, 3 turned away, 1 come from 127.0.0.2"));
    }
}
