//! COPY FROM STDIN, COPY BOTH streams, and cancel requests, which may end a COPY like any other work.

use wire::backend;
use wire::{frontend, write};

use super::state::{Copy, Session, Stream, Work};
use crate::checks::witness::{Charge, Witness};
use crate::postgres::sql::{Nonce, Statement, row_text};

impl Session {
    pub(super) fn copy_begins(&mut self, nonce: Nonce, is_bad: bool, is_extended: bool) {
        write::message(&mut self.out, backend::COPY_IN_RESPONSE, |out| out.extend([0, 0, 0]));
        self.copy = Some(Copy { nonce, rows: 0, is_bad, is_extended, stream: None });
        self.is_flushed = true;
    }

    /// Begins COPY BOTH: half of the rows are sent now, the rest after this time.
    pub(super) fn stream_begins(&mut self, nonce: Nonce, stream: Stream, millis: u32) {
        write::message(&mut self.out, backend::COPY_BOTH_RESPONSE, |out| out.extend([0, 0, 0]));
        self.copy = Some(Copy { nonce, rows: 0, is_bad: false, is_extended: false, stream: Some(stream) });
        self.stream_rows(nonce, stream, 0..stream.rows / 2);
        self.work = Some(Work::Stream { millis });
    }

    pub(super) fn stream_goes_on(&mut self) {
        let Some(Copy { nonce, stream: Some(stream), .. }) = self.copy else { return };
        self.stream_rows(nonce, stream, stream.rows / 2..stream.rows);
        if stream.is_ended_by_server {
            write::bare(&mut self.out, frontend::COPY_DONE);
        }
    }

    fn stream_rows(&mut self, nonce: Nonce, stream: Stream, rows: std::ops::Range<u32>) {
        for at in rows {
            let text = row_text(nonce, at, stream.rows, stream.size);
            write::message(&mut self.out, frontend::COPY_DATA, |out| out.extend(text.as_bytes()));
        }
        self.is_flushed = true;
    }

    pub(super) fn take_copy(&mut self, kind: u8, body: &[u8], witness: &mut Witness) {
        let Some(copy) = &mut self.copy else { return };
        let (nonce, is_extended, stream) = (copy.nonce, copy.is_extended, copy.stream);
        let failure = match kind {
            frontend::COPY_DATA => {
                copy.rows += 1;
                let said = Nonce::read(&String::from_utf8_lossy(body));
                if said != Some(nonce) {
                    let text = format!("server {} gets {said:?} in the COPY of {nonce}", self.number);
                    witness.accuse(Charge::ForeignBytes, text);
                }
                copy.is_bad.then_some(("22P04", "bad row"))
            }
            frontend::COPY_DONE => {
                let heard = copy.rows;
                self.copy = None;
                if let Some(stream) = stream {
                    if heard != stream.words {
                        let text = format!("server {} hears {heard} words in the stream of {nonce}", self.number);
                        witness.accuse(Charge::ForeignBytes, text);
                    }
                    if !stream.is_ended_by_server {
                        write::bare(&mut self.out, frontend::COPY_DONE);
                    }
                }
                self.complete(nonce);
                if !is_extended {
                    self.ready();
                }
                None
            }
            frontend::COPY_FAIL => Some(("57014", "COPY from stdin failed")),
            frontend::SYNC | frontend::FLUSH => None,
            _ => Some(("08P01", "unexpected message during COPY")),
        };
        if let Some((sqlstate, text)) = failure {
            self.copy_fails(sqlstate, &format!("{nonce} {text}"));
        }
    }

    pub(super) fn copy_fails(&mut self, sqlstate: &str, text: &str) {
        let Some(copy) = self.copy.take() else { return };
        self.fail(sqlstate, text, copy.is_extended);
        if !copy.is_extended {
            self.ready();
        }
    }

    /// A cancel request arrives. Returns the statement that it hits, if any; `Err` is a statement of the pooler's own.
    pub(crate) fn cancel(&mut self) -> Option<Result<Nonce, String>> {
        let hit = self.running()?;
        self.unsure = hit.as_ref().ok().map(|nonce| nonce.app);
        let text = match &hit {
            Ok(nonce) => format!("{nonce} canceling statement due to user request"),
            Err(text) => text.clone(),
        };
        if self.copy.is_some() {
            self.work = None;
            self.alarm += 1;
            self.copy_fails("57014", &text);
            return Some(hit);
        }
        let is_extended = matches!(self.work, Some(Work::Execute { .. }));
        self.work = None;
        self.alarm += 1;
        self.fail("57014", &text, is_extended);
        if !is_extended {
            self.ready();
        }
        Some(hit)
    }

    /// Returns the statement that the session runs.
    pub(crate) fn running(&self) -> Option<Result<Nonce, String>> {
        if let Some(copy) = &self.copy {
            return Some(Ok(copy.nonce));
        }
        match self.work.as_ref()? {
            Work::Query { rest, .. } => {
                let text = rest.front()?;
                Some(Statement::read(text).map(|statement| statement.nonce).ok_or_else(|| text.clone()))
            }
            Work::Execute { .. } => self.portal.as_ref().map(|portal| Ok(portal.statement.nonce)),
            Work::Function { nonce } => Some(Ok(*nonce)),
            // The COPY case above has returned already.
            Work::Stream { .. } => None,
        }
    }
}
