//! Dials a server: from a free slot to a connection that is established.
//!
//! Always true: a dial ends in exactly one of `Ready` and `DialFailed`; it has failed only when no address of its host
//! could be reached; servers at an address that their host name no longer has are replaced as soon as they are not in use.
//! Not here: when to dial and when to try again (`pool::dial`), the addresses of host names (`host_names`), what
//! follows on the connection (`secure`, `login`).

use std::sync::Arc;
use std::time::Duration;

use base::{Time, counted, earliest};
use config::{Database, Host};
use pool::{ClientKey, Event, Failure, OpenReason, PoolKey, ServerKey};
use protocol::fault::EndedBy;
use protocol::vars::Vars;
use reactor::{Close, Conn, Io, Level};

use crate::data::close_server::opened_for;
use crate::data::server::{Server, ServerStage};
use crate::letters::Found;
use crate::timers::Timer;
use crate::upstream::attempt::{Attempt, word};
use crate::upstream::dialed_host::DialedHost;
use crate::upstream::host_names::{Asker, Known};
use crate::upstream::host_terms::order_of_hosts;
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Opens a server for a pool, or a dedicated one for the client `owner`.
    pub(crate) fn dial(&mut self, pool: PoolKey, key: ServerKey, owner: Option<ClientKey>, why: OpenReason) {
        let id = self.hands.posts.ids.take();
        let Some(place) = self.registry.pool(pool) else { return };
        let (database, is_replica) = (place.database, place.home.is_some());
        let unknown = self.known_vars.share(Vars::new(&self.hands.active.tracked));
        let nowhere = Conn::NOWHERE;
        self.servers.insert(key, Server::new(nowhere, id, pool, database, unknown, self.hands.now));
        if let Some(server) = self.servers.get_mut(key) {
            server.set_opened_for(opened_for(why));
            server.serves_reads(is_replica);
        }
        if owner.is_some_and(|owner| !self.dedicate(owner, key)) {
            return;
        }
        self.arm_server(key);
        let Some(entry) = self.registry.database_at(database).entry.clone() else {
            self.dial_failed(key, Failure::unreachable("database removed"));
            return;
        };
        if entry.hosts.is_empty() {
            return self.knows_no_host(key, &entry);
        }
        match self.next_host(key, database, &entry) {
            Some((host, port)) => self.reach(key, &host, port),
            None => self.no_host_may_be_used(key, &entry),
        }
    }

    /// Chooses one of several hosts: the next that suits the database, or the same one until it fails. `None` if none may be used.
    fn next_host(&mut self, key: ServerKey, database: u32, entry: &Database) -> Option<(Host, u16)> {
        let (now, rests) = (self.hands.now, self.hands.active.settings.server_login_retry);
        let only = self.place_of_primary(entry);
        let terms = self.terms_of_hosts(database, entry, Some(key));
        let choice = &mut self.registry.database_at_mut(database).host_choice;
        choice.keep_to(only);
        let place = choice.next(now, &terms, order_of_hosts(entry), rests)?;
        self.arm_moves();
        let is_quiet = self.is_outage_told(entry);
        let port = entry.port_at(place);
        if let Some(server) = self.servers.get_mut(key) {
            server.set_host(DialedHost::new(&entry.hosts[place], port, place, is_quiet));
        }
        Some((entry.hosts[place].clone(), port))
    }

    /// The agents of the cluster have told no member yet: that is an outage.
    fn knows_no_host(&mut self, key: ServerKey, entry: &Database) {
        let is_quiet = self.is_outage_told(entry);
        if let Some(server) = self.servers.get_mut(key) {
            server.set_host(DialedHost::unknown(is_quiet));
        }
        self.dial_failed(key, Failure::unreachable("the members of its cluster are not known yet"));
    }

    fn reach(&mut self, key: ServerKey, host: &Host, port: u16) {
        let why = match self.names.addresses_of(host, port, Asker::Server(key), &self.hands) {
            Known::Addresses(addresses) => match (Attempt::begin(addresses, self.hands.now), self.servers.get_mut(key))
            {
                (Some(attempt), Some(server)) => {
                    server.enters(ServerStage::Connecting(Box::new(attempt)));
                    return self.connect_server(key);
                }
                (None, Some(_)) => "the name has no address".into(),
                (_, None) => return,
            },
            Known::Nothing(why) => why,
            Known::Later => return,
        };
        self.dial_failed(key, Failure::unreachable("server DNS lookup failed").explained(Some(&why), None));
    }

    /// The control thread has looked up a name: goes on with everything that waits for its addresses.
    pub(crate) fn resolved(&mut self, name: &Arc<str>, found: Found) {
        let waiting = self.names.resolved(name, found, &mut self.hands);
        self.leave_old_addresses(name);
        for asker in waiting {
            match asker {
                Asker::Server(server) => self.server_resolved(server, name),
                Asker::Forward(forward) => self.cancel.forward_resolved(forward, &mut self.hands, &mut self.names),
            }
        }
    }

    /// Has servers replaced whose address their host name no longer has, as soon as they are not in use.
    fn leave_old_addresses(&mut self, name: &Arc<str>) {
        let is_left = |server: &Server| {
            let address = server.address().filter(|_| server.host().name() == name);
            address.is_some_and(|address| self.names.has_moved_from(name, address))
        };
        let left: Vec<_> = self.servers.iter().filter(|(_, server)| is_left(server)).map(|(key, _)| key).collect();
        if left.is_empty() {
            return;
        }
        let servers = counted(left.len(), "server");
        let old = if left.len() == 1 { "an old address" } else { "old addresses" };
        self.hands.log.add(Level::Log, format_args!("{name} has other addresses now, replacing {servers} at {old}"));
        for server in left {
            self.retired_by(server, EndedBy::Renewal);
            self.tell_pools(Event::RetireServer { server });
            self.settle();
        }
    }

    /// Continues a dial whose host name has been looked up.
    fn server_resolved(&mut self, key: ServerKey, name: &Arc<str>) {
        let Some(server) = self.servers.get(key) else { return };
        if matches!(server.stage(), ServerStage::Resolving) {
            let port = server.host().port();
            self.reach(key, &Host::Name(name.clone()), port);
        }
    }

    /// Connects to the next address of the attempt; if that fails at once, to the one after it.
    fn connect_server(&mut self, key: ServerKey) {
        loop {
            let Some(server) = self.servers.get_mut(key) else { return };
            let ServerStage::Connecting(attempt) = server.stage_mut() else { return };
            let address = attempt.address().clone();
            server.dials(address.clone());
            match self.hands.io.connect(&address, Owner::Server(key).to_bits()) {
                Ok(conn) => {
                    server.connects_by(conn);
                    if let Some(attempt) = server.attempt() {
                        attempt.starts(self.hands.now);
                    }
                    return self.arm_server(key);
                }
                Err(error) if is_scarce(&error) => {
                    // No descriptor is free, which is not the server's fault: the dial is repeated until its own timeout.
                    self.tell_delayed(key, &error);
                    self.hands.timers.insert(self.hands.now + SCARCE_PAUSE, Timer::Redial(key));
                    return;
                }
                Err(error) if self.may_go_on(key, &words(&error)) => {}
                Err(_) => return,
            }
        }
    }

    /// Logs that a dial waits for a descriptor. All dials do so ten times a second while there is none.
    fn tell_delayed(&mut self, key: ServerKey, error: &std::io::Error) {
        let Some(count) = self.registry.dial_is_delayed(self.hands.now, DELAYED_TOLD_EVERY) else { return };
        let times = if count == 1 { String::new() } else { format!(" ({count} times since the last such line)") };
        self.log_server(key, Level::Warning, format_args!("connect delayed: {}{times}", words(error)));
    }

    /// Repeats a dial that found no free descriptor.
    pub(crate) fn redial(&mut self, key: ServerKey) {
        if self.servers.get(key).is_some_and(|server| server.conn() == Conn::NOWHERE) {
            self.connect_server(key);
        }
    }

    /// The connection attempt failed; the reactor has closed the socket.
    pub(crate) fn connect_failed(&mut self, key: ServerKey, error: &std::io::Error) {
        if self.may_go_on(key, &words(error)) {
            self.connect_server(key);
        }
    }

    /// An address has not answered in its time.
    pub(crate) fn connect_is_late(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        let ServerStage::Connecting(attempt) = server.stage() else { return };
        let is_over = self.connect_end(server, attempt).is_some_and(|end| end <= self.hands.now);
        let Some(server) = self.servers.get_mut(key) else { return };
        let ServerStage::Connecting(attempt) = server.stage_mut() else { return };
        if is_over {
            attempt.fails(NO_ANSWER);
            let failure = Failure::unreachable("connect timeout").explained(attempt.reasons().as_deref(), None);
            return self.dial_failed(key, failure);
        }
        self.hands.io.close(server.conn(), Close::Now);
        if self.may_go_on(key, NO_ANSWER) {
            self.connect_server(key);
        }
    }

    /// When a connection has to be established at last. While there are other hosts to be tried, a silent one gets little time: a
    /// lost first packet of TCP is repeated after a second.
    pub(crate) fn connect_end(&self, server: &Server, attempt: &Attempt) -> Option<Time> {
        let end = self.hands.active.settings.server_connect_timeout.map(|limit| server.since() + limit);
        match self.registry.database_at(server.database()).host_choice.left() {
            0 | 1 => end,
            _ => earliest([end, Some(attempt.begun() + HOST_TIME)]),
        }
    }

    /// The level of a line about a dial: during an outage, each attempt but one in a while is of use only to who looks for it.
    pub(crate) fn dial_level(&self, key: ServerKey, level: Level) -> Level {
        let is_quiet = self.servers.get(key).is_some_and(|server| server.host().is_quiet());
        if is_quiet { Level::Debug } else { level }
    }

    /// An address could not be reached. Returns whether the dial goes on with another one; else it has failed.
    fn may_go_on(&mut self, key: ServerKey, why: &str) -> bool {
        let line = self.server_prefix(key);
        let Some(server) = self.servers.get_mut(key) else { return false };
        if server.attempt().is_none() {
            return false;
        }
        server.connects_by(Conn::NOWHERE);
        let host = server.host().name().clone();
        let Some(attempt) = server.attempt() else { return false };
        let failed = attempt.address().clone();
        let next = attempt.fails(why).map(word);
        let all = attempt.reasons();
        self.names.note_unreached(&host, &failed, self.hands.now);
        if let Some(next) = next {
            let words = format_args!("connect failed: {why}; {next} of {host} is tried next");
            self.hands.log.about(&line, self.dial_level(key, Level::Log), words);
            return true;
        }
        let why = all.as_deref().unwrap_or(why);
        self.hands.log.about(&line, self.dial_level(key, Level::Warning), format_args!("connect failed: {why}"));
        self.dial_failed(key, Failure::unreachable("connect failed").explained(Some(why), None));
        false
    }

    /// The connection is established: continues with TLS or the login.
    pub(crate) fn server_connected(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        if self.hands.active.settings.log_connections {
            let ours = self.hands.io.near_end(server.conn());
            let from = ours.map_or_else(String::new, |ours| format!(" (from {ours})"));
            self.log_server(key, self.dial_level(key, Level::Log), format_args!("new connection to server{from}"));
        }
        self.send_proxy_header(key);
        if self.asks_for_tls(key) {
            self.ask_for_tls(key);
        } else if self.lacks_tls(key) {
            self.dial_failed(key, Failure::unreachable("TLS is required and could not be set up"));
        } else {
            self.begin_server_login(key);
        }
    }
}

/// The text of a system error, without the number that Rust appends.
pub(crate) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

/// Whether the error says that descriptors have run out.
fn is_scarce(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| code == EMFILE || code == ENFILE)
}
/// `EMFILE` and `ENFILE`, "too many open files" of the process and of the machine (Linux, `errno-base.h`).
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// How often at most a worker logs that dials wait for descriptors.
const DELAYED_TOLD_EVERY: Duration = Duration::from_secs(10);
/// The reason of an address that has not answered in its time.
pub(crate) const NO_ANSWER: &str = "no answer";
/// How long a dial waits for a descriptor before it tries again.
const SCARCE_PAUSE: Duration = Duration::from_millis(100);
/// The time of a host to accept a connection while others are left to be tried.
const HOST_TIME: Duration = Duration::from_secs(2);
