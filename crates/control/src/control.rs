//! The control thread's treatment of every event.
//!
//! Always true: the time is passed in; nothing here blocks. Every [`ToControl::Console`] gets exactly one answer,
//! unless the process ends, and so does every worker that asks for a host name.
//! Not here: waiting for events (`run`), the meaning of console commands (`console`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::{Time, WorkerId};
use config::{NameServers, Settings, Warning};
use pool::ClientKey;
use reactor::Level;
use worker::letters::{
    ActiveConfig, Found, HashQuestion, Ids, Parts, PasswordQuestion, Post, Shutdown, Snapshot, ToControl, ToWorker,
};

use crate::clusters::{Clusters, MachineId};
use crate::console::show::{Showing, View};
use crate::console::{Order, Refusal, Sessions};
use crate::event::Event;
use crate::events::{self, EventKind, Events};
use crate::handover::Handovers;
use crate::hands::{Clocks, Hands};
use crate::hashings::Hashings;
use crate::history::{self, History};
use crate::http::{HttpQueue, Round};
use crate::listeners::{Around, ListenOrder, Listeners};
use crate::names::Names;
use crate::otlp::{Exporter, Posting};
use crate::own_clients::{self, OwnClientNews, OwnClientOrder, OwnClientOutcome, OwnClients};
use crate::packed_clusters::PackedCluster;
use crate::packed_events::PackedEvents;
use crate::pending_orders::{ConsoleClient, PendingOrders};
use crate::read_names::ReadNamesQuestions;
use crate::reload::{Configuration, Fresh, SharedLog};
use crate::replica_rotation::Rotations;
use crate::service::Service;
use crate::shutdown_progress::ShutdownProgress;
use crate::source::Source;
use crate::survey::{PATIENCE, Surveys};
use crate::sweeper::{self, Sweeper};
use crate::system_users::{self, SystemUsers};
use crate::timed_pauses::TimedPauses;
use crate::tracers::Tracers;
use crate::transfer::Transfer;
use crate::zones::Zones;
use crate::{external_auth, secrets};

/// The control thread without its clocks and queues. `S` is a connection between workers.
pub struct Control<S> {
    pub(crate) hands: Hands<S>,
    pub(crate) configuration: Configuration,
    names: Names,
    zones: Zones,
    /// The name servers of `resolv_conf` as last read.
    pub(crate) name_servers: Option<Arc<NameServers>>,
    secrets: secrets::SecretQuestions,
    passwords: external_auth::PasswordQuestions,
    hashings: Hashings,
    system_users: SystemUsers,
    own_clients: OwnClients,
    /// The sessions that listen on behalf of all clients of a database.
    listeners: Listeners,
    sweeper: Sweeper,
    /// The console clients that have sent a request.
    pub(crate) sessions: Sessions<ConsoleClient>,
    pub(crate) surveys: Surveys<Purpose>,
    pub(crate) http: HttpQueue,
    pub(crate) pending_orders: PendingOrders<TaskPurpose>,
    pub(crate) timed_pauses: TimedPauses,
    pub(crate) timed_holds: TimedPauses,
    pub(crate) clusters: Clusters,
    pub(crate) read_names: ReadNamesQuestions,
    pub(crate) rotations: Rotations,
    /// Who is answered when a switchover of a cluster is over.
    pub(crate) switchovers: BTreeMap<Arc<str>, ConsoleClient>,
    pub(crate) events: Events,
    pub(crate) tracers: Tracers<ConsoleClient>,
    /// Spans that are posted to an OpenTelemetry collector.
    spans: Exporter,
    history: History,
    /// End of the current statistics period.
    period_ends: Time,
    /// The workers are suspended, or about to be (SUSPEND, TAKEOVER).
    pub(crate) is_suspended: bool,
    pub(crate) shutdown: ShutdownProgress,
    /// The process ends with exit status 1.
    pub(crate) has_failed: bool,
    /// Online restarts by which new processes take over.
    pub(crate) handovers: Handovers<S>,
    pub(crate) ids: Ids,
    pub(crate) service: Service,
}

