//! The queue of passwords to be hashed.
//!
//! Always true: a few passwords are hashed at a time, by threads with a lower priority than the workers. Servers and
//! clients take turns, and within each group the addresses do: a client from another address waits for one hash of
//! every other address, not for all of them. The queue is bounded; when it is full, a new question displaces one of the
//! address with the most waiting questions.
//! Not here: the queue's order (`base::PeerQueue`), what is hashed and why (`worker::admission::hashing`).

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::Derivation;
use base::{Origin, PeerQueue, Place, WorkerId};
use worker::letters::{HashAsker, HashQuestion, Hashed, ToWorker};

use crate::hands::Hands;

/// The passwords that wait to be hashed, and those being hashed.
#[derive(Debug)]
pub(crate) struct Hashings {
    queue: PeerQueue<HashQuestion>,
    /// The queue place of each asker.
    places: BTreeMap<(WorkerId, HashAsker), Place<Origin>>,
    under_way: Vec<(WorkerId, HashAsker)>,
}

impl Default for Hashings {
    fn default() -> Self {
        Self { queue: PeerQueue::with_capacity(WAITING_MAX), places: BTreeMap::new(), under_way: Vec::new() }
    }
}

impl Hashings {
    /// Queues a password of a worker; a question without a place is answered with an error.
    pub(crate) fn hash<S>(&mut self, question: HashQuestion, hands: &Hands<S>) {
        if let Some(HashQuestion { from, asker, .. }) = self.ask(question) {
            let why = format!("too many passwords wait to be hashed: {WAITING_MAX}");
            hands.post(from, ToWorker::Hashed { asker, hashed: Err(why.into()) });
        }
    }

    /// Posts the outcome of a hashing to its worker.
    pub(crate) fn hashed<S>(&mut self, from: WorkerId, asker: HashAsker, hashed: Hashed, hands: &Hands<S>) {
        self.done(from, asker);
        hands.post(from, ToWorker::Hashed { asker, hashed });
    }

    /// Queues a password. Returns the question that has no place: this one, or one of an address that has more waiting.
    fn ask(&mut self, question: HashQuestion) -> Option<HashQuestion> {
        let asker = (question.from, question.asker);
        match self.queue.push(question.origin, question) {
            Ok((place, displaced)) => {
                self.places.insert(asker, place);
                if let Some(HashQuestion { from, asker, .. }) = &displaced {
                    self.places.remove(&(*from, *asker));
                }
                displaced
            }
            Err(question) => Some(question),
        }
    }

    /// Removes a waiting question whose asker is gone. A hashing under way runs to its end, which
    /// `scram_iterations_max` bounds.
    pub(crate) fn forget(&mut self, from: WorkerId, asker: HashAsker) {
        if let Some(place) = self.places.remove(&(from, asker)) {
            self.queue.remove(&place);
        }
    }

    /// Returns the next password, if another one may be hashed.
    pub(crate) fn start(&mut self) -> Option<HashQuestion> {
        if self.under_way.len() >= AT_ONCE_MAX {
            return None;
        }
        let next = self.queue.pop()?;
        self.places.remove(&(next.from, next.asker));
        self.under_way.push((next.from, next.asker));
        Some(next)
    }

    /// Frees the place of a finished hashing.
    fn done(&mut self, from: WorkerId, asker: HashAsker) {
        if let Some(place) = self.under_way.iter().position(|one| *one == (from, asker)) {
            self.under_way.swap_remove(place);
        }
    }

    /// Returns how many passwords are being hashed.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns how many passwords wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }
}

/// Hashes a password on a thread of its own, which passes the result to `tell`.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn put(derivation: Derivation, tell: impl FnOnce(Hashed) + Send + 'static) -> Result<(), Arc<str>> {
    let work = || {
        reactor::step_back();
        tell(Ok(Arc::new(derivation.run())));
    };
    // Starting a thread costs a hundredth of the cheapest hashing.
    let begun = std::thread::Builder::new().name("hashing".to_owned()).spawn(work);
    begun.map(drop).map_err(|error| format!("cannot start a thread that hashes passwords: {error}").into())
}

