//! Whether a server is to be asked for a user's secret (`auth_query`), and what it is asked.
//!
//! Always true: a server is asked about every user without a secret in `auth_file`.
//! Not here: asking (`control::secrets`), the answer (`answers`).

use std::sync::Arc;

use protocol::fault::Fault;
use reactor::{Io, Level};

use crate::admin::console::CONSOLE;
use crate::letters::{Inquirer, SecretQuestion};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether `auth_file` has a secret of this user.
    pub(crate) fn has_secret(&self, user: &str) -> bool {
        self.hands.active.users.secret(user).is_some_and(|secret| !secret.is_none())
    }

    /// The question about this user, if an `auth_user` is configured for it.
    ///
    /// # Errors
    /// The error for the client if the configuration does not allow the question.
    pub(crate) fn secret_question(
        &mut self,
        inquirer: Inquirer,
        database: &str,
        user: &str,
    ) -> Result<Option<SecretQuestion>, Fault> {
        let active = self.hands.active.clone();
        let settings = &active.settings;
        let entry = settings.database(database);
        if entry.is_none() && database != CONSOLE {
            // No client learns before it is authenticated whether a database exists.
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
            let line = self.inquirer_prefix(inquirer);
            let text = format_args!("cannot use the reserved \"{CONSOLE}\" database as an auth_dbname");
            self.hands.log.about(&line, Level::Error, text);
            return Err(Fault::BouncerConfig);
        }
        if settings.database(&asked).is_none() {
            let line = self.inquirer_prefix(inquirer);
            self.hands.log.about(
                &line,
                Level::Error,
                format_args!("authentication database \"{asked}\" is not configured."),
            );
            return Err(Fault::BouncerConfig);
        }
        if active.standing.disabled().contains(&asked) {
            return Err(Fault::AuthDatabaseDisabled { name: (*asked).into() });
        }
        let sql = own.and_then(|entry| entry.auth_query.clone()).unwrap_or_else(|| (*settings.auth_query).into());
        Ok(Some(SecretQuestion { from: self.hands.id, inquirer, database: asked, asker, sql, user: user.into() }))
    }
}
