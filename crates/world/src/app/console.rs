//! What an application sends to the admin console, and the expected answers.
//!
//! Always true: `SHOW` is answered with a whole table; an unknown command is answered with an error that repeats its
//! text.
//! Not here: the commands of the operator (`faults::operator`).

use wire::notice::Notice;
use wire::{backend, write};
use worker::letters::Right;

use super::belief::{Expect, Request};
use super::speaker::Speaker;
use crate::app::state::App;
use crate::postgres::sql::Nonce;

impl Speaker<'_> {
    /// `SHOW`, an unknown command, or `WAIT_CLOSE`.
    pub(super) fn at_the_console(&mut self, right: Right) -> Request {
        *self.next += 1;
        let nonce = Nonce { app: self.app, number: *self.next };
        let mut request = self.blank();
        (request.nonce, request.last) = (nonce, nonce.number);
        let (text, expects) = match self.dice.among(0..=9) {
            0 => (format!("{nonce} who is here?"), vec![Expect::Error("08P01")]),
            1 | 2 if right == Right::Admin => {
                request.is_long = true;
                ("WAIT_CLOSE".to_owned(), vec![Expect::Tag("WAIT_CLOSE")])
            }
            _ => {
                let table = self.dice.pick(&TABLES);
                (format!("SHOW {table}"), vec![Expect::Bare(backend::ROW_DESCRIPTION), Expect::Table])
            }
        };
        write::query(&mut request.bytes, &text);
        request.expects.extend(expects.into_iter().map(|expect| (nonce, expect)));
        self.ready(&mut request);
        request
    }
}

impl App {
    /// Returns whether this error says that the console cannot answer at the moment, and drops the expected answers if
    /// so.
    pub(super) fn is_put_off(&mut self, notice: &Notice) -> bool {
        let is_one = self.habits.console.is_some() && PUT_OFF.iter().any(|text| notice.message.starts_with(text));
        if is_one && let Some(request) = self.asked.front_mut() {
            request.expects.retain(|(_, expect)| matches!(expect, Expect::Ready(_)));
        }
        is_one
    }
}

/// The tables that `SHOW` may be asked for.
const TABLES: [&str; 10] =
    ["VERSION", "CLIENTS", "SERVERS", "POOLS", "STATS", "DATABASES", "USERS", "LISTS", "MEM", "SOCKETS"];
/// Errors while an online restart is in progress, or when a worker does not answer in time.
const PUT_OFF: [&str; 2] = ["an online restart is in progress", "no answer within 5 seconds from worker"];
