//! Looks up host names and remembers their addresses.
//!
//! Always true: at most one lookup of a name is under way.
//! Not here: the lookup itself, which the control thread does (`control::names`); its answer (`resolved`); dialing
//! (`dial`, `cancel::peers`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::Host;
use reactor::{Address, Io};

use crate::letters::{HostRow, ToControl};
use crate::upstream::names::{Asker, Known, NamePlace, fixed_address};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Returns the addresses of a host for one dial. If its name has to be looked up, asks the control thread to do so.
    pub(crate) fn addresses_of(&mut self, host: &Host, port: u16, asker: Asker) -> Known {
        let Host::Name(name) = host else {
            return fixed_address(host, port).map_or(Known::Later, |address| Known::Addresses(vec![address]));
        };
        let pause = self.active.settings.server_login_retry;
        let place = self.registry.names.entry(name.clone()).or_default();
        if place.until > self.now
            && let Some(found) = place.found.clone()
        {
            let order = found.map(|addresses| place.next_order(&addresses, self.now, pause));
            let addresses = |order: Vec<_>| order.iter().map(|ip| Address::Tcp(SocketAddr::new(*ip, port))).collect();
            return order.map_or_else(Known::Nothing, |order| Known::Addresses(addresses(order)));
        }
        place.waiting.push(asker);
        if !std::mem::replace(&mut place.is_asked, true) {
            (self.posts.control)(ToControl::Resolve { from: self.id, name: name.clone() });
        }
        Known::Later
    }

    /// An address of this host could not be reached: later dials try it last for a while.
    pub(crate) fn note_unreached(&mut self, host: &str, address: &Address) {
        if let (Some(place), Address::Tcp(socket)) = (self.registry.names.get_mut(host), address) {
            place.is_unreached(socket.ip(), self.now);
        }
    }

    /// Rows of the remembered names and how long they are still valid.
    pub(crate) fn host_row(&self, name: &Arc<str>, place: &NamePlace) -> HostRow {
        HostRow {
            name: name.clone(),
            ttl: Duration::from_micros(place.until.0.saturating_sub(self.now.0)),
            addresses: place.found.iter().flatten().flatten().copied().collect(),
        }
    }
}
