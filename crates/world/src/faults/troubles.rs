//! What goes wrong where secrets are asked of servers and passwords of judges.
//!
//! Always true: drawn from the stream of chance for logins, so that the faults of other seeds stay what they are.
//! Not here: other faults (`faults`).

use crate::faults::{Fault, What};
use crate::plan::Plan;
use crate::postgres::session::Answers;
use crate::sim::dice::Dice;
use crate::world::World;

/// A trouble.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// A user gets another secret, and stays with it; the operator may reload at the end.
    NewSecret { user: &'static str, reloads: bool },
    /// A host answers questions about users otherwise than usual.
    Answers { host: usize, how: Answers },
    /// The judge cannot be asked.
    NoJudge,
    /// The control thread takes so many times as long.
    Slow { factor: u64 },
}

impl Plan {
    /// Draws some, where there may be any.
    pub(crate) fn draw_troubles(&mut self, dice: &mut Dice) {
        if self.is_calm {
            return;
        }
        let kinds: Vec<u64> = (0..4).filter(|_| dice.chance(600)).collect();
        if kinds.is_empty() {
            return;
        }
        let users: Vec<&'static str> =
            self.auth.unlisted.iter().copied().filter(|user| matches!(*user, "ann" | "bob")).collect();
        for number in 0..dice.among(1..=5) as u32 {
            let host = dice.among(0..=self.hosts as u64 - 1) as usize;
            let trouble = match dice.pick(&kinds) {
                0 if self.auth.is_asked => Trouble::NewSecret { user: dice.pick(&users), reloads: dice.chance(300) },
                1 if self.auth.is_asked => {
                    let how =
                        dice.pick(&[Answers::Failing, Answers::Dying, Answers::Torn, Answers::Twice, Answers::Slow]);
                    Trouble::Answers { host, how }
                }
                2 if self.auth.has_judge() => Trouble::NoJudge,
                _ => Trouble::Slow { factor: dice.among(2..=20) },
            };
            let lasts = dice.pick(&[1_000, 100_000, 2_000_000]);
            let fault =
                Fault { at: dice.among(0..=self.heals_at), lasts: dice.among(0..=lasts), what: What::Trouble(trouble) };
            self.faults.push((FIRST + number, fault));
        }
    }
}

impl World {
    /// It begins.
    pub(crate) fn begin_trouble(&mut self, trouble: &Trouble) {
        match *trouble {
            Trouble::NewSecret { user, .. } => self.change_secret(user),
            Trouble::Answers { host, how } => self.postgres.hosts[host].manner.answers = how,
            Trouble::NoJudge => self.thread.has_no_judge = true,
            Trouble::Slow { factor } => self.thread.slowness = factor,
        }
    }

    /// It ends.
    pub(crate) fn end_trouble(&mut self, trouble: &Trouble) {
        match *trouble {
            Trouble::NewSecret { reloads, .. } => {
                if reloads {
                    self.reload(&self.plan.shape.clone());
                }
            }
            Trouble::Answers { host, .. } => self.postgres.hosts[host].manner.answers = Answers::Usual,
            Trouble::NoJudge => self.thread.has_no_judge = false,
            Trouble::Slow { .. } => self.thread.slowness = 1,
        }
    }
}

/// The first number of a fault that was drawn here.
const FIRST: u32 = 1000;
