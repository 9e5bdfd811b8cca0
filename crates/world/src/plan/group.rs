//! The group of processes (`[peers]`) that a world's pooler belongs to, as a seed draws it.
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change; in a world
//! without faults every peer works.
//! Not here: what peers and strangers do (`peers`).

use std::fmt::Write as _;

use reactor::Address;

use crate::plan::streams::Stream;
use crate::plan::{Plan, Shape};
use crate::sim::dice::Dice;

/// The peers that a seed draws.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// The cancel requests of strangers, beside those of the applications.
    pub(crate) asks: Vec<Ask>,
    /// What peers may do with a connection.
    pub(crate) fates: Vec<Fate>,
    /// A reload may remove `peer_id` or set it.
    is_fickle: bool,
}

/// A line of `[peers]`.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    id: u16,
    way: Way,
    pool_size: Option<u64>,
}

/// How a peer is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Ip,
    Name,
    Unix,
    Abstract,
    /// By a host name that has no address.
    Nowhere,
}

/// A cancel request of a stranger.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// When it is made, in microseconds.
    pub(crate) at: u64,
    pub(crate) whose: Whose,
    /// How often it may still be forwarded.
    pub(crate) hops: u8,
    /// The stranger disconnects after so many microseconds.
    pub(crate) patience: Option<u64>,
}

/// The cancel key of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// The key of a client of this peer.
    Peer(u16),
    /// The key of a client of this process, with the number of this peer.
    Namesake { peer: u16, which: u64 },
    /// An unused key with the number of this process.
    Own,
    /// A random key of so many bytes that no process has given out.
    Nobody(usize),
}

/// What a peer does with a connection. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It finishes with the request after at most this time.
    Taken(u64),
    /// The same, and it sends a byte that is not expected.
    Answered(u64),
    Reset(u64),
    /// The connection is refused.
    Refused,
    /// The connection attempt is not answered.
    Hanging,
    /// It closes the connection before it has read anything.
    Unread,
    /// It never closes the connection.
    Kept,
}

impl Plan {
    /// Draws peers in some worlds.
    pub(crate) fn draw_group(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Group.number());
        if !dice.chance(125) {
            return;
        }
        let own = dice.among(1..=ID_MAX) as u16;
        self.shape.set("peer_id", own);
        for _ in 0..dice.among(1..=3) {
            let id = dice.among(1..=ID_MAX) as u16;
            if id != own || dice.chance(300) {
                let line = Line::draw(id, &mut dice, self.is_calm);
                self.shape.peers.retain(|line| line.id != id);
                self.shape.peers.push(line);
            }
        }
        let all = [
            Fate::Taken(200_000),
            Fate::Answered(20_000),
            Fate::Reset(20_000),
            Fate::Refused,
            Fate::Hanging,
            Fate::Unread,
            Fate::Kept,
        ];
        let mut fates = vec![Fate::Taken(50_000)];
        fates.extend(all.into_iter().filter(|_| dice.chance(300) && !self.is_calm));
        let is_fickle = !self.is_calm && dice.chance(200);
        let mut asks: Vec<Ask> = (0..dice.among(5..=60)).map(|_| self.ask(own, &mut dice)).collect();
        if dice.chance(300) {
            // Half of the requests come at the same time.
            let at = asks[0].at;
            let few = asks.len() / 2;
            asks.iter_mut().take(few).for_each(|ask| ask.at = at);
        }
        self.group = Group { asks, fates, is_fickle };
        let relays = dice.among(100..=1000) as u32;
        self.people.iter_mut().for_each(|(_, _, habits)| habits.relays = relays);
    }

    fn ask(&self, own: u16, dice: &mut Dice) -> Ask {
        let lines = &self.shape.peers;
        let listed = match lines.len() as u64 {
            0 => own + 1,
            count => lines[dice.among(0..=count - 1) as usize].id,
        };
        let peer = if dice.chance(850) { listed } else { dice.among(1..=ID_MAX + 3) as u16 };
        let whose = match dice.among(0..=9) {
            0 => Whose::Own,
            1 => Whose::Nobody(dice.pick(&[8, 12, 32, 256])),
            2 | 3 if peer != own => Whose::Namesake { peer, which: dice.any() },
            _ => Whose::Peer(peer),
        };
        let hops = dice.pick(&[0, 1, 2, 3, 3, 3, 3]);
        let patience = dice.chance(150).then(|| dice.among(0..=100_000));
        Ask { at: dice.among(0..=self.heals_at + AFTER_HEALING), whose, hops, patience }
    }
}

