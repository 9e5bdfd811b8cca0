//! Handles a failed dial, at whatever stage it failed.
//!
//! Always true: the pool is told once, with the host and user of the failed login; another host is tried at once, if there is one
//! that was not tried; remembered secrets that may have been wrong are forgotten or queried again.
//! Not here: why the dial failed (`dial`, `login`, `role`), when hosts are tried again (`outages`).

use std::sync::Arc;

use auth::Secret;
use config::Database;
use measure::{Closed, LoginEnd};
use pool::{Event, Failure, FailureKind, PoolKey, ServerKey};
use reactor::{Io, Level};

use crate::data::server::ServerStage;
use crate::letters::{Inquirer, ToControl};
use crate::registry::{Doubt, PoolPlace};
use crate::timers::Timer;
use crate::upstream::role::asks_for_role;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Reports a failed dial to the pool, at whatever stage it failed.
    pub(crate) fn dial_failed(&mut self, key: ServerKey, mut failure: Failure) {
        self.count_failed_handshake(key);
        let Some(server) = self.servers.get(key) else { return };
        let (pool, is_logged_in) = (server.pool(), matches!(server.stage(), ServerStage::Introducing));
        failure.whose = Some(self.whose_login(key));
        let kind = failure.kind;
        if let Some(place) = self.registry.pool_mut(pool) {
            // The SCRAM keys or the salted password may have been wrong.
            place.salted = None;
            let is_unproved = failure.kind == FailureKind::Refused && failure.sqlstate.is_none();
            if is_unproved || failure.sqlstate == Some(WRONG_PASSWORD) {
                // The secret that `auth_query` returned may be out of date: the next client of this user queries it again.
                self.remembered.forget(&place.database_name, &place.user_name);
                if self.doubt_secret_of_pool(pool) {
                    // Waiting clients are served as soon as the current secret is known.
                    failure.kind = FailureKind::Passing;
                }
            }
        }
        self.report_failed_dial(key, pool, kind, &failure);
        self.count_failed_server_login(key, kind, &failure);
        failure.kind = self.kind_by_hosts(key, failure.kind);
        if kind != FailureKind::Refused && !is_logged_in {
            failure = self.for_want_of_a_replica(key, failure);
        }
        let has_one_host = self.registry.entry_of(pool).is_some_and(|entry| entry.hosts.len() == 1);
        if kind != FailureKind::Refused && !is_logged_in {
            self.note_outage(key, failure.kind);
        } else if failure.sqlstate.is_some() && has_one_host {
            // The host answers logins.
            self.end_outage(key);
        }
        self.end_dial(key, failure);
    }

    /// A login has shown that its host is not what the database asks for. The failure is that of the whole search for a host.
    pub(super) fn host_does_not_suit(&mut self, key: ServerKey, mut failure: Failure) {
        failure.whose = Some(self.whose_login(key));
        self.note_host(key, LoginEnd::Accepted);
        if failure.kind != FailureKind::Elsewhere {
            let line = self.server_prefix(key);
            let words = format_args!("no host of the database fits target_session_attrs: {}", failure.words());
            self.hands.log.about(&line, self.dial_level(key, Level::Warning), words);
            self.count_failed_server_login(key, failure.kind, &failure);
        }
        self.search_ends(key, failure);
    }

    /// A search for a host is over without one, or goes on with the next dial.
    pub(super) fn search_ends(&mut self, key: ServerKey, failure: Failure) {
        self.note_outage(key, failure.kind);
        let failure = self.for_want_of_a_replica(key, failure);
        self.end_dial(key, failure);
    }

    fn end_dial(&mut self, key: ServerKey, failure: Failure) {
        let is_dedicated = self.servers.get(key).is_some_and(|server| server.dedicated().is_some());
        let is_refused = failure.sqlstate.is_some() && is_dedicated;
        self.drop_server(key, Closed::Other, if is_refused { "login failed" } else { &failure.text });
        self.tell_pools(Event::DialFailed { server: key, failure });
    }

    /// What a failure of this kind at one of several hosts means: another host is tried, or while none is what the database asks for,
    /// clients wait until one becomes that. What fails after a login (`connect_query`) is not the fault of the host, and would fail elsewhere.
    fn kind_by_hosts(&mut self, key: ServerKey, kind: FailureKind) -> FailureKind {
        let Some(server) = self.servers.get(key) else { return kind };
        let is_logged_in = matches!(server.stage(), ServerStage::Introducing);
        let place = self.registry.database_at_mut(server.database());
        let goes_on = match kind {
            FailureKind::Unreachable | FailureKind::Passing if !is_logged_in => {
                place.host_choice.fails(server.host().place(), self.hands.now)
            }
            _ => place.host_choice.was_in_vain(server.host().place()),
        };
        let asks_for_role = place.entry.as_ref().is_some_and(|entry| asks_for_role(entry));
        match kind {
            _ if is_logged_in => kind,
            _ if goes_on => FailureKind::Elsewhere,
            FailureKind::Unreachable if asks_for_role => FailureKind::Passing,
            _ => kind,
        }
    }

    /// No host of a server's database can be used, unless the search for one goes on.
    fn note_outage(&mut self, key: ServerKey, kind: FailureKind) {
        let Some(server) = self.servers.get(key).filter(|_| kind != FailureKind::Elsewhere) else { return };
        let pool = server.pool();
        let Some(hosts) = self.registry.entry_of(pool).map(|entry| hosts_word(entry)) else { return };
        let longest = self.hands.active.settings.server_login_retry;
        if let Some(at) = self.hosts.outage_begins(&hosts, pool, self.hands.now, longest) {
            self.hands.timers.insert(at, Timer::Outages);
        }
    }

    /// Whether the failed logins at the hosts of a database have been logged a moment ago.
    pub(super) fn is_outage_told(&mut self, entry: &Database) -> bool {
        let every = self.hands.active.settings.server_login_retry;
        self.hosts.is_outage_told(|| hosts_word(entry), self.hands.now, every)
    }

    /// A server is ready: the search for a host is over.
    pub(super) fn end_search(&mut self, key: ServerKey) {
        if let Some(server) = self.servers.get(key) {
            self.registry.database_at_mut(server.database()).host_choice.ends();
        }
    }

    /// A host has answered a login: all pools that need the same hosts may log in again.
    pub(super) fn end_outage(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.host_mut().is_reached();
        let entry = self.registry.entry_of(server.pool());
        let Some(outage) = self.hosts.outage_ends(|| entry.map(|entry| hosts_word(entry))) else { return };
        let lasted = self.hands.now.since(outage.since).as_secs_f32();
        self.log_server(key, Level::Log, format_args!("the host answers logins again, after {lasted:.1} s"));
        for pool in outage.pools {
            self.tell_pools(Event::TryAgain { pool });
        }
    }

    /// Hosts that are out of order are tried again for a pool in which clients wait.
    pub(crate) fn try_hosts_again(&mut self) {
        let longest = self.hands.active.settings.server_login_retry;
        let (registry, pools) = (&self.registry, &self.pools);
        let is_known = |pool| registry.pool(pool).is_some();
        let (due, next) = self.hosts.due(self.hands.now, longest, is_known, |pool| pools.waits_for_login(pool));
        for pool in due {
            self.tell_pools(Event::TryAgain { pool });
        }
        if let Some(at) = next {
            self.hands.timers.insert(at, Timer::Outages);
        }
    }

    /// Names host and user of the login: the server's errors, such as `password authentication failed`, would otherwise
    /// read like errors of the client's own login.
    fn whose_login(&self, key: ServerKey) -> Arc<str> {
        let Some(server) = self.servers.get(key) else { return Arc::default() };
        let user = self.registry.pool(server.pool()).map_or("", |place| &*place.user_name);
        if !server.host().is_known() {
            return format!("user \"{user}\"").into();
        }
        let (host, port) = (server.host().word(), server.host().port());
        format!("host {host}, port {port}, user \"{user}\"").into()
    }

    /// The secret of a pool's user, and whether it came from `auth_query`.
    pub(crate) fn secret_of_pool(&self, place: &PoolPlace, entry: &Database) -> (Arc<Secret>, bool) {
        // As in PgBouncer, the password of a database line belongs to the user of that line.
        let own = entry.password.as_ref().filter(|_| entry.user.as_deref() == Some(&*place.user_name));
        // It is any secret that the auth file may have, too: the password itself, its md5 hash, or a SCRAM secret.
        if let Some(own) = own.map(|password| Secret::parse(password.expose())).filter(|secret| !secret.is_none()) {
            return (Arc::new(own), false);
        }
        let listed = self.hands.active.users.secret(&place.user_name).filter(|secret| !secret.is_none());
        match (place.judged.as_ref().or(listed), &place.reported_secret) {
            (Some(known), _) => (known.clone(), false),
            (None, Some(reported)) => (reported.clone(), true),
            (None, None) => (Arc::default(), false),
        }
    }

    /// Whether the servers of a pool are logged in with a secret from `auth_query`.
    pub(crate) fn is_told_secret(&self, pool: PoolKey) -> bool {
        let place = self.registry.pool(pool).zip(self.registry.entry_of(pool));
        place.is_some_and(|(place, entry)| self.secret_of_pool(place, entry).1)
    }

    /// A server refused the password of a pool's user. If that secret came from `auth_query`, it is queried again,
    /// because the clients that wait in the pool authenticated earlier and will not log in once more. Returns whether
    /// the query may find another secret.
    pub(crate) fn doubt_secret_of_pool(&mut self, key: PoolKey) -> bool {
        let Some(place) = self.registry.pool(key).filter(|_| self.is_told_secret(key)) else { return false };
        let doubt = place.doubt;
        if doubt == Doubt::Asking {
            return true;
        }
        let (database, user) = (place.database_name.clone(), place.user_name.clone());
        let Ok(Some(question)) = self.secret_question(Inquirer::Pool(key), &database, &user) else { return false };
        // The auth query would have to run in this very pool.
        if question.asker == user {
            return false;
        }
        if let Some(place) = self.registry.pool_mut(key) {
            place.doubt = Doubt::Asking;
        }
        (self.hands.posts.control)(ToControl::AskSecret(question));
        doubt == Doubt::None
    }
}

/// The hosts of a database and what it asks of them: databases of which this is equal share their outages.
fn hosts_word(entry: &Database) -> String {
    let hosts: Vec<_> = entry.hosts_with_ports().map(|(host, port)| host.at(port)).collect();
    format!("{} {:?}", hosts.join(","), entry.target_session_attrs)
}

/// The server refused the password (`ERRCODE_INVALID_PASSWORD`).
const WRONG_PASSWORD: [u8; 5] = *b"28P01";
