//! The limits on HTTP connections: from this machine, from all other addresses together, and from each of those.
//!
//! Always true: remote connections take no place from those of this machine, and one remote address takes only some of
//! the places of the others; a place is given back when its connection ends. If there is none left, the connection that has
//! waited longest for its peer loses its own: among those of the new one's address, or of an address that has more. One that is
//! being answered keeps its place, as long as its peer reads.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::tries::block;

/// The places of all connections.
#[derive(Debug, Default)]
pub(crate) struct Room {
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    taken: BTreeMap<u64, Seat>,
    /// The number that was last given to a seat or a wait.
    last: u64,
}

#[derive(Debug)]
struct Seat {
    /// The address; `None` stands for this machine.
    whose: Option<IpAddr>,
    /// The number of the wait, if the connection waits for its peer: for a request, or for it to read.
    wait: Option<u64>,
    evicted: Arc<Notify>,
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct HttpPlace {
    room: Arc<Room>,
    number: u64,
    evicted: Arc<Notify>,
}

impl Room {
    /// Takes a place for a connection from this address, which then waits for a request. If there is none left, another
    /// connection may lose its own.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<HttpPlace> {
        let whose = (!from.to_canonical().is_loopback()).then(|| block(from));
        let mut seats = self.seats();
        if !seats.has_room(whose) {
            let victim = seats.slowest(whose)?;
            seats.taken.remove(&victim)?.evicted.notify_one();
        }
        let (number, wait) = (seats.next(), seats.next());
        let evicted = Arc::new(Notify::new());
        seats.taken.insert(number, Seat { whose, wait: Some(wait), evicted: Arc::clone(&evicted) });
        Some(HttpPlace { room: Arc::clone(self), number, evicted })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn of(&self, whose: Option<IpAddr>) -> usize {
        self.taken.values().filter(|seat| seat.whose == whose).count()
    }

    fn has_room(&self, whose: Option<IpAddr>) -> bool {
        match whose {
            None => self.of(None) < HERE_MAX,
            Some(_) => self.of(whose) < ADDRESS_MAX && self.taken.len() - self.of(None) < ELSEWHERE_MAX,
        }
    }

    /// The connection that loses its place to a new one from this address.
    fn slowest(&self, whose: Option<IpAddr>) -> Option<u64> {
        let own = self.of(whose);
        let mut counts = HashMap::<Option<IpAddr>, usize>::new();
        self.taken.values().for_each(|seat| *counts.entry(seat.whose).or_default() += 1);
        let may_lose = |seat: &Seat| match (whose, seat.whose) {
            (None, None) => true,
            // An address that has all its places takes none from others.
            (Some(_), Some(_)) if own >= ADDRESS_MAX => seat.whose == whose,
            (Some(_), Some(_)) => seat.whose == whose || counts[&seat.whose] > own + 1,
            (None, Some(_)) | (Some(_), None) => false,
        };
        let candidates = self.taken.iter().filter(|(_, seat)| may_lose(seat));
        let waiting = candidates.filter_map(|(number, seat)| Some((counts[&seat.whose], seat.wait?, *number)));
        let slowest = waiting.min_by_key(|&(count, wait, _)| (std::cmp::Reverse(count), wait));
        slowest.map(|(_, _, number)| number)
    }
}

impl HttpPlace {
    /// The connection waits for its peer from now on: for a request, or for it to read on.
    pub(crate) fn waits(&self) {
        let mut seats = self.room.seats();
        let wait = seats.next();
        if let Some(seat) = seats.taken.get_mut(&self.number) {
            seat.wait = Some(wait);
        }
    }

    /// The connection has sent a request, which is answered from now on.
    pub(crate) fn is_answered(&self) {
        if let Some(seat) = self.room.seats().taken.get_mut(&self.number) {
            seat.wait = None;
        }
    }

    /// Waits until the connection has lost its place to another.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for HttpPlace {
    fn drop(&mut self) {
        self.room.seats().taken.remove(&self.number);
    }
}

/// Connections from this machine.
const HERE_MAX: usize = 64;
/// Connections from all other addresses together.
const ELSEWHERE_MAX: usize = 64;
/// Connections from one of those.
const ADDRESS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    fn here() -> IpAddr {
        "127.0.0.1".parse().expect("an address")
    }

    /// Enters, and is answered for ever.
    fn answered(room: &Arc<Room>, from: IpAddr) -> Option<HttpPlace> {
        room.enter(from).inspect(HttpPlace::is_answered)
    }

    /// The places that are not lost.
    fn kept<'p>(room: &Room, places: &'p [HttpPlace]) -> Vec<&'p HttpPlace> {
        places.iter().filter(|place| room.seats().taken.contains_key(&place.number)).collect()
    }

    #[test]
    fn one_address_leaves_room_for_others_and_strangers_leave_this_machine_its_own() {
        let room = Arc::new(Room::default());
        let mut places: Vec<_> = (0..100).filter_map(|_| answered(&room, address(1))).collect();
        assert_eq!(places.len(), ADDRESS_MAX);
        places.extend((2..200).filter_map(|number| answered(&room, address(number))));
        assert_eq!(places.len(), ELSEWHERE_MAX);
        let own: Vec<_> = (0..100).filter_map(|_| answered(&room, here())).collect();
        assert_eq!(own.len(), HERE_MAX);
        places.truncate(1);
        assert!(room.enter(address(7)).is_some(), "what was given back is there again");
        drop((places, own));
        assert!(room.seats().taken.is_empty(), "nobody is remembered");
    }

    #[test]
    fn who_sends_no_request_loses_the_place_to_one_that_comes_later() {
        let room = Arc::new(Room::default());
        let scrape = answered(&room, here()).expect("a place");
        let slow: Vec<_> = (0..300).map(|_| room.enter(here()).expect("a place")).collect();
        assert_eq!(kept(&room, &slow).len(), HERE_MAX - 1);
        assert!(kept(&room, &slow).iter().all(|place| place.number > slow[236].number), "the oldest have gone");
        assert!(kept(&room, std::slice::from_ref(&scrape)).len() == 1, "it is being answered");
        // Its peer reads no more, while the others send the requests that were waited for.
        scrape.waits();
        slow.iter().for_each(HttpPlace::is_answered);
        let _new = answered(&room, here()).expect("a place");
        assert!(kept(&room, std::slice::from_ref(&scrape)).is_empty());
        assert!(room.enter(here()).is_none(), "all are being answered");
    }

    #[test]
    fn of_strangers_the_address_with_the_most_connections_loses_one() {
        let room = Arc::new(Room::default());
        let first: Vec<_> = (0..20).map(|_| room.enter(address(1)).expect("a place")).collect();
        assert_eq!(kept(&room, &first).len(), ADDRESS_MAX, "it takes no place from others");
        let mut others: Vec<_> = (0..3).map(|_| room.enter(address(2)).expect("a place")).collect();
        others.extend((3..48).map(|number| room.enter(address(number)).expect("a place")));
        assert_eq!((kept(&room, &first).len(), kept(&room, &others).len()), (16, 48));
        let late: Vec<_> = (100..120).filter_map(|number| room.enter(address(number))).collect();
        assert_eq!((kept(&room, &first).len(), kept(&room, &late).len()), (1, 17));
        assert_eq!(kept(&room, &others).len(), 46, "also the one with three has lost two");
    }
}
