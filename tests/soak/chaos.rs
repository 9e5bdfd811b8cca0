//! What operators and accidents do during the chaos: backends are terminated, the configuration changes.
//!
//! Always true: it ends with the chaos.
//! Not here: cancel requests (`cancels`) and what the proxies do (`faults`).

use std::time::Duration;

use base::Random;
use tests::client::Client;

use super::sizes;
use super::stage::{Stage, Way};
use super::world::{Phase, World};

/// Terminates a backend now and then, and sometimes all of them.
pub(crate) fn terminate(world: &World, mut random: Random) {
    let mut killer = Client::login(world.postgres, "postgres", "postgres");
    while world.pause(Phase::Chaos, Duration::from_millis(random.below(500))) {
        let count = if random.below(80) == 0 { 1_000 } else { 1 };
        let sql = format!(
            "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity where datname like 'soak%' \
             order by random() limit {count}) chosen"
        );
        world.tally.terminated.add(killer.value(&sql).parse().unwrap_or(0));
    }
}

/// Reloads another configuration every few seconds; sometimes one stays for longer.
pub(crate) fn reload(world: &World, stage: &Stage<'_>, mut random: Random) {
    while world.pause(Phase::Chaos, draw_calm(&mut random)) {
        let next = world.eras.latest().next(&mut random);
        let way = if random.below(2) == 0 { Way::Signal } else { Way::Console };
        if let Err(reason) = stage.reload(&world.eras, next, way) {
            world.accuse(reason);
        }
        world.tally.reloads.add(1);
    }
}

fn draw_calm(random: &mut Random) -> Duration {
    match random.below(80) {
        0 => sizes::SHRUNK + Duration::from_secs(10),
        1..=15 => Duration::from_millis(random.below(100)),
        _ => Duration::from_millis(300 + random.below(4_000)),
    }
}
