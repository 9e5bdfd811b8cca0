//! A client comes to its pool and is let in, as soon as the pool knows the parameters of its servers.
//!
//! Always true: what the client sent before becomes its first request.
//! Not here: whether it may come in (`entry`).

use std::rc::Rc;
use std::time::Duration;

use auth::{ScramKeys, Secret};
use base::{Key, Time};
use config::{Database, ReadRouting};
use measure::{Closed, LoginOutcome};
use pool::{ClientKey, Event, Mode, PoolKey, ServerKey};
use protocol::client::greeting;
use protocol::fault::{EndedBy, Fault};
use protocol::loan::{ClientSession, LoanPhase, shared};
use protocol::state::Overrides;
use protocol::vars::{Tracked, Vars};
use reactor::{Io, Receive};

use crate::admission::applicant::{LoginWait, add_host};
use crate::data::accepted::AcceptedParameters;
use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::server::ServerStage;
use crate::measured::Measured;
use crate::planted::opens_paused;
use crate::registry::{Doubt, PoolPlace, Welcome};
use crate::repeated::Repeated;
use crate::upstream::dedicated::CLIENT_GONE;
use crate::upstream::introduction::begun_with;
use crate::watched::Watched;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether the SCRAM keys of a client may open the servers of its pool: the pool's user is the client's, or, where the
    /// database line names a user, the SCRAM secret of that user is the one that the client has proved to know.
    fn fits_servers(&self, pool: PoolKey, entry: &Database, keys: &ScramKeys) -> bool {
        let place = self.registry.pool(pool).filter(|_| entry.user.is_some());
        place.is_none_or(|place| match &*self.secret_of_pool(place, entry).0 {
            Secret::Scram(secret) => secret.is_opened_by(keys),
            _ => false,
        })
    }

    /// The client belongs to the pool of this server user: it is let in as soon as the pool knows its servers' parameters.
    pub(crate) fn enter_pool(
        &mut self,
        key: Key,
        database: u32,
        entry: &Database,
        on_server: &str,
        keys: Option<ScramKeys>,
    ) {
        let pool = self.pool_for(database, entry, on_server);
        if let Some(keys) = keys.filter(|keys| self.fits_servers(pool, entry, keys))
            && let Some(place) = self.registry.pool_mut(pool)
        {
            place.keys = Some(keys);
        }
        let Some(client) = self.clients.get_mut(key) else { return };
        let is_own = client.is_own;
        let ClientStage::Login(login) = &mut client.stage else { return };
        let reported_secret = login.reported_secret.take().filter(|_| *login.request.user == *on_server);
        let judged = login.judged.take().filter(|_| *login.request.user == *on_server);
        if let Some(place) = self.registry.pool_mut(pool).filter(|_| !is_own) {
            place.judged = judged;
            if reported_secret.is_some() {
                (place.reported_secret, place.doubt) = (reported_secret, Doubt::None);
            }
        }
        login.wait_for(LoginWait::Welcome { pool, since: self.hands.now });
        let wants_stream = login.request.replication.is_some() && !is_own;
        self.hands.io.receive(client.conn, Receive::Stream);
        if wants_stream {
            self.want_dedicated(key, pool);
        } else if self.registry.pool(pool).is_some_and(|place| place.welcome_for(is_own).is_some()) {
            self.welcome(key);
        } else {
            self.tell_pools(Event::Greets { pool, client: key });
            self.arm_client(key);
            self.arm_watch();
        }
    }

    /// The pool of a user on a database; opened for its first client.
    pub(crate) fn pool_for(&mut self, database: u32, entry: &Database, on_server: &str) -> PoolKey {
        let number = self.registry.user(on_server, &self.hands.active.settings);
        if let Some(pool) = self.registry.pool_key(database, number) {
            return pool;
        }
        self.limit_user(number);
        let limit = self.hands.active.settings.max_db_connections(entry).unwrap_or(0);
        let line = self.registry.line_number(database, &self.hands.active.settings);
        self.pools.set_database_limit(line, limit);
        let limits = self.hands.active.settings.pool_limits(entry, on_server);
        let pool = self.pools.open(self.hands.now, line, number, limits);
        let user_name = self.registry.user_at(number).name.clone();
        let database_name = self.registry.database_at(database).name.clone();
        let lives = self.registry.take_former_pool(&database_name, &user_name);
        self.registry.insert_pool(
            pool,
            PoolPlace {
                database,
                database_name,
                user: number,
                user_name,
                mode: limits.mode,
                read_routing: self.hands.active.settings.read_routing(entry, on_server),
                home: None,
                replicas: None,
                ends_at_once: limits.mode == Mode::Transaction,
                follows: self.hands.active.settings.follows_state(entry, on_server),
                pin_rules: Rc::new(self.hands.active.settings.pin_rules(entry, on_server)),
                welcome: None,
                welcome_before: None,
                latest: None,
                accepted_parameters: AcceptedParameters::default(),
                keys: None,
                salted: None,
                paused: None,
                unused_since: None,
                reported_secret: None,
                doubt: Doubt::None,
                judged: None,
                measured: Measured::continued(lives),
                retired_by: EndedBy::default(),
                unserved: None,
                watched: Watched::default(),
                failed_resets: Repeated::default(),
                refused_resets: Repeated::default(),
            },
        );
        self.arm_sweep();
        if opens_paused(self.is_pause_ordered(pool).is_some()) {
            self.stand(pool);
        }
        pool
    }

    /// Opens pools with a `min_pool_size` whose user is known without a client (`user=`).
    pub(crate) fn open_forced_pools(&mut self) {
        let active = self.hands.active.clone();
        for (name, entry) in &active.settings.databases {
            let Some(user) = entry.user.clone() else { continue };
            let has_minimum = active.settings.pool_limits(entry, &user).servers_min > 0;
            if has_minimum && active.homes.home_of(name) == self.hands.id {
                let database = self.registry.database(name, Some(entry.clone()));
                self.pool_for(database, entry, &user);
            }
        }
    }

    /// Lets in a client for whose pool the servers' parameters are known.
    pub(crate) fn welcome(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Login(login), peer, is_own, .. }) = self.clients.get(key) else { return };
        let Some(pool) = login.waits_for() else { return };
        let Some(place) = self.registry.pool(pool) else { return };
        let Some(welcome) = place.welcome_for(*is_own).cloned() else { return };
        let (tracked, begins) = (&self.hands.active.tracked, welcome.statuses.vars());
        // What the servers report follows the client as a parameter, some of it only where its session state does not.
        let is_parameter = |name: &str| {
            let place_of = if place.follows { Tracked::place } else { Tracked::reported_place };
            place_of(tracked, name).is_some_and(|at| begins.get(at).is_some())
        };
        let mut settings = Overrides::default();
        let given = login.request.settings.iter().filter(|(name, _)| !is_parameter(name));
        given.for_each(|(name, value)| settings.set(name, value));
        // In session pooling the client keeps the server that it is set on.
        let can_be_set = place.follows || place.mode == Mode::Session;
        if let Some((name, _)) = settings.iter().next().filter(|_| !can_be_set) {
            let fault = Fault::StartupParameter { name: name.into() };
            self.fail_client(key, &fault);
            return;
        }
        let mut vars = login.request.vars.clone();
        if self.hands.active.settings.application_name_add_host && !*is_own {
            add_host(
                &mut vars,
                self.hands.active.tracked.application_name(),
                *peer,
                self.hands.active.settings.listen_port,
            );
        }
        vars.spell_like(begins, tracked);
        let vars = if vars.complete_from(begins) { begins.clone() } else { self.known_vars.share(vars) };
        self.let_in(key, pool, &welcome, (vars, settings), Link::None);
    }

    /// Sends a client AuthenticationOk, the parameters of its servers and its cancel key. `link` is a dedicated server,
    /// if it has one.
    pub(crate) fn let_in(
        &mut self,
        key: Key,
        pool: PoolKey,
        welcome: &Welcome,
        (vars, given): (Rc<Vars>, Overrides),
        link: Link,
    ) {
        let Some(Client { stage: ClientStage::Login(login), is_own, slots, .. }) = self.clients.get(key) else {
            return;
        };
        let (is_own, replication, minor) = (*is_own, login.request.replication, login.request.minor);
        let user = match slots.counted {
            Some((_, user)) => user,
            None => self.registry.user(&login.request.user, &self.hands.active.settings),
        };
        let mut placeholders = 0;
        if let Some((database, user)) = self.registry.pool(pool).map(|place| (place.database, place.user)) {
            let function_catalog = &mut self.registry.database_at_mut(database).function_catalog;
            let names = given.iter().map(|(name, _)| name).filter(|name| name.contains('.'));
            placeholders = function_catalog.custom.mention(user, names, self.hands.now);
        }
        if let Some(place) = self.registry.pool_mut(pool).filter(|place| place.follows && !is_own) {
            place.latest = Some(vars.clone());
        }
        let cancel_key = self.cancel.draw_key(key, minor, &mut self.hands);
        let notice = self.hands.active.settings.login_notify_message.as_deref();
        let (fixed, statuses, tracked) = (&welcome.fixed, &welcome.statuses, &self.hands.active.tracked);
        let out = greeting::welcome(fixed, statuses, &vars, tracked, cancel_key.bytes(), notice);
        let Some(client) = self.clients.get_mut(key) else { return };
        let initial_overrides = shared(given);
        let overrides = if matches!(link, Link::None) {
            begun_with(&welcome.begun, &initial_overrides)
        } else {
            initial_overrides.clone()
        };
        let session = ClientSession { initial_overrides, overrides, placeholders, ..ClientSession::new(user, vars) };
        let mut ready = Ready::new(pool, session, cancel_key);
        ready.takes(link);
        ready.streams(replication);
        if ready.session().overrides.as_ref().is_some_and(|overrides| !overrides.statements().is_empty()) {
            ready.session_mut().session_effects.get_or_insert_default().begin_with_statements();
        }
        let place = self.registry.pool(pool);
        let is_routed = place.is_some_and(|place| place.read_routing != ReadRouting::Off);
        ready.route_reads(is_routed && !is_own && replication.is_none(), None);
        let ready = ClientStage::Ready(ready);
        let ClientStage::Login(login) = std::mem::replace(&mut client.stage, ready) else { return };
        client.answered = self.hands.now;
        if let Some((timer, _)) = client.timer.take() {
            self.hands.timers.remove(timer);
        }
        self.hands.io.send(client.conn, out.into());
        self.hands.io.receive(client.conn, Receive::Stream);
        if !is_own {
            self.hands.connections.login_ends(login.step, LoginOutcome::Accepted);
        }
        if self.tracers.is_any() {
            self.trace_login(key);
        }
        self.hear_early(key, login.unread);
        let ready = self.clients.ready(key);
        let overrides = ready.and_then(|ready| ready.session().overrides.as_ref());
        if self.registry.has_idle_timeouts() || overrides.is_some_and(|overrides| overrides.acts_at_rest()) {
            self.arm_client(key);
        }
    }

    /// Handles what a client sent before it was let in as its first request.
    pub(crate) fn hear_early(&mut self, key: Key, unread: Vec<u8>) {
        match self.clients.get(key).map(|client| &client.stage) {
            Some(ClientStage::Ready(_)) if !unread.is_empty() => self.hear(key, unread.into()),
            Some(ClientStage::Console(_)) => self.console_received(key, &unread),
            _ => {}
        }
    }

    /// Gives a client the dedicated server that was dialed for it.
    pub(crate) fn bind(&mut self, client_key: ClientKey, server_key: ServerKey, waited: Duration) {
        let Some(server) = self.servers.get_mut(server_key) else {
            // The server has gone in this very turn: the client asks for another one.
            self.want_dedicated_again(client_key, Time(self.hands.now.0.saturating_sub(waited.as_micros() as u64)));
            return;
        };
        let welcome = server.take_welcome();
        let given = match self.clients.get(client_key).map(|client| &client.stage) {
            Some(ClientStage::Login(login)) if login.dedicating == Some(server_key) => {
                Some(login.request.settings.clone())
            }
            _ => None,
        };
        let (Some(welcome), Some(given)) = (welcome, given) else {
            self.lose_server(server_key, Closed::Client, CLIENT_GONE);
            return;
        };
        // Anything that could mix two clients' bytes aborts the process: a restart costs a second, a mixed answer
        // cannot be undone.
        assert!(matches!(server.stage(), ServerStage::Idle), "a server was to be bound that is not at rest");
        server.lends(client_key, LoanPhase::Running);
        server.note_request(self.hands.now);
        let (pool, vars) = (server.pool(), server.session().vars.clone());
        let totals = &mut self.registry.database_at_mut(server.database()).totals;
        totals.wait_time += waited.as_micros() as u64;
        self.let_in(client_key, pool, &welcome, (vars, given), Link::Loan(server_key));
    }

    fn want_dedicated_again(&mut self, client_key: ClientKey, since: Time) {
        let pool = match self.clients.get(client_key).map(|client| &client.stage) {
            Some(ClientStage::Login(login)) if login.dedicating.is_none() => login.waits_for(),
            _ => None,
        };
        if let Some(pool) = pool {
            self.tell_pools(Event::WantsDedicated { pool, client: client_key, since });
        }
    }
}
