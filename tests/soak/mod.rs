//! Chaos around the real binary, and the proof that no client received data of another one.
//!
//! Many clients speak to a pooler with few servers, in all styles of the protocol, while proxies on both sides delay, cut and
//! end connections, clients leave in the middle, cancel requests are sent, servers are terminated and the configuration changes.
//! Then all faults end, and everything must be as if nothing had happened.
//!
//! Always true: each answer carries the tag of the request that it answers; the first violation ends the soak.
//! Not here: faults at exact moments, which need a virtual clock (`crates/world`).

pub(crate) mod options;

mod cancels;
mod cast;
mod chaos;
mod churn;
mod era;
mod eras;
mod faults;
mod fill;
mod lane;
mod ledger;
mod life;
mod ops;
mod proxy;
mod rest;
mod scram;
mod secrets;
mod session;
mod sizes;
mod stage;
mod tally;
mod verdict;
mod want;
mod witness;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use base::Random;
use nix::sys::signal::Signal;
use tests::place::Place;
use tests::postgres::Postgres;

use cast::{POOLS, who};
use churn::Churn;
use ledger::Ledger;
use options::Options;
use rest::Reference;
use session::Who;
use stage::{Stage, Way};
use world::{Phase, World};

/// Runs the whole soak; an error is the evidence of a violation.
pub(crate) fn run(place: &Arc<Place>, postgres: &Postgres, options: &Options) -> Result<(), String> {
    let kernel = options.kernel.as_deref().unwrap_or("auto");
    println!("soak: seed {}, {} clients, {:?}, io_backend {kernel}", options.seed, options.clients, options.time);
    let stage = Stage::raise(place, postgres, options)?;
    let addresses = [stage.front.address(), stage.pooler.address(), postgres.address()];
    let world = World::new(addresses, options.clients + POOLS.len());
    let before = Reference::take(&stage);
    let churn = Churn::raise(place, postgres);
    let outcome = play(&stage, churn.as_ref(), &world, options, before);
    println!("\n{}", world.tally.table(stage.front.counts(), stage.back.counts()));
    match outcome {
        Ok(words) => {
            print!("{words}");
            println!("soak: passed (seed {})", options.seed);
            Ok(())
        }
        Err(violation) => {
            let kept = keep_log(&stage, options.seed);
            Err(format!("\nVIOLATION (seed {}): {violation}\n{kept}", options.seed))
        }
    }
}

fn play(
    stage: &Stage<'_>,
    churn: Option<&Churn>,
    world: &World,
    options: &Options,
    before: Reference,
) -> Result<String, String> {
    let (log, healed, ledgers) = std::thread::scope(|scope| {
        let random = |number: u64| Random::new(options.seed.wrapping_mul(1_000_003).wrapping_add(number));
        let clients: Vec<ScopedJoinHandle<'_, Ledger>> = (0..options.clients)
            .map(|id| spawn(scope, format!("client {id}"), move || life::live(world, &who(id), random(id as u64))))
            .collect();
        let count = options.clients;
        let mut others = vec![
            spawn(scope, "terminator".to_string(), move || chaos::terminate(world, random(1_000_001))),
            spawn(scope, "reloader".to_string(), move || {
                or_accuse(world, || chaos::reload(world, stage, random(1_000_002)));
            }),
        ];
        // Each canceller waits for the end of its request, which may take seconds.
        let cancellers = (1_000_003..1_000_003 + CANCELLERS)
            .map(|number| spawn(scope, "canceller".to_string(), move || cancels::run(world, count, random(number))));
        others.extend(cancellers);
        others.extend(POOLS.iter().zip(count..).map(|((database, user), id)| {
            let who = Who { id, user, database };
            spawn(scope, format!("witness {id}"), move || witness::watch(world, &who, random(2_000_000 + id as u64)))
        }));
        if let Some(churn) = churn {
            others.push(spawn(scope, "churn".to_string(), move || churn.order(world, random(3_000_000))));
            others.push(spawn(scope, "churn".to_string(), move || churn::terminate(world, random(3_000_001))));
            let lives = (3_000_002..3_000_002 + churn::CLIENTS).map(|number| {
                spawn(scope, "churn".to_string(), move || churn::live(churn.address(), world, random(number)))
            });
            others.extend(lives);
        }
        or_accuse(world, || watch(stage, world, options));
        // The lines that explain the violation, before the lines of the disconnections that follow it.
        let log = world.violation().map(|_| end_of_log(stage));
        give_up_after_violation(stage, world);
        let healed = or_accuse(world, || heal(stage, world, others, count));
        if let Some(Err(reason)) = &healed {
            world.accuse(reason.clone());
        }
        give_up_after_violation(stage, world);
        world.enter(Phase::Over);
        let ledgers: Vec<Ledger> = clients.into_iter().filter_map(|client| client.join().ok()).collect();
        (log, healed, ledgers)
    });
    if let Some(violation) = world.violation() {
        return Err(format!("{violation}\n{}", log.unwrap_or_else(|| end_of_log(stage))));
    }
    if ledgers.len() < options.clients {
        return Err(format!("{} clients panicked", options.clients - ledgers.len()));
    }
    let tables = rest::check_tables(stage, &ledgers).and_then(|()| fill::check(stage));
    let at_rest = tables.and_then(|()| rest::check(stage, before));
    let churned = churn.map_or_else(|| Ok(String::new()), |churn| churn.check(stage))?;
    let at_rest = at_rest.map_err(|reason| format!("{reason}\n{}", end_of_log(stage)))?;
    let healed = healed.ok_or("nothing healed")??;
    Ok(format!("  healed in {:.1} s\n{at_rest}{churned}", healed.as_secs_f64()))
}