impl Line {
    fn draw(id: u16, dice: &mut Dice, is_calm: bool) -> Self {
        let ways = [Way::Ip, Way::Ip, Way::Name, Way::Unix, Way::Abstract, Way::Nowhere];
        let way = dice.pick(&ways[..ways.len() - usize::from(is_calm)]);
        Self { id, way, pool_size: dice.pick(&[None, Some(0), Some(1), Some(1), Some(2), Some(3)]) }
    }

    /// Returns the peer that listens at this port.
    pub(crate) fn id_of(port: u16) -> Option<u16> {
        port.checked_sub(PORT).filter(|&id| u64::from(id) <= ID_MAX)
    }
}

impl Shape {
    /// Writes the section `[peers]`, if there are any.
    pub(crate) fn text_of_peers(&self, text: &mut String) {
        if self.peers.is_empty() {
            return;
        }
        text.push_str("[peers]\n");
        for Line { id, way, pool_size } in &self.peers {
            let host = match way {
                Way::Ip => format!("10.201.0.{id}"),
                Way::Name => format!("{NAME}{id}"),
                Way::Unix => "/run/peers".to_owned(),
                Way::Abstract => "@peers".to_owned(),
                Way::Nowhere => "nowhere".to_owned(),
            };
            let _ = write!(text, "{id} = host={host} port={}", PORT + id);
            if let Some(size) = pool_size {
                let _ = write!(text, " pool_size={size}");
            }
            text.push('\n');
        }
    }

    /// Changes the peers, as an operator might do later.
    pub(crate) fn redraw_peers(&mut self, group: &Group, dice: &mut Dice) {
        if group.asks.is_empty() {
            return;
        }
        self.peers.retain(|_| !dice.chance(200));
        for line in &mut self.peers {
            if dice.chance(300) {
                *line = Line::draw(line.id, dice, false);
            }
        }
        let id = dice.among(1..=ID_MAX) as u16;
        if dice.chance(200) && !self.peers.iter().any(|line| line.id == id) {
            self.peers.push(Line::draw(id, dice, false));
        }
        if group.is_fickle && dice.chance(500) {
            self.settings.remove("peer_id");
        }
    }
}

impl Group {
    /// Returns whether keys without the number of a process may have been given out.
    pub(crate) fn is_fickle(&self) -> bool {
        self.is_fickle
    }
}

/// Returns the address of a peer's host name, as in `peer3`.
pub(crate) fn address_of_peer(name: &str) -> Option<std::net::IpAddr> {
    name.strip_prefix(NAME)?.parse().ok().map(|id: u8| [10, 201, 0, id].into())
}

/// Returns the peer at an address.
pub(crate) fn peer_at(aim: &Address) -> Option<u16> {
    let port = match aim {
        Address::Tcp(address) => address.port(),
        Address::Unix(name) | Address::Abstract(name) => name.rsplit('.').next()?.parse().ok()?,
    };
    Line::id_of(port)
}

/// The largest number of a peer; the smallest is 1.
const ID_MAX: u64 = 12;
/// Peer 3 listens at this port plus 3.
const PORT: u16 = 6500;
/// The first part of the host names of peers.
const NAME: &str = "peer";
/// How long after the faults strangers still send requests, microseconds.
const AFTER_HEALING: u64 = 2_000_000;

/// Counts the request with this key as forwarded so many times.
pub(crate) fn count_hops(key: &mut [u8], hops: u8) {
    if let Some(last) = key.get_mut(7) {
        *last -= (*last & HOPS).min(hops);
    }
}

/// The bits of a key's eighth byte that hold how often the request may still be forwarded.
pub(crate) const HOPS: u8 = 0b11;
