//! What a client listens to without a server of its own: one session per database listens for all.
//!
//! Always true: from the moment at which a client has been told that it listens, each notification reaches it from its own server or
//! from the one that listens for all, in order and once; none is lost while the one takes over from the other. Two that are the same
//! to the byte and come in that moment may be taken for one.
//! Not here: who listens for all (`worker::listen`), whether a client can be told now.

use std::collections::{BTreeMap, VecDeque};

/// What one client listens to.
#[derive(Debug, Default)]
pub struct Ear {
    channels: BTreeMap<Box<str>, Hearing>,
    /// What its own server has told it while the other one takes over.
    told: Vec<Box<[u8]>>,
    /// What the other one has told meanwhile.
    late: Vec<Box<[u8]>>,
    /// What it is to be told as soon as it can be.
    kept: VecDeque<Box<[u8]>>,
    kept_bytes: usize,
    /// Something may have been lost, and it has not been told so.
    owes_word: bool,
}

/// Who tells a client of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hearing {
    /// Its own server; the one for all does not listen yet.
    Own,
    /// Its own server, and the one for all listens too.
    Both,
    /// The one for all.
    Shared,
}

impl Ear {
    /// Its own server listens to these. Those are told that it has not listened to before.
    pub fn listens<'a>(&mut self, channels: impl Iterator<Item = &'a str>) -> Vec<Box<str>> {
        let mut news = Vec::new();
        for channel in channels {
            if !self.channels.contains_key(channel) {
                self.channels.insert(channel.into(), Hearing::Own);
                news.push(channel.into());
            }
        }
        news
    }

    /// The one for all listens to a channel.
    pub fn is_heard(&mut self, channel: &str) {
        if let Some(hearing @ Hearing::Own) = self.channels.get_mut(channel) {
            *hearing = Hearing::Both;
        }
    }

    /// The one for all cannot listen to a channel: its own server goes on. Whether nobody listens to it then.
    pub fn is_unheard(&mut self, channel: &str) -> bool {
        let hearing = self.channels.remove(channel);
        self.settle();
        hearing == Some(Hearing::Shared)
    }

    /// Whether the one for all listens to these.
    pub fn may_move<'a>(&self, mut channels: impl Iterator<Item = &'a str>) -> bool {
        channels.all(|channel| matches!(self.channels.get(channel), Some(Hearing::Both | Hearing::Shared)))
    }

    /// Its own server does not listen any more. What that has not told is kept. Whether something may have been lost, since the one
    /// for all has gone in the meantime.
    pub fn has_moved(&mut self) -> bool {
        let is_lost = self.channels.values().any(|hearing| *hearing == Hearing::Own);
        self.channels.values_mut().for_each(|hearing| *hearing = Hearing::Shared);
        self.settle();
        is_lost
    }

    /// If nothing is being taken over any more, what has not been told is kept.
    fn settle(&mut self) {
        if self.channels.values().all(|hearing| *hearing == Hearing::Shared) {
            let mut told = std::mem::take(&mut self.told);
            for body in std::mem::take(&mut self.late) {
                match told.iter().position(|known| *known == body) {
                    Some(place) => drop(told.remove(place)),
                    None => self.keep(body),
                }
            }
        }
    }

    /// Nobody listens for all any more: whether this client may have lost something. Where its own server still listens it has not.
    pub fn is_cut_off(&mut self) -> bool {
        self.late.clear();
        for hearing in self.channels.values_mut().filter(|hearing| **hearing == Hearing::Both) {
            *hearing = Hearing::Own;
        }
        self.is_shared()
    }

    /// These were listened to for it by another process.
    pub fn comes_with(&mut self, channels: impl Iterator<Item = Box<str>>) {
        self.channels.extend(channels.map(|channel| (channel, Hearing::Shared)));
    }

    /// It is to be told that something may have been lost.
    pub fn owes_word(&mut self) {
        self.owes_word = true;
    }

    /// Whether that is so, and has not been done.
    #[must_use]
    pub fn is_owed_word(&self) -> bool {
        self.owes_word
    }

    /// Whether it is to be told so now.
    pub fn takes_word(&mut self) -> bool {
        std::mem::take(&mut self.owes_word)
    }

    /// It listens no longer to a channel, or to none. Those are told that it has listened to.
    pub fn leaves(&mut self, channel: Option<&str>) -> Vec<Box<str>> {
        let left = match channel {
            Some(channel) => self.channels.remove_entry(channel).into_iter().map(|(name, _)| name).collect(),
            None => std::mem::take(&mut self.channels).into_keys().collect(),
        };
        self.settle();
        left
    }

    /// Its own server tells of a notification; whether it is to be told.
    pub fn own(&mut self, body: &[u8]) -> bool {
        let hearing = channel_of(body).and_then(|channel| self.channels.get(channel));
        if matches!(hearing, Some(Hearing::Own | Hearing::Both)) {
            self.told.push(body.into());
        }
        hearing != Some(&Hearing::Shared)
    }

    /// The one for all tells of a notification.
    pub fn shared(&mut self, body: &[u8]) {
        match channel_of(body).and_then(|channel| self.channels.get(channel)) {
            Some(Hearing::Shared) => self.keep(body.into()),
            Some(Hearing::Both) => self.late.push(body.into()),
            Some(Hearing::Own) | None => {}
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

    /// The oldest that is kept.
    pub fn take_kept(&mut self) -> Option<Box<[u8]>> {
        let body = self.kept.pop_front()?;
        self.kept_bytes -= body.len();
        Some(body)
    }

    /// All that is kept is given up.
    pub fn drop_kept(&mut self) {
        self.kept.clear();
        self.kept_bytes = 0;
    }

    /// Whether it relies on the one for all.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.channels.values().any(|hearing| *hearing == Hearing::Shared)
    }

    /// Whether it listens to nothing, and is owed nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.channels.is_empty() && self.kept.is_empty()
    }

    /// The channels that it listens to.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.keys().map(|name| &**name)
    }
}

