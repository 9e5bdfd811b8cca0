//! What the control thread does about each thing that happens.
//!
//! Always true: it is told the time; it never waits. Every [`ToControl::Console`] gets exactly one answer, unless the process
//! ends, and so does every asker of a name.
//! Not here: waiting for things to happen (`run`), what console commands mean (`console`).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use base::{Time, Wall, WorkerId};
use config::Warning;
use pool::ClientKey;
use reactor::{Level, LogTarget};
use worker::letters::{
    Force, Order as Task, Parts, Post, Right, SecretQuestion, Shutdown, Snapshot, ToControl, ToWorker, Told,
};

use crate::console::show::{Subject, View};
use crate::console::{self, Command, Refusal};
use crate::history::{self, History};
use crate::names::{self, Found, Names};
use crate::orders::Waiter;
use crate::secrets::Questions;
use crate::source::Source;
use crate::survey::{PATIENCE, Surveys};
use crate::waits::Waits;

/// The present, on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// On a clock that only goes forward, which did not begin to go just now.
    pub time: Time,
    /// On the calendar.
    pub wall: Wall,
}

/// A signal of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Signal {
    Hangup,
    Terminate,
    Interrupt,
    Quit,
    User1,
    User2,
}

/// Something has happened.
#[derive(Debug)]
pub enum Event {
    /// A letter has come.
    Letter(ToControl),
    /// A signal has come.
    Signal(Signal),
    /// A lookup is over.
    Found {
        /// Of which name.
        name: Arc<str>,
        /// What came of it.
        found: Found,
    },
    /// A question about a user's secret is answered.
    Told {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
        /// Which database was asked.
        database: Arc<str>,
        /// The answer.
        told: Told,
    },
    /// A deadline has passed.
    Tick,
}

/// Where the last words of a panic go: the log in force.
pub type Speaker = Arc<RwLock<Arc<LogTarget>>>;

/// The control thread without its clocks and queues. `S` is a connection between workers.
pub struct Control<S> {
    pub(crate) source: Source,
    pub(crate) force: Arc<Force>,
    pub(crate) speaker: Speaker,
    /// The warnings about the settings in force.
    pub(crate) told: Vec<Warning>,
    workers: Vec<Post<ToWorker<S>>>,
    pub(crate) now: Moment,
    names: Names,
    questions: Questions,
    surveys: Surveys<Purpose>,
    history: History,
    /// When the present period of statistics ends.
    pub(crate) period_ends: Time,
    pub(crate) waits: Waits<Waiter>,
    pub(crate) shutdown: Option<Shutdown>,
    /// The workers that have nothing left that the shutdown waits for, as far as they have told.
    drained: BTreeSet<WorkerId>,
}

/// A client of the console that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub(crate) at: WorkerId,
    pub(crate) client: ClientKey,
}

/// What a survey is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// A table for a client of the console.
    Show(Asker, &'static Subject),
    /// The end of a period of statistics.
    Period,
    /// The databases that KILL without a name is about.
    Kill(Asker),
}

impl<S> Control<S> {
    /// Begins with `force`, which the workers have already, and with the warnings about it, which are logged already.
    #[must_use]
    pub fn new(
        source: Source,
        force: Arc<Force>,
        speaker: Speaker,
        told: Vec<Warning>,
        workers: Vec<Post<ToWorker<S>>>,
        now: Moment,
    ) -> Self {
        Self {
            period_ends: now.time + force.settings.stats_period,
            source,
            force,
            speaker,
            told,
            workers,
            now,
            names: Names::default(),
            questions: Questions::default(),
            surveys: Surveys::default(),
            history: History::new(now.time),
            waits: Waits::default(),
            shutdown: None,
            drained: BTreeSet::new(),
        }
    }

