//! The delivery of letters, and the letters that the control thread reads.
//!
//! Always true: the control thread's answers to a letter are posted before the next letter is read.
//! Not here: how long a letter takes (`state`).

use std::sync::PoisonError;

use base::WorkerId;
use worker::letters::{ToControl, ToWorker};

use crate::checks::checkers::{AT_REST, LOOKS, OF_THE_WORLD};
use crate::sim::mail::Envelope;
use crate::state::World;

impl World {
    /// Posts all letters written so far.
    pub(crate) fn send_mail(&mut self) {
        loop {
            let written = std::mem::take(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner));
            if written.is_empty() {
                return;
            }
            written.into_iter().for_each(|envelope| self.deliver(envelope));
        }
    }

    /// Posts a letter, or lets the control thread read it.
    pub(crate) fn deliver(&mut self, envelope: Envelope) {
        let letter = match envelope {
            Envelope::ToWorker { to, letter } => return self.post(to, letter),
            Envelope::FromControl { to, letter } => {
                if let Some(client) = self.note_answer(&letter) {
                    let left = ToControl::ConsoleLeft { from: WorkerId(0), client };
                    return self.control_hears(control::Event::Letter(left));
                }
                // The operator does not read what a switchover says meanwhile.
                if matches!(letter, ToWorker::ConsolePart { .. }) && self.members.is_some() {
                    return;
                }
                self.note_order(to, &letter);
                return self.post(to, letter);
            }
            Envelope::ToControl { first, letter } if first == self.serving_workers.start => letter,
            // That process has no control thread any more.
            Envelope::ToControl { .. } => return,
        };
        match letter {
            ToControl::Shown { from, question, snapshot } if question >= OF_THE_WORLD => {
                if self.sought(question, &snapshot) {
                    return;
                }
                // A snapshot of everything is of several moments.
                if question != LOOKS {
                    self.check_shown(from.0, &snapshot);
                }
                if question == AT_REST {
                    self.checkers.shown.push((from.0, *snapshot));
                }
            }
            letter @ (ToControl::AskSecret(_)
            | ToControl::SecretUnneeded { .. }
            | ToControl::Listen { .. }
            | ToControl::Unlisten { .. }
            | ToControl::UnlistenAll { .. }) => self.control_reads_later(letter),
            letter => {
                match letter {
                    ToControl::Drained { from, is_drained } => self.drained(from.0, is_drained),
                    ToControl::Obeyed { from, question, is_done } => self.obeyed(from.0, question, is_done),
                    ToControl::Spans { ref statements, .. } => self.check_spans(statements),
                    _ => {}
                }
                self.control_hears(control::Event::Letter(letter));
            }
        }
    }
}
