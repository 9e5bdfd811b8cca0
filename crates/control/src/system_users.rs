//! The queue of operating system users whose names are to be looked up (`peer` authentication).
//!
//! Always true: a few users are looked up at a time, since the system may query a remote directory. Users take turns,
//! so that a user with many connections delays only itself. The queue is bounded; when it is full, a new question
//! displaces one of the user with the most waiting questions.
//! Not here: the queue's order (`base::PeerQueue`), the lookup (`names`), what the name is compared with
//! (`worker::admission::proof`).

use std::collections::BTreeMap;

use base::{Origin, PeerQueue, Place, WorkerId};
use pool::ClientKey;
use worker::letters::{SystemUser, ToWorker};

use crate::hands::Hands;

/// The clients whose operating system users are to be looked up.
#[derive(Debug)]
pub(crate) struct SystemUsers {
    queue: PeerQueue<SystemUserQuestion>,
    /// The queue place of each client.
    places: BTreeMap<(WorkerId, ClientKey), Place<Origin>>,
    under_way: usize,
}

/// A question for the name of an operating system user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemUserQuestion {
    /// The worker that asks.
    pub from: WorkerId,
    /// The client that logs in.
    pub client: ClientKey,
    /// The user ID.
    pub uid: u32,
}

impl Default for SystemUsers {
    fn default() -> Self {
        Self { queue: PeerQueue::with_capacity(WAITING_MAX), places: BTreeMap::new(), under_way: 0 }
    }
}

impl SystemUsers {
    /// Queues a question of a worker; a question without a place is answered with an error.
    pub(crate) fn look_up<S>(&mut self, question: SystemUserQuestion, hands: &Hands<S>) {
        if let Some(SystemUserQuestion { from, client, .. }) = self.ask(question) {
            let why = format!("too many clients wait for the names of system users: {WAITING_MAX}");
            hands.post(from, ToWorker::SystemUser { client, found: Err(why.into()) });
        }
    }

    /// Posts the outcome of a lookup to its worker.
    pub(crate) fn found<S>(&mut self, from: WorkerId, client: ClientKey, found: SystemUser, hands: &Hands<S>) {
        self.done();
        hands.post(from, ToWorker::SystemUser { client, found });
    }

    /// Queues a question. Returns the question that has no place: this one, or one of a user that has more waiting.
    fn ask(&mut self, question: SystemUserQuestion) -> Option<SystemUserQuestion> {
        match self.queue.push(Origin::LocalClients(Some(question.uid)), question) {
            Ok((place, displaced)) => {
                self.places.insert((question.from, question.client), place);
                if let Some(SystemUserQuestion { from, client, .. }) = displaced {
                    self.places.remove(&(from, client));
                }
                displaced
            }
            Err(question) => Some(question),
        }
    }

    /// Removes the waiting question of a client that is gone. A lookup under way ends by itself.
    pub(crate) fn forget(&mut self, from: WorkerId, client: ClientKey) {
        if let Some(place) = self.places.remove(&(from, client)) {
            self.queue.remove(&place);
        }
    }

    /// Returns the next question, if another user may be looked up.
    pub(crate) fn start(&mut self) -> Option<SystemUserQuestion> {
        if self.under_way >= AT_ONCE_MAX {
            return None;
        }
        let next = self.queue.pop()?;
        self.places.remove(&(next.from, next.client));
        self.under_way += 1;
        Some(next)
    }

    /// Frees the place of a finished lookup.
    fn done(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

/// Users looked up at a time. The system may be slow, and each lookup occupies a thread.
pub const AT_ONCE_MAX: usize = 4;
/// Clients that may wait. Each is a login bounded by `client_login_timeout`.
const WAITING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    use base::Key;
    use worker::letters::ToControl;

    use crate::Event;
    use crate::control::tests::TestControl;

    /// A question of the client with this number, which belongs to this user.
    fn question(number: u32, uid: u32) -> SystemUserQuestion {
        SystemUserQuestion { from: WorkerId(0), client: Key::first(number), uid }
    }

    fn ask(users: &mut SystemUsers, numbers: std::ops::Range<u32>, uid: u32) {
        for number in numbers {
            assert_eq!(users.ask(question(number, uid)), None);
        }
    }

    /// Returns the next numbers, each of which is found at once.
    fn next(users: &mut SystemUsers, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count
            && let Some(question) = users.start()
        {
            users.done();
            numbers.push(question.client.index);
        }
        numbers
    }

    #[test]
    fn a_few_are_looked_up_at_a_time() {
        let mut users = SystemUsers::default();
        ask(&mut users, 0..AT_ONCE_MAX as u32 + 1, 1000);
        assert_eq!(std::iter::from_fn(|| users.start()).count(), AT_ONCE_MAX);
        users.done();
        assert_eq!(users.start(), Some(question(AT_ONCE_MAX as u32, 1000)));
        assert_eq!(users.start(), None);
    }

    #[test]
    fn users_take_turns_and_who_has_most_waiting_makes_room() {
        let mut users = SystemUsers::default();
        ask(&mut users, 0..WAITING_MAX as u32, 1000);
        assert_eq!(users.ask(question(2000, 1000)), Some(question(2000, 1000)));
        assert_eq!(users.ask(question(3000, 1001)), Some(question(WAITING_MAX as u32 - 1, 1000)));
        assert_eq!((users.queue.len(), users.places.len()), (WAITING_MAX, WAITING_MAX));
        assert_eq!(next(&mut users, 4), [0, 3000, 1, 2]);
    }

    #[test]
    fn who_has_gone_has_no_place() {
        let mut users = SystemUsers::default();
        ask(&mut users, 0..WAITING_MAX as u32, 1000);
        users.forget(WorkerId(0), question(0, 1000).client);
        users.forget(WorkerId(1), question(1, 1000).client);
        assert_eq!(users.ask(question(5000, 1000)), None);
        assert_eq!(users.ask(question(5001, 1000)), Some(question(5001, 1000)));
        assert_eq!(next(&mut users, 2), [1, 2]);
        (0..6000).for_each(|number| users.forget(WorkerId(0), question(number, 1000).client));
        assert!(users.places.is_empty() && users.queue.is_empty() && users.start().is_none());
    }

    #[test]
    fn users_of_the_system_are_looked_up_a_few_at_a_time_and_who_finds_no_place_is_told() {
        let mut test = TestControl::new("system_users", 1, "");
        let (from, client) = (WorkerId(0), |number| Key::first(number));
        let ask = |number| Event::Letter(ToControl::SystemUser { from, client: client(number), uid: 1000 });
        (0..1025).for_each(|number| test.happens(ask(number)));
        let letters = test.letters(0);
        let [ToWorker::SystemUser { client: refused, found: Err(why) }] = &letters[..] else { panic!("{letters:?}") };
        assert_eq!((*refused, &**why), (client(1024), "too many clients wait for the names of system users: 1024"));
        let begun: Vec<_> = std::iter::from_fn(|| test.control.next_system_user()).map(|asked| asked.client).collect();
        assert_eq!(begun, [0, 1, 2, 3].map(client));
        test.happens(Event::Letter(ToControl::SystemUserUnneeded { from, client: client(4) }));
        test.happens(Event::SystemUser { from, client: client(1), found: Ok(Some("u".into())) });
        let letters = test.letters(0);
        assert!(matches!(&letters[..], [ToWorker::SystemUser { client: of, found: Ok(Some(_)) }] if *of == client(1)));
        assert_eq!(test.control.next_system_user().map(|asked| asked.client), Some(client(5)));
    }
}
