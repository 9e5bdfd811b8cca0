//! A server that is made clean has answered, or the cancel requests at it have come to their end.
//!
//! Always true: it is lent again only when it is proven clean.
//! Not here: how cleaning begins (`mend`).

use measure::Closed;
use pool::ServerKey;
use protocol::loan::conclude_alone;
use reactor::Io;

use crate::data::question::terms;
use crate::data::server::Stage;
use crate::tasks::Task;
use crate::upstream::cleaning::{Kind, is_at_work, proven};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The server that is made clean has said that it is ready.
    pub(crate) fn cleaning_goes_on(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if server.session.cancels_sent > 0 && server.session.exchange.owes_nothing() {
            // A cancel request that is still on its way would hit what we ask next.
            return;
        }
        let Stage::Cleaning(cleaning) = &mut server.stage else { return };
        // It does not hang; what its client had sent behind may have to be cancelled, too.
        cleaning.is_hurried = false;
        let mut out = Vec::new();
        let progress = match &mut cleaning.kind {
            Kind::Reset | Kind::Check | Kind::AwaitCancels => proven(&server.session.exchange),
            Kind::Probe => {
                self.probed_behind(key);
                return;
            }
            Kind::Mend(mend) => mend.go_on(&mut server.session.exchange, &mut out),
            Kind::Doomed { why, .. } => {
                let why = *why;
                if !is_at_work(&server.session.exchange) {
                    self.lose_server(key, Closed::Dirty, why);
                }
                return;
            }
        };
        if !out.is_empty() {
            self.io.send(server.conn, out.into());
        }
        self.progressed(key, progress);
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

    /// A server whose client has gone meanwhile has told what its session has: settings that any client can be given, nothing, or
    /// something that has to be discarded.
    pub(crate) fn probed_behind(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let probe = server.session.life.take_probe().map(|probe| *probe);
        let Some(place) = self.places.pool(server.pool) else { return self.end_probe(key, false) };
        let (is_clean, knowledge) = conclude_alone(&mut server.session, probe, terms(place, &self.force, self.now));
        self.learn(key, knowledge);
        self.end_probe(key, is_clean);
    }
}
