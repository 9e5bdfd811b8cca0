//! Which channels a client has left, where another session listens to them for it: its own server cannot be asked for that.
//!
//! Always true: a channel is left when the server has said that it has executed `UNLISTEN` or `DISCARD ALL` and that this has been committed.
//! Where the answers do not tell which of several a client has left, it has left none of them, since a notification too many does less harm
//! than one that is lost.
//! Not here: what a client is told meanwhile, and what follows when it has left a channel (`worker::notify::listen`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

/// What one client leaves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unlistens {
    /// Sent, and not answered; `None` is all channels.
    sent: Sent,
    /// Executed in a transaction that has not ended.
    executed: Left,
    /// Committed.
    committed: Left,
    /// An error was answered while more was under way: which of that the server skips is not known before all is answered.
    is_unclear: bool,
}

/// Statements in their order, and how often each channel is named in them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "VecDeque<Option<Box<str>>>", into = "VecDeque<Option<Box<str>>>")]
struct Sent {
    queue: VecDeque<Option<Box<str>>>,
    counts: BTreeMap<Option<Box<str>>, usize>,
}

impl From<VecDeque<Option<Box<str>>>> for Sent {
    fn from(queue: VecDeque<Option<Box<str>>>) -> Self {
        let mut sent = Self::default();
        queue.into_iter().for_each(|channel| sent.push(channel));
        sent
    }
}

impl From<Sent> for VecDeque<Option<Box<str>>> {
    fn from(sent: Sent) -> Self {
        sent.queue
    }
}

impl Sent {
    fn push(&mut self, channel: Option<Box<str>>) {
        *self.counts.entry(channel.clone()).or_default() += 1;
        self.queue.push_back(channel);
    }

    fn pop(&mut self) -> Option<Option<Box<str>>> {
        let channel = self.queue.pop_front()?;
        if let Some(count) = self.counts.get_mut(&channel) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&channel);
            }
        }
        Some(channel)
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.counts.clear();
    }

    /// Whether one of them leaves this channel.
    fn has(&self, channel: &str) -> bool {
        !self.counts.is_empty()
            && (self.counts.contains_key(&None) || self.counts.contains_key(&Some(Box::from(channel))))
    }
}

/// Channels that are left, each named once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    is_all: bool,
    names: BTreeSet<Box<str>>,
}

impl Left {
    /// Whether a channel is one of them.
    #[must_use]
    pub fn has(&self, channel: &str) -> bool {
        self.is_all || self.names.contains(channel)
    }

    fn is_empty(&self) -> bool {
        !self.is_all && self.names.is_empty()
    }
}

impl Unlistens {
    /// The client sends a statement that leaves a channel, or all.
    pub fn sends(&mut self, channel: Option<&str>) {
        self.sent.push(channel.map(Box::from));
    }

    /// The server has executed one.
    pub fn is_executed(&mut self) {
        match self.sent.pop().filter(|_| !self.is_unclear) {
            Some(Some(channel)) if self.executed.names.len() < NAMES_MAX => drop(self.executed.names.insert(channel)),
            // Nobody listens to so many.
            Some(Some(_)) => {}
            Some(None) => self.executed.is_all = true,
            None => {}
        }
    }

    /// The server has committed a transaction.
    pub fn commits(&mut self) {
        let Left { is_all, mut names } = std::mem::take(&mut self.executed);
        self.committed.is_all |= is_all;
        if self.committed.names.len() < NAMES_MAX {
            self.committed.names.append(&mut names);
        }
    }

    /// It has rolled back a transaction, or a part of it.
    pub fn rolls_back(&mut self) {
        self.executed = Left::default();
    }

    /// It has refused something, which was the last that it owes an answer for where that `is_last`.
    pub fn fails(&mut self, is_last: bool) {
        self.rolls_back();
        self.sent.clear();
        self.is_unclear |= !is_last;
    }

    /// It is ready for a query: outside of transactions, if that `is_outside`; and it owes nothing more, if that `is_all`.
    pub fn is_ready(&mut self, is_outside: bool, is_all: bool) {
        if is_outside {
            self.commits();
        }
        if is_all {
            // What is left here was bound and not executed, or skipped.
            self.sent.clear();
            self.is_unclear = false;
        }
    }

