//! Fair queueing: requests are served by turns of their requesters, not in the order in which they came.
//!
//! Always true: each requester has its own line, and lines take turns. A full queue makes room by dropping the youngest row
//! of the longest line, if that line is still at least as long afterwards as the line of the new row. Every operation takes
//! logarithmic time.
//! Not here: what waits, and for what.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use crate::Origin;

/// A queue of at most `capacity` rows that is shared fairly by its lines.
#[derive(Debug)]
pub struct FairQueue<L, T> {
    capacity: usize,
    lines: BTreeMap<L, Line<T>>,
    /// The lines in the order of their turns.
    turns: BTreeMap<NonZeroU64, L>,
    /// The lines by length: the last is the longest.
    lengths: BTreeSet<(usize, L)>,
    waiting: usize,
    /// The number that was last given to a turn or a row.
    next: NonZeroU64,
}

#[derive(Debug)]
struct Line<T> {
    turn: NonZeroU64,
    /// The rows by their numbers, which increase.
    rows: BTreeMap<NonZeroU64, T>,
}

/// The place of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place<L> {
    /// The line.
    pub line: L,
    /// The number of the row, which is unique.
    pub number: NonZeroU64,
}

impl<L: Ord + Copy, T> FairQueue<L, T> {
    /// Returns an empty queue.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let (lines, turns, lengths) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { capacity, lines, turns, lengths, waiting: 0, next: NonZeroU64::MIN }
    }

    /// Changes the capacity. Rows beyond a lowered capacity stay.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Adds a row at the end of a line. If the queue is full, the youngest row of the longest line is removed for it and
    /// returned.
    ///
    /// # Errors
    /// Returns the row if the queue is full and no line is longer than the row's own line would become.
    pub fn push(&mut self, line: L, row: T) -> Result<(Place<L>, Option<T>), T> {
        let mut displaced = None;
        if self.waiting >= self.capacity {
            let own = self.lines.get(&line).map_or(0, |line| line.rows.len());
            match self.lengths.last() {
                // The youngest is dropped, because rows that have waited for long are close to their turn.
                Some(&(length, longest)) if length > own + 1 => displaced = self.take_youngest(longest),
                _ => return Err(row),
            }
        }
        let number = self.number();
        match self.lines.get_mut(&line) {
            Some(there) => {
                self.lengths.remove(&(there.rows.len(), line));
                there.rows.insert(number, row);
                self.lengths.insert((there.rows.len(), line));
            }
            None => {
                let turn = self.number();
                self.turns.insert(turn, line);
                self.lines.insert(line, Line { turn, rows: BTreeMap::from([(number, row)]) });
                self.lengths.insert((1, line));
            }
        }
        self.waiting += 1;
        Ok((Place { line, number }, displaced))
    }

    /// Removes and returns the next row: the oldest of the line whose turn it is. The line's next turn comes after all other
    /// lines.
    pub fn pop(&mut self) -> Option<T> {
        let (_, line) = self.turns.pop_first()?;
        let turn = self.number();
        self.turns.insert(turn, line);
        let there = self.lines.get_mut(&line)?;
        there.turn = turn;
        let number = *there.rows.first_key_value()?.0;
        self.take(line, number)
    }

    /// Removes the row at this place, if it is still there.
    pub fn remove(&mut self, place: &Place<L>) -> Option<T> {
        self.take(place.line, place.number)
    }

    /// The row at this place, if it is still there.
    pub fn get_mut(&mut self, place: &Place<L>) -> Option<&mut T> {
        self.lines.get_mut(&place.line)?.rows.get_mut(&place.number)
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The largest number of rows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The longest line and its length.
    #[must_use]
    pub fn longest(&self) -> Option<(L, usize)> {
        self.lengths.last().map(|&(length, line)| (line, length))
    }

    /// Returns a new number. Numbers do not run out: at a million per second they last for half a million years.
    fn number(&mut self) -> NonZeroU64 {
        self.next = self.next.saturating_add(1);
        self.next
    }

    fn take_youngest(&mut self, line: L) -> Option<T> {
        let number = *self.lines.get(&line)?.rows.last_key_value()?.0;
        self.take(line, number)
    }

    fn take(&mut self, line: L, number: NonZeroU64) -> Option<T> {
        let there = self.lines.get_mut(&line)?;
        let length = there.rows.len();
        let row = there.rows.remove(&number)?;
        self.waiting -= 1;
        self.lengths.remove(&(length, line));
        if length > 1 {
            self.lengths.insert((length - 1, line));
        } else {
            self.turns.remove(&there.turn);
            self.lines.remove(&line);
        }
        Some(row)
    }
}

