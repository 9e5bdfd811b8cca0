//! Counts connections that have not logged in, so that a flood from one address does not keep out clients from others.
//!
//! Always true: a connection counts from `accept()` until it has authenticated or gone; a cancel request counts until
//! it has finished. A connection that comes while more than half of the places are free is on no list, so that a login
//! costs little. The other half is shared out fairly: when all places are taken, a new connection replaces the youngest
//! of the address with the most listed ones, or is refused if no address has more than its own would have. The control
//! thread's connections do not count.
//! Not here: the queue (`base::FairQueue`), authenticated clients (`shared_slots`), closing the loser (`newcomers`).

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{FairQueue, Key, Origin, Place, Time, WorkerId, counted};
use reactor::Peer;

use crate::repeated::Repeated;

/// The connections of the process that have not logged in, behind one lock, which is taken twice for a login and never
/// after it.
#[derive(Clone, Debug)]
pub struct Unauthenticated(Arc<Mutex<Book>>);

impl Default for Unauthenticated {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Book::default())))
    }
}

impl Unauthenticated {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        // A panic ends the process, so no thread leaves the book half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the place of a connection, if it had one.
    pub(crate) fn give_back(&self, peer: &Peer, number: Option<NonZeroU64>) {
        if let Some(number) = number {
            self.book().leave(peer, number);
        }
    }
}

#[derive(Debug)]
pub(super) struct Book {
    /// How many such connections there may be.
    pub(super) limit: usize,
    /// How many of them are not in `queue`.
    pub(super) unlisted: usize,
    /// The worker and key of each listed connection, by its address.
    pub(super) queue: FairQueue<Origin, (WorkerId, Key)>,
    turned_away: Repeated,
}

impl Default for Book {
    fn default() -> Self {
        let queue = FairQueue::with_capacity(usize::MAX);
        Self { limit: usize::MAX, unlisted: 0, queue, turned_away: Repeated::default() }
    }
}

impl Book {
    /// A connection has been accepted. Returns the number of its place and the connection that has
    /// to go for it: another one, or this one if there is no place for it.
    pub(super) fn enter(&mut self, peer: &Peer, who: (WorkerId, Key)) -> (Option<NonZeroU64>, Option<(WorkerId, Key)>) {
        if self.unlisted + self.queue.len() < self.limit / 2 {
            self.unlisted += 1;
            return (Some(UNLISTED), None);
        }
        self.queue.set_capacity(self.limit.saturating_sub(self.unlisted));
        match self.queue.push(peer.origin(), who) {
            Ok((place, loser)) => (Some(place.number), loser),
            Err(_) => (None, Some(who)),
        }
    }

    /// Puts a connection without a list into the queue.
    pub(super) fn list(&mut self, origin: Origin, who: (WorkerId, Key)) -> Option<NonZeroU64> {
        self.unlisted -= 1;
        self.queue.set_capacity(usize::MAX);
        self.queue.push(origin, who).ok().map(|(place, _)| place.number)
    }

    /// Gives a place back.
    pub(super) fn leave(&mut self, peer: &Peer, number: NonZeroU64) {
        if number == UNLISTED {
            self.unlisted -= 1;
        } else {
            self.queue.remove(&Place { line: peer.origin(), number });
        }
    }

    /// Counts a connection that is turned away. Returns what to log, at most once a second.
    pub(super) fn turn_away(&mut self, now: Time) -> Option<Notice> {
        let turned_away = self.turned_away.happens(now, TOLD_EVERY)?;
        Some(Notice { turned_away, limit: self.limit, most: self.queue.longest() })
    }
}

/// The log line about connections that were turned away.
#[derive(Debug)]
pub(super) struct Notice {
    turned_away: u64,
    limit: usize,
    most: Option<(Origin, usize)>,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { turned_away, limit, most } = self;
        let (connections, have) = (counted(*limit, "connection"), if *limit == 1 { "has" } else { "have" });
        write!(f, "{connections} {have} not logged in (max_unauthenticated_connections), {turned_away} turned away")?;
        match most {
            Some((origin, 1)) => write!(f, ", 1 comes from {origin}"),
            Some((origin, count)) => write!(f, ", {count} come from {origin}"),
            None => Ok(()),
        }
    }
}

/// The place of a connection that is on no list.
pub(crate) const UNLISTED: NonZeroU64 = NonZeroU64::MAX;
/// How often at most turned-away connections are logged.
const TOLD_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn book(limit: usize) -> Book {
        Book { limit, ..Book::default() }
    }

    fn from(last: u8) -> Peer {
        Peer::Tcp { ip: [127, 0, 0, last].into(), port: 5432 }
    }

    fn enter(book: &mut Book, address: u8, number: u32) -> Result<Option<u32>, ()> {
        match book.enter(&from(address), (WorkerId(0), Key::first(number))) {
            (Some(_), loser) => Ok(loser.map(|(_, key)| key.index)),
            (None, _) => Err(()),
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
        let who = |number| (WorkerId(0), Key::first(number));
        let places: Vec<_> = (0..10).filter_map(|number| book.enter(&from(2), who(number)).0).collect();
        assert_eq!((places.len(), book.unlisted, book.queue.len()), (10, 5, 5));
        assert!(places[..5].iter().all(|place| *place == UNLISTED));
        book.leave(&from(2), places[0]);
        // The other half of the places is still taken.
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
        let words = "1 connection has not logged in (max_unauthenticated_connections)";
        assert_eq!(told, format!("{words}, 1 turned away, 1 comes from 127.0.0.2"));
        assert!(book.turn_away(at(5999)).is_none() && book.turn_away(at(5999)).is_none());
        let told = book.turn_away(at(6000)).expect("a line").to_string();
        assert_eq!(told, format!("{words}, 3 turned away, 1 comes from 127.0.0.2"));
    }
}
