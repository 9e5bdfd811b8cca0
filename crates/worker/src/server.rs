//! A server, and what becomes of the bytes it sends.
//!
//! Always true: the exchange counts every message before anybody is given it; what is not owed closes the server and its
//! client and is counted in `protocol_surprises`; bytes that go to the client are not copied.
//! Not here: how it is reached (`dial`), lent (`loan`) and cleaned (`mend`).

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::Time;
use base::planted::{self, Planted};
use pool::{ClientKey, Linger, PoolKey, ServerKey};
use protocol::exchange::Answered;
use protocol::fault::Fault;
use protocol::loan::{AnswerFate, ServerSession};
use protocol::server::login::ServerLogin;
use protocol::vars::Vars;
use reactor::tls::{Demand, Security};
use reactor::{Address, Chunk, Conn, Io, TimerId};
use wire::backend::{self, TxStatus};
use wire::frame::Part;
use wire::{MESSAGE_BYTES_MAX, Step, write};

use crate::catalog::changes_catalog;
use crate::listen::{ear_and_traces, has_ear};
use crate::mend::Cleaning;
use crate::own_news::Withheld;
use crate::places::Welcome;
use crate::private::Private;
use crate::statements::reworded_for;
use crate::turn::Worker;

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) conn: Conn,
    /// Its number in the logs and on the console.
    pub(crate) id: u64,
    pub(crate) pool: PoolKey,
    pub(crate) database: u32,
    /// Where it is; a cancel request goes there too.
    pub(crate) address: Option<Address>,
    /// Its host as it is configured, which its certificate may have to name.
    pub(crate) host: Arc<str>,
    /// How it is secured, if it is.
    pub(crate) security: Option<Arc<Security>>,
    /// Since when it has been dialed.
    pub(crate) since: Time,
    pub(crate) stage: Stage,
    /// Whose it is alone, if it is nobody else's.
    pub(crate) private: Option<Box<Private>>,
    /// What it has been sent and has answered.
    pub(crate) session: ServerSession,
    /// Who has had it last.
    pub(crate) last_client: Option<ClientKey>,
    /// What its login and `connect_query` have told, until it is ready for its first client.
    pub(crate) welcome: Option<Rc<Welcome>>,
    /// Process id and secret, for cancel requests.
    pub(crate) cancel_key: Box<[u8]>,
    pub(crate) is_paused: bool,
    /// It tells of functions, and is received from buffer by buffer.
    pub(crate) is_slowed: bool,
    /// It owes so many answers that its client waits for some before it is heard again.
    pub(crate) is_full: bool,
    /// What it has said and its client is not given yet.
    pub(crate) withheld: Option<Box<Withheld>>,
    /// What it has said as the session for all, and is looked at in the turns that come ([`Task::GoOn`](crate::backlog::Task::GoOn)).
    pub(crate) later: Option<VecDeque<Chunk>>,
    /// Its client is given that now.
    pub(crate) is_released: bool,
    /// Whether it stays with a client that may come back at once.
    pub(crate) linger: Linger,
    pub(crate) timer: Option<(TimerId, Time)>,
    /// When the present query and transaction began.
    pub(crate) query_since: Option<Time>,
    pub(crate) xact_since: Option<Time>,
    /// What TLS with it was begun by: cancel requests for it are secured alike, whatever a reload has changed.
    pub(crate) demand: Option<Arc<Demand>>,
    /// When it last said something.
    pub(crate) heard: Time,
    /// When its client's last request had been answered.
    pub(crate) answered: Time,
    /// When it was last asked something by somebody new.
    pub(crate) asked: Time,
    /// How many queries it was asked; names the one that a cancel request is meant for.
    pub(crate) query_number: u64,
}

/// What it is doing.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The name of its host is being looked up.
    Resolving,
    /// It is being connected.
    Connecting,
    /// TLS with it is being agreed on.
    Securing(Securing),
    /// It is being logged in to.
    Login(Box<ServerLogin>),
    /// It runs `connect_query`.
    Introducing,
    /// It waits for a loan.
    Idle,
    /// It is lent.
    Lent {
        /// To whom.
        client: ClientKey,
        /// While the server first takes over that client's parameters.
        catching_up: Option<CatchingUp>,
    },
    /// It is made clean.
    Cleaning(Cleaning),
}

/// Where the request is for which a server takes over parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CatchingUp {
    /// It waits for that, since then.
    Before(Time),
    /// The server has it already.
    Along,
    /// The server has it, and has not been told anything, since what is asked depends on nothing that differs. Nothing else is
    /// sent before it has been told.
    Untold,
}

/// How far TLS with a server is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Securing {
    /// It has been asked whether it speaks TLS.
    Asked,
    /// It does, and hands are being shaken.
    Shaking,
}

