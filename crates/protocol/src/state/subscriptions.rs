//! What a client listens to without a server of its own: one session per database listens for all.
//!
//! Always true: from the moment at which a client has been told that it listens, each notification reaches it from its own server or
//! from the one that listens for all, once, and in order within its channel. Its own server tells what stands before a mark that it sends itself
//! (`NOTIFY`), the one for all what stands behind it: PostgreSQL tells every session the same notifications in the same order
//! (`commands/async.c`).
//! Not here: who listens for all (`worker::notify::listen`), whether a client can be told now.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Included, Unbounded};

use crate::planted::{is_owed_word, is_told_at_once};

/// The channel of the marks: what a session that leaves a channel has told, and what the one for all tells, is parted by them.
pub const MARKS: &str = "trunkline takes over";

/// What one client listens to. A channel is in one of the first three tables.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Its own server tells of these; the one for all does not listen yet.
    own: BTreeSet<Box<str>>,
    /// Its own server tells of these up to the mark, and the one for all from there on, which listens already.
    both: BTreeSet<Box<str>>,
    /// The one for all tells of these: at once, or when it has come to this mark.
    shared: BTreeMap<Box<str>, Option<u64>>,
    /// The mark at which the one for all takes over from its own server.
    mark: Option<Mark>,
    /// What the one for all has told behind the mark, before its own server has come to that.
    late: Vec<Box<[u8]>>,
    /// What it is to be told as soon as it can be.
    kept: VecDeque<Box<[u8]>>,
    /// Those before these whose channels it may have left: each is looked at once, however often it is asked.
    doubted: Vec<Box<[u8]>>,
    /// Of both.
    kept_bytes: usize,
    /// Something may have been lost, and it has not been told so.
    owed: Option<Word>,
    /// How often the one for all had been lost when that was last taken into account here.
    losses: u64,
    /// What it has said since its last transaction may have notified: it is told that before it is told that its transaction has ended.
    may_have_notified: bool,
    /// Statements that it has prepared while it listened, by their names, and whether each may notify. Any other may.
    prepared: BTreeMap<Box<[u8]>, bool>,
}

/// A mark on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    number: u64,
    /// Its own server has come to it.
    own: bool,
    /// The one for all has come to it.
    shared: bool,
}

/// A word of lost notifications, which waits until the one for all listens to all channels that are left to it.
#[derive(Debug, Default)]
struct Word {
    /// It listens to those before this one: each is looked at until it does, and then no more.
    from: Box<str>,
}

impl Subscriptions {
    /// Of a client in whose database the one for all has been lost so often.
    #[must_use]
    pub fn new(losses: u64) -> Self {
        Self { losses, ..Self::default() }
    }

    /// The one for all has been lost so often by now. A client is owed a word as soon as this is taken into account, and that is before anything
    /// else is done with what it listens to.
    pub fn knows_losses(&mut self, losses: u64) {
        if std::mem::replace(&mut self.losses, losses) != losses && is_owed_word(self.is_cut_off()) {
            self.owes_word();
        }
    }

