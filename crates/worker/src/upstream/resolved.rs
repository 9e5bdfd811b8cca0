//! Handles the answer of a lookup of a host name.
//!
//! Always true: each waiting asker is called back; servers at an address that the name no longer has are replaced as
//! soon as they are not in use.
//! Not here: asking for a lookup (`host_names`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::counted;
use pool::Event;
use protocol::fault::EndedBy;
use reactor::{Address, Io, Level};

use crate::data::server::Server;
use crate::letters::Found;
use crate::upstream::names::Asker;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The control thread has looked up a name.
    pub(crate) fn resolved(&mut self, name: &Arc<str>, found: Found) {
        let settings = &self.active.settings;
        let believed = match &found {
            Ok(addresses) => addresses.ttl.map_or(settings.dns_max_ttl, |ttl| ttl.min(settings.dns_max_ttl)),
            Err(_) => settings.dns_nxdomain_ttl,
        };
        let found = found.map(|addresses| addresses.all);
        if let Err(error) = &found {
            self.log.add(Level::Warning, format_args!("DNS lookup failed: {name}: {error}"));
        }
        let Some(place) = self.registry.names.get_mut(name) else { return };
        place.until = self.now + believed.max(BELIEVED_AT_LEAST);
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
        self.log.add(Level::Log, format_args!("{name} has other addresses now, replacing {servers} at {old}"));
        for server in left {
            self.retired_by(server, EndedBy::Renewal);
            self.tell_pools(Event::RetireServer { server });
            self.settle();
        }
    }
}

/// Minimum validity whatever the settings and the TTL say, so that two servers dialed together cause one lookup.
const BELIEVED_AT_LEAST: Duration = Duration::from_millis(100);
