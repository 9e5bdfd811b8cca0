//! Carries out the orders of admins: the control thread itself does, or the workers do and control waits for all of
//! them.
//!
//! Always true: every order is answered once, when it has been carried out; when a client cancels an order that still
//! waits, what the order changed is undone.
//! Not here: the text of orders (`console::act`), how a worker carries out an order (`worker::admin::orders`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use auth::{Hba, IdentMaps};
use base::WorkerId;
use config::Settings;
use pool::ClientKey;
use reactor::Level;
use worker::letters::{
    ActiveConfig, Commander, Order as Task, Parts, Shutdown, Snapshot, Standing, TlsTerms, ToWorker, Traced, Whose,
};

use crate::CONSOLE;
use crate::console::{self, Answer, Order, Pause, Refusal, Trace};
use crate::control::{Control, Purpose, TaskPurpose};
use crate::events::{EventKind, EventRecord};
use crate::pending_orders::{ConsoleClient, Obeyed};
use crate::reload::Fresh;
use crate::tracing::Step;

impl<S> Control<S> {
    /// Carries out an order, or refuses it.
    pub(crate) fn obey(&mut self, asker: ConsoleClient, by: &Commander, order: Order) {
        let refused = self.try_to_obey(asker, by, order.clone()).err();
        self.was_ordered(by, &order, refused.as_ref());
        if let Some(refusal) = refused {
            self.refuse_order(asker, by, refusal);
        }
    }

    fn try_to_obey(&mut self, asker: ConsoleClient, by: &Commander, order: Order) -> Result<(), Refusal> {
        let ends_handover = matches!(order, Order::Shutdown(Shutdown::Now) | Order::Resume(None));
        if self.handovers.is_open() && !ends_handover {
            return Err(Refusal::new("an online restart is in progress"));
        }
        let is_mode_checked = matches!(
            order,
            Order::Pause(_) | Order::Kill(_) | Order::Suspend | Order::Hold(_) | Order::Switchover { .. }
        );
        if is_mode_checked && (self.hands.active.standing.is_all_paused() || self.is_suspended) {
            return Err(Refusal::new("already suspended/paused"));
        }
        if matches!(order, Order::Suspend | Order::Takeover(_)) && self.holds_somebody() {
            let hint = "SHOW CLUSTERS shows switchovers; RELEASE <db> ends a hold.";
            return Err(Refusal::new("cannot suspend while clients are held").hinted(hint));
        }
        self.hands.log_about(&by.about, Level::Log, format_args!("{order} command issued"));
        self.carry_out(asker, order)
    }

