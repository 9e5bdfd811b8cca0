//! Another process of a group that shares a port: a line of `[peers]`.
//!
//! Always true: a peer has a host and an id from 1 to 65535.
//! Not here: what peers send each other.

use std::sync::Arc;

use crate::catalog::Settings;
use crate::database::ProxyProtocol;
use crate::host::Host;
use crate::mistake::Wrong;
use crate::pairs::{count, pairs, port, unrecognized, word};

/// A process that may be the target of a cancel request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its id, never 0.
    pub id: u16,
    /// Where it listens.
    pub host: Host,
    /// The host as written.
    pub host_text: Arc<str>,
    /// Its port.
    pub port: u16,
    /// Most connections to it; `None` inherits `default_pool_size`.
    pub pool_size: Option<u32>,
    /// The PROXY protocol header with which each connection to it begins.
    pub proxy_protocol: ProxyProtocol,
}

impl Peer {
    /// Parses a line of `[peers]`.
    pub(crate) fn parse(name: &str, value: &str) -> Result<Self, Vec<Wrong>> {
        let mut wrongs = Vec::new();
        let id = name.parse().ok().filter(|id| *id > 0).unwrap_or_else(|| {
            wrongs.push(Wrong::new(format!("invalid peer id: {name} (expected a whole number from 1 to 65535)")));
            0
        });
        let (mut peer_host, mut peer_port, mut pool_size) = (None, PORT, None);
        let mut proxy_protocol = ProxyProtocol::default();
        for (key, value) in pairs(value).map_err(|wrong| vec![wrong])? {
            let outcome = match key {
                "host" => Host::parse(&value).map(|host| peer_host = Some((host, Arc::from(&*value)))),
                "port" => port(&value).map(|port| peer_port = port),
                "pool_size" => count(key, &value).map(|size| pool_size = size),
                "proxy_protocol" => word(key, &value).map(|word| proxy_protocol = word),
                _ => Err(unrecognized("connection", key, &["host", "port", "pool_size", "proxy_protocol"])),
            };
            wrongs.extend(outcome.err());
        }
        match peer_host {
            Some((host, host_text)) if wrongs.is_empty() => {
                Ok(Self { id, host, host_text, port: peer_port, pool_size, proxy_protocol })
            }
            None if wrongs.is_empty() => Err(vec![Wrong::new(format!("peer {id} has no host"))]),
            _ => Err(wrongs),
        }
    }
}

impl Settings {
    /// The peer id of this process; 0 if it has none.
    #[must_use]
    pub fn own_peer(&self) -> u16 {
        u16::try_from(self.peer_id).unwrap_or(0)
    }

    /// Most connections to a peer; `None` is unlimited.
    #[must_use]
    pub fn peer_pool_size(&self, peer: &Peer) -> Option<u32> {
        Some(peer.pool_size.unwrap_or(self.default_pool_size)).filter(|size| *size > 0)
    }
}

/// The default port of a pooler.
const PORT: u16 = 6432;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_number_and_a_host() {
        let peer = Peer::parse("3", "host=10.0.0.3 pool_size=2").expect("a good line");
        assert_eq!((peer.id, peer.port, peer.pool_size), (3, 6432, Some(2)));
        assert_eq!(peer.proxy_protocol, ProxyProtocol::Off);
        let peer = Peer::parse("3", "host=10.0.0.3 proxy_protocol=v2").expect("a good line");
        assert_eq!(peer.proxy_protocol, ProxyProtocol::V2);
        for (name, value) in [("0", "host=a"), ("x", "host=a"), ("65536", "host=a"), ("1", ""), ("1", "host=a x=1")] {
            assert!(Peer::parse(name, value).is_err(), "{name} = {value}");
        }
    }
}
