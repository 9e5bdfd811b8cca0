//! What becomes of the bytes that a server sends.
//!
//! Always true: the exchange counts every message before it is passed on; a message that is not owed closes the server
//! and its client and is counted in `protocol_violations`; bytes that go to the client are not copied.
//! Not here: logins (`upstream::login`), what the answers to our own queries mean (`answered`).

use std::ops::Range;

use measure::Phase;
use pool::{Mode, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{Answers, LoanPhase, Place, ServerEvent, ToClient};
use reactor::{Chunk, Conn, Io};

use crate::data::client::{Client, ClientStage, Ready, subscriptions_and_session_effects};
use crate::data::counts::Ends;
use crate::data::flow::unpinned_for;
use crate::data::server::{Server, ServerStage};
use crate::reads::take_back::give_or_withhold;
use crate::reads::withheld::Withheld;
use crate::registry::PoolPlace;
use crate::worker::Worker;

/// Sends to a client what its server has sent.
struct Given<'a, I: Io> {
    io: &'a mut I,
    conn: Option<Conn>,
    chunk: &'a Chunk,
    is_any: bool,
    /// What a replica has answered, if the client is not given that yet.
    withheld: Option<&'a mut Option<Withheld>>,
}

impl<I: Io> Given<'_, I> {
    fn give(&mut self, chunk: Chunk) {
        if let Some(conn) = self.conn {
            if let Some(withheld) = self.withheld.as_deref_mut().filter(|withheld| withheld.is_some()) {
                self.is_any |= give_or_withhold(self.io, conn, withheld, chunk);
                return;
            }
            let chunk = unpinned_for(self.io, conn, chunk);
            self.io.send(conn, chunk);
            self.is_any = true;
        }
    }
}

impl<I: Io> ToClient for Given<'_, I> {
    fn part(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.give(self.chunk.part(range));
        }
    }

    fn send(&mut self, bytes: Box<[u8]>) {
        self.give(Chunk::Own(bytes));
    }
}

impl<I: Io> Worker<I> {
    /// Handles bytes of a server.
    pub(crate) fn server_received(&mut self, key: ServerKey, chunk: Chunk) {
        let lines_up = self.lines_up(key);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.last_received = self.hands.now;
        let (is_full, is_slowed) = (server.is_full, server.is_slowed);
        self.registry.database_at_mut(server.database).totals.sent += chunk.len() as u64;
        match server.stage {
            _ if server.withheld.is_some() => self.withhold_more(key, chunk),
            _ if server.later.is_some() || lines_up => self.keep_for_later(key, chunk),
            ServerStage::Login(_) => {
                if let Some(at) = self.login_answered(key, chunk.bytes()) {
                    self.converse(key, Chunk::Own(chunk.bytes()[at..].into()));
                }
            }
            ServerStage::Securing(_) => self.tls_answered(key, chunk.bytes()),
            _ => self.answer_at_once(key, chunk),
        }
        if is_full {
            self.hear_again(key);
        }
        if is_slowed {
            self.receive_next(key);
        }
    }

    /// Looks at the bytes of a server, and forwards to its client what is the client's.
    pub(crate) fn converse(&mut self, key: ServerKey, chunk: Chunk) {
        self.converse_from(key, chunk, Place::default());
    }

    /// Does the same for bytes of which those up to [`Place::at`] have been looked at.
    pub(super) fn converse_from(&mut self, key: ServerKey, chunk: Chunk, mut place: Place) {
        while place.at < chunk.len() {
            if self.notify.is_spent() && self.is_for_later(key) {
                self.give_client(key, &chunk, place.start..place.at);
                self.keep_rest_for_later(key, chunk.part(place.at..chunk.len()));
                return;
            }
            if self.servers.get(key).is_some_and(Server::is_held_for_affinity) {
                // A held server sends something unasked. End the hold first, so that its client gets no more than it
                // would get without a server.
                self.give_client(key, &chunk, place.start..place.at);
                place.start = place.at;
                self.end_affinity_hold(key);
            }
            let Some(heard) = self.hear_server_some(key, &chunk, &mut place) else { return };
            match heard {
                ServerEvent::All => {}
                ServerEvent::Unexpected { kind, what } => return self.server_violates_protocol(key, kind, what),
                ServerEvent::FatalError(body) => return self.note_fatal_error(key, body),
                ServerEvent::Lost => return self.statements_lost(key),
                ServerEvent::Endless => return self.close_endless(key),
                ServerEvent::Withheld => return self.withhold(key, &chunk, place.at),
                ServerEvent::Ready { was_ours } if place == (Place { start: 0, at: chunk.len() }) => {
                    self.give_client_whole(key, chunk);
                    return self.server_ready(key, was_ours);
                }
                ServerEvent::Ready { was_ours } => {
                    // What has been counted so far is sent to the client before anything else happens.
                    self.give_client(key, &chunk, place.start..place.at);
                    place.start = place.at;
                    self.server_ready(key, was_ours);
                }
                ServerEvent::Refused => {
                    if !self.repeat_request(key) {
                        self.server_ready(key, false);
                    }
                }
                ServerEvent::InTransaction => {
                    if let Some(client) = self.servers.get(key).and_then(Server::client) {
                        self.fail_client(client, &Fault::TransactionInStatementMode);
                    }
                }
                ServerEvent::CaughtUp => {
                    if let Some(client) = self.servers.get(key).and_then(Server::client) {
                        self.caught_up(key, client);
                    }
                }
                ServerEvent::Error(body) => self.own_error(key, &body),
                ServerEvent::QueryFailed(_) if self.is_error_withheld(key) => {}
                ServerEvent::QueryFailed(state) => self.count_failed_query(key, state),
                ServerEvent::Notification(body) => self.notified(key, &body),
                ServerEvent::Functions => self.slow_down(key),
                ServerEvent::CatalogChange => self.catalog_changes(key),
                ServerEvent::RoleReport => self.role_reported(key),
                ServerEvent::CopyBegins => {
                    self.give_client(key, &chunk, place.start..place.at);
                    place.start = place.at;
                    self.note_copy_wait(key);
                    // A COPY FROM STDIN whose client has left would wait for its data for ever.
                    self.continue_cleanup(key);
                }
            }
        }
        if place.start == 0 {
            self.give_client_whole(key, chunk);
        } else {
            self.give_client(key, &chunk, place.start..chunk.len());
        }
    }

