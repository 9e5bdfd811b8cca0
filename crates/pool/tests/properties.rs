//! Random events for the pools of one worker, and the invariants that must always hold.
//!
//! Always true: the model here obeys commands, but decides at random when, in which order, and whether a login or a reset
//! succeeds. It keeps its own records of clients and servers and compares them with the pools.
//! Not here: transcripts with fixed events (`transcripts`), limits that span workers (`ledger`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Key, Random, Time};
use pool::{
    CloseReason, Command, Event, Failure, Fingerprint, Limits, Need, PoolKey, Pools, Return, Reuse, ServerKey, State,
};
use proptest::prelude::*;

/// The state of a server according to the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Dialing,
    Idle,
    Lent(Key),
    /// Being dialed for this client, as its dedicated server.
    Dedicating(Key),
    /// Dedicated to this client.
    Dedicated(Key),
    Cleaning,
    Closing,
}

/// The state of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    Away,
    /// Waits in this pool; the number gives the order of all arrivals.
    Waiting(usize, u64),
    Greeting(usize),
    /// Waits in this pool for a dedicated server.
    WaitingAlone(usize),
    /// Waits for the login of this server, which will be dedicated to it.
    Promised(ServerKey),
    Attached,
}

const CLIENTS: u32 = 12;
const POOLS: usize = 3;
/// Pools 0 and 1 share a database, pools 1 and 2 a user.
const PAIRS: [(u32, u32); POOLS] = [(0, 0), (0, 1), (1, 1)];
const LIMITED_USER: u32 = 1;

struct World {
    pools: Pools,
    /// The same pools, to which every event is passed: they lend and take back no server without one.
    told_all: Pools,
    keys: [PoolKey; POOLS],
    limits: [Limits; POOLS],
    is_paused: [bool; POOLS],
    database_max: u32,
    now: Time,
    random: Random,
    servers: BTreeMap<ServerKey, (usize, Place)>,
    /// Servers that were dialed as dedicated ones.
    dedicated: BTreeSet<ServerKey>,
    clients: Vec<Client>,
    arrivals: u64,
    /// The grants that the ledger still has.
    grants_free: u32,
    grants_max: u32,
    /// The asks in the ledger's line.
    asks: Vec<Need>,
    /// The sum of the time that clients have waited for a server, in microseconds.
    waited: u64,
    /// All sessions have the same settings, so that nobody is passed over.
    are_alike: bool,
}

impl World {
    fn new(limits: [Limits; POOLS], database_max: u32, grants_max: u32, seed: u64) -> Self {
        let open = || {
            let mut pools = Pools::new(seed);
            pools.set_database_limit(0, database_max);
            pools.set_user_limit(LIMITED_USER, grants_max > 0);
            let mut pairs = PAIRS.into_iter();
            let keys = limits.map(|limits| {
                let (database, user) = pairs.next().expect("one for each pool");
                pools.open(Time(0), database, user, limits)
            });
            (pools, keys)
        };
        let ((pools, keys), (told_all, _)) = (open(), open());
        Self {
            pools,
            told_all,
            keys,
            limits,
            is_paused: [false; POOLS],
            database_max,
            now: Time(0),
            random: Random::new(seed),
            servers: BTreeMap::new(),
            dedicated: BTreeSet::new(),
            clients: vec![Client::Away; CLIENTS as usize],
            arrivals: 0,
            grants_free: grants_max,
            grants_max,
            asks: Vec::new(),
            waited: 0,
            are_alike: seed.is_multiple_of(2),
        }
    }

    fn handle(&mut self, event: Event) {
        let mut out = Vec::new();
        self.told_all.handle(self.now, event.clone(), &mut out);
        let (is_short, commands) = self.handle_shortly(event);
        assert_eq!(commands, out);
        if is_short {
            assert_eq!(view(&self.pools), view(&self.told_all));
        }
        for command in out {
            self.obey(command);
        }
        self.check();
    }

    /// Lends or takes back a server without an event, if the pools do that; returns whether they do.
    fn handle_shortly(&mut self, event: Event) -> (bool, Vec<Command>) {
        let now = self.now;
        match event {
            Event::Wants { pool, client, fingerprint } => {
                if let Some(server) = self.pools.lend(now, pool, client, fingerprint) {
                    return (true, vec![Command::Attach { client, server, waited: Duration::ZERO }]);
                }
                if self.pools.queue(now, pool, client, fingerprint) {
                    return (true, Vec::new());
                }
            }
            Event::Returned { server, as_: Return::Clean, fingerprint } => {
                if self.pools.take_back(now, server, fingerprint) {
                    return (true, Vec::new());
                }
                if let Some((client, waited)) = self.pools.pass_on(now, server, fingerprint) {
                    return (true, vec![Command::Attach { client, server, waited }]);
                }
            }
            _ => {}
        }
        let mut out = Vec::new();
        self.pools.handle(now, event, &mut out);
        (false, out)
    }

