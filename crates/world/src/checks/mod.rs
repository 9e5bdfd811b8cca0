//! The checks of a world from outside: of applications, servers, log and counters, never of a worker's inside.
//!
//! Always true: each single check is enough to accuse.
//! Not here: what applications (1, 11) and sessions (2, 3, 11) notice themselves (`app::answers`, `session`).

pub(crate) mod archive;
pub(crate) mod board;
pub(crate) mod checkers;
pub(crate) mod counters;
mod doubts;
pub(crate) mod evictions;
pub(crate) mod fairness;
mod idle_check;
mod limit_check;
mod orders;
mod overdue;
mod phases;
pub(crate) mod secrets;
mod shutdown;
mod spans;
pub(crate) mod witness;

use std::collections::HashMap;
use std::time::Duration;

use base::Time;
use worker::letters::{Snapshot, Verified};

use crate::app::Stage;
use crate::checks::checkers::{ACQUAINTED, FORGOTTEN};
use crate::checks::witness::Charge;
use crate::postgres::Limits;
use crate::state::World;

impl World {
    /// Runs after every event.
    pub(crate) fn check(&mut self) {
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        for worker_io in net.worker_ios.iter_mut().filter(|worker_io| !worker_io.log.is_empty()) {
            for (level, line) in worker_io.log.drain(..) {
                self.checkers.read_log(level, &line, &mut self.witness);
            }
        }
        self.check_log_of_kills();
        self.check_history();
        self.checkers.counters.heed_forgotten(&self.apps, &self.own_clients, &mut self.witness);
        for hit in self.postgres.hits.drain(..) {
            self.witness.count("cancels that hit");
            match hit.what {
                Ok(nonce) => {
                    let app = &self.apps[nonce.app as usize];
                    let is_later = app.went_on.is_some_and(|(first, at)| nonce.number >= first && hit.requested < at);
                    if is_later {
                        let text = format!("{nonce} is cancelled by a request that was on its way before it was asked");
                        self.witness.accuse(Charge::StrayCancel, text);
                    }
                    let (from, to) = app.cancel_range;
                    let is_asked = (from..=to).contains(&nonce.number);
                    let is_left = !matches!(app.stage, Stage::Ready)
                        || app.end.is_none_or(|end| net.end(end ^ 1).is_closed)
                        || app.asked.iter().all(|request| request.nonce.number > nonce.number)
                        || app.has_left_by_itself;
                    if !is_asked && !is_left {
                        let text = format!("{nonce} is cancelled, and application {} did not ask for it", nonce.app);
                        self.witness.accuse(Charge::StrayCancel, text);
                    }
                }
                // The client left its server in the middle of the pooler's own statement, and the server is cleaned up.
                Err(own) if self.own_clients.has_left(net, &own, hit.requested) => {
                    self.witness.count("cancels of who listens")
                }
                // A state probe was sent in one packet with a request that the client has cancelled. The probe is
                // repeated.
                Err(own) if own.starts_with(QUESTION) => self.witness.count("questions cancelled"),
                Err(own) => {
                    self.witness.accuse(Charge::StrayCancel, format!("the pooler's own {own:?} is cancelled"));
                }
            }
        }
        let guests = std::mem::take(&mut self.witness.guests);
        let is_alone = !self.is_another_closing();
        let reach = if self.archive.are_workers_slow { FORGOTTEN } else { HEARD };
        for app in guests.into_iter().filter(|_| is_alone) {
            limit_check::check(app, reach, &self.apps, net, &self.checkers, &mut self.witness);
        }
        if self.postgres.newcomers.is_empty() {
            return;
        }
        if self.is_another_closing() {
            // The old process and the new one count separately.
            self.postgres.newcomers.clear();
            return;
        }
        let newcomers = self.postgres.newcomers.clone();
        self.check_pauses(net, &newcomers);
        let checkers = &self.checkers;
        let now = self.witness.now;
        let own_clients = &self.own_clients;
        let lately = Time(now.0.saturating_sub(reach.as_micros() as u64));
        let limits = |database: &str, user: &str| Limits {
            beside: u32::from(own_clients.is_beside(database, user, lately)),
            // The workers of the new process have not told each other yet how many servers of a user each of them was
            // given.
            user: if now.since(checkers.restarted) < ACQUAINTED { 0 } else { checkers.limits(database, user).user },
            ..checkers.limits(database, user)
        };
        self.postgres.check_limits(net, limits, &mut self.witness);
    }

