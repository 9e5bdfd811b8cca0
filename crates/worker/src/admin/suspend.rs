//! SUSPEND: a worker comes to rest, so that nothing of any conversation is under way, and later continues from there.
//!
//! Always true: received bytes are either forwarded and taken by the kernel, or held here; a client keeps its server, and none
//! gets another server, is let in or is refused before the worker is resumed; no deadline passes meanwhile but the one for coming
//! to rest. Nothing that is kept is lost or overtaken. Once anything has been packed for another process, nothing is done here
//! until it is known which process has it.
//! Not here: who orders it (`control`).

use std::collections::{HashSet, VecDeque};

use base::{Key, Time};
use measure::Closed;
use pool::{Command, Event, ServerKey};
use protocol::fault::Fault;
use protocol::loan::LoanPhase;
use reactor::{Accepting, Completion, Conn, Io, Level, Receive};

use crate::admission::applicant::LoggingIn;
use crate::data::client::{Client, ClientStage, Link};
use crate::data::server::{Server, ServerStage};
use crate::letters::{Order, Shutdown, ToWorker};
use crate::planted::{freezes, outlasts_suspension};
use crate::worker::{Owner, Worker};

/// What a suspension means for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SuspendState {
    /// It is not read any more, and is at rest when everything sent to it has been taken.
    Rests,
    /// It is in the middle of something that only its peer can end, and is waited for.
    Awaited,
    /// It does not have to rest.
    Exempt,
}

impl<I: Io> Worker<I> {
    /// Suspends the worker: its connections come to rest from now on.
    pub(crate) fn suspend(&mut self, is_handover: bool) {
        self.release_everybody();
        self.receive_from_all_paced();
        let until = self.hands.active.settings.suspend_timeout.map(|limit| self.hands.now + limit);
        match &mut self.admin.suspended {
            // A second request for a handover does not extend the time.
            Some(suspended) if suspended.is_handover && is_handover => suspended.until = suspended.limit,
            Some(suspended) => (suspended.until, suspended.limit, suspended.is_handover) = (until, until, is_handover),
            None => {
                self.admin.suspended = Some(Box::new(Suspended::new(is_handover, until, self.hands.now + TOLD_AFTER)))
            }
        }
        self.hands.io.accept(Accepting::Paused);
        self.mind_consoles();
    }

    /// Resumes the worker, if it was suspended. Returns the completions and letters that were kept meanwhile, which are
    /// still to be looked at.
    pub(crate) fn wake_up(&mut self) -> Option<Kept<I::Socket>> {
        let suspended = self.admin.suspended.take()?;
        let Suspended { deferred, frozen, .. } = *suspended;
        self.admin.awaited.retain(|(_, order)| !matches!(order, Order::Suspend { .. }));
        self.hands.io.accept(if self.admin.shutdown.is_some() { Accepting::OnlyUnix } else { Accepting::All });
        for (command, since) in deferred.into_iter().filter(|(command, _)| outlasts_suspension(command)) {
            self.do_late(command, since);
            self.settle();
        }
        Some(frozen.map(|frozen| frozen.kept).unwrap_or_default())
    }

    /// Reads all connections again. Kept completions have been looked at, so that a connection with one receive at a
    /// time is not given two.
    pub(crate) fn hear_everybody(&mut self) {
        for (_, client) in self.clients.iter() {
            match &client.stage {
                ClientStage::Greeting(greeting) if !greeting.is_shaking() => {
                    self.hands.io.receive(client.conn, Receive::Once);
                }
                ClientStage::Login(login) if login.waits_for().is_some() || login.is_awaiting_rate() => {
                    self.hands.io.receive(client.conn, Receive::Stream);
                }
                ClientStage::Ready(ready) => {
                    ready.receives().into_iter().for_each(|how| self.hands.io.receive(client.conn, how));
                }
                // These were read all the time, or are not to be read now.
                _ => {}
            }
        }
        for (_, server) in self.servers.iter() {
            let is_logged_in = matches!(
                server.stage(),
                ServerStage::Idle | ServerStage::Lent { .. } | ServerStage::Introducing | ServerStage::Cleaning(_)
            );
            if is_logged_in && !server.is_paused() && !server.is_silenced() {
                self.hands.io.receive(server.conn(), Receive::Stream);
            }
        }
    }

