//! Obsolete servers: opened before a reload that changed the connection settings, before RECONNECT, or at a former address
//! of their host.
//!
//! Always true: an obsolete server is not lent again. A client keeps a lent one until its loan ends; dedicated servers are
//! closed at once, because their use might never end.
//! Not here: the check of a returned server (`pool`).

use base::Time;

use crate::dial::Logins;
use crate::pool::{Pool, Tables};
use crate::slot::State;
use crate::{CloseReason, Command, ServerKey};

impl Pool {
    /// Makes all present servers obsolete, and forgets the outcomes of former logins.
    pub(crate) fn retire(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        self.era += 1;
        self.logins = Logins::default();
        for server in self.servers.keys_staying(&tables.slots) {
            self.retire_server(now, tables, server, out);
        }
    }

    /// Makes a server obsolete.
    pub(crate) fn retire_server(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        let Some(slot) = tables.slots.get_mut(server) else { return };
        slot.era = slot.era.min(self.era - 1);
        match slot.state {
            State::Dialing => self.expire(now, tables, server, CloseReason::ConnectStringChanged, out),
            State::Dedicating => self.renounce(now, tables, server, CloseReason::ConnectStringChanged, out),
            // A client may keep a dedicated server for ever, so it is closed at once.
            State::Idle | State::Dedicated => {
                self.expire(now, tables, server, CloseReason::ConfigurationChanged, out);
            }
            _ => {}
        }
    }
}