/// The purpose of a question to all workers.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// A table for a client of the console.
    Show(ConsoleClient, Showing),
    /// The statistics at the end of a period.
    Period,
    /// The databases that KILL without a name applies to.
    Kill(ConsoleClient),
    /// The servers to be asked for their advisory locks.
    Sweep,
    /// The clients that hold the locks that were found.
    Swept(Box<(sweeper::LockQuestion, sweeper::Answer)>),
    /// The answers to HTTP requests.
    Http(Round),
}

/// The purpose of a task that all workers carry out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TaskPurpose {
    /// An order of a console client, which is answered then.
    Console(ConsoleClient, Order),
    /// A shutdown, before it ends the process.
    Shutdown,
    /// An online restart, before anything is handed over.
    Handover,
    /// The end of a trace, before its place is given to another.
    TraceOver(usize),
    /// A switchover, before the primary is demoted.
    Drain(MachineId),
    /// A switchover that waits no longer for open transactions.
    EndLoans,
}

impl TaskPurpose {
    pub(crate) fn is(&self, from: WorkerId, client: ClientKey) -> bool {
        matches!(self, Self::Console(asker, _) if *asker == ConsoleClient { at: from, client })
    }
}

impl<S> Control<S> {
    /// Starts with `active`, which the workers already have, and with the warnings about it, which have already been
    /// logged.
    #[must_use]
    pub fn new(
        source: Source,
        active: Arc<ActiveConfig>,
        shared_log: SharedLog,
        told: Vec<Warning>,
        workers: Vec<Post<ToWorker<S>>>,
        now: Clocks,
    ) -> Self {
        let mut zones = Zones::default();
        zones.ask_every(now.time, active.settings.dns_zone_check_period);
        let mut events = Events::default();
        let version = concat!("trunkline ", env!("CARGO_PKG_VERSION"));
        let detail = format!("{version}, process {}", std::process::id());
        events.add(events::EventRecord::new(now.wall, EventKind::Start, &detail));
        let mut sweeper = Sweeper::default();
        sweeper.sweep_every(now.time, active.settings.lock_sweep_interval);
        let spans = Exporter::new(&active.mock_key, now.wall);
        let mut clusters = Clusters::default();
        clusters.heed(now.time, &active.settings);
        Self {
            period_ends: now.time + active.settings.stats_period,
            hands: Hands::new(now, active, workers),
            configuration: Configuration::new(source, shared_log, told),
            names: Names::default(),
            zones,
            name_servers: None,
            secrets: secrets::SecretQuestions::default(),
            passwords: external_auth::PasswordQuestions::default(),
            hashings: Hashings::default(),
            system_users: SystemUsers::default(),
            own_clients: OwnClients::default(),
            listeners: Listeners::default(),
            sweeper,
            sessions: Sessions::default(),
            surveys: Surveys::default(),
            http: HttpQueue::default(),
            pending_orders: PendingOrders::default(),
            timed_pauses: TimedPauses::default(),
            timed_holds: TimedPauses::default(),
            rotations: Rotations::default(),
            clusters,
            read_names: ReadNamesQuestions::default(),
            switchovers: BTreeMap::new(),
            events,
            tracers: Tracers::default(),
            spans,
            history: History::new(now.time),
            is_suspended: false,
            shutdown: ShutdownProgress::default(),
            has_failed: false,
            handovers: Handovers::default(),
            ids: Ids::default(),
            service: Service::default(),
        }
    }

    /// Sets the name servers to be asked instead of the system's resolver.
    #[must_use]
    pub fn with_name_servers(mut self, servers: Option<Arc<NameServers>>) -> Self {
        self.name_servers = servers;
        self
    }

    /// Sets the service manager to be notified of shutdowns and of our status.
    #[must_use]
    pub fn with_service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// Sets the counter of client and server numbers.
    #[must_use]
    pub fn with_ids(mut self, ids: Ids) -> Self {
        self.ids = ids;
        self
    }

    /// Puts the events of the process before, in an online restart, in front of our own.
    #[must_use]
    pub fn with_events(mut self, before: PackedEvents) -> Self {
        self.events.carry_on(before);
        self
    }