    /// Returns a completion that is to be looked at now, and keeps it otherwise. Consoles are read all the time.
    pub(crate) fn keep(&mut self, completion: Completion<I::Socket>) -> Option<Completion<I::Socket>> {
        let is_console = match completion.owner().and_then(|owner| self.owner(owner)) {
            Some(Owner::Client(client)) => {
                matches!(self.clients.get(client).map(|client| &client.stage), Some(ClientStage::Console(_)))
            }
            _ => false,
        };
        match self.admin.suspended.as_mut().and_then(|suspended| suspended.frozen.as_mut()) {
            Some(frozen) if !is_console => {
                frozen.kept.completions.push(completion);
                None
            }
            _ => Some(completion),
        }
    }

    /// Carries out a command that was put off.
    fn do_late(&mut self, command: Command, since: Time) {
        let late = self.hands.now.since(since);
        match command {
            Command::Attach { client, server, waited } => {
                self.carry_out(Command::Attach { client, server, waited: waited + late });
            }
            Command::Bind { client, server, waited } => {
                self.carry_out(Command::Bind { client, server, waited: waited + late });
            }
            // The parameters for the client may not be known any more.
            Command::Welcome { client } => {
                if let Some(pool) = self.clients.login(client).and_then(LoggingIn::waits_for) {
                    self.tell_pools(Event::Greets { pool, client });
                }
            }
            other => self.carry_out(other),
        }
    }

    /// Something is packed: from now on nothing is touched here, if it is for another process.
    pub(crate) fn freeze(&mut self) {
        let is_open = |suspended: &Suspended<_>| freezes(suspended.is_handover && suspended.frozen.is_none());
        if let Some(suspended) = self.admin.suspended.as_mut().filter(|suspended| is_open(suspended)) {
            let (clients, servers) = (HashSet::new(), HashSet::new());
            suspended.frozen = Some(Frozen { clients, servers, kept: Kept::default() });
        }
    }

    /// Notes what has been packed.
    pub(crate) fn note_packed(&mut self, clients: Vec<Key>, servers: Vec<ServerKey>) {
        if let Some(frozen) = self.admin.suspended.as_mut().and_then(|suspended| suspended.frozen.as_mut()) {
            frozen.clients.extend(clients);
            frozen.servers.extend(servers);
        }
    }

    /// The other process has what was packed: returns the clients and the idle servers that were not. Nothing is kept any longer.
    pub(crate) fn left_behind(&mut self) -> (Vec<Key>, Vec<ServerKey>) {
        let frozen = self.admin.suspended.as_mut().and_then(|suspended| suspended.frozen.take());
        let is_left = |packed: Option<&HashSet<Key>>, key: &Key| packed.is_none_or(|packed| !packed.contains(key));
        let clients = self.clients.iter().map(|(key, _)| key);
        let clients = clients.filter(|key| is_left(frozen.as_ref().map(|frozen| &frozen.clients), key)).collect();
        let idle =
            self.servers.iter().filter(|(_, server)| matches!(server.stage(), ServerStage::Idle)).map(|(key, _)| key);
        let servers = idle.filter(|key| is_left(frozen.as_ref().map(|frozen| &frozen.servers), key)).collect();
        (clients, servers)
    }

    /// Brings connections to rest, at the end of each turn in which the worker is suspended.
    pub(crate) fn come_to_rest(&mut self) {
        let now = self.hands.now;
        let suspended = self.admin.suspended.as_mut();
        if suspended.is_some_and(|suspended| suspended.tell_at.take_if(|at| *at <= now).is_some()) {
            self.tell_of_the_restless();
        }
        let suspended = self.admin.suspended.as_mut();
        if suspended.is_some_and(|suspended| suspended.until.take_if(|until| *until <= now).is_some()) {
            self.close_the_restless();
        }
        let clients =
            self.clients.iter().filter(|(_, client)| self.suspend_state_of_client(client) == SuspendState::Rests);
        let servers = self.servers.iter().filter(|(key, _)| self.suspend_state_of_server(*key) == SuspendState::Rests);
        let conns: Vec<Conn> =
            clients.map(|(_, client)| client.conn).chain(servers.map(|(_, server)| server.conn())).collect();
        for conn in conns {
            self.hands.io.pause(conn);
            if self.hands.io.unsent(conn) > 0 {
                // So that there is a turn in which we see that the bytes have been taken.
                self.hands.io.tell_when_drained(conn);
            }
        }
        if self.is_at_rest()
            && let Some(suspended) = &mut self.admin.suspended
        {
            (suspended.until, suspended.tell_at) = (None, None);
        }
    }