impl Server {
    /// One that is about to be dialed.
    pub(crate) fn new(conn: Conn, id: u64, pool: PoolKey, database: u32, vars: Rc<Vars>, now: Time) -> Self {
        Self {
            conn,
            id,
            pool,
            database,
            address: None,
            host: "".into(),
            security: None,
            since: now,
            stage: Stage::Resolving,
            private: None,
            session: ServerSession::new(vars),
            last_client: None,
            welcome: None,
            cancel_key: Box::default(),
            is_paused: false,
            is_slowed: false,
            is_full: false,
            withheld: None,
            later: None,
            is_released: false,
            linger: Linger::default(),
            timer: None,
            query_since: None,
            xact_since: None,
            demand: None,
            heard: now,
            answered: now,
            asked: now,
            query_number: 0,
        }
    }

    /// Whom it is lent to.
    pub(crate) fn client(&self) -> Option<ClientKey> {
        match self.stage {
            Stage::Lent { client, .. } => Some(client),
            _ => None,
        }
    }

    /// The process that serves it, as its key for cancel requests has it; 0 before it is logged in.
    pub(crate) fn pid(&self) -> u32 {
        self.cancel_key.first_chunk().map_or(0, |pid| u32::from_be_bytes(*pid))
    }
}

impl<I: Io> Worker<I> {
    /// Bytes have come from a server.
    pub(crate) fn server_received(&mut self, key: ServerKey, chunk: Chunk) {
        let lines_up = self.lines_up(key);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.heard = self.now;
        let (is_full, is_slowed) = (server.is_full, server.is_slowed);
        self.places.databases[server.database as usize].totals.sent += chunk.len() as u64;
        match server.stage {
            _ if server.withheld.is_some() => self.withhold_more(key, chunk),
            _ if server.later.is_some() || lines_up => self.keep_for_later(key, chunk),
            Stage::Login(_) => self.login_answered(key, chunk.bytes(), 0),
            Stage::Securing(_) => self.tls_answered(key, chunk.bytes()),
            _ => self.converse(key, chunk, 0),
        }
        if is_full {
            self.hear_again(key);
        }
        if is_slowed {
            self.receive_next(key);
        }
    }

