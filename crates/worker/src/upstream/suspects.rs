//! Hosts of clusters that are suspect, because a check of theirs is late: what begins now begins elsewhere, if another host fits.
//!
//! Always true: nothing that a client waits for at a suspect host is ended. Idle servers there are closed, so that none is lent; a request of which
//! not one byte was sent goes to another server.
//! Not here: which hosts are suspect (`cluster`), which of the others is dialed (`pool::HostChoice`).

use cluster::Gate;
use config::{Database, SessionAttrs};
use pool::{Event, Failure, HostTerms, ServerKey};
use protocol::fault::EndedBy;
use reactor::Io;

use crate::data::server::ServerStage;
use crate::letters::Standing;
use crate::upstream::moves::may_move;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a host of a database is suspect.
    pub(super) fn is_suspect(&self, entry: &Database, place: usize) -> bool {
        is_suspect(&self.hands.active.standing, entry, place)
    }

    /// Other hosts are suspect: those that have become so are left, and those that answer again may be used.
    pub(crate) fn heed_suspects(&mut self, old: &Standing) {
        if self.hands.active.standing.suspects_as(old) {
            return;
        }
        for number in self.registry.database_numbers() {
            let entry = self.registry.database_at(number).entry.clone();
            let Some(entry) = entry.filter(|entry| may_move(entry)) else { continue };
            for place in 0..entry.hosts.len() {
                match (is_suspect(old, &entry, place), self.is_suspect(&entry, place)) {
                    (false, true) => self.leave_suspect(number, &entry, place),
                    (true, false) => {
                        self.registry.database_at_mut(number).host_choice.answers_again(place);
                        self.try_hosts_of(number);
                    }
                    _ => {}
                }
            }
        }
    }

    /// A host has become suspect: its servers are closed that nobody uses, or that have been sent nothing for their clients.
    fn leave_suspect(&mut self, database: u32, entry: &Database, place: usize) {
        let terms = self.terms_of_readers(entry);
        let (now, rests) = (self.hands.now, self.hands.active.settings.server_login_retry);
        let choice = &self.registry.database_at(database).host_choice;
        if !choice.has_unsuspected(now, &terms, rests) {
            return;
        }
        let there = self.servers.iter().filter(|(_, server)| {
            server.database() == database && server.dedicated().is_none() && server.host().place() == place
        });
        let there: Vec<ServerKey> = there.map(|(key, _)| key).collect();
        for key in there {
            let Some(server) = self.servers.get(key) else { continue };
            let waiting = server.client().zip(server.session().phase.waits_since());
            match server.stage() {
                // `connect_query` may take long.
                ServerStage::Introducing => continue,
                ServerStage::Idle | ServerStage::Lent { .. } | ServerStage::Cleaning(_) => {
                    self.retired_by(key, EndedBy::Renewal);
                    match waiting.filter(|(client, _)| !self.keeps_something(*client)) {
                        Some((client, since)) => self.lose_before_use(key, client, since, SUSPECT),
                        None => self.tell_pools(Event::RetireServer { server: key }),
                    }
                }
                _ => self.dial_failed(key, Failure::unreachable(SUSPECT)),
            }
            self.settle();
        }
    }

    /// What is known of the hosts of a database. Only at a standby servers of a database for standbys can be, and in all likelihood those of
    /// one that only reads.
    fn terms_of_readers(&self, entry: &Database) -> Vec<HostTerms> {
        let mut terms = self.wishes_for_hosts(entry);
        let gate = entry.cluster.as_ref().and_then(|cluster| self.hands.active.standing.gate(cluster));
        if let (SessionAttrs::Standby | SessionAttrs::ReadOnly, Some(Gate::Only(name))) =
            (entry.target_session_attrs, gate)
            && let Some(primary) = entry.place_of(|host, port| *host.at(port) == **name)
        {
            terms[primary].is_left = true;
        }
        terms
    }
}

fn is_suspect(standing: &Standing, entry: &Database, place: usize) -> bool {
    let name = || entry.hosts.get(place).map(|host| host.at(entry.port_at(place)));
    entry.cluster.as_ref().is_some_and(|cluster| name().is_some_and(|name| standing.is_suspect(cluster, &name)))
}

/// Why servers are closed.
const SUSPECT: &str = "its host does not answer in its time";