    /// Does something with the pools that is no event.
    fn with_pools(&mut self, act: impl Fn(&mut Pools, &mut Vec<Command>)) {
        let (mut out, mut of_all) = (Vec::new(), Vec::new());
        act(&mut self.pools, &mut out);
        act(&mut self.told_all, &mut of_all);
        assert_eq!(out, of_all);
        out.into_iter().for_each(|command| self.obey(command));
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Dial { pool, server, owner, .. } => {
                let pool = self.keys.iter().position(|key| *key == pool).expect("a pool that was opened");
                let before = self.servers.insert(server, (pool, owner.map_or(Place::Dialing, Place::Dedicating)));
                if let Some(owner) = owner {
                    self.dedicated.insert(server);
                    let was = std::mem::replace(self.client(owner), Client::Promised(server));
                    assert_eq!(
                        was,
                        Client::WaitingAlone(pool),
                        "a server is dialed for one who does not want it alone"
                    );
                }
                assert_eq!(before, None, "a slot is dialed while it is taken");
                assert!(!self.is_paused[pool], "a login begins in a pause");
                self.check_limits(pool);
            }
            Command::Attach { client, server, .. } => self.attach(client, server),
            Command::Bind { client, server, .. } => {
                let (pool, place) = self.servers[&server];
                assert_eq!(place, Place::Dedicating(client), "a server is bound to another client");
                assert!(!self.is_paused[pool], "a server is bound in a pause");
                let was = std::mem::replace(self.client(client), Client::Attached);
                assert_eq!(was, Client::Promised(server), "a client gets a server that it was not promised");
                self.servers.insert(server, (pool, Place::Dedicated(client)));
            }
            Command::Welcome { client } => {
                let was = std::mem::replace(self.client(client), Client::Away);
                assert!(matches!(was, Client::Greeting(_)), "{was:?} is welcomed");
            }
            Command::Reset { server } => self.shift(server, |place| matches!(place, Place::Lent(_)), Place::Cleaning),
            Command::Check { server } => self.shift(server, |place| place == Place::Idle, Place::Cleaning),
            Command::Close { server, .. } => {
                match self.servers[&server].1 {
                    Place::Dedicating(client) => {
                        let pool = self.servers[&server].0;
                        if *self.client(client) == Client::Promised(server) {
                            *self.client(client) = Client::WaitingAlone(pool);
                        }
                    }
                    Place::Dedicated(client) => *self.client(client) = Client::Away,
                    _ => {}
                }
                self.shift(server, |place| place != Place::Closing, Place::Closing);
            }
            Command::Refuse { client, .. } => {
                let was = std::mem::replace(self.client(client), Client::Away);
                let waited = !matches!(was, Client::Away | Client::Attached);
                assert!(waited, "{was:?} is refused");
            }
            Command::Ask { user, need } => {
                assert!(user == LIMITED_USER && self.grants_max > 0, "nobody else needs a grant");
                self.asks.push(need);
            }
            Command::Withdraw { .. } => {
                let place = self.asks.iter().rposition(|need| *need == Need::Client).expect("an ask to withdraw");
                self.asks.remove(place);
            }
            Command::GiveBack { .. } => {
                self.grants_free += 1;
                assert!(self.grants_free <= self.grants_max, "more grants come back than were given");
            }
            Command::Note(_) => {}
        }
    }

    fn attach(&mut self, client: Key, server: ServerKey) {
        let (pool, place) = self.servers[&server];
        assert!(!self.is_paused[pool], "a server is lent in a pause");
        let was = std::mem::replace(self.client(client), Client::Attached);
        let Client::Waiting(waited_in, imported) = was else { panic!("{was:?} gets a server") };
        assert_eq!(waited_in, pool, "a client gets a server of another pool");
        for other in &self.clients {
            assert!(
                !self.are_alike
                    || !matches!(other, Client::Waiting(there, earlier) if *there == pool && *earlier < imported),
                "somebody is passed over"
            );
        }
        // A server that has just been returned or cleaned may be lent before the model marks it idle.
        assert!(matches!(place, Place::Idle | Place::Cleaning), "a server is lent while it is {place:?}");
        assert!(!self.dedicated.contains(&server), "a server is lent that is one client's alone");
        self.servers.insert(server, (pool, Place::Lent(client)));
    }

    fn shift(&mut self, server: ServerKey, is_allowed: impl Fn(Place) -> bool, to: Place) {
        let (_, place) = self.servers.get_mut(&server).expect("a server that is there");
        assert!(is_allowed(*place), "{place:?} becomes {to:?}");
        *place = to;
    }

    /// The settings of a session; in half of the worlds all are alike.
    fn some_settings(&mut self) -> Fingerprint {
        Fingerprint::of(u32::from(!self.are_alike && self.random.below(4) == 0))
    }

    fn client(&mut self, client: Key) -> &mut Client {
        &mut self.clients[client.index as usize]
    }

    fn count(&self, is_meant: impl Fn(usize) -> bool) -> u32 {
        self.servers.values().filter(|(pool, _)| is_meant(*pool)).count() as u32
    }

    fn check_limits(&self, pool: usize) {
        let limits = &self.limits[pool];
        let ceiling = limits.servers_max + if limits.reserve_after.is_some() { limits.reserve_max } else { 0 };
        let dedicated = self.servers.iter().filter(|(key, (other, _))| *other == pool && self.dedicated.contains(*key));
        let dedicated = dedicated.count() as u32;
        assert!(limits.dedicated_max.is_none_or(|max| dedicated <= max), "{dedicated} dedicated servers");
        let apart = if limits.dedicated_max.is_some() { dedicated } else { 0 };
        let servers = self.count(|other| other == pool) - apart;
        assert!(limits.servers_max == 0 || servers <= ceiling, "{servers} servers in a pool of {ceiling}");
        let in_database = self.count(|other| PAIRS[other].0 == 0);
        assert!(
            PAIRS[pool].0 != 0 || self.database_max == 0 || in_database <= self.database_max,
            "{in_database} servers in a database of {}",
            self.database_max
        );
        let of_user = self.count(|other| PAIRS[other].1 == LIMITED_USER);
        assert!(
            self.grants_max == 0 || of_user <= self.grants_max,
            "{of_user} servers with {} grants",
            self.grants_max
        );
    }

    /// Compares the pools with the model.
    fn check(&self) {
        for (pool, key) in self.keys.into_iter().enumerate() {
            let seen = self.pools.snapshot(self.now, key).expect("the pool is open");
            let count = |place: fn(Place) -> bool| {
                self.servers.values().filter(|(other, at)| *other == pool && place(*at)).count() as u32
            };
            assert_eq!(seen.dialing, count(|place| place == Place::Dialing));
            assert_eq!(seen.idle, count(|place| place == Place::Idle));
            assert_eq!(seen.lent, count(|place| matches!(place, Place::Lent(_))));
            assert_eq!(seen.cleaning + seen.checking, count(|place| place == Place::Cleaning));
            assert_eq!(seen.closing, count(|place| place == Place::Closing));
            assert_eq!(seen.dedicating, count(|place| matches!(place, Place::Dedicating(_))));
            assert_eq!(seen.bound, count(|place| matches!(place, Place::Dedicated(_))));
            let alone = |client: &&Client| **client == Client::WaitingAlone(pool);
            assert_eq!(seen.dedicated_waiting as usize, self.clients.iter().filter(alone).count());
            let waiting = |client: &&Client| matches!(client, Client::Waiting(other, _) if *other == pool);
            assert_eq!(seen.waiting as usize, self.clients.iter().filter(waiting).count());
            let greeting = |client: &&Client| matches!(client, Client::Greeting(other) if *other == pool);
            assert_eq!(seen.greeting as usize, self.clients.iter().filter(greeting).count());
            // No client waits while a server is idle, unless enough servers are about to become idle for all waiting clients.
            assert!(seen.waiting == 0 || seen.idle == 0 || seen.cleaning + seen.checking >= seen.waiting);
        }
        let snapshots = self.keys.iter().filter_map(|key| self.pools.snapshot(self.now, *key));
        assert_eq!(
            snapshots.map(|seen| seen.waited.total()).sum::<u64>(),
            self.waited,
            "time that clients have waited"
        );
        if self.pools.keys().iter().all(|key| {
            self.pools
                .snapshot(self.now, *key)
                .is_some_and(|seen| seen.waiting + seen.greeting + seen.dedicated_waiting == 0)
        }) {
            assert!(!self.asks.contains(&Need::Client), "nobody waits, but somebody asks");
        }
    }

    /// Plays one random event.
    fn step(&mut self, choice: u8, pick: u8) {
        let pool = usize::from(pick) % POOLS;
        let key = self.keys[pool];
        let client = Key::first(u32::from(pick) % CLIENTS);
        match choice % 12 {
            0..=2 => self.client_moves(client, pool),
            3..=7 => self.server_moves(pick),
            8 => self.ledger_moves(),
            9 => {
                self.wait_until(self.now + Duration::from_millis(u64::from(pick) * 20));
                self.handle(Event::Tick);
            }
            10 if pick < 30 => self.handle(Event::Retire { pool: key }),
            10 if pick < 40 => self.vacate(pool),
            10 if pick < 60 => self.pause(pool, true),
            10 if pick < 80 => self.pause(pool, false),
            10 if pick < 110 => self.move_away(pool),
            10 => {
                self.wait_until(self.pools.next_deadline().map_or(self.now, |due| due.max(self.now)));
                self.handle(Event::Tick);
            }
            _ => self.limits_change(pool, pick),
        }
    }

    /// Advances the clock, and counts the time for all waiting clients.
    fn wait_until(&mut self, then: Time) {
        let is_waiting = |client: &&Client| matches!(client, Client::Waiting(..) | Client::WaitingAlone(_));
        self.waited += self.clients.iter().filter(is_waiting).count() as u64 * (then.0 - self.now.0);
        self.now = then;
    }

    /// Plays a client that needs the database without other connections: idle servers are closed.
    fn vacate(&mut self, pool: usize) {
        self.handle(Event::Vacate { pool: self.keys[pool] });
        let servers = self.servers.iter().filter(|(_, (other, _))| *other == pool);
        for server in servers.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.handle(Event::VacateServer { server });
        }
        let seen = self.pools.snapshot(self.now, self.keys[pool]).expect("the pool is open");
        assert_eq!(seen.idle, 0, "an idle server stays in a database that is needed alone");
    }

    /// Plays another host that suits better: idle servers are closed, and opened anew, as long as nobody waits.
    fn move_away(&mut self, pool: usize) {
        let servers = self.servers.iter().filter(|(_, (other, _))| *other == pool);
        for server in servers.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.handle(Event::MoveServer { server });
        }
    }

    fn client_moves(&mut self, client: Key, pool: usize) {
        let key = self.keys[pool];
        let (stands, greets, alone) = (*self.client(client), self.random.below(4) == 0, self.random.below(4) == 0);
        match stands {
            Client::Away if greets => {
                *self.client(client) = Client::Greeting(pool);
                self.handle(Event::Greets { pool: key, client });
            }
            Client::Away if alone => {
                *self.client(client) = Client::WaitingAlone(pool);
                let since = self.now;
                self.handle(Event::WantsDedicated { pool: key, client, since });
            }
            Client::Away => {
                self.arrivals += 1;
                *self.client(client) = Client::Waiting(pool, self.arrivals);
                let fingerprint = self.some_settings();
                self.handle(Event::Wants { pool: key, client, fingerprint });
            }
            Client::Promised(server) => {
                *self.client(client) = Client::Away;
                self.lose(server);
            }
            Client::Waiting(there, _) | Client::Greeting(there) | Client::WaitingAlone(there) => {
                *self.client(client) = Client::Away;
                self.handle(Event::Left { pool: self.keys[there], client });
            }
            Client::Attached => {}
        }
    }

    fn server_moves(&mut self, pick: u8) {
        let keys: Vec<_> = self.servers.keys().copied().collect();
        let Some(server) = keys.get(usize::from(pick) % keys.len().max(1)).copied() else { return };
        let (pool, place) = self.servers[&server];
        let luck = self.random.below(10);
        match place {
            Place::Dialing if luck < 7 => {
                self.servers.insert(server, (pool, Place::Idle));
                self.handle(Event::Ready { server });
            }
            Place::Dedicating(_) if luck < 7 => self.handle(Event::Ready { server }),
            Place::Dialing | Place::Dedicating(_) => {
                self.servers.remove(&server);
                if let Place::Dedicating(client) = place {
                    // The client waits again, unless the pool refuses it.
                    *self.client(client) = Client::WaitingAlone(pool);
                }
                let failure = match luck {
                    7 => Failure::unreachable("connect failed"),
                    8 => Failure::refused(*b"28P01", "wrong password"),
                    _ => Failure::refused(*b"57P03", "starting up"),
                };
                self.handle(Event::DialFailed { server, failure });
            }
            Place::Lent(client) if luck < 8 => {
                *self.client(client) = Client::Away;
                let as_ = if luck < 6 { Return::Clean } else { Return::Cleanup };
                // The pool decides about a clean server by a command; without a command the server is idle.
                let resets = as_ == Return::Clean && self.limits[pool].reset;
                let rests = if as_ == Return::Clean { Place::Idle } else { Place::Cleaning };
                self.servers.insert(server, (pool, if resets { place } else { rests }));
                let fingerprint = self.some_settings();
                self.handle(Event::Returned { server, as_, fingerprint });
            }
            Place::Lent(client) | Place::Dedicated(client) => {
                *self.client(client) = Client::Away;
                self.lose(server);
            }
            Place::Cleaning if luck < 8 => {
                self.servers.insert(server, (pool, Place::Idle));
                self.handle(Event::Cleaned { server });
            }
            Place::Closing if luck < 8 => {
                self.servers.remove(&server);
                self.handle(Event::Closed { server });
            }
            Place::Idle if luck < 8 => {}
            Place::Idle | Place::Cleaning | Place::Closing => self.lose(server),
        }
    }

    fn lose(&mut self, server: ServerKey) {
        self.servers.remove(&server);
        self.handle(Event::Lost { server });
        assert_eq!(self.pools.state_of(server), State::Free);
    }

    fn pause(&mut self, pool: usize, is_paused: bool) {
        self.is_paused[pool] = is_paused;
        let pool = self.keys[pool];
        self.handle(if is_paused {
            Event::Pause { pool, why: CloseReason::PauseMode }
        } else {
            Event::Resume { pool }
        });
    }

    fn ledger_moves(&mut self) {
        if self.asks.is_empty() {
            return;
        }
        let user = LIMITED_USER;
        if self.grants_free > 0 {
            self.grants_free -= 1;
            let need = self.asks.remove(0);
            self.handle(Event::Granted { user, need });
        } else if let Some(place) = self.asks.iter().position(|need| *need == Need::Minimum) {
            self.asks.remove(place);
            self.handle(Event::Denied { user });
        } else {
            self.handle(Event::Wanted { user, is_wanted: true });
        }
    }

    fn limits_change(&mut self, pool: usize, pick: u8) {
        // Limits are only raised here: a lowered limit is exceeded for a while, which has its own transcript.
        let limits = &mut self.limits[pool];
        if pick.is_multiple_of(16) && limits.servers_max > 0 {
            limits.servers_max += 1;
        }
        limits.reuse = if pick.is_multiple_of(2) { Reuse::Newest } else { Reuse::Oldest };
        let (limits, key, now) = (*limits, self.keys[pool], self.now);
        self.with_pools(|pools, out| pools.set_limits(now, key, limits, out));
        self.check();
    }

    /// All clients leave and all pools are closed, after which nothing may remain.
    fn go_home(&mut self) {
        for index in 0..CLIENTS {
            let client = Key::first(index);
            if let Client::Promised(server) = *self.client(client) {
                *self.client(client) = Client::Away;
                self.lose(server);
            }
            if let Client::Waiting(pool, _) | Client::Greeting(pool) | Client::WaitingAlone(pool) = *self.client(client)
            {
                *self.client(client) = Client::Away;
                self.handle(Event::Left { pool: self.keys[pool], client });
            }
        }
        let now = self.now;
        for key in self.keys {
            self.with_pools(|pools, out| pools.close(now, key, CloseReason::DatabaseRemoved, out));
        }
        let servers: Vec<_> = self.servers.keys().copied().collect();
        for server in servers {
            self.servers.remove(&server);
            self.with_pools(|pools, out| pools.handle(now, Event::Closed { server }, out));
            assert_eq!(self.pools.pool_of(server), None);
        }
        while let Some(need) = self.asks.pop() {
            self.grants_free = self.grants_free.saturating_sub(1);
            self.with_pools(|pools, out| pools.handle(now, Event::Granted { user: LIMITED_USER, need }, out));
        }
        assert_eq!(self.grants_free, self.grants_max, "every grant comes home");
        assert!(self.pools.keys().is_empty(), "every pool is forgotten");
        assert_eq!(self.pools.next_deadline(), None, "nothing is left to do");
    }
}

