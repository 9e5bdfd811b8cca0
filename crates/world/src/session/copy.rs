//! COPY from the client, and cancel requests, which may end it as any other work.

use wire::backend;
use wire::{frontend, write};

use super::{Copy, Session, Work};
use crate::sql::{Nonce, Statement};
use crate::witness::{Charge, Witness};

impl Session {
    pub(super) fn copy_begins(&mut self, nonce: Nonce, is_bad: bool, is_extended: bool) {
        write::message(&mut self.out, backend::COPY_IN_RESPONSE, |out| out.extend([0, 0, 0]));
        self.copy = Some(Copy { nonce, rows: 0, is_bad, is_extended });
        self.is_flushed = true;
    }

    pub(super) fn take_copy(&mut self, kind: u8, body: &[u8], witness: &mut Witness) {
        let Some(copy) = &mut self.copy else { return };
        let (nonce, is_extended) = (copy.nonce, copy.is_extended);
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
                self.copy = None;
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

    /// A cancel request has reached it: what it hits, if anything. `Err` is a statement of the pooler's own.
    pub(crate) fn cancel(&mut self) -> Option<Result<Nonce, String>> {
        let hit = self.running()?;
        self.unsure = hit.as_ref().ok().map(|nonce| nonce.app);
        let text = match &hit {
            Ok(nonce) => format!("{nonce} canceling statement due to user request"),
            Err(text) => text.clone(),
        };
        if self.copy.is_some() {
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

    /// What it works on.
    pub(super) fn running(&self) -> Option<Result<Nonce, String>> {
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
        }
    }
}
