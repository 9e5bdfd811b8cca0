//! A loan ends.
//!
//! Always true: a server is given back only when it owes nothing, stands outside a transaction, no half message is on its
//! way to it and no cancel request is; otherwise it is mended first or closed.
//! Not here: whether a loan is over (`ending`), who gets which server (crate `pool`), how a server is made clean (`upstream::mend`).

use base::Time;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use reactor::Io;

use crate::data::client::{Client, Link, Stage as ClientStage};
use crate::upstream::cleaning::unfit;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Ends a loan whose server is clean.
    pub(crate) fn end_loan(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if let Some(Client { stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(client_key) {
            ready.link = Link::None;
            *answered = (*answered).max(server.answered);
        }
        if !server.session.exchange.may_be_lent() || server.session.is_in_message() {
            let why = unfit(&server.session.exchange);
            self.unlink_flow(client_key, server_key);
            self.lose_server(server_key, why);
        } else if server.session.cancels_sent > 0 {
            let is_reset = self.pools.limits(server.pool).is_some_and(|limits| limits.reset);
            if is_reset {
                self.mend(server_key, false);
            } else {
                self.hold_for_cancels(server_key);
            }
            self.unlink_flow(client_key, server_key);
        } else {
            server.comes_to_rest();
            self.unlink_flow(client_key, server_key);
            self.give_back(server_key);
        }
        // What the client said meanwhile begins its next request, if it has taken most of its answers.
        if !self.is_behind(client_key) {
            self.forward_held(client_key);
        }
        if self.places.has_idle_timeouts {
            self.arm_client(client_key);
        }
    }

    /// A server is lost before its client's request was sent to it: the request is still held, and is served by another one.
    pub(crate) fn lose_before_use(&mut self, server: ServerKey, client: ClientKey, since: Time, why: &str) {
        let Some(database) = self.servers.get(server).map(|server| server.database) else { return };
        let is_missed = self.keeps_something(client);
        self.lose_server(server, why);
        if is_missed {
            self.fail_client(client, &Fault::ServerCrashed);
            return;
        }
        self.lose_given_channels(client, database);
        self.want_again(client, since);
    }

    /// Whether the server of a client has what that would miss on any other: one that forgets its plans, or is told something anew, in the
    /// middle of a loan. The session for all misses nothing that its clients are not told of (`lose_given_channels`).
    fn keeps_something(&self, client: ClientKey) -> bool {
        let client = self.clients.get(client).filter(|client| !client.is_listener);
        client.is_some_and(|client| match &client.stage {
            ClientStage::Ready(ready) => ready.session.traces.as_ref().is_some_and(|traces| !traces.pins().is_empty()),
            _ => false,
        })
    }
}
