//! What can go wrong beside the applications' own manners.
//!
//! Always true: a fault ends by itself, and all have ended when the world heals.
//! Not here: which ones a seed draws (`plan`).

pub(crate) mod evict;
pub(crate) mod operator;
pub(crate) mod peers;
pub(crate) mod troubles;

use std::sync::Arc;

use reactor::BUFFER_BYTES;
use worker::letters::{ToWorker, Whose};

use crate::checks::{EVERYTHING, LOOKS};
use crate::faults::troubles::Trouble;
use crate::plan::{AUTODB, Plan};
use crate::postgres::Mood;
use crate::sim::dice::Dice;
use crate::world::World;

/// A fault and its time, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) what: What,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A host changes its mood.
    Mood { host: usize, mood: Mood },
    /// A session is ended by an administrator.
    Terminate { which: u64 },
    /// A session dies.
    Crash { which: u64 },
    /// All sessions of a host die.
    CrashAll { host: usize },
    /// A connection is reset from outside.
    Reset { which: u64 },
    /// A worker gets no turn.
    Stall { worker: u8, micros: u64 },
    /// The clock jumps ahead by so much.
    Jump { micros: u64 },
    /// The operator reloads.
    Reload { dice: u64 },
    /// Few receive buffers.
    FewBuffers { worker: u8 },
    /// No descriptors for anybody new.
    NoDescriptors,
    /// What is received comes in pieces of at most so many bytes.
    TinyPieces { worker: u8, bytes: usize },
    /// Names are not found.
    NoNames,
    /// Nothing goes wrong: somebody looks.
    Show,
    /// Servers take their time.
    SlowServers { factor: u64 },
    /// The operator orders something, and undoes it at the end.
    Order(Command),
    /// The file of secrets has mistakes.
    Secrets { dice: u64 },
    /// Clients are asked for another proof.
    AuthType { to: &'static str },
    /// Something about secrets and judges.
    Trouble(Trouble),
}

/// What an operator orders.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Pause(Whose),
    Kill(Arc<str>),
    Disable(Arc<str>),
    Reconnect(Whose),
    /// One of those who are there then.
    KillClient(u64),
    /// Everything comes to rest.
    Suspend,
    /// Everything comes to rest for another process, which may not come up.
    Handover {
        dice: u64,
        succeeds: bool,
    },
}

impl What {
    /// How many kinds there are.
    pub(crate) const KINDS: u64 = 17;

    /// One of a kind.
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

impl World {
    /// A fault begins.
    pub(crate) fn begin_fault(&mut self, what: &What) {
        self.witness.note(|| format!("FAULT {what:?}"));
        if let What::Show = what {
            self.order(|| ToWorker::Show { question: LOOKS, what: EVERYTHING });
        }
        self.begin_order(what);
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        match *what {
            What::Mood { host, mood } => self.postgres.hosts[host].mood = mood,
            What::Terminate { which } => {
                if let Some(number) = pick(&self.postgres.living(net), which) {
                    self.postgres.terminate(net, number);
                }
            }
            What::Crash { which } => {
                if let Some(number) = pick(&self.postgres.living(net), which) {
                    self.postgres.crash(net, number);
                }
            }
            What::CrashAll { host } => {
                for number in self.postgres.living(net) {
                    if self.postgres.sessions[number as usize].host == host {
                        self.postgres.crash(net, number);
                    }
                }
            }
            What::Reset { which } => {
                let open: Vec<u32> = (0..net.ends.len() as u32)
                    .filter(|&end| end % 2 == 0 && !net.end(end).is_closed && !net.end(end ^ 1).is_closed)
                    .collect();
                if let Some(end) = pick(&open, which) {
                    // Somebody between the two cuts the wire: both hear of it.
                    net.cut(end);
                }
            }
            What::Stall { worker, micros } => {
                let worker = self.of_the_crew(worker);
                let until = base::Time(net.agenda.now().0 + micros);
                net.desk(worker).busy_until = until;
            }
            What::Jump { micros } => {
                self.jumped = net.agenda.now();
                for worker in 0..net.desks.len() as u8 {
                    net.desk(worker).ahead += micros;
                    net.desk(worker).turn_at = None;
                    let now = net.agenda.now();
                    net.wake(worker, now);
                }
            }
            What::FewBuffers { worker } => net.desk(self.of_the_crew(worker)).buffers_max = 2,
            What::NoDescriptors => net.descriptors_max = net.descriptors,
            What::TinyPieces { worker, bytes } => net.desk(self.of_the_crew(worker)).piece_max = bytes,
            What::NoNames => self.thread.are_names_known = false,
            // See `begin_order`.
            What::Show
            | What::Reload { .. }
            | What::Order(_)
            | What::Secrets { .. }
            | What::AuthType { .. }
            | What::Trouble(_) => {}
            What::SlowServers { factor } => {
                for host in &mut self.postgres.hosts {
                    host.manner.work.1 = self.plan.manner.work.1 * factor;
                }
            }
        }
    }