    /// Its own server listens to these. Those are told that it has not listened to before.
    pub fn listens<'a>(&mut self, channels: impl Iterator<Item = &'a str>) -> Vec<Box<str>> {
        let mut news = Vec::new();
        for channel in channels {
            if !self.has(channel) {
                self.own.insert(channel.into());
                news.push(channel.into());
            }
        }
        news
    }

    /// The one for all listens to a channel.
    pub fn is_heard(&mut self, channel: &str) {
        self.both.extend(self.own.take(channel));
    }

    /// Whether its own server tells of a channel to which the one for all does not listen yet.
    #[must_use]
    pub fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// The one for all cannot listen to a channel, or no longer: the client's own server goes on with it. Whether that cannot be, because the
    /// channel has been left to the one for all. It stays so then: what the own server still tells of it the client may have been told already.
    pub fn is_unheard(&mut self, channel: &str) -> bool {
        let is_relied_on = self.relies_on(channel);
        if !is_relied_on && !self.own.remove(channel) && self.both.remove(channel) {
            self.is_unmarked();
        }
        is_relied_on
    }

    /// Whether a channel has been left to the one for all.
    #[must_use]
    pub fn relies_on(&self, channel: &str) -> bool {
        self.shared.contains_key(channel) || self.both.contains(channel) && self.may_leave()
    }

    /// Whether the one for all listens to these.
    pub fn may_move<'a>(&self, mut channels: impl Iterator<Item = &'a str>) -> bool {
        channels.all(|channel| self.both.contains(channel) || self.shared.contains_key(channel))
    }

    /// Its own server sends a mark of this number.
    pub fn is_marked(&mut self, number: u64) {
        self.forget_late();
        self.mark = Some(Mark { number, own: false, shared: false });
    }

    /// Whether its own server has come to the mark.
    #[must_use]
    pub fn may_leave(&self) -> bool {
        self.mark.is_some_and(|mark| mark.own)
    }

    /// There is no mark after all: its own server goes on.
    pub fn is_unmarked(&mut self) {
        self.mark = None;
        self.forget_late();
    }

    /// Its own server does not listen any more. Whether something may have been lost, since the one for all has gone in the meantime.
    pub fn has_moved(&mut self) -> bool {
        let is_lost = self.has_own();
        let awaited = self.mark.take().filter(|mark| !mark.shared).map(|mark| mark.number);
        let moved = std::mem::take(&mut self.own).into_iter().chain(std::mem::take(&mut self.both));
        self.shared.extend(moved.map(|channel| (channel, awaited)));
        is_lost
    }

    /// The one for all has come to a mark.
    pub fn shared_mark(&mut self, number: u64) {
        if let Some(mark) = self.mark.as_mut().filter(|mark| mark.number == number) {
            mark.shared = true;
        }
        self.shared.values_mut().for_each(|awaited| *awaited = awaited.filter(|awaited| *awaited != number));
    }

    /// Nobody listens for all any more: whether this client may have lost something. Where its own server has told everything it has
    /// not.
    fn is_cut_off(&mut self) -> bool {
        self.forget_late();
        let was_passed = self.mark.take().is_some_and(|mark| mark.own);
        self.own.append(&mut self.both);
        self.shared.values_mut().for_each(|awaited| *awaited = None);
        was_passed || self.is_shared()
    }

    /// These were listened to for it by another process.
    pub fn comes_with(&mut self, channels: impl Iterator<Item = Box<str>>) {
        self.shared.extend(channels.map(|channel| (channel, None)));
    }

    /// It is to be told that something may have been lost.
    pub fn owes_word(&mut self) {
        self.owed = Some(Word::default());
    }

    /// Whether that is so, and has not been done.
    #[must_use]
    pub fn is_owed_word(&self) -> bool {
        self.owed.is_some()
    }

    /// Whether it is to be told so now: the one for all listens again to all that is left to it.
    pub fn takes_word(&mut self, is_heard: impl Fn(&str) -> bool) -> bool {
        let Some(word) = &mut self.owed else { return false };
        let from = (Included(&*word.from), Unbounded);
        let unheard = self.shared.range::<str, _>(from).map(|(name, _)| name).find(|name| !is_heard(name));
        match unheard {
            Some(name) if *name == word.from => {}
            Some(name) => word.from.clone_from(name),
            None => self.owed = None,
        }
        self.owed.is_none()
    }

    /// It listens no longer to the channels of which `is_left` is true, and is not told what it has not been told of them, as by PostgreSQL. Those are
    /// told that it has listened to.
    pub fn leaves(&mut self, is_left: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        let left: BTreeSet<Box<str>> = self.channels().filter(|channel| is_left(channel)).map(Box::from).collect();
        if left.is_empty() {
            return Vec::new();
        }
        self.own.retain(|channel| !left.contains(channel));
        self.both.retain(|channel| !left.contains(channel));
        self.shared.retain(|channel, _| !left.contains(channel));
        if self.channel_count() == 0 {
            self.is_unmarked();
        }
        let is_told = |body: &[u8]| channel_of(body).is_none_or(|channel| !left.contains(channel));
        self.late.retain(|body| is_told(body));
        self.kept.retain(|body| is_told(body));
        self.doubted.retain(|body| is_told(body));
        let all = self.kept.iter().chain(&self.doubted).chain(&self.late);
        self.kept_bytes = all.map(|body| body.len()).sum();
        left.into_iter().collect()
    }

    fn forget_late(&mut self) {
        self.kept_bytes -= self.late.drain(..).map(|body| body.len()).sum::<usize>();
    }

    /// Its own server tells of a notification; whether it is to be told.
    pub fn own(&mut self, body: &[u8]) -> bool {
        let Some(channel) = channel_of(body) else { return true };
        if channel == MARKS {
            if let Some(mark) = self.mark.as_mut().filter(|mark| mark_of(body) == Some(mark.number)) {
                mark.own = true;
                self.kept.extend(self.late.drain(..));
            }
            return false;
        }
        if self.both.contains(channel) {
            return is_told_at_once(!self.may_leave());
        }
        !self.shared.contains_key(channel)
    }

    /// The one for all tells of a notification.
    pub fn shared(&mut self, body: &[u8]) {
        let Some(channel) = channel_of(body) else { return };
        let is_ours = self.shared.get(channel) == Some(&None);
        match self.mark.filter(|mark| mark.shared && self.both.contains(channel)) {
            Some(mark) if !mark.own => {
                self.kept_bytes += body.len();
                self.late.push(body.into());
            }
            Some(_) => self.keep(body.into()),
            None if is_ours => self.keep(body.into()),
            // Its own server tells it, or has told it.
            None => {}
        }
    }

    fn keep(&mut self, body: Box<[u8]>) {
        self.kept_bytes += body.len();
        self.kept.push_back(body);
    }

    /// How many bytes are kept.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// How many notifications are kept.
    #[must_use]
    pub fn kept_count(&self) -> usize {
        self.kept.len() + self.doubted.len()
    }

    /// Those that are kept, the oldest first: none before a word that is owed. Where the client `may_have_left` channels, those of such channels wait
    /// until it is known.
    pub fn take_kept(&mut self, may_have_left: Option<impl Fn(&str) -> bool>) -> Vec<Box<[u8]>> {
        let mut taken = Vec::new();
        if self.is_owed_word() {
            return taken;
        }
        if may_have_left.is_none() {
            taken.append(&mut self.doubted);
        }
        for body in self.kept.drain(..) {
            let is_doubted = may_have_left.as_ref().is_some_and(|left| channel_of(&body).is_some_and(left));
            if is_doubted { self.doubted.push(body) } else { taken.push(body) }
        }
        self.kept_bytes -= taken.iter().map(|body| body.len()).sum::<usize>();
        taken
    }

    /// All that is kept is given up.
    pub fn drop_kept(&mut self) {
        self.kept.clear();
        self.doubted.clear();
        self.late.clear();
        self.kept_bytes = 0;
    }

    /// It says what may notify.
    pub fn may_notify(&mut self) {
        self.may_have_notified = true;
    }

    /// It prepares a statement of this name.
    pub fn prepares(&mut self, statement: &[u8], may_notify: bool) {
        if let Some(known) = self.prepared.get_mut(statement) {
            *known = may_notify;
        } else if self.prepared.len() < PREPARED_MAX {
            self.prepared.insert(statement.into(), may_notify);
        }
    }

    /// It binds a statement of this name, and so may execute it.
    pub fn binds(&mut self, statement: &[u8]) {
        self.may_have_notified |= self.prepared.get(statement) != Some(&false);
    }

    /// It says something that is not read at once: that may notify, or prepare any statement.
    pub fn is_unread(&mut self) {
        self.may_have_notified = true;
        self.prepared.clear();
    }

    /// Whether the end of a transaction is told only when the one for all has told what this has notified. What its own server listens to
    /// that tells by itself.
    #[must_use]
    pub fn awaits_own_news(&self) -> bool {
        self.may_have_notified && self.is_shared()
    }

    /// All that it has said has been answered, and its transaction has ended.
    pub fn transaction_ends(&mut self) {
        self.may_have_notified = false;
    }

    /// Whether it relies on the one for all.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Whether it listens to nothing, and is owed nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.channel_count() == 0 && self.kept_count() == 0
    }

    /// Whether it listens to a channel.
    #[must_use]
    pub fn has(&self, channel: &str) -> bool {
        self.own.contains(channel) || self.both.contains(channel) || self.shared.contains_key(channel)
    }

    /// The channels that it listens to.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.own.iter().chain(&self.both).chain(self.shared.keys()).map(|name| &**name)
    }

    /// How many these are.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.own.len() + self.both.len() + self.shared.len()
    }
}

