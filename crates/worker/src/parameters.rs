//! Parameters that servers report.
//!
//! Always true: what a server reports during a loan is its client's, too, but for what the server is told at its beginning.
//! Not here: how one is brought to what a client has (`loan`).

use base::planted::{self, Planted};
use pool::ServerKey;
use reactor::Io;
use wire::{backend, write};

use crate::client::{Client, Stage as ClientStage};
use crate::server::{CatchingUp, Stage};
use crate::turn::Worker;

impl<I: Io> Worker<I> {
    /// A parameter has another value; the client of a loan has been told by the same message.
    pub(crate) fn parameter_told(&mut self, key: ServerKey, body: &[u8]) {
        let Some((name, value)) = backend::parameter_status(body) else { return };
        if let Some(place) = self.force.tracked.place(name) {
            self.parameter_is(key, place, value);
        }
    }

    fn parameter_is(&mut self, key: ServerKey, place: usize, value: &str) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if planted::is(Planted::RolledBackParameter) && server.client().is_none() {
            return;
        }
        let is_name = place == self.force.tracked.application_name();
        if is_name {
            server.session.reported_name = None;
        }
        if server.session.vars.get(place) == Some(value) {
            return;
        }
        let mut vars = (*server.session.vars).clone();
        vars.set(place, value);
        let vars = self.share_vars(vars);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.session.vars = vars.clone();
        // Its client may have left before it heard of it.
        if !is_name {
            server.session.stock.doubt_this_loan();
        }
        if let Stage::Lent { client, catching_up: None | Some(CatchingUp::Untold) } = server.stage
            && let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client)
        {
            ready.session.vars = vars;
        }
    }

    /// A server is ready that was given its client's name along with the request, and has reported no name: the request has set that which was
    /// reported last. Its client is told so.
    pub(crate) fn keeps_its_name(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let Some(name) = server.session.reported_name.take() else { return };
        let place = self.force.tracked.application_name();
        if server.session.vars.get(place) == Some(&*name) {
            return;
        }
        let mut status = Vec::new();
        write::parameter_status(&mut status, "application_name", &name);
        self.give_client_own(key, status.into());
        self.parameter_is(key, place, &name);
    }
}
