//! What is known of users' secrets. Those that only a server knows are asked by the control thread through the pool of
//! `auth_user` (`auth_query`).
//!
//! Always true: a server is asked about every user without a secret in `auth_file`, at every login or as often as
//! `auth_query_cache_ttl` says; its answer is for logins of that very user to that very database, and for our logins as
//! that user to servers. A cached secret is dropped by a reload, and when a client's proof does not fit it.
//! Not here: the question (`auth_query`), what is done with the answer (`answers`), asking (`control::secrets`), the
//! authentication exchange (`protocol::client::login`).

use std::sync::Arc;

use auth::{ScramSecret, Secret, ServerSecret};
use base::Key;
use protocol::client::login::{Known, Method};
use reactor::Io;

use crate::admission::applicant::{LoginWait, Recheck};
use crate::letters::{Inquirer, ToControl};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// What is known of a user, and what SCRAM is checked against.
    ///
    /// # Errors
    /// The secret that has to be hashed first.
    pub(crate) fn known(
        &mut self,
        user: &Arc<str>,
        method: Method,
        reported_secret: Option<Arc<Secret>>,
    ) -> Result<Known, Arc<Secret>> {
        let settings = &self.hands.active.settings;
        // As in PgBouncer, a user that only stands in [users] does not exist.
        let is_reported = reported_secret.is_some();
        let secret = reported_secret.or_else(|| self.hands.active.users.secret(user).cloned());
        let is_asked_by_scram = match secret.as_deref() {
            // As in PostgreSQL, a user that does not exist or has no password is treated as one with a SCRAM secret.
            None | Some(Secret::None) if method == Method::Md5 => {
                is_reported
                    || matches!(
                        self.hands.active.users.like(user, &self.hands.active.mock_key).map(|like| &**like),
                        None | Some(Secret::None | Secret::Scram(_))
                    )
            }
            _ => method == Method::Scram,
        };
        let scram = match secret.as_deref() {
            Some(Secret::Scram(stored)) => Some(ServerSecret::Stored(stored.clone())),
            _ if !is_asked_by_scram => None,
            Some(Secret::Plain(_)) => match (self.derived(user, secret.as_ref()), &secret) {
                (None, Some(secret)) => return Err(secret.clone()),
                (derived, _) => derived.map(ServerSecret::Derived),
            },
            _ => Some(ServerSecret::mock(user, &self.hands.active.mock_key, settings.scram_iterations)),
        };
        let like = self.hands.active.users.iter().next().map(|(_, secret)| secret.clone());
        Ok(Known { user: user.clone(), secret, scram, like, channel: None })
    }

    /// The SCRAM secret that was derived from a plaintext secret, if it was: derived once for each secret, since that
    /// costs a millisecond.
    fn derived(&self, user: &str, secret: Option<&Arc<Secret>>) -> Option<Arc<ScramSecret>> {
        let number = self.registry.known_user(user)?;
        let (of, derived) = self.registry.user_at(number).derived.as_ref()?;
        let is_of_now = derived.iterations == self.hands.active.settings.scram_iterations;
        // A server reports the same secret at each login.
        (is_of_now && Some(of) == secret).then(|| derived.clone())
    }

    /// The cached secret of a client's user, if caching is on and the entry is not too old.
    pub(crate) fn remembered_secret(&mut self, key: Key) -> Option<Arc<Secret>> {
        self.hands.active.settings.auth_query_cache_ttl?;
        let login = self.clients.login_mut(key)?;
        let secret = self.remembered.find(&login.request.database, &login.request.user, self.hands.now)?;
        login.reported_secret = Some(secret.clone());
        login.is_secret_cached = true;
        Some(secret)
    }

    /// Caches the secret of a client's user, if caching is on and there is a secret.
    pub(crate) fn remember_secret(&mut self, key: Key, secret: &Arc<Secret>) {
        let Some(believed) = self.hands.active.settings.auth_query_cache_ttl.filter(|_| !secret.is_none()) else {
            return;
        };
        let Some(login) = self.clients.login(key) else { return };
        let (database, user) = (&login.request.database, &login.request.user);
        self.remembered.keep(database, user, secret.clone(), self.hands.now + believed, self.hands.now);
    }

    /// A client's proof does not fit. If it was checked against a cached secret, that is dropped, and where the proof
    /// can be checked against another secret the server is asked once more: then returns true, and the client waits for
    /// the answer.
    pub(crate) fn doubt_secret(&mut self, key: Key, again: Option<Recheck>) -> bool {
        let Some(login) = self.clients.login_mut(key) else { return false };
        if !std::mem::take(&mut login.is_secret_cached) {
            return false;
        }
        let (database, user) = (login.request.database.clone(), login.request.user.clone());
        self.remembered.forget(&database, &user);
        let Some(again) = again else { return false };
        let Ok(Some(question)) = self.secret_question(Inquirer::Client(key), &database, &user) else { return false };
        let Some(login) = self.clients.login_mut(key) else { return false };
        login.wait_for(LoginWait::SecretAgain(Box::new(again)));
        (self.hands.posts.control)(ToControl::AskSecret(question));
        true
    }
}
