//! Passwords that somebody else knows: the system's modules (PAM) or a directory (LDAP), asked by the control thread.
//!
//! Always true: a client waits for its verdict and nobody waits with it; a password that was right is what its user logs in to
//! servers with, and is in nothing that is logged.
//! Not here: what follows from the verdict (`answers`), asking (`control::external_auth`), how the password comes (`login`).

use std::sync::Arc;

use auth::Password;
use base::Key;
use protocol::fault::Fault;
use reactor::{Io, Level, Peer};

use crate::admission::applicant::Demand;
use crate::admission::questions::{ExternalAuth, PasswordQuestion};
use crate::data::client::Stage;
use crate::letters::ToControl;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// What a client of a database has to show to an external authenticator. A database with an `auth_user` of its own leaves nothing to one.
    pub(crate) fn demand_of_external_auth(&mut self, key: Key, database: &str, authenticator: ExternalAuth) -> Demand {
        let has_asker = self.active.settings.database(database).is_some_and(|entry| entry.auth_user.is_some());
        if !has_asker {
            return Demand::Judgement(authenticator);
        }
        let (line, name) = (self.client_prefix(key), authenticator.name());
        self.log.about(&line, Level::Error, format_args!("{name} can't be used together with database authentication"));
        Demand::Refusal(Fault::BouncerConfig)
    }

    /// Has somebody else judge a password.
    pub(crate) fn ask_external_auth(&mut self, key: Key, authenticator: ExternalAuth, password: Password) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let host = match client.peer {
            Peer::Tcp(address) => address.ip().to_string(),
            Peer::Unix { .. } => "unix".to_owned(),
        };
        let Stage::Login(login) = &mut client.stage else { return };
        let user: Arc<str> = login.request.user.as_ref().into();
        login.await_verdict(authenticator.clone(), password.clone());
        let question =
            PasswordQuestion { from: self.id, client: key, authenticator, user, password, host: host.into() };
        (self.posts.control)(ToControl::AskExternalAuth(question));
    }
}
