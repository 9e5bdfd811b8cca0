//! Named prepared statements, as strict as in PostgreSQL.
//!
//! Always true: an existing name cannot be prepared again, and a missing one cannot be used; a statement keeps the
//! TimeZone under which it was parsed.
//! Not here: the unnamed statement (`mod`).

use wire::backend::TxStatus;
use wire::{backend, write};

use super::state::{ByName, Portal, Session};
use crate::checks::witness::{Charge, Witness};
use crate::postgres::sql::{Nonce, Statement, Verb, named_rows, zone_and_mark};

/// The error for a statement whose result type has changed.
pub(crate) const OUTDATED: &str = "cached plan must not change result type";

impl Session {
    pub(super) fn describe(&mut self) {
        match self.portal.as_ref().map(|portal| &portal.statement.verb) {
            Some(Verb::Rows { .. }) => self.row_description(),
            Some(Verb::Execute { name }) if self.prepared.get(name).is_some() => self.row_description(),
            _ => write::bare(&mut self.out, backend::NO_DATA),
        }
    }

    pub(super) fn parse_named(&mut self, name: &str, text: &str) {
        self.transaction_begins();
        if self.named.contains_key(name) {
            self.fail("42P05", &format!("prepared statement \"{name}\" already exists"), true);
        } else if let Some(rows) = named_rows(text) {
            self.named.insert(name.to_owned(), ByName { rows, zone: self.vars.zone.clone(), was_bound: false });
            write::bare(&mut self.out, backend::PARSE_COMPLETE);
        } else {
            let nonce = text.split_once(" n=").and_then(|(_, nonce)| Nonce::read(nonce)).unwrap_or_default();
            self.fail("42601", &format!("{nonce} syntax error"), true);
        }
    }

    /// `value` is the nonce of the request, the TimeZone that the application believes in, and whether it is sure of
    /// that.
    pub(super) fn bind_named(&mut self, name: &str, value: &str, witness: &mut Witness) {
        let Some(ByName { rows, zone, was_bound }) = self.named.get(name).cloned() else {
            self.fail("26000", &format!("prepared statement \"{name}\" does not exist"), true);
            return;
        };
        let mut words = value.split(' ');
        let nonce = words.next().and_then(Nonce::read).unwrap_or_default();
        let believed = words.next().unwrap_or_default();
        let (mut is_sure, mut is_old) = (false, false);
        words.for_each(|word| match word {
            "sure" => is_sure = true,
            _ => is_old = true,
        });
        if was_bound && is_old {
            witness.count("plans made anew");
            self.plan_is_outdated();
            return;
        }
        if let Some(prepared) = self.named.get_mut(name) {
            prepared.was_bound = true;
        }
        // In session mode the statement is the client's own and may be older than the TimeZone. An application whose
        // request was cancelled in front of pipelined ones does not know its settings either. A failed transaction executes
        // none of it.
        let is_executed = self.tx != TxStatus::Failed;
        if is_sure && is_executed && zone != zone_and_mark(believed).0 && !self.is_session_mode && self.unsure.is_none()
        {
            let number = self.number;
            let text = format!("server {number} binds {nonce} to what was read under {zone}, not {believed}");
            witness.accuse(Charge::LeftOver, text);
        }
        let statement =
            Statement { nonce, zone: believed.into(), verb: Verb::Rows { rows, size: rows }, is_traced: false };
        self.portal = Some(Portal { statement, sent: 0 });
        write::bare(&mut self.out, backend::BIND_COMPLETE);
    }

    /// A table has changed since the statement was prepared.
    fn plan_is_outdated(&mut self) {
        let at = self.out.len();
        self.fail("0A000", OUTDATED, true);
        // The field R (routine), by which the pooler knows this error, goes before the terminating zero byte.
        let mut body = self.out.split_off(at)[5..].to_vec();
        body.pop();
        body.extend_from_slice(b"RRevalidateCachedQuery\0\0");
        write::message(&mut self.out, backend::ERROR_RESPONSE, |out| out.extend_from_slice(&body));
    }

    pub(super) fn describe_named(&mut self, name: &str) {
        if self.named.contains_key(name) {
            write::message(&mut self.out, backend::PARAMETER_DESCRIPTION, |out| out.extend([0, 1, 0, 0, 0, 25]));
            self.row_description();
        } else {
            self.fail("26000", &format!("prepared statement \"{name}\" does not exist"), true);
        }
    }
}