    /// Does what is to be done about an event.
    pub fn handle(&mut self, now: Moment, event: Event) {
        self.now = now;
        match event {
            Event::Letter(ToControl::Resolve { from, name }) => self.names.ask(from, name),
            Event::Letter(ToControl::AskSecret(question)) => self.questions.ask(question),
            Event::Letter(ToControl::SecretUnneeded { from, client }) => self.questions.forget(from, client),
            Event::Letter(ToControl::SystemUser { from, client, uid }) => {
                self.post(from, ToWorker::SystemUser { client, name: names::user_of_the_system(uid) });
            }
            Event::Letter(ToControl::Console { from, client, right, text }) => {
                self.console(Asker { at: from, client }, right, &text);
            }
            Event::Letter(ToControl::Shown { from, question, snapshot }) => {
                if let Some((purpose, snapshots)) = self.surveys.answer(from, question, snapshot) {
                    self.conclude(purpose, &snapshots);
                }
            }
            Event::Letter(ToControl::Obeyed { from, question, is_done }) => self.obeyed(from, question, is_done),
            Event::Letter(ToControl::ConsoleLeft { from, client }) => self.asker_left(from, client),
            Event::Letter(ToControl::ConsoleCancel { from, client }) => self.asker_cancels(from, client),
            Event::Letter(ToControl::Drained { from, is_drained }) => self.drained(from, is_drained),
            Event::Signal(signal) => self.signal(signal),
            Event::Told { from, client, database, told } => {
                self.questions.answered(&database);
                self.post(from, ToWorker::Told { client, told });
            }
            Event::Found { name, found } => self.found(&name, &found),
            Event::Tick => {}
        }
        self.expire();
    }

    /// The next name to be looked up; [`Event::Found`] must follow.
    pub fn next_lookup(&mut self) -> Option<Arc<str>> {
        self.names.start()
    }

    /// The next question about a user to be put; [`Event::Told`] must follow.
    pub fn next_question(&mut self) -> Option<SecretQuestion> {
        self.questions.start()
    }

    /// How long a question may take: as long as the login that needs it.
    #[must_use]
    pub fn question_limit(&self) -> Duration {
        self.force.settings.client_login_timeout.unwrap_or(QUESTION_MAX)
    }

    /// Hands one end of a connection to ourselves to the worker on which a database lives.
    pub fn connect_own(&self, database: &str, socket: S) {
        self.post(self.force.homes.home_of(database), ToWorker::Own(socket));
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        self.surveys.next_deadline().map_or(self.period_ends, |deadline| deadline.min(self.period_ends))
    }