    /// Begins with what the process before, in an online restart, has known of clusters.
    #[must_use]
    pub fn with_clusters(mut self, before: &[PackedCluster]) -> Self {
        self.clusters.inherit(self.hands.now.time, before);
        self
    }

    /// Handles an event.
    pub fn handle(&mut self, now: Clocks, event: Event) {
        self.hands.now = now;
        match event {
            Event::Letter(ToControl::Resolve { from, name }) => {
                self.zones.know(from, &name);
                self.names.ask(from, name);
            }
            Event::Letter(ToControl::AskReadNames { from, database, creations }) => {
                self.ask_read_names(from, database, creations);
            }
            Event::Letter(ToControl::AskSecret(question)) => self.secrets.ask(question),
            Event::Letter(ToControl::SecretUnneeded { from, client }) => self.secrets.forget(from, client),
            Event::Letter(ToControl::AskExternalAuth(question)) => {
                if let Err(PasswordQuestion { from, client, authenticator, .. }) = self.passwords.ask(question) {
                    self.hands.post(from, ToWorker::Judged { client, verdict: external_auth::full(&authenticator) });
                }
            }
            Event::Letter(ToControl::ExternalAuthUnneeded { from, client }) => self.passwords.forget(from, client),
            Event::Judged { from, client, authenticator, verdict } => {
                self.passwords.answered(&authenticator, from, client);
                self.hands.post(from, ToWorker::Judged { client, verdict });
            }
            Event::Letter(ToControl::Hash(question)) => self.hashings.hash(question, &self.hands),
            Event::Letter(ToControl::HashUnneeded { from, asker }) => self.hashings.forget(from, asker),
            Event::Hashed { from, asker, hashed } => self.hashings.hashed(from, asker, hashed, &self.hands),
            Event::Letter(ToControl::Listen { database, user, channel, number, is_relied_on }) => {
                let order = ListenOrder::Listen { channel, number, is_relied_on };
                let (listeners, mut around) = self.listeners();
                listeners.listen(&mut around, database, user, order);
            }
            Event::Letter(ToControl::Unlisten { database, channel }) => self.unlisten(database, Some(channel)),
            Event::Letter(ToControl::UnlistenAll { database }) => self.unlisten(database, None),
            Event::OwnClient { number, news } => self.hear_own_client(number, &news),
            Event::Letter(ToControl::SystemUser { from, client, uid }) => {
                self.system_users.look_up(system_users::SystemUserQuestion { from, client, uid }, &self.hands);
            }
            Event::Letter(ToControl::SystemUserUnneeded { from, client }) => self.system_users.forget(from, client),
            Event::Letter(ToControl::Reports { from, reports, dropped }) => self.hear_reports(from, reports, dropped),
            Event::Letter(ToControl::Traced { happenings, dropped }) => self.tracers.hear(happenings, &dropped),
            Event::Letter(ToControl::Spans { statements, dropped }) => {
                self.spans.hear(now.time, statements, dropped, &self.hands.active.settings);
            }
            Event::Posted(posted) => {
                if let Some((level, line)) = self.spans.posted(now.time, &posted, &self.hands.active.settings) {
                    self.hands.log(level, format_args!("{line}"));
                }
            }
            Event::Letter(ToControl::ConsoleTook { from, client }) => {
                self.tracers.took(ConsoleClient { at: from, client })
            }
            Event::Letter(ToControl::Console { from, client, right, by, request }) => {
                self.console(ConsoleClient { at: from, client }, right, &by, request);
            }
            Event::Letter(ToControl::Shown { from, question, snapshot }) => {
                if let Some((purposes, snapshots)) = self.surveys.answer(from, question, snapshot) {
                    purposes.into_iter().for_each(|purpose| self.conclude(purpose, &snapshots));
                }
            }
            Event::Letter(ToControl::Obeyed { from, question, is_done }) => self.obeyed(from, question, is_done),
            Event::Letter(ToControl::ConsoleLeft { from, client }) => {
                self.sessions.remove(&ConsoleClient { at: from, client });
                self.asker_left(from, client);
            }
            Event::Letter(ToControl::ConsolesGone) => self.consoles_gone(),
            Event::Letter(ToControl::ConsoleCancel { from, client }) => self.asker_cancels(from, client),
            Event::Letter(ToControl::Drained { from, is_drained }) => self.drained(from, is_drained),
            Event::Signal(signal) => self.signal(signal),
            Event::SystemUser { from, client, found } => self.system_users.found(from, client, found, &self.hands),
            Event::Found { name, found } => self.found(&name, &found),
            Event::Cluster { id, event } => self.cluster_happens(&id, event),
            Event::ReadNames(found) => self.read_names_found(found),
            Event::Serial { zone, serial } => self.zones.hear(&zone, serial, &mut self.names, &self.hands),
            Event::News { handover, news } => self.hear_courier(handover, news),
            Event::Http { number, question } => self.ask_http(number, question),
            Event::Tick => {}
        }
        self.expire();
        let steps = self.tracers.due_steps(now.time);
        self.go_on_with_traces(steps);
        self.look_for_http();
        self.begin_survey();
        self.put_questions();
    }

