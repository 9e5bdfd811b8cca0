//! Clients of one worker that are delayed by a rate limit, in the order in which they came.
//!
//! Always true: only the first client that waits for a bucket is woken, so that the cost of a token does not depend on how
//! many clients wait. Nothing remains of a client that leaves.
//! Not here: when a bucket has a token (`bucket`), what a woken client does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::Time;

use crate::ClientKey;
use crate::rates::BucketKey;

/// The delayed clients, by bucket.
#[derive(Debug, Default)]
pub struct Delayed {
    tickets: HashMap<ClientKey, Ticket>,
    queues: BTreeMap<BucketKey, Queue>,
    /// When the first client of each queue is to be woken.
    alarms: BTreeSet<(Time, BucketKey)>,
    /// The number of the last ticket.
    number: u64,
}

/// A place in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    bucket: BucketKey,
    number: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<u64, ClientKey>,
    due: Time,
}

impl Delayed {
    /// Queues a client for a bucket behind all others, until `until` at least.
    pub fn join(&mut self, client: ClientKey, bucket: BucketKey, until: Time) {
        self.number += 1;
        self.enter(client, Ticket { bucket, number: self.number }, until);
    }

    /// Queues a woken client again, for the same bucket or another one. The client stays ahead of those that came later.
    pub fn rejoin(&mut self, client: ClientKey, ticket: Ticket, bucket: BucketKey, until: Time) {
        self.enter(client, Ticket { bucket, ..ticket }, until);
    }

    fn enter(&mut self, client: ClientKey, ticket: Ticket, until: Time) {
        self.leave(client);
        let bucket = ticket.bucket;
        let queue = self.queues.entry(bucket).or_default();
        let is_first = queue.waiting.first_key_value().is_none_or(|(first, _)| ticket.number < *first);
        queue.waiting.insert(ticket.number, client);
        self.tickets.insert(client, ticket);
        if is_first {
            self.alarms.remove(&(queue.due, bucket));
            queue.due = until;
            self.alarms.insert((until, bucket));
        }
    }

    /// Removes a client.
    pub fn leave(&mut self, client: ClientKey) {
        let Some(ticket) = self.tickets.remove(&client) else { return };
        let Some(queue) = self.queues.get_mut(&ticket.bucket) else { return };
        queue.waiting.remove(&ticket.number);
        if queue.waiting.is_empty() {
            self.alarms.remove(&(queue.due, ticket.bucket));
            self.queues.remove(&ticket.bucket);
        }
    }

    /// Removes and returns a client that is to be woken by now, the first of a queue. The client behind it is due at once, too,
    /// until one of them is queued again by [`Delayed::rejoin`].
    pub fn due(&mut self, now: Time) -> Option<(ClientKey, Ticket)> {
        let (_, bucket) = self.alarms.first().filter(|(due, _)| *due <= now)?;
        let (_, client) = self.queues.get(bucket)?.waiting.first_key_value()?;
        let client = *client;
        let ticket = self.tickets.get(&client).copied()?;
        self.leave(client);
        Some((client, ticket))
    }

    /// Wakes all clients in turn, because limits have changed.
    pub fn wake_all(&mut self, now: Time) {
        self.alarms.clear();
        for (bucket, queue) in &mut self.queues {
            queue.due = now;
            self.alarms.insert((now, *bucket));
        }
    }

    /// When [`Delayed::due`] will return the next client.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.alarms.first().map(|(due, _)| *due)
    }

    /// Whether a client waits for this bucket.
    #[must_use]
    pub fn is_queued(&self, bucket: BucketKey) -> bool {
        self.queues.contains_key(&bucket)
    }

    /// Whether no client waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Whose;

    fn client(index: u32) -> ClientKey {
        ClientKey::first(index)
    }

    fn bucket(key: u64) -> BucketKey {
        BucketKey::new(1, Whose::Own(key))
    }

    fn woken(delayed: &mut Delayed, now: u64) -> Option<u32> {
        delayed.due(Time(now)).map(|(client, _)| client.index)
    }

    #[test]
    fn whoever_came_first_is_woken_first_and_nobody_early() {
        let mut delayed = Delayed::default();
        for (index, key) in [(1, 7), (2, 7), (3, 8)] {
            delayed.join(client(index), bucket(key), Time(10 * u64::from(index)));
        }
        assert_eq!(delayed.next_deadline(), Some(Time(10)));
        assert_eq!(woken(&mut delayed, 9), None);
        // The next client of the same bucket may find another token at once.
        assert_eq!(
            [woken(&mut delayed, 10), woken(&mut delayed, 10), woken(&mut delayed, 10)],
            [Some(1), Some(2), None]
        );
        assert_eq!(woken(&mut delayed, 30), Some(3));
        assert!(delayed.is_empty() && delayed.next_deadline().is_none());
    }

    #[test]
    fn whoever_has_to_wait_on_keeps_its_place() {
        let mut delayed = Delayed::default();
        (1..=3).for_each(|index| delayed.join(client(index), bucket(7), Time(10)));
        let (first, ticket) = delayed.due(Time(10)).expect("the first");
        delayed.rejoin(first, ticket, bucket(7), Time(20));
        assert_eq!(delayed.next_deadline(), Some(Time(20)));
        assert_eq!(woken(&mut delayed, 15), None);
        assert_eq!([woken(&mut delayed, 20), woken(&mut delayed, 20)], [Some(1), Some(2)]);
    }

    #[test]
    fn whoever_leaves_leaves_nothing_behind() {
        let mut delayed = Delayed::default();
        delayed.join(client(1), bucket(7), Time(10));
        delayed.join(client(2), bucket(7), Time(10));
        delayed.leave(client(1));
        assert!(delayed.is_queued(bucket(7)));
        delayed.leave(client(2));
        delayed.leave(client(2));
        assert!(delayed.is_empty() && !delayed.is_queued(bucket(7)));
        assert!(delayed.queues.is_empty() && delayed.alarms.is_empty());
    }

    #[test]
    fn everybody_is_woken_when_limits_change() {
        let mut delayed = Delayed::default();
        delayed.join(client(1), bucket(7), Time(1000));
        delayed.join(client(2), bucket(8), Time(2000));
        delayed.wake_all(Time(5));
        assert_eq!([woken(&mut delayed, 5), woken(&mut delayed, 5), woken(&mut delayed, 5)], [Some(1), Some(2), None]);
    }
}