    pub(crate) fn look_at_memory(&mut self) {
        let net = self.net.borrow();
        for (worker, worker_io) in net.worker_ios.iter().enumerate() {
            if worker_io.backlog_most > BACKLOG_MAX {
                let text = format!("worker {worker} had {} bytes in one queue", worker_io.backlog_most);
                self.witness.accuse(Charge::Memory, text);
            }
        }
    }

    /// Checks a snapshot taken at any time: each client's link names a server whose link names the client.
    pub(crate) fn check_shown(&mut self, worker: u8, snapshot: &Snapshot) {
        self.witness.count("snapshots");
        let servers: HashMap<u64, Option<u64>> = snapshot.servers.iter().map(|row| (row.id, row.link)).collect();
        let clients: HashMap<u64, Option<u64>> = snapshot.clients.iter().map(|row| (row.id, row.link)).collect();
        for (here, there, who) in [(&clients, &servers, "client"), (&servers, &clients, "server")] {
            for (&id, link) in here {
                // Queries of the control thread appear as clients that no snapshot lists.
                if link.is_some_and(|link| link != OWN_QUESTION && there.get(&link) != Some(&Some(id))) {
                    let text = format!("worker {worker} shows {who} {id} with {link:?}, who is without it");
                    self.witness.accuse(Charge::Counters, text);
                }
            }
        }
        self.check_peer_rows(worker, &snapshot.peers);
        for pool in &snapshot.pools {
            let there = snapshot.servers.iter().filter(|row| row.database == pool.database && row.user == pool.user);
            let states =
                [pool.sv_active, pool.sv_being_canceled, pool.sv_idle, pool.sv_used, pool.sv_tested, pool.sv_login];
            let (rows, sum) = (there.count() as u32, states.iter().sum::<u32>());
            if rows != sum {
                self.witness.accuse(Charge::Counters, format!("worker {worker} shows {rows} servers of {pool:?}"));
            }
        }
    }

    /// Checks a snapshot taken when no application is connected: everything must be counted as zero.
    pub(crate) fn check_rest(&mut self, worker: u8, snapshot: &Snapshot) {
        let mut accuse = |text: String| {
            self.witness.accuse(Charge::Slots, format!("worker {worker} at rest: {text}"));
        };
        if !snapshot.clients.is_empty() || snapshot.login_clients > 0 {
            accuse(format!("{} clients and {} that log in", snapshot.clients.len(), snapshot.login_clients));
        }
        for pool in &snapshot.pools {
            let busy = pool.cl_active + pool.cl_waiting + pool.cl_active_cancel_req + pool.sv_active;
            let unclean = pool.sv_being_canceled + pool.sv_tested + pool.sv_login;
            if busy + unclean > 0 {
                accuse(format!("{pool:?}"));
            }
        }
        for peer in snapshot.peers.iter().filter(|peer| peer.active + peer.waiting + peer.dialing > 0) {
            accuse(format!("{peer:?}"));
        }
        for user in snapshot.users.iter().filter(|user| user.clients > 0) {
            accuse(format!("{} clients of {}", user.clients, user.name));
        }
        for database in snapshot.databases.iter().filter(|database| database.clients > 0) {
            accuse(format!("{} clients of {}", database.clients, database.name));
        }
        if snapshot.protocol_violations > 0 && !self.checkers.is_mad {
            self.witness.accuse(Charge::NoReason, format!("{} protocol violations", snapshot.protocol_violations));
        }
        let Verified { sessions, mistaken } = snapshot.verified;
        *self.witness.tally.entry("sessions verified").or_default() += sessions;
        if mistaken > 0 && !self.checkers.is_mad {
            let text = format!("{mistaken} of {sessions} sessions were not what was known of them");
            self.witness.accuse(Charge::LeftOver, text);
        }
    }

    pub(crate) fn check_buffers(&mut self) {
        let net = self.net.borrow();
        let worker_io = &net.worker_ios[0];
        if worker_io.buffers.free() != worker_io.buffers.count() {
            let lost = worker_io.buffers.count() - worker_io.buffers.free();
            self.witness.accuse(Charge::Memory, format!("{lost} receive buffers are not at home"));
        }
    }
}

/// The beginning of the state probe.
const QUESTION: &str = "/* trunkline: what this session keeps */";
/// The client number of every query of the control thread.
const OWN_QUESTION: u64 = 0;
/// The largest number of bytes that one connection may have queued, with room to spare.
const BACKLOG_MAX: usize = 1 << 18;
/// How long a new configuration may take to reach a worker that is never held up.
const HEARD: Duration = Duration::from_millis(50);
