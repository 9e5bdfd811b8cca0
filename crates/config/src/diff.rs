//! What a change of the settings means for what already runs.
//!
//! Always true: a change that servers must not survive is one that a server cannot be told after its login.
//! Not here: carrying it out (`worker`, `control`).

use crate::catalog::{CATALOG, Reload, Settings};
use crate::database::Database;

impl Settings {
    /// The settings that differ from those of a running process and that only a restart changes. What
    /// [`load_over`](crate::load_over) returns keeps them, so this is empty for it; see
    /// [`Loaded::restart_needed`](crate::Loaded::restart_needed).
    #[must_use]
    pub fn restart_needed(&self, old: &Self) -> Vec<&'static str> {
        restart_needed(self, old)
    }
}

pub(crate) fn restart_needed(new: &Settings, old: &Settings) -> Vec<&'static str> {
    let is_changed = |entry: &&crate::Entry| entry.reload == Reload::Restart && (entry.show)(new) != (entry.show)(old);
    CATALOG.iter().filter(is_changed).map(|entry| entry.name).collect()
}

impl Database {
    /// Whether the servers of `old` are of no use to this database: they are elsewhere, somebody else's, or were told
    /// something else after their login. A new password alone leaves them as they are.
    #[must_use]
    pub fn must_reconnect(&self, old: &Self) -> bool {
        let is_elsewhere = self.dbname != old.dbname || self.hosts != old.hosts || self.port != old.port;
        let is_somebody_else =
            self.user != old.user || self.auth_dbname != old.auth_dbname || self.auth_query != old.auth_query;
        let is_told_otherwise =
            self.connect_query != old.connect_query || self.load_balance_hosts != old.load_balance_hosts;
        is_elsewhere || is_somebody_else || is_told_otherwise
    }

    /// A text that differs for two databases of which [`Database::must_reconnect`] is true, for another process.
    #[must_use]
    pub fn stamp(&self) -> String {
        let place = (&self.dbname, &self.hosts, self.port);
        let somebody = (&self.user, &self.auth_dbname, &self.auth_query);
        format!("{:?}", (place, somebody, &self.connect_query, self.load_balance_hosts))
    }
}