/// So many statements of one client are known; of others it is not known whether they notify.
const PREPARED_MAX: usize = 1000;

/// The channel of a `NotificationResponse`.
#[must_use]
pub fn channel_of(body: &[u8]) -> Option<&str> {
    let name = body.get(4..)?;
    std::str::from_utf8(&name[..name.iter().position(|&byte| byte == 0)?]).ok()
}

/// The number of a mark.
#[must_use]
pub fn mark_of(body: &[u8]) -> Option<u64> {
    let payload = body.get(4 + MARKS.len() + 1..)?;
    let payload = &payload[..payload.iter().position(|&byte| byte == 0)?];
    std::str::from_utf8(payload).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn news(channel: &str, payload: &str) -> Vec<u8> {
        format!("\0\0\0\x07{channel}\0{payload}\0").into_bytes()
    }

    #[test]
    fn the_one_for_all_tells_what_stands_behind_the_mark_that_was_sent() {
        let mut subscriptions = Subscriptions::new(0);
        subscriptions.listens(["c"].into_iter());
        subscriptions.is_heard("c");
        subscriptions.is_marked(2);
        subscriptions.shared_mark(1);
        subscriptions.shared(&news("c", "1"));
        assert_eq!(subscriptions.kept_bytes(), 0, "its own server tells that");
        subscriptions.shared_mark(2);
        subscriptions.shared(&news("c", "2"));
        assert_eq!(subscriptions.kept_bytes(), news("c", "2").len());
    }

    #[test]
    fn who_leaves_one_channel_is_told_of_the_others() {
        let mut subscriptions = Subscriptions::new(0);
        subscriptions.comes_with(["a", "b"].map(Box::from).into_iter());
        assert_eq!(subscriptions.listens(["b", "c"].into_iter()), [Box::from("c")]);
        assert!(subscriptions.listens(["c"].into_iter()).is_empty() && subscriptions.has("c"));
        subscriptions.is_heard("c");
        assert!(subscriptions.listens(["c"].into_iter()).is_empty() && subscriptions.has("c"));
        subscriptions.shared(&news("a", "1"));
        subscriptions.shared(&news("b", "2"));
        assert_eq!(subscriptions.leaves(|channel| channel == "a"), [Box::from("a")]);
        assert_eq!(subscriptions.kept_bytes(), news("b", "2").len());
        let kept = subscriptions.take_kept(None::<fn(&str) -> bool>);
        assert_eq!(kept, [news("b", "2").into_boxed_slice()]);
        assert_eq!((subscriptions.kept_bytes(), subscriptions.kept_count()), (0, 0));
    }

    fn told(subscriptions: &mut Subscriptions) -> Vec<String> {
        let payload = |body: Box<[u8]>| {
            let text = String::from_utf8_lossy(&body[4..]).into_owned();
            text.split('\0').nth(1).unwrap_or_default().to_owned()
        };
        subscriptions.take_kept(None::<fn(&str) -> bool>).into_iter().map(payload).collect()
    }

    fn moved(channels: &[&str]) -> Subscriptions {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(channels.iter().copied());
        channels.iter().for_each(|channel| subscriptions.is_heard(channel));
        subscriptions.has_moved();
        subscriptions
    }

    #[test]
    fn while_one_takes_over_from_the_other_nothing_is_lost_or_told_twice() {
        // The queue is 1 2 3 mark 4 5; the one for all may come to each before or after the own server does.
        let queue = [news("a", "1"), news("a", "2"), news("a", "2"), news(MARKS, "77"), news("a", "4"), news("a", "5")];
        for lead in 0..=queue.len() {
            for leaves_at in 4..=queue.len() {
                let mut subscriptions = Subscriptions::default();
                assert_eq!(subscriptions.listens(["a"].into_iter()), [Box::from("a")]);
                subscriptions.shared(&news("a", "never: it does not listen yet"));
                assert!(!subscriptions.may_move(["a"].into_iter()));
                subscriptions.is_heard("a");
                assert!(subscriptions.may_move(["a"].into_iter()) && !subscriptions.may_move(["a", "b"].into_iter()));
                subscriptions.is_marked(77);
                let mut heard: Vec<String> = Vec::new();
                let shared = |subscriptions: &mut Subscriptions, body: &[u8]| match mark_of(body)
                    .filter(|_| channel_of(body) == Some(MARKS))
                {
                    Some(number) => subscriptions.shared_mark(number),
                    None => subscriptions.shared(body),
                };
                queue[..lead].iter().for_each(|body| shared(&mut subscriptions, body));
                for (place, body) in queue[..leaves_at].iter().enumerate() {
                    assert_eq!(subscriptions.may_leave(), place > 3);
                    if subscriptions.own(body) {
                        heard.push(String::from_utf8_lossy(&body[6..]).trim_matches('\0').to_owned());
                    }
                    heard.extend(told(&mut subscriptions));
                }
                assert!(!subscriptions.has_moved() && subscriptions.is_shared());
                queue[lead..].iter().for_each(|body| shared(&mut subscriptions, body));
                heard.extend(told(&mut subscriptions));
                assert_eq!(heard, ["1", "2", "2", "4", "5"], "lead {lead}, leaves at {leaves_at}");
            }
        }
    }

    #[test]
    fn who_listens_again_is_told_once() {
        let mut subscriptions = moved(&["a"]);
        assert!(subscriptions.listens(["a"].into_iter()).is_empty(), "nobody need be asked again");
        assert!(!subscriptions.own(&news("a", "1")), "the other one tells it");
        subscriptions.shared(&news("a", "1"));
        assert_eq!(told(&mut subscriptions), ["1"]);
    }

    #[test]
    fn the_same_words_twice_are_two_notifications() {
        let mut subscriptions = moved(&["a"]);
        subscriptions.shared(&news("a", "x"));
        subscriptions.shared(&news("a", "x"));
        assert_eq!(told(&mut subscriptions), ["x", "x"]);
    }

    #[test]
    fn who_has_left_a_channel_is_told_no_more_of_it() {
        let mut subscriptions = moved(&["a", "b"]);
        assert_eq!(subscriptions.leaves(|channel| channel == "a"), [Box::from("a")]);
        assert!(subscriptions.leaves(|channel| channel == "a").is_empty());
        subscriptions.shared(&news("a", "1"));
        subscriptions.shared(&news("b", "2"));
        assert_eq!(told(&mut subscriptions), ["2"]);
        subscriptions.shared(&news("b", "3"));
        assert_eq!(subscriptions.leaves(|_| true), [Box::from("b")]);
        assert!(told(&mut subscriptions).is_empty() && subscriptions.kept_bytes() == 0);
        assert!(subscriptions.is_idle());
    }

    #[test]
    fn who_is_cut_off_while_its_own_server_listens_has_lost_nothing() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_heard("a");
        subscriptions.is_marked(1);
        subscriptions.shared_mark(1);
        subscriptions.shared(&news("a", "1"));
        assert!(!subscriptions.is_cut_off() && !subscriptions.may_move(["a"].into_iter()));
        assert!(subscriptions.own(&news("a", "1")));
        subscriptions.is_heard("a");
        subscriptions.is_marked(2);
        subscriptions.own(&news(MARKS, "1"));
        assert!(!subscriptions.may_leave());
        subscriptions.own(&news(MARKS, "2"));
        assert!(subscriptions.may_leave() && !subscriptions.has_moved());
        assert!(told(&mut subscriptions).is_empty(), "it was told by its own");
        subscriptions.shared(&news("a", "before the mark"));
        assert!(told(&mut subscriptions).is_empty() && subscriptions.is_cut_off());
        subscriptions.owes_word();
        assert!(subscriptions.takes_word(|_| true) && !subscriptions.takes_word(|_| true));
    }

    #[test]
    fn who_is_cut_off_behind_the_mark_may_have_lost_something() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_heard("a");
        subscriptions.is_marked(1);
        subscriptions.own(&news(MARKS, "1"));
        assert!(!subscriptions.own(&news("a", "left to the one for all")));
        assert!(subscriptions.is_cut_off());
    }

    #[test]
    fn without_a_mark_its_own_server_goes_on() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_heard("a");
        subscriptions.is_marked(1);
        subscriptions.shared_mark(1);
        subscriptions.shared(&news("a", "1"));
        subscriptions.is_unmarked();
        assert!(subscriptions.own(&news("a", "1")) && told(&mut subscriptions).is_empty());
    }

    #[test]
    fn who_is_cut_off_while_its_own_server_leaves_may_have_lost_something() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_heard("a");
        // The server is told to leave here, and the one for all ends before it has.
        assert!(!subscriptions.is_cut_off());
        assert!(subscriptions.has_moved() && subscriptions.is_shared());
    }

    #[test]
    fn who_has_nobody_else_is_left_alone_with_a_channel_that_cannot_be_heard() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.comes_with([Box::from("a")].into_iter());
        subscriptions.listens(["b"].into_iter());
        assert!(subscriptions.is_unheard("a") && !subscriptions.is_unheard("b"));
        assert_eq!(subscriptions.channels().collect::<Vec<_>>(), ["a"], "until it is disconnected");
    }

    /// World seed 40155190: a client that had said LISTEN again had been told a notification by the one for all. Then a reload left no room for
    /// that one, and what the client's own server had told behind a withheld ReadyForQuery was told before the client was disconnected.
    #[test]
    fn who_loses_the_one_for_all_is_not_told_again_by_its_own_server() {
        let mut subscriptions = moved(&["a"]);
        subscriptions.listens(["a"].into_iter());
        subscriptions.shared(&news("a", "1"));
        assert_eq!(told(&mut subscriptions), ["1"]);
        assert!(subscriptions.is_unheard("a"));
        assert!(!subscriptions.own(&news("a", "1")));
    }

    #[test]
    fn who_loses_the_one_for_all_behind_the_mark_has_nobody_else() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_heard("a");
        subscriptions.is_marked(1);
        subscriptions.own(&news(MARKS, "1"));
        assert!(subscriptions.is_unheard("a"), "its own server is told to leave the channel");
    }

    #[test]
    fn who_loses_the_one_for_all_before_the_mark_keeps_its_server() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_heard("a");
        subscriptions.is_marked(1);
        assert!(!subscriptions.is_unheard("a"));
        subscriptions.own(&news(MARKS, "1"));
        assert!(!subscriptions.may_leave() && subscriptions.own(&news("a", "1")));
    }

    /// World seeds 176897 and 301486: a client was not told that something was lost while its own server listened to another channel, and was
    /// told before that what came behind the gap.
    #[test]
    fn what_its_own_server_listens_to_does_not_rely_on_the_one_for_all() {
        let mut subscriptions = moved(&["a"]);
        let shared =
            |subscriptions: &Subscriptions| subscriptions.shared.keys().map(ToString::to_string).collect::<Vec<_>>();
        subscriptions.listens(["b"].into_iter());
        assert_eq!(shared(&subscriptions), ["a"]);
        subscriptions.is_heard("b");
        assert_eq!(shared(&subscriptions), ["a"]);
        subscriptions.has_moved();
        assert_eq!(shared(&subscriptions), ["a", "b"]);
    }

    /// All channels of a client were looked at whenever it was to be told something, until the one for all listened to the last of them.
    #[test]
    fn each_channel_is_looked_at_once_for_a_word_that_is_owed() {
        let names: Vec<String> = (0..1000).map(|number| format!("c{number:04}")).collect();
        let mut subscriptions = moved(&names.iter().map(|name| &**name).collect::<Vec<_>>());
        subscriptions.knows_losses(1);
        let (looks, heard) = (Cell::new(0), RefCell::new(BTreeSet::new()));
        let is_heard = |name: &str| {
            looks.set(looks.get() + 1);
            heard.borrow().contains(name)
        };
        for name in &names {
            assert!(!subscriptions.takes_word(is_heard), "{name} is not listened to yet");
            heard.borrow_mut().insert(name.as_str());
        }
        assert!(subscriptions.takes_word(is_heard) && !subscriptions.is_owed_word());
        assert!(looks.get() <= 2 * names.len(), "{} looks", looks.get());
    }

    /// What one channel told after a loss overtook the word of it, which waits for the other channels.
    #[test]
    fn nothing_is_told_before_a_word_of_lost_notifications() {
        let mut subscriptions = moved(&["a", "b"]);
        subscriptions.knows_losses(0);
        assert!(!subscriptions.is_owed_word());
        subscriptions.knows_losses(1);
        assert!(subscriptions.is_owed_word(), "by whoever looks at it first");
        subscriptions.shared(&news("a", "behind the gap"));
        assert!(!subscriptions.takes_word(|name| name == "a") && told(&mut subscriptions).is_empty());
        subscriptions.knows_losses(1);
        assert!(subscriptions.takes_word(|_| true));
        assert_eq!(told(&mut subscriptions), ["behind the gap"]);
        subscriptions.knows_losses(1);
        assert!(!subscriptions.is_owed_word(), "that has been told");
        // Who is cut off again is looked at from the first channel on.
        subscriptions.knows_losses(2);
        assert!(!subscriptions.takes_word(|name| name == "a"));
        subscriptions.knows_losses(3);
        assert!(!subscriptions.takes_word(|name| name == "b") && subscriptions.takes_word(|_| true));
    }

    /// World seed 500381: nothing was told to a client that had left one of its channels and begun the next transaction in the same breath.
    #[test]
    fn only_what_is_of_a_channel_in_doubt_waits() {
        let mut subscriptions = moved(&["a", "b"]);
        for (channel, payload) in [("a", "1"), ("b", "2"), ("a", "3")] {
            subscriptions.shared(&news(channel, payload));
        }
        let left = |channel: &str| channel == "a";
        let taken = subscriptions.take_kept(Some(left));
        assert_eq!((taken, subscriptions.kept_count()), (vec![news("b", "2").into()], 2));
        assert_eq!(subscriptions.kept_bytes(), news("a", "1").len() + news("a", "3").len());
        subscriptions.shared(&news("a", "4"));
        assert_eq!((subscriptions.take_kept(Some(left)), subscriptions.kept_count()), (vec![], 3));
        assert_eq!(told(&mut subscriptions), ["1", "3", "4"]);
        subscriptions.shared(&news("a", "5"));
        subscriptions.take_kept(Some(left));
        subscriptions.leaves(|channel| channel == "a");
        assert_eq!((subscriptions.kept_count(), subscriptions.kept_bytes()), (0, 0), "it has left it");
    }

    /// What waits for the mark of its own server is kept like any other, and was not counted: hundreds of megabytes in a second.
    #[test]
    fn what_waits_for_a_mark_is_counted() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_heard("a");
        subscriptions.is_marked(7);
        subscriptions.shared_mark(7);
        (0..3).for_each(|_| subscriptions.shared(&news("a", "late")));
        assert_eq!(subscriptions.kept_bytes(), 3 * news("a", "late").len());
        assert!(!subscriptions.own(&news(MARKS, "7")));
        assert_eq!(
            (subscriptions.kept_bytes(), told(&mut subscriptions).len(), subscriptions.kept_bytes()),
            (3 * news("a", "late").len(), 3, 0)
        );
        subscriptions.is_marked(8);
        subscriptions.shared_mark(8);
        subscriptions.shared(&news("a", "late"));
        subscriptions.is_unmarked();
        assert_eq!(subscriptions.kept_bytes(), 0);
        subscriptions.is_marked(9);
        subscriptions.shared_mark(9);
        subscriptions.shared(&news("a", "late"));
        subscriptions.drop_kept();
        assert!(!subscriptions.own(&news(MARKS, "9")) && told(&mut subscriptions).is_empty());
    }

    #[test]
    fn who_may_have_notified_awaits_its_own_news_if_the_one_for_all_tells_them() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.may_notify();
        assert!(!subscriptions.awaits_own_news(), "its own server tells");
        subscriptions.is_heard("a");
        subscriptions.has_moved();
        assert!(subscriptions.awaits_own_news());
        subscriptions.transaction_ends();
        assert!(!subscriptions.awaits_own_news());
        subscriptions.prepares(b"reads", false);
        subscriptions.prepares(b"tells", true);
        for (statement, may_notify) in [("reads", false), ("tells", true), ("older than its listening", true)] {
            subscriptions.binds(statement.as_bytes());
            assert_eq!(subscriptions.awaits_own_news(), may_notify, "{statement}");
            subscriptions.transaction_ends();
        }
        subscriptions.prepares(b"tells", false);
        subscriptions.binds(b"tells");
        assert!(!subscriptions.awaits_own_news(), "it is another one by now");
        subscriptions.is_unread();
        subscriptions.transaction_ends();
        subscriptions.binds(b"reads");
        assert!(subscriptions.awaits_own_news(), "it may be another one by now");
        subscriptions.leaves(|_| true);
        assert!(!subscriptions.awaits_own_news());
    }

    #[test]
    fn what_nobody_can_listen_to_for_all_stays_with_its_server() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.is_unheard("a");
        assert!(subscriptions.own(&news("a", "1")) && !subscriptions.may_move(["a"].into_iter()));
        assert_eq!(
            subscriptions.listens(["a"].into_iter()),
            [Box::from("a")],
            "it is asked again when it is seen again"
        );
    }
}