    /// Logs which connections have not come to rest.
    fn tell_of_the_restless(&mut self) {
        let clients = self.clients.iter().filter(|(_, client)| !self.is_client_at_rest(client)).map(|(key, _)| key);
        let clients: Vec<Key> = clients.collect();
        let is_alone = |server: &Server| server.client().is_none();
        let servers = self.servers.iter().filter(|(key, server)| is_alone(server) && !self.is_server_at_rest(*key));
        let servers: Vec<Key> = servers.map(|(key, _)| key).collect();
        let count = clients.len() + servers.len();
        if count == 0 {
            return;
        }
        let names = clients
            .iter()
            .map(|key| self.client_prefix(*key))
            .chain(servers.iter().map(|key| self.server_prefix(*key)));
        let names: Vec<String> = names.take(NAMED_MAX).map(|name| name.to_string().trim_end().to_owned()).collect();
        let what = if self.is_departing() { "online restart" } else { "SUSPEND" };
        let such = if count > names.len() { "such as " } else { "" };
        let names = names.join(", ");
        self.hands
            .log
            .add(Level::Log, format_args!("{what} waits for connections to come to rest: {count}, {such}{names}"));
    }

    /// Whether nothing of any conversation is under way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.hands.io.is_accepting_at_rest()
            && self.clients.iter().all(|(_, client)| self.is_client_at_rest(client))
            && self.servers.iter().all(|(key, _)| self.is_server_at_rest(key))
    }

    fn is_client_at_rest(&self, client: &Client) -> bool {
        self.is_at_rest_in(self.suspend_state_of_client(client), client.conn)
    }

    fn is_server_at_rest(&self, key: ServerKey) -> bool {
        let server = self.servers.get(key);
        server.is_none_or(|server| self.is_at_rest_in(self.suspend_state_of_server(key), server.conn()))
    }

    fn is_at_rest_in(&self, state: SuspendState, conn: Conn) -> bool {
        match state {
            SuspendState::Rests => self.hands.io.is_at_rest(conn),
            SuspendState::Awaited => false,
            SuspendState::Exempt => true,
        }
    }

    fn suspend_state_of_client(&self, client: &Client) -> SuspendState {
        match &client.stage {
            _ if client.is_own => SuspendState::Exempt,
            ClientStage::Greeting(greeting) if greeting.is_shaking() => SuspendState::Awaited,
            ClientStage::Greeting(_) => SuspendState::Rests,
            ClientStage::Login(login) if login.is_awaiting_rate() => SuspendState::Rests,
            // It waits for its proof, its slot, or the answer to `auth_query`.
            ClientStage::Login(login) if login.waits_for().is_none() => SuspendState::Awaited,
            ClientStage::Login(_) => SuspendState::Rests,
            ClientStage::Ready(ready) => match ready.link() {
                Link::Loan(server) => self.suspend_state_of_server(server),
                Link::None | Link::Waiting(_) | Link::AsksReplica(_) | Link::Delayed(_) => SuspendState::Rests,
            },
            ClientStage::Cancelling(_) => SuspendState::Awaited,
            ClientStage::Console(_) => SuspendState::Exempt,
        }
    }

    fn suspend_state_of_server(&self, key: ServerKey) -> SuspendState {
        let Some(server) = self.servers.get(key) else { return SuspendState::Exempt };
        let is_awaited = matches!(
            server.session().phase,
            LoanPhase::ApplyingBefore(_) | LoanPhase::Unapplied | LoanPhase::Deallocating(_) | LoanPhase::Probing(_)
        );
        match *server.stage() {
            ServerStage::Idle => SuspendState::Rests,
            ServerStage::Lent { client, .. } if self.clients.get(client).is_some_and(|client| client.is_own) => {
                SuspendState::Exempt
            }
            // Until the server has the client's settings, the client's request is held.
            ServerStage::Lent { .. } if is_awaited => SuspendState::Awaited,
            ServerStage::Lent { .. } if server.session().cancels_sent > 0 || self.cancel.is_aimed_at(key) => {
                SuspendState::Awaited
            }
            // A server with TLS cannot be handed over; its client can, once the transaction is over.
            ServerStage::Lent { .. }
                if self.is_departing() && server.security().is_some() && !server.session().exchange.may_end() =>
            {
                SuspendState::Awaited
            }
            ServerStage::Lent { .. } => SuspendState::Rests,
            // Servers that are being dialed or cleaned up have no client.
            _ => SuspendState::Exempt,
        }
    }

    fn is_departing(&self) -> bool {
        self.admin.suspended.as_ref().is_some_and(|suspended| suspended.is_handover)
    }

    /// `suspend_timeout` has passed: closes what is not at rest.
    fn close_the_restless(&mut self) {
        for key in self.clients.keys() {
            let Some(client) = self.clients.get(key) else { continue };
            let is_at_rest =
                self.is_client_at_rest(client) && client.server().is_none_or(|server| self.is_server_at_rest(server));
            match client.stage {
                _ if is_at_rest => {}
                ClientStage::Cancelling(_) => self.drop_client(key, "suspend_timeout"),
                _ => self.fail_client(key, &Fault::SuspendTimeout),
            }
            self.settle();
        }
        let restless: Vec<Key> =
            self.servers.iter().map(|(key, _)| key).filter(|&key| !self.is_server_at_rest(key)).collect();
        for key in restless {
            self.lose_server(key, Closed::Shutdown, "suspend_timeout");
            self.settle();
        }
    }
}

