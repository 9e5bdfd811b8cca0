//! Counts how many bytes each client makes a worker remember, and limits them.
//!
//! Always true: the bytes held for all clients of a worker stay under [`HELD_BYTES_MAX`], or less where the process has
//! little memory, and those of one client under
//! `max_client_memory` and under what is still free, so that the next client finds as much as any client before it holds,
//! however many there are. A dropped charge gives back what it has taken. A text that several clients have prepared is
//! held once, and is charged to each of them. A statement that only servers have is charged to no client, and keeps no
//! client from anything: it is given up when there is no room for more.
//! Not here: what is remembered (`registry`, `names`).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::HELD_BYTES_MAX;
use super::statement::Entry;
use crate::fault::Fault;

/// What all clients of a worker hold, and what one client may hold.
#[derive(Debug)]
pub(super) struct Room {
    held: Cell<usize>,
    /// The part of these bytes that only servers have.
    unclaimed_bytes: Cell<usize>,
    /// The statements that only servers have, in the order in which that began.
    unclaimed: RefCell<BTreeMap<u64, Rc<Entry>>>,
    /// The clock of that order.
    clock: Cell<u64>,
    /// The limit of one client; 0 is no limit.
    client_max: Cell<usize>,
    /// The limit of all clients together.
    held_max: Cell<usize>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            held: Cell::default(),
            unclaimed_bytes: Cell::default(),
            unclaimed: RefCell::default(),
            clock: Cell::default(),
            client_max: Cell::default(),
            held_max: Cell::new(HELD_BYTES_MAX),
        }
    }
}

impl Room {
    pub(super) fn held(&self) -> usize {
        self.held.get()
    }

    pub(super) fn limit_clients(&self, bytes_max: usize) {
        self.client_max.set(bytes_max);
    }

    pub(super) fn limit_all(&self, bytes_max: usize) {
        self.held_max.set(bytes_max.min(HELD_BYTES_MAX));
    }

    /// From now on only servers have this statement.
    pub(super) fn unclaim(&self, entry: Rc<Entry>) {
        let since = self.clock.get() + 1;
        self.clock.set(since);
        entry.unclaimed_since.set(since);
        self.unclaimed_bytes.set(self.unclaimed_bytes.get() + entry.bytes());
        self.unclaimed.borrow_mut().insert(since, entry);
    }

    /// A client has this statement, or nobody has it.
    pub(super) fn claim(&self, entry: &Entry) {
        let since = entry.unclaimed_since.replace(0);
        if since > 0 {
            self.unclaimed_bytes.set(self.unclaimed_bytes.get() - entry.bytes());
            let was = self.unclaimed.borrow_mut().remove(&since);
            debug_assert!(was.is_some(), "what only servers had was not kept");
        }
    }

    /// Gives up statements that only servers have until there is room for this many bytes, or none of them is left.
    fn make(&self, bytes: usize) {
        while self.held.get() + bytes > self.held_max.get() {
            let Some((_, oldest)) = self.unclaimed.borrow_mut().pop_first() else { return };
            oldest.unclaimed_since.set(0);
            self.unclaimed_bytes.set(self.unclaimed_bytes.get() - oldest.bytes());
        }
    }
}

/// What one client holds. It takes no memory before the first charge.
#[derive(Debug, Default)]
pub struct Account(OnceCell<Rc<Cell<usize>>>);

impl Account {
    /// In bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.get().map_or(0, |held| held.get())
    }
}

/// Bytes that are remembered; they are given back when the charge is dropped.
pub struct Charge {
    /// The bytes counted for all clients together.
    bytes: usize,
    /// Further bytes on the client's account, which other clients may hold as well.
    shared: usize,
    room: Rc<Room>,
    account: Option<Rc<Cell<usize>>>,
}

impl fmt::Debug for Charge {
    /// Without the room, whose unclaimed statements have charges themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").field("bytes", &self.bytes).field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Charge {
    /// A charge to no client's account.
    pub(super) fn of_all(room: &Rc<Room>, bytes: usize) -> Option<Self> {
        let mut charge = Self { bytes: 0, shared: 0, room: room.clone(), account: None };
        charge.grow(bytes).is_ok().then_some(charge)
    }

    pub(super) fn new(room: &Rc<Room>, account: &Account, bytes: usize, shared: usize) -> Result<Self, Fault> {
        let account = account.0.get_or_init(Rc::default).clone();
        let mut charge = Self { bytes: 0, shared: 0, room: room.clone(), account: Some(account) };
        charge.grow_by(bytes, shared)?;
        Ok(charge)
    }