    /// Returns the next host name to be looked up; [`Event::Found`] must follow.
    pub fn next_lookup(&mut self) -> Option<Arc<str>> {
        self.names.start()
    }

    /// Returns the next password to be checked; [`Event::Judged`] must follow.
    pub fn next_password(&mut self) -> Option<external_auth::Put> {
        self.passwords.start()
    }

    /// Returns the next password to be hashed; [`Event::Hashed`] must follow.
    pub fn next_hashing(&mut self) -> Option<HashQuestion> {
        self.hashings.start()
    }

    /// Returns the next operating system user to be looked up; [`Event::SystemUser`] must follow.
    pub fn next_system_user(&mut self) -> Option<system_users::SystemUserQuestion> {
        self.system_users.start()
    }

    /// Returns the next zone whose serial is to be queried; [`Event::Serial`] must follow.
    pub fn next_zone(&mut self) -> Option<Arc<str>> {
        self.zones.start()
    }

    /// Returns the name servers to ask, or `None` for the system's resolver.
    #[must_use]
    pub fn name_servers(&self) -> Option<&Arc<NameServers>> {
        self.name_servers.as_ref()
    }

    /// Returns the next batch of spans to be posted; [`Event::Posted`] must follow.
    pub fn next_posting(&mut self) -> Option<Posting> {
        self.spans.next(self.hands.now.time, &self.hands.active.settings)
    }

    /// Returns the remaining spans when the process ends, for one last attempt.
    pub fn last_posting(&mut self) -> Option<Posting> {
        self.spans.last(self.hands.now.time, &self.hands.active.settings)
    }

    /// Returns the transfer that is to be started; [`Event::News`] follows.
    pub fn next_transfer(&mut self) -> Option<Transfer<S>> {
        self.handovers.next_transfer()
    }

    /// Returns the next order for a connection to one of our own workers; [`Event::OwnClient`] reports its outcome.
    pub fn next_own_client_order(&mut self) -> Option<OwnClientOrder> {
        self.own_clients.next_order()
    }

    /// Hands one end of a connection of the control thread to the home worker of a database.
    pub fn connect_own(&self, database: &str, socket: S) {
        self.hands.post_home(database, ToWorker::Own(socket));
    }

    /// Does the same for a session that listens on behalf of all clients.
    pub fn connect_listener(&self, database: &str, socket: S) {
        self.hands.post_home(database, ToWorker::Listener(socket));
    }

    /// Returns the time limit of a question to a server: longer than the login that needs the answer.
    #[must_use]
    pub fn question_limit(&self) -> Duration {
        own_clients::question_limit(&self.hands.active.settings)
    }