/// The channel of a `NotificationResponse`.
#[must_use]
pub fn channel_of(body: &[u8]) -> Option<&str> {
    let name = body.get(4..)?;
    std::str::from_utf8(&name[..name.iter().position(|&byte| byte == 0)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(channel: &str, payload: &str) -> Vec<u8> {
        format!("\0\0\0\x07{channel}\0{payload}\0").into_bytes()
    }

    fn told(ear: &mut Ear) -> Vec<String> {
        let payload = |body: Box<[u8]>| {
            let text = String::from_utf8_lossy(&body[4..]).into_owned();
            text.split('\0').nth(1).unwrap_or_default().to_owned()
        };
        std::iter::from_fn(|| ear.take_kept()).map(payload).collect()
    }

    fn moved(channels: &[&str]) -> Ear {
        let mut ear = Ear::default();
        ear.listens(channels.iter().copied());
        channels.iter().for_each(|channel| ear.is_heard(channel));
        ear.has_moved();
        ear
    }

    #[test]
    fn while_one_takes_over_from_the_other_nothing_is_lost_or_told_twice() {
        let mut ear = Ear::default();
        assert_eq!(ear.listens(["a"].into_iter()), [Box::from("a")]);
        assert!(ear.own(&news("a", "1")));
        ear.shared(&news("a", "never: it does not listen yet"));
        assert!(!ear.may_move(["a"].into_iter()));
        ear.is_heard("a");
        assert!(ear.may_move(["a"].into_iter()) && !ear.may_move(["a", "b"].into_iter()));
        ear.shared(&news("a", "2"));
        assert!(ear.own(&news("a", "2")));
        ear.shared(&news("a", "3"));
        assert!(told(&mut ear).is_empty() && !ear.is_shared());
        ear.has_moved();
        assert_eq!(told(&mut ear), ["3"], "its own server had told the others");
        assert!(ear.is_shared());
        ear.shared(&news("a", "4"));
        ear.shared(&news("b", "not its own"));
        assert_eq!(ear.kept_bytes(), news("a", "4").len());
        assert_eq!(told(&mut ear), ["4"]);
        assert_eq!(ear.kept_bytes(), 0);
    }

    #[test]
    fn who_listens_again_is_told_once() {
        let mut ear = moved(&["a"]);
        assert!(ear.listens(["a"].into_iter()).is_empty(), "nobody need be asked again");
        assert!(!ear.own(&news("a", "1")), "the other one tells it");
        ear.shared(&news("a", "1"));
        assert_eq!(told(&mut ear), ["1"]);
    }

    #[test]
    fn the_same_words_twice_are_two_notifications() {
        let mut ear = moved(&["a"]);
        ear.shared(&news("a", "x"));
        ear.shared(&news("a", "x"));
        assert_eq!(told(&mut ear), ["x", "x"]);
    }

    #[test]
    fn who_has_left_a_channel_is_told_no_more_of_it() {
        let mut ear = moved(&["a", "b"]);
        assert_eq!(ear.leaves(Some("a")), [Box::from("a")]);
        assert!(ear.leaves(Some("a")).is_empty());
        ear.shared(&news("a", "1"));
        ear.shared(&news("b", "2"));
        assert_eq!(told(&mut ear), ["2"]);
        assert_eq!(ear.leaves(None), [Box::from("b")]);
        assert!(ear.is_idle());
    }

    #[test]
    fn who_is_cut_off_while_its_own_server_listens_has_lost_nothing() {
        let mut ear = Ear::default();
        ear.listens(["a"].into_iter());
        ear.is_heard("a");
        ear.shared(&news("a", "1"));
        assert!(!ear.is_cut_off() && !ear.may_move(["a"].into_iter()));
        assert!(ear.own(&news("a", "1")));
        ear.is_heard("a");
        assert!(!ear.has_moved());
        assert!(told(&mut ear).is_empty(), "it was told by its own");
        assert!(ear.is_cut_off());
        ear.owes_word();
        assert!(ear.takes_word() && !ear.takes_word());
    }

    #[test]
    fn who_is_cut_off_while_its_own_server_leaves_may_have_lost_something() {
        let mut ear = Ear::default();
        ear.listens(["a"].into_iter());
        ear.is_heard("a");
        // The server is told to leave here, and the one for all ends before it has.
        assert!(!ear.is_cut_off());
        assert!(ear.has_moved() && ear.is_shared());
    }

    #[test]
    fn who_has_nobody_else_is_left_alone_with_a_channel_that_cannot_be_heard() {
        let mut ear = Ear::default();
        ear.comes_with([Box::from("a")].into_iter());
        ear.listens(["b"].into_iter());
        assert!(ear.is_unheard("a") && !ear.is_unheard("b") && ear.is_idle());
    }

    #[test]
    fn what_nobody_can_listen_to_for_all_stays_with_its_server() {
        let mut ear = Ear::default();
        ear.listens(["a"].into_iter());
        ear.is_unheard("a");
        assert!(ear.own(&news("a", "1")) && !ear.may_move(["a"].into_iter()));
        assert_eq!(ear.listens(["a"].into_iter()), [Box::from("a")], "it is asked again when it is seen again");
    }
}
