//! The wait queues: the clients that wait, in the order in which they came.
//!
//! Always true: a client waits in one place at most. Finding and removing a client take constant time, so that thousands of
//! clients leaving together cost no more than the same number leaving one by one.
//! Not here: serving the clients (`pool`).

use base::{Key, Slab, Time};

use crate::list::{Linked, Links, List};
use crate::planted::longest_waiting;
use crate::{ClientKey, Fingerprint, PoolKey};

/// What a client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitingFor {
    /// A server.
    Server,
    /// The server parameters of a first login.
    Welcome,
    /// A dedicated server.
    Dedicated,
}

/// One waiting client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) client: ClientKey,
    pub(crate) pool: PoolKey,
    pub(crate) waiting_for: WaitingFor,
    pub(crate) since: Time,
    /// The settings of the client's session.
    pub(crate) fingerprint: Fingerprint,
    /// How often a client behind this one was served first, because its settings matched the server's.
    passed_over: u32,
    links: Links,
}

impl Waiter {
    pub(crate) fn new(
        client: ClientKey,
        pool: PoolKey,
        waiting_for: WaitingFor,
        since: Time,
        fingerprint: Fingerprint,
    ) -> Self {
        Self { client, pool, waiting_for, since, fingerprint, passed_over: 0, links: Links::default() }
    }
}

impl Linked for Waiter {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All waiting clients of this worker, in all pools.
#[derive(Debug)]
pub(crate) struct Waiters {
    rows: Slab<Waiter>,
    /// The row of each waiting client, by the index of the client's key. Indices are small, so a table costs little even though most
    /// clients do not wait.
    by_client: Vec<Option<Key>>,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { rows: Slab::with_capacity(u32::MAX), by_client: Vec::new() }
    }

    /// The row at this client's index: its own, or that of an earlier client of the same index whose
    /// [`crate::Event::Left`] never came.
    pub(crate) fn at(&self, client: ClientKey) -> Option<Waiter> {
        let key = (*self.by_client.get(client.index as usize)?)?;
        self.rows.get(key).copied()
    }

    /// The row of this client.
    pub(crate) fn of(&self, client: ClientKey) -> Option<Waiter> {
        self.at(client).filter(|waiter| waiter.client == client)
    }
}

/// The clients that wait for the same thing in one pool, first come first served.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    list: List,
}

impl Queue {
    /// Queues a client behind all that have waited as long or longer. A new client goes to the end; a client that lost its
    /// server before using it gets its former place. The client must not wait anywhere yet.
    pub(crate) fn join(&mut self, waiters: &mut Waiters, waiter: Waiter) {
        let (client, since) = (waiter.client, waiter.since);
        let key = waiters.rows.insert(waiter).expect("the table of waiters is as large as keys can count");
        let mut behind = self.list.newest();
        while let Some(waiter) =
            behind.and_then(|behind| waiters.rows.get(behind)).filter(|waiter| waiter.since > since)
        {
            behind = waiter.links.older();
        }
        self.list.insert(&mut waiters.rows, key, behind);
        let index = client.index as usize;
        if index >= waiters.by_client.len() {
            waiters.by_client.resize(index + 1, None);
        }
        debug_assert!(waiters.by_client[index].is_none(), "a client waits in one place");
        waiters.by_client[index] = Some(key);
    }

    /// Removes a client that waits here.
    pub(crate) fn leave(&mut self, waiters: &mut Waiters, client: ClientKey) {
        let Some(key) = waiters.by_client.get_mut(client.index as usize).and_then(Option::take) else { return };
        self.list.remove(&mut waiters.rows, key);
        waiters.rows.remove(key);
    }

    /// The client that has waited longest.
    pub(crate) fn first(&self, waiters: &Waiters) -> Option<Waiter> {
        waiters.rows.get(longest_waiting(&self.list)?).copied()
    }

    /// Removes and returns the client that has waited longest.
    pub(crate) fn pop(&mut self, waiters: &mut Waiters) -> Option<Waiter> {
        let waiter = self.first(waiters)?;
        self.leave(waiters, waiter.client);
        Some(waiter)
    }

    /// Removes and returns the first of the [`IN_FRONT`] clients in front that has these settings; the very first client if
    /// none has, or if a client ahead of it has already been passed over [`PASSED_OVER_MAX`] times.
    pub(crate) fn pop_alike(&mut self, waiters: &mut Waiters, fingerprint: Fingerprint) -> Option<Waiter> {
        let Some(place) = self.place_of(waiters, fingerprint).filter(|place| *place > 0) else {
            return self.pop(waiters);
        };
        let mut key = self.list.oldest()?;
        for _ in 0..place {
            let waiter = waiters.rows.get_mut(key)?;
            waiter.passed_over += 1;
            key = waiter.links.newer()?;
        }
        let waiter = waiters.rows.get(key).copied()?;
        self.leave(waiters, waiter.client);
        Some(waiter)
    }

