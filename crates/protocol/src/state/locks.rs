//! Session-level advisory locks that are known without a state probe: from calls that stand alone, and from the row that
//! answers each.
//!
//! Always true: a lock counts as released only if every acquisition of it is known, and as many releases have been
//! answered with true.
//! Not here: locks that a state probe reports (`probe`), how long locks pin a server (`pins`).

use std::collections::BTreeMap;

use route::LockCall;

use super::pins::Hold;

/// The known advisory locks of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// The only thing that the session has done since its locks were last known: this call, and the state of its answer.
    call: Option<(LockCall, Answer)>,
    /// How often each lock is held, for locks known since their first acquisition. PostgreSQL counts this, and `pg_locks`
    /// does not show it.
    counts: BTreeMap<Hold, u32>,
}

/// The state of the answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// No row is awaited, because other answers may come first.
    Unread,
    /// The next row is the answer.
    Awaited,
    /// The answer: whether the lock was taken or released.
    Told(bool),
}

/// What a call has done to the locks of its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Done {
    /// Nothing that changes which client keeps which server.
    Nothing,
    /// It has taken this lock, which the session may have held before.
    Taken(Hold),
    /// It has released this lock, which the session no longer holds.
    Released(Hold),
}

impl Locks {
    /// The session has made this call, and has done nothing else since its locks were last known.
    pub(super) fn called(&mut self, call: LockCall) {
        self.call = Some((call, Answer::Unread));
    }

    /// The session has done something else as well.
    pub(super) fn doubt_call(&mut self) {
        self.call = None;
    }

    /// The call has been sent to a server that owes no other answer. Returns whether there is a call.
    pub(super) fn await_row(&mut self) -> bool {
        self.call.as_mut().map(|(_, answer)| *answer = Answer::Awaited).is_some()
    }

    /// A row has come, which answers the call if its answer is awaited.
    pub(super) fn row(&mut self, body: &[u8]) {
        if let Some((_, answer @ Answer::Awaited)) = &mut self.call {
            *answer = did(body).map_or(Answer::Unread, Answer::Told);
        }
    }

    /// What the call has done to a session that holds at least these locks; `None` if only its server can tell.
    pub(super) fn settle<'a>(&mut self, mut held: impl Iterator<Item = &'a Hold>) -> Option<Done> {
        let (call, Answer::Told(did)) = self.call.take()? else { return None };
        let hold = hold(call);
        let count = self.counts.get_mut(&hold);
        match (call.releases, did, count) {
            // A lock that is held could have been taken once more or released: the server has read a statement
            // differently.
            (_, false, Some(_)) => None,
            (_, false, None) => Some(Done::Nothing),
            (false, true, Some(count)) => {
                *count = count.checked_add(1)?;
                Some(Done::Nothing)
            }
            (false, true, None) => {
                // If the lock was held before, it is unknown how often, so a release would not tell that it was the last.
                if !held.any(|other| *other == hold) {
                    self.counts.insert(hold.clone(), 1);
                }
                Some(Done::Taken(hold))
            }
            (true, true, Some(count)) if *count > 1 => {
                *count -= 1;
                Some(Done::Nothing)
            }
            (true, true, Some(_)) => {
                self.counts.remove(&hold);
                Some(Done::Released(hold))
            }
            (true, true, None) => None,
        }
    }

    /// How often the session holds each lock is no longer known.
    pub(super) fn forget_counts(&mut self) {
        self.counts.clear();
    }
}

/// The lock as `pg_locks` shows it.
fn hold(call: LockCall) -> Hold {
    let mode = if call.is_shared { "ShareLock" } else { "ExclusiveLock" };
    Hold::lock(&call.key.to_string(), Some(mode))
}

