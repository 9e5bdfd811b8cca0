//! The faults that a seed draws: of every kind, of authentication (troubles), and of impatient operators (evictions).
//!
//! Always true: troubles and evictions are drawn from separate streams of chance, so that the faults of other seeds do
//! not change.
//! Not here: what a fault does (`crate::faults`).

use std::sync::Arc;

use worker::letters::Shutdown;

use crate::plan::fault::{Command, Fault, Trouble, What};
use crate::plan::streams::Stream;
use crate::plan::{AUTODB, Plan};
use crate::postgres::manner::{Answers, Mood};
use crate::sim::dice::Dice;

impl Plan {
    /// Draws the faults of a world.
    pub(crate) fn draw_faults(&mut self, dice: &mut Dice) {
        let kinds: Vec<u64> = (0..What::KINDS).filter(|_| dice.chance(400)).collect();
        if kinds.is_empty() {
            return;
        }
        for number in 0..dice.among(1..=25) as u32 {
            let kind = dice.pick(&kinds);
            let what = What::draw(kind, dice, self);
            let lasts = dice.pick(&[1_000, 100_000, 2_000_000]);
            let fault = Fault { at: dice.among(0..=self.heals_at), lasts: dice.among(0..=lasts), what };
            self.faults.push((number, fault));
        }
        self.draw_restarts();
    }

    /// Draws online restarts in some worlds.
    fn draw_restarts(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Restarts.number());
        if !dice.chance(120) {
            return;
        }
        for _ in 0..dice.among(1..=3) {
            let command = Command::Handover { dice: dice.any(), succeeds: dice.chance(800) };
            let (at, lasts) = (dice.among(0..=self.heals_at), dice.among(100_000..=2_000_000));
            let number = self.faults.len() as u32;
            self.faults.push((number, Fault { at, lasts, what: What::Order(command) }));
        }
    }

    /// Draws troubles, where authentication has any.
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
                2 if self.auth.has_external_auth() => Trouble::NoExternalAuth,
                _ => Trouble::Slow { factor: dice.among(2..=20) },
            };
            let lasts = dice.pick(&[1_000, 100_000, 2_000_000]);
            let fault =
                Fault { at: dice.among(0..=self.heals_at), lasts: dice.among(0..=lasts), what: What::Trouble(trouble) };
            self.faults.push((TROUBLES_FIRST + number, fault));
        }
    }

    /// In some worlds operators disconnect clients.
    pub(crate) fn draw_evictions(&mut self) {
        // A separate stream, so that the worlds of other seeds do not change.
        let mut dice = Dice::new(self.seed, Stream::Evictions.number());
        let waits = self.shutdowns.first().filter(|(_, way)| *way == Shutdown::WaitForClients);
        if waits.is_some() && dice.chance(600) {
            self.shape.set("shutdown_timeout", dice.among(0..=5).max(1));
        }
        if self.is_calm {
            return;
        }
        let has_sessions = self.shape.databases.iter().any(|db| db.mode == "session");
        if has_sessions && dice.chance(250) {
            self.shape.set("server_fast_close", 1);
            for _ in 0..dice.among(1..=4) {
                let what = match dice.chance(700) {
                    true => What::Order(Command::Reconnect(None)),
                    false => What::Reload { dice: dice.any() },
                };
                self.add_fault(what, &mut dice);
            }
        }
        if dice.chance(120) {
            for _ in 0..dice.among(1..=6) {
                let what = What::Order(Command::KillClient(dice.any()));
                self.add_fault(what, &mut dice);
            }
        }
    }

    fn add_fault(&mut self, what: What, dice: &mut Dice) {
        let number = self.faults.len() as u32;
        self.faults.push((number, Fault { at: dice.among(0..=self.heals_at), lasts: dice.among(0..=100_000), what }));
    }
}

impl What {
    /// Number of kinds of faults.
    pub(crate) const KINDS: u64 = 17;

    /// A fault of this kind.
    pub(crate) fn draw(kind: u64, dice: &mut Dice, plan: &Plan) -> Self {
        let host = dice.among(0..=plan.hosts as u64 - 1) as usize;
        let worker = dice.among(0..=u64::from(plan.workers) - 1) as u8;
        match kind {
            0 => {
                let moods = [
                    Mood::Refusing,
                    Mood::Hanging,
                    Mood::Starting,
                    Mood::Full,
                    Mood::Dying,
                    Mood::Mad,
                    Mood::Odd,
                    Mood::Forgetful,
                ];
                Self::Mood { host, mood: dice.pick(&moods) }
            }
            1 => Self::Terminate { which: dice.any() },
            2 => Self::Crash { which: dice.any() },
            3 => Self::CrashAll { host },
            4 => Self::Reset { which: dice.any() },
            5 => Self::Stall { worker, micros: dice.among(1_000..=3_000_000) },
            6 => Self::Jump { micros: dice.among(1_000..=30_000_000) },
            7 => Self::Reload { dice: dice.any() },
            8 => Self::FewBuffers { worker },
            9 => Self::NoDescriptors,
            10 => Self::TinyPieces { worker, bytes: dice.pick(&[1, 5, 200]) },
            11 => Self::NoNames,
            12 => Self::Show,
            13 => Self::SlowServers { factor: dice.among(2..=200) },
            14 => Self::Order(Command::draw(dice, plan)),
            15 => Self::Secrets { dice: dice.any() },
            _ => Self::AuthType { to: dice.pick(&["trust", "plain", "md5", "scram-sha-256"]) },
        }
    }
}

impl Command {
    fn draw(dice: &mut Dice, plan: &Plan) -> Self {
        let databases = &plan.shape.databases;
        let name: Arc<str> = match dice.among(0..=databases.len() as u64) as usize {
            0 if plan.shape.autodb.is_some() => AUTODB.into(),
            0 => databases[0].name.as_str().into(),
            at => databases[at - 1].name.as_str().into(),
        };
        let whose = if dice.chance(300) { None } else { Some(name.clone()) };
        match dice.among(0..=8) {
            0..=2 => Self::Pause(whose),
            3 => Self::Kill(name),
            4 => Self::Disable(name),
            5 => Self::Reconnect(whose),
            6 => Self::KillClient(dice.among(1..=300)),
            _ if dice.chance(300) => Self::Suspend,
            _ => Self::Handover { dice: dice.any(), succeeds: dice.chance(600) },
        }
    }
}

/// The number of the first trouble.
const TROUBLES_FIRST: u32 = 1000;
