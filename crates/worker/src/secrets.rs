//! Users whose secret a server knows: `auth_query`, asked through the pool of `auth_user` by the control thread.
//!
//! Always true: a server is asked about whoever has no secret of its own here, at every login; what it tells is for that login and
//! for the logins of that very user at servers.
//! Not here: asking (`control::secrets`).

use std::sync::Arc;

use base::Key;
use protocol::fault::Fault;
use reactor::{Io, Level};

use crate::client::{Client, Stage};
use crate::console::CONSOLE;
use crate::letters::{SecretQuestion, Told};
use crate::turn::Worker;

impl<I: Io> Worker<I> {
    /// Whether the file of secrets has one of this user.
    pub(crate) fn has_secret(&self, user: &str) -> bool {
        self.force.users.secret(user).is_some_and(|secret| !secret.is_none())
    }

    /// What a server is to be asked about this user, if anybody is there to ask it.
    ///
    /// # Errors
    /// What the client is told when the question cannot be asked as it is configured.
    pub(crate) fn secret_question(
        &mut self,
        key: Key,
        database: &str,
        user: &str,
    ) -> Result<Option<SecretQuestion>, Fault> {
        let force = self.force.clone();
        let settings = &force.settings;
        let entry = settings.database(database);
        if entry.is_none() && database != CONSOLE {
            // Whether it exists is told to nobody who has not proved who they are.
            return Ok(None);
        }
        let own = entry.as_ref();
        let shared = |setting: &Option<String>| setting.as_deref().map(Arc::from);
        let Some(asker) = own.and_then(|entry| entry.auth_user.clone()).or_else(|| shared(&settings.auth_user)) else {
            return Ok(None);
        };
        let asked = own.and_then(|entry| entry.auth_dbname.clone()).or_else(|| shared(&settings.auth_dbname));
        let asked: Arc<str> = asked.unwrap_or_else(|| database.into());
        if *asked == *CONSOLE {
            let line = self.client_prefix(key);
            let text = format_args!("{line}cannot use the reserved \"{CONSOLE}\" database as an auth_dbname");
            self.log.add(Level::Error, text);
            return Err(Fault::BouncerConfig);
        }
        if settings.database(&asked).is_none() {
            let line = self.client_prefix(key);
            self.log.add(Level::Error, format_args!("{line}authentication database \"{asked}\" is not configured."));
            return Err(Fault::BouncerConfig);
        }
        if force.standing.disabled.contains(&asked) {
            return Err(Fault::AuthDatabaseDisabled { name: (*asked).into() });
        }
        let sql = own.and_then(|entry| entry.auth_query.clone()).unwrap_or_else(|| (*settings.auth_query).into());
        Ok(Some(SecretQuestion { from: self.id, client: key, database: asked, asker, sql, user: user.into() }))
    }

    /// A server has said what it knows of a user.
    pub(crate) fn told(&mut self, key: Key, told: Told) {
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        let Some(demand) = login.take_awaiting_secret() else { return };
        let fault = match told {
            Told::User { name, .. } if *name != *login.request.user => {
                let line = self.client_prefix(key);
                self.log.add(Level::Error, format_args!("{line}auth_query response is about another user: {name}"));
                Fault::BouncerConfig
            }
            Told::User { secret, .. } => {
                login.told = Some(secret.clone());
                self.ask_proof(key, demand, Some(secret));
                return;
            }
            Told::Nobody => Fault::NoSuchUser,
            Told::Unanswered(why) => {
                let line = self.client_prefix(key);
                self.log.add(Level::Error, format_args!("{line}{why}"));
                Fault::BouncerConfig
            }
            Told::Refused { sqlstate, text } => Fault::ServerSaid { sqlstate, text },
        };
        self.fail_client(key, &fault);
    }
}