/// Reads a `DataRow` of one value: a `boolean` in either format, or the `void` of a function that has succeeded.
fn did(body: &[u8]) -> Option<bool> {
    match body {
        [0, 1, 0, 0, 0, 0] | [0, 1, 0, 0, 0, 1, b't' | 1] => Some(true),
        [0, 1, 0, 0, 0, 1, b'f' | 0] => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use route::LockKey;

    use super::*;

    const TRUE: [u8; 7] = [0, 1, 0, 0, 0, 1, b't'];
    const FALSE: [u8; 7] = [0, 1, 0, 0, 0, 1, b'f'];

    fn call(releases: bool) -> LockCall {
        LockCall { key: LockKey::Two(1, 2), is_shared: false, releases }
    }

    /// The outcomes of calls and their answers in a session that holds nothing else.
    fn story(steps: &[(bool, &[u8])]) -> Vec<&'static str> {
        let (mut locks, mut held) = (Locks::default(), Vec::<Hold>::new());
        let one = |(releases, row): &(bool, &[u8])| {
            locks.called(call(*releases));
            assert!(locks.await_row());
            locks.row(row);
            match locks.settle(held.iter()) {
                None => "ask",
                Some(Done::Nothing) => "nothing",
                Some(Done::Taken(hold)) => {
                    assert_eq!((&*hold.what, hold.mode.as_deref()), ("1, 2", Some("ExclusiveLock")));
                    held.push(hold);
                    "taken"
                }
                Some(Done::Released(hold)) => {
                    held.retain(|other| *other != hold);
                    "released"
                }
            }
        };
        steps.iter().map(one).collect()
    }

    #[test]
    fn a_lock_is_released_as_often_as_it_was_taken() {
        let (take, release) = ((false, &TRUE[..]), (true, &TRUE[..]));
        assert_eq!(story(&[take, release]), ["taken", "released"]);
        assert_eq!(story(&[take, take, release, release]), ["taken", "nothing", "nothing", "released"]);
        assert_eq!(story(&[(false, &[0, 1, 0, 0, 0, 0]), (true, &[0, 1, 0, 0, 0, 1, 1])]), ["taken", "released"]);
    }

    #[test]
    fn what_was_refused_changes_nothing() {
        assert_eq!(story(&[(false, &FALSE), (true, &FALSE)]), ["nothing", "nothing"]);
        assert_eq!(story(&[(false, &[0, 1, 0, 0, 0, 1, 0])]), ["nothing"]);
    }

    #[test]
    fn what_cannot_be_is_asked_for() {
        assert_eq!(story(&[(true, &TRUE)]), ["ask"], "nobody knows of such a lock");
        assert_eq!(story(&[(false, &TRUE), (true, &FALSE)]), ["taken", "ask"]);
        assert_eq!(story(&[(false, &TRUE), (false, &FALSE)]), ["taken", "ask"]);
        for row in [&b""[..], &[0, 2, 0, 0, 0, 0], &[0, 1, 0xff, 0xff, 0xff, 0xff], b"\0\x01\0\0\0\x04true"] {
            assert_eq!(story(&[(false, row)]), ["ask"]);
        }
    }

    #[test]
    fn a_lock_that_was_asked_for_is_held_nobody_knows_how_often() {
        let mut locks = Locks::default();
        let held = [hold(call(false))];
        let mut settled = |releases| {
            locks.called(call(releases));
            locks.await_row();
            locks.row(&TRUE);
            locks.settle(held.iter())
        };
        assert_eq!(settled(false), Some(Done::Taken(held[0].clone())));
        assert_eq!(settled(true), None);
    }

    #[test]
    fn a_row_counts_only_where_it_is_awaited() {
        let mut locks = Locks::default();
        locks.row(&TRUE);
        assert!(!locks.await_row(), "there is no call");
        locks.called(call(false));
        locks.row(&TRUE);
        assert_eq!(locks.settle([].iter()), None, "it is another statement's");
        locks.called(call(false));
        locks.await_row();
        locks.row(&FALSE);
        locks.row(&TRUE);
        assert_eq!(locks.settle([].iter()), Some(Done::Nothing), "the first row is the answer");
        locks.called(call(false));
        locks.await_row();
        locks.doubt_call();
        locks.row(&TRUE);
        assert_eq!(locks.settle([].iter()), None);
    }
}