    /// How many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    /// Takes this many bytes more.
    ///
    /// # Errors
    /// The client holds as much as it may, or all clients together do.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.grow_by(bytes, 0)
    }

    fn grow_by(&mut self, bytes: usize, shared: usize) -> Result<(), Fault> {
        let is_room = |held: usize, more: usize, max: usize| held.checked_add(more).filter(|&held| held <= max);
        let claimed = self.room.held.get() - self.room.unclaimed_bytes.get();
        let held_max = self.room.held_max.get();
        let held = is_room(claimed, bytes, held_max).ok_or(Fault::StatementsFull)?;
        if let Some(account) = &self.account {
            let limit = self.room.client_max.get();
            let max = if limit == 0 { usize::MAX } else { limit };
            let own = is_room(account.get(), bytes.saturating_add(shared), max);
            let own = own.ok_or(Fault::ClientMemoryFull { limit, held: account.get() })?;
            if own > held_max - held {
                return Err(Fault::StatementsFull);
            }
            account.set(own);
        }
        self.room.make(bytes);
        self.room.held.set(self.room.held.get() + bytes);
        self.bytes += bytes;
        self.shared += shared;
        Ok(())
    }

    /// Changes how many bytes of the account other clients may hold as well.
    pub(super) fn share(&mut self, shared: usize) -> Result<(), Fault> {
        match shared.checked_sub(self.shared) {
            Some(more) => self.grow_by(0, more),
            None => {
                self.give_back(0, self.shared - shared);
                Ok(())
            }
        }
    }

    /// Gives back all but this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.give_back(self.bytes.saturating_sub(bytes), 0);
    }

    fn give_back(&mut self, bytes: usize, shared: usize) {
        self.room.held.set(self.room.held.get() - bytes);
        if let Some(account) = &self.account {
            account.set(account.get() - bytes - shared);
        }
        self.bytes -= bytes;
        self.shared -= shared;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give_back(self.bytes, self.shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_pays_for_what_it_holds_and_all_once_for_what_they_share() {
        let room = Rc::new(Room::default());
        room.limit_clients(100);
        let (ann, bob) = (Account::default(), Account::default());
        let of_ann = Charge::new(&room, &ann, 10, 60).expect("room");
        let of_bob = Charge::new(&room, &bob, 10, 60).expect("room");
        assert_eq!((ann.held(), bob.held(), room.held()), (70, 70, 20));
        let full = Charge::new(&room, &ann, 31, 0).expect_err("it would be 101");
        assert_eq!(full, Fault::ClientMemoryFull { limit: 100, held: 70 });
        assert_eq!((ann.held(), room.held()), (70, 20), "what was refused has taken nothing");
        let mut more = Charge::new(&room, &ann, 20, 0).expect("room");
        more.grow(10).expect("room");
        assert!(more.grow(1).is_err());
        more.shrink_to(5);
        assert_eq!((ann.held(), room.held()), (75, 25));
        drop((more, of_ann));
        assert_eq!((ann.held(), bob.held(), room.held()), (0, 70, 10));
        drop(of_bob);
        assert_eq!((bob.held(), room.held()), (0, 0));
    }

    #[test]
    fn what_is_shared_may_become_more_and_less() {
        let room = Rc::new(Room::default());
        room.limit_clients(100);
        let ann = Account::default();
        let mut charge = Charge::new(&room, &ann, 10, 20).expect("room");
        charge.share(90).expect("room");
        assert_eq!(charge.share(91), Err(Fault::ClientMemoryFull { limit: 100, held: 100 }));
        assert_eq!((ann.held(), room.held()), (100, 10));
        charge.share(5).expect("room");
        assert_eq!(ann.held(), 15);
        drop(charge);
        assert_eq!((ann.held(), room.held()), (0, 0));
    }

    #[test]
    fn nobody_holds_more_than_is_left_for_others() {
        held_by_four(&Rc::new(Room::default()), HELD_BYTES_MAX);
        let small = Rc::new(Room::default());
        small.limit_all(1 << 20);
        held_by_four(&small, 1 << 20);
        small.limit_all(usize::MAX);
        held_by_four(&small, HELD_BYTES_MAX);
    }

    fn held_by_four(room: &Rc<Room>, bytes_max: usize) {
        let half = bytes_max / 2;
        let accounts = [(); 4].map(|()| Account::default());
        let mut held = Vec::new();
        for (account, most) in accounts.iter().zip([half, half / 2, half / 4, half / 8]) {
            assert_eq!(Charge::new(room, account, most + 1, 0).map(drop), Err(Fault::StatementsFull));
            held.push(Charge::new(room, account, most, 0).expect("room"));
        }
        assert!(Charge::of_all(room, half / 8).is_some_and(|_| Charge::of_all(room, half / 8 + 1).is_none()));
        drop(held);
        assert_eq!(room.held(), 0);
    }
}
