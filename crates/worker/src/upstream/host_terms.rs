//! What a worker knows of the hosts of a database when it chooses one of them: weights, zones, and how many servers are there.
//!
//! Always true: where only one host at a time can be what a database asks for, its hosts are alike.
//! Not here: the choice itself (`pool::HostChoice`).

use config::{Database, LoadBalance};
use pool::{HostOrder, HostTerms, ServerKey};
use reactor::Io;

use crate::upstream::role::has_one_host_at_a_time;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// What is known of each host of a database. A server that is about to be dialed is at no host yet.
    pub(super) fn terms_of_hosts(&self, database: u32, entry: &Database, but: Option<ServerKey>) -> Vec<HostTerms> {
        let mut all = self.wishes_for_hosts(entry);
        if all.len() < 2 || has_one_host_at_a_time(entry) {
            return all;
        }
        for (_, server) in self.servers.iter().filter(|(key, row)| row.database() == database && Some(*key) != but) {
            if let Some(host) = all.get_mut(server.host().place()) {
                host.servers += 1;
            }
        }
        all
    }

    /// The same, without the servers that are there.
    pub(super) fn wishes_for_hosts(&self, entry: &Database) -> Vec<HostTerms> {
        let mut all = vec![HostTerms::default(); entry.hosts.len()];
        if has_one_host_at_a_time(entry) {
            return all;
        }
        let ours = &*self.hands.active.settings.zone;
        for (place, host) in all.iter_mut().enumerate() {
            host.is_left = !self.is_near_enough(entry, place);
            host.is_suspect = self.is_suspect(entry, place);
            host.weight = entry.weight_at(place);
            host.is_far = !ours.is_empty() && entry.zone_at(place).is_some_and(|zone| **zone != *ours);
        }
        all
    }
}

/// How the next of several hosts of a database is chosen.
pub(super) fn order_of_hosts(entry: &Database) -> HostOrder {
    match entry.load_balance_hosts {
        _ if has_one_host_at_a_time(entry) => HostOrder::Kept,
        LoadBalance::Disable => HostOrder::Kept,
        LoadBalance::RoundRobin => HostOrder::InTurn,
        LoadBalance::LeastBusy => HostOrder::LeastBusy,
    }
}
