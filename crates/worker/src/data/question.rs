//! Asks servers what their sessions keep.
//!
//! Always true: no probe is sent while a cancel request is on its way, which would hit the probe, nor to a server whose
//! answers can no longer be told apart.
//! Not here: what is asked and what the answer means (`protocol::state`); what is done then (`probe`, `answered`).

use base::Time;
use measure::Closed;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{Life, Terms, Unlendable};
use protocol::state::Probe;
use reactor::{Io, Level};
use route::{Knowledge, Unread};
use wire::{frontend, write};

use crate::letters::ActiveConfig;
use crate::registry::PoolPlace;
use crate::worker::Worker;

/// The rules by which session state follows the clients of a pool.
pub(crate) fn terms<'a>(place: &'a PoolPlace, active: &'a ActiveConfig, now: Time) -> Terms<'a> {
    Terms {
        now,
        tracked: &active.tracked,
        login: &place.user_name,
        server_user: place.user,
        rules: &place.pin_rules,
        verifies: active.settings.session_verify,
    }
}

impl<I: Io> Worker<I> {
    /// The probe for what the session has touched.
    pub(crate) fn question_of(&self, server_key: ServerKey, client_key: ClientKey) -> Option<Probe> {
        let server = self.servers.get(server_key)?;
        let client = self.clients.get(client_key)?;
        let ready = client.ready()?;
        let terms = terms(self.registry.pool(server.pool)?, &self.active, self.now);
        ready.session.question(client.since, terms, &self.registry.databases[server.database as usize].function_catalog)
    }

    /// Sends a probe to a server.
    pub(crate) fn ask(&mut self, server_key: ServerKey, probe: Probe) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let mut out = Vec::new();
        // A Sync would not tell its answer from that of a stray one.
        if probe.is_of_nothing() && server.session.exchange.is_proven() {
            write::bare(&mut out, frontend::SYNC);
        } else {
            write::query(&mut out, &probe.question());
        }
        let probes = &mut self.registry.databases[server.database as usize].probes;
        probes.iter_mut().zip(probe.asks_for()).for_each(|(count, is_asked)| *count += u64::from(is_asked));
        server.session.exchange.asks_ours();
        server.session.creations_asked = self.registry.databases[server.database as usize].function_catalog.creations();
        server.session.life.becomes(Life::Probing(Box::new(probe)));
        server.request_time = self.now;
        self.io.send(server.conn, out.into());
    }

    pub(crate) fn learn(&mut self, server: ServerKey, knowledge: Option<Knowledge>) {
        let (Some(row), Some(knowledge)) = (self.servers.get(server), knowledge) else { return };
        self.registry.scopes += 1;
        let function_catalog = &mut self.registry.databases[row.database as usize].function_catalog;
        let what = match function_catalog.learn(knowledge, row.session.creations_asked, self.now, self.registry.scopes)
        {
            None | Some(Unread::Nothing) => return,
            Some(Unread::Some) => "functions with longer texts than are read: these may do anything",
            Some(Unread::All) => "more functions than are read: any statement may do anything",
        };
        self.log_server(server, Level::Warning, format_args!("database has {what}"));
    }

    /// Probes a server if that is needed; `unlistens` has the server leave its channels at once.
    pub(crate) fn probe_session(&mut self, server_key: ServerKey, client_key: ClientKey, unlistens: bool) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        if !self.registry.pool(server.pool).is_some_and(|place| place.follows) {
            // The setting has changed. The server is closed when it is given back.
            ready.session.session_effects = None;
            self.end_loan(server_key, client_key);
            return;
        }
        // A cancel request that is still on its way would hit the probe.
        if server.session.cancels_sent > 0 || !ready.is_asked_for() {
            self.arm_server(server_key);
            return;
        }
        if server.session.exchange.is_beyond_proof() {
            // It cannot be told any more which answer belongs to what, so a probe would prove nothing.
            self.lose_server(server_key, Closed::Dirty, Unlendable::Unproven.words());
            self.fail_client(client_key, &Fault::StateLost);
            return;
        }
        if let Some(mut probe) = self.question_of(server_key, client_key) {
            if unlistens {
                probe.unlisten();
            }
            self.ask(server_key, probe);
        }
        self.arm_server(server_key);
    }
}
