//! Which replicas a database may read from, as the control thread has found out: those that are not too far behind.
//!
//! Always true: no server is dialed at a host that is too far behind for its database, or of which that is not known; those that are
//! there are closed as soon as no client has them.
//! Not here: how far a host is behind (`cluster::Rotation`), which of the others is dialed (`pool::HostChoice`).

use config::{Database, WhenNoReplica};
use pool::{Event, Failure, FailureKind, ServerKey};
use protocol::fault::EndedBy;
use reactor::{Io, Level};

use crate::data::server::Server;
use crate::letters::Standing;
use crate::upstream::role::has_one_host_at_a_time;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a database may read at one of its hosts.
    pub(super) fn is_near_enough(&self, entry: &Database, place: usize) -> bool {
        if !has_limit(entry) {
            return true;
        }
        let readable = self.hands.active.standing.readable(entry);
        let name = entry.hosts.get(place).map(|host| host.at(entry.port_at(place)));
        readable.zip(name).is_some_and(|(hosts, name)| hosts.contains(name.as_str()))
    }

    /// Whether the database of a server may read where the server is.
    pub(super) fn may_be_read(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return true };
        let entry = self.registry.database_at(server.database()).entry.as_ref();
        entry.is_none_or(|entry| self.is_near_enough(entry, server.host().place()))
    }

    /// Other hosts may be read from: servers at those that are too far behind are replaced, and those that are near enough again are
    /// tried at once. Where nothing is known yet, servers stay.
    pub(crate) fn heed_lag(&mut self, old: &Standing) {
        for number in self.registry.database_numbers() {
            let Some(entry) = self.registry.database_at(number).entry.clone().filter(|entry| has_limit(entry)) else {
                continue;
            };
            let Some(readable) = self.hands.active.standing.readable(&entry) else { continue };
            let places = entry.hosts_with_ports().enumerate();
            let new: Vec<usize> = places
                .filter(|(_, (host, port))| {
                    let name = host.at(*port);
                    readable.contains(name.as_str())
                        && old.readable(&entry).is_none_or(|hosts| !hosts.contains(name.as_str()))
                })
                .map(|(place, _)| place)
                .collect();
            self.leave_distant_hosts(number, &entry);
            let choice = &mut self.registry.database_at_mut(number).host_choice;
            new.iter().for_each(|place| choice.is_back(*place));
            if !new.is_empty() {
                self.try_hosts_of(number);
            }
        }
    }

    fn leave_distant_hosts(&mut self, database: u32, entry: &Database) {
        let is_left = |server: &Server| {
            server.database() == database
                && server.dedicated().is_none()
                && !self.is_near_enough(entry, server.host().place())
        };
        let left: Vec<ServerKey> =
            self.servers.iter().filter(|(_, server)| is_left(server)).map(|(key, _)| key).collect();
        for server in left {
            self.retired_by(server, EndedBy::Renewal);
            self.tell_pools(Event::RetireServer { server });
            self.settle();
        }
    }

    /// There is no host at which a server may be dialed.
    pub(super) fn no_host_may_be_used(&mut self, key: ServerKey, entry: &Database) {
        let why = "no host of the database has shown that it is near enough to the primary";
        let failure = Failure { kind: FailureKind::Passing, ..Failure::unreachable(why) };
        let failure = failure.explained(Some(&entry.max_lag.to_string()), None);
        if !self.is_outage_told(entry) {
            self.log_server(key, Level::Warning, format_args!("{}", failure.words()));
        }
        self.search_ends(key, failure);
    }

    /// What a failed search for a host means to the clients of replicas that are not to wait for one: their database says so, or the
    /// primary answers their reads instead.
    pub(super) fn for_want_of_a_replica(&self, key: ServerKey, failure: Failure) -> Failure {
        let Some(server) = self.servers.get(key) else { return failure };
        let entry = self.registry.database_at(server.database()).entry.as_ref();
        let refuses = entry.filter(|entry| entry.when_no_replica == WhenNoReplica::Refuse || server.is_replica());
        match refuses {
            Some(entry) if failure.kind == FailureKind::Passing => Failure {
                kind: FailureKind::Refused,
                sqlstate: Some(CANNOT_CONNECT_NOW),
                text: format!("no replica of database \"{}\" can be used", entry.name).into(),
                detail: Some(failure.words().into()),
                hint: None,
                whose: None,
            },
            _ => failure,
        }
    }
}

/// Whether it matters to a database how far its hosts are behind.
fn has_limit(entry: &Database) -> bool {
    !entry.max_lag.is_none() && !has_one_host_at_a_time(entry)
}

/// `cannot_connect_now` (PostgreSQL, `errcodes.txt`).
const CANNOT_CONNECT_NOW: [u8; 5] = *b"57P03";
