//! A statement needs a database to itself. PostgreSQL waits 5 seconds for all other sessions to leave the database, and
//! our idle servers would not.
//!
//! Always true: only idle servers are closed, connected to that database at the very address at which the statement runs.
//! Not here: which statement it is (`claims`), what a pool does about it (`pool::Event::Vacate`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::counted;
use config::{Database, Host};
use pool::{Event, ServerKey};
use protocol::fault::EndedBy;
use reactor::{Address, Io, Level, Subject};
use route::Claim;

use crate::data::catalog::FunctionsMade;
use crate::data::claims::{ClaimPhase, ClaimProgress};
use crate::data::server::ServerStage;
use crate::upstream::host_names::fixed_address;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client of some worker has sent such a statement.
    pub(crate) fn follow_claim(&mut self, progress: &ClaimProgress) {
        match &progress.phase {
            ClaimPhase::Waits(client) => self.vacate(&progress.claim, &progress.address, client),
            ClaimPhase::Done => {
                // Servers of the old database are gone. Nothing is known of what new servers report and can do, and a
                // login that failed for lack of the database may succeed now.
                for number in
                    self.databases_at(&progress.address, |name| progress.claim.changed().any(|other| other == name))
                {
                    let (place, scopes) = self.registry.database_and_scopes(number);
                    place.function_catalog.forget(scopes);
                    place.changes += 1;
                    self.retire_servers_of(number, EndedBy::Claim);
                }
            }
        }
    }

    /// Closes the idle servers of a database.
    fn vacate(&mut self, claim: &Claim, address: &Address, client: &Subject) {
        let databases = self.databases_at(address, |name| *name == *claim.database);
        let pools: Vec<_> = self
            .registry
            .pools()
            .filter(|(_, place)| databases.contains(&place.database))
            .map(|(key, _)| key)
            .collect();
        for pool in pools {
            self.tell_pools(Event::Vacate { pool });
        }
        let is_there = |database, at: Option<&Address>| databases.contains(&database) && at == Some(address);
        let servers = self.servers.iter().filter(|(_, server)| is_there(server.database, server.address.as_ref()));
        let (idle, others): (Vec<_>, Vec<_>) =
            servers.partition(|(_, server)| matches!(server.stage, ServerStage::Idle));
        let (idle, others): (Vec<_>, Vec<_>) = (keys(idle), keys(others));
        if !idle.is_empty() {
            let (name, purpose) = (&claim.database, claim.purpose);
            let connections = counted(idle.len(), "idle server connection");
            let what = format_args!("closing {connections} to \"{name}\": client wants to {purpose} it");
            self.hands.log.about(client, Level::Log, what);
        }
        for server in idle.into_iter().chain(others) {
            self.tell_pools(Event::VacateServer { server });
            self.settle();
        }
        for database in databases {
            self.end_idle_listener(database, address);
            self.settle();
        }
    }

    /// The databases in use that may be at an address under such a name.
    pub(crate) fn databases_at(&self, address: &Address, is_called: impl Fn(&str) -> bool) -> BTreeSet<u32> {
        let is_there = |entry: &Arc<Database>| is_called(&entry.dbname) && may_be_at(entry, address);
        let there = self.registry.databases().filter(|(_, place)| place.entry.as_ref().is_some_and(is_there));
        there.map(|(number, _)| number).collect()
    }

    /// A client of the same database under another name creates functions, or has done so.
    pub(crate) fn hear_of_functions(&mut self, made: &FunctionsMade) {
        for number in self.databases_at(&made.address, |name| *name == *made.dbname) {
            if made.known != (self.hands.id, number) {
                let (place, scopes) = self.registry.database_and_scopes(number);
                place.function_catalog.functions_created(scopes);
            }
        }
    }
}

fn keys<T>(rows: Vec<(ServerKey, T)>) -> Vec<ServerKey> {
    rows.into_iter().map(|(key, _)| key).collect()
}

/// Whether servers of a database may have this address.
fn may_be_at(entry: &Database, address: &Address) -> bool {
    entry.hosts_with_ports().any(|(host, port)| match (host, address) {
        (Host::Name(_), Address::Tcp(address)) => address.port() == port,
        _ => fixed_address(host, port).as_ref() == Some(address),
    })
}
