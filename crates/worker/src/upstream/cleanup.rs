//! A server that is made clean has answered, or the cancel requests at it have come to their end.
//!
//! Always true: it is lent again only when it is proven clean.
//! Not here: how cleaning begins (`begin_cleanup`).

use measure::Closed;
use pool::{Event, ServerKey};
use protocol::loan::{Ended, Life};
use reactor::Io;

use crate::data::question::terms;
use crate::data::server::Stage;
use crate::tasks::Task;
use crate::upstream::cleaning::Cleaning;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The server that is made clean has said that it is ready.
    pub(crate) fn cleaning_goes_on(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key).filter(|server| !server.session.would_be_cancelled()) else {
            return;
        };
        let Stage::Cleaning(cleaning) = &mut server.stage else { return };
        // It does not hang; what its client had sent behind may have to be cancelled, too.
        cleaning.is_hurried = false;
        let (ended, knowledge) = match server.session.life {
            Life::ProbingAlone(_) => {
                let place = self.registry.pool(server.pool);
                let told = server.session.probed_alone(place.map(|place| terms(place, &self.active, self.now)));
                if matches!(server.session.life, Life::Mending(_)) {
                    // What it is told from now on has a time of its own.
                    *cleaning = Cleaning::new(self.now, server.heard, None);
                }
                told
            }
            _ => (server.session.goes_on(), None),
        };
        self.learn(key, knowledge);
        let Some(server) = self.servers.get_mut(key) else { return };
        match ended {
            Ended::Clean => {
                server.stage = Stage::Idle;
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

    /// The last cancel request at this server has come to its end.
    pub(crate) fn cancels_over(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        match &server.stage {
            Stage::Cleaning(_) => self.cleaning_goes_on(key),
            Stage::Lent { client, .. } => {
                let client = *client;
                if server.session.exchange.may_end() && server.session.life.probe().is_none() && self.is_marked(client)
                {
                    self.end_loan_if_over(key, client);
                }
                self.enqueue(Task::GoOn(client));
            }
            _ => {}
        }
    }
}
