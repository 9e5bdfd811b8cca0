//! What is known of users' secrets; those that a server knows (`auth_query`) are asked through the pool of `auth_user` by the
//! control thread.
//!
//! Always true: a server is asked about whoever has no secret of its own here, at every login or as often as
//! `auth_query_cache_ttl` says; what it tells is for logins of that very user to that very database, and for the logins of
//! that user at servers. What is remembered is forgotten by a reload, and when somebody does not fit it.
//! Not here: what is asked (`auth_query`), what follows from the answer (`answers`), asking (`control::secrets`), how a proof goes (`protocol::client::login`).

use std::sync::Arc;

use auth::{ScramSecret, Secret, ServerSecret};
use base::Key;
use protocol::client::login::{Known, Method};
use reactor::Io;

use crate::admission::applicant::Again;
use crate::data::client::{Client, Stage};
use crate::letters::{Inquirer, ToControl};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// What is known of a user, and what SCRAM is checked against.
    ///
    /// # Errors
    /// This secret is to be hashed first.
    pub(crate) fn known(
        &mut self,
        user: &str,
        method: Method,
        told: Option<Arc<Secret>>,
    ) -> Result<Known, Arc<Secret>> {
        let settings = &self.active.settings;
        // Who stands in [users] only is nobody, as in PgBouncer.
        let is_told = told.is_some();
        let secret = told.or_else(|| self.active.users.secret(user).cloned());
        let is_asked_by_scram = match secret.as_deref() {
            // As in PostgreSQL, whom a server does not know, or knows no password of, is taken for somebody with a secret of SCRAM.
            None | Some(Secret::None) if method == Method::Md5 => {
                is_told
                    || matches!(
                        self.active.users.like(user, &self.active.mock_key).map(|like| &**like),
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
            _ => Some(ServerSecret::mock(user, &self.active.mock_key, settings.scram_iterations)),
        };
        let like = self.active.users.iter().next().map(|(_, secret)| secret.clone());
        Ok(Known { user: user.into(), secret, scram, like, channel: None })
    }

    /// What a plaintext secret is checked against by SCRAM, if that has been made of it: once for each secret, since it costs a
    /// millisecond.
    fn derived(&self, user: &str, secret: Option<&Arc<Secret>>) -> Option<Arc<ScramSecret>> {
        let number = self.registry.known_user(user)?;
        let (of, derived) = self.registry.users[number as usize].derived.as_ref()?;
        let is_of_now = derived.iterations == self.active.settings.scram_iterations;
        // A server tells the same secret at each login.
        (is_of_now && Some(of) == secret).then(|| derived.clone())
    }

    /// What a server has told of a client's user not long ago, if that is believed.
    pub(crate) fn remembered_secret(&mut self, key: Key) -> Option<Arc<Secret>> {
        self.active.settings.auth_query_cache_ttl?;
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return None };
        let secret = self.remembered.find(&login.request.database, &login.request.user, self.now)?;
        login.told = Some(secret.clone());
        login.is_told_before = true;
        Some(secret)
    }

    /// Remembers what a server has told of a client's user, if there is something to be remembered.
    pub(crate) fn remember_secret(&mut self, key: Key, secret: &Arc<Secret>) {
        let Some(believed) = self.active.settings.auth_query_cache_ttl.filter(|_| !secret.is_none()) else { return };
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get(key) else { return };
        let (database, user) = (&login.request.database, &login.request.user);
        self.remembered.keep(database, user, secret.clone(), self.now + believed, self.now);
    }

    /// A client's proof does not fit. If that was judged by what is remembered, it is forgotten, and where the proof says anything
    /// about another secret the server is asked once more: then the answer is awaited, and the client with it.
    pub(crate) fn doubt_secret(&mut self, key: Key, again: Option<Again>) -> bool {
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return false };
        if !std::mem::take(&mut login.is_told_before) {
            return false;
        }
        let (database, user) = (login.request.database.clone(), login.request.user.clone());
        self.remembered.forget(&database, &user);
        let Some(again) = again else { return false };
        let Ok(Some(question)) = self.secret_question(Inquirer::Client(key), &database, &user) else { return false };
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return false };
        login.await_secret_again(again);
        (self.posts.control)(ToControl::AskSecret(question));
        true
    }
}
