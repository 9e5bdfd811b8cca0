//! Many pools that share the places of one database, on a virtual clock: how many logins their transactions cost.
//!
//! Always true: the clients think, wait and run transactions of fixed lengths with jitter; logins and closings take a fixed
//! time. So a run depends on its seed and on the policy alone.
//! Not here: single decisions (`transcripts`), invariants (`properties`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use base::{Key, Random, Time};
use pool::{Command, Event, Fingerprint, Limits, Mode, PoolKey, Pools, Return, ServerKey};

/// What comes at its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A client wants a server.
    Wants(u32),
    /// A transaction ends.
    Returned(ServerKey),
    Ready(ServerKey),
    Closed(ServerKey),
}

struct Outcome {
    transactions: u64,
    logins: u64,
    longest_wait: Duration,
}

struct Tenants {
    pools: Pools,
    keys: Vec<PoolKey>,
    due: BinaryHeap<Reverse<(Time, Due)>>,
    random: Random,
    /// The client of each lent server.
    lent: BTreeMap<ServerKey, u32>,
    outcome: Outcome,
}

const THINK: Duration = Duration::from_millis(100);
const TRANSACTION: Duration = Duration::from_millis(5);
const LOGIN: Duration = Duration::from_millis(20);
const CLOSE: Duration = Duration::from_millis(3);
/// Openings for `min_pool_size` at the start are not counted.
const FROM: Time = Time::from_secs(2);

impl Tenants {
    /// So many pools with so many clients each, for so many places in their database, until this time.
    fn run(pools: u32, clients: u32, places: u32, until: Time) -> Outcome {
        let limits = Limits {
            mode: Mode::Transaction,
            servers_max: 20,
            servers_min: 20,
            reserve_max: 5,
            reset: false,
            ..Limits::default()
        };
        let mut tenants = Self {
            pools: Pools::new(1),
            keys: Vec::new(),
            due: BinaryHeap::new(),
            random: Random::new(1),
            lent: BTreeMap::new(),
            outcome: Outcome { transactions: 0, logins: 0, longest_wait: Duration::ZERO },
        };
        tenants.pools.set_database_limit(0, places);
        tenants.keys = (0..pools).map(|user| tenants.pools.open(Time(0), 0, user, limits)).collect();
        for client in 0..pools * clients {
            tenants.later(Time(0), THINK, Due::Wants(client));
        }
        while let Some(now) = tenants.next().filter(|now| *now < until) {
            tenants.step(now);
        }
        tenants.outcome
    }

    fn next(&self) -> Option<Time> {
        let due = self.due.peek().map(|Reverse((time, _))| *time);
        due.into_iter().chain(self.pools.next_deadline()).min()
    }

    fn step(&mut self, now: Time) {
        let is_due = self.due.peek().is_some_and(|Reverse((time, _))| *time <= now);
        let due = if is_due { self.due.pop().map(|Reverse((_, due))| due) } else { None };
        let event = match due {
            None => Event::Tick,
            Some(Due::Wants(client)) => {
                let pool = self.keys[client as usize % self.keys.len()];
                Event::Wants { pool, client: Key::first(client), fingerprint: Fingerprint::default() }
            }
            Some(Due::Returned(server)) => {
                let client = self.lent.remove(&server).expect("it was lent");
                self.outcome.transactions += u64::from(now >= FROM);
                self.later(now, THINK, Due::Wants(client));
                Event::Returned { server, as_: Return::Clean, fingerprint: Fingerprint::default() }
            }
            Some(Due::Ready(server)) => Event::Ready { server },
            Some(Due::Closed(server)) => Event::Closed { server },
        };
        let mut out = Vec::new();
        self.pools.handle(now, event, &mut out);
        for command in out {
            match command {
                Command::Dial { server, .. } => {
                    self.outcome.logins += u64::from(now >= FROM);
                    self.later(now, LOGIN, Due::Ready(server));
                }
                Command::Close { server, .. } => self.later(now, CLOSE, Due::Closed(server)),
                Command::Attach { client, server, waited } => {
                    self.lent.insert(server, client.index);
                    self.outcome.longest_wait = self.outcome.longest_wait.max(waited);
                    self.later(now, TRANSACTION, Due::Returned(server));
                }
                Command::Note(_) => {}
                other => panic!("nobody expects {other:?}"),
            }
        }
    }

    /// Something comes after half to one and a half times this long.
    fn later(&mut self, now: Time, after: Duration, due: Due) {
        let thousandths = 500 + self.random.below(1000) as u32;
        self.due.push(Reverse((now + after * thousandths / 1000, due)));
    }
}

#[test]
fn pools_that_fit_together_do_not_evict_each_other_all_the_time() {
    for clients in [2, 3] {
        let Outcome { transactions, logins, longest_wait } = Tenants::run(12, clients, 20, Time::from_secs(22));
        println!("{clients}: {transactions} transactions, {logins} logins, {longest_wait:?}");
        assert!(logins * 50 < transactions, "{logins} logins for {transactions} transactions");
        assert!(longest_wait < Duration::from_millis(1500), "a client has waited for {longest_wait:?}");
    }
}

#[test]
fn more_pools_than_places_share_them_without_a_login_for_each_transaction() {
    let Outcome { transactions, logins, longest_wait } = Tenants::run(30, 3, 20, Time::from_secs(22));
    println!("{transactions} transactions, {logins} logins, {longest_wait:?}");
    assert!(logins * 4 < transactions, "{logins} logins for {transactions} transactions");
    assert!(longest_wait < Duration::from_millis(1500), "a client has waited for {longest_wait:?}");
}
