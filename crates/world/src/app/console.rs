//! What somebody says at the console, and what must be answered.
//!
//! Always true: who asks for a table gets that table, whole; who says what is no command is told so in its own words.
//! Not here: what is ordered there (`faults::operator`).

use wire::notice::Notice;
use wire::{backend, write};
use worker::letters::Right;

use super::belief::{Expect, Request};
use super::speaker::Speaker;
use crate::app::state::App;
use crate::postgres::sql::Nonce;

impl Speaker<'_> {
    /// Looks, says nonsense, or waits.
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
    /// Whether this is why the console does not answer just now: its request is over then.
    pub(super) fn is_put_off(&mut self, notice: &Notice) -> bool {
        let is_one = self.habits.console.is_some() && PUT_OFF.iter().any(|text| notice.message.starts_with(text));
        if is_one && let Some(request) = self.asked.front_mut() {
            request.expects.retain(|(_, expect)| matches!(expect, Expect::Ready(_)));
        }
        is_one
    }
}

/// What there is to be seen.
const TABLES: [&str; 10] =
    ["VERSION", "CLIENTS", "SERVERS", "POOLS", "STATS", "DATABASES", "USERS", "LISTS", "MEM", "SOCKETS"];
/// During an online restart nothing is ordered; a worker that is held up does not show itself.
const PUT_OFF: [&str; 2] = ["an online restart is in progress", "no answer within 5 seconds from worker"];
