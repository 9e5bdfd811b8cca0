//! Changes of a database's catalog, noticed by the tags of commands that servers have run, and what workers tell each other when
//! functions are created.
//!
//! Always true: a change counts when it is made, and again when it is committed; so does the creation of functions, of which
//! nothing is known until a server has been probed after it. The message names the worker and the database that know already, and
//! is ignored there.
//! Not here: what follows from a change (`protocol::prepared`), which functions there are (`function_catalog`).

use base::WorkerId;
use pool::ServerKey;
use reactor::{Address, Io};
use wire::backend::TxStatus;

use crate::data::server::Server;
use crate::letters::ToWorker;
use crate::registry::DatabasePlace;
use crate::worker::Worker;

impl Server {
    /// The server is ready: if it has changed the catalog and committed that, the change is counted, since other
    /// sessions see it now. `scopes` is the last number of a scope; `is_asked_next` tells that a probe has been sent
    /// already, whose answer comes next. Returns whether the server has created functions.
    pub(crate) fn tell_of_catalog(&mut self, place: &mut DatabasePlace, scopes: &mut u32, is_asked_next: bool) -> bool {
        if self.session.exchange.status() != TxStatus::Idle {
            return false;
        }
        place.changes += u64::from(std::mem::take(&mut self.session.has_changed_catalog));
        let has_made_functions = std::mem::take(&mut self.session.makes_functions);
        if has_made_functions {
            // A server that was asked for functions meanwhile has not seen these.
            let sees_all = is_asked_next && self.session.creations_asked == place.function_catalog.creations();
            place.function_catalog.functions_created(scopes);
            if sees_all {
                self.session.creations_asked = place.function_catalog.creations();
            }
        }
        has_made_functions
    }
}

impl<I: Io> Worker<I> {
    /// A server creates functions, or has done so: tells all workers, which may have the same database under another name.
    pub(crate) fn tell_of_functions(&self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        let entry = self.registry.database_at(server.database).entry.as_ref();
        let (Some(entry), Some(address)) = (entry, server.address.clone()) else { return };
        let made = FunctionsMade { known: (self.hands.id, server.database), dbname: (&*entry.dbname).into(), address };
        self.hands.posts.workers.iter().for_each(|post| post(ToWorker::FunctionsMade(Box::new(made.clone()))));
    }

    /// A server has changed the catalog: statements that are prepared from now on may mean something else.
    pub(crate) fn catalog_changes(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        self.registry.database_at_mut(server.database).changes += 1;
        if let Some(client) = server.client() {
            self.claim_done(client);
        }
    }
}

/// Functions of a database are being created, or have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionsMade {
    /// The worker that knows of them, and for which of its databases.
    pub(super) known: (WorkerId, u32),
    /// The name of the database on the server,
    pub(super) dbname: Box<str>,
    /// and the server's address.
    pub(super) address: Address,
}
