//! Looks up host names and remembers their addresses, and the dials and cancel requests that wait for them.
//!
//! Always true: at most one lookup of a name is under way; each waiting asker is called back. All addresses of a name are given out
//! for each dial, another one first each time; those that could not be reached a moment ago come last. Servers at an address that
//! the name no longer has are replaced as soon as they are not in use.
//! Not here: the lookup itself, which the control thread does (`control::names`); dialing (`dial`, `cancel::peers`).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Time, counted};
use config::Host;
use pool::{Event, ServerKey};
use protocol::fault::EndedBy;
use reactor::{Address, Io, Level};

use crate::data::server::Server;
use crate::letters::{Found, HostRow, ToControl};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Returns the addresses of a host for one dial. If its name has to be looked up, asks the control thread to do so.
    pub(crate) fn addresses_of(&mut self, host: &Host, port: u16, asker: Asker) -> Known {
        let Host::Name(name) = host else {
            return fixed_address(host, port).map_or(Known::Later, |address| Known::Addresses(vec![address]));
        };
        let pause = self.hands.active.settings.server_login_retry;
        let place = self.registry.names.entry(name.clone()).or_default();
        if place.until > self.hands.now
            && let Some(found) = place.found.clone()
        {
            let order = found.map(|addresses| place.next_order(&addresses, self.hands.now, pause));
            let addresses = |order: Vec<_>| order.iter().map(|ip| Address::Tcp(SocketAddr::new(*ip, port))).collect();
            return order.map_or_else(Known::Nothing, |order| Known::Addresses(addresses(order)));
        }
        place.waiting.push(asker);
        if !std::mem::replace(&mut place.is_asked, true) {
            (self.hands.posts.control)(ToControl::Resolve { from: self.hands.id, name: name.clone() });
        }
        Known::Later
    }

    /// An address of this host could not be reached: later dials try it last for a while.
    pub(crate) fn note_unreached(&mut self, host: &str, address: &Address) {
        if let (Some(place), Address::Tcp(socket)) = (self.registry.names.get_mut(host), address) {
            place.is_unreached(socket.ip(), self.hands.now);
        }
    }

    /// Rows of the remembered names and how long they are still valid.
    pub(crate) fn host_row(&self, name: &Arc<str>, place: &NamePlace) -> HostRow {
        HostRow {
            name: name.clone(),
            ttl: Duration::from_micros(place.until.0.saturating_sub(self.hands.now.0)),
            addresses: place.found.iter().flatten().flatten().copied().collect(),
        }
    }

    /// The control thread has looked up a name.
    pub(crate) fn resolved(&mut self, name: &Arc<str>, found: Found) {
        let settings = &self.hands.active.settings;
        let believed = match &found {
            Ok(addresses) => addresses.ttl.map_or(settings.dns_max_ttl, |ttl| ttl.min(settings.dns_max_ttl)),
            Err(_) => settings.dns_nxdomain_ttl,
        };
        let found = found.map(|addresses| addresses.all);
        if let Err(error) = &found {
            self.hands.log.add(Level::Warning, format_args!("DNS lookup failed: {name}: {error}"));
        }
        let Some(place) = self.registry.names.get_mut(name) else { return };
        place.until = self.hands.now + believed.max(BELIEVED_AT_LEAST);
        place.is_asked = false;
        let waiting = std::mem::take(&mut place.waiting);
        if let Ok(addresses) = &found {
            self.leave_old_addresses(name, addresses);
        }
        let Some(place) = self.registry.names.get_mut(name) else { return };
        place.found = Some(found);
        for asker in waiting {
            match asker {
                Asker::Server(server) => self.server_resolved(server, name),
                Asker::Forward(forward) => self.forward_resolved(forward),
            }
        }
    }

    /// Has servers replaced whose address their host name no longer has, as soon as they are not in use.
    fn leave_old_addresses(&mut self, name: &Arc<str>, addresses: &[IpAddr]) {
        let is_left = |server: &Server| match &server.address {
            Some(Address::Tcp(at)) => server.host == *name && !addresses.contains(&at.ip()),
            _ => false,
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
}

/// Minimum validity whatever the settings and the TTL say, so that two servers dialed together cause one lookup.
const BELIEVED_AT_LEAST: Duration = Duration::from_millis(100);

/// A host name: its addresses, or the error of its last lookup.
#[derive(Debug, Default)]
pub(crate) struct NamePlace {
    pub(super) found: Option<Result<Vec<IpAddr>, Arc<str>>>,
    /// When the addresses or the error expire.
    pub(super) until: Time,
    pub(super) is_asked: bool,
    /// The number of dials so far, for the round robin.
    pub(super) turn: usize,
    /// The addresses that could not be reached, and since when.
    pub(super) unreached: BTreeMap<IpAddr, Time>,
    /// The dials and cancel requests that wait for the answer.
    pub(super) waiting: Vec<Asker>,
}

/// What an address is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// The dial of a server.
    Server(ServerKey),
    /// A cancel request for another process.
    Forward(Key),
}

