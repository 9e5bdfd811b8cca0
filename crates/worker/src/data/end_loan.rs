//! Ends loans.
//!
//! Always true: a server is given back only when it owes nothing, stands outside a transaction, and neither an
//! incomplete message nor a cancel request is on its way to it; otherwise it is cleaned up first or closed.
//! Not here: whether a loan is over (`loan_over`), what its server needs then (`protocol::loan`), which client gets the
//! server next (crate `pool`).

use pool::{ClientKey, ServerKey};
use protocol::loan::Ended;
use reactor::Io;

use crate::data::client::{Client, ClientStage, Link};
use crate::data::server::ServerStage;
use crate::tasks::Task;
use crate::upstream::begin_cleanup::reset_of;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Ends a loan whose server is clean.
    pub(crate) fn end_loan(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let (mut has_held, mut is_traced, mut is_timed) = (false, false, self.registry.has_idle_timeouts);
        if let Some(Client { stage: ClientStage::Ready(ready), answered, tracers, .. }) =
            self.clients.get_mut(client_key)
        {
            ready.link = Link::None;
            has_held = ready.held.is_some();
            *answered = (*answered).max(server.answered);
            is_traced = *tracers != 0;
            is_timed |= ready.session.overrides.as_ref().is_some_and(|overrides| overrides.acts_at_rest());
        }
        match server.session.ends(|| reset_of(&self.pools, &self.active, server.pool)) {
            Ended::Clean => {
                server.stage = ServerStage::Idle;
                self.unlink_flow(client_key, server_key);
                self.give_back(server_key);
            }
            ended => {
                self.take_back(server_key, ended);
                self.unlink_flow(client_key, server_key);
            }
        }
        if is_traced {
            self.trace_return(client_key, server_key);
        }
        // What the client sent meanwhile begins its next request, if it has read most of its answers.
        if has_held && !self.is_behind(client_key) {
            self.enqueue(Task::ForwardHeld(client_key));
        }
        if is_timed {
            self.arm_client(client_key);
        }
    }
}
