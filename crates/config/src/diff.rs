//! What changed settings mean for a running process.
//!
//! Always true: servers become obsolete only by changes that cannot be applied to a server after its login.
//! Not here: carrying out the changes (`worker`, `control`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::catalog::{CATALOG, Reload, Settings};
use crate::database::{Database, LoadBalance};
use crate::host::Host;

impl Settings {
    /// The settings that differ from those of a running process and that only a restart changes.
    /// [`load_over`](crate::load_over) keeps the old values of these, so this is empty for its result; see
    /// [`Loaded::restart_needed`](crate::Loaded::restart_needed).
    #[must_use]
    pub fn restart_needed(&self, old: &Self) -> Vec<&'static str> {
        restart_needed(self, old)
    }
}

/// What a reload has changed, each item in a few words: settings with their new values, unless these are secret, and
/// the names of databases, users, peers and rate limits.
#[must_use]
pub fn changes(old: &Settings, new: &Settings) -> Vec<String> {
    let mut told = Vec::new();
    for entry in CATALOG.iter().filter(|entry| (entry.show)(new) != (entry.show)(old)) {
        told.push(match (entry.show)(new) {
            _ if entry.is_secret => entry.name.to_owned(),
            Some(value) => format!("{} = {value}", entry.name),
            None => format!("{} is not set", entry.name),
        });
    }
    if new.fallback != old.fallback {
        told.push("database * changed".to_owned());
    }
    tell_changed("database", &old.databases, &new.databases, &mut told);
    tell_changed("user", &old.users, &new.users, &mut told);
    tell_changed("peer", &old.peers, &new.peers, &mut told);
    tell_changed("cluster", &old.clusters, &new.clusters, &mut told);
    tell_changed("rate limit", &old.rate_limits, &new.rate_limits, &mut told);
    told
}

fn tell_changed<K: Ord + Display, V: PartialEq>(
    what: &str,
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    told: &mut Vec<String>,
) {
    let names: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    for name in names {
        let word = match (old.get(name), new.get(name)) {
            (None, Some(_)) => "added",
            (Some(_), None) => "removed",
            (Some(before), Some(now)) if before != now => "changed",
            _ => continue,
        };
        told.push(format!("{what} {name} {word}"));
    }
}

pub(crate) fn restart_needed(new: &Settings, old: &Settings) -> Vec<&'static str> {
    let is_changed = |entry: &&crate::Entry| entry.reload == Reload::Restart && (entry.show)(new) != (entry.show)(old);
    CATALOG.iter().filter(is_changed).map(|entry| entry.name).collect()
}

impl Database {
    /// Whether no server of `old` can serve this database: they are on other hosts or another database, belong to another
    /// user, were asked for another role of their host, or received another query after their login. If some of several hosts
    /// are the same, [`Database::place_of`] tells which servers stay. A new password alone does not matter to them.
    #[must_use]
    pub fn must_reconnect(&self, old: &Self) -> bool {
        let is_shared = |host| old.hosts_with_ports().any(|other| other == host);
        let is_elsewhere = self.dbname != old.dbname || !self.hosts_with_ports().any(is_shared);
        let is_somebody_else =
            self.user != old.user || self.auth_dbname != old.auth_dbname || self.auth_query != old.auth_query;
        // Servers of one order of choosing are as good for another, unless all are to be at one host.
        let is_spread = |database: &Self| database.load_balance_hosts != LoadBalance::Disable;
        let is_told_otherwise = self.connect_query != old.connect_query || is_spread(self) != is_spread(old);
        let is_choosy = self.target_session_attrs != old.target_session_attrs;
        is_elsewhere || is_somebody_else || is_told_otherwise || is_choosy
    }

    /// The place of a host in the list of this database.
    #[must_use]
    pub fn place_of(&self, is_it: impl Fn(&Host, u16) -> bool) -> Option<usize> {
        self.hosts_with_ports().position(|(host, port)| is_it(host, port))
    }

    /// A text that differs for any two databases for which [`Database::must_reconnect`] is true, to be passed to
    /// another process.
    #[must_use]
    pub fn stamp(&self) -> String {
        let hosts: Vec<_> = self.hosts_with_ports().collect();
        let order = match self.load_balance_hosts {
            LoadBalance::Disable => LoadBalance::Disable,
            LoadBalance::RoundRobin | LoadBalance::LeastBusy => LoadBalance::RoundRobin,
        };
        let place = (&self.dbname, hosts, order, self.target_session_attrs);
        let somebody = (&self.user, &self.auth_dbname, &self.auth_query);
        format!("{:?}", (place, somebody, &self.connect_query))
    }
}