/// A queue for work on behalf of clients and servers. The two kinds take turns, and within each kind the origins do.
#[derive(Debug)]
pub struct PeerQueue<T> {
    clients: FairQueue<Origin, T>,
    /// Servers have a capacity of their own, because anybody can open many client connections, while the operator limits the
    /// number of servers.
    servers: FairQueue<Origin, T>,
    /// Whether the last turn was a client's, so that the next is a server's.
    was_client: bool,
}

impl<T> PeerQueue<T> {
    /// Returns an empty queue with this capacity for clients, and the same for servers.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let queue = || FairQueue::with_capacity(capacity);
        Self { clients: queue(), servers: queue(), was_client: false }
    }

    /// Adds a row, as [`FairQueue::push`] does.
    ///
    /// # Errors
    /// As for [`FairQueue::push`].
    pub fn push(&mut self, origin: Origin, row: T) -> Result<(Place<Origin>, Option<T>), T> {
        self.lane(origin).push(origin, row)
    }

    /// Removes and returns the next row.
    pub fn pop(&mut self) -> Option<T> {
        let is_clients = if self.was_client { self.servers.is_empty() } else { !self.clients.is_empty() };
        let next = if is_clients { self.clients.pop() } else { self.servers.pop() };
        if next.is_some() {
            self.was_client = is_clients;
        }
        next
    }

    /// Removes the row at this place, if it is still there.
    pub fn remove(&mut self, place: &Place<Origin>) -> Option<T> {
        self.lane(place.line).remove(place)
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len() + self.servers.len()
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lane(&mut self, origin: Origin) -> &mut FairQueue<Origin, T> {
        if origin.is_of_servers() { &mut self.servers } else { &mut self.clients }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::Random;

    fn queue(capacity: usize, rows: &[(u8, u32)]) -> FairQueue<u8, u32> {
        let mut queue = FairQueue::with_capacity(capacity);
        for (line, row) in rows {
            assert!(matches!(queue.push(*line, *row), Ok((_, None))));
        }
        queue
    }

    fn drain(queue: &mut FairQueue<u8, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    /// The row that a push has displaced.
    fn displaced(queue: &mut FairQueue<u8, u32>, line: u8, row: u32) -> Result<Option<u32>, u32> {
        queue.push(line, row).map(|(_, displaced)| displaced)
    }

    #[test]
    fn lines_take_turns_however_long_one_is() {
        let mut queue = queue(100, &[(1, 10), (1, 11), (1, 12), (1, 13), (2, 20), (2, 21), (3, 30)]);
        assert_eq!(drain(&mut queue), [10, 20, 30, 11, 21, 12, 13]);
        assert!(queue.is_empty() && queue.longest().is_none());
    }

    #[test]
    fn a_line_that_has_had_its_turn_waits_for_the_others_also_if_they_come_later() {
        let mut queue = queue(100, &[(1, 10), (1, 11), (1, 12)]);
        assert_eq!(queue.pop(), Some(10));
        assert_eq!(displaced(&mut queue, 2, 20), Ok(None));
        assert_eq!(drain(&mut queue), [11, 20, 12]);
    }

    #[test]
    fn a_full_queue_makes_room_at_the_end_of_the_longest_line() {
        let mut queue = queue(4, &[(1, 10), (1, 11), (1, 12), (2, 20)]);
        assert_eq!(displaced(&mut queue, 3, 30), Ok(Some(12)));
        // After that, no other line would be longer than the line of the new row.
        assert_eq!(displaced(&mut queue, 3, 31), Err(31));
        assert_eq!(displaced(&mut queue, 1, 13), Err(13));
        assert_eq!(displaced(&mut queue, 4, 40), Ok(Some(11)));
        assert_eq!(displaced(&mut queue, 5, 50), Err(50));
        assert_eq!(drain(&mut queue), [10, 20, 30, 40]);
    }

    #[test]
    fn whoever_is_taken_out_is_not_found_again_and_leaves_its_place() {
        let mut queue = FairQueue::with_capacity(2);
        let (one, _) = queue.push(1, 10).expect("room");
        let (two, _) = queue.push(1, 11).expect("room");
        assert_eq!(queue.get_mut(&two), Some(&mut 11));
        assert_eq!((queue.remove(&one), queue.remove(&one), queue.get_mut(&one)), (Some(10), None, None));
        assert_eq!(queue.longest(), Some((1, 1)));
        assert_eq!(queue.push(2, 20).map(|(_, displaced)| displaced), Ok(None));
        assert_eq!(queue.remove(&two), Some(11));
        // A new line of the same name has no rows of the old one.
        let (three, _) = queue.push(1, 12).expect("room");
        assert_eq!((queue.remove(&two), queue.remove(&three), queue.len()), (None, Some(12), 1));
    }

    #[test]
    fn a_lowered_capacity_lets_those_stay_who_are_there() {
        let mut queue = queue(4, &[(1, 10), (1, 11), (1, 12), (1, 13)]);
        queue.set_capacity(2);
        assert_eq!((queue.len(), queue.capacity()), (4, 2));
        assert_eq!(displaced(&mut queue, 2, 20), Ok(Some(13)));
        assert_eq!(drain(&mut queue), [10, 20, 11, 12]);
        assert_eq!(displaced(&mut queue, 1, 14), Ok(None));
    }

    /// A simple model of the same queue.
    #[derive(Default)]
    struct Model {
        lines: Vec<(u8, Vec<u32>)>,
    }

    impl Model {
        fn push(&mut self, capacity: usize, line: u8, row: u32) -> Result<Option<u32>, u32> {
            let own = self.lines.iter().find(|(one, _)| *one == line).map_or(0, |(_, rows)| rows.len());
            let mut displaced = None;
            if self.lines.iter().map(|(_, rows)| rows.len()).sum::<usize>() >= capacity {
                let longest = self.lines.iter_mut().max_by_key(|(line, rows)| (rows.len(), *line));
                let Some((_, rows)) = longest.filter(|(_, rows)| rows.len() > own + 1) else { return Err(row) };
                displaced = rows.pop();
            }
            match self.lines.iter_mut().find(|(one, _)| *one == line) {
                Some((_, rows)) => rows.push(row),
                None => self.lines.push((line, vec![row])),
            }
            Ok(displaced)
        }

        fn pop(&mut self) -> Option<u32> {
            if self.lines.is_empty() {
                return None;
            }
            let (line, mut rows) = self.lines.remove(0);
            let row = rows.remove(0);
            if !rows.is_empty() {
                self.lines.push((line, rows));
            }
            Some(row)
        }
    }

    #[test]
    fn any_order_of_coming_and_going_is_as_in_a_plain_model() {
        let mut dice = Random::new(7);
        for _ in 0..200 {
            let capacity = 1 + dice.below(12) as usize;
            let (mut queue, mut model) = (FairQueue::with_capacity(capacity), Model::default());
            for row in 0..100 {
                if dice.below(3) == 0 {
                    assert_eq!(queue.pop(), model.pop());
                } else {
                    let line = dice.below(4) as u8;
                    assert_eq!(displaced(&mut queue, line, row), model.push(capacity, line, row));
                }
                let longest = model.lines.iter().map(|(line, rows)| (rows.len(), *line)).max();
                assert_eq!(queue.longest().map(|(line, length)| (length, line)), longest);
                assert!(queue.len() <= capacity);
            }
        }
    }

    #[test]
    fn servers_and_clients_take_turns_and_have_places_of_their_own() {
        let client = |last: u8| Origin::of_client([10, 0, 0, last].into());
        let mut queue = PeerQueue::with_capacity(3);
        for (origin, row) in [(client(1), 10), (client(1), 11), (client(2), 20)] {
            assert!(matches!(queue.push(origin, row), Ok((_, None))));
        }
        for row in 100..103 {
            assert!(matches!(queue.push(Origin::LocalServers, row), Ok((_, None))));
        }
        assert_eq!(queue.push(client(2), 21), Err(21));
        assert_eq!(queue.len(), 6);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [10, 100, 20, 101, 11, 102]);
    }
}
