//! Servers that are taken over from another process at an online restart.
//!
//! Always true: they count like servers that were dialed here; surplus and obsolete ones are not lent to another client.
//! Not here: how they are transferred (`worker::handover::import`).

use base::Time;

use crate::pool::{Pool, Tables};
use crate::slot::Slot;
use crate::{Command, ServerKey};

/// A server that is taken over from another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imported {
    /// When its login was completed.
    pub born: Time,
    /// Since when it has been idle or lent.
    pub since: Time,
    /// It is lent to a client that was taken over with it.
    pub is_lent: bool,
    /// It is not lent to another client.
    pub is_obsolete: bool,
}

impl Pool {
    /// Notes that the parameters with which clients are greeted were taken over from another process.
    pub(crate) fn note_welcome(&mut self) {
        self.logins.succeeded();
    }

    /// Adds a server from another process, either idle or lent to a client that is taken over as well.
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
            self.lends(now, tables, server);
        } else {
            self.rest(tables, server);
        }
        self.trim(now, tables, out);
        server
    }
}

/// The era in which a pool is opened. A server of an earlier era is obsolete.
pub(crate) const FIRST_ERA: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Pools};

    #[test]
    fn servers_that_arrive_lent_count_in_the_peak() {
        let mut pools = Pools::new(0);
        let pool = pools.open(Time(0), 0, 0, Limits::default());
        for is_lent in [true, false, true] {
            let imported = Imported { born: Time(0), since: Time(0), is_lent, is_obsolete: false };
            pools.arrive(Time(1), pool, imported, &mut Vec::new());
        }
        assert_eq!(pools.snapshot(Time(1), pool).map(|snapshot| snapshot.peak_lent), Some(2));
    }
}