    /// Looks at the bytes of a server up to something that concerns more than the server and its client.
    fn hear_server_some<'b>(&mut self, key: ServerKey, chunk: &'b Chunk, place: &mut Place) -> Option<ServerEvent<'b>> {
        let withholds = self.withholds(key);
        let server = self.servers.get_mut(key)?;
        let (client_key, shares_parameters) = match server.stage {
            ServerStage::Lent { client } => (Some(client), server.session.phase.shares_parameters()),
            _ => (None, false),
        };
        let client = client_key.and_then(|client| self.clients.get_mut(client));
        let (mut session, mut conn, mut is_listener, mut withheld) = (None, None, false, None);
        if let Some(Client { conn: its, is_listener: listens, stage: ClientStage::Ready(ready), .. }) = client {
            // Anything that could mix two clients' bytes aborts the process: a restart costs a second, a mixed answer
            // cannot be undone.
            assert!(ready.has_loan_of(key), "an answer was to be given to a client that has another server");
            let Ready { session: its_session, routing, .. } = ready;
            (session, conn, is_listener) = (Some(its_session), Some(*its), *listens);
            withheld = routing.as_mut().and_then(|routing| routing.withheld());
        }
        let is_statement = |place: &PoolPlace| place.mode == Mode::Statement;
        let mut answers = Answers {
            tracked: &self.hands.active.tracked,
            known: &mut self.known_vars,
            shares_parameters,
            is_listener,
            is_statement_mode: server.dedicated.is_none() && self.registry.pool(server.pool).is_some_and(is_statement),
            withholds,
        };
        let mut to_client = Given { io: &mut self.hands.io, conn, chunk, is_any: false, withheld };
        let heard = answers.hear(session, &mut server.session, chunk.bytes(), place, &mut to_client);
        if let Some(client) = client_key.filter(|_| to_client.is_any) {
            self.mind_flow_to_client(client, key);
        }
        Some(heard)
    }

    /// The server has sent `ReadyForQuery`, and its client has been given it.
    pub(crate) fn server_ready(&mut self, key: ServerKey, was_ours: bool) {
        let reader = self.servers.get(key).filter(|server| server.is_replica() && !was_ours).and_then(Server::client);
        if let Some(client) = reader {
            self.read_is_answered(key, client);
        }
        let Some(server) = self.servers.get_mut(key) else { return };
        let is_asked_behind = server.comes_to_probe(was_ours);
        let mut has_made_functions = false;
        let mut ends = Ends::Nothing;
        if !was_ours {
            server.session.is_applied_along = false;
            let (place, scopes) = self.registry.database_and_scopes(server.database);
            has_made_functions = server.tell_of_catalog(place, scopes, is_asked_behind);
            ends = server.count_ends(self.hands.now, &mut place.totals);
        }
        let client = server.client();
        if server.sampled.is_some() {
            match client {
                _ if ends != Ends::Nothing => self.count_statement(key, client),
                Some(client) if !was_ours => self.trace_first_answer(client, key),
                _ => {}
            }
        }
        match (client, ends) {
            (Some(client), Ends::Transaction) => {
                if let Some(spent) = self.count_transaction(client) {
                    self.end_course(client, &spent);
                }
            }
            (Some(client), Ends::Request) => self.enters(client, Phase::Thinking),
            (_, Ends::Nothing) | (None, _) => {}
        }
        if has_made_functions {
            self.tell_of_functions(key);
        }
        let (listens, has_session_effects) = subscriptions_and_session_effects(&self.clients, client);
        client.iter().filter(|_| listens || has_session_effects).for_each(|client| self.end_own_news(key, *client));
        if is_asked_behind {
            self.answers_next(key);
            return;
        }
        let Some(server) = self.servers.get(key) else { return };
        match server.stage {
            ServerStage::Lent { client } => match server.session.phase {
                LoanPhase::ApplyingBefore(_)
                | LoanPhase::ApplyingAlong
                | LoanPhase::Unapplied
                | LoanPhase::Deallocating(_) => {
                    self.caught_up(key, client);
                }
                LoanPhase::Probing(_) => self.probed(key, client),
                _ => self.end_loan_if_over(key, client),
            },
            ServerStage::Cleaning(_) => self.continue_cleanup(key),
            ServerStage::Introducing => self.introduced(key),
            ServerStage::Idle
            | ServerStage::Resolving
            | ServerStage::Connecting(_)
            | ServerStage::Securing(_)
            | ServerStage::Login(_) => {}
        }
        if let Some(client) = client.filter(|_| listens) {
            self.ask_again(client);
            self.tell_news(client);
        }
    }
}