    /// Whether a client in front has these settings and may be served first.
    pub(crate) fn has_alike(&self, waiters: &Waiters, fingerprint: Fingerprint) -> bool {
        self.place_of(waiters, fingerprint).is_some()
    }

    fn place_of(&self, waiters: &Waiters, fingerprint: Fingerprint) -> Option<usize> {
        let mut is_last = false;
        let in_front = self.list.iter(&waiters.rows).map(|(_, waiter)| waiter).take(IN_FRONT);
        // No client is served before one that has been passed over this often.
        let mut may_go =
            in_front.take_while(|waiter| !std::mem::replace(&mut is_last, waiter.passed_over >= PASSED_OVER_MAX));
        may_go.position(|waiter| waiter.fingerprint.is_like(fingerprint))
    }

    /// How many clients wait.
    pub(crate) fn len(&self) -> u32 {
        self.list.len()
    }

    /// Whether no client waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// How many waiting clients are examined for one with the settings of a server.
const IN_FRONT: usize = 32;
/// How often a waiting client may be passed over for another one with matching settings.
const PASSED_OVER_MAX: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: PoolKey = Key::first(0);

    fn client(index: u32) -> ClientKey {
        Key::first(index)
    }

    fn join(waiters: &mut Waiters, queue: &mut Queue, index: u32, since: u64, fingerprint: u32) {
        let waiter = Waiter::new(client(index), POOL, WaitingFor::Server, Time(since), Fingerprint::of(fingerprint));
        queue.join(waiters, waiter);
    }

    fn crowd(size: u32) -> (Waiters, Queue) {
        let (mut waiters, mut queue) = (Waiters::new(), Queue::default());
        (0..size).for_each(|index| join(&mut waiters, &mut queue, index, u64::from(index), 0));
        (waiters, queue)
    }

    #[test]
    fn who_has_waited_before_does_not_begin_anew() {
        let (mut waiters, mut queue) = crowd(3);
        join(&mut waiters, &mut queue, 7, 1, 0);
        join(&mut waiters, &mut queue, 8, 0, 0);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(&mut waiters)).map(|waiter| waiter.client.index).collect();
        assert_eq!(order, [0, 8, 1, 7, 2]);
    }

    #[test]
    fn who_came_first_goes_first() {
        let (mut waiters, mut queue) = crowd(3);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(&mut waiters)).map(|waiter| waiter.client.index).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn who_is_like_the_server_goes_first_until_somebody_has_been_passed_over_often() {
        let (mut waiters, mut queue) = (Waiters::new(), Queue::default());
        join(&mut waiters, &mut queue, 0, 0, 1);
        (1..=PASSED_OVER_MAX + 5).for_each(|index| join(&mut waiters, &mut queue, index, u64::from(index), 2));
        let mut pop =
            |fingerprint| queue.pop_alike(&mut waiters, Fingerprint::of(fingerprint)).map(|waiter| waiter.client.index);
        for index in 1..=PASSED_OVER_MAX {
            assert_eq!(pop(2), Some(index));
        }
        assert_eq!(pop(2), Some(0), "it has been passed over often enough");
        assert_eq!(pop(3), Some(PASSED_OVER_MAX + 1), "nobody is like that");
        assert_eq!(pop(2), Some(PASSED_OVER_MAX + 2));
    }

    #[test]
    fn who_leaves_the_middle_does_not_disturb_the_order() {
        let (mut waiters, mut queue) = crowd(4);
        queue.leave(&mut waiters, client(1));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(&mut waiters)).map(|waiter| waiter.client.index).collect();
        assert_eq!(order, [0, 2, 3]);
    }

    #[test]
    fn who_has_left_can_leave_again_without_harm() {
        let (mut waiters, mut queue) = crowd(2);
        queue.leave(&mut waiters, client(0));
        queue.leave(&mut waiters, client(0));
        queue.leave(&mut waiters, client(77));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_later_client_of_the_same_index_is_not_taken_for_the_earlier_one() {
        let (waiters, _queue) = crowd(1);
        let later = Key { generation: std::num::NonZeroU32::MAX, ..Key::first(0) };
        assert!(waiters.of(later).is_none());
        assert_eq!(waiters.at(later).map(|waiter| waiter.client), Some(client(0)));
    }
}
