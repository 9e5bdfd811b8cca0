//! A server has advisory locks that no client is known to hold, or has not those that its client is known to hold.
//!
//! Always true: a server whose session should be nobody's and is not is closed, where sessions follow their clients.
//! Not here: how it was noticed (`control::sweeper`).

use pool::ServerKey;
use reactor::{Io, Level};
use route::Touches;

use crate::client::{Client, Stage as ClientStage};
use crate::server::Stage;
use crate::turn::Worker;

impl<I: Io> Worker<I> {
    /// What is told of a server by its number; meanwhile it may have got something to do, and then it will be asked again.
    pub(crate) fn locks_differ(&mut self, id: u64, locks: &[String], is_new: bool) {
        let of_this_number = self.servers.iter().find(|(_, server)| server.id == id);
        let Some((key, server)) = of_this_number.filter(|(_, server)| server.exchange.may_end()) else { return };
        let follows = self.places.pool(server.pool).is_some_and(|place| place.follows);
        match server.stage {
            Stage::Idle => {
                if is_new {
                    let what = if follows { "" } else { ", and keeps it: sessions do not follow their clients here" };
                    let (line, locks) = (self.server_prefix(key), locks.join(", "));
                    self.log.add(Level::Warning, format_args!("{line}has what no client holds: {locks}{what}"));
                }
                if follows {
                    self.lose_server(key, NOT_CLEAN);
                }
            }
            Stage::Lent { client, .. } if follows => self.ask_of_locks(key, client),
            _ => {}
        }
    }

    /// What a client holds is not what was known: its server is asked.
    fn ask_of_locks(&mut self, server_key: ServerKey, client_key: pool::ClientKey) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(traces) = ready.traces.as_mut().filter(|traces| !traces.is_asked_for()) else { return };
        traces.doubt(Touches::LOCKS);
        self.keep_or_look(server_key, client_key);
    }
}

/// Why a server goes that should have been clean.
const NOT_CLEAN: &str = "locks that no client holds";
