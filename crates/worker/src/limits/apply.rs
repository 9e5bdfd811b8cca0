//! Passes the limits that are in force to all machines.
//!
//! Always true: afterwards each pool, user and database has the limits of the settings, and the pools' commands that
//! follow from them are carried out.
//! Not here: where settings come from (`admin::reload`).

use config::ReadRouting;
use pool::{Mode, PoolKey};
use protocol::fault::{EndedBy, Fault};
use reactor::Io;

use crate::data::client::ClientStage;
use crate::data::server::Server;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Passes the limits that are in force to all machines.
    pub(crate) fn apply_limits(&mut self) {
        self.limit_unauthenticated();
        self.limits.lending.limit(&self.hands);
        self.statement_registry.limit_clients(self.hands.active.settings.max_client_memory as usize);
        self.registry.forget_timeouts();
        let active = self.hands.active.clone();
        let users: Vec<u32> = self.registry.users().map(|(number, _)| number).collect();
        for number in users {
            self.registry.time_user(number, &active.settings);
            self.limit_user(number);
        }
        let mut routed = Vec::new();
        for pool in self.registry.pool_keys() {
            let Some(place) = self.registry.pool(pool) else { continue };
            let (database, user) = (place.database, place.user_name.clone());
            let Some(entry) = self.registry.database_at(database).entry.clone() else { continue };
            let limit = active.settings.max_db_connections(&entry).unwrap_or(0);
            let line = self.registry.line_number(database, &active.settings);
            self.pools.set_database_limit(line, limit);
            let mut limits = active.settings.pool_limits(&entry, &user);
            if self.admin.is_going_down() {
                limits.servers_min = 0;
            }
            let follows = active.settings.follows_state(&entry, &user);
            if let Some(place) = self.registry.pool_mut(pool) {
                place.mode = limits.mode;
                place.ends_at_once = limits.mode == Mode::Transaction && place.home.is_none();
                let routing = active.settings.read_routing(&entry, &user);
                if place.home.is_none() && std::mem::replace(&mut place.read_routing, routing) != routing {
                    routed.push((pool, routing != ReadRouting::Off));
                }
                place.pin_rules = std::rc::Rc::new(active.settings.pin_rules(&entry, &user));
                let did_follow = std::mem::replace(&mut place.follows, follows);
                if did_follow != follows {
                    self.begin_anew(pool);
                }
            }
            self.with_pools(|pools, now, wanted| pools.set_limits(now, pool, limits, wanted));
            self.settle();
        }
        if !routed.is_empty() {
            for (_, client) in self.clients.iter_mut() {
                let ClientStage::Ready(ready) = &mut client.stage else { continue };
                let home = ready.home();
                if let Some((_, is_on)) = routed.iter().find(|(pool, _)| *pool == home) {
                    ready.route_reads(*is_on && !client.is_own, Some(self.hands.now));
                }
            }
        }
        let is_kept = |server: &Server| server.client().is_some_and(|client| self.is_marked(client));
        let kept: Vec<_> = self.servers.iter().filter(|(_, server)| is_kept(server)).map(|(key, _)| key).collect();
        kept.into_iter().for_each(|key| self.arm_server(key));
        if self.registry.has_idle_timeouts() {
            for key in self.clients.keys() {
                self.arm_client(key);
            }
        }
    }

    /// `session_state` of a pool has changed, so the state of its servers' sessions is unknown: replaces the servers.
    pub(crate) fn begin_anew(&mut self, pool: PoolKey) {
        self.tell_pools(pool::Event::Retire { pool });
        // In session pooling a client keeps its server anyway.
        let keeps = self.registry.pool(pool).is_some_and(|place| place.follows || place.mode == Mode::Session);
        let mut holders = Vec::new();
        for (key, client) in self.clients.iter_mut() {
            if let ClientStage::Ready(ready) = &mut client.stage
                && ready.home() == pool
            {
                let session_effects = ready.session().session_effects.as_ref();
                let holds = session_effects.is_some_and(|session_effects| session_effects.kept_since().is_some());
                if holds && !keeps && !client.is_own {
                    holders.push(key);
                }
                let session = ready.session_mut();
                session.overrides.clone_from(&session.initial_overrides);
                session.begin_unread();
            }
        }
        // The pins of these sessions would no longer be known: an error is better than an advisory lock that vanishes
        // silently.
        for holder in holders {
            self.fail_client(holder, &Fault::ConfigurationChanged { by: EndedBy::Reload });
        }
    }
}