/// All that pools know, but for where in its table a client waits.
fn view(pools: &Pools) -> String {
    let all = format!("{pools:?}");
    let (queues, waiters) = (["waiting: Queue", "demand: "], ["waiters: Waiters", "random: "]);
    let mut view = String::new();
    let mut rest = &all[..];
    while let Some((from, to)) = [queues, waiters]
        .iter()
        .filter_map(|[from, to]| {
            let from = rest.find(from)?;
            Some((from, from + rest[from..].find(to)?))
        })
        .min()
    {
        view += &rest[..from];
        view.extend(rest[from..to].split("len: ").skip(1).flat_map(|part| part.split(' ').next()));
        rest = &rest[to..];
    }
    view + rest
}

fn limits() -> impl Strategy<Value = Limits> {
    let off_or = |millis: std::ops::Range<u64>| proptest::option::of(millis.prop_map(Duration::from_millis));
    let sizes = (0u32..4, 0u32..3, 0u32..3, 0u32..4, proptest::option::of(1u32..3));
    let times = (off_or(0..500), off_or(1..2000), off_or(0..1000), off_or(0..3000), off_or(0..300));
    (sizes, times, any::<bool>(), any::<bool>()).prop_map(|(sizes, times, reset, is_newest)| Limits {
        servers_max: sizes.0,
        servers_min: sizes.1,
        reserve_max: sizes.2,
        dials_max: sizes.3,
        dedicated_max: sizes.4,
        reserve_after: times.0,
        wait_max: times.1,
        idle_max: times.2,
        lifetime_max: times.3,
        check_after: times.4,
        retry_after: Duration::from_millis(200),
        reuse: if is_newest { Reuse::Newest } else { Reuse::Oldest },
        reset,
        ..Limits::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_books_agree_and_everything_comes_home(
        limits in [limits(), limits(), limits()],
        database_max in 0u32..4,
        grants_max in 0u32..4,
        seed in any::<u64>(),
        steps in proptest::collection::vec(any::<(u8, u8)>(), 1..250),
    ) {
        let mut world = World::new(limits, database_max, grants_max, seed);
        for (choice, pick) in steps {
            world.step(choice, pick);
        }
        world.go_home();
    }

    #[test]
    fn in_a_world_that_works_everybody_is_served_in_the_end(
        limits in [limits(), limits(), limits()],
        database_max in 0u32..4,
        grants_max in 0u32..4,
        seed in any::<u64>(),
        steps in proptest::collection::vec(any::<(u8, u8)>(), 1..150),
    ) {
        let mut world = World::new(limits, database_max, grants_max, seed);
        for (choice, pick) in steps {
            world.step(choice, pick);
        }
        // From now on no pool is paused, every login succeeds, every loan ends, and no client arrives.
        (0..POOLS).for_each(|pool| world.pause(pool, false));
        for _ in 0..600 {
            if world.clients.iter().all(|client| matches!(client, Client::Away | Client::Attached)) {
                break;
            }
            world.all_goes_well();
        }
        let left: Vec<_> = world.clients.iter().filter(|client| **client != Client::Away && **client != Client::Attached).collect();
        prop_assert!(left.is_empty(), "{left:?} wait forever");
        world.go_home();
    }
}

impl World {
    /// Every server carries out its command, then the ledger answers, then time passes.
    fn all_goes_well(&mut self) {
        let servers: Vec<_> = self.servers.keys().copied().collect();
        for server in servers {
            let Some((pool, place)) = self.servers.get(&server).copied() else { continue };
            match place {
                Place::Dialing => {
                    self.servers.insert(server, (pool, Place::Idle));
                    self.handle(Event::Ready { server });
                }
                Place::Dedicating(_) => self.handle(Event::Ready { server }),
                Place::Dedicated(client) => {
                    *self.client(client) = Client::Away;
                    self.lose(server);
                }
                Place::Lent(client) => {
                    *self.client(client) = Client::Away;
                    self.servers.insert(server, (pool, Place::Cleaning));
                    self.handle(Event::Returned { server, as_: Return::Cleanup, fingerprint: Fingerprint::default() });
                }
                Place::Cleaning => {
                    self.servers.insert(server, (pool, Place::Idle));
                    self.handle(Event::Cleaned { server });
                }
                Place::Closing => {
                    self.servers.remove(&server);
                    self.handle(Event::Closed { server });
                }
                Place::Idle => {}
            }
        }
        self.ledger_moves();
        // As in the worker, the tick comes when it is due, after one second at most.
        let latest = self.now + Duration::from_secs(1);
        self.wait_until(self.pools.next_deadline().map_or(latest, |due| due.clamp(self.now, latest)));
        self.handle(Event::Tick);
    }
}
