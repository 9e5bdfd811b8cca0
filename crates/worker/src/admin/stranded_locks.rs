//! Advisory locks that a server holds for no known client, or that it lacks although its client is known to hold them.
//!
//! Always true: where sessions follow their clients, an idle server with state of its own is closed; everything that
//! one PostgreSQL has reported is found in one pass over the servers.
//! Not here: how the difference was noticed (`control::sweeper`).

use std::collections::BTreeMap;

use measure::Closed;
use pool::ServerKey;
use reactor::{Io, Level};
use route::DirtyState;

use crate::data::server::ServerStage;
use crate::letters::LocksDiffer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Handles reports about servers, which are named by their numbers.
    pub(crate) fn locks_differ(&mut self, found: Vec<LocksDiffer>) {
        for (key, LocksDiffer { locks, is_new, .. }) in
            by_key(self.servers.iter().map(|(key, server)| (key, server.id())), found)
        {
            self.locks_of_server_differ(key, &locks, is_new);
            self.settle();
        }
    }

    /// A server that has got something to do meanwhile is left alone: it will be checked again.
    fn locks_of_server_differ(&mut self, key: ServerKey, locks: &[String], is_new: bool) {
        let Some(server) = self.servers.get(key).filter(|server| server.session().exchange.may_end()) else { return };
        let follows = self.registry.pool(server.pool()).is_some_and(|place| place.follows);
        match *server.stage() {
            ServerStage::Idle => {
                if is_new {
                    let what = if follows { "" } else { ", and keeps it: sessions do not follow their clients here" };
                    let (line, locks) = (self.server_prefix(key), locks.join(", "));
                    self.hands.log.about(
                        &line,
                        Level::Warning,
                        format_args!("has what no client holds: {locks}{what}"),
                    );
                }
                if follows {
                    self.lose_server(key, Closed::Dirty, NOT_CLEAN);
                }
            }
            ServerStage::Lent { client, .. } if follows => self.ask_of_locks(key, client),
            _ => {}
        }
    }

    /// A client does not hold what was known: its server is probed.
    fn ask_of_locks(&mut self, server_key: ServerKey, client_key: pool::ClientKey) {
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let Some(session_effects) =
            ready.session_mut().session_effects.as_mut().filter(|session_effects| !session_effects.is_asked_for())
        else {
            return;
        };
        session_effects.doubt(DirtyState::LOCKS);
        if self.keep_or_probe(server_key, client_key) {
            self.end_loan_if_over(server_key, client_key);
        }
    }
}

/// The servers that are reported on, found in one pass over all servers.
fn by_key(servers: impl Iterator<Item = (ServerKey, u64)>, found: Vec<LocksDiffer>) -> Vec<(ServerKey, LocksDiffer)> {
    let mut found: BTreeMap<u64, LocksDiffer> = found.into_iter().map(|one| (one.server, one)).collect();
    servers.filter_map(|(key, number)| found.remove(&number).map(|one| (key, one))).collect()
}

/// The reason that is logged when such a server is closed.
const NOT_CLEAN: &str = "locks that no client holds";

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(server: u64) -> LocksDiffer {
        LocksDiffer { server, locks: vec![format!("advisory lock {server}")], is_new: true }
    }

    /// All servers used to be looked through for each report.
    #[test]
    fn very_many_servers_are_found_by_their_numbers_at_once() {
        const COUNT: u32 = 500_000;
        let begun = std::time::Instant::now();
        let key = |index| ServerKey::first(index);
        let servers = (0..COUNT).map(|index| (key(index), 7 + u64::from(index)));
        // The first and the last report are about servers that do not exist any more.
        let told = (6..=u64::from(COUNT) + 7).rev().map(differs).collect();
        let found = by_key(servers, told);
        assert!(found.iter().zip(0..).all(|(found, index)| *found == (key(index), differs(7 + u64::from(index)))));
        assert_eq!(found.len(), COUNT as usize);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
