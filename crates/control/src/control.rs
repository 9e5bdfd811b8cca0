//! What the control thread does about each thing that happens.
//!
//! Always true: it is told the time; it never waits. Every [`ToControl::Console`] gets exactly one answer, unless the process
//! ends, and so does every asker of a name.
//! Not here: waiting for things to happen (`run`), what console commands mean (`console`).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, RwLock};

use base::{Time, Wall, WorkerId};
use config::{NameServers, Warning};
use pool::ClientKey;
use reactor::{Level, LogTarget};
use wire::Request;
use worker::letters::{
    Force, Found, HashAsker, Hashed, Ids, Judge, Parts, PasswordQuestion, Post, Right, Shutdown, Snapshot, SystemUser,
    ToControl, ToWorker, Verdict,
};

use crate::console::show::{Subject, View};
use crate::console::{self, Answer, Command, Next, Refusal, Sessions};
use crate::courier::{Courier, News};
use crate::ending::Ending;
use crate::handover::Handover;
use crate::hashings::Hashings;
use crate::history::{self, History};
use crate::http::{Desk, HttpQuestion, Round};
use crate::judges;
use crate::links::{LinkNews, Links};
use crate::listeners;
use crate::loads::Loads;
use crate::names::Names;
use crate::orders::Waiter;
use crate::secrets::Questions;
use crate::service::Service;
use crate::source::Source;
use crate::survey::{PATIENCE, Surveys};
use crate::sweeper::{self, Sweeper};
use crate::system_users::{self, SystemUsers};
use crate::waits::Waits;
use crate::zones::{Serial, Zones};

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
    /// Name servers have been asked about a zone.
    Serial {
        /// Which zone.
        zone: Arc<str>,
        /// What they say.
        serial: Serial,
    },
    /// Something has come of a connection to our own workers.
    Link {
        /// Which.
        link: u64,
        /// What.
        news: LinkNews,
    },
    /// It is known who a user of the system is, or that nobody knows.
    SystemUser {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
        /// The answer.
        found: SystemUser,
    },
    /// Somebody has judged a password.
    Judged {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
        /// Who has judged.
        judge: Judge,
        /// The answer.
        verdict: Verdict,
    },
    /// A password has been hashed, or not.
    Hashed {
        /// Who asked.
        from: WorkerId,
        /// For whom.
        asker: HashAsker,
        /// What came of it.
        hashed: Hashed,
    },
    /// The courier of an online restart reports.
    News {
        /// Of which one.
        handover: u64,
        /// What.
        news: News,
    },
    /// Somebody asks something by HTTP.
    Http {
        /// The number of the question.
        number: u64,
        /// What.
        question: HttpQuestion,
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
    pub(crate) names: Names,
    pub(crate) zones: Zones,
    /// What `resolv_conf` says, as read last.
    pub(crate) name_servers: Option<Arc<NameServers>>,
    pub(crate) questions: Questions,
    judged: judges::Questions,
    pub(crate) hashings: Hashings,
    /// The sessions that listen for all.
    pub(crate) listening: listeners::Sessions,
    pub(crate) links: Links,
    /// The clients of the console that have said something.
    sessions: Sessions<Asker>,
    surveys: Surveys<Purpose>,
    pub(crate) http: Desk,
    loads: Loads,
    history: History,
    /// When the present period of statistics ends.
    pub(crate) period_ends: Time,
    pub(crate) waits: Waits<Waiter>,
    pub(crate) shutdown: Option<Shutdown>,
    pub(crate) ending: Ending,
    pub(crate) system_users: SystemUsers,
    /// SUSPEND: everything stands still, or is about to.
    pub(crate) is_suspended: bool,
    /// It ends with exit status 1.
    has_failed: bool,
    /// A new process takes over.
    pub(crate) handover: Option<Handover>,
    pub(crate) courier: Option<Courier<S>>,
    /// How many online restarts have begun.
    pub(crate) handovers: u64,
    /// A new process has taken over.
    pub(crate) has_handed_over: bool,
    pub(crate) ids: Ids,
    pub(crate) service: Service,
    pub(crate) sweeper: Sweeper,
    /// The workers that have nothing left that the shutdown waits for, as far as they have told.
    pub(crate) drained: BTreeSet<WorkerId>,
}

