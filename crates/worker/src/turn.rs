//! The main loop of a worker: wait, apply, settle, flush.
//!
//! Always true: the clock is read once a turn, and everything in that turn uses this time; what a machine wants done is
//! queued and carried out after the event that caused it, except where a loan ends and the next one begins at once
//! (`data::end_at_once`); log lines are handed over before the answers that they explain are flushed.
//! Not here: what an event means to a client (`data::hear`, `admission`), to a server (`data::converse`, `upstream`) or
//! to a pool (crate `pool`); how the commands of the pools are carried out (`settle`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use base::{Key, Time, WorkerId, earliest};
use measure::Failures;
use pool::{Event, Pools};
use protocol::loan::Texts;
use protocol::prepared::StatementRegistry;
use protocol::vars::Known;
use reactor::{Accepting, Chunk, Completion, Io, Level};

use crate::admin::Admin;
use crate::admin::suspend::Kept;
use crate::admission::remembered::RememberedSecrets;
use crate::beside::Beside;
use crate::cancel::Cancels;
use crate::data::affinity::AffinityHolds;
use crate::data::client::{ClientStage, Clients, Link};
use crate::data::pace::Paced;
use crate::hands::Hands;
use crate::letters::{ActiveConfig, Inquirer, Posts, Shutdown, ToWorker, Verified};
use crate::limits::Limits;
use crate::measured::Applications;
use crate::notify::Notify;
use crate::observe::sampled::Sampler;
use crate::observe::spans::Spans;
use crate::observe::tracers::Tracers;
use crate::reads::Reads;
use crate::recent_load::RecentLoad;
use crate::registry::Registry;
use crate::reports::Reports;
use crate::stopwatch::{Stopwatch, Work};
use crate::upstream::host_names::HostNames;
use crate::upstream::observed_hosts::ObservedHosts;
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Creates a worker without clients. `seed` makes the jitter of its dials differ from other workers'.
    pub fn new(
        id: WorkerId,
        io: I,
        inbox: Receiver<ToWorker<I::Socket>>,
        posts: Posts<I::Socket>,
        active: Arc<ActiveConfig>,
        seed: u64,
    ) -> Self {
        let now = io.now();
        let workers = posts.workers.len() as u8;
        let (sampler, spans) = (Sampler::new(active.settings.track_statements), Spans::new(&active.settings));
        let mut worker = Self {
            hands: Hands::new(id, io, posts, active),
            inbox,
            post: VecDeque::new(),
            clients: Clients::with_capacity(CONNECTIONS_MAX),
            servers: Beside::default(),
            cancel: Cancels::default(),
            pools: Pools::new(seed),
            registry: Registry::default(),
            names: HostNames::default(),
            remembered: RememberedSecrets::default(),
            limits: Limits::new(id, workers),
            commands_spare: Vec::new(),
            paced: Paced::default(),
            affinity_holds: AffinityHolds::default(),
            notify: Notify::default(),
            reads: Reads::default(),
            reports: Reports::default(),
            tracers: Tracers::default(),
            known_vars: Known::default(),
            statement_registry: StatementRegistry::new(u64::from(id.0) + 1, u64::from(workers)),
            texts: Texts::default(),
            protocol_violations: 0,
            failures: Failures::default(),
            hosts: ObservedHosts::default(),
            verified: Verified::default(),
            admin: Admin::default(),
            stopwatch: Stopwatch::default(),
            applications: Applications::default(),
            sampler,
            spans,
            begun: now,
            recent_load: RecentLoad::default(),
        };
        worker.hands.io.accept(Accepting::All);
        worker.statement_registry.limit_all(worker.hands.posts.held_bytes_max);
        worker.apply_limits();
        worker.renew_rates();
        worker.open_forced_pools();
        worker
    }

    /// Runs turns until the worker is told to shut down.
    pub fn run(mut self) {
        let mut done = Vec::new();
        while !self.is_over() {
            self.turn(&mut done);
        }
        if self.admin.is_handed_over() {
            // Time to send the last messages to the clients that were not handed over.
            for _ in 0..LAST_TURNS {
                let soon = self.hands.io.now() + LAST_TURN;
                self.hands.io.turn(Some(soon), &mut done);
                done.clear();
            }
        }
    }

    /// Starts suspended until [`ToWorker::WakeUp`], because the clients of the previous process are still to be imported.
    #[must_use]
    pub fn asleep(mut self) -> Self {
        self.suspend(false);
        self
    }

    /// Whether the worker has shut down or was handed over; then it has no further turns.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.admin.is_over()
    }

    /// The time of the next turn if no completion arrives before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if !self.post.is_empty() || self.paced.is_any_waiting() {
            return Some(self.hands.now);
        }
        if self.tracers.is_any_spreading() || self.admin.has_questions() {
            return Some(self.hands.now);
        }
        if let Some(deadline) = self.admin.rest_deadline() {
            return deadline;
        }
        if let Some(now) = self.notify.backlog_deadline(self.hands.now) {
            return Some(now);
        }
        earliest([
            self.pools.next_deadline(),
            self.hands.timers.next_deadline(),
            self.affinity_holds.next_deadline(),
            self.notify.next_alarm(),
        ])
    }

    /// Runs one turn.
    pub fn turn(&mut self, done: &mut Vec<Completion<I::Socket>>) {
        let until = self.next_deadline();
        if self.paced.is_any_waiting() {
            self.receive_from_paced();
        }
        self.hands.io.turn(until, done);
        self.hands.now = self.hands.io.now();
        self.stopwatch.begin(self.hands.now, self.hands.io.ticks());
        let alive = self.hands.now.since(self.begun);
        if self.recent_load.is_due(alive) {
            self.recent_load.note(self.hands.io.awake(), alive);
        }
        self.notify.begin_turn();
        let has_post = !self.post.is_empty() || done.iter().any(|completion| matches!(completion, Completion::Woken));
        if has_post && !self.admin.is_resting() {
            self.apply_new_configurations();
        }
        for completion in done.drain(..).filter(|completion| !matches!(completion, Completion::Woken)) {
            let completion = if self.admin.is_resting() { self.keep(completion) } else { Some(completion) };
            if let Some(completion) = completion {
                let work = completion.owner().map_or(Work::Accept, Work::Connection);
                self.apply(completion);
                self.settle();
                self.stopwatch.lap(self.hands.io.ticks(), work);
            }
        }
        // Letters are read after the completions: a client that sent something in the turn of both SUSPEND and RESUME
        // would be asked for bytes twice.
        if has_post {
            self.read_letters();
            self.stopwatch.lap(self.hands.io.ticks(), Work::Letters);
        }
        if self.admin.is_resting() {
            self.come_to_rest();
        } else {
            self.expire();
        }
        self.spread_tracers();
        if self.admin.has_questions() {
            self.take_slice();
        }
        debug_assert!(self.hands.tasks.is_empty(), "something that was queued in this turn is not done in it");
        let ticks = self.hands.io.ticks();
        if self.stopwatch.is_slow(ticks) {
            self.stopwatch.lap(ticks, Work::Timers);
            self.slow_turn(ticks);
        }
        if !self.hands.log.is_empty() {
            self.hands.io.write_log(&self.hands.log);
            self.hands.log.clear();
        }
        self.report_drained();
        self.report_obeyed();
    }

    pub(crate) fn apply(&mut self, completion: Completion<I::Socket>) {
        match completion {
            Completion::Received { owner, bytes } => match self.owner(owner) {
                Some(Owner::Client(client)) => self.client_received(client, bytes),
                Some(Owner::Server(server)) => self.server_received(server, bytes),
                Some(Owner::Cancel(cancel)) => self.cancel.answered(cancel, bytes.bytes(), &mut self.hands),
                // Another process answers a forwarded cancel request only by closing the connection.
                Some(Owner::Forward(_)) | None => {}
            },
            Completion::Secured { owner, security } => match self.owner(owner) {
                Some(Owner::Client(client)) => self.client_secured(client, security),
                Some(Owner::Server(server)) => self.server_secured(server, security),
                Some(Owner::Cancel(cancel)) => {
                    self.count_handshake(measure::HandshakePeer::Server, &security);
                    self.send_cancel(cancel);
                }
                Some(Owner::Forward(_)) | None => {}
            },
            Completion::Ended { owner, end } => match self.owner(owner) {
                Some(Owner::Client(client)) => self.client_ended(client, &end),
                Some(Owner::Server(server)) => self.server_ended(server, &end),
                Some(Owner::Cancel(cancel)) => self.cancel.ended(cancel, &end, &mut self.hands),
                Some(Owner::Forward(forward)) => self.cancel.forward_ended(forward, &mut self.hands, &mut self.names),
                None => {}
            },
            Completion::Drained { owner } => match self.owner(owner) {
                Some(Owner::Client(client)) => self.client_drained(client),
                Some(Owner::Server(server)) => self.server_drained(server),
                Some(Owner::Cancel(_) | Owner::Forward(_)) | None => {}
            },
            Completion::Connected { owner } => match self.owner(owner) {
                Some(Owner::Server(server)) => self.server_connected(server),
                Some(Owner::Cancel(cancel)) => self.cancel_connected(cancel),
                Some(Owner::Forward(forward)) => self.cancel.forward_connected(forward, &mut self.hands),
                Some(Owner::Client(_)) | None => {}
            },
            Completion::ConnectFailed { owner, error } => match self.owner(owner) {
                Some(Owner::Server(server)) => self.connect_failed(server, &error),
                Some(Owner::Cancel(cancel)) => self.cancel.failed(cancel, &mut self.hands),
                Some(Owner::Forward(forward)) => {
                    self.cancel.forward_failed(forward, &error, &mut self.hands, &mut self.names)
                }
                Some(Owner::Client(_)) | None => {}
            },
            Completion::Accepted { socket, is_last } => self.accepted(socket, is_last),
            Completion::AcceptFailed(error) => {
                self.hands.log.add(Level::Error, format_args!("accept() failed: {error}, resting for 5 seconds"));
            }
            // The letters are read at the end of the turn.
            Completion::Woken => {}
        }
    }

    /// Fires the timers and deadlines that are due.
    fn expire(&mut self) {
        let mut due = Vec::new();
        self.hands.timers.expire(self.hands.now, |timer| due.push(timer));
        // Where a timer stands in the wheel depends on when it was set, which changes nothing else.
        due.sort_unstable();
        for timer in due {
            self.fire(timer);
            self.settle();
        }
        self.end_expired_affinity_holds();
        self.end_patience();
        self.work_off();
        if self.pools.next_deadline().is_some_and(|deadline| deadline <= self.hands.now) {
            self.tell_pools(Event::Tick);
            self.settle();
        }
    }

    /// Applies new configurations before the completions of this turn: once an operator was told that a RELOAD is done,
    /// everything follows it.
    fn apply_new_configurations(&mut self) {
        while let Ok(letter) = self.inbox.try_recv() {
            match letter {
                ToWorker::ActiveConfig(active) => {
                    self.come_into_force(active);
                    self.settle();
                }
                other => self.post.push_back(other),
            }
        }
    }

    fn read_letters(&mut self) {
        // Orders must not meet servers that are held for their last clients.
        self.end_all_affinity_holds();
        let mut count = 0;
        while let Some(letter) = self.post.pop_front().or_else(|| self.inbox.try_recv().ok()) {
            // A worker that is being suspended reads all letters, to keep them.
            if count == LETTERS_MAX && !self.admin.is_resting() {
                self.post.push_front(letter);
                return;
            }
            count += 1;
            if let Some(letter) = self.admin.keep_letter(letter) {
                self.hear_letter(letter);
                self.settle();
            }
        }
    }

    /// Resumes a suspended worker and handles the completions and letters that were kept meanwhile.
    fn go_on(&mut self) {
        let Some(Kept { completions, letters }) = self.wake_up() else { return };
        for completion in completions {
            self.apply(completion);
            self.settle();
        }
        self.hear_everybody();
        for letter in letters {
            self.hear_letter(letter);
            self.settle();
        }
    }

    /// Handles one letter.
    pub(crate) fn hear_letter(&mut self, letter: ToWorker<I::Socket>) {
        match letter {
            ToWorker::Own(socket) => self.receive_own(socket, false),
            ToWorker::Listener(socket) => self.receive_own(socket, true),
            ToWorker::Heard { database, channel, number } => self.heard(&database, channel, number),
            ToWorker::Unheard { database, channels, error } => self.unheard(&database, channels, &error),
            ToWorker::ListenerLost { database } => self.listener_lost(&database),
            ToWorker::LocksDiffer(found) => self.locks_differ(found),
            ToWorker::ClaimProgress(progress) => self.follow_claim(&progress),
            ToWorker::FunctionsMade(made) => self.hear_of_functions(&made),
            ToWorker::Client(greeted_client) => self.receive_greeted_client(*greeted_client),
            ToWorker::Cancel(wish) => self.cancel(wish),
            ToWorker::PassOn { peer, wish } => self.cancel.pass_on(peer, wish, &mut self.hands, &mut self.names),
            ToWorker::CancelOver(client) => self.drop_client(client, "cancel request"),
            ToWorker::Ledger { from, letter } => self.limits.ledger_hears(from, letter, &self.hands),
            ToWorker::WorkerQuota(answer) => self.worker_quota_hears(answer),
            ToWorker::ActiveConfig(active) => self.come_into_force(active),
            ToWorker::Resolved { name, found } => self.resolved(&name, found),
            ToWorker::Replayed { cluster, replicas } => self.reads.have_replayed(cluster, replicas),
            ToWorker::ReadNames { database, creations, names } => self.names_are_known(&database, creations, names),
            ToWorker::LeaveReplica { cluster, host } => self.leave_replica(&cluster, &host),
            ToWorker::ReplicaIsBack { cluster, host } => self.replica_is_back(&cluster, &host),
            ToWorker::TryHosts(cluster) => self.primary_is_back(&cluster),
            ToWorker::AuthQueryAnswer { inquirer: Inquirer::Client(client), answer } => {
                self.auth_query_answered(client, answer)
            }
            ToWorker::AuthQueryAnswer { inquirer: Inquirer::Pool(pool), answer } => {
                self.auth_query_answered_for_pool(pool, answer)
            }
            ToWorker::Judged { client, verdict } => self.judged(client, verdict),
            ToWorker::Hashed { asker, hashed } => self.hashed(asker, hashed),
            ToWorker::SystemUser { client, found } => self.system_user(client, found),
            ToWorker::Show { question, what } => self.admin.ask(question, what),
            ToWorker::ConsoleAnswer { client, bytes, closes } => self.console_answers(client, bytes, closes),
            ToWorker::ConsolePart { client, bytes } => self.console_is_told(client, bytes),
            ToWorker::Order { question, order } => self.obey(question, order),
            ToWorker::ForgetOrder { question } => self.forget_order(question),
            ToWorker::Pack { from, out } => drop(out.send(self.pack(from))),
            ToWorker::KeyGone(key) => self.cancel.retire_moved(&key),
            ToWorker::Arrive(imports) => self.arrive(*imports),
            ToWorker::HandedOver => self.part_from_the_rest(),
            ToWorker::WakeUp => self.go_on(),
            ToWorker::Shutdown(way) => {
                self.begin_to_go_down(way);
                if way != Shutdown::Now {
                    self.go_on();
                    self.go_down(way);
                }
            }
            ToWorker::Displaced(client) => self.displaced(client),
            ToWorker::StopLending { secs } => self.stop_lending(secs),
            ToWorker::EndClients { secs } => self.end_clients(secs),
        }
    }

    /// Bytes have arrived from a client.
    pub(crate) fn client_received(&mut self, key: Key, chunk: Chunk) {
        let Some(client) = self.clients.get_mut(key) else { return };
        client.last_received = self.hands.now;
        match &mut client.stage {
            ClientStage::Ready(ready) => {
                if let Some(pool) = self.registry.pool(ready.pool()) {
                    let database = pool.database as usize;
                    self.registry.database_at_mut(database as u32).totals.received += chunk.len() as u64;
                }
                let bytes = chunk.len();
                let is_to_be_paced = ready.pace().is_touched_by(bytes);
                self.hear(key, chunk);
                if is_to_be_paced {
                    self.pace(key, bytes);
                }
            }
            ClientStage::Greeting(_) => self.greeted(key, chunk.bytes()),
            ClientStage::Cancelling(_) => {}
            ClientStage::Login(_) => self.login_received(key, chunk.bytes()),
            ClientStage::Console(_) => self.console_received(key, chunk.bytes()),
        }
    }

    /// Everything that was queued for a client has been sent.
    pub(crate) fn client_drained(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        let ready = match &client.stage {
            ClientStage::Ready(ready) => ready,
            ClientStage::Login(_) => {
                self.depart(key);
                return;
            }
            ClientStage::Console(_) => {
                self.console_drained(key);
                return;
            }
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) => return,
        };
        let (link, listens) = (ready.link(), ready.session().subscriptions.is_some());
        let database = self.registry.pool(ready.pool()).map(|place| place.database);
        if listens {
            self.tell_news(key);
        }
        database.into_iter().for_each(|database| self.slow_client_drained(database, key));
        match link {
            Link::Loan(server) => self.resume_server(server),
            Link::None => {
                self.resume_client(key);
                // Requests that the client sent meanwhile.
                self.forward_held(key);
            }
            Link::Waiting(_) | Link::AsksReplica(_) | Link::Delayed(_) => {}
        }
    }
}

/// How long a handed-over worker waits for its last messages to be sent: the length of one wait, and the number of waits.
const LAST_TURN: std::time::Duration = std::time::Duration::from_millis(10);
const LAST_TURNS: usize = 3;
/// More clients than any kernel has descriptors for; `max_client_conn` is the limit that matters.
const CONNECTIONS_MAX: u32 = 1 << 20;
/// At most this many letters are read in one turn, so that their senders cannot keep the worker from its connections.
const LETTERS_MAX: usize = 256;
