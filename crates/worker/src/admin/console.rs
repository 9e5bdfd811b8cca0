//! A client of the console, the database `pgbouncer`.
//!
//! Always true: one request of it is under way at a time.
//! Not here: how it is heard and answered (`commands`).

use std::collections::VecDeque;

use protocol::cancel::CancelKey;
use reactor::Subject;
use wire::{Request, Scanner};

/// A client of the console.
#[derive(Debug)]
pub(crate) struct ConsoleClient {
    pub(super) right: Right,
    pub(crate) user: Box<str>,
    pub(crate) application_name: Box<str>,
    pub(super) scanner: Scanner,
    pub(super) body: Vec<u8>,
    pub(super) waiting: VecDeque<Request>,
    /// Whether control owes it an answer.
    pub(crate) is_busy: bool,
    /// Whether control wants to know when it has taken what it was given.
    pub(super) has_part: bool,
    /// Whether nothing is received until less is waiting.
    pub(super) is_paused: bool,
    pub(crate) cancel_key: CancelKey,
}

impl ConsoleClient {
    /// One that has come in and said nothing yet.
    pub(crate) fn new(right: Right, user: Box<str>, application_name: Box<str>, cancel_key: CancelKey) -> Self {
        let (scanner, body, waiting) = (Scanner::default(), Vec::new(), VecDeque::new());
        let (is_busy, has_part, is_paused) = (false, false, false);
        Self { right, user, application_name, scanner, body, waiting, is_busy, has_part, is_paused, cancel_key }
    }
}

/// Who says something on the console.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commander {
    /// How a log line about it begins.
    pub about: Subject,
    /// The user.
    pub user: Box<str>,
    /// From where.
    pub host: Box<str>,
}

/// What a console client may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Everything (`admin_users`).
    Admin,
    /// Look (`stats_users`).
    Stats,
}

/// The name of the console's database and of its user by the unix socket.
pub(crate) const CONSOLE: &str = "pgbouncer";
