//! Networks of client addresses, as rate limits and `proxy_protocol_from` name them.
//!
//! Always true: an IPv4 address that is written as IPv6 is an IPv4 address, in a network and wherever one is looked for.
//! Not here: the networks of HBA rules, whose syntax is PostgreSQL's (`auth::hba`).

use core::net::IpAddr;

use crate::catalog::{Kind, Misfit, Range};

/// A network: an address of it, and the number of bits that its addresses have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl Network {
    /// Parses `ADDRESS` or `ADDRESS/BITS`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits.map_or(Ok(width), str::parse).ok().filter(|bits| *bits <= width)?;
        // An IPv4 address that is written as IPv6 is compared as IPv4.
        let shift = if address.is_ipv6() && address.to_canonical().is_ipv4() { 96 } else { 0 };
        Some(Self { address: address.to_canonical(), bits: bits.checked_sub(shift)? })
    }

    /// Whether it contains this address.
    fn has(&self, address: IpAddr) -> bool {
        pool::network_of(address, self.bits) == pool::network_of(self.address, self.bits)
    }

    /// The network's first address, if that is not the one that was written.
    fn first_address(&self) -> Option<IpAddr> {
        Some(pool::network_of(self.address, self.bits)).filter(|first| *first != self.address)
    }
}

/// A list of networks. Keeps the original text, because `SHOW CONFIG` prints that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkList {
    written: Box<str>,
    networks: Box<[Network]>,
    has_unix: bool,
}

impl NetworkList {
    /// Whether the list names nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.has_unix
    }

    /// Whether the list contains this address; `None` is a connection on a Unix socket.
    #[must_use]
    pub fn has(&self, address: Option<IpAddr>) -> bool {
        match address {
            Some(address) => self.networks.iter().any(|network| network.has(address)),
            None => self.has_unix,
        }
    }
}

/// The type of the setting: `10.0.0.7, 192.168.0.0/16, 2001:db8::/32, unix`.
pub struct Networks;

impl Kind for Networks {
    type Value = NetworkList;
    const NAME: &'static str = "networks";

    fn parse(text: &str, _: Option<Range>) -> Result<NetworkList, Misfit> {
        let (mut networks, mut has_unix) = (Vec::new(), false);
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if word.eq_ignore_ascii_case(UNIX) {
                has_unix = true;
                continue;
            }
            let network = Network::parse(word).ok_or_else(|| misfit(word, None))?;
            if let Some(first) = network.first_address() {
                return Err(misfit(word, Some((first, network))));
            }
            networks.push(network);
        }
        Ok(NetworkList { written: text.into(), networks: networks.into(), has_unix })
    }

    fn absent() -> NetworkList {
        NetworkList::default()
    }

    fn show(value: &NetworkList, _: Option<&str>) -> Option<String> {
        Some(value.written.clone().into())
    }
}

/// The mistake in one item. `beyond` is the network that may have been meant, if the address has bits beyond its mask: to trust
/// the whole network might be more than the operator wanted.
fn misfit(word: &str, beyond: Option<(IpAddr, Network)>) -> Misfit {
    let (why, advice) = match beyond {
        Some((first, Network { address, bits })) => (
            ", which has bits beyond its network",
            Some(format!("write {first}/{bits} for the network, or {address} for the one address")),
        ),
        None => ("", None),
    };
    let expected = format!("ADDRESS, ADDRESS/BITS or unix, separated by commas; not \"{word}\"{why}");
    Misfit { expected, advice }
}

/// The item that stands for connections on the Unix socket.
const UNIX: &str = "unix";

#[cfg(test)]
mod tests {
    use super::*;

    fn has(list: &str, address: &str) -> bool {
        let list = Networks::parse(list, None).expect("a good list");
        list.has((address != "unix").then(|| address.parse().expect("an address")))
    }

    #[test]
    fn a_list_contains_the_addresses_of_its_networks() {
        let list = "10.0.0.7, 192.168.0.0/16 ,2001:db8::/32,";
        for address in ["10.0.0.7", "::ffff:10.0.0.7", "192.168.255.1", "2001:db8::1"] {
            assert!(has(list, address), "{address}");
        }
        for address in ["10.0.0.8", "192.169.0.1", "2001:db9::1", "::1", "unix"] {
            assert!(!has(list, address), "{address}");
        }
        assert!(has("UNIX", "unix") && !has("unix", "127.0.0.1"));
        assert!(has("::ffff:10.0.0.0/104", "10.1.2.3"), "IPv4 in the form of IPv6");
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "2001:db8::1"));
    }

    #[test]
    fn an_empty_list_contains_nothing() {
        let list = Networks::parse(" , ", None).expect("a good list");
        assert!(list.is_empty() && !list.has(None) && !list.has(Some([127, 0, 0, 1].into())));
        assert!(!Networks::parse("unix", None).expect("a good list").is_empty());
    }

    #[test]
    fn a_mistake_is_named() {
        for bad in ["proxy.local", "10.0.0.1/33", "10.0.0.0/x", "*", "10.0.0", "::/129", "::ffff:10.0.0.0/64"] {
            let misfit = Networks::parse(&format!("127.0.0.1,{bad}"), None).expect_err(bad);
            assert!(misfit.expected.ends_with(&format!("not \"{bad}\"")), "{misfit:?}");
        }
        let misfit = Networks::parse("10.0.0.5/8", None).expect_err("bits beyond");
        assert!(misfit.expected.ends_with("not \"10.0.0.5/8\", which has bits beyond its network"), "{misfit:?}");
        let advice = "write 10.0.0.0/8 for the network, or 10.0.0.5 for the one address";
        assert_eq!(misfit.advice.as_deref(), Some(advice));
    }
}
