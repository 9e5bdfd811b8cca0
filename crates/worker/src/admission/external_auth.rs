//! Passwords that only an external authenticator can check, PAM or LDAP, which the control thread asks.
//!
//! Always true: only the client itself waits for its verdict; a password that was accepted is used to log in its user
//! to servers, and is never logged.
//! Not here: what is done with the verdict (`answers`), asking (`control::external_auth`), how the password is received
//! (`login`).

use std::sync::Arc;

use auth::Password;
use base::Key;
use protocol::fault::Fault;
use reactor::{Io, Level};

use crate::admission::applicant::{Demand, LoginWait};
use crate::admission::questions::{ExternalAuth, PasswordQuestion};
use crate::letters::ToControl;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Has a client of a database prove itself to an external authenticator, which cannot be combined with an
    /// `auth_user` of the database.
    pub(crate) fn demand_of_external_auth(&mut self, key: Key, database: &str, authenticator: ExternalAuth) -> Demand {
        let has_asker = self.hands.active.settings.database(database).is_some_and(|entry| entry.auth_user.is_some());
        if !has_asker {
            return Demand::Judgement(authenticator);
        }
        let (line, name) = (self.client_prefix(key), authenticator.name());
        self.hands.log.about(
            &line,
            Level::Error,
            format_args!("{name} can't be used together with database authentication"),
        );
        Demand::Refusal(Fault::BouncerConfig)
    }

    /// Has an external authenticator judge a password.
    pub(crate) fn ask_external_auth(&mut self, key: Key, authenticator: ExternalAuth, password: Password) {
        let Some((host, _)) = self.clients.get(key).map(|client| self.address_of_peer(client)) else { return };
        let Some(login) = self.clients.login_mut(key) else { return };
        let user: Arc<str> = login.request.user.as_ref().into();
        login.wait_for(LoginWait::Verdict(authenticator.clone(), password.clone()));
        let question =
            PasswordQuestion { from: self.hands.id, client: key, authenticator, user, password, host: host.into() };
        (self.hands.posts.control)(ToControl::AskExternalAuth(question));
    }
}
