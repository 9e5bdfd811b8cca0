//! Idle clients: one in each pool, on a connection without faults, to see what a reload does to clients that it does not
//! concern, and to those that it does.
//!
//! Always true: a witness receives the error that its database is removed, soon after the removal, and nothing else ever.
//! Not here: clients that are in the middle of something (`life`).

use std::time::{Duration, Instant};

use base::Random;

use super::life;
use super::ops;
use super::session::{Diary, End, Entrance, Haste, Memory, Session, Who};
use super::world::{Phase, World};

/// Reconnects again and again until the chaos is over.
pub(crate) fn watch(world: &World, who: &Who, mut random: Random) {
    let mut diary = Diary::default();
    while world.phase() == Phase::Chaos {
        let end = stand_by(world, who, &mut diary, &mut random);
        world.board.leave(who.id);
        life::note_end(world, who, &mut diary, end);
        world.pause(Phase::Chaos, Duration::from_millis(random.below(300)));
    }
}

fn stand_by(world: &World, who: &Who, diary: &mut Diary, random: &mut Random) -> Result<(), End> {
    let zone = ops::draw_zone(random);
    let entrance = Entrance { door: world.direct, zone, fuse: None, haste: Haste::Patient, memory: Memory::Fresh };
    let mut session = Session::open(world, who, diary, &entrance)?;
    let mut due: Option<Instant> = None;
    while world.phase() == Phase::Chaos {
        if session.stand_by(LOOK)? && due.get_or_insert(Instant::now()).elapsed() > TOLD {
            return Err(session.wrong("its database is removed, and nobody has told it".to_string()));
        }
    }
    Ok(())
}

const LOOK: Duration = Duration::from_millis(200);
/// The error takes one turn of a worker; the limit is for a busy machine.
const TOLD: Duration = Duration::from_secs(10);