    /// The place of a worker of the process that serves.
    fn of_the_crew(&self, worker: u8) -> u8 {
        self.crew.start + worker % self.crew.len() as u8
    }

    fn begin_order(&mut self, what: &What) {
        match what {
            What::Order(Command::Pause(whose)) => self.command(about("PAUSE", whose)),
            What::Order(Command::Kill(name)) => self.command(format!("KILL {name}")),
            What::Order(Command::Disable(name)) => self.command(format!("DISABLE {name}")),
            What::Order(Command::Reconnect(whose)) => {
                self.command(about("RECONNECT", whose));
                self.command(about("WAIT_CLOSE", whose));
            }
            What::Order(Command::Suspend) => self.command("SUSPEND".to_owned()),
            What::Order(Command::Handover { dice, succeeds }) => self.begin_handover(*dice, *succeeds),
            What::Order(Command::KillClient(id)) => self.seek_client(*id),
            What::Secrets { dice } => self.change_secrets(Some(*dice)),
            What::Trouble(trouble) => self.begin_trouble(trouble),
            What::Reload { dice } => {
                let mut dice = Dice::new(*dice, 1);
                let mut shape = self.plan.shape.redrawn(&mut dice);
                shape.redraw_peers(&self.plan.group, &mut dice);
                self.reload(&shape);
            }
            What::AuthType { to } => {
                let mut shape = self.plan.shape.clone();
                shape.set("auth_type", to);
                self.reload(&shape);
            }
            _ => {}
        }
        self.send_mail();
    }

    fn end_order(&mut self, what: &What) {
        match what {
            What::Order(Command::Pause(whose)) => self.command(about("RESUME", whose)),
            What::Order(Command::Kill(name)) => self.command(format!("RESUME {name}")),
            What::Order(Command::Disable(name)) => self.command(format!("ENABLE {name}")),
            What::Order(Command::Suspend) if self.operator.is_suspended => self.command("RESUME".to_owned()),
            What::Order(Command::Handover { dice, .. }) => self.end_handover(*dice),
            What::Secrets { .. } => self.change_secrets(None),
            What::Trouble(trouble) => self.end_trouble(trouble),
            What::AuthType { .. } => self.reload(&self.plan.shape.clone()),
            _ => {}
        }
        self.send_mail();
    }

    /// A fault ends.
    pub(crate) fn end_fault(&mut self, what: &What) {
        self.end_order(what);
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        match *what {
            What::Mood { host, .. } => self.postgres.hosts[host].mood = Mood::Well,
            What::FewBuffers { .. } => net.desks.iter_mut().for_each(|desk| desk.buffers_max = self.plan.buffers),
            What::NoDescriptors => net.descriptors_max = usize::MAX,
            What::TinyPieces { .. } => net.desks.iter_mut().for_each(|desk| desk.piece_max = BUFFER_BYTES),
            What::NoNames => self.thread.are_names_known = true,
            What::SlowServers { .. } => {
                for host in &mut self.postgres.hosts {
                    host.manner.work = self.plan.manner.work;
                }
            }
            _ => {}
        }
    }
}

impl Plan {
    /// What goes wrong in it.
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

    /// Some live through online restarts.
    fn draw_restarts(&mut self) {
        let mut dice = Dice::new(self.seed, RESTARTS_STREAM);
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
}

/// The stream of chance for online restarts.
const RESTARTS_STREAM: u64 = u64::MAX - 1;

/// A command about a database, or all.
fn about(command: &str, whose: &Whose) -> String {
    match whose {
        Some(name) => format!("{command} {name}"),
        None => command.to_owned(),
    }
}

fn pick(several: &[u32], which: u64) -> Option<u32> {
    several.get((which % several.len().max(1) as u64) as usize).copied()
}