    fn carry_out(&mut self, asker: ConsoleClient, order: Order) -> Result<(), Refusal> {
        match order {
            Order::Reload => match self.reload() {
                Ok(kept) if kept.is_empty() => self.done(asker, &order),
                Ok(kept) => {
                    let text = format!("changed by a restart only, and staying as they are: {}", kept.join(", "));
                    self.answer(asker, Answer::noted(order.verb(), text));
                }
                Err(lines) => return Err(Refusal::reload_failed(&lines)),
            },
            // As in PgBouncer, the client sees its connection close and gets no other answer.
            Order::Shutdown(Shutdown::Now) => self.go_down(Shutdown::Now),
            // SHUTDOWN WAIT_FOR_SERVERS has paused all pools for good, so their clients cannot be served any more.
            Order::Shutdown(Shutdown::WaitForClients) if self.shutdown.way() == Some(Shutdown::WaitForServers) => {
                return Err(Refusal::new("pooler is shutting down"));
            }
            Order::Shutdown(way) => {
                if self.is_suspended {
                    self.wake_up("SHUTDOWN");
                }
                // The answer goes first: a worker with nothing else to wait for might end before sending it.
                self.done(asker, &order);
                self.go_down(way);
            }
            Order::Set { ref key, ref value } => self.set(asker, key, value)?,
            Order::Pause(ref pause) => {
                self.find(&pause.whose, "pause")?;
                self.timed_pauses.begins(self.hands.now.time, &pause.whose, pause.seconds);
                self.change_standing(|standing| standing.pause(&pause.whose));
                self.command(asker, Task::AwaitUnused(pause.whose.clone()), order);
            }
            Order::Suspend => {
                self.suspend()?;
                self.command(asker, Task::Suspend { is_handover: false }, order);
            }
            Order::Takeover(version) => {
                self.begin_handover(version)?;
                self.done(asker, &order);
            }
            Order::Resume(ref whose) => {
                self.resume(whose)?;
                self.done(asker, &order);
            }
            Order::Hold(ref hold) => {
                self.find(&Some(Arc::clone(&hold.name)), "hold")?;
                self.hold(asker, hold);
            }
            Order::Release(ref name) => {
                self.release(name)?;
                self.done(asker, &order);
            }
            Order::Switchover { cluster, to } => self.begin_switchover(asker, cluster.as_deref(), to)?,
            Order::Reconnect(ref whose) => {
                self.find(whose, "reconnect")?;
                self.command(asker, Task::Reconnect(whose.clone()), order);
            }
            Order::WaitClose(ref whose) => {
                self.find(whose, "wait in")?;
                self.command(asker, Task::AwaitRenewed(whose.clone()), order);
            }
            // The databases to be paused are those that have a pool on any worker.
            Order::Kill(None) => self.surveys.ask(Parts { pools: true, ..Parts::default() }, Purpose::Kill(asker)),
            Order::Kill(Some(ref name)) => {
                self.find(&Some(Arc::clone(name)), "kill")?;
                self.timed_pauses.ends(&Some(Arc::clone(name)));
                self.change_standing(|standing| standing.kill(name));
                self.command(asker, Task::Kill(Some(Arc::clone(name))), order);
            }
            Order::KillClient(id) => self.command(asker, Task::KillClient(id), order),
            Order::Trace(trace) => self.begin_trace(asker, trace)?,
            Order::Disable(ref name) => {
                self.find(&Some(Arc::clone(name)), "disable")?;
                self.change_standing(|standing| standing.disable(name));
                self.done(asker, &order);
            }
            Order::Enable(ref name) => {
                self.find(&Some(Arc::clone(name)), "enable")?;
                self.change_standing(|standing| standing.enable(name));
                self.done(asker, &order);
            }
        }
        Ok(())
    }

    /// Checks that the database exists and is not the console.
    fn find(&self, whose: &Whose, verb: &str) -> Result<(), Refusal> {
        match whose.as_deref() {
            None => Ok(()),
            Some(CONSOLE) => Err(Refusal::new(format!("cannot {verb} admin db: {CONSOLE}"))),
            Some(name) if self.hands.active.settings.database(name).is_some() => Ok(()),
            Some(name) => Err(Refusal::new(format!("no such database: {name}"))),
        }
    }

    /// Carries out RESUME for one database, or for everything that was paused as a whole.
    fn resume(&mut self, whose: &Whose) -> Result<(), Refusal> {
        let standing = &self.hands.active.standing;
        match whose {
            None if self.shutdown.way().is_some() => return Err(Refusal::new("pooler is shutting down")),
            None if self.handovers.is_open() => {
                self.call_off_handover("RESUME");
                return Ok(());
            }
            None if self.is_suspended => {
                self.wake_up("RESUME");
                return Ok(());
            }
            None if !standing.is_all_paused() => {
                let refusal = Refusal::new("pooler is not paused/suspended");
                return Err(match paused(standing) {
                    Some(paused) => refusal
                        .hinted(format!("Databases paused by name: {paused}. RESUME <db> ends the pause of one.")),
                    None => refusal,
                });
            }
            None => {}
            Some(name) if standing.paused().contains(name) => {}
            Some(name) if **name == *CONSOLE || self.hands.active.settings.databases.contains_key(name) => {
                return Err(Refusal::new(format!("database {name} is not paused")));
            }
            Some(name) => return Err(Refusal::new(format!("no such database: {name}"))),
        }
        self.unpause(whose, "RESUME");
        Ok(())
    }

    /// Ends a pause; a PAUSE that still waits for completion is answered with an error that names `by`.
    pub(crate) fn unpause(&mut self, whose: &Whose, by: &str) {
        self.timed_pauses.ends(whose);
        self.change_standing(|standing| standing.resume(whose));
        let is_it = |order: &Order| matches!(order, Order::Pause(pause) if pause.whose == *whose);
        self.take_back(&Refusal::canceled(&format!("PAUSE was ended by {by}")), |_, order| is_it(order));
    }

