//! Looks up host names and remembers their addresses, and the dials and cancel requests that wait for them.
//!
//! Always true: at most one lookup of a name is under way; each waiting asker is named once when it ends. All addresses of a
//! name are given out for each dial, another one first each time; those that could not be reached a moment ago come last.
//! Not here: the lookup itself, which the control thread does (`control::names`); dialing (`dial`, `cancel::peers`); servers
//! at an address that their name no longer has (`dial`).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Time};
use config::Host;
use pool::ServerKey;
use reactor::{Address, Io, Level};

use crate::hands::Hands;
use crate::letters::{Found, HostRow, ToControl};

/// The host names of a worker.
#[derive(Debug, Default)]
pub(crate) struct HostNames(BTreeMap<Arc<str>, NamePlace>);

impl HostNames {
    /// Returns the addresses of a host for one dial. If its name has to be looked up, asks the control thread to do so.
    pub(crate) fn addresses_of<I: Io>(&mut self, host: &Host, port: u16, asker: Asker, hands: &Hands<I>) -> Known {
        let Host::Name(name) = host else {
            return fixed_address(host, port).map_or(Known::Later, |address| Known::Addresses(vec![address]));
        };
        let pause = hands.active.settings.server_login_retry;
        let place = self.0.entry(name.clone()).or_default();
        if place.until > hands.now
            && let Some(found) = place.found.clone()
        {
            let order = found.map(|addresses| place.next_order(&addresses, hands.now, pause));
            let addresses = |order: Vec<_>| order.iter().map(|ip| Address::Tcp(SocketAddr::new(*ip, port))).collect();
            return order.map_or_else(Known::Nothing, |order| Known::Addresses(addresses(order)));
        }
        place.waiting.push(asker);
        if !std::mem::replace(&mut place.is_asked, true) {
            (hands.posts.control)(ToControl::Resolve { from: hands.id, name: name.clone() });
        }
        Known::Later
    }

    /// Has a name looked up although its addresses have not expired, unless that is under way. Servers at addresses that it no longer
    /// has are replaced then.
    pub(crate) fn look_up_again<I: Io>(&mut self, name: &Arc<str>, hands: &Hands<I>) {
        if let Some(place) = self.0.get_mut(name)
            && !std::mem::replace(&mut place.is_asked, true)
        {
            (hands.posts.control)(ToControl::Resolve { from: hands.id, name: name.clone() });
        }
    }

    /// An address of this host could not be reached: later dials try it last for a while.
    pub(crate) fn note_unreached(&mut self, host: &str, address: &Address, now: Time) {
        if let (Some(place), Address::Tcp(socket)) = (self.0.get_mut(host), address) {
            place.is_unreached(socket.ip(), now);
        }
    }

    /// The control thread has looked up a name. Returns who waits for the addresses.
    pub(crate) fn resolved<I: Io>(&mut self, name: &str, found: Found, hands: &mut Hands<I>) -> Vec<Asker> {
        let settings = &hands.active.settings;
        let believed = match &found {
            Ok(addresses) => addresses.ttl.map_or(settings.dns_max_ttl, |ttl| ttl.min(settings.dns_max_ttl)),
            Err(_) => settings.dns_nxdomain_ttl,
        };
        if let Err(error) = &found {
            hands.log.add(Level::Warning, format_args!("DNS lookup failed: {name}: {error}"));
        }
        let Some(place) = self.0.get_mut(name) else { return Vec::new() };
        place.until = hands.now + believed.max(BELIEVED_AT_LEAST);
        place.is_asked = false;
        place.found = Some(found.map(|addresses| addresses.all));
        std::mem::take(&mut place.waiting)
    }

    /// Whether a host was at this address, and its name has other ones now.
    pub(crate) fn has_moved_from(&self, host: &str, address: &Address) -> bool {
        let found = self.0.get(host).and_then(|place| place.found.as_ref()?.as_ref().ok());
        match (found, address) {
            (Some(addresses), Address::Tcp(at)) => !addresses.contains(&at.ip()),
            _ => false,
        }
    }

    /// The next name behind `after`.
    pub(crate) fn place_after(&self, after: Option<&str>) -> Option<(&Arc<str>, &NamePlace)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range::<str, _>((begin, Bound::Unbounded)).next()
    }

    /// How many names are known.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Minimum validity whatever the settings and the TTL say, so that two servers dialed together cause one lookup.
const BELIEVED_AT_LEAST: Duration = Duration::from_millis(100);

/// A host name: its addresses, or the error of its last lookup.
#[derive(Debug, Default)]
pub(crate) struct NamePlace {
    found: Option<Result<Vec<IpAddr>, Arc<str>>>,
    /// When the addresses or the error expire.
    until: Time,
    is_asked: bool,
    /// The number of dials so far, for the round robin.
    turn: usize,
    /// The addresses that could not be reached, and since when.
    unreached: BTreeMap<IpAddr, Time>,
    /// The dials and cancel requests that wait for the answer.
    waiting: Vec<Asker>,
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

