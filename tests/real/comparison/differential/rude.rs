//! Badly behaved clients, which share the pool with the compared programs: they are cut off anywhere, also in the middle
//! of a message, do not read, leave by a reset, and cancel their own queries.
//!
//! Always true: their actions are drawn from a seed; they have tables of their own, and their answers are not checked.
//! Not here: the effect on the others. That is the comparison.

use tests::client::Client;
use tests::wait::LIMIT;

use super::dice::Dice;
use super::generate::program;
use super::play::Line;
use super::program::{Confinement, Program};

/// Runs some of these clients, one after another.
pub(super) fn misbehave(line: &Line, seed: u64, seat: usize, confinement: Confinement) {
    let mut dice = Dice::new(seed);
    for _ in 0..dice.between(0, VISITS_MAX) {
        let program = program(dice.seed(), seat, confinement);
        visit(line, &program, &mut dice);
    }
}

fn visit(line: &Line, program: &Program, dice: &mut Dice) {
    let own = program.startup.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let pairs: Vec<_> = [("user", "u"), ("database", line.database.as_str())].into_iter().chain(own).collect();
    // A client that asks for a parameter that no server accepts is refused, which is as good as any other end.
    let Ok(mut client) = Client::try_login(line.address, &pairs) else { return };
    let bytes: Vec<u8> =
        program.bursts().flat_map(|(_, burst)| &burst.messages).flat_map(|message| message.bytes().to_vec()).collect();
    let stop = dice.between(1, (bytes.len() as u64).min(BYTES_MAX)) as usize;
    if client.peer.try_send(&bytes[..stop.min(bytes.len())]).is_err() {
        return;
    }
    if dice.percent(40) {
        // Reads a few messages, as far as they arrive soon; none do when the pooler has ended the connection.
        let limit = LIMIT / 1000;
        for _ in 0..dice.between(1, 5) {
            let _ = client.peer.frame_within(limit);
        }
    }
    if dice.percent(40) {
        client.cancel();
    }
    if dice.percent(40) {
        client.peer.reset();
    }
}

const VISITS_MAX: u64 = 3;
/// The kernel's buffers take so many bytes, whether anybody reads them or not.
const BYTES_MAX: u64 = 60_000;