    /// Ends the pauses whose time is over.
    pub(crate) fn end_timed_pauses(&mut self) {
        while let Some((whose, seconds)) = self.timed_pauses.next_over(self.hands.now.time) {
            let pause = Pause { whose, seconds: Some(seconds) };
            let line = format!("the time of {pause} is over, doing {}", Order::Resume(pause.whose.clone()));
            self.hands.log(Level::Log, format_args!("{line}"));
            let database = pause.whose.clone().unwrap_or_default();
            let event = EventRecord::new(self.hands.now.wall, EventKind::Order, &line);
            self.events.add(EventRecord { database, ..event });
            self.unpause(&pause.whose, "its time");
        }
    }

    /// Marks everything as suspended, unless a shutdown or a paused database forbids it.
    fn suspend(&mut self) -> Result<(), Refusal> {
        if self.shutdown.way().is_some() {
            return Err(Refusal::new("pooler is shutting down"));
        }
        if !self.hands.active.standing.paused().is_empty() {
            return Err(suspend_refused(&self.hands.active.standing));
        }
        self.is_suspended = true;
        Ok(())
    }

    /// Wakes all workers; a SUSPEND that still waits for completion is answered with an error that names `by`.
    pub(crate) fn wake_up(&mut self, by: &str) {
        self.is_suspended = false;
        self.hands.post_all(|| ToWorker::WakeUp);
        self.take_back(&Refusal::canceled(&format!("SUSPEND was ended by {by}")), |_, order| *order == Order::Suspend);
    }

    /// The last console client has disconnected.
    pub(crate) fn consoles_gone(&mut self) {
        if self.is_suspended && !self.handovers.is_open() {
            self.tell(EventKind::Order, Level::Log, format_args!("admin disappeared when suspended, doing RESUME"));
            self.wake_up("its end");
        }
    }

    /// Pauses all databases; no client waits for completion.
    pub(crate) fn pause_all(&mut self) {
        self.change_standing(|standing| standing.pause(&None));
    }

    /// Kills the databases of which any worker has a pool, once all workers have reported their pools.
    pub(crate) fn kill_all(&mut self, asker: ConsoleClient, snapshots: &[Snapshot]) {
        let pools = snapshots.iter().flat_map(|snapshot| &snapshot.pools);
        let in_use: BTreeSet<_> =
            pools.map(|pool| &pool.database).filter(|name| ***name != *CONSOLE).cloned().collect();
        in_use.iter().for_each(|name| self.timed_pauses.ends(&Some(Arc::clone(name))));
        self.change_standing(|standing| in_use.iter().for_each(|name| standing.kill(name)));
        self.command(asker, Task::Kill(None), Order::Kill(None));
    }

    fn set(&mut self, asker: ConsoleClient, key: &str, value: &str) -> Result<(), Refusal> {
        // Clients control part of the logged text. An admin who could have it appended to any file would have the
        // rights of the operating system user.
        if key == "logfile" {
            let why = "logfile can be set in the configuration only, since it names a file that is written to";
            return Err(Refusal::set_failed(why.to_owned()));
        }
        let (settings, is_kept) = config::set(&self.hands.active.settings, key, value).map_err(|why| {
            self.hands.log(Level::Error, format_args!("{why}"));
            Refusal::set_failed(why)
        })?;
        let is_about_logins = ["auth_type", "auth_file", "auth_hba_file", "auth_ident_file"].contains(&key);
        let (users, rules) = if is_about_logins {
            let unread = |lines: Vec<String>| Refusal::set_failed_by("a file of users or rules cannot be used", &lines);
            let users = self.configuration.read_users(&settings, &self.hands).map_err(unread)?;
            (users, self.configuration.read_rules(&settings, &self.hands).map_err(unread)?)
        } else {
            let active = &self.hands.active;
            (active.users.clone(), (Hba::clone(&active.hba), IdentMaps::clone(&active.idents)))
        };
        if key == "resolv_conf" {
            let unread = |lines: Vec<String>| Refusal::set_failed_by("the file of name servers cannot be used", &lines);
            self.name_servers = self.configuration.read_name_servers(&settings, &self.hands).map_err(unread)?;
        }
        let (tls, is_tls_new) = self.tls_after(key, &settings);
        self.enforce(Fresh { settings, users, rules, tls });
        let tag = format!("SET {key}={value}");
        let answer = match is_kept {
            _ if !is_tls_new => Answer::noted(tag, "TLS settings could not be applied, still using old configuration"),
            true => Answer::noted(tag, format!("{key} is changed by a restart only, and stays as it is")),
            false => Answer::done(tag),
        };
        self.answer(asker, answer);
        Ok(())
    }

