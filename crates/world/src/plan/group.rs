//! The group of processes that a world's pooler belongs to: what a seed draws of it.
//!
//! Always true: drawn from a stream of chance of its own, so that the stories of other seeds stay what they are; where nothing
//! goes wrong every peer is well.
//! Not here: how peers and those who ask for them live (`peers`).

use std::fmt::Write as _;

use reactor::Address;

use crate::plan::{Plan, Shape};
use crate::sim::dice::Dice;

/// What a seed draws of peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Who wants something cancelled, beside the applications.
    pub(crate) asks: Vec<Ask>,
    /// What peers do with those who call them.
    pub(crate) fates: Vec<Fate>,
    /// A reload may take this process's number away, or give it one.
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
    /// By a name that nobody knows.
    Nowhere,
}

/// A cancel request that is no application's.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// When it is made, in microseconds.
    pub(crate) at: u64,
    pub(crate) whose: Whose,
    /// How often it may still be passed on.
    pub(crate) hops: u8,
    /// Whoever made it does not wait for longer than so many microseconds.
    pub(crate) patience: Option<u64>,
}

/// Whose key a request names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// That of a client of this peer.
    Peer(u16),
    /// The same, but for the number of the process that of a client who is here.
    Namesake { peer: u16, which: u64 },
    /// That of nobody here.
    Own,
    /// No key of ours, of so many bytes.
    Nobody(usize),
}

/// What a peer does with a call. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is done with the request after at most this time.
    Taken(u64),
    /// The same, and it says something that nobody has asked for.
    Answered(u64),
    Reset(u64),
    /// Nobody listens.
    Refused,
    /// Nobody answers.
    Hanging,
    /// It closes before it has read anything.
    Unread,
    /// It never closes.
    Kept,
}

impl Plan {
    /// Some worlds have peers.
    pub(crate) fn draw_group(&mut self) {
        let mut dice = Dice::new(self.seed, STREAM);
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
            // Some of them come together.
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

    /// Who listens at this port.
    pub(crate) fn id_of(port: u16) -> Option<u16> {
        port.checked_sub(PORT).filter(|&id| u64::from(id) <= ID_MAX)
    }
}

impl Shape {
    /// `[peers]`, if there are any.
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

    /// Other peers, as an operator might write them a little later.
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
    /// Whether keys may have been given out that name no process.
    pub(crate) fn is_fickle(&self) -> bool {
        self.is_fickle
    }
}

/// The address of a peer by its name, as in `peer3`.
pub(crate) fn address_of_peer(name: &str) -> Option<std::net::IpAddr> {
    name.strip_prefix(NAME)?.parse().ok().map(|id: u8| [10, 201, 0, id].into())
}

/// The peer that is at an address.
pub(crate) fn peer_at(aim: &Address) -> Option<u16> {
    let port = match aim {
        Address::Tcp(address) => address.port(),
        Address::Unix(name) | Address::Abstract(name) => name.rsplit('.').next()?.parse().ok()?,
    };
    Line::id_of(port)
}

/// The stream of chance for peers.
const STREAM: u64 = u64::MAX - 40;
/// Peers have numbers from 1 to this one.
const ID_MAX: u64 = 12;
/// Peer 3 listens at the third port behind this one.
const PORT: u16 = 6500;
/// What names of peers begin with.
const NAME: &str = "peer";
/// For so long people still ask when the faults are over.
const AFTER_HEALING: u64 = 2_000_000;

/// So many hops of a key are used up.
pub(crate) fn count_hops(key: &mut [u8], hops: u8) {
    if let Some(last) = key.get_mut(7) {
        *last -= (*last & HOPS).min(hops);
    }
}

/// The bits of a key's eighth byte that say how often it may still be passed on.
pub(crate) const HOPS: u8 = 0b11;
