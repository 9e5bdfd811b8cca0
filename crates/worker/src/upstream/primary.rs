//! Where clients of the primary of a cluster may write, as the control thread has found out.
//!
//! Always true: a server of a database that is on the primary of a cluster is at the host that the gate of the cluster names, or is
//! closed; while the gate names none, no client gets a server.
//! Not here: which host is the primary (crate `cluster`), whether a host proves to be one (`role`).

use std::sync::Arc;

use cluster::Gate;
use config::{Database, SessionAttrs, Settings};
use measure::Closed;
use pool::{Event, Failure, PoolKey, ServerKey};
use protocol::fault::{EndedBy, Fault};
use reactor::{Io, Level};

use crate::data::server::{Server, ServerStage};
use crate::letters::Standing;
use crate::planted::{heeded_by_dials, is_left, is_outcome_unknown};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The place of the host that is the primary for a database; `None` if any host may be.
    pub(super) fn place_of_primary(&self, entry: &Database) -> Option<usize> {
        match heeded_by_dials(self.gate_of(entry))? {
            Gate::Only(name) => entry.place_of(|host, port| *host.at(port) == **name),
            Gate::Any | Gate::Held | Gate::Fenced => None,
        }
    }

    /// Whether a server is where clients of its database may write.
    pub(super) fn is_at_its_primary(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return true };
        let Some(entry) = self.registry.database_at(server.database()).entry.as_ref() else { return true };
        heeded_by_dials(self.gate_of(entry)).is_none() || self.is_at_primary(server, entry)
    }

    /// Gates have changed: servers that are not where clients may write are closed, and clients that wait are served.
    pub(crate) fn heed_gates(&mut self, old: &Standing, before: &Settings) {
        let is_new = |entry: &Database| {
            let cluster = entry.cluster_of_primary()?;
            let (was, is) = (old.gate(cluster), self.hands.active.standing.gate(cluster));
            let has_hosts = before.clusters.get(cluster).zip(self.hands.active.settings.clusters.get(cluster));
            let is_same = has_hosts.is_some_and(|(was, is)| Arc::ptr_eq(was, is) || was == is);
            (was != is || !is_same).then(|| is.cloned().unwrap_or_default())
        };
        let changed = self.registry.databases().filter_map(|(number, place)| {
            let gate = is_new(place.entry.as_ref()?)?;
            Some((number, gate))
        });
        let changed: Vec<(u32, Gate)> = changed.collect();
        self.leave_other_hosts_than_primary();
        self.leave_promoted_hosts();
        for (number, gate) in changed {
            if matches!(gate, Gate::Only(_)) {
                self.try_hosts_of(number);
            }
        }
    }

    /// The primary of a cluster accepts writes again: clients that wait need not wait for the next attempt.
    pub(crate) fn primary_is_back(&mut self, cluster: &str) {
        let is_of = |entry: &Option<Arc<Database>>| {
            entry.as_ref().and_then(|entry| entry.cluster.as_ref()).is_some_and(|name| **name == *cluster)
        };
        for number in self.registry.database_numbers() {
            if is_of(&self.registry.database_at(number).entry) {
                self.try_hosts_of(number);
            }
        }
    }

    /// Closes the clients that have a server of the primary of a cluster, in favour of a switchover; not those of streams.
    pub(crate) fn end_loans_at_primary(&mut self, cluster: &str) {
        let is_lent = |server: &Server| matches!(server.stage(), ServerStage::Lent { .. } | ServerStage::Cleaning(_));
        let is_ended = |server: &Server| is_lent(server) && !server.outlasts_drain();
        let ours = self.servers.iter().filter(|(_, server)| is_ended(server) && self.is_at_primary_of(server, cluster));
        let keys: Vec<ServerKey> = ours.map(|(key, _)| key).collect();
        for key in keys {
            self.cut_off(key, SWITCHOVER, left_primary);
        }
    }

    /// A replica does not answer any more: its servers are closed, also those whose clients wait for an answer, and others are
    /// dialed first.
    pub(crate) fn leave_replica(&mut self, cluster: &str, host: &str) {
        let place_there = |server: &Server| {
            let entry = self.registry.database_at(server.database()).entry.as_ref()?;
            let is_reader = entry.cluster.as_deref() == Some(cluster) && entry.cluster_of_primary().is_none();
            let place = entry.place_of(|name, port| *name.at(port) == *host).filter(|_| is_reader)?;
            let (name, port) = entry.hosts_with_ports().nth(place)?;
            server.is_at(name, port).then_some((server.database(), place))
        };
        let there = self.servers.iter().filter_map(|(key, server)| Some((key, place_there(server)?)));
        let there: Vec<(ServerKey, (u32, usize))> = there.collect();
        for (key, (database, place)) in there {
            self.registry.database_at_mut(database).host_choice.fails(place, self.hands.now);
            let Some(server) = self.servers.get(key) else { continue };
            match server.stage() {
                ServerStage::Idle | ServerStage::Lent { .. } | ServerStage::Cleaning(_) => {
                    self.cut_off(key, SILENT, |_, _| Fault::ServerCrashed);
                }
                _ => {
                    self.dial_failed(key, Failure::unreachable(SILENT));
                    self.settle();
                }
            }
        }
    }

    /// Whether a server belongs to a database that is on the primary of this cluster.
    pub(crate) fn is_at_primary_of(&self, server: &Server, cluster: &str) -> bool {
        let entry = self.registry.database_at(server.database()).entry.as_ref();
        entry.and_then(|entry| entry.cluster_of_primary()).is_some_and(|name| **name == *cluster)
    }

    /// What a client is told whose server was lost in the middle of something.
    pub(crate) fn loss_in_the_middle(&self, key: ServerKey) -> Fault {
        let Some(server) = self.servers.get(key) else { return Fault::ServerCrashed };
        let entry = self.registry.database_at(server.database()).entry.as_ref();
        let is_of_primary = entry.is_some_and(|entry| entry.cluster_of_primary().is_some());
        match is_outcome_unknown(server.owes_outcome()) && is_of_primary {
            true => Fault::OutcomeUnknown { host: self.host_words(server) },
            false => Fault::ServerCrashed,
        }
    }

    fn gate_of(&self, entry: &Database) -> Option<&Gate> {
        self.hands.active.standing.gate(entry.cluster_of_primary()?)
    }

    /// Whether a server is at the primary, as far as that is known.
    fn is_at_primary(&self, server: &Server, entry: &Database) -> bool {
        match self.gate_of(entry) {
            Some(Gate::Fenced) => false,
            Some(Gate::Only(name)) => {
                let Some(place) = entry.place_of(|host, port| *host.at(port) == **name) else { return true };
                entry.hosts_with_ports().nth(place).is_some_and(|(host, port)| server.is_at(host, port))
            }
            Some(Gate::Any | Gate::Held) | None => true,
        }
    }

    /// Closes the servers of all databases that are not where their clients may write, whatever has changed: a gate, or a line.
    fn leave_other_hosts_than_primary(&mut self) {
        let is_left = |server: &Server| {
            let entry = self.registry.database_at(server.database()).entry.as_ref();
            is_left(entry.is_some_and(|entry| !self.is_at_primary(server, entry)))
        };
        let left: Vec<ServerKey> =
            self.servers.iter().filter(|(_, server)| is_left(server)).map(|(key, _)| key).collect();
        for key in left {
            let Some(server) = self.servers.get(key) else { continue };
            match server.stage() {
                ServerStage::Idle | ServerStage::Lent { .. } | ServerStage::Cleaning(_) => {
                    self.cut_off(key, LEFT, left_primary)
                }
                // The next dial goes to the primary; it would have to wait for this one, perhaps of a host that is silent.
                _ => {
                    self.dial_failed(key, Failure::unreachable(LEFT));
                    self.settle();
                }
            }
        }
    }

    /// Closes the servers of databases for standbys at hosts that are primaries now, as soon as no client has them.
    fn leave_promoted_hosts(&mut self) {
        let is_left = |server: &Server| {
            let entry = self.registry.database_at(server.database()).entry.as_ref();
            let entry = entry.filter(|entry| entry.target_session_attrs == SessionAttrs::Standby);
            let cluster = entry.and_then(|entry| entry.cluster.as_ref());
            let gate = cluster.and_then(|cluster| self.hands.active.standing.gate(cluster));
            let (Some(entry), Some(Gate::Only(name))) = (entry, gate) else { return false };
            let place = entry.place_of(|host, port| *host.at(port) == **name);
            let there = place.and_then(|place| entry.hosts_with_ports().nth(place));
            server.dedicated().is_none() && there.is_some_and(|(host, port)| server.is_at(host, port))
        };
        let left: Vec<ServerKey> =
            self.servers.iter().filter(|(_, server)| is_left(server)).map(|(key, _)| key).collect();
        for server in left {
            self.retired_by(server, EndedBy::Renewal);
            self.tell_pools(Event::RetireServer { server });
            self.settle();
        }
    }

    /// Closes a server at once, and has cancelled what it runs. A client whose request was not sent yet gets another one; what the others are told depends on the host,
    /// and on whether an answer is owed.
    fn cut_off(&mut self, key: ServerKey, why: &str, fault: fn(Arc<str>, bool) -> Fault) {
        let Some(server) = self.servers.get(key) else { return };
        let (waits_since, client) = (server.session().phase.waits_since(), server.client());
        let host = self.host_words(server);
        let is_owed = server.owes_outcome();
        self.retired_by(key, EndedBy::Renewal);
        match (client, waits_since) {
            (Some(client), Some(since)) => self.lose_before_use(key, client, since, why),
            (Some(client), None) if self.survives_replica(key, client, why) => {}
            (Some(client), None) => {
                self.log_server(key, Level::Warning, format_args!("closing a server in use: {why}"));
                self.cancel_last(key);
                self.lose_server(key, Closed::Paused, why);
                self.fail_client(client, &fault(host, is_owed));
            }
            (None, _) => self.lose_server(key, Closed::Paused, why),
        }
        self.settle();
    }

    /// The host of a server, for its client.
    fn host_words(&self, server: &Server) -> Arc<str> {
        format!("{}:{}", server.host().word(), server.host().port()).into()
    }

    /// Ends the pauses after failed logins at the hosts of a database.
    pub(super) fn try_hosts_of(&mut self, database: u32) {
        let pools: Vec<PoolKey> = self.registry.pools_of(database).into_iter().collect();
        for pool in pools {
            self.tell_pools(Event::TryAgain { pool });
            self.settle();
        }
    }
}

/// What a client is told whose server was at the former primary.
fn left_primary(host: Arc<str>, is_owed: bool) -> Fault {
    if is_owed { Fault::OutcomeUnknown { host } } else { Fault::PrimaryLeft { host } }
}

/// Why servers are closed.
const SILENT: &str = "its host does not answer any more";
const LEFT: &str = "its host is not the primary of the cluster any more";
const SWITCHOVER: &str = "drain_timeout of a switchover";
