//! The channels to which a client listens without a server of its own: one session per database, the listener, listens
//! for all its clients.
//!
//! Always true: once a client has been told that it listens, each notification reaches it exactly once, from its own
//! server or from the listener, and in order within its channel. The client's own server delivers what comes before a
//! mark that it sends itself (`NOTIFY`), the listener what comes behind it: PostgreSQL delivers the same notifications in
//! the same order to every session (`commands/async.c`).
//! Not here: the listener (`worker::notify::listen`), whether a client can be sent notifications now.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Included, Unbounded};

use wire::backend;

use crate::planted::{is_owed_word, is_told_at_once};

/// The channel of the marks. They separate what the session that leaves a channel has delivered from what the listener
/// delivers.
pub const MARKS: &str = "trunkline takes over";

/// The channels of one client. Each channel is in one of the first three tables.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// The client's own server delivers these; the listener does not listen to them yet.
    own: BTreeSet<Box<str>>,
    /// The client's own server delivers these up to the mark, and the listener, which listens already, from there on.
    both: BTreeSet<Box<str>>,
    /// The listener delivers these: at once, or once it has delivered this mark.
    shared: BTreeMap<Box<str>, Option<u64>>,
    /// The mark at which the listener takes over from the client's own server.
    mark: Option<Mark>,
    /// What the listener has delivered behind the mark, before the client's own server has delivered the mark.
    late: Vec<Box<[u8]>>,
    /// Notifications that the client gets as soon as possible.
    kept: VecDeque<Box<[u8]>>,
    /// Earlier notifications, of channels that the client may have left: each is looked at once, however often
    /// [`Self::take_kept`] is called.
    doubted: Vec<Box<[u8]>>,
    /// The bytes of all three.
    kept_bytes: usize,
    /// Notifications may have been lost, and the client has not been told, which waits until the listener listens to all
    /// channels left to it. It listens to all channels before this one, which need not be looked at again.
    owed: Option<Box<str>>,
    /// How many losses of the listener have been taken into account here.
    losses: u64,
    /// What the client has sent since its last transaction may have notified: the client gets these notifications before
    /// the end of its transaction.
    may_have_notified: bool,
    /// Statements that the client has prepared while it listened, by name, and whether each may notify. Any other may.
    prepared: BTreeMap<Box<[u8]>, bool>,
}

/// A mark that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    number: u64,
    /// The client's own server has delivered it.
    own: bool,
    /// The listener has delivered it.
    shared: bool,
}

impl Subscriptions {
    /// For a client in whose database the listener has been lost this many times.
    #[must_use]
    pub fn new(losses: u64) -> Self {
        Self { losses, ..Self::default() }
    }

    /// Takes into account how often the listener has been lost by now. A client that may have lost notifications is owed
    /// a word from then on, before anything else is done with its channels.
    pub fn knows_losses(&mut self, losses: u64) {
        if std::mem::replace(&mut self.losses, losses) != losses && is_owed_word(self.lose_listener()) {
            self.owes_word();
        }
    }

    /// The client's own server listens to these. Returns those to which the client did not listen before.
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

    /// The listener listens to a channel.
    pub fn listener_listens(&mut self, channel: &str) {
        self.both.extend(self.own.take(channel));
    }

    /// Whether the client's own server delivers a channel to which the listener does not listen yet.
    #[must_use]
    pub fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// The listener cannot listen to a channel, or no longer does: the client's own server goes on with it. Returns true
    /// where that is impossible, because the channel was left to the listener. It stays so, since the client may have got
    /// already what its own server still delivers.
    pub fn listener_leaves(&mut self, channel: &str) -> bool {
        let is_relied_on = self.relies_on(channel);
        if !is_relied_on && !self.own.remove(channel) && self.both.remove(channel) {
            self.void_mark();
        }
        is_relied_on
    }

