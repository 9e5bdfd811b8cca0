//! Addresses of host names at which nobody listens.
//!
//! Always true: such an address always refuses, or never answers.
//! Not here: which names have one (`thread`, `control`).

use std::net::{IpAddr, SocketAddr};

use reactor::Address;

/// What happens to a connection to an address at which nobody listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Silence {
    /// It is refused at once.
    Refuses,
    /// Its packets are lost.
    Hangs,
}

/// The dead address beside this one.
pub(crate) fn dead_address(living: IpAddr) -> IpAddr {
    let IpAddr::V4(ip) = living else { return living };
    let [_, net, _, number] = ip.octets();
    [DEAD, net, 0, number].into()
}

/// How this address is dead, if it is.
pub(crate) fn silence_at(address: &Address) -> Option<Silence> {
    let Address::Tcp(SocketAddr::V4(socket)) = address else { return None };
    let [first, _, _, number] = socket.ip().octets();
    let silence = if number % 2 == 0 { Silence::Refuses } else { Silence::Hangs };
    (first == DEAD).then_some(silence)
}

/// The first byte of all dead addresses.
const DEAD: u8 = 11;