/// Runs `body`. A panic in it, such as for a console that does not answer, is a violation too.
fn or_accuse<T>(world: &World, body: impl FnOnce() -> T) -> Option<T> {
    let ended = catch_unwind(AssertUnwindSafe(body));
    if ended.is_err() {
        world.accuse("the soak itself panicked: see above".to_string());
    }
    ended.ok()
}

/// Ends all connections, so that no thread waits for an answer any more.
fn give_up_after_violation(stage: &Stage<'_>, world: &World) {
    if world.violation().is_some() {
        stage.front.close();
        stage.pooler.signal(Signal::SIGQUIT);
    }
}

/// Watches the chaos and prints a line every ten seconds.
fn watch(stage: &Stage<'_>, world: &World, options: &Options) {
    let mut told = 0;
    while world.pause(Phase::Chaos, LOOK.min(options.time / 4)) {
        if stage.pooler.descriptors() == 0 {
            world.accuse("the pooler has ended".to_string());
            break;
        }
        let passed = world.begun.elapsed();
        let sizes = rest::check_sizes(&stage.console("SHOW POOLS")).and_then(|()| sizes::check(stage, &world.eras));
        match sizes {
            Ok(most) => world.tally.servers.raise(most as u64),
            Err(reason) => world.accuse(reason),
        }
        if passed.as_secs() / 10 > told {
            told = passed.as_secs() / 10;
            let (memory, files) = (stage.pooler.memory_kb("VmRSS"), stage.pooler.descriptors());
            println!("{:5} s  {}; {memory} kB, {files} descriptors", passed.as_secs(), world.tally.progress());
        }
        if passed >= options.time {
            world.enter(Phase::Calm);
        }
    }
}

/// Ends the chaos, waits until everything is at rest, and has every client served once more. Returns how long it took until
/// everything was at rest.
fn heal(
    stage: &Stage<'_>,
    world: &World,
    others: Vec<ScopedJoinHandle<'_, ()>>,
    clients: usize,
) -> Result<Duration, String> {
    let begun = Instant::now();
    // This comes first: clients that are still logging in may wait for a server.
    stage.front.heal();
    stage.back.heal();
    if others.into_iter().map(ScopedJoinHandle::join).any(|ended| ended.is_err()) {
        return Err("a thread of the chaos panicked".to_string());
    }
    if let Some(violation) = world.violation() {
        return Err(violation);
    }
    stage.reload(&world.eras, world.eras.latest().cleared(), Way::Signal)?;
    match world.await_all(clients, ENDED) {
        0 => {}
        missing => return Err(format!("{missing} clients were still busy {ENDED:?} after the chaos")),
    }
    rest::await_quiet(stage)?;
    let healed = begun.elapsed();
    world.enter(Phase::Proof);
    match world.await_all(clients, ENDED) {
        0 => Ok(healed),
        missing => Err(format!("{missing} clients were not served within {ENDED:?} after everything had healed")),
    }
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    body: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    std::thread::Builder::new().name(name).spawn_scoped(scope, body).expect("a thread starts")
}

/// A random number whose length is between `least` and `most` bits: each order of magnitude is equally likely.
pub(crate) fn skewed(random: &mut Random, least: u64, most: u64) -> u64 {
    let bits = least + random.below(most - least + 1);
    random.below(1 << bits)
}

/// Keeps the log: the scratch directory is removed, and the cause of a violation may stand far above the last lines.
fn keep_log(stage: &Stage<'_>, seed: u64) -> String {
    let path = std::env::temp_dir().join(format!("trunkline-soak-{seed}.log"));
    match std::fs::write(&path, stage.whole_log()) {
        Ok(()) => format!("the whole log: {}", path.display()),
        Err(error) => format!("the log could not be kept: {error}"),
    }
}

fn end_of_log(stage: &Stage<'_>) -> String {
    let log = stage.pooler.log();
    let lines: Vec<_> = log.lines().rev().take(LOG_LINES).collect();
    let lines: String = lines.into_iter().rev().map(|line| format!("  | {line}\n")).collect();
    format!("the end of the pooler's log:\n{lines}")
}

const CANCELLERS: u64 = 8;
const LOOK: Duration = Duration::from_secs(1);
/// Longer than any answer may take.
const ENDED: Duration = Duration::from_secs(120);
const LOG_LINES: usize = 60;