    /// Returns when [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        let others = [
            self.surveys.next_deadline(),
            self.shutdown.next_deadline(self.hands.active.settings.shutdown_timeout),
            self.timed_pauses.next_deadline(),
            self.timed_holds.next_deadline(),
            self.clusters.next_deadline(),
            self.zones.next_deadline(),
            self.sweeper.next_deadline(),
            self.own_clients.next_deadline(),
            self.listeners.next_deadline(),
            self.http.next_deadline(),
            self.tracers.next_deadline(),
            self.spans.next_deadline(),
        ];
        others.into_iter().flatten().fold(self.period_ends, Time::min)
    }

    /// Returns whether the process is to end: the workers have been told to shut down at once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shutdown.way() == Some(Shutdown::Now)
    }

    /// Returns whether the process ends because of a failure.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn expire(&mut self) {
        if self.period_ends <= self.hands.now.time {
            self.period_ends = self.hands.now.time + self.hands.active.settings.stats_period;
            self.surveys.ask(Parts { stats: true, ..Parts::default() }, Purpose::Period);
        }
        self.expire_shutdown();
        self.end_timed_pauses();
        self.end_timed_holds();
        self.tick_clusters();
        let settings = &self.hands.active.settings;
        self.zones.tick(self.hands.now.time, settings.dns_zone_check_period);
        let is_due = self.sweeper.is_due(self.hands.now.time, settings.lock_sweep_interval);
        if is_due && self.shutdown.way().is_none() && !self.is_suspended {
            self.surveys.ask(sweeper::parts(), Purpose::Sweep);
        }
        for number in self.own_clients.late(self.hands.now.time) {
            let outcome = self.own_clients.give_up(number);
            self.conclude_own_client(outcome);
        }
        let (listeners, mut around) = self.listeners();
        listeners.expire(&mut around);
        if let Some((purposes, silent)) = self.surveys.give_up(self.hands.now.time) {
            purposes.iter().for_each(|purpose| self.give_up(purpose, &silent));
        }
    }

    fn found(&mut self, name: &Arc<str>, found: &Found) {
        for asker in self.names.answered(name) {
            self.hands.post(asker, ToWorker::Resolved { name: Arc::clone(name), found: found.clone() });
        }
    }

    /// Returns the data that tables are made from.
    pub(crate) fn view<'v>(&'v self, snapshots: &'v [Snapshot]) -> View<'v> {
        View {
            settings: &self.hands.active.settings,
            users: &self.hands.active.users,
            standing: &self.hands.active.standing,
            timed_pauses: &self.timed_pauses,
            clusters: &self.clusters,
            rotations: &self.rotations,
            is_suspended: self.is_suspended,
            shutdown: self.shutdown.waits(self.hands.now.time),
            snapshots,
            history: &self.history,
            zones: &self.zones,
            sweeper: &self.sweeper,
            hashings: &self.hashings,
            events: &self.events,
            spans: self.spans.counts(),
            log_lines_lost: self.hands.active.log.lost(),
            rates: self.hands.active.rates.snapshot(self.hands.now.time, self.hands.now.wall),
            now: self.hands.now.time,
            wall: self.hands.now.wall,
        }
    }

    /// Completes a survey that all workers have answered.
    fn conclude(&mut self, purpose: Purpose, snapshots: &[Snapshot]) {
        match purpose {
            Purpose::Show(asker, showing) => self.show(asker, showing, snapshots),
            Purpose::Kill(asker) => self.kill_all(asker, snapshots),
            Purpose::Sweep => self.sweeper.ask(snapshots, &self.hands.active.standing),
            Purpose::Swept(swept) => self.sweeper.conclude(&swept.0, &swept.1, snapshots, &self.hands),
            Purpose::Http(round) => self.answer_http(round, snapshots),
            Purpose::Period => {
                let averages = self.history.close_period(self.hands.now.time, history::gather(snapshots));
                self.service.status(&averages.to_string());
                if self.hands.active.settings.log_stats {
                    self.hands.log(Level::Log, format_args!("{averages}"));
                }
            }
        }
    }

    /// Ends a survey that the workers in `silent` have not answered in time.
    fn give_up(&mut self, purpose: &Purpose, silent: &[WorkerId]) {
        let names = silent.iter().map(|worker| format!("worker {}", worker.0)).collect::<Vec<_>>().join(", ");
        let text = format!("no answer within {} seconds from {names}", PATIENCE.as_secs());
        match purpose {
            Purpose::Show(asker, _) | Purpose::Kill(asker) => self.refuse(*asker, Refusal::new(text)),
            Purpose::Period => self.hands.log(Level::Warning, format_args!("statistics: {text}")),
            Purpose::Sweep | Purpose::Swept(_) => self.hands.log(Level::Warning, format_args!("locks: {text}")),
            Purpose::Http(round) => self.refuse_http(round, &text),
        }
    }

    pub(crate) fn go_down(&mut self, way: Shutdown) {
        if self.shutdown.way().is_none() {
            self.service.stopping();
        }
        self.forget_handover();
        self.shutdown.begin(self.hands.now.time, way);
        self.goes_down(way);
        self.hands.post_all(|| ToWorker::Shutdown(way));
    }

    /// Puts settings and secrets in force, and has each part adapt to them.
    pub(crate) fn enforce(&mut self, fresh: Fresh) {
        let old = Arc::clone(&self.hands.active);
        self.configuration.put_in_force(fresh, &mut self.hands);
        let standing = &self.hands.active.standing;
        self.timed_pauses
            .keep(|whose| whose.as_ref().map_or(standing.is_all_paused(), |name| standing.paused().contains(name)));
        self.timed_holds.keep(|whose| whose.as_ref().is_some_and(|name| standing.is_held(name)));
        self.heed_clusters();
        let (now, old, new) = (self.hands.now.time, &old.settings, &self.hands.active.settings);
        if new.stats_period != old.stats_period {
            self.period_ends = now + new.stats_period;
        }
        if new.lock_sweep_interval != old.lock_sweep_interval {
            self.sweeper.sweep_every(now, new.lock_sweep_interval);
        }
        self.zones.heed_settings(now, old, new);
        self.spans.heed(now, old, new);
        self.hands.post_config();
    }

    /// The hosts of databases have changed.
    pub(crate) fn heed_hosts(&mut self, before: &Settings) {
        self.zones.heed_settings(self.hands.now.time, before, &self.hands.active.settings);
    }

    /// Returns the listeners and what they need.
    fn listeners(&mut self) -> (&mut Listeners, Around<'_, S>) {
        (&mut self.listeners, Around { own_clients: &mut self.own_clients, hands: &self.hands })
    }

    /// No client listens any more on this channel of a database, or on any channel if `None`.
    fn unlisten(&mut self, database: Arc<str>, channel: Option<Box<str>>) {
        let (listeners, mut around) = self.listeners();
        listeners.unlisten(&mut around, database, channel);
    }

    /// Starts all questions that may be started now.
    fn put_questions(&mut self) {
        let ends_at = self.hands.now.time + self.question_limit();
        while let Some(question) = self.secrets.start() {
            self.own_clients.ask_secret(question, ends_at);
        }
        while let Some(question) = self.sweeper.next_question() {
            self.own_clients.ask_locks(question, ends_at);
        }
    }

    /// Handles news of a connection to one of our own workers.
    fn hear_own_client(&mut self, number: u64, news: &OwnClientNews) {
        match news {
            OwnClientNews::Heard(bytes) => {
                self.own_clients.hear(number, bytes);
                while let Some(outcome) = self.own_clients.next_outcome(number) {
                    self.conclude_own_client(Some(outcome));
                }
            }
            OwnClientNews::Ended(why) => {
                let outcome = self.own_clients.ended(number, why);
                self.conclude_own_client(outcome);
            }
        }
    }

    fn conclude_own_client(&mut self, outcome: Option<OwnClientOutcome>) {
        match outcome {
            None => {}
            Some(OwnClientOutcome::Secret(question, told)) => self.secrets.told(question, told, &self.hands),
            Some(OwnClientOutcome::Locks(question, answer)) => {
                if let Some(swept) = Sweeper::swept(question, answer, &self.hands) {
                    self.surveys.ask(sweeper::parts(), Purpose::Swept(Box::new(swept)));
                }
            }
            Some(OwnClientOutcome::Listener(database, outcome)) => {
                let (listeners, mut around) = self.listeners();
                listeners.told(&mut around, &database, outcome);
            }
        }
    }

    fn begin_survey(&mut self) {
        if let Some((question, what)) = self.surveys.begin(self.hands.now.time, self.hands.workers()) {
            self.hands.post_all(|| ToWorker::Show { question, what });
        }
    }
}

impl<S> fmt::Debug for Control<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("workers", &self.hands.workers()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
pub(crate) mod tests;