    /// Whether the client has left channels, or may have, and nothing has followed from that yet.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.sent.queue.is_empty() || !self.executed.is_empty() || !self.committed.is_empty()
    }

    /// Whether that is so of this channel.
    #[must_use]
    pub fn may_have(&self, channel: &str) -> bool {
        self.executed.has(channel) || self.committed.has(channel) || self.sent.has(channel)
    }

    /// The channels that it has left since this was last asked.
    pub fn take(&mut self) -> Left {
        std::mem::take(&mut self.committed)
    }
}

/// So many channels that are left in one transaction are remembered.
const NAMES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_remembered_up_to_a_bound() {
        let mut unlistens = Unlistens::default();
        for number in 0..3 * NAMES_MAX {
            unlistens.sends(Some(&number.to_string()));
            assert!(unlistens.may_have(&number.to_string()));
            unlistens.is_executed();
        }
        assert_eq!((unlistens.executed.names.len(), unlistens.sent.counts.len()), (NAMES_MAX, 0));
        unlistens.sends(Some("a"));
        unlistens.sends(Some("a"));
        unlistens.is_executed();
        assert!(unlistens.may_have("a") && !unlistens.may_have("b"));
        unlistens.sends(None);
        assert!(unlistens.may_have("b"));
    }

    /// What a client sends, and what the server answers, one character each: `u` UNLISTEN a, `v` UNLISTEN b, `w` UNLISTEN *; `x` executed,
    /// `c` COMMIT, `r` ROLLBACK, `!` an error and nothing else is owed, `e` an error and more is under way, `t` ready inside a transaction,
    /// `p` ready outside and more is under way, `.` ready outside and nothing is owed.
    fn left(story: &str) -> String {
        let mut unlistens = Unlistens::default();
        for moment in story.chars() {
            match moment {
                'u' => unlistens.sends(Some("a")),
                'v' => unlistens.sends(Some("b")),
                'w' => unlistens.sends(None),
                'x' => unlistens.is_executed(),
                'c' => unlistens.commits(),
                'r' => unlistens.rolls_back(),
                '!' => unlistens.fails(true),
                'e' => unlistens.fails(false),
                't' => unlistens.is_ready(false, true),
                'p' => unlistens.is_ready(true, false),
                '.' => unlistens.is_ready(true, true),
                _ => unreachable!("{moment}"),
            }
        }
        let left = unlistens.take();
        assert!(!story.ends_with('.') || !unlistens.is_any(), "{story}");
        ["a", "b", "c"].into_iter().filter(|channel| left.has(channel)).collect()
    }

    #[test]
    fn what_is_left_is_what_was_committed() {
        for (story, is_left) in [
            ("u", ""),
            ("ux", ""),
            ("uxt", ""),
            ("ux.", "a"),
            ("uxtvxtc.", "ab"),
            ("wxtc.", "abc"),
            ("uxtr.", ""),
            ("uxc!.", "a"),
            // A failed transaction ends with the tag ROLLBACK.
            ("uxt!tr.", ""),
            ("!t!tr.", ""),
            // Bound and not executed, or skipped.
            ("u.", ""),
            ("!u.", ""),
            ("!u.vx.", "b"),
            // In the breath of other transactions.
            ("uvxpx.", "ab"),
            ("uxpvr.", "a"),
            ("euxp.", ""),
            ("euxp.vx.", "b"),
        ] {
            assert_eq!(left(story), is_left, "{story}");
        }
    }

    #[test]
    fn what_was_sent_before_an_online_restart_may_have_been_left() {
        let sent = Sent::from(VecDeque::from([Some(Box::from("a")), Some(Box::from("b"))]));
        let mut unlistens = Unlistens { sent, ..Unlistens::default() };
        assert!(unlistens.is_any() && unlistens.may_have("a") && unlistens.may_have("b") && !unlistens.may_have("c"));
        unlistens.is_executed();
        unlistens.commits();
        assert!(unlistens.take().has("a") && unlistens.may_have("b"));
    }

    #[test]
    fn what_is_not_known_yet_may_have_been_left() {
        let mut unlistens = Unlistens::default();
        assert!(!unlistens.is_any());
        unlistens.sends(Some("a"));
        assert!(unlistens.is_any() && unlistens.may_have("a") && !unlistens.may_have("b"));
        unlistens.is_executed();
        unlistens.sends(None);
        assert!(unlistens.may_have("a") && unlistens.may_have("b"));
        unlistens.is_ready(true, true);
        assert!(unlistens.may_have("a") && !unlistens.may_have("b"));
    }
}