    /// Whether all is over: the workers have been told to go down at once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shutdown == Some(Shutdown::Now)
    }

    fn expire(&mut self) {
        if self.period_ends <= self.now.time {
            self.period_ends = self.now.time + self.force.settings.stats_period;
            self.ask_all(Parts { stats: true, ..Parts::default() }, Purpose::Period);
        }
        while let Some((purpose, silent)) = self.surveys.give_up(self.now.time) {
            self.give_up(&purpose, &silent);
        }
    }

    fn found(&mut self, name: &Arc<str>, found: &Found) {
        for asker in self.names.answered(name) {
            self.post(asker, ToWorker::Resolved { name: Arc::clone(name), found: found.clone() });
        }
    }

    /// Somebody has said something on the console.
    fn console(&mut self, asker: Asker, right: Right, text: &str) {
        match console::understand(text, right) {
            Ok(Command::Show(subject)) if subject.needs_no_worker() => self.show(asker, subject, &[]),
            Ok(Command::Show(subject)) => self.ask_all(subject.parts, Purpose::Show(asker, subject)),
            Ok(Command::Help) => self.answer(asker, console::help_answer()),
            Ok(Command::Parameter(parameter)) => self.answer(asker, parameter.answer()),
            Ok(Command::SetParameter) => self.answer(asker, console::set_ignored_answer()),
            Ok(Command::Order(order)) => self.obey(asker, order),
            Err(refusal) => self.refuse(asker, &refusal),
        }
    }

    fn show(&self, asker: Asker, subject: &Subject, snapshots: &[Snapshot]) {
        let (settings, users) = (&self.force.settings, &self.force.users);
        let (standing, history, now) = (&self.force.standing, &self.history, self.now.time);
        let view = View { settings, users, standing, snapshots, history, now };
        self.answer(asker, console::table_answer(&subject.table(&view)));
    }

    /// All workers have answered.
    fn conclude(&mut self, purpose: Purpose, snapshots: &[Snapshot]) {
        match purpose {
            Purpose::Show(asker, subject) => self.show(asker, subject, snapshots),
            Purpose::Kill(asker) => self.kill_all(asker, snapshots),
            Purpose::Period => {
                let averages = self.history.close_period(self.now.time, history::gather(snapshots));
                if self.force.settings.log_stats {
                    self.log(Level::Log, format_args!("{averages}"));
                }
            }
        }
    }

    /// Some workers have kept silent.
    fn give_up(&self, purpose: &Purpose, silent: &[WorkerId]) {
        let names = silent.iter().map(|worker| format!("worker {}", worker.0)).collect::<Vec<_>>().join(", ");
        let text = format!("no answer within {} seconds from {names}", PATIENCE.as_secs());
        match purpose {
            Purpose::Show(asker, _) | Purpose::Kill(asker) => self.refuse(*asker, &Refusal::new(text)),
            Purpose::Period => self.log(Level::Warning, format_args!("statistics: {text}")),
        }
    }

    pub(crate) fn refuse(&self, asker: Asker, refusal: &Refusal) {
        self.log(Level::Error, format_args!("{}", refusal.text));
        if self.force.settings.log_pooler_errors {
            self.log(Level::Warning, format_args!("pooler error: {}", refusal.text));
        }
        self.answer(asker, refusal.answer());
    }

    pub(crate) fn answer(&self, asker: Asker, bytes: Vec<u8>) {
        self.post(asker.at, ToWorker::ConsoleAnswer { client: asker.client, bytes, closes: false });
    }

    fn signal(&mut self, signal: Signal) {
        let is_going_down = self.shutdown.is_some();
        match signal {
            Signal::Hangup => {
                self.log(Level::Log, format_args!("got SIGHUP, re-reading config"));
                self.reload();
            }
            Signal::Terminate if is_going_down => {
                self.log(Level::Log, format_args!("got SIGTERM while shutting down, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::Terminate => {
                let text = "got SIGTERM, shutting down, waiting for all clients disconnect";
                self.log(Level::Log, format_args!("{text}"));
                self.go_down(Shutdown::WaitForClients);
            }
            Signal::Interrupt if is_going_down => {
                self.log(Level::Log, format_args!("got SIGINT while shutting down, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::Interrupt => {
                let text = "got SIGINT, shutting down, waiting for all servers connections to be released";
                self.log(Level::Log, format_args!("{text}"));
                self.go_down(Shutdown::WaitForServers);
            }
            Signal::Quit => {
                self.log(Level::Log, format_args!("got SIGQUIT, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::User1 if self.force.standing.is_paused => {
                self.log(Level::Log, format_args!("got SIGUSR1, but already paused/suspended"));
            }
            Signal::User1 => {
                self.log(Level::Log, format_args!("got SIGUSR1, pausing all activity"));
                self.pause_all();
            }
            Signal::User2 if is_going_down => {
                self.log(Level::Log, format_args!("got SIGUSR2 while shutting down, ignoring"));
            }
            Signal::User2 if self.force.standing.is_paused => {
                self.log(Level::Log, format_args!("got SIGUSR2, continuing from PAUSE"));
                self.unpause(&None);
            }
            Signal::User2 => self.log(Level::Log, format_args!("got SIGUSR2, but not paused/suspended")),
        }
    }

    pub(crate) fn go_down(&mut self, way: Shutdown) {
        self.shutdown = Some(way);
        self.drained.clear();
        self.post_all(|| ToWorker::Shutdown(way));
    }

    /// A worker has nothing left, or has somebody after all.
    fn drained(&mut self, from: WorkerId, is_drained: bool) {
        match is_drained {
            true => drop(self.drained.insert(from)),
            false => drop(self.drained.remove(&from)),
        }
        if self.drained.len() == self.workers.len() {
            // Somebody may be on the way from one worker to another, and is seen when all are asked once more.
            self.give(&Task::ConfirmDrained, Waiter::Shutdown);
        }
    }

    /// So many workers have confirmed that they have nothing left. Another one will tell when it has.
    pub(crate) fn confirmed(&mut self, workers: u32) {
        if (workers as usize) < self.workers.len() || self.drained.len() < self.workers.len() {
            return;
        }
        let what = match self.shutdown {
            Some(Shutdown::WaitForServers) => "server",
            Some(Shutdown::WaitForClients) => "client",
            Some(Shutdown::Now) | None => return,
        };
        self.log(Level::Log, format_args!("{what} connections dropped, exiting"));
        self.go_down(Shutdown::Now);
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    pub(crate) fn ask_all(&mut self, what: Parts, purpose: Purpose) {
        let question = self.surveys.open(self.now.time, self.workers.len(), purpose);
        self.post_all(|| ToWorker::Show { question, what });
    }

    fn post(&self, to: WorkerId, letter: ToWorker<S>) {
        if let Some(post) = self.workers.get(usize::from(to.0)) {
            post(letter);
        }
    }

    pub(crate) fn post_all(&self, letter: impl Fn() -> ToWorker<S>) {
        self.workers.iter().for_each(|post| post(letter()));
    }

    pub(crate) fn log(&self, level: Level, line: fmt::Arguments<'_>) {
        self.force.log.write_one(self.now.wall, level, line);
    }
}

impl<S> fmt::Debug for Control<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

/// How long a question to a server may take where logins have no limit.
const QUESTION_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