    /// Whether a channel has been left to the listener.
    #[must_use]
    pub fn relies_on(&self, channel: &str) -> bool {
        self.shared.contains_key(channel) || self.both.contains(channel) && self.may_leave()
    }

    /// Whether the listener listens to all of these.
    pub fn may_move<'a>(&self, mut channels: impl Iterator<Item = &'a str>) -> bool {
        channels.all(|channel| self.both.contains(channel) || self.shared.contains_key(channel))
    }

    /// The client's own server sends a mark with this number.
    pub fn sends_mark(&mut self, number: u64) {
        self.forget_late();
        self.mark = Some(Mark { number, own: false, shared: false });
    }

    /// Whether the client's own server has delivered the mark.
    #[must_use]
    pub fn may_leave(&self) -> bool {
        self.mark.is_some_and(|mark| mark.own)
    }

    /// The mark is void: the client's own server goes on.
    pub fn void_mark(&mut self) {
        self.mark = None;
        self.forget_late();
    }

    /// The client's own server does not listen any more. Returns whether something may have been lost, because the
    /// listener has gone meanwhile.
    pub fn move_to_listener(&mut self) -> bool {
        let is_lost = self.has_own();
        let awaited = self.mark.take().filter(|mark| !mark.shared).map(|mark| mark.number);
        let moved = std::mem::take(&mut self.own).into_iter().chain(std::mem::take(&mut self.both));
        self.shared.extend(moved.map(|channel| (channel, awaited)));
        is_lost
    }

    /// The listener has delivered a mark.
    pub fn shared_mark(&mut self, number: u64) {
        if let Some(mark) = self.mark.as_mut().filter(|mark| mark.number == number) {
            mark.shared = true;
        }
        self.shared.values_mut().for_each(|awaited| *awaited = awaited.filter(|awaited| *awaited != number));
    }

    /// The listener is gone. Returns whether this client may have lost something, which is not so where its own server
    /// has delivered everything.
    fn lose_listener(&mut self) -> bool {
        self.forget_late();
        let was_passed = self.mark.take().is_some_and(|mark| mark.own);
        self.own.append(&mut self.both);
        self.shared.values_mut().for_each(|awaited| *awaited = None);
        was_passed || self.is_shared()
    }

    /// The client listened to these through the listener of another process.
    pub fn comes_with(&mut self, channels: impl Iterator<Item = Box<str>>) {
        self.shared.extend(channels.map(|channel| (channel, None)));
    }

    /// The client must be told that notifications may have been lost.
    pub fn owes_word(&mut self) {
        self.owed = Some(Box::default());
    }

    /// Whether the client must be told so, and has not been.
    #[must_use]
    pub fn is_owed_word(&self) -> bool {
        self.owed.is_some()
    }

    /// Whether the client must be told so now, because the listener listens again to all channels left to it; it counts
    /// as told then.
    pub fn takes_word(&mut self, is_heard: impl Fn(&str) -> bool) -> bool {
        let Some(from) = &mut self.owed else { return false };
        let range = (Included(&**from), Unbounded);
        let unheard = self.shared.range::<str, _>(range).map(|(name, _)| name).find(|name| !is_heard(name));
        match unheard {
            Some(name) if name == from => {}
            Some(name) => from.clone_from(name),
            None => self.owed = None,
        }
        self.owed.is_none()
    }

    /// The client no longer listens to the channels for which `is_left` is true, and does not get the notifications of
    /// these that wait, as with PostgreSQL. Returns the channels to which it had listened.
    pub fn leaves(&mut self, is_left: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        let left: BTreeSet<Box<str>> = self.channels().filter(|channel| is_left(channel)).map(Box::from).collect();
        if left.is_empty() {
            return Vec::new();
        }
        self.own.retain(|channel| !left.contains(channel));
        self.both.retain(|channel| !left.contains(channel));
        self.shared.retain(|channel, _| !left.contains(channel));
        if self.channel_count() == 0 {
            self.void_mark();
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

    /// The client's own server delivers a notification; returns whether the client gets it.
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

    /// The listener delivers a notification.
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
            // The client's own server delivers it, or has delivered it.
            None => {}
        }
    }

    fn keep(&mut self, body: Box<[u8]>) {
        self.kept_bytes += body.len();
        self.kept.push_back(body);
    }

    /// The bytes of all notifications that wait.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// How many notifications wait to be sent.
    #[must_use]
    pub fn kept_count(&self) -> usize {
        self.kept.len() + self.doubted.len()
    }

    /// Takes the notifications that wait, the oldest first; none while the client must be told of a loss. Those of
    /// channels that the client `may_have_left` wait until that is known.
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

    /// Drops all notifications that wait.
    pub fn drop_kept(&mut self) {
        self.kept.clear();
        self.doubted.clear();
        self.late.clear();
        self.kept_bytes = 0;
    }

    /// The client sends something that may notify.
    pub fn note_notify(&mut self) {
        self.may_have_notified = true;
    }

    /// The client prepares a statement of this name.
    pub fn prepares(&mut self, statement: &[u8], may_notify: bool) {
        if let Some(known) = self.prepared.get_mut(statement) {
            *known = may_notify;
        } else if self.prepared.len() < PREPARED_MAX {
            self.prepared.insert(statement.into(), may_notify);
        }
    }

    /// The client binds a statement of this name, and so may execute it.
    pub fn binds(&mut self, statement: &[u8]) {
        self.may_have_notified |= self.prepared.get(statement) != Some(&false);
    }

    /// The client sends something that is not read at once: it may notify, and may prepare any statement.
    pub fn sends_unread(&mut self) {
        self.may_have_notified = true;
        self.prepared.clear();
    }

    /// Whether the end of a transaction is reported to the client only after the listener has delivered what the
    /// transaction notified. On channels of the client's own server, that server takes care of the order.
    #[must_use]
    pub fn awaits_own_news(&self) -> bool {
        self.may_have_notified && self.is_shared()
    }

    /// Everything that the client has sent is answered, and its transaction has ended.
    pub fn transaction_ends(&mut self) {
        self.may_have_notified = false;
    }

    /// Whether the client relies on the listener.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Whether the client listens to nothing, and no notification waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.channel_count() == 0 && self.kept_count() == 0
    }

    /// Whether the client listens to a channel.
    #[must_use]
    pub fn has(&self, channel: &str) -> bool {
        self.own.contains(channel) || self.both.contains(channel) || self.shared.contains_key(channel)
    }

    /// The channels to which the client listens.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.own.iter().chain(&self.both).chain(self.shared.keys()).map(|name| &**name)
    }

    /// How many channels these are.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.own.len() + self.both.len() + self.shared.len()
    }
}

