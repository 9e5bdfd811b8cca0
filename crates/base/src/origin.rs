//! The origin of a connection, by which resources are shared fairly.
//!
//! Always true: an IPv4-mapped IPv6 address has the origin of the IPv4 address; all addresses of an IPv6 /64 network have
//! the same origin.
//! Not here: the queues that are shared (`fair`).

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// The origin of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// Clients of this IPv4 address or this IPv6 /64 network, because a host is usually given a whole /64 network.
    Clients(IpAddr),
    /// Clients on the Unix socket that run as this system user, if the user is known.
    LocalClients(Option<u32>),
    /// Servers at this IPv4 address or in this IPv6 /64 network.
    Servers(IpAddr),
    /// Servers on Unix sockets.
    LocalServers,
}

impl Origin {
    /// The origin of a client with this address.
    #[must_use]
    pub fn of_client(address: IpAddr) -> Self {
        Self::Clients(network(address))
    }

    /// The origin of a server with this address.
    #[must_use]
    pub fn of_server(address: IpAddr) -> Self {
        Self::Servers(network(address))
    }

    /// Whether the connection leads to a server, which the operator has chosen, and not to a client, which can be anybody.
    #[must_use]
    pub fn is_of_servers(&self) -> bool {
        matches!(self, Self::Servers(_) | Self::LocalServers)
    }
}

/// The form for the log: `10.0.0.1`, `2001:db8:1:2::/64`, `unix(1000)`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(address @ IpAddr::V4(_)) | Self::Servers(address @ IpAddr::V4(_)) => write!(f, "{address}"),
            Self::Clients(network) | Self::Servers(network) => write!(f, "{network}/64"),
            Self::LocalClients(Some(uid)) => write!(f, "unix({uid})"),
            Self::LocalClients(None) | Self::LocalServers => f.write_str("unix"),
        }
    }
}

/// The /64 network of an IPv6 address; an IPv4 or IPv4-mapped address stays a whole address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_one_network_of_ipv6_is_one_and_mapped_addresses_are_those_of_ipv4() {
        let origin = |text: &str| Origin::of_client(text.parse().expect("an address"));
        assert_eq!(origin("2001:db8:1:2::7"), origin("2001:db8:1:2:ffff::"));
        assert_ne!(origin("2001:db8:1:2::7"), origin("2001:db8:1:3::7"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.2"), origin("10.0.0.1"));
        let said = ["2001:db8:1:2::7", "::ffff:10.0.0.1"].map(|text| origin(text).to_string());
        assert_eq!(said, ["2001:db8:1:2::/64", "10.0.0.1"]);
        assert_eq!(Origin::LocalClients(Some(7)).to_string(), "unix(7)");
    }
}
