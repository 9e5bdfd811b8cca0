//! The life of a client: it connects, sends requests, leaves in one of several ways, and reconnects.
//!
//! Always true: in the proof at the end, the client is served without a single error.
//! Not here: the requests (`ops`).

use std::time::Duration;

use base::Random;
use tests::message;

use super::ledger::Ledger;
use super::ops;
use super::session::{Diary, End, Entrance, Fuse, Haste, Memory, Session, Who};
use super::skewed;
use super::world::{Phase, World};

/// Runs the client until the soak is over. Returns what it knows of its transactions.
pub(crate) fn live(world: &World, who: &Who, mut random: Random) -> Ledger {
    let (mut diary, mut ledger) = (Diary::default(), Ledger::default());
    while world.phase() == Phase::Chaos {
        let end = come_and_go(world, who, &mut diary, &mut ledger, &mut random);
        world.board.leave(who.id);
        note_end(world, who, &mut diary, end);
        let latest = world.eras.latest();
        let is_welcome = latest.has(who.database) && latest.knows(who.user);
        // A client that is not admitted pauses longer; otherwise it would do nothing but reconnect.
        let rest = Duration::from_micros(random.below(if is_welcome { 20_000 } else { 600_000 }));
        world.pause(Phase::Chaos, rest);
    }
    world.arrive(Phase::Calm);
    if world.phase() == Phase::Proof {
        diary.note("must be served without any error from here on".to_string());
        let end = prove(world, who, &mut diary, &mut ledger, &mut random);
        let end = match end {
            Err(End::Gone(reason)) => Err(End::Wrong(format!("after everything had healed: {reason}"))),
            end => end,
        };
        note_end(world, who, &mut diary, end);
        world.arrive(Phase::Proof);
    }
    ledger
}

/// One connection during the chaos.
fn come_and_go(
    world: &World,
    who: &Who,
    diary: &mut Diary,
    ledger: &mut Ledger,
    random: &mut Random,
) -> Result<(), End> {
    let memory = if random.below(30) == 0 { Memory::Stale } else { Memory::Fresh };
    let entrance = Entrance { fuse: login_fuse(random), memory, ..draw_entrance(world, random) };
    let mut session = Session::open(world, who, diary, &entrance)?;
    session.fuse = None;
    ops::begin_life(&mut session)?;
    let count = 1 + random.below(40);
    for _ in 0..count {
        if world.phase() != Phase::Chaos {
            break;
        }
        session.fuse = draw_fuse(random);
        let ended = ops::perform(&mut session, random, ledger);
        world.board.is_long(who.id, false);
        if let Err(End::Left) = ended {
            world.tally.left.add(1);
            leave(session, random);
            return Ok(());
        }
        ended?;
        session.fuse = None;
        if random.below(6) == 0 {
            world.pause(Phase::Chaos, Duration::from_millis(random.below(60)));
        }
    }
    leave(session, random);
    Ok(())
}

/// One connection during the proof, when no faults are injected.
fn prove(world: &World, who: &Who, diary: &mut Diary, ledger: &mut Ledger, random: &mut Random) -> Result<(), End> {
    let mut session = Session::open(world, who, diary, &draw_entrance(world, random))?;
    ops::begin_life(&mut session)?;
    for _ in 0..PROOFS {
        ops::perform(&mut session, random, ledger)?;
    }
    session.send("Terminate", &message::terminate())
}

/// Records how a connection ended.
pub(crate) fn note_end(world: &World, who: &Who, diary: &mut Diary, end: Result<(), End>) {
    match end {
        Ok(()) | Err(End::Left) => diary.note("has left".to_string()),
        Err(End::Gone(reason)) => {
            diary.note(format!("is gone: {reason}"));
            if reason.len() != SQLSTATE {
                world.tally.lost.add(1);
            }
        }
        Err(End::Wrong(what)) => {
            diary.note(format!("VIOLATION: {what}"));
            world.accuse(format!("client {} ({}): {what}\n\nits last steps:\n{}", who.id, who.database, diary.show()));
        }
    }
}

fn draw_entrance(world: &World, random: &mut Random) -> Entrance {
    let haste = if random.below(8) == 0 { Haste::QueryAtOnce } else { Haste::Patient };
    Entrance { door: world.front, zone: ops::draw_zone(random), fuse: None, haste, memory: Memory::Fresh }
}

fn login_fuse(random: &mut Random) -> Option<Fuse> {
    match random.below(60) {
        0 => Some(Fuse::Bytes(random.below(90) as usize)),
        1 => Some(Fuse::Frames(random.below(16) as usize)),
        _ => None,
    }
}

fn draw_fuse(random: &mut Random) -> Option<Fuse> {
    match random.below(40) {
        0 => Some(Fuse::Bytes(skewed(random, 1, 13) as usize)),
        1 => Some(Fuse::Frames(skewed(random, 1, 6) as usize)),
        2 => Some(Fuse::Messages(random.below(14) as usize)),
        3 if random.below(3) == 0 => Some(Fuse::HalfClose),
        _ => None,
    }
}

/// Ends the connection in one of the ways in which clients leave.
fn leave(mut session: Session<'_>, random: &mut Random) {
    match random.below(4) {
        0 => session.peer.reset(),
        1 => {
            session.peer.finish_sending();
            // Stays a moment without reading.
            session.world.pause(Phase::Chaos, Duration::from_millis(random.below(50)));
        }
        2 => drop(session.send("Terminate", &message::terminate())),
        _ => {}
    }
}

/// Number of requests of each client in the proof.
const PROOFS: usize = 12;
const SQLSTATE: usize = 5;
