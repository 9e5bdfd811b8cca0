//! Pins: whether a client may keep its server, and the notices and log lines about that.
//!
//! Always true: a client that may not keep its server gets the reason as an error; what pins a server is logged once
//! for each statement and kind.
//! Not here: which pins a session has (`data::probe`), for how long (`deadlines`).

use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use protocol::state::{Kind, Pin, Policy};
use reactor::{Io, Level};
use wire::write::{self, Says};

use crate::data::client::{Client, Ready};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Returns why a client may not keep its server, if it may not.
    pub(crate) fn refuses_pins(&self, server: ServerKey, client: ClientKey) -> Option<Fault> {
        let ready = self.clients.ready_unless_own(client)?;
        let (pins, pool) = (ready.session().session_effects.as_ref()?.pins(), self.servers.get(server)?.pool());
        let rules = &self.registry.pool(pool)?.pin_rules;
        let refused = pins.kinds().find(|kind| rules.policy(*kind) == Policy::Reject);
        if let Some(kind) = refused {
            return Some(Fault::HoldRefused { kind });
        }
        // A pin by LISTEN lasts only until the database's listener has taken over, and a pin by sequences (`currval`)
        // only a moment.
        let listens_for_all = self.listens_for_all(server, client);
        let passes = |kind| match kind {
            Kind::Channel => listens_for_all,
            kind => kind == Kind::Sequence,
        };
        let is_passing = pins.kinds().all(passes);
        let is_new = !is_passing && pins.iter().all(|pin| pin.since == self.hands.now);
        let limit = rules.servers_max.filter(|_| is_new)?;
        // Starts from the servers, because a pool may have thousands of times as many clients.
        let is_kept = |client: &&Client| !client.is_own && client.ready().is_some_and(Ready::has_pins);
        let lent = self.servers.iter().filter(|(_, server)| server.pool() == pool);
        let lent = lent.filter_map(|(_, server)| self.clients.get(server.client()?));
        let kept = lent.filter(is_kept).count();
        let is_over = kept > limit as usize;
        let first = pins.iter().next().filter(|_| is_over)?;
        Some(Fault::PinsFull { limit, what: first.hold.words() })
    }

    /// Logs that a client keeps its server, and why, once for each statement and kind.
    pub(crate) fn tell_of_pins(&mut self, server: ServerKey, client: ClientKey) {
        self.trace_pins(client);
        let listens_for_all = self.listens_for_all(server, client);
        let Some(ready) = self.clients.ready_unless_own(client) else { return };
        let (Some(session_effects), Some(server)) = (&ready.session().session_effects, self.servers.get(server)) else {
            return;
        };
        let Some(rules) = self.registry.pool(server.pool()).map(|place| place.pin_rules.clone()) else { return };
        let function_catalog = &mut self.registry.database_at_mut(server.database()).function_catalog;
        let (mut texts, mut notices) = (Vec::new(), Vec::new());
        let is_passing = |kind: Kind| kind == Kind::Channel && listens_for_all;
        session_effects
            .pins()
            .begun(self.hands.now)
            .filter(|kind| !is_passing(*kind))
            .for_each(|kind| function_catalog.count_pin(kind));
        for Pin { hold, statement, .. } in
            session_effects.pins().news(self.hands.now).filter(|pin| !is_passing(pin.hold.kind))
        {
            if function_catalog.is_news(hold.kind, statement) {
                let by = if statement.is_empty() { "" } else { " by " };
                texts.push(format!("keeps its server: {}{by}{statement}", hold.words()));
            }
            if rules.policy(hold.kind) == Policy::Warn {
                let message = format!("this session keeps its server: {}", hold.words());
                let says = Says {
                    severity: "NOTICE",
                    sqlstate: "00000",
                    message: &message,
                    detail: None,
                    hint: Some(hold.kind.instead()),
                };
                write::notice(&mut notices, says);
            }
        }
        if !notices.is_empty()
            && let Some(client) = self.clients.get(client)
        {
            self.hands.io.send(client.conn, notices.into());
        }
        let line = self.client_prefix(client);
        for text in texts {
            self.hands.log.about(&line, Level::Log, format_args!("{text}"));
        }
    }
}
