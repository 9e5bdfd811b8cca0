//! Which channels a client has left, where the listener (`subscriptions`) listens to them: the client's own server cannot
//! be probed for that.
//!
//! Always true: a channel counts as left when the server has reported that it has executed `UNLISTEN` or `DISCARD ALL`,
//! and that this was committed. Where the answers do not tell which of several channels a client has left, none of them
//! counts as left, since a notification too many does less harm than a lost one.
//! Not here: what the client gets meanwhile, and what follows when it has left a channel (`worker::notify::listen`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

/// The channels that one client leaves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unlistens {
    /// Sent, and not answered; `None` stands for all channels.
    sent: Sent,
    /// Executed in a transaction that has not ended.
    executed: Left,
    /// Committed.
    committed: Left,
    /// An error was answered while more was under way: which of it the server skips is known only when everything is
    /// answered.
    is_unclear: bool,
}

/// Statements in their order, and how often they name each channel.
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

    /// Whether one of the statements leaves this channel.
    fn has(&self, channel: &str) -> bool {
        !self.counts.is_empty()
            && (self.counts.contains_key(&None) || self.counts.contains_key(&Some(Box::from(channel))))
    }
}

/// Channels that were left.
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
    /// The client sends a statement that leaves a channel, or all channels.
    pub fn sends(&mut self, channel: Option<&str>) {
        self.sent.push(channel.map(Box::from));
    }

    /// The server has executed the oldest statement.
    pub fn is_executed(&mut self) {
        match self.sent.pop().filter(|_| !self.is_unclear) {
            Some(Some(channel)) if self.executed.names.len() < NAMES_MAX => drop(self.executed.names.insert(channel)),
            // No client listens to so many channels.
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

    /// The server has rolled back a transaction, or a part of it.
    pub fn rolls_back(&mut self) {
        self.executed = Left::default();
    }

    /// The server has reported an error; it owes no other answer if `is_last`.
    pub fn fails(&mut self, is_last: bool) {
        self.rolls_back();
        self.sent.clear();
        self.is_unclear |= !is_last;
    }

    /// The server has sent `ReadyForQuery`: outside of transactions if `is_outside`, and it owes no other answer if
    /// `is_all`.
    pub fn is_ready(&mut self, is_outside: bool, is_all: bool) {
        if is_outside {
            self.commits();
        }
        if is_all {
            // The rest was bound and not executed, or was skipped.
            self.sent.clear();
            self.is_unclear = false;
        }
    }

    /// Whether the client has left channels, or may have, and they have not been taken.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.sent.queue.is_empty() || !self.executed.is_empty() || !self.committed.is_empty()
    }

    /// Whether the client has left this channel, or may have, and it has not been taken.
    #[must_use]
    pub fn may_have(&self, channel: &str) -> bool {
        self.executed.has(channel) || self.committed.has(channel) || self.sent.has(channel)
    }

    /// Takes the channels that the client has left since the last call.
    pub fn take(&mut self) -> Left {
        std::mem::take(&mut self.committed)
    }
}

/// The most channels that are remembered as left by one transaction.
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
            // Pipelined with other transactions.
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
