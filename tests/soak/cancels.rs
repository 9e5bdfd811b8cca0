//! Cancel requests from second connections, and which queries one may have hit.
//!
//! Always true: a request is on the board before its first byte is sent, and until its connection has ended; so a query at
//! which no request on the board was aimed must not be cancelled.
//! Not here: the queries (`ops`).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use base::Random;
use tests::message;
use tests::peer::Peer;

use super::world::{Phase, World};

/// The key of each client, and the requests with that key.
#[derive(Debug)]
pub(crate) struct Board {
    targets: Vec<Mutex<Target>>,
}

#[derive(Debug, Default)]
struct Target {
    /// Counts the connections of this client.
    generation: u64,
    key: Option<Key>,
    /// Of its previous connection.
    stale: Option<Key>,
    is_long: bool,
    shots: Vec<Shot>,
}

/// A key as in BackendKeyData.
type Key = (u32, Vec<u8>);

#[derive(Debug)]
struct Shot {
    number: u64,
    fired: Instant,
    over: Option<Instant>,
}

impl Board {
    pub(crate) fn new(clients: usize) -> Self {
        Self { targets: (0..clients).map(|_| Mutex::default()).collect() }
    }

    /// The client has logged in with this key.
    pub(crate) fn login(&self, client: usize, key: Key) {
        let mut target = self.target(client);
        target.generation += 1;
        target.key = Some(key);
        target.shots.clear();
    }

    /// The client's connection has ended.
    pub(crate) fn leave(&self, client: usize) {
        let mut target = self.target(client);
        target.stale = target.key.take().or(target.stale.take());
        target.is_long = false;
    }

    /// The client runs a query that is worth a cancel request.
    pub(crate) fn is_long(&self, client: usize, is_long: bool) {
        self.target(client).is_long = is_long;
    }

    /// Returns whether a request may have hit a query that the client has been running since then.
    pub(crate) fn may_have_hit(&self, client: usize, since: Instant) -> bool {
        self.target(client).shots.iter().any(|shot| shot.over.is_none_or(|over| over >= since))
    }

    /// The recorded requests, for an error report.
    pub(crate) fn show(&self, client: usize) -> String {
        let ago = |moment: Instant| format!("{:.3} s ago", moment.elapsed().as_secs_f64());
        let shots = &self.target(client).shots;
        let shots: Vec<_> =
            shots.iter().map(|s| format!("fired {}, over {:?}", ago(s.fired), s.over.map(ago))).collect();
        format!("cancel requests with this key: {shots:?}")
    }

    fn target(&self, client: usize) -> std::sync::MutexGuard<'_, Target> {
        self.targets[client].lock().expect("nobody panics while he holds a target")
    }
}

/// Sends requests until the chaos is over.
pub(crate) fn run(world: &World, clients: usize, mut random: Random) {
    while world.pause(Phase::Chaos, Duration::from_millis(random.below(30))) {
        let client = random.below(clients as u64) as usize;
        let fired = match random.below(10) {
            0 => fire_stale(world, client, &mut random),
            1 => fire_wrong(world, client, &mut random),
            _ => fire_right(world, client, &mut random),
        };
        if let Err(violation) = fired {
            world.accuse(violation);
        }
    }
}

fn fire_right(world: &World, client: usize, random: &mut Random) -> Result<(), String> {
    let (key, generation, number) = {
        let mut target = world.board.target(client);
        // Most requests are for clients with long queries; the rest are random.
        let Some(key) = target.key.clone().filter(|_| target.is_long || random.below(4) == 0) else { return Ok(()) };
        let number = target.shots.last().map_or(0, |shot| shot.number + 1);
        target.shots.retain(|shot| shot.over.is_none_or(|over| over.elapsed() < KEPT));
        target.shots.push(Shot { number, fired: Instant::now(), over: None });
        (key, target.generation, number)
    };
    world.tally.cancels_right.add(1);
    let fired = fire(world, &key, random);
    let mut target = world.board.target(client);
    if target.generation == generation {
        let shot = target.shots.iter_mut().find(|shot| shot.number == number);
        shot.into_iter().for_each(|shot| shot.over = Some(Instant::now()));
    }
    fired
}

fn fire_stale(world: &World, client: usize, random: &mut Random) -> Result<(), String> {
    let Some(key) = world.board.target(client).stale.clone() else { return Ok(()) };
    world.tally.cancels_stale.add(1);
    fire(world, &key, random)
}

fn fire_wrong(world: &World, client: usize, random: &mut Random) -> Result<(), String> {
    let Some((pid, mut secret)) = world.board.target(client).key.clone() else { return Ok(()) };
    if let Some(byte) = secret.get_mut(random.below(4) as usize) {
        *byte ^= 1 << random.below(8);
    }
    world.tally.cancels_wrong.add(1);
    fire(world, &(pid, secret), random)
}

/// Sends the request and waits for its end.
fn fire(world: &World, (pid, secret): &Key, random: &mut Random) -> Result<(), String> {
    let address = if random.below(2) == 0 { world.front } else { world.direct };
    let Ok(mut peer) = Peer::tcp(address) else { return Ok(()) };
    if peer.try_send(&message::cancel_request(*pid, secret)).is_err() {
        return Ok(());
    }
    peer.closed_within(ANSWERED).map_err(|reason| format!("a cancel request was not answered by closing: {reason}"))
}

/// The time in which every request ends: longer than `cancel_wait_timeout`.
const ANSWERED: Duration = Duration::from_secs(30);
/// No query runs longer.
const KEPT: Duration = Duration::from_secs(300);
