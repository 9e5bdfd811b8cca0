//! LISTEN and NOTIFY as in PostgreSQL.
//!
//! Always true: LISTEN, UNLISTEN and NOTIFY of a transaction take effect at its commit, or never; a session sends
//! notifications outside of transactions, in the order of commits, and one that notifies sends all earlier ones
//! together with its own.
//! Not here: what is committed (`board`), who is woken when (`postgres`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use protocol::state::MARKS;
use wire::backend::{self, TxStatus};
use wire::write;

use super::state::{Life, Session};
use crate::checks::board::{Board, Note};
use crate::postgres::sql::Nonce;

/// The channels of a session.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    board: Rc<RefCell<Board>>,
    /// Each channel with the position in the queue at which the session began to listen.
    listened: BTreeMap<String, usize>,
    /// The position up to which the session has read the queue.
    read: usize,
    /// What the transaction will do when it commits.
    pending: Vec<Act>,
    /// The queue may have something new.
    is_woken: bool,
}

/// An act that waits for the commit. `by`: the application's statement; None for the pooler's own.
#[derive(Debug)]
pub(super) enum Act {
    Listen { channel: String, by: Option<Nonce> },
    Unlisten { channel: Option<String>, by: Option<Nonce> },
    Notify(Note),
}

impl Channels {
    pub(super) fn at(board: Rc<RefCell<Board>>) -> Self {
        Self { board, ..Self::default() }
    }

    pub(super) fn will(&mut self, act: Act) {
        self.pending.push(act);
    }

    /// The transaction is rolled back.
    pub(super) fn roll_back(&mut self) {
        self.pending.clear();
    }

    /// DISCARD ALL.
    pub(super) fn discard(&mut self) {
        self.pending.clear();
        self.listened.clear();
    }

    /// The channels, as `pg_listening_channels` lists them.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.listened.keys().map(|name| &**name)
    }

    /// Returns whether the board allows the statement to run here.
    pub(super) fn may_run(&self, nonce: Nonce) -> bool {
        self.board.borrow_mut().runs(nonce)
    }

    /// Returns whether the session listens to any channel.
    pub(crate) fn is_listening(&self) -> bool {
        !self.listened.is_empty()
    }
}

impl Session {
    /// The transaction commits: its LISTEN, UNLISTEN and NOTIFY take effect.
    pub(super) fn commit_channels(&mut self) {
        let acts = std::mem::take(&mut self.channels.pending);
        if acts.is_empty() {
            return;
        }
        let place = (self.host, self.database.clone());
        let Channels { board, listened, read, is_woken, .. } = &mut self.channels;
        let mut board = board.borrow_mut();
        let head = board.notes(&place).len();
        let mut notes: Vec<Note> = Vec::new();
        for act in acts {
            match act {
                Act::Listen { channel, by } => {
                    match by {
                        Some(by) => board.listens(by, &place, &channel),
                        None if channel == MARKS => board.listens_for_all(&place),
                        None => {}
                    }
                    if listened.is_empty() {
                        *read = head;
                    }
                    listened.entry(channel).or_insert(head);
                }
                Act::Unlisten { channel, by } => {
                    if let Some(by) = by {
                        board.leaves(by, channel.as_deref());
                    }
                    listened.retain(|known, _| channel.as_ref().is_some_and(|channel| channel != known));
                }
                // PostgreSQL folds equal notifications of a transaction into one.
                Act::Notify(note) if notes.contains(&note) => {}
                Act::Notify(note) => notes.push(note),
            }
        }
        if !notes.is_empty() {
            board.commit(&place, notes);
            *is_woken = true;
        }
    }

    /// Sends the unread notifications; called outside of transactions.
    pub(super) fn tell_news(&mut self) {
        if !std::mem::take(&mut self.channels.is_woken) {
            return;
        }
        let place = (self.host, self.database.clone());
        let Channels { board, listened, read, .. } = &mut self.channels;
        let board = board.borrow();
        let notes = board.notes(&place);
        for (at, note) in notes.iter().enumerate().skip(*read) {
            if listened.get(&note.channel).is_some_and(|from| *from <= at) {
                write::message(&mut self.out, backend::NOTIFICATION_RESPONSE, |out| {
                    out.extend(self.number.to_be_bytes());
                    write::c_string(out, &note.channel);
                    write::c_string(out, &note.payload);
                });
            }
        }
        *read = notes.len();
    }

    /// Another session has signalled new notifications (`SignalBackends`): an idle session sends them when it is woken,
    /// a busy one before its `ReadyForQuery`.
    pub(crate) fn signal(&mut self) {
        self.channels.is_woken = true;
    }

    /// The session is woken for new notifications: an idle one sends them now.
    pub(crate) fn wake(&mut self) {
        self.channels.is_woken = true;
        let is_idle = matches!(self.life, Life::Ready) && self.tx == TxStatus::Idle && self.work.is_none();
        if is_idle && self.copy.is_none() && !self.is_in_batch && self.queue.is_empty() {
            self.tell_news();
            self.is_flushed = true;
        }
    }

    /// Runs the LISTEN, UNLISTEN and NOTIFY that the pooler itself sends. Returns whether the text is one of these.
    pub(super) fn run_about_channels(&mut self, text: &str) -> bool {
        // The pooler's statements begin with a comment that says whose they are.
        let text = text.rsplit_once("*/").map_or(text, |(_, text)| text);
        let act = if let Some(channel) = text.strip_prefix("LISTEN ") {
            Act::Listen { channel: unquoted(channel), by: None }
        } else if text == "UNLISTEN *" {
            Act::Unlisten { channel: None, by: None }
        } else if let Some(channel) = text.strip_prefix("UNLISTEN ") {
            Act::Unlisten { channel: Some(unquoted(channel)), by: None }
        } else if let Some((channel, payload)) = text.strip_prefix("NOTIFY ").and_then(|rest| rest.split_once(',')) {
            let payload = payload.trim_matches('\'').to_owned();
            Act::Notify(Note { channel: unquoted(channel), payload })
        } else {
            return false;
        };
        self.channels.will(act);
        true
    }

    /// Writes the channel rows of the answer to a state probe.
    pub(super) fn tell_channels(&mut self) {
        for name in self.channels.names() {
            write::data_row(&mut self.out, [Some("n"), Some(name), None, None].into_iter());
        }
    }
}

/// Inserts a notification into the answer to a statement.
pub(super) fn notify(out: &mut Vec<u8>, nonce: Nonce) {
    write::message(out, backend::NOTIFICATION_RESPONSE, |out| {
        out.extend(7_u32.to_be_bytes());
        write::c_string(out, "channel");
        write::c_string(out, &nonce.to_string());
    });
}

fn unquoted(name: &str) -> String {
    name.trim_matches('"').to_owned()
}
