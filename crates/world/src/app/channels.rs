//! How an application uses LISTEN, UNLISTEN and NOTIFY.
//!
//! Always true: each payload is a nonce of its own; an application that sends UNLISTEN sends nothing more before the
//! answer.
//! Not here: which notifications the application must receive (`board`).

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
    /// Returns whether the application sends LISTEN before anything else, as drivers do.
    pub(super) fn wants_to_join(&mut self) -> bool {
        let may_join = self.habits.listens && !self.belief.has_listened && self.belief.tx == TxStatus::Idle;
        may_join && self.dice.chance(700)
    }

    /// A plain LISTEN, which may be answered without a server.
    pub(super) fn join(&mut self) -> Request {
        let channel = self.channel();
        let mut request = self.query(Verb::Join { channel: channel.clone() });
        request.last = *self.next;
        request.joins = Some(channel);
        request
    }

    /// LISTEN, or UNLISTEN of one channel or of all.
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

    /// NOTIFY; within a transaction sometimes with the payload of the previous NOTIFY, which PostgreSQL may fold into
    /// one.
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
    /// The application connects or has left: it listens to no channel.
    pub(super) fn begin_to_listen(&mut self, witness: &mut Witness) {
        self.news = News::Between;
        if self.habits.listens {
            witness.board.borrow_mut().begins(self.number, self.next);
        }
    }

    /// Tells the board of a plain LISTEN as it is sent: notifications committed from here on may be delivered.
    pub(super) fn says(&self, request: &Request, witness: &Witness) {
        if let Some(channel) = &request.joins {
            witness.board.borrow_mut().says_join(request.nonce, &self.person.database, channel);
        }
    }

    /// The application is told that it listens: the answer to its LISTEN has arrived.
    pub(super) fn hear_listening(&self, nonce: Nonce, witness: &mut Witness) {
        let joined = witness.board.borrow_mut().is_joined(nonce);
        match joined {
            Ok(true) => witness.count("listened without a server"),
            Ok(false) => witness.count("listened by a server"),
            Err(text) => self.accuse(witness, Charge::ForeignBytes, &format!("{nonce} {text}")),
        }
    }

    /// Returns whether the application still has to receive a notification and has waited for less than `WAITS`. Not so
    /// while it holds a lock, because the server that it keeps may be the one that the listening server waits for.
    pub(super) fn is_owed_news(&self, witness: &Witness) -> bool {
        let board = witness.board.borrow();
        let listens = self.habits.listens && !self.belief.holds;
        listens && board.owed(self.number).is_some_and(|(_, since)| witness.now.since(since) < WAITS)
    }

    /// A message has arrived. No notification may arrive in the middle of an answer or of a transaction.
    pub(super) fn mind_news(&mut self, kind: u8, body: &[u8], witness: &mut Witness) {
        let status = TxStatus::parse(body).filter(|_| kind == backend::READY_FOR_QUERY);
        match kind {
            // The pooler itself answers these when the server has the statement already, and may send notifications
            // before that server answers.
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

    /// The transaction has ended: its own notifications must have arrived, unless the session that listens for all is
    /// in trouble.
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

    /// A `NotificationResponse` has arrived.
    pub(super) fn hear_notification(&mut self, body: &[u8], witness: &mut Witness) {
        let mut texts = body.get(4..).unwrap_or_default().split(|&byte| byte == 0);
        let mut text = || String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
        let note = Note { channel: text(), payload: text() };
        if note.channel == LOST_CHANNEL {
            return self.hear_loss(Word::Notification, witness);
        }
        if !CHANNELS.contains(&&*note.channel) {
            // The simulated PostgreSQL has inserted this notification into the answer to a statement.
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
        if let Err((charge, text)) = board.received(self.number, &note) {
            self.accuse(witness, charge, &text);
        }
    }

    /// The application is told that notifications may have been lost.
    pub(super) fn hear_loss(&mut self, word: Word, witness: &mut Witness) {
        witness.count("words of lost notifications");
        let board = witness.board.clone();
        let mut board = board.borrow_mut();
        if board.word_of_loss != Some(word) {
            self.accuse(witness, Charge::NoReason, &format!("it is told of a loss by a {word:?}"));
        }
        board.may_have_lost(self.number);
    }
}

/// The longest time that anybody may wait for a notification after the faults have ended.
const WAITS: Duration = Duration::from_secs(100);
/// The channels, the same for all applications.
const CHANNELS: [&str; 3] = ["channel_a", "channel_b", "channel_c"];
/// The default of `notify_lost_channel`.
const LOST_CHANNEL: &str = "trunkline_lost";