/// A client of the console that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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
    /// Which servers may be asked for locks.
    Sweep,
    /// Whose the locks are that have been found.
    Swept(Box<(sweeper::Question, sweeper::Answer)>),
    /// What has been asked by HTTP.
    Http(Round),
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
        let mut zones = Zones::default();
        zones.ask_every(now.time, force.settings.dns_zone_check_period);
        let mut sweeper = Sweeper::default();
        sweeper.sweep_every(now.time, force.settings.lock_sweep_interval);
        Self {
            period_ends: now.time + force.settings.stats_period,
            source,
            force,
            speaker,
            told,
            workers,
            now,
            names: Names::default(),
            zones,
            name_servers: None,
            questions: Questions::default(),
            listening: listeners::Sessions::default(),
            links: Links::default(),
            judged: judges::Questions::default(),
            hashings: Hashings::default(),
            sessions: Sessions::default(),
            surveys: Surveys::default(),
            http: Desk::default(),
            loads: Loads::default(),
            history: History::new(now.time),
            waits: Waits::default(),
            shutdown: None,
            ending: Ending::default(),
            system_users: SystemUsers::default(),
            is_suspended: false,
            has_failed: false,
            handover: None,
            courier: None,
            handovers: 0,
            has_handed_over: false,
            ids: Ids::default(),
            service: Service::default(),
            sweeper,
            drained: BTreeSet::new(),
        }
    }

    /// Does what is to be done about an event.
    pub fn handle(&mut self, now: Moment, event: Event) {
        self.now = now;
        match event {
            Event::Letter(ToControl::Resolve { from, name }) => {
                self.zones.know(from, &name);
                self.names.ask(from, name);
            }
            Event::Letter(ToControl::AskSecret(question)) => self.questions.ask(question),
            Event::Letter(ToControl::SecretUnneeded { from, client }) => self.questions.forget(from, client),
            Event::Letter(ToControl::AskJudge(question)) => {
                if let Err(PasswordQuestion { from, client, judge, .. }) = self.judged.ask(question) {
                    self.post(from, ToWorker::Judged { client, verdict: judges::full(&judge) });
                }
            }
            Event::Letter(ToControl::JudgeUnneeded { from, client }) => self.judged.forget(from, client),
            Event::Judged { from, client, judge, verdict } => {
                self.judged.answered(&judge, from, client);
                self.post(from, ToWorker::Judged { client, verdict });
            }
            Event::Letter(ToControl::Hash(question)) => self.hash(question),
            Event::Letter(ToControl::HashUnneeded { from, asker }) => self.hashings.forget(from, asker),
            Event::Hashed { from, asker, hashed } => self.hashed(from, asker, hashed),
            Event::Letter(ToControl::Listen { database, user, channel, number, is_relied_on }) => {
                self.listen(database, user, listeners::Order::Listen { channel, number, is_relied_on });
            }
            Event::Letter(ToControl::Unlisten { database, channel }) => self.unlisten(database, Some(channel)),
            Event::Letter(ToControl::UnlistenAll { database }) => self.unlisten(database, None),
            Event::Link { link, news } => self.hear_link(link, &news),
            Event::Letter(ToControl::SystemUser { from, client, uid }) => {
                self.ask_system_user(system_users::Question { from, client, uid });
            }
            Event::Letter(ToControl::SystemUserUnneeded { from, client }) => self.system_users.forget(from, client),
            Event::Letter(ToControl::Console { from, client, right, request }) => {
                self.console(Asker { at: from, client }, right, request);
            }
            Event::Letter(ToControl::Shown { from, question, snapshot }) => {
                if let Some((purpose, snapshots)) = self.surveys.answer(from, question, snapshot) {
                    self.conclude(purpose, &snapshots);
                }
            }
            Event::Letter(ToControl::Obeyed { from, question, is_done }) => self.obeyed(from, question, is_done),
            Event::Letter(ToControl::ConsoleLeft { from, client }) => {
                self.sessions.remove(&Asker { at: from, client });
                self.asker_left(from, client);
            }
            Event::Letter(ToControl::ConsolesGone) => self.consoles_gone(),
            Event::Letter(ToControl::ConsoleCancel { from, client }) => self.asker_cancels(from, client),
            Event::Letter(ToControl::Drained { from, is_drained }) => self.drained(from, is_drained),
            Event::Signal(signal) => self.signal(signal),
            Event::SystemUser { from, client, found } => self.system_user(from, client, found),
            Event::Found { name, found } => self.found(&name, &found),
            Event::Serial { zone, serial } => self.hear_serial(&zone, serial),
            Event::News { handover, news } => self.hear_courier(handover, news),
            Event::Http { number, question } => self.ask_http(number, question),
            Event::Tick => {}
        }
        self.expire();
        self.look_for_http();
        self.put_questions();
    }

    /// The next name to be looked up; [`Event::Found`] must follow.
    pub fn next_lookup(&mut self) -> Option<Arc<str>> {
        self.names.start()
    }

    /// The next password to be judged; [`Event::Judged`] must follow.
    pub fn next_password(&mut self) -> Option<judges::Put> {
        self.judged.start()
    }

    /// Hands one end of a connection to ourselves to the worker on which a database lives.
    pub fn connect_own(&self, database: &str, socket: S) {
        self.post(self.force.homes.home_of(database), ToWorker::Own(socket));
    }

    /// The same for a session that listens for all.
    pub fn connect_listener(&self, database: &str, socket: S) {
        self.post(self.force.homes.home_of(database), ToWorker::Listener(socket));
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        let others = [
            self.surveys.next_deadline(),
            self.ending_deadline(),
            self.zones.next_deadline(),
            self.sweeper.next_deadline(),
            self.links.next_deadline(),
            self.listening.next_deadline(),
            self.http.next_deadline(),
        ];
        others.into_iter().flatten().fold(self.period_ends, Time::min)
    }

    /// Whether all is over: the workers have been told to go down at once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shutdown == Some(Shutdown::Now)
    }

    /// Whether it ends because of something that went wrong.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether it ends because a new process has taken over.
    #[must_use]
    pub fn has_handed_over(&self) -> bool {
        self.has_handed_over
    }

    fn expire(&mut self) {
        if self.period_ends <= self.now.time {
            self.period_ends = self.now.time + self.force.settings.stats_period;
            self.ask_all(Parts { stats: true, ..Parts::default() }, Purpose::Period);
        }
        self.expire_ending();
        self.zones.tick(self.now.time, self.force.settings.dns_zone_check_period);
        self.sweep();
        self.expire_links();
        self.expire_sessions();
        while let Some((purpose, silent)) = self.surveys.give_up(self.now.time) {
            self.give_up(&purpose, &silent);
        }
    }

    fn found(&mut self, name: &Arc<str>, found: &Found) {
        for asker in self.names.answered(name) {
            self.post(asker, ToWorker::Resolved { name: Arc::clone(name), found: found.clone() });
        }
    }

    /// Somebody asks for something on the console.
    fn console(&mut self, asker: Asker, right: Right, request: Request) {
        match self.sessions.hear(asker, request, right) {
            Next::Say(bytes) => self.say(asker, bytes),
            Next::Run(command) => self.run(asker, command),
            Next::Refuse(refusal) => self.refuse(asker, refusal),
        }
    }

    fn run(&mut self, asker: Asker, command: Command) {
        match command {
            Command::Show(subject) if subject.needs_no_worker() => self.show(asker, subject, &[]),
            Command::Show(subject) => self.ask_all(subject.parts, Purpose::Show(asker, subject)),
            Command::Help => self.answer(asker, console::help_answer()),
            Command::Parameter(parameter) => self.answer(asker, parameter.answer()),
            Command::SetParameter => self.answer(asker, console::set_ignored_answer()),
            Command::Order(order) => self.obey(asker, order),
        }
    }

    fn show(&mut self, asker: Asker, subject: &Subject, snapshots: &[Snapshot]) {
        let table = subject.table(&self.view(snapshots));
        self.answer(asker, Answer::Table(table));
    }

    /// What tables are made of.
    pub(crate) fn view<'v>(&'v self, snapshots: &'v [Snapshot]) -> View<'v> {
        View {
            settings: &self.force.settings,
            users: &self.force.users,
            standing: &self.force.standing,
            is_suspended: self.is_suspended,
            snapshots,
            history: &self.history,
            zones: &self.zones,
            sweeper: &self.sweeper,
            hashings: &self.hashings,
            busy_before: self.loads.before(),
            log_lines_lost: self.force.log.lost(),
            rates: self.force.rates.snapshot(self.now.time, self.now.wall),
            now: self.now.time,
            wall: self.now.wall,
        }
    }

    /// All workers have answered.
    fn conclude(&mut self, purpose: Purpose, snapshots: &[Snapshot]) {
        self.loads.note(self.now.time, snapshots);
        match purpose {
            Purpose::Show(asker, subject) => self.show(asker, subject, snapshots),
            Purpose::Kill(asker) => self.kill_all(asker, snapshots),
            Purpose::Sweep => self.sweep_begins(snapshots),
            Purpose::Swept(swept) => self.sweep_ends(&swept.0, &swept.1, snapshots),
            Purpose::Http(round) => self.answer_http(round, snapshots),
            Purpose::Period => {
                let averages = self.history.close_period(self.now.time, history::gather(snapshots));
                self.service.status(&averages.to_string());
                if self.force.settings.log_stats {
                    self.log(Level::Log, format_args!("{averages}"));
                }
            }
        }
    }

    /// Some workers have kept silent.
    fn give_up(&mut self, purpose: &Purpose, silent: &[WorkerId]) {
        let names = silent.iter().map(|worker| format!("worker {}", worker.0)).collect::<Vec<_>>().join(", ");
        let text = format!("no answer within {} seconds from {names}", PATIENCE.as_secs());
        match purpose {
            Purpose::Show(asker, _) | Purpose::Kill(asker) => self.refuse(*asker, Refusal::new(text)),
            Purpose::Period => self.log(Level::Warning, format_args!("statistics: {text}")),
            Purpose::Sweep | Purpose::Swept(_) => self.log(Level::Warning, format_args!("locks: {text}")),
            Purpose::Http(round) => self.refuse_http(round, &text),
        }
    }

    pub(crate) fn refuse(&mut self, asker: Asker, refusal: Refusal) {
        self.log(Level::Error, format_args!("{}", refusal.text));
        if self.force.settings.log_pooler_errors {
            self.log(Level::Warning, format_args!("pooler error: {}", refusal.text));
        }
        self.answer(asker, Answer::Refused(refusal));
    }

    /// What came of a request is written the way it was asked for; nobody needs it if the client has gone.
    pub(crate) fn answer(&mut self, asker: Asker, answer: Answer) {
        match self.sessions.answer(&asker, answer) {
            Some(Ok(bytes)) => self.say(asker, bytes),
            // Which needs no room.
            Some(Err(refusal)) => self.refuse(asker, refusal),
            None => {}
        }
    }

    fn say(&self, asker: Asker, bytes: Vec<u8>) {
        self.post(asker.at, ToWorker::ConsoleAnswer { client: asker.client, bytes, closes: false });
    }

    fn signal(&mut self, signal: Signal) {
        let is_going_down = self.shutdown.is_some();
        match signal {
            Signal::Hangup | Signal::User1 if self.handover.is_some() => {
                self.log(Level::Log, format_args!("got {signal:?} during an online restart, ignoring"));
            }
            Signal::User2 if self.handover.is_some() => self.call_off_handover("SIGUSR2"),
            Signal::Hangup => {
                self.log(Level::Log, format_args!("got SIGHUP, re-reading config"));
                // A service manager that was told that we go down is told nothing else any more.
                if is_going_down {
                    self.reload();
                } else {
                    self.service.reloading();
                    self.reload();
                    self.service.ready();
                }
            }
            Signal::Terminate if is_going_down => {
                self.log(Level::Log, format_args!("got SIGTERM while shutting down, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::Terminate => {
                let text = "got SIGTERM, shutting down, waiting for all clients disconnect";
                self.log(Level::Log, format_args!("{text}"));
                self.go_down_by_signal(Shutdown::WaitForClients);
            }
            Signal::Interrupt if is_going_down => {
                self.log(Level::Log, format_args!("got SIGINT while shutting down, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::Interrupt => {
                let text = "got SIGINT, shutting down, waiting for all servers connections to be released";
                self.log(Level::Log, format_args!("{text}"));
                self.go_down_by_signal(Shutdown::WaitForServers);
            }
            Signal::Quit => {
                self.log(Level::Log, format_args!("got SIGQUIT, fast exit"));
                self.go_down(Shutdown::Now);
            }
            Signal::User1 if self.force.standing.is_paused || self.is_suspended => {
                self.log(Level::Log, format_args!("got SIGUSR1, but already paused/suspended"));
            }
            Signal::User1 => {
                self.log(Level::Log, format_args!("got SIGUSR1, pausing all activity"));
                self.pause_all();
            }
            Signal::User2 if is_going_down => {
                self.log(Level::Log, format_args!("got SIGUSR2 while shutting down, ignoring"));
            }
            Signal::User2 if self.is_suspended => {
                self.log(Level::Log, format_args!("got SIGUSR2, continuing from SUSPEND"));
                self.wake_up("SIGUSR2");
            }
            Signal::User2 if self.force.standing.is_paused => {
                self.log(Level::Log, format_args!("got SIGUSR2, continuing from PAUSE"));
                self.unpause(&None);
            }
            Signal::User2 => self.log(Level::Log, format_args!("got SIGUSR2, but not paused/suspended")),
        }
    }

    /// As in PgBouncer, nobody is waited for who stands still.
    fn go_down_by_signal(&mut self, way: Shutdown) {
        if self.is_suspended || self.handover.is_some() {
            let what = if self.handover.is_some() { "takeover" } else { "suspend" };
            self.log(Level::Fatal, format_args!("{what} was in progress, going down immediately"));
            self.has_failed = true;
            self.go_down(Shutdown::Now);
        } else {
            self.go_down(way);
        }
    }

    pub(crate) fn go_down(&mut self, way: Shutdown) {
        if self.shutdown.is_none() {
            self.service.stopping();
        }
        self.forget_handover();
        self.shutdown = Some(way);
        self.ending.begin(self.now.time);
        self.drained.clear();
        self.post_all(|| ToWorker::Shutdown(way));
    }

    pub(crate) fn posts(&self) -> &[Post<ToWorker<S>>] {
        &self.workers
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    pub(crate) fn ask_all(&mut self, what: Parts, purpose: Purpose) {
        let question = self.surveys.open(self.now.time, self.workers.len(), purpose);
        self.post_all(|| ToWorker::Show { question, what });
    }

    pub(crate) fn post(&self, to: WorkerId, letter: ToWorker<S>) {
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

#[cfg(test)]
#[path = "control_tests.rs"]
pub(crate) mod tests;
