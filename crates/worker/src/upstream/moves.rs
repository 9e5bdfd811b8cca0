//! Servers move to hosts that suit better: to a standby that is back, to the own zone, to a host that has fewer than its share.
//!
//! Always true: only idle servers move, at most one of a database in a third of a second; nothing is looked at while no database with
//! several hosts has a server.
//! Not here: which host suits better (`pool::HostChoice`), opening the server that takes the place (`pool::moved`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use config::Database;
use pool::{Event, ServerKey};
use reactor::Io;

use crate::data::server::ServerStage;
use crate::timers::Timer;
use crate::upstream::host_terms::order_of_hosts;
use crate::upstream::role::has_one_host_at_a_time;
use crate::worker::Worker;

/// The servers of a database at one of its hosts.
#[derive(Clone, Copy, Default)]
struct There {
    servers: u32,
    /// The one that has been idle longest, and since when.
    idle: Option<(Time, ServerKey)>,
}

impl<I: Io> Worker<I> {
    /// Looks from time to time which servers had better be at other hosts, as long as there is a database with several.
    pub(crate) fn arm_moves(&mut self) {
        let has_several = |entry: &Arc<Database>| may_move(entry);
        let mut entries = self.registry.databases().filter_map(|(_, place)| place.entry.as_ref());
        if entries.any(has_several) && self.hosts.arm_moves() {
            self.hands.timers.insert(self.hands.now + MOVES_EVERY, Timer::Moves);
        }
    }

    /// Has idle servers moved to hosts that suit better.
    pub(crate) fn move_servers(&mut self) {
        self.hosts.moves_are_due();
        let all = self.servers_by_host();
        if all.is_empty() {
            return;
        }
        let rests = self.hands.active.settings.server_login_retry;
        let mut moved = 0;
        for (number, hosts) in all {
            let Some(entry) = self.registry.database_at(number).entry.clone() else { continue };
            let mut terms = self.wishes_for_hosts(&entry);
            terms.iter_mut().zip(&hosts).for_each(|(terms, there)| terms.servers = there.servers);
            let choice = &mut self.registry.database_at_mut(number).host_choice;
            let mut places: Vec<usize> = (0..hosts.len()).collect();
            places.sort_by_key(|place| std::cmp::Reverse(hosts[*place].servers));
            let found = places.into_iter().find_map(|from| {
                let (since, server) = hosts[from].idle?;
                let is_rested = self.hands.now.since(since) >= RESTED;
                choice.moves(self.hands.now, &terms, order_of_hosts(&entry), (from, is_rested), rests)?;
                Some(server)
            });
            if let Some(server) = found {
                self.tell_pools(Event::MoveServer { server });
                self.settle();
                moved += 1;
            }
            if moved >= MOVES_MAX {
                break;
            }
        }
        self.arm_moves();
    }

    /// The servers of the databases that may be at several hosts, by database and by the places of the hosts.
    fn servers_by_host(&self) -> BTreeMap<u32, Vec<There>> {
        let mut all: BTreeMap<u32, Vec<There>> = BTreeMap::new();
        for (key, server) in self.servers.iter() {
            let entry = self.registry.database_at(server.database()).entry.as_ref();
            let Some(entry) = entry.filter(|entry| may_move(entry)) else { continue };
            let hosts = all.entry(server.database()).or_insert_with(|| vec![There::default(); entry.hosts.len()]);
            let Some(there) = hosts.get_mut(server.host().place()) else { continue };
            there.servers += 1;
            let is_idle = matches!(server.stage(), ServerStage::Idle) && server.dedicated().is_none();
            if let Some((_, since)) = self.pools.times_of(key).filter(|_| is_idle)
                && there.idle.is_none_or(|(first, _)| since < first)
            {
                there.idle = Some((since, key));
            }
        }
        all
    }

    /// A host of a cluster is a replica that answers: databases that read from replicas may use it.
    pub(crate) fn replica_is_back(&mut self, cluster: &str, host: &str) {
        for number in self.registry.database_numbers() {
            let entry = self.registry.database_at(number).entry.clone();
            let is_reader =
                |entry: &Arc<Database>| entry.cluster.as_deref() == Some(cluster) && !has_one_host_at_a_time(entry);
            let Some(entry) = entry.filter(is_reader) else { continue };
            if let Some(place) = entry.place_of(|name, port| *name.at(port) == *host) {
                self.registry.database_at_mut(number).host_choice.is_back(place);
                self.try_hosts_of(number);
            }
        }
    }
}

/// Whether servers of a database may be at several hosts at a time.
pub(super) fn may_move(entry: &Database) -> bool {
    entry.hosts.len() > 1 && !has_one_host_at_a_time(entry)
}

/// The time between two servers of a database that move.
const MOVES_EVERY: Duration = Duration::from_millis(334);
/// How many servers of a worker move at once, of as many databases.
const MOVES_MAX: u32 = 16;
/// A server that has been idle for this long is not needed at once.
const RESTED: Duration = Duration::from_secs(1);
