//! Servers that another process has had, at an online restart.
//!
//! Always true: they count like those that were dialed here; what is too many, or obsolete, serves nobody new.
//! Not here: how they come (`worker::handover::import`).

use base::Time;

use crate::pool::{Pool, Tables};
use crate::slot::{Move, Slot};
use crate::{Command, ServerKey};

/// A server that comes from another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imported {
    /// When its login was complete.
    pub born: Time,
    /// Since when it has been idle, or lent.
    pub since: Time,
    /// A client goes on with it.
    pub is_lent: bool,
    /// It serves nobody else.
    pub is_obsolete: bool,
}

impl Pool {
    /// What clients are greeted with is known from another process.
    pub(crate) fn is_welcomed_already(&mut self) {
        self.logins.succeeded();
    }

    /// A server comes from another process, where a client may have had it, which goes on with it here.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        tables: &mut Tables,
        imported: Imported,
        out: &mut Vec<Command>,
    ) -> ServerKey {
        let era = if imported.is_obsolete { FIRST_ERA - 1 } else { self.era };
        let mut slot = Slot::new(self.key, now, era, false);
        (slot.born, slot.since) = (imported.born, imported.since);
        let server = self.servers.arrive(&mut tables.slots, slot);
        if imported.is_lent {
            self.servers.shift(&mut tables.slots, server, Move::Attach, now);
        } else {
            self.rest(tables, server);
        }
        self.trim(now, tables, out);
        server
    }
}

/// The era in which a pool is opened; what comes from an earlier one is obsolete.
pub(crate) const FIRST_ERA: u32 = 1;
