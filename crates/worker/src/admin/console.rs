//! A client of the console, the database `pgbouncer`: its requests are read here, and the control thread answers them.
//!
//! Always true: one request of a client is under way at a time; each gets exactly one answer, and the next is passed on
//! when that has been sent; a client that sends many requests at once is not read until they have been answered.
//! Not here: what a command means (`control::console`).

use std::collections::VecDeque;

use base::Key;
use protocol::cancel::CancelKey;
use protocol::fault::{Fault, PROTOCOL_VIOLATION};
use reactor::{Io, Level, Receive, Subject};
use wire::{Request, Scanner, Step, frontend, write};

use crate::data::client::{Client, ClientStage};
use crate::letters::ToControl;
use crate::worker::Worker;

/// A client of the console.
#[derive(Debug)]
pub(crate) struct ConsoleClient {
    pub(super) right: Right,
    pub(super) user: Box<str>,
    pub(super) application_name: Box<str>,
    pub(super) scanner: Scanner,
    pub(super) body: Vec<u8>,
    pub(super) waiting: VecDeque<Request>,
    /// Whether the control thread owes it an answer.
    pub(super) is_busy: bool,
    /// Whether the control thread wants to know when everything for the client has been sent.
    pub(super) has_part: bool,
    /// Whether nothing is received until fewer requests wait.
    pub(super) is_paused: bool,
    pub(super) cancel_key: CancelKey,
}

impl ConsoleClient {
    /// A client that was let in and has sent nothing yet.
    pub(crate) fn new(right: Right, user: Box<str>, application_name: Box<str>, cancel_key: CancelKey) -> Self {
        let (scanner, body, waiting) = (Scanner::default(), Vec::new(), VecDeque::new());
        let (is_busy, has_part, is_paused) = (false, false, false);
        Self { right, user, application_name, scanner, body, waiting, is_busy, has_part, is_paused, cancel_key }
    }
}

impl ConsoleClient {
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn cancel_key(&self) -> &CancelKey {
        &self.cancel_key
    }

    /// Whether the control thread owes it an answer.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }
}

/// The user of a console command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commander {
    /// The client as log lines name it.
    pub about: Subject,
    /// The user name.
    pub user: Box<str>,
    /// The client's address.
    pub host: Box<str>,
}

/// What a console client may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Everything (`admin_users`).
    Admin,
    /// Look only (`stats_users`).
    Stats,
}

/// The name of the console's database, and of its user on the Unix socket.
pub(crate) const CONSOLE: &str = "pgbouncer";

impl<I: Io> Worker<I> {
    /// Handles bytes of a console client.
    pub(crate) fn console_received(&mut self, key: Key, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let Some(client) = self.clients.get_mut(key) else { return };
            let ClientStage::Console(console) = &mut client.stage else { return };
            let piece = match console.scanner.next(bytes, at, COMMAND_BYTES_MAX) {
                Step::Piece(piece) => piece,
                Step::More => break,
                Step::Bad { .. } => {
                    self.console_fails(key, &Fault::ConsoleTooLong);
                    return;
                }
            };
            at = piece.range.end;
            match piece.kind {
                kind if Request::is_kind(kind) => {}
                frontend::TERMINATE => {
                    self.part_from_client(key, "client close request");
                    return;
                }
                other => {
                    self.console_says(key, &format!("unsupported packet type for admin console: {other}"));
                    self.console_fails(key, &Fault::ConsoleMessage);
                    return;
                }
            }
            console.body.extend_from_slice(&bytes[piece.body.clone()]);
            if piece.is_last() {
                let body = std::mem::take(&mut console.body);
                let Some(request) = Request::parse(piece.kind, &body) else {
                    self.console_fails(key, &Fault::BrokenMessage { kind: piece.kind });
                    return;
                };
                let is_counted = matches!(request, Request::Query(_) | Request::Sync);
                console.waiting.push_back(request);
                if is_counted {
                    self.count_console_query();
                }
                self.ask_control(key);
            }
        }
        let Some(Client { conn, stage: ClientStage::Console(console), .. }) = self.clients.get_mut(key) else { return };
        if console.waiting.len() > REQUESTS_WAITING_MARK && !std::mem::replace(&mut console.is_paused, true) {
            self.hands.io.pause(*conn);
        }
    }

    /// Counts a simple query, or a Sync with everything before it, as one query.
    fn count_console_query(&mut self) {
        let database = self.registry.database(&CONSOLE.into(), None);
        let totals = &mut self.registry.database_at_mut(database).totals;
        totals.query_count += 1;
        totals.xact_count += 1;
    }

    /// Passes on the next request once the answer before has been sent: a client that does not read must not fill our memory.
    pub(crate) fn ask_control(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Console(console), .. }) = self.clients.get_mut(key) else { return };
        if console.is_busy || console.waiting.is_empty() {
            return;
        }
        if self.hands.io.unsent(*conn) > 0 {
            self.hands.io.tell_when_drained(*conn);
            return;
        }
        let Some(request) = console.waiting.pop_front() else { return };
        console.is_busy = true;
        if console.waiting.len() <= REQUESTS_WAITING_MARK && std::mem::take(&mut console.is_paused) {
            self.hands.io.receive(*conn, Receive::Stream);
        }
        let (right, user) = (console.right, console.user.clone());
        let host = self.clients.get(key).map_or_else(String::new, |client| self.address_of_peer(client).0);
        let by = Box::new(Commander { about: self.client_prefix(key), user, host: host.into() });
        (self.hands.posts.control)(ToControl::Console { from: self.hands.id, client: key, right, by, request });
    }

    /// The control thread has answered.
    pub(crate) fn console_answers(&mut self, key: Key, bytes: Vec<u8>, closes: bool) {
        let Some(Client { conn, stage: ClientStage::Console(console), .. }) = self.clients.get_mut(key) else { return };
        console.is_busy = false;
        if !bytes.is_empty() {
            self.hands.io.send(*conn, bytes.into());
        }
        if closes {
            self.part_from_client(key, "client close request");
        } else {
            self.ask_control(key);
        }
    }

    /// The control thread sends a part of an answer that is not complete.
    pub(crate) fn console_is_told(&mut self, key: Key, bytes: Vec<u8>) {
        let Some(Client { conn, stage: ClientStage::Console(console), .. }) = self.clients.get_mut(key) else { return };
        console.has_part = true;
        self.hands.io.send(*conn, bytes.into());
        self.hands.io.tell_when_drained(*conn);
    }

    /// Everything for the client has been sent.
    pub(crate) fn console_drained(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Console(console), .. }) = self.clients.get_mut(key) else { return };
        if std::mem::take(&mut console.has_part) {
            (self.hands.posts.control)(ToControl::ConsoleTook { from: self.hands.id, client: key });
        }
        self.ask_control(key);
    }

    fn console_says(&mut self, key: Key, text: &str) {
        self.hands.log.add(Level::Error, format_args!("{text}"));
        let mut out = Vec::new();
        let says =
            write::Says { severity: "ERROR", sqlstate: PROTOCOL_VIOLATION, message: text, detail: None, hint: None };
        write::error(&mut out, says);
        self.send_to_client(key, out);
    }

    fn console_fails(&mut self, key: Key, fault: &Fault) {
        let mut out = Vec::new();
        fault.write(&mut out);
        self.send_to_client(key, out);
        self.part_from_client(key, &fault.text());
    }
}

/// Requests that may wait for the one before them; with more, nothing is received. What one receive brings is always taken.
const REQUESTS_WAITING_MARK: usize = 64;
/// The longest command.
const COMMAND_BYTES_MAX: u32 = 65_536;
