//! The names of hosts, and what is remembered of their addresses.
//!
//! Always true: a name is asked for by one question at a time, whoever wants its addresses; they are given out in turn.
//! Not here: looking a name up, which the control thread does (`control::names`); dialing (`dial`, `cancel::peers`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Time};
use pool::{Event, ServerKey};
use reactor::{Address, Io, Level};

use crate::data::server::Server;
use crate::letters::{Found, HostRow, ToControl};
use crate::turn::Worker;

/// What is known of a host's name.
#[derive(Debug, Default)]
pub(crate) struct NamePlace {
    found: Option<Result<Vec<IpAddr>, Arc<str>>>,
    /// Until when that is believed.
    until: Time,
    is_asked: bool,
    /// Which address was given out last.
    turn: usize,
    /// Who waits for the answer.
    waiting: Vec<Asker>,
}

/// Who wants an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// A server that is to be dialed.
    Server(ServerKey),
    /// A cancel request for another process.
    Forward(Key),
}

/// What is known of a name at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// One of its addresses.
    Address(IpAddr),
    /// That it has none.
    Nothing,
    /// Nothing yet: the asker is told when it is.
    Later,
}

impl<I: Io> Worker<I> {
    /// An address of this name, the next one each time.
    pub(crate) fn address_of(&mut self, name: &Arc<str>, asker: Asker) -> Known {
        let place = self.places.names.entry(name.clone()).or_default();
        if place.until > self.now
            && let Some(found) = &place.found
        {
            place.turn += 1;
            return match found {
                Ok(addresses) => Known::Address(addresses[place.turn % addresses.len()]),
                Err(_) => Known::Nothing,
            };
        }
        place.waiting.push(asker);
        if !std::mem::replace(&mut place.is_asked, true) {
            (self.posts.control)(ToControl::Resolve { from: self.id, name: name.clone() });
        }
        Known::Later
    }

    /// The control thread has looked a name up.
    pub(crate) fn resolved(&mut self, name: &Arc<str>, found: Found) {
        let settings = &self.force.settings;
        let believed = match &found {
            Ok(addresses) => addresses.ttl.map_or(settings.dns_max_ttl, |ttl| ttl.min(settings.dns_max_ttl)),
            Err(_) => settings.dns_nxdomain_ttl,
        };
        let found = found.map(|addresses| addresses.all);
        if let Err(error) = &found {
            self.log.add(Level::Warning, format_args!("DNS lookup failed: {name}: {error}"));
        }
        let Some(place) = self.places.names.get_mut(name) else { return };
        place.until = self.now + believed.max(BELIEVED_AT_LEAST);
        place.is_asked = false;
        let waiting = std::mem::take(&mut place.waiting);
        if let Ok(addresses) = &found {
            self.leave_old_addresses(name, addresses);
        }
        let Some(place) = self.places.names.get_mut(name) else { return };
        place.found = Some(found);
        for asker in waiting {
            match asker {
                Asker::Server(server) => self.server_resolved(server, name),
                Asker::Forward(forward) => self.forward_resolved(forward),
            }
        }
    }

    /// Servers at an address that their host's name no longer has are replaced as soon as nobody uses them.
    fn leave_old_addresses(&mut self, name: &Arc<str>, addresses: &[IpAddr]) {
        let is_left = |server: &Server| match &server.address {
            Some(Address::Tcp(at)) => server.host == *name && !addresses.contains(&at.ip()),
            _ => false,
        };
        let left: Vec<_> = self.servers.iter().filter(|(_, server)| is_left(server)).map(|(key, _)| key).collect();
        if left.is_empty() {
            return;
        }
        let count = left.len();
        self.log.add(Level::Log, format_args!("{name} has other addresses now, replacing {count} servers at old ones"));
        for server in left {
            self.tell_pools(Event::RetireServer { server });
            self.settle();
        }
    }

    /// The names that are remembered, and until when.
    pub(crate) fn host_rows(&self) -> Vec<HostRow> {
        let row = |(name, place): (&Arc<str>, &NamePlace)| HostRow {
            name: name.clone(),
            ttl: Duration::from_micros(place.until.0.saturating_sub(self.now.0)),
            addresses: place.found.iter().flatten().flatten().copied().collect(),
        };
        self.places.names.iter().map(row).collect()
    }

    pub(crate) fn names_asked(&self) -> usize {
        self.places.names.values().filter(|place| place.is_asked).count()
    }
}

/// However short the operator's trust: two servers dialed together ask once.
const BELIEVED_AT_LEAST: Duration = Duration::from_millis(100);
