//! The faults of a world, beside the behaviour of its applications.
//!
//! Always true: a fault ends by itself, and all have ended when the world heals.
//! Not here: which faults a seed draws (`plan`).

mod askers;
mod command;
pub(crate) mod evict;
pub(crate) mod operator;
pub(crate) mod peers;
pub(crate) mod troubles;

use reactor::BUFFER_BYTES;
use worker::letters::{ToWorker, Whose};

use crate::checks::checkers::{CONNECTIONS, EVERYTHING, LINKS, LOOKS};
use crate::plan::fault::{Command, What};
use crate::postgres::manner::Mood;
use crate::sim::dice::Dice;
use crate::state::World;

impl World {
    /// Begins a fault.
    pub(crate) fn begin_fault(&mut self, what: &What) {
        self.witness.note(|| format!("FAULT {what:?}"));
        if let What::Show = what {
            self.order(|| ToWorker::Show { question: LINKS, what: CONNECTIONS });
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
                    // Something between the two ends cuts the connection: both see a reset.
                    net.cut(end);
                }
            }
            What::Stall { worker, micros } => {
                let worker = self.serving_worker(worker);
                let until = base::Time(net.agenda.now().0 + micros);
                net.worker_io(worker).busy_until = until;
            }
            What::Jump { micros } => {
                self.jumped = net.agenda.now();
                for worker in 0..net.worker_ios.len() as u8 {
                    net.worker_io(worker).ahead += micros;
                    net.worker_io(worker).turn_at = None;
                    let now = net.agenda.now();
                    net.wake(worker, now);
                }
            }
            What::FewBuffers { worker } => net.worker_io(self.serving_worker(worker)).buffers_max = 2,
            What::NoDescriptors => net.descriptors_max = net.descriptors,
            What::TinyPieces { worker, bytes } => net.worker_io(self.serving_worker(worker)).piece_max = bytes,
            What::NoNames => self.thread.are_names_known = false,
            // See `begin_order`.
            What::Show
            | What::Reload { .. }
            | What::Order(_)
            | What::Secrets { .. }
            | What::AuthType { .. }
            | What::Trouble(_)
            | What::Cluster(_) => {}
            What::SlowServers { factor } => {
                for host in &mut self.postgres.hosts {
                    host.manner.work.1 = self.plan.manner.work.1 * factor;
                }
            }
        }
    }

    /// Maps the number of a worker to a worker of the current process.
    fn serving_worker(&self, worker: u8) -> u8 {
        self.serving_workers.start + worker % self.serving_workers.len() as u8
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

    /// Ends a fault.
    pub(crate) fn end_fault(&mut self, what: &What) {
        self.end_order(what);
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        match *what {
            What::Mood { host, .. } => self.postgres.hosts[host].mood = Mood::Well,
            What::FewBuffers { .. } => {
                net.worker_ios.iter_mut().for_each(|worker_io| worker_io.buffers_max = self.plan.buffers)
            }
            What::NoDescriptors => net.descriptors_max = usize::MAX,
            What::TinyPieces { .. } => {
                net.worker_ios.iter_mut().for_each(|worker_io| worker_io.piece_max = BUFFER_BYTES)
            }
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

/// A command for one database, or for all.
fn about(command: &str, whose: &Whose) -> String {
    match whose {
        Some(name) => format!("{command} {name}"),
        None => command.to_owned(),
    }
}

fn pick(several: &[u32], which: u64) -> Option<u32> {
    several.get((which % several.len().max(1) as u64) as usize).copied()
}
