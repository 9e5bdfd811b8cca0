//! Handles a failed dial, at whatever stage it failed.
//!
//! Always true: the pool is told once, with the host and user of the failed login; remembered secrets that may have
//! been wrong are forgotten or queried again.
//! Not here: why the dial failed (`dial`, `login`).

use std::sync::Arc;

use auth::Secret;
use config::{Database, LoadBalance};
use measure::Closed;
use pool::{Event, Failure, FailureKind, PoolKey, ServerKey};
use reactor::Io;

use crate::letters::{Inquirer, ToControl};
use crate::registry::{Doubt, PoolPlace};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Reports a failed dial to the pool, at whatever stage it failed.
    pub(crate) fn dial_failed(&mut self, key: ServerKey, mut failure: Failure) {
        self.count_failed_handshake(key);
        let Some(server) = self.servers.get(key) else { return };
        let place = &mut self.registry.databases[server.database as usize];
        let stays = place.entry.as_ref().is_some_and(|entry| entry.load_balance_hosts == LoadBalance::Disable);
        if stays && failure.kind != FailureKind::Refused {
            place.host += 1;
        }
        let is_refused = failure.sqlstate.is_some() && server.dedicated.is_some();
        let pool = server.pool;
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
        self.drop_server(key, Closed::Other, if is_refused { "login failed" } else { &failure.text });
        self.tell_pools(Event::DialFailed { server: key, failure });
    }

    /// Names host and user of the login: the server's errors, such as `password authentication failed`, would otherwise
    /// read like errors of the client's own login.
    fn whose_login(&self, key: ServerKey) -> Arc<str> {
        let Some(server) = self.servers.get(key) else { return Arc::default() };
        let user = self.registry.pool(server.pool).map_or("", |place| &*place.user_name);
        let (host, port) = (server.host_word(), self.registry.port_of(server.database));
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

/// The server refused the password (`ERRCODE_INVALID_PASSWORD`).
const WRONG_PASSWORD: [u8; 5] = *b"28P01";