    /// Looks at each message from `from` on, and sends the client its part.
    pub(crate) fn converse(&mut self, key: ServerKey, chunk: Chunk, from: usize) {
        let (mut start, mut at) = (from, from);
        let end = chunk.len();
        while at < end {
            if self.backlog.is_spent() && self.is_for_later(key) {
                self.give_client(key, &chunk, start..at);
                self.keep_rest_for_later(key, chunk.part(at..end));
                return;
            }
            let Some(server) = self.servers.get_mut(key) else { return };
            let piece = match server.session.scanner.next(chunk.bytes(), at, MESSAGE_BYTES_MAX) {
                Step::Piece(piece) => piece,
                Step::More => {
                    // The torn header is kept by the scanner and sent with the rest of its message.
                    self.give_client(key, &chunk, start..at);
                    return;
                }
                Step::Bad { kind, .. } => {
                    self.give_client(key, &chunk, start..at);
                    self.surprised(key, kind, "bad pkt header");
                    return;
                }
            };
            let is_first = matches!(piece.part, Part::First { .. });
            let is_cut = !matches!(piece.part, Part::First { carried: 0, .. });
            // What a ReadyForQuery says stands in its body, so it is counted when that has come.
            let is_counted = if piece.kind == backend::READY_FOR_QUERY { piece.is_last() } else { is_first };
            let was_ours = server.session.exchange.is_ours();
            let server = if is_first && server.linger.is_waiting() && server.session.exchange.owes_nothing() {
                // It says so to nobody: its client is told no more than by a server that it does not have.
                self.give_client(key, &chunk, start..piece.range.start);
                start = piece.range.start;
                self.end_linger(key);
                let Some(server) = self.servers.get_mut(key) else { return };
                server
            } else {
                server
            };
            if piece.kind == backend::ERROR_RESPONSE
                && server.client().is_none()
                && server.session.exchange.owes_nothing()
            {
                let body = piece.is_whole().then(|| &chunk.bytes()[piece.body]);
                self.farewell(key, body);
                return;
            }
            let is_ready = is_counted && piece.kind == backend::READY_FOR_QUERY && !was_ours;
            if is_ready && server.session.reported_name.is_some() {
                self.give_client(key, &chunk, start..piece.range.start);
                start = piece.range.start;
                self.keeps_its_name(key);
            }
            if is_ready && self.is_to_be_withheld(key, &chunk.bytes()[piece.body.clone()]) {
                self.withhold(key, &chunk, start..piece.range.start, piece.range.end);
                return;
            }
            let Some(server) = self.servers.get_mut(key) else { return };
            let mut is_hidden = false;
            let mut reworded = None;
            if is_counted {
                match server.session.exchange.answered(piece.kind, &chunk.bytes()[piece.body.clone()]) {
                    Ok(answered) => is_hidden = answered == Answered::Hidden,
                    Err(surprise) => {
                        self.give_client(key, &chunk, start..piece.range.start);
                        self.surprised(key, surprise.kind, "unexpected answer");
                        return;
                    }
                }
                if server.session.again.is_sent() && !was_ours {
                    server
                        .session
                        .again
                        .answered(piece.kind, piece.is_whole().then(|| &chunk.bytes()[piece.body.clone()]));
                }
                if piece.kind == backend::READY_FOR_QUERY && server.session.stock.is_dropping() {
                    server.session.stock.drops_end();
                }
                if server.session.exchange.has_outcome() {
                    self.settle_statements(key);
                }
            }
            let has_caught_up =
                was_ours && self.servers.get(key).is_some_and(|server| !server.session.exchange.is_ours());
            let Some(server) = self.servers.get_mut(key) else { return };
            if server.session.exchange.has_lost_steps() && server.client().is_some() {
                self.give_client(key, &chunk, start..piece.range.start);
                self.statements_lost(key);
                return;
            }
            let has_due = piece.is_last() && server.session.exchange.has_due();
            if is_first {
                let is_ours = was_ours
                    && piece.kind != backend::NOTIFICATION_RESPONSE
                    && !(planted::is(Planted::OurAnswerForwarded) && piece.kind == backend::COMMAND_COMPLETE);
                // A torn ReadyForQuery is given whole when its status has come: it may be withheld then.
                let is_torn_ready = piece.kind == backend::READY_FOR_QUERY && (is_cut || !piece.is_last());
                let is_echo = server.session.is_told_along
                    && piece.kind == backend::PARAMETER_STATUS
                    && piece.is_whole()
                    && server
                        .client()
                        .and_then(|client| self.clients.get(client))
                        .is_some_and(|client| client.has_set(&self.force.tracked, &chunk.bytes()[piece.body.clone()]));
                let is_heard = piece.kind == backend::NOTIFICATION_RESPONSE
                    && server.client().is_some_and(|client| has_ear(&self.clients, client));
                let is_refused = server.session.again.is_refused()
                    && matches!(piece.kind, backend::ERROR_RESPONSE | backend::READY_FOR_QUERY);
                let is_by_the_way = piece.kind == backend::PARAMETER_STATUS && server.session.exchange.is_hiding();
                let is_withheld = is_heard
                    || is_by_the_way
                    || is_ours
                    || is_hidden
                    || is_torn_ready
                    || is_echo
                    || is_refused
                    || server.client().is_none();
                let is_error = !is_withheld && piece.kind == backend::ERROR_RESPONSE && piece.is_whole();
                let client = server.client().filter(|_| is_error).and_then(|client| self.clients.get_mut(client));
                reworded = client.and_then(|client| reworded_for(client, &chunk.bytes()[piece.body.clone()]));
                let fate = if is_withheld || reworded.is_some() { AnswerFate::Swallow } else { AnswerFate::Forward };
                server.session.fate = fate;
                if fate == AnswerFate::Forward
                    && !planted::is(Planted::TornHeaderLost)
                    && let Part::First { carried: carried @ 1.., .. } = piece.part
                {
                    let torn: Box<[u8]> = server.session.scanner.header()[..usize::from(carried)].into();
                    self.give_client_own(key, torn);
                }
            }
            let Some(server) = self.servers.get_mut(key) else { return };
            let tells_lock = server.session.tells_lock;
            if server.session.fate == AnswerFate::Swallow {
                let mine = start..piece.range.start;
                start = piece.range.end;
                self.give_client(key, &chunk, mine);
                if was_ours && self.answers_too_long(key, &piece) {
                    return;
                }
            }
            reworded.into_iter().for_each(|error| self.give_client_own(key, error));
            at = piece.range.end;
            if is_first
                && piece.kind == backend::COMMAND_COMPLETE
                && changes_catalog(&chunk.bytes()[piece.body.clone()])
            {
                self.catalog_changes(key);
            }
            if tells_lock && !was_ours && piece.kind == backend::READY_FOR_QUERY && piece.is_last() {
                self.end_lock_row(key);
            }
            match piece.kind {
                // It is what it was before, as soon as the server has read what it was changed for.
                backend::PARAMETER_STATUS
                    if self.servers.get(key).is_some_and(|server| server.session.exchange.is_hiding()) => {}
                backend::PARAMETER_STATUS | backend::ERROR_RESPONSE => {
                    self.collect(key, piece.kind, &chunk.bytes()[piece.body.clone()], piece.is_last());
                }
                backend::READY_FOR_QUERY
                    if piece.is_last()
                        && self.servers.get(key).is_some_and(|server| server.session.again.is_refused()) =>
                {
                    self.say_again(key);
                }
                backend::READY_FOR_QUERY if piece.is_last() && !was_ours && self.breaks_statement_mode(key) => {
                    // The client is not told that its transaction is open, but that it cannot be.
                    self.give_client(key, &chunk, start..piece.range.start);
                    start = at;
                    if let Some(client) = self.servers.get(key).and_then(Server::client) {
                        self.fail_client(client, &Fault::TransactionInStatementMode);
                    }
                }
                backend::READY_FOR_QUERY if piece.is_last() && is_cut => {
                    if !was_ours {
                        let mut ready = Vec::new();
                        let status =
                            self.servers.get(key).map_or(TxStatus::Idle, |server| server.session.exchange.status());
                        write::ready_for_query(&mut ready, status);
                        self.give_client_own(key, ready.into());
                    }
                    self.give_due(key);
                    self.server_ready(key, was_ours);
                }
                // A COPY whose client has left would wait for its data for ever.
                backend::COPY_IN_RESPONSE | backend::COPY_BOTH_RESPONSE if is_first => self.cleaning_goes_on(key),
                backend::READY_FOR_QUERY if piece.is_last() => {
                    // What has been counted so far is the client's before anything else happens.
                    if at == end && start == 0 && !has_due {
                        self.give_client_whole(key, chunk);
                        self.server_ready(key, was_ours);
                        return;
                    }
                    self.give_client(key, &chunk, start..at);
                    start = at;
                    self.give_due(key);
                    self.server_ready(key, was_ours);
                }
                // A row of which a part has been collected is collected to its end, even if nobody looks any more.
                backend::DATA_ROW
                    if was_ours && self.servers.get(key).is_some_and(|server| server.session.is_told_rows()) =>
                {
                    self.collect(key, piece.kind, &chunk.bytes()[piece.body.clone()], piece.is_last());
                }
                backend::DATA_ROW if tells_lock && !was_ours => {
                    self.lock_row(key, piece.is_whole().then(|| &chunk.bytes()[piece.body.clone()]));
                }
                backend::NOTIFICATION_RESPONSE
                    if self.servers.get(key).is_some_and(|server| server.session.fate == AnswerFate::Swallow) =>
                {
                    self.collect(key, piece.kind, &chunk.bytes()[piece.body.clone()], piece.is_last());
                }
                backend::COMMAND_COMPLETE if has_caught_up => {
                    if let Some(client) = self.servers.get(key).and_then(Server::client) {
                        self.caught_up(key, client);
                    }
                }
                backend::COMMAND_COMPLETE if self.has_tag_to_read(key, &piece, chunk.bytes()) => {
                    self.collect(key, piece.kind, &chunk.bytes()[piece.body.clone()], piece.is_last());
                }
                _ => {}
            }
            if has_due && piece.kind != backend::READY_FOR_QUERY {
                self.give_client(key, &chunk, start..at);
                start = at;
                self.give_due(key);
            }
        }
        if start == 0 {
            self.give_client_whole(key, chunk);
        } else {
            self.give_client(key, &chunk, start..end);
        }
    }

