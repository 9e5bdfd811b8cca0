//! New settings take effect, between two turns.
//!
//! Always true: afterwards everything is as if the settings had been so from the start, except those documented to need
//! a restart; no client is closed that the new settings do not concern.
//! Not here: reading and checking them (`config`, `control::reload`).

use std::sync::Arc;

use config::Database;
use pool::{Event, HostChoice};
use protocol::fault::EndedBy;
use reactor::Io;

use crate::letters::ActiveConfig;
use crate::worker::Worker;

/// What becomes of a database under new settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// The database is gone, or its `user=` has changed.
    Removed,
}

impl<I: Io> Worker<I> {
    /// Applies new settings.
    pub(crate) fn come_into_force(&mut self, active: Arc<ActiveConfig>) {
        self.hands.io.tune(active.tuning);
        self.hands.io.log_to(active.log.clone());
        let is_demand_new = self.hands.active.tls.demand_parts != active.tls.demand_parts;
        let old = std::mem::replace(&mut self.hands.active, active);
        self.texts.forget_parameters();
        self.sampler.look_at(self.hands.active.settings.track_statements);
        self.spans.heed(&self.hands.active.settings);
        self.remembered.clear();
        self.count_clients_of_users(&old.settings);
        if is_demand_new {
            self.retire_servers();
        }
        let numbers = self.registry.database_numbers();
        let removed: Vec<u32> = numbers.filter(|&number| self.renew_database(number) == Fate::Removed).collect();
        self.remove_databases(&removed, EndedBy::Reload);
        self.apply_limits();
        self.renew_rates();
        self.heed_gates(&old.standing, &old.settings);
        self.heed_lag(&old.standing);
        self.heed_suspects(&old.standing);
        for pool in self.registry.pool_keys() {
            self.stand(pool);
            self.settle();
        }
        self.close_obsolete_sessions();
        self.end_lonely_listening();
        self.settle();
        self.cancel.renew_peers(&mut self.hands, &mut self.names);
        self.arm_sweep();
        self.arm_moves();
        if self.admin.shutdown.is_none() {
            self.open_forced_pools();
        }
    }

    /// The TLS settings for servers have changed: each server is replaced as soon as no client uses it.
    fn retire_servers(&mut self) {
        for number in self.registry.database_numbers() {
            self.retire_servers_of(number, EndedBy::Reload);
        }
    }

    fn renew_database(&mut self, number: u32) -> Fate {
        let Some(old) = self.registry.database_at(number).entry.clone() else { return Fate::Stays };
        let new = self.hands.active.settings.database_or_derived(&old.name);
        // A database from `*` is never removed by a file that does not name it, as long as there is a `*`.
        self.registry.database_at_mut(number).entry = new.clone();
        let Some(new) = new else { return Fate::Removed };
        if old.user != new.user || old.line_name() != new.line_name() {
            // Its pools now belong to another user, or a line has its name now.
            return Fate::Removed;
        }
        let has_other_hosts = !new.hosts_with_ports().eq(old.hosts_with_ports());
        if has_other_hosts || new.target_session_attrs != old.target_session_attrs {
            self.registry.database_at_mut(number).host_choice = HostChoice::default();
            for pool in self.registry.pools_of(number) {
                self.hosts.leave_outages(pool);
            }
        }
        if new.must_reconnect(&old) {
            self.retire_servers_of(number, EndedBy::Reload);
        } else if has_other_hosts {
            self.leave_other_hosts(number, &new);
        }
        Fate::Stays
    }

    /// The hosts of a database have changed: servers at those that stay stay as well, the others are replaced.
    fn leave_other_hosts(&mut self, database: u32, entry: &Database) {
        let ours = self.servers.iter().filter(|(_, server)| server.database() == database);
        let places: Vec<_> =
            ours.map(|(key, server)| (key, entry.place_of(|host, port| server.is_at(host, port)))).collect();
        for (server, place) in places {
            match (place, self.servers.get_mut(server)) {
                (Some(place), Some(row)) => row.host_mut().stands_at(place),
                (None, Some(_)) => {
                    self.retired_by(server, EndedBy::Reload);
                    self.tell_pools(Event::RetireServer { server });
                    self.settle();
                }
                (_, None) => {}
            }
        }
    }
}