/// Connections that have not come to rest are logged after this time.
const TOLD_AFTER: std::time::Duration = std::time::Duration::from_secs(1);
/// So many of them are named.
const NAMED_MAX: usize = 3;

/// A suspended worker.
#[derive(Debug)]
pub(crate) struct Suspended<S> {
    /// The connections are to be handed over to another process.
    pub(super) is_handover: bool,
    /// When connections that are not at rest are closed (`suspend_timeout`); None once all are at rest.
    pub(super) until: Option<Time>,
    /// When connections that are not at rest are closed (`suspend_timeout`); kept when all are at rest.
    pub(super) limit: Option<Time>,
    /// When the connections that are not at rest are logged; None once that is done or all are at rest.
    pub(super) tell_at: Option<Time>,
    /// Commands of the pools, with their times, carried out when the worker is resumed.
    pub(super) deferred: Vec<(Command, Time)>,
    /// Set once something has been packed.
    pub(super) frozen: Option<Frozen<S>>,
}

impl<S> Suspended<S> {
    pub(super) fn new(is_handover: bool, until: Option<Time>, tell_at: Time) -> Self {
        Self { is_handover, until, limit: until, tell_at: Some(tell_at), deferred: Vec::new(), frozen: None }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.until.into_iter().chain(self.tell_at).min().filter(|_| self.frozen.is_none())
    }

    /// Returns a letter that is to be read now, and keeps it otherwise. Operators are answered: they may cancel the restart.
    pub(crate) fn keep_letter(&mut self, letter: ToWorker<S>) -> Option<ToWorker<S>> {
        let Some(frozen) = &mut self.frozen else { return Some(letter) };
        match letter {
            ToWorker::Pack { .. }
            | ToWorker::HandedOver
            | ToWorker::WakeUp
            | ToWorker::ForgetOrder { .. }
            | ToWorker::ConsoleAnswer { .. }
            | ToWorker::ConsolePart { .. }
            | ToWorker::Show { .. }
            | ToWorker::Shutdown(Shutdown::Now) => Some(letter),
            _ => {
                frozen.kept.letters.push_back(letter);
                None
            }
        }
    }
}

/// What must not be touched any more, since another process may have it already, and what has come meanwhile.
#[derive(Debug)]
pub(crate) struct Frozen<S> {
    /// The packed clients and servers.
    pub(super) clients: HashSet<Key>,
    pub(super) servers: HashSet<ServerKey>,
    pub(super) kept: Kept<S>,
}

/// Completions and letters that nothing has looked at yet.
#[derive(Debug)]
pub(crate) struct Kept<S> {
    pub(crate) completions: Vec<Completion<S>>,
    pub(crate) letters: VecDeque<ToWorker<S>>,
}

impl<S> Default for Kept<S> {
    fn default() -> Self {
        Self { completions: Vec::new(), letters: VecDeque::new() }
    }
}