/// Passwords hashed at a time. More would take CPU time from the workers and from PostgreSQL.
const AT_ONCE_MAX: usize = 2;
/// Capacity of the queue, for clients and for servers each: at 4096 iterations the last of them waits less than a
/// second.
const WAITING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    use auth::Password;
    use base::Key;
    use worker::letters::ToControl;

    use crate::Event;
    use crate::control::tests::TestControl;

    /// A question of the client with this number, from this address.
    fn client(number: u32, address: u8) -> HashQuestion {
        HashQuestion {
            from: WorkerId(0),
            asker: HashAsker::Client(Key::first(number)),
            origin: Origin::of_client([10, 0, 0, address].into()),
            derivation: Derivation {
                password: Password::new("secret").expect("some"),
                salt: [7; 16].into(),
                iterations: 4096,
            },
        }
    }

    fn server(number: u32) -> HashQuestion {
        let asker = HashAsker::Server(Key::first(number));
        HashQuestion { asker, origin: Origin::LocalServers, ..client(number, 0) }
    }

    fn number(question: &HashQuestion) -> u32 {
        match question.asker {
            HashAsker::Client(key) | HashAsker::Server(key) => key.index,
        }
    }

    /// Queues questions of clients of one address, by their numbers.
    fn ask(hashings: &mut Hashings, numbers: std::ops::Range<u32>, address: u8) {
        for number in numbers {
            assert_eq!(hashings.ask(client(number, address)), None);
        }
    }

    /// Returns the next numbers, each of which is finished at once.
    fn next(hashings: &mut Hashings, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(question) = hashings.start().filter(|_| numbers.len() < count) {
            hashings.done(question.from, question.asker);
            numbers.push(number(&question));
        }
        numbers
    }

    #[test]
    fn a_few_are_hashed_at_a_time() {
        let mut hashings = Hashings::default();
        ask(&mut hashings, 0..AT_ONCE_MAX as u32 + 1, 1);
        let begun: Vec<_> = std::iter::from_fn(|| hashings.start()).collect();
        assert_eq!(begun.iter().map(number).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((hashings.under_way(), hashings.waiting()), (2, 1));
        hashings.done(begun[1].from, begun[1].asker);
        assert_eq!(hashings.start().as_ref().map(number), Some(2));
        assert_eq!(hashings.start(), None);
    }

    #[test]
    fn addresses_take_turns_however_many_come_from_one() {
        let mut hashings = Hashings::default();
        ask(&mut hashings, 0..500, 1);
        ask(&mut hashings, 600..602, 2);
        ask(&mut hashings, 700..701, 3);
        assert_eq!(next(&mut hashings, 7), [0, 600, 700, 1, 601, 2, 3]);
    }

    #[test]
    fn servers_and_clients_take_turns() {
        let mut hashings = Hashings::default();
        ask(&mut hashings, 0..3, 1);
        ask(&mut hashings, 10..11, 2);
        for number in 100..103 {
            assert_eq!(hashings.ask(server(number)), None);
        }
        assert_eq!(next(&mut hashings, 100), [0, 100, 10, 101, 1, 102, 2]);
    }

    #[test]
    fn an_address_may_have_all_places_and_gives_them_to_others_who_come() {
        let mut hashings = Hashings::default();
        ask(&mut hashings, 0..WAITING_MAX as u32, 1);
        assert_eq!(hashings.ask(client(2000, 1)).as_ref().map(number), Some(2000));
        let refused: Vec<_> =
            (3000..3003).filter_map(|one| hashings.ask(client(one, 2))).map(|one| number(&one)).collect();
        assert_eq!(refused, [1023, 1022, 1021]);
        // Servers have their own capacity.
        assert_eq!(hashings.ask(server(9)), None);
        assert_eq!(next(&mut hashings, 4), [0, 9, 3000, 1]);
    }

    #[test]
    fn two_addresses_that_want_everything_have_half_of_it_each() {
        let mut hashings = Hashings::default();
        ask(&mut hashings, 0..WAITING_MAX as u32, 1);
        let refused = |hashings: &mut Hashings, address| {
            let questions = (0..WAITING_MAX as u32).map(|number| client(10_000 + number, address));
            questions.filter_map(|one| hashings.ask(one)).filter(|one| one.origin == client(0, address).origin).count()
        };
        assert_eq!(refused(&mut hashings, 2), WAITING_MAX / 2);
        assert_eq!(refused(&mut hashings, 1), WAITING_MAX);
        // A third address gets its share.
        assert_eq!(refused(&mut hashings, 3), WAITING_MAX - WAITING_MAX / 3);
    }

    #[test]
    fn who_has_gone_has_no_place() {
        let mut hashings = Hashings::default();
        ask(&mut hashings, 0..WAITING_MAX as u32, 1);
        hashings.forget(WorkerId(0), client(0, 1).asker);
        hashings.forget(WorkerId(1), client(1, 1).asker);
        assert_eq!(hashings.ask(client(5000, 1)), None);
        assert_eq!(hashings.ask(client(5001, 1)).as_ref().map(number), Some(5001));
        assert_eq!(next(&mut hashings, 2), [1, 2]);
        let mut hashings = Hashings::default();
        assert_eq!(hashings.ask(server(1)), None);
        hashings.forget(WorkerId(0), server(1).asker);
        assert!(hashings.places.is_empty() && hashings.waiting() == 0 && hashings.start().is_none());
    }

    #[test]
    fn what_is_hashed_for_somebody_who_has_gone_keeps_its_place_until_it_is_done() {
        let mut hashings = Hashings::default();
        ask(&mut hashings, 0..3, 1);
        let begun: Vec<_> = std::iter::from_fn(|| hashings.start()).collect();
        hashings.forget(WorkerId(0), begun[0].asker);
        assert_eq!(hashings.start(), None);
        hashings.done(begun[0].from, begun[0].asker);
        assert_eq!(hashings.start().as_ref().map(number), Some(2));
    }

    #[test]
    fn passwords_are_hashed_a_few_at_a_time_and_who_finds_no_place_is_told() {
        let mut test = TestControl::new("hash", 1, "");
        let asker = |number| HashAsker::Client(Key::first(number));
        let ask = |number| {
            let password = Password::new("secret").expect("some");
            let derivation = Derivation { password, salt: [7; 16].into(), iterations: 2 };
            let (from, origin) = (WorkerId(0), Origin::LocalClients(None));
            Event::Letter(ToControl::Hash(HashQuestion { from, asker: asker(number), origin, derivation }))
        };
        (0..1025).for_each(|number| test.happens(ask(number)));
        let letters = test.letters(0);
        let [ToWorker::Hashed { asker: refused, hashed: Err(why) }] = &letters[..] else { panic!("{letters:?}") };
        assert_eq!((*refused, &**why), (asker(1024), "too many passwords wait to be hashed: 1024"));
        let begun: Vec<_> = std::iter::from_fn(|| test.control.next_hashing()).map(|question| question.asker).collect();
        assert_eq!(begun, [asker(0), asker(1)]);
        test.happens(Event::Letter(ToControl::HashUnneeded { from: WorkerId(0), asker: asker(2) }));
        let hashed: Hashed = Err("no thread".into());
        test.happens(Event::Hashed { from: WorkerId(0), asker: asker(1), hashed });
        assert!(matches!(&test.letters(0)[..], [ToWorker::Hashed { asker: of, hashed: Err(_) }] if *of == asker(1)));
        assert_eq!(test.control.next_hashing().map(|question| question.asker), Some(asker(3)));
    }
}