    /// Returns the TLS configuration after a setting was changed, and whether it could be read. Settings that belong
    /// together are set one after the other, so an incomplete set is not an error yet.
    fn tls_after(&self, key: &str, settings: &Settings) -> (TlsTerms, bool) {
        if !key.contains("_tls_") && !key.contains("_tls13_") && key != "auth_type" {
            return (self.hands.active.tls.clone(), true);
        }
        match self.configuration.read_tls(settings, &self.hands) {
            Ok(tls) => (tls, true),
            Err(_) => (self.hands.active.tls.clone(), false),
        }
    }

    pub(crate) fn change_standing(&mut self, change: impl FnOnce(&mut Standing)) {
        let mut active = ActiveConfig::clone(&self.hands.active);
        change(&mut active.standing);
        self.hands.active = Arc::new(active);
        self.hands.post_config();
    }

    /// Gives all workers a task; the client is answered when all of them have carried it out.
    pub(crate) fn command(&mut self, asker: ConsoleClient, task: Task, order: Order) {
        self.give(&task, TaskPurpose::Console(asker, order));
    }

    /// Gives all workers a task.
    pub(crate) fn give(&mut self, task: &Task, purpose: TaskPurpose) {
        let question = self.pending_orders.open(purpose);
        self.hands.post_all(|| ToWorker::Order { question, order: task.clone() });
    }

    /// A worker has carried out a task.
    pub(crate) fn obeyed(&mut self, from: WorkerId, question: u64, is_done: bool) {
        match self.pending_orders.obeyed(from, question, is_done, self.hands.workers()) {
            Some(Obeyed { purpose: TaskPurpose::Console(asker, Order::KillClient(_)), done: 0 }) => {
                self.refuse(asker, Refusal::new("client not found"));
            }
            Some(Obeyed { purpose: TaskPurpose::Console(asker, Order::Trace(_)), done }) => {
                let shows_values = self.hands.active.settings.trace_values;
                let steps = self.tracers.begins(asker, done, shows_values);
                self.go_on_with_traces(steps);
            }
            Some(Obeyed { purpose: TaskPurpose::TraceOver(place), .. }) => self.tracers.leave(place),
            Some(Obeyed { purpose: TaskPurpose::Drain(id), .. }) => self.cluster_happens(&id, cluster::Event::Drained),
            Some(Obeyed { purpose: TaskPurpose::EndLoans, .. }) => {}
            Some(Obeyed { purpose: TaskPurpose::Console(asker, order), .. }) => self.done(asker, &order),
            Some(Obeyed { purpose: TaskPurpose::Shutdown, done }) => self.all_are_drained(done),
            Some(Obeyed { purpose: TaskPurpose::Handover, .. }) => self.stands_still(),
            None => {}
        }
    }

    /// The console client has disconnected, so its orders are forgotten. What it has paused stays paused.
    pub(crate) fn asker_left(&mut self, from: WorkerId, client: ClientKey) {
        self.leave_switchover(from, client, false);
        let steps = self.tracers.forget(ConsoleClient { at: from, client });
        self.go_on_with_traces(steps);
        for (question, _) in self.pending_orders.take_back(|purpose| purpose.is(from, client)) {
            self.hands.post_all(|| ToWorker::ForgetOrder { question });
        }
    }

