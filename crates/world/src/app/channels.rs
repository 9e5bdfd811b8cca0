//! How an application listens to channels, and notifies.
//!
//! Always true: what it notifies carries a nonce of its own; who leaves a channel says nothing more before that is answered.
//! Not here: what it must be told of that (`board`).

use std::time::Duration;

use wire::backend::{self, TxStatus};
use wire::notice::Notice;

use super::belief::Request;
use super::speaker::Speaker;
use super::state::{App, News};
use crate::checks::board::{Note, Word};
use crate::checks::witness::{Charge, Witness};
use crate::postgres::sql::{Nonce, Verb};

impl Speaker<'_> {
    /// Whether it listens before it says anything else, as drivers do.
    pub(super) fn wants_to_join(&mut self) -> bool {
        let may_join = self.habits.listens && !self.belief.has_listened && self.belief.tx == TxStatus::Idle;
        may_join && self.dice.chance(700)
    }

    /// Listens to a channel in PostgreSQL's own words.
    pub(super) fn join(&mut self) -> Request {
        let channel = self.channel();
        let mut request = self.query(Verb::Join { channel: channel.clone() });
        request.last = *self.next;
        request.joins = Some(channel);
        request
    }

    /// Listens to a channel, or leaves one, or all.
    pub(super) fn listen_or_leave(&mut self) -> Request {
        if self.belief.tx == TxStatus::Idle && self.dice.chance(400) {
            return self.join();
        }
        let channel = self.channel();
        let verb = match self.dice.among(0..=9) {
            _ if !self.belief.is_answered => Verb::Listen { channel },
            0 => Verb::Unlisten { channel: None },
            1 | 2 => Verb::Unlisten { channel: Some(channel) },
            _ => Verb::Listen { channel },
        };
        self.word(verb)
    }

    /// Notifies whoever listens; now and then of what it has notified in its transaction already, which is the same then.
    pub(super) fn notify(&mut self) -> Request {
        let channel = self.channel();
        let is_within = self.belief.tx == TxStatus::Open;
        let again = self.belief.notified.filter(|_| is_within && self.dice.chance(200));
        let payload = again.unwrap_or(Nonce { app: self.app, number: *self.next + 1 });
        self.word(Verb::Notify { channel, payload })
    }

    fn channel(&mut self) -> String {
        self.dice.pick(&CHANNELS).to_owned()
    }
}

impl App {
    /// It comes, or has gone: it listens to nothing.
    pub(super) fn begin_to_listen(&mut self, witness: &mut Witness) {
        self.news = News::Between;
        if self.habits.listens {
            witness.board.borrow_mut().begins(self.number, self.next);
        }
    }

    /// What it says from here on is said: what it listens to by that it may be told of.
    pub(super) fn says(&self, request: &Request, witness: &Witness) {
        if let Some(channel) = &request.joins {
            witness.board.borrow_mut().says_join(request.nonce, &self.person.database, channel);
        }
    }

    /// It is told that it listens.
    pub(super) fn is_told_to_listen(&self, nonce: Nonce, witness: &mut Witness) {
        let joined = witness.board.borrow_mut().is_joined(nonce);
        match joined {
            Ok(true) => witness.count("listened without a server"),
            Ok(false) => witness.count("listened by a server"),
            Err(text) => self.accuse(witness, Charge::ForeignBytes, &format!("{nonce} {text}")),
        }
    }

    /// Whether it has not been told of all that it must be told of, and has not waited for too long. Nor who keeps a server: whoever is to
    /// tell may wait for that.
    pub(super) fn is_owed_news(&self, witness: &Witness) -> bool {
        let board = witness.board.borrow();
        let listens = self.habits.listens && !self.belief.holds;
        listens && board.owed(self.number).is_some_and(|(_, since)| witness.now.since(since) < WAITS)
    }

    /// A message has come: notifications are not told in the middle of an answer, nor of a transaction.
    pub(super) fn mind_news(&mut self, kind: u8, body: &[u8], witness: &mut Witness) {
        let status = TxStatus::parse(body).filter(|_| kind == backend::READY_FOR_QUERY);
        match kind {
            // The pooler answers these itself where a server has the statement already, and that is told what it is told meanwhile.
            backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE if self.news == News::Between => return,
            backend::NOTIFICATION_RESPONSE | backend::NOTICE_RESPONSE | backend::PARAMETER_STATUS => return,
            backend::ERROR_RESPONSE if Notice::parse(body).is_fatal() => {}
            _ if self.news == News::ToldWithin && status != Some(TxStatus::Idle) => {
                self.accuse(witness, Charge::ForeignBytes, "it is told of a notification in the middle of something");
            }
            _ => {}
        }
        self.news = if status == Some(TxStatus::Idle) { News::Between } else { News::Within };
    }

    /// Its transaction has ended: it has been told what that has notified, unless something is wrong with whoever listens for all.
    pub(super) fn mind_own_news(&self, witness: &mut Witness) {
        if !self.habits.listens || self.belief.is_leaving {
            return;
        }
        let board = witness.board.clone();
        let board = board.borrow();
        let Some((note, is_excused)) = board.own(self.number, witness.now) else { return };
        witness.count("own notifications overtaken");
        if !is_excused {
            self.accuse(witness, Charge::NotServed, &format!("its transaction has ended, and it is not told {note:?}"));
        }
    }

    /// It is told of a notification.
    pub(super) fn is_notified(&mut self, body: &[u8], witness: &mut Witness) {
        let mut texts = body.get(4..).unwrap_or_default().split(|&byte| byte == 0);
        let mut text = || String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
        let note = Note { channel: text(), payload: text() };
        if note.channel == LOST_CHANNEL {
            return self.is_told_of_loss(Word::Notification, witness);
        }
        if !CHANNELS.contains(&&*note.channel) {
            // Somebody has joined an answer to it with this.
            if Nonce::read(&note.payload).is_none_or(|nonce| nonce.app != self.number) {
                self.accuse(witness, Charge::ForeignBytes, &format!("it is told {note:?}"));
            }
            return;
        }
        witness.count("notifications told");
        if self.news == News::Within {
            self.news = News::ToldWithin;
        }
        let board = witness.board.clone();
        let mut board = board.borrow_mut();
        if board.is_ahead(self.number, &note) {
            witness.count("notifications told before those of other channels");
        }
        if let Err((charge, text)) = board.told(self.number, &note) {
            self.accuse(witness, charge, &text);
        }
    }

    /// It is told that it may have missed something.
    pub(super) fn is_told_of_loss(&mut self, word: Word, witness: &mut Witness) {
        witness.count("words of lost notifications");
        let board = witness.board.clone();
        let mut board = board.borrow_mut();
        if board.word_of_loss != Some(word) {
            self.accuse(witness, Charge::NoReason, &format!("it is told of a loss by a {word:?}"));
        }
        board.may_have_lost(self.number);
    }
}

/// Longer than anybody may wait for a notification when the world has healed.
const WAITS: Duration = Duration::from_secs(100);
/// Everybody has the same.
const CHANNELS: [&str; 3] = ["channel_a", "channel_b", "channel_c"];
/// What `notify_lost_channel` is, if nobody says otherwise.
const LOST_CHANNEL: &str = "trunkline_lost";
