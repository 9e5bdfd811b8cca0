//! Continues the cleanup of a server when the server answers or its cancel requests have finished.
//!
//! Always true: a server is lent again only when it is proven clean.
//! Not here: how a cleanup begins (`begin_cleanup`).

use measure::Closed;
use pool::{Event, ServerKey};
use protocol::loan::{Ended, Life};
use reactor::Io;

use crate::data::question::terms;
use crate::data::server::ServerStage;
use crate::tasks::Task;
use crate::upstream::cleaning::Cleaning;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Continues the cleanup after the server's `ReadyForQuery`.
    pub(crate) fn continue_cleanup(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key).filter(|server| !server.session.would_be_cancelled()) else {
            return;
        };
        let ServerStage::Cleaning(cleaning) = &mut server.stage else { return };
        // The server answers, so it does not hang. Further queries that the client had pipelined may have to be
        // cancelled as well.
        cleaning.is_hurried = false;
        let (ended, knowledge) = match server.session.life {
            Life::ProbingAlone(_) => {
                let place = self.registry.pool(server.pool);
                let told = server.session.probed_alone(place.map(|place| terms(place, &self.active, self.now)));
                if matches!(server.session.life, Life::CleaningUp(_)) {
                    // The cleanup queries that follow the probe get a deadline of their own.
                    *cleaning = Cleaning::new(self.now, server.last_received, None);
                }
                told
            }
            _ => (server.session.continue_ending(), None),
        };
        self.learn(key, knowledge);
        let Some(server) = self.servers.get_mut(key) else { return };
        match ended {
            Ended::Clean => {
                server.stage = ServerStage::Idle;
                self.tell_pools(Event::Cleaned { server: key });
            }
            Ended::Unclean { out, .. } => {
                if !out.is_empty() {
                    self.io.send(server.conn, out.into());
                }
                self.arm_server(key);
            }
            Ended::Doomed(why) | Ended::Closed(why) => self.lose_server(key, Closed::Dirty, why.words()),
        }
    }

    /// The last cancel request at this server has finished.
    pub(crate) fn cancels_over(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        match &server.stage {
            ServerStage::Cleaning(_) => self.continue_cleanup(key),
            ServerStage::Lent { client, .. } => {
                let client = *client;
                if server.session.exchange.may_end() && server.session.life.probe().is_none() && self.is_marked(client)
                {
                    self.end_loan_if_over(key, client);
                }
                self.enqueue(Task::ForwardHeld(client));
            }
            _ => {}
        }
    }
}
