//! Parameters that servers report.
//!
//! Always true: what a server reports during a loan is its client's, too, but for what the server is told at its beginning.
//! Not here: how one is brought to what a client has (`loan`).

use base::planted::{self, Planted};
use pool::ServerKey;
use reactor::Io;
use wire::backend;

use crate::client::{Client, Stage as ClientStage};
use crate::server::{CatchingUp, Stage};
use crate::turn::Worker;

impl<I: Io> Worker<I> {
    /// A parameter has another value; the client of a loan has been told by the same message.
    pub(crate) fn parameter_told(&mut self, key: ServerKey, body: &[u8]) {
        let Some((name, value)) = backend::parameter_status(body) else { return };
        let Some(place) = self.force.tracked.place(name) else { return };
        let Some(server) = self.servers.get(key) else { return };
        if planted::is(Planted::RolledBackParameter) && server.client().is_none() {
            return;
        }
        if server.vars.get(place) == Some(value) {
            return;
        }
        let mut vars = (*server.vars).clone();
        vars.set(place, value);
        let vars = self.share_vars(vars);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.vars = vars.clone();
        // Its client may have left before it heard of it.
        if place != self.force.tracked.application_name() {
            server.stock.doubt_this_loan();
        }
        if let Stage::Lent { client, catching_up: None | Some(CatchingUp::Untold) } = server.stage
            && let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client)
        {
            ready.vars = vars;
        }
    }
}
