//! Servers that a pool would not open like this any more: by a reload, by RECONNECT, or because their host has moved.
//!
//! Always true: none of them is lent again; who has one keeps it until the loan ends, unless it might never end.
//! Not here: how a server that comes back is looked at (`pool`).

use base::Time;

use crate::dial::Logins;
use crate::pool::{Pool, Tables};
use crate::slot::State;
use crate::{CloseReason, Command, ServerKey};

impl Pool {
    /// Servers opened until now are obsolete, and what is known of logins with them.
    pub(crate) fn retire(&mut self, now: Time, tables: &mut Tables, out: &mut Vec<Command>) {
        self.era += 1;
        self.logins = Logins::default();
        for server in self.servers.keys_staying(&tables.slots) {
            self.retire_server(now, tables, server, out);
        }
    }

    /// A server is obsolete.
    pub(crate) fn retire_server(&mut self, now: Time, tables: &mut Tables, server: ServerKey, out: &mut Vec<Command>) {
        let Some(slot) = tables.slots.get_mut(server) else { return };
        slot.era = slot.era.min(self.era - 1);
        match slot.state {
            State::Dialing => self.expire(now, tables, server, CloseReason::ConnectStringChanged, out),
            State::Dedicating => self.renounce(now, tables, server, CloseReason::ConnectStringChanged, out),
            // The loan of a bound one may last for ever, so its end is not waited for.
            State::Idle | State::Dedicated => {
                self.expire(now, tables, server, CloseReason::ConfigurationChanged, out);
            }
            _ => {}
        }
    }
}
