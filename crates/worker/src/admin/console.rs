//! A client of the console, the database `pgbouncer`.
//!
//! Always true: one request of the client is under way at a time.
//! Not here: how requests are read and answered (`commands`).

use std::collections::VecDeque;

use protocol::cancel::CancelKey;
use reactor::Subject;
use wire::{Request, Scanner};

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