/// The most statements of one client that are known; any other counts as one that may notify.
const PREPARED_MAX: usize = 1000;

/// The channel of a `NotificationResponse`.
#[must_use]
pub fn channel_of(body: &[u8]) -> Option<&str> {
    backend::c_string(body.get(4..)?).map(|(name, _)| name)
}

/// The number of a mark, from a `NotificationResponse` on the channel [`MARKS`].
#[must_use]
pub fn mark_of(body: &[u8]) -> Option<u64> {
    let (payload, _) = backend::c_string(body.get(4 + MARKS.len() + 1..)?)?;
    payload.parse().ok()
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
        subscriptions.listener_listens("c");
        subscriptions.sends_mark(2);
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
        subscriptions.listener_listens("c");
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
        channels.iter().for_each(|channel| subscriptions.listener_listens(channel));
        subscriptions.move_to_listener();
        subscriptions
    }

    #[test]
    fn while_one_takes_over_from_the_other_nothing_is_lost_or_told_twice() {
        // The queue is 1 2 2 mark 4 5; the listener may deliver each before or after the client's own server does.
        let queue = [news("a", "1"), news("a", "2"), news("a", "2"), news(MARKS, "77"), news("a", "4"), news("a", "5")];
        for lead in 0..=queue.len() {
            for leaves_at in 4..=queue.len() {
                let mut subscriptions = Subscriptions::default();
                assert_eq!(subscriptions.listens(["a"].into_iter()), [Box::from("a")]);
                subscriptions.shared(&news("a", "never: it does not listen yet"));
                assert!(!subscriptions.may_move(["a"].into_iter()));
                subscriptions.listener_listens("a");
                assert!(subscriptions.may_move(["a"].into_iter()) && !subscriptions.may_move(["a", "b"].into_iter()));
                subscriptions.sends_mark(77);
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
                assert!(!subscriptions.move_to_listener() && subscriptions.is_shared());
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
        subscriptions.listener_listens("a");
        subscriptions.sends_mark(1);
        subscriptions.shared_mark(1);
        subscriptions.shared(&news("a", "1"));
        assert!(!subscriptions.lose_listener() && !subscriptions.may_move(["a"].into_iter()));
        assert!(subscriptions.own(&news("a", "1")));
        subscriptions.listener_listens("a");
        subscriptions.sends_mark(2);
        subscriptions.own(&news(MARKS, "1"));
        assert!(!subscriptions.may_leave());
        subscriptions.own(&news(MARKS, "2"));
        assert!(subscriptions.may_leave() && !subscriptions.move_to_listener());
        assert!(told(&mut subscriptions).is_empty(), "it was told by its own");
        subscriptions.shared(&news("a", "before the mark"));
        assert!(told(&mut subscriptions).is_empty() && subscriptions.lose_listener());
        subscriptions.owes_word();
        assert!(subscriptions.takes_word(|_| true) && !subscriptions.takes_word(|_| true));
    }

    #[test]
    fn who_is_cut_off_behind_the_mark_may_have_lost_something() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.listener_listens("a");
        subscriptions.sends_mark(1);
        subscriptions.own(&news(MARKS, "1"));
        assert!(!subscriptions.own(&news("a", "left to the one for all")));
        assert!(subscriptions.lose_listener());
    }

    #[test]
    fn without_a_mark_its_own_server_goes_on() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.listener_listens("a");
        subscriptions.sends_mark(1);
        subscriptions.shared_mark(1);
        subscriptions.shared(&news("a", "1"));
        subscriptions.void_mark();
        assert!(subscriptions.own(&news("a", "1")) && told(&mut subscriptions).is_empty());
    }

    #[test]
    fn who_is_cut_off_while_its_own_server_leaves_may_have_lost_something() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.listener_listens("a");
        // The server is told to leave here, and the listener ends before the server has left.
        assert!(!subscriptions.lose_listener());
        assert!(subscriptions.move_to_listener() && subscriptions.is_shared());
    }

    #[test]
    fn who_has_nobody_else_is_left_alone_with_a_channel_that_cannot_be_heard() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.comes_with([Box::from("a")].into_iter());
        subscriptions.listens(["b"].into_iter());
        assert!(subscriptions.listener_leaves("a") && !subscriptions.listener_leaves("b"));
        assert_eq!(subscriptions.channels().collect::<Vec<_>>(), ["a"], "until it is disconnected");
    }

    /// World seed 40155190: a client that had sent LISTEN again had got a notification from the listener. Then a reload
    /// left no room for the listener, and the client got the same notification from its own server, behind a withheld
    /// ReadyForQuery, before it was disconnected.
    #[test]
    fn who_loses_the_one_for_all_is_not_told_again_by_its_own_server() {
        let mut subscriptions = moved(&["a"]);
        subscriptions.listens(["a"].into_iter());
        subscriptions.shared(&news("a", "1"));
        assert_eq!(told(&mut subscriptions), ["1"]);
        assert!(subscriptions.listener_leaves("a"));
        assert!(!subscriptions.own(&news("a", "1")));
    }

    #[test]
    fn who_loses_the_one_for_all_behind_the_mark_has_nobody_else() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.listener_listens("a");
        subscriptions.sends_mark(1);
        subscriptions.own(&news(MARKS, "1"));
        assert!(subscriptions.listener_leaves("a"), "its own server is told to leave the channel");
    }

    #[test]
    fn who_loses_the_one_for_all_before_the_mark_keeps_its_server() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.listener_listens("a");
        subscriptions.sends_mark(1);
        assert!(!subscriptions.listener_leaves("a"));
        subscriptions.own(&news(MARKS, "1"));
        assert!(!subscriptions.may_leave() && subscriptions.own(&news("a", "1")));
    }

    /// World seeds 176897 and 301486: a client was not told of a loss while its own server listened to another channel,
    /// and got notifications from behind the gap before it was told.
    #[test]
    fn what_its_own_server_listens_to_does_not_rely_on_the_one_for_all() {
        let mut subscriptions = moved(&["a"]);
        let shared =
            |subscriptions: &Subscriptions| subscriptions.shared.keys().map(ToString::to_string).collect::<Vec<_>>();
        subscriptions.listens(["b"].into_iter());
        assert_eq!(shared(&subscriptions), ["a"]);
        subscriptions.listener_listens("b");
        assert_eq!(shared(&subscriptions), ["a"]);
        subscriptions.move_to_listener();
        assert_eq!(shared(&subscriptions), ["a", "b"]);
    }

    /// Regression: all channels of a client were looked at for each notification, until the listener listened to the last
    /// of them.
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

    /// Regression: the notification of one channel after a loss overtook the word about the loss, which waited for the
    /// other channels.
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
        // After the next loss, all channels are looked at again from the first one on.
        subscriptions.knows_losses(2);
        assert!(!subscriptions.takes_word(|name| name == "a"));
        subscriptions.knows_losses(3);
        assert!(!subscriptions.takes_word(|name| name == "b") && subscriptions.takes_word(|_| true));
    }

    /// World seed 500381: a client that had left one of its channels and had pipelined the next transaction got no
    /// notifications.
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

    /// Regression: notifications that waited for the mark of the client's own server were not counted: hundreds of
    /// megabytes in a second.
    #[test]
    fn what_waits_for_a_mark_is_counted() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.listener_listens("a");
        subscriptions.sends_mark(7);
        subscriptions.shared_mark(7);
        (0..3).for_each(|_| subscriptions.shared(&news("a", "late")));
        assert_eq!(subscriptions.kept_bytes(), 3 * news("a", "late").len());
        assert!(!subscriptions.own(&news(MARKS, "7")));
        assert_eq!(
            (subscriptions.kept_bytes(), told(&mut subscriptions).len(), subscriptions.kept_bytes()),
            (3 * news("a", "late").len(), 3, 0)
        );
        subscriptions.sends_mark(8);
        subscriptions.shared_mark(8);
        subscriptions.shared(&news("a", "late"));
        subscriptions.void_mark();
        assert_eq!(subscriptions.kept_bytes(), 0);
        subscriptions.sends_mark(9);
        subscriptions.shared_mark(9);
        subscriptions.shared(&news("a", "late"));
        subscriptions.drop_kept();
        assert!(!subscriptions.own(&news(MARKS, "9")) && told(&mut subscriptions).is_empty());
    }

    #[test]
    fn who_may_have_notified_awaits_its_own_news_if_the_one_for_all_tells_them() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.listens(["a"].into_iter());
        subscriptions.note_notify();
        assert!(!subscriptions.awaits_own_news(), "its own server tells");
        subscriptions.listener_listens("a");
        subscriptions.move_to_listener();
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
        subscriptions.sends_unread();
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
        subscriptions.listener_leaves("a");
        assert!(subscriptions.own(&news("a", "1")) && !subscriptions.may_move(["a"].into_iter()));
        assert_eq!(
            subscriptions.listens(["a"].into_iter()),
            [Box::from("a")],
            "it is asked again when it is seen again"
        );
    }
}
