//! Replication streams (COPY BOTH), in which both sides send data.
//!
//! Always true: each side knows how many messages the other has to send, so a lost message is noticed.
//! Not here: other requests (`speech`).

use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use super::belief::{Expect, Request};
use super::speaker::Speaker;
use crate::postgres::sql::{Verb, row_text};

impl Speaker<'_> {
    /// A stream: rows arrive while feedback is sent, until one side ends the stream.
    pub(super) fn stream(&mut self) -> Request {
        let mut request = self.blank();
        let rows = self.dice.among(0..=8) as u32;
        let size =
            if self.dice.chance(self.habits.big) { self.dice.among(1..=40_000) } else { self.dice.among(0..=60) };
        let (size, millis) = (size as u32, self.dice.pick(&[0, 5, 200, 3_000]));
        let words = self.dice.among(0..=4) as u32;
        let is_ended_by_server = self.dice.chance(300);
        let statement = self.statement(Verb::Stream { rows, size, millis, words, is_ended_by_server });
        let nonce = statement.nonce;
        request.nonce = nonce;
        request.is_long = true;
        write::query(&mut request.bytes, &statement.to_string());
        let mut expect = |expect| request.expects.push_back((nonce, expect));
        if self.belief.tx == TxStatus::Failed {
            expect(Expect::Error("25P02"));
            self.ready(&mut request);
            return request;
        }
        expect(Expect::Bare(backend::COPY_BOTH_RESPONSE));
        let mut feedback = Vec::new();
        for at in 0..words {
            let text = row_text(nonce, at, words, 20);
            write::message(&mut feedback, frontend::COPY_DATA, |out| out.extend(text.as_bytes()));
        }
        let mut done = Vec::new();
        write::bare(&mut done, frontend::COPY_DONE);
        // Half of the feedback is sent at once, the rest with the end; all of it with the end where nothing arrives in
        // between.
        let at_once = if rows == 0 && !is_ended_by_server { 0 } else { words / 2 };
        let cut = feedback.len() / words.max(1) as usize * at_once as usize;
        done.splice(..0, feedback.split_off(cut));
        if !feedback.is_empty() {
            expect(Expect::Say(feedback));
        }
        (0..rows).for_each(|at| expect(Expect::CopyRow { at, of: rows, size }));
        let end = Expect::Bare(frontend::COPY_DONE);
        match is_ended_by_server {
            true => [end, Expect::Say(done)].into_iter().for_each(&mut expect),
            false => [Expect::Say(done), end].into_iter().for_each(&mut expect),
        }
        expect(Expect::Complete);
        self.ready(&mut request);
        request
    }
}
