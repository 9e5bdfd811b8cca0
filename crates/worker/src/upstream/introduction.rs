//! Finds out the initial state of a server's session: what `connect_query` or a login event trigger has set and
//! prepared in it.
//!
//! Always true: where sessions follow clients, the server is probed before its first client comes, and the answer
//! becomes the initial session state of the pool's clients, so that no setting of it is taken for one that a client
//! made.
//! Not here: the login (`login`), what a probe and its answer mean (`protocol::state`).

use std::rc::Rc;

use measure::LoginEnd;
use pool::{Event, Failure, ServerKey};
use protocol::client::statuses::Statuses;
use protocol::loan::shared;
use protocol::state::{Overrides, Probe};
use reactor::Io;
use route::{Dialect, DirtyState, classify};

use crate::data::server::ServerStage;
use crate::registry::DatabasePlace;
use crate::worker::Worker;

/// Initial session state of a client: the defaults of the pool's servers, overridden by the client's startup parameters.
pub(crate) fn begun_with(begun: &Option<Rc<Overrides>>, given: &Option<Rc<Overrides>>) -> Option<Rc<Overrides>> {
    let (Some(begun), Some(given)) = (begun, given) else { return given.clone().or_else(|| begun.clone()) };
    let mut all = Overrides::clone(begun);
    given.iter().for_each(|(name, value)| all.set(name, value));
    Some(Rc::new(all))
}

impl<I: Io> Worker<I> {
    /// Sends a server that has logged in its `connect_query`.
    pub(crate) fn begin_introduction(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let takes_queries = server.dedicated().is_none_or(|dedicated| dedicated.takes_queries());
        let entry = self.registry.database_at(server.database()).entry.as_ref().filter(|_| takes_queries);
        match entry.and_then(|entry| entry.connect_query.clone()) {
            Some(query) => {
                server.enters(ServerStage::Introducing);
                server.ask(&mut self.hands.io, &query);
            }
            None => self.ask_at_first(key),
        }
    }

    /// Probes the initial session state and the functions of the database before the first client comes, if the pool
    /// needs that; otherwise the server is ready at once.
    pub(crate) fn ask_at_first(&mut self, key: ServerKey) {
        let Some(probe) = self.question_at_first(key) else {
            self.dialed(key);
            return;
        };
        let Some(server) = self.servers.get_mut(key) else { return };
        server.enters(ServerStage::Introducing);
        self.ask(key, probe);
    }

    fn question_at_first(&mut self, key: ServerKey) -> Option<Probe> {
        let server = self.servers.get_mut(key).filter(|server| server.dedicated().is_none())?;
        let place = self.registry.pool(server.pool()).filter(|place| place.follows)?;
        let (login, user, is_first) = (place.user_name.clone(), place.user, place.welcome.is_none());
        let has_begun = place.welcome.as_ref().is_some_and(|welcome| welcome.begun.is_some());
        let DatabasePlace { entry, function_catalog, .. } = self.registry.database_at_mut(server.database());
        let query = entry.as_ref().and_then(|entry| entry.connect_query.as_deref());
        if let Some(query) = query {
            let class = classify(query.as_bytes(), Dialect::default(), function_catalog.knowledge());
            let names = class.mentions.iter().map(|name| &**name);
            server.session_mut().placeholders |= function_catalog.custom.mention(user, names, self.hands.now);
        }
        let knowledge = function_catalog.knowledge();
        // Login event triggers are assumed to stay as the pool's first server has shown them.
        let begins = query.is_some() || is_first || has_begun;
        if knowledge.is_some() && !begins {
            return None;
        }
        let mut probe = Probe::new(
            if begins { DirtyState::ANY_SETTING | DirtyState::STATEMENTS } else { DirtyState::NOTHING },
            std::iter::empty(),
        );
        probe.add_custom(function_catalog.custom.of(user).chain(function_catalog.settings()), true);
        probe.ask_as(&login);
        probe.carry_statements();
        if knowledge.is_none() {
            probe.add_functions();
        }
        Some(probe)
    }

    /// `connect_query` or the probe of the initial state has been answered.
    pub(crate) fn introduced(&mut self, key: ServerKey) {
        if self.has_proved_role(key) {
            return;
        }
        let Some(server) = self.servers.get_mut(key) else { return };
        if let Some(probe) = server.session_mut().phase.take_probe() {
            // If this probe has failed, the server becomes ready all the same, and its first client gets the error.
            let seen = probe.end();
            let learns_settings = seen.as_ref().is_some_and(|seen| seen.has_learned_settings());
            if let Some(seen) = &seen {
                let login = self.registry.pool(server.pool()).map_or("", |place| &*place.user_name);
                let is_reported = |name: &str| server.session().vars.reports(&self.hands.active.tracked, name);
                let overrides = seen.overrides(&Overrides::default(), &is_reported, login);
                server.session_mut().overrides = shared(overrides);
            }
            self.learn(key, seen.and_then(|seen| seen.knowledge));
            match learns_settings {
                true => self.ask_at_first(key),
                false => self.dialed(key),
            }
        } else if server.session().exchange.may_end() {
            self.ask_at_first(key);
        } else if server.session().exchange.owes_nothing() {
            self.dial_failed(key, Failure::unreachable("exec_on_connect query failed"));
        }
    }

    /// The server is ready for its first client.
    pub(crate) fn dialed(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.comes_to_rest();
        server.note_received(self.hands.now);
        self.registry.database_at_mut(server.database()).is_missing = false;
        let (pool, is_shared) = (server.pool(), server.dedicated().is_none());
        // A dedicated server keeps its welcome for its own client.
        let welcome = is_shared.then(|| server.take_welcome()).flatten();
        if let Some((place, welcome)) = self.registry.pool_mut(pool).filter(|_| is_shared).zip(welcome) {
            match &mut place.welcome {
                None => {
                    let welcome = place.welcome.insert(welcome);
                    if server.session().overrides.is_some() {
                        Rc::make_mut(welcome).begun.clone_from(&server.session().overrides);
                    }
                }
                // The server may have another version than those before it.
                Some(greets) => {
                    let (ours, theirs) = (greets.statuses.vars(), welcome.statuses.vars());
                    if let Some(vars) = ours.with_those_of_server(theirs, &self.hands.active.tracked, false) {
                        let statuses = Statuses::new(self.known_vars.share(vars), &self.hands.active.tracked);
                        let greets = Rc::make_mut(greets);
                        (greets.statuses, greets.fixed) = (statuses, welcome.fixed.clone());
                    }
                }
            }
        }
        self.disarm_server(key);
        self.count_opened(key, None);
        self.report_dialed(key, pool);
        self.note_host(key, LoginEnd::Accepted);
        self.end_outage(key);
        self.end_search(key);
        self.tell_pools(Event::Ready { server: key });
        if is_shared && self.admin.is_ending_servers() {
            self.tell_pools(Event::Retire { pool });
        }
    }
}
