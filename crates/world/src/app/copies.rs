//! COPY from and to the application.
//!
//! Always true: as for all its requests (`speech`).
//! Not here: replication streams (`stream`).

use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use super::belief::{Expect, Request};
use super::speaker::{Speaker, execute};
use crate::postgres::sql::{Nonce, Verb, row_text};

impl Speaker<'_> {
    pub(super) fn copy_out(&mut self) -> Request {
        let verb = Verb::CopyOut {
            rows: self.dice.among(0..=5) as u32,
            size: self.dice.among(0..=self.habits.value_max.max(1)) as u32,
        };
        self.query(verb)
    }

    /// Writes the `CopyData` messages of a COPY and its end. Returns whether the COPY succeeds.
    fn copy_data(&mut self, nonce: Nonce, is_bad: bool, out: &mut Vec<u8>) -> bool {
        let is_huge = self.dice.chance(self.habits.huge * 5);
        let rows = if is_huge { self.dice.among(10..=40) } else { self.dice.among(1..=5) } as u32;
        for at in 0..rows {
            let size = if is_huge || self.dice.chance(self.habits.big) { self.dice.among(1..=20_000) } else { 20 };
            let text = row_text(nonce, at, rows, size as u32);
            write::message(out, frontend::COPY_DATA, |out| out.extend(text.as_bytes()));
        }
        if self.habits.errors && self.dice.chance(150) {
            write::message(out, frontend::COPY_FAIL, |out| write::c_string(out, "changed my mind"));
            return false;
        }
        write::bare(out, frontend::COPY_DONE);
        !is_bad
    }

    pub(super) fn copy_in(&mut self) -> Request {
        let mut request = self.blank();
        let is_bad = self.habits.errors && self.dice.chance(150);
        let statement = self.statement(Verb::CopyIn { is_bad });
        request.nonce = statement.nonce;
        write::query(&mut request.bytes, &statement.to_string());
        let mut data = Vec::new();
        let is_well = self.copy_data(request.nonce, is_bad, &mut data);
        let is_eager = self.is_eager();
        if is_eager {
            request.bytes.append(&mut data);
        }
        if self.copy_begins(&mut request) {
            if !is_eager {
                request.expects.push_back((request.nonce, Expect::Say(data)));
            }
            self.copy_ends(&mut request, is_well, is_bad);
        }
        self.ready(&mut request);
        request
    }

    /// Returns whether the application sends the whole COPY at once, without waiting for `CopyInResponse`.
    fn is_eager(&mut self) -> bool {
        self.dice.chance(250)
    }

    /// Expects the answer to the COPY statement. Returns whether the COPY begins.
    fn copy_begins(&mut self, request: &mut Request) -> bool {
        let is_refused = self.belief.tx == TxStatus::Failed;
        let answer = if is_refused { Expect::Error("25P02") } else { Expect::Bare(backend::COPY_IN_RESPONSE) };
        request.expects.push_back((request.nonce, answer));
        !is_refused
    }

    fn copy_ends(&mut self, request: &mut Request, is_well: bool, is_bad: bool) {
        let end = match (is_well, is_bad) {
            (true, _) => Expect::Complete,
            (false, true) => Expect::Error("22P04"),
            (false, false) => Expect::Error("57014"),
        };
        if !is_well {
            self.belief.fails();
        }
        request.expects.push_back((request.nonce, end));
    }

    pub(super) fn copy_in_extended(&mut self) -> Request {
        let mut request = self.blank();
        let is_bad = self.habits.errors && self.dice.chance(100);
        let statement = self.statement(Verb::CopyIn { is_bad });
        request.nonce = statement.nonce;
        self.open(&mut request.bytes, &statement);
        execute(&mut request.bytes, 0);
        for kind in [backend::PARSE_COMPLETE, backend::BIND_COMPLETE] {
            request.expects.push_back((request.nonce, Expect::Bare(kind)));
        }
        if self.is_eager() {
            let is_well = self.copy_data(request.nonce, is_bad, &mut request.bytes);
            if self.copy_begins(&mut request) {
                self.copy_ends(&mut request, is_well, is_bad);
            }
            self.sync(&mut request);
        } else {
            self.copy_in_turns(&mut request, is_bad);
            self.ready(&mut request);
        }
        request
    }

    /// Sends `Sync` together with `Execute`, as libpq does, or `Flush` and then waits for `CopyInResponse`.
    fn copy_in_turns(&mut self, request: &mut Request, is_bad: bool) {
        let nonce = request.nonce;
        let is_as_libpq = self.dice.chance(500);
        write::bare(&mut request.bytes, if is_as_libpq { frontend::SYNC } else { frontend::FLUSH });
        request.early_syncs = is_as_libpq.into();
        let mut rest = Vec::new();
        if self.copy_begins(request) {
            if self.belief.tx == TxStatus::Idle && self.dice.chance(200) {
                // Where the COPY fails decides whether PostgreSQL ignores this `Sync`.
                let text = row_text(nonce, 0, 1, 0);
                write::message(&mut rest, frontend::COPY_DATA, |out| out.extend(text.as_bytes()));
                write::bare(&mut rest, frontend::SYNC);
                request.early_syncs += 1;
            }
            let is_well = self.copy_data(nonce, is_bad, &mut rest);
            write::bare(&mut rest, frontend::SYNC);
            request.expects.push_back((nonce, Expect::Say(rest)));
            self.copy_ends(request, is_well, is_bad);
        } else if !is_as_libpq {
            write::bare(&mut rest, frontend::SYNC);
            request.expects.push_back((nonce, Expect::Say(rest)));
        }
    }
}