    /// The server has said that it is ready for a query, and its client has been given that.
    pub(crate) fn server_ready(&mut self, key: ServerKey, was_ours: bool) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let behind =
            if server.session.look_in_advance.is_some() { server.take_look_in_advance(was_ours) } else { None };
        let mut has_made_functions = false;
        if !was_ours {
            server.session.is_told_along = false;
            let place = &mut self.places.databases[server.database as usize];
            has_made_functions = server.tell_of_catalog(place, &mut self.places.scopes, behind.is_some());
            server.count_ends(self.now, &mut place.totals);
        }
        let client = server.client();
        if has_made_functions {
            self.tell_of_functions(key);
        }
        let (listens, has_traces) = ear_and_traces(&self.clients, client);
        client.iter().filter(|_| listens || has_traces).for_each(|client| self.end_own_news(key, *client));
        if let Some(look) = behind {
            self.answers_next(key, look);
            return;
        }
        let Some(server) = self.servers.get(key) else { return };
        match server.stage {
            Stage::Lent { client, catching_up: Some(_) } => self.caught_up(key, client),
            Stage::Lent { client, .. } if server.session.look.is_some() => self.looked(key, client),
            Stage::Lent { client, .. } => self.end_loan_if_over(key, client),
            Stage::Cleaning(_) => self.cleaning_goes_on(key),
            Stage::Introducing => self.introduced(key),
            Stage::Idle | Stage::Resolving | Stage::Connecting | Stage::Securing(_) | Stage::Login(_) => {}
        }
        if let Some(client) = client.filter(|_| listens) {
            self.ask_again(client);
            self.tell_news(client);
        }
    }
}