/// What is known of the address of a host at the moment.
#[derive(Debug)]
pub(crate) enum Known {
    /// Its addresses, of which there is at least one, in the order in which they are to be tried.
    Addresses(Vec<Address>),
    /// The name has no address, for this reason.
    Nothing(Arc<str>),
    /// A lookup is under way; the asker is called back.
    Later,
}

impl NamePlace {
    /// Whether the name is being looked up.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The addresses in the order in which the next dial tries them. One that could not be reached comes last for
    /// `pause`, so that not every other server is opened late while an address is silent.
    pub(super) fn next_order(&mut self, addresses: &[IpAddr], now: Time, pause: Duration) -> Vec<IpAddr> {
        self.unreached.retain(|_, since| now < *since + pause);
        let first = self.turn % addresses.len().max(1);
        self.turn = self.turn.wrapping_add(1);
        let mut order = [&addresses[first..], &addresses[..first]].concat();
        order.sort_by_key(|ip| self.unreached.contains_key(ip));
        order
    }

    /// Notes that an address could not be reached.
    pub(super) fn is_unreached(&mut self, ip: IpAddr, now: Time) {
        if self.found.iter().flatten().flatten().any(|found| *found == ip) {
            self.unreached.insert(ip, now);
        }
    }
}

/// The address of a host that needs no lookup; `None` for a host name.
pub(crate) fn fixed_address(host: &Host, port: u16) -> Option<Address> {
    let socket = host.socket_name(port).map(Box::from);
    match host {
        Host::Ip(ip) => Some(Address::Tcp(SocketAddr::new(*ip, port))),
        Host::Unix(_) => socket.map(Address::Unix),
        Host::Abstract(_) => socket.map(Address::Abstract),
        Host::Name(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn order(place: &mut NamePlace, secs: u64) -> Vec<u8> {
        let found = [ip(1), ip(2), ip(3)];
        place.found = Some(Ok(found.to_vec()));
        let order = place.next_order(&found, Time::from_secs(secs), Duration::from_secs(15));
        order
            .iter()
            .map(|ip| ip.to_string().rsplit('.').next().and_then(|last| last.parse().ok()).unwrap_or(0))
            .collect()
    }

    #[test]
    fn the_first_address_comes_first_and_each_dial_begins_with_another() {
        let mut place = NamePlace::default();
        assert_eq!(order(&mut place, 0), [1, 2, 3]);
        assert_eq!(order(&mut place, 0), [2, 3, 1]);
        assert_eq!(order(&mut place, 0), [3, 1, 2]);
        assert_eq!(order(&mut place, 0), [1, 2, 3]);
    }

    #[test]
    fn an_address_that_could_not_be_reached_comes_last_for_a_while() {
        let mut place = NamePlace::default();
        assert_eq!(order(&mut place, 0), [1, 2, 3]);
        place.is_unreached(ip(2), Time::from_secs(0));
        // An address that the name does not have is not remembered.
        place.is_unreached(ip(9), Time::from_secs(0));
        assert_eq!(place.unreached.len(), 1);
        assert_eq!(order(&mut place, 14), [3, 1, 2]);
        assert_eq!(order(&mut place, 14), [3, 1, 2]);
        assert_eq!(order(&mut place, 15), [1, 2, 3]);
        assert_eq!(order(&mut place, 15), [2, 3, 1]);
    }

    #[test]
    fn all_addresses_are_tried_even_if_none_could_be_reached() {
        let mut place = NamePlace::default();
        order(&mut place, 0);
        (1..=3).for_each(|last| place.is_unreached(ip(last), Time::from_secs(1)));
        assert_eq!(order(&mut place, 2), [2, 3, 1]);
    }
}
