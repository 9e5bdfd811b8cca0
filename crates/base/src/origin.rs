//! Where the other side of a connection is, as far as connections are shared out by that.
//!
//! Always true: an address of IPv4 is the same whether it is written as IPv4 or as IPv6; of IPv6, one network of 64 bits is one origin.
//! Not here: what is shared out (`fair`).

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// Where the other side of a connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// Clients of this address; of IPv6, of this network of 64 bits, which is what one gets who asks for one address.
    Clients(IpAddr),
    /// Clients of the unix socket that this user of the system runs.
    LocalClients(Option<u32>),
    /// Servers of this address.
    Servers(IpAddr),
    /// Servers of unix sockets.
    LocalServers,
}

impl Origin {
    /// Of a client with this address.
    #[must_use]
    pub fn of_client(address: IpAddr) -> Self {
        Self::Clients(network(address))
    }

    /// Of a server with this address.
    #[must_use]
    pub fn of_server(address: IpAddr) -> Self {
        Self::Servers(network(address))
    }

    /// Whether it is servers that are logged in to, which the operator has chosen, and not clients, which anybody may be.
    #[must_use]
    pub fn is_of_servers(&self) -> bool {
        matches!(self, Self::Servers(_) | Self::LocalServers)
    }
}

/// As the log says it: `10.0.0.1`, `2001:db8:1:2::/64`, `unix(1000)`.
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

/// The network that one gets who asks for one address.
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