    /// The console client cancels its order: what it has paused or suspended resumes.
    pub(crate) fn asker_cancels(&mut self, from: WorkerId, client: ClientKey) {
        self.leave_switchover(from, client, true);
        let steps = self.tracers.cancel(ConsoleClient { at: from, client });
        self.go_on_with_traces(steps);
        let taken = self.take_back(&Refusal::canceled("canceling statement due to user request"), |asker, _| {
            asker == ConsoleClient { at: from, client }
        });
        for order in taken {
            match order {
                Order::Pause(pause) => self.unpause(&pause.whose, "RESUME"),
                Order::Hold(hold) => self.end_hold(&hold.name, "RELEASE"),
                Order::Suspend => self.wake_up("RESUME"),
                _ => {}
            }
        }
    }

    /// Withdraws the matching orders and answers their clients with `why`.
    pub(crate) fn take_back(&mut self, why: &Refusal, fits: impl Fn(ConsoleClient, &Order) -> bool) -> Vec<Order> {
        let taken = self.pending_orders.take_back(|purpose| match purpose {
            TaskPurpose::Console(asker, order) => fits(*asker, order),
            TaskPurpose::Shutdown
            | TaskPurpose::Handover
            | TaskPurpose::TraceOver(_)
            | TaskPurpose::Drain(_)
            | TaskPurpose::EndLoans => false,
        });
        let mut orders = Vec::new();
        for (question, purpose) in taken {
            self.hands.post_all(|| ToWorker::ForgetOrder { question });
            if let TaskPurpose::Console(asker, order) = purpose {
                self.refuse(asker, why.clone());
                orders.push(order);
            }
        }
        orders
    }

    /// Starts a TRACE.
    fn begin_trace(&mut self, asker: ConsoleClient, trace: Trace) -> Result<(), Refusal> {
        let Trace { traced, seconds } = trace.clone();
        if let Traced::Database(name) = &traced {
            self.find(&Some(name.clone()), "trace").map_err(|refusal| {
                let databases = self.hands.active.settings.databases.keys().map(|name| &**name);
                match config::nearest(name, databases) {
                    Some(near) => refusal.hinted(format!("Did you mean {near}?")),
                    None => refusal.hinted("SHOW DATABASES lists the databases."),
                }
            })?;
        }
        let until = self.hands.now.time + Duration::from_secs(seconds);
        let place = self.tracers.begin(asker, traced.clone(), seconds, until);
        let place = place.ok_or_else(console::too_many_traces)?;
        self.give(&Task::Trace { place, traced }, TaskPurpose::Console(asker, Order::Trace(trace)));
        Ok(())
    }

    /// Carries out the steps that the tracers have returned.
    pub(crate) fn go_on_with_traces(&mut self, steps: Vec<Step<ConsoleClient>>) {
        for step in steps {
            match step {
                Step::Part(asker, bytes) => {
                    self.hands.post(asker.at, ToWorker::ConsolePart { client: asker.client, bytes });
                }
                Step::Answer(asker, Answer::Refused(refusal)) => self.refuse(asker, refusal),
                Step::Answer(asker, answer) => self.answer(asker, answer),
                Step::Forget { place, asker } => {
                    // The TRACE order may still wait for the workers.
                    for (question, _) in self.pending_orders.take_back(|purpose| purpose.is(asker.at, asker.client)) {
                        self.hands.post_all(|| ToWorker::ForgetOrder { question });
                    }
                    self.give(&Task::EndTrace { place }, TaskPurpose::TraceOver(place));
                }
            }
        }
    }

    fn done(&mut self, asker: ConsoleClient, order: &Order) {
        self.answer(asker, Answer::done(order.verb()));
    }
}

/// The databases paused by name, for a message; at most `NAMES_MAX` are named.
fn paused(standing: &Standing) -> Option<String> {
    let names: Vec<&str> = standing.paused().iter().map(|name| &**name).take(NAMES_MAX).collect();
    let more = standing.paused().len() - names.len();
    (!names.is_empty()).then(|| match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    })
}

/// The error for SUSPEND or TAKEOVER while a database is paused by name.
pub(crate) fn suspend_refused(standing: &Standing) -> Refusal {
    let refusal = Refusal::new("cannot suspend with paused databases");
    match paused(standing) {
        Some(paused) => {
            refusal.hinted(format!("Databases paused by name: {paused}. RESUME <db> ends the pause of one."))
        }
        None => refusal,
    }
}

const NAMES_MAX: usize = 10;
