//! A dial has failed, whatever the stage.
//!
//! Always true: the pool is told once, with whose login it was; what may have been wrong of what was remembered is forgotten or asked anew.
//! Not here: why it has failed (`dial`, `login`).

use std::sync::Arc;

use auth::{Password, Secret};
use config::{Database, LoadBalance};
use measure::Closed;
use pool::{Event, Failure, FailureKind, PoolKey, ServerKey};
use reactor::Io;

use crate::letters::{Inquirer, ToControl};
use crate::registry::{Doubt, PoolPlace};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A dial has failed, whatever the stage.
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
            // Keys and salted passwords may be what was wrong.
            place.salted = None;
            let is_unproved = failure.kind == FailureKind::Refused && failure.sqlstate.is_none();
            if is_unproved || failure.sqlstate == Some(WRONG_PASSWORD) {
                // So may be what a server told of its user long ago: whoever comes next has it asked again.
                self.remembered.forget(&place.database_name, &place.user_name);
                if self.doubt_secret_of_pool(pool) {
                    // Who waits in the pool is served as soon as the secret of now is known.
                    failure.kind = FailureKind::Passing;
                }
            }
        }
        self.report_failed_dial(key, pool, kind, &failure);
        self.drop_server(key, Closed::Other, if is_refused { "login failed" } else { &failure.text });
        self.tell_pools(Event::DialFailed { server: key, failure });
    }

    /// Whose login at which host it is: what a server says of it, such as `password authentication failed`, reads like the client's own otherwise.
    fn whose_login(&self, key: ServerKey) -> Arc<str> {
        let Some(server) = self.servers.get(key) else { return Arc::default() };
        let user = self.registry.pool(server.pool).map_or("", |place| &*place.user_name);
        let entry = self.registry.databases[server.database as usize].entry.as_ref();
        let port = entry.map_or(0, |entry| entry.port);
        let host = if server.host.is_empty() { "unix" } else { &*server.host };
        format!("host {host}, port {port}, user \"{user}\"").into()
    }

    /// The secret of a pool's user, and whether a server has told it (`auth_query`).
    pub(crate) fn secret_of_pool(&self, place: &PoolPlace, entry: &Database) -> (Arc<Secret>, bool) {
        // As in PgBouncer, the password of a line is that of its user.
        let own = entry.password.as_ref().filter(|_| entry.user.as_deref() == Some(&*place.user_name));
        if let Some(password) = own.and_then(|password| Password::new(password.expose())) {
            return (Arc::new(Secret::Plain(password)), false);
        }
        let listed = self.active.users.secret(&place.user_name).filter(|secret| !secret.is_none());
        match (place.judged.as_ref().or(listed), &place.told) {
            (Some(known), _) => (known.clone(), false),
            (None, Some(told)) => (told.clone(), true),
            (None, None) => (Arc::default(), false),
        }
    }

    /// Whether the servers of a pool are logged in by what a server has told of its user.
    pub(crate) fn is_told_secret(&self, pool: PoolKey) -> bool {
        let Some(place) = self.registry.pool(pool) else { return false };
        let entry = self.registry.databases[place.database as usize].entry.as_ref();
        entry.is_some_and(|entry| self.secret_of_pool(place, entry).1)
    }

    /// A server does not take the password of a pool's user. If it is what a server told of that user once, it is asked for
    /// again: whoever waits in the pool has shown long ago who they are, and will not come once more. Says whether there may be
    /// another one.
    pub(crate) fn doubt_secret_of_pool(&mut self, key: PoolKey) -> bool {
        let Some(place) = self.registry.pool(key).filter(|_| self.is_told_secret(key)) else { return false };
        let doubt = place.doubt;
        if doubt == Doubt::Asking {
            return true;
        }
        let (database, user) = (place.database_name.clone(), place.user_name.clone());
        let Ok(Some(question)) = self.secret_question(Inquirer::Pool(key), &database, &user) else { return false };
        // Who asks is in the pool that would have to be asked.
        if question.asker == user {
            return false;
        }
        if let Some(place) = self.registry.pool_mut(key) {
            place.doubt = Doubt::Asking;
        }
        (self.posts.control)(ToControl::AskSecret(question));
        doubt == Doubt::None
    }
}

/// A server does not take the password (`ERRCODE_INVALID_PASSWORD`).
const WRONG_PASSWORD: [u8; 5] = *b"28P01";