    /// The row of this name for the console: its addresses, and how long they are still valid.
    pub(crate) fn row(&self, name: &Arc<str>, now: Time) -> HostRow {
        HostRow {
            name: name.clone(),
            ttl: Duration::from_micros(self.until.0.saturating_sub(now.0)),
            addresses: self.found.iter().flatten().flatten().copied().collect(),
        }
    }

    /// The addresses in the order in which the next dial tries them. One that could not be reached comes last for
    /// `pause`, so that not every other server is opened late while an address is silent.
    fn next_order(&mut self, addresses: &[IpAddr], now: Time, pause: Duration) -> Vec<IpAddr> {
        self.unreached.retain(|_, since| now < *since + pause);
        let first = self.turn % addresses.len().max(1);
        self.turn = self.turn.wrapping_add(1);
        let mut order = [&addresses[first..], &addresses[..first]].concat();
        order.sort_by_key(|ip| self.unreached.contains_key(ip));
        order
    }

    /// Notes that an address could not be reached.
    fn is_unreached(&mut self, ip: IpAddr, now: Time) {
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
    use crate::letters::Addresses;
    use crate::still::{StillHands, lines};

    const SETTINGS: &str = "[pgbouncer]\nauth_type=any\ndns_max_ttl=15\ndns_nxdomain_ttl=3\n";

    /// Names, and what they work with.
    struct NamesTest {
        names: HostNames,
        still: StillHands,
    }

    impl NamesTest {
        fn new() -> Self {
            Self { names: HostNames::default(), still: StillHands::with(SETTINGS, 1) }
        }

        /// The last numbers of the addresses that a dial gets now; a word if it gets none.
        fn dials(&mut self, server: u32) -> String {
            let asker = Asker::Server(Key::first(server));
            match self.names.addresses_of(&Host::Name("db".into()), 5432, asker, &self.still.hands) {
                Known::Addresses(addresses) => addresses.iter().map(last_number).collect::<Vec<_>>().join(" "),
                Known::Nothing(why) => why.to_string(),
                Known::Later => "later".to_owned(),
            }
        }

        fn resolved(&mut self, found: Result<&[u8], &str>) -> Vec<Asker> {
            let found = found.map(|last| Addresses { all: last.iter().map(|last| ip(*last)).collect(), ttl: None });
            self.names.resolved("db", found.map_err(Arc::from), &mut self.still.hands)
        }

        fn lookups(&self) -> usize {
            self.still.told.lock().expect("a list").len()
        }
    }

    fn last_number(address: &Address) -> String {
        crate::upstream::attempt::word(address).rsplit('.').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn all_who_ask_during_a_lookup_are_named_when_it_ends() {
        let mut test = NamesTest::new();
        assert_eq!([test.dials(1), test.dials(2)], ["later", "later"]);
        assert_eq!(test.lookups(), 1);
        assert_eq!(test.resolved(Ok(&[1])), [1, 2].map(|server| Asker::Server(Key::first(server))));
        assert_eq!(test.dials(1), "1");
        assert_eq!(test.resolved(Ok(&[1])), [], "each is named once");
    }

    #[test]
    fn addresses_and_errors_are_believed_for_as_long_as_the_settings_say() {
        let mut test = NamesTest::new();
        for (found, secs, answer) in [(Ok(&[1][..]), 15, "1"), (Err("gone"), 3, "gone")] {
            assert_eq!(test.dials(1), "later");
            test.resolved(found);
            let end = test.still.hands.now + Duration::from_secs(secs);
            test.still.hands.now = Time(end.0 - 1);
            assert_eq!(test.dials(1), answer);
            test.still.hands.now = end;
        }
        assert_eq!(lines(&mut test.still.hands), ["DNS lookup failed: db: gone"]);
        assert_eq!(test.lookups(), 2);
    }

    /// A server that took the place of one at an old address was dialed at the old address, and stayed there.
    #[test]
    fn what_is_dialed_because_a_name_has_moved_is_dialed_at_the_new_address() {
        let mut test = NamesTest::new();
        test.dials(1);
        test.resolved(Ok(&[1]));
        let old = Address::Tcp(SocketAddr::new(ip(1), 5432));
        assert!(!test.names.has_moved_from("db", &old));
        test.resolved(Err("the resolver is silent"));
        assert!(!test.names.has_moved_from("db", &old), "nobody leaves for an address that is not known");
        test.resolved(Ok(&[2]));
        assert!(test.names.has_moved_from("db", &old));
        assert_eq!(test.dials(2), "2");
    }

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
