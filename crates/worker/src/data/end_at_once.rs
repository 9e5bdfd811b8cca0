//! An answer that arrives whole and is all that its client waits for: it is given to the client where it is received, and if it
//! ends the loan, the server is returned there.
//!
//! Always true: nothing is done here that `converse`, `loan_over` and `settle` would not do for the same bytes, in the same order;
//! where anybody else looks at the answer, or the server needs anything before its next loan, it goes their way.
//! Not here: which answers nobody looks at (`protocol::loan`), who gets the server next (crate `pool`).

use std::time::Duration;

use measure::Phase;
use pool::{ClientKey, Command, ServerKey};
use protocol::loan::{Place, hear_plain, rests_as_it_is};
use reactor::{Chunk, Io};
use wire::backend::TxStatus;

use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::flow::unpinned_for;
use crate::data::server::{Server, ServerStage};
use crate::lookups::QUEUE_BYTES_MARK;
use crate::planted::has_plain_ways;
use crate::worker::Worker;

/// Bytes of a server that are not dealt with at once.
struct GoesOn {
    chunk: Chunk,
    /// How far they have been looked at.
    place: Place,
    /// Whether the server is ready there.
    is_ready: bool,
}

/// A request that has been answered at once.
enum Answered {
    /// It stands in a transaction, which goes on.
    InTransaction,
    /// It was the last of the loan.
    Over {
        client: ClientKey,
        /// The client that has the server next, and for how long it has waited.
        next: Option<(ClientKey, Duration)>,
    },
}

impl<I: Io> Worker<I> {
    /// Handles bytes of a server, which may be lent.
    #[inline]
    pub(super) fn answer_at_once(&mut self, server: ServerKey, chunk: Chunk) {
        match self.end_at_once(server, chunk) {
            Ok(Answered::InTransaction) => self.arm_server(server),
            Ok(Answered::Over { client, next }) => {
                if let Some(spent) = self.count_transaction(client) {
                    self.end_course(client, &spent);
                }
                if self.registry.has_idle_timeouts() {
                    self.arm_client(client);
                }
                if let Some((client, waited)) = next {
                    self.carry_out(Command::Attach { client, server, waited });
                }
            }
            Err(GoesOn { chunk, place, is_ready: true }) if place.at == chunk.len() => {
                self.give_client_whole(server, chunk);
                self.server_ready(server, false);
            }
            Err(GoesOn { chunk, mut place, is_ready }) => {
                if is_ready {
                    self.give_client(server, &chunk, 0..place.at);
                    place.start = place.at;
                    self.server_ready(server, false);
                }
                self.converse_from(server, chunk, place);
            }
        }
    }

    /// Gives the client an answer that is all it has waited for, and returns its server if the transaction is over. Otherwise
    /// returns how far the bytes have been looked at.
    fn end_at_once(&mut self, server_key: ServerKey, chunk: Chunk) -> Result<Answered, GoesOn> {
        let mut goes_on = GoesOn { chunk, place: Place::default(), is_ready: false };
        let settings = &self.hands.active.settings;
        let is_looked_at = settings.session_verify || settings.log_min_duration_transaction.is_some();
        if is_looked_at || !has_plain_ways() || !self.hands.tasks.is_empty() || self.admin.is_resting() {
            return Err(goes_on);
        }
        let Some(server) = self.servers.get_mut(server_key) else { return Err(goes_on) };
        let ServerStage::Lent { client: client_key } = server.stage else { return Err(goes_on) };
        let Some(Client {
            stage: ClientStage::Ready(ready),
            is_listener: false,
            tracers: 0,
            conn: client_conn,
            answered,
            ..
        }) = self.clients.get_mut(client_key)
        else {
            return Err(goes_on);
        };
        let is_by_transaction = self.registry.pool(server.pool).is_some_and(|place| place.ends_at_once);
        let database = self.registry.database_at_mut(server.database);
        let may_end = is_by_transaction
            && ready.has_loan_of(server_key)
            && server.answers_only_its_client()
            && ready.asks_only_its_server()
            && ready.meter.is_known(&ready.session.vars, &self.applications)
            && !database.listening.has_session();
        if !may_end {
            return Err(goes_on);
        }
        goes_on.is_ready = hear_plain(&ready.session, &mut server.session, goes_on.chunk.bytes(), &mut goes_on.place);
        let is_all = goes_on.is_ready && goes_on.place.at == goes_on.chunk.len();
        let unsent = self.hands.io.unsent(*client_conn) + goes_on.chunk.len();
        if !is_all || unsent > NEARLY_SLOW {
            return Err(goes_on);
        }
        let (now, is_over, mut next) = (self.hands.now, !server.stays_in_transaction(), None);
        if is_over {
            if !rests_as_it_is(&server.session, &ready.session) {
                return Err(goes_on);
            }
            let fingerprint = server.fingerprint();
            if !self.pools.take_back(now, server_key, fingerprint) {
                next = self.pools.pass_on(now, server_key, fingerprint);
                if next.is_none() {
                    return Err(goes_on);
                }
            }
        }
        let chunk = unpinned_for(&self.hands.io, *client_conn, goes_on.chunk);
        self.hands.io.send(*client_conn, chunk);
        ready.meter.division.go_on(now, Phase::FirstByte, Phase::Streaming);
        server.count_ends(now, &mut database.totals);
        if !is_over {
            ready.meter.division.enter(now, Phase::Thinking);
            return Ok(Answered::InTransaction);
        }
        *answered = (*answered).max(server.answered);
        ready.session.counting.ends();
        ready.link = Link::None;
        server.comes_to_rest();
        Ok(Answered::Over { client: client_key, next })
    }
}

impl Server {
    /// Whether what it sends concerns nobody but its client, and is given to it as it comes.
    fn answers_only_its_client(&self) -> bool {
        !self.is_paused
            && !self.is_full
            && !self.is_slowed
            && self.withheld.is_none()
            && self.later.is_none()
            && self.dedicated.is_none()
            && self.sampled.is_none()
            && !self.affinity_hold.is_waiting()
    }

    /// Whether the transaction goes on, in which the server has answered everything.
    fn stays_in_transaction(&self) -> bool {
        let Server { session, xact_since: Some(_), .. } = self else { return false };
        session.phase.is_running() && session.exchange.owes_nothing() && session.exchange.status() != TxStatus::Idle
    }
}

impl Ready {
    /// Whether the client waits for its server's answers alone, and has sent nothing else.
    fn asks_only_its_server(&self) -> bool {
        self.held.is_none()
            && !self.is_paused
            && self.session.subscriptions.is_none()
            && !self.session.overrides.as_ref().is_some_and(|overrides| overrides.acts_at_rest())
    }
}

/// Unsent bytes of a client up to which it is certainly not too slow, however many more TLS makes of them.
const NEARLY_SLOW: usize = QUEUE_BYTES_MARK / 2;
