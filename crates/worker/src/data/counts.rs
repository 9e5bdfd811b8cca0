//! Counts queries and transactions of servers, for `SHOW STATS` and the timeouts.
//!
//! Always true: a query counts when it is sent, its time when all is answered.
//! Not here: where the counts are read (`admin::snapshot`, `deadlines`).

use base::Time;
use pool::ServerKey;
use reactor::Io;
use wire::backend::TxStatus;

use crate::data::server::Server;
use crate::letters::Totals;
use crate::worker::Worker;

impl Server {
    /// `count` messages of a client were each the first after everything before had been answered.
    pub(crate) fn queries_begin(&mut self, count: u32, now: Time, totals: &mut Totals) {
        if count == 0 {
            return;
        }
        self.request_time = now;
        self.query_number += u64::from(count);
        self.query_since = Some(now);
        totals.query_count += u64::from(count);
        if self.xact_since.is_none() {
            self.xact_since = Some(now);
            totals.xact_count += 1;
        }
    }

    /// The server is ready: counts the request and the transaction that have ended, and returns which has.
    pub(crate) fn count_ends(&mut self, now: Time, totals: &mut Totals) -> Ends {
        if !self.session.exchange.owes_client_nothing() {
            return Ends::Nothing;
        }
        if let Some(since) = self.query_since.take() {
            totals.query_time += now.since(since).as_micros() as u64;
            self.answered = now;
        }
        if self.session.exchange.status() == TxStatus::Idle
            && let Some(since) = self.xact_since.take()
        {
            totals.xact_time += now.since(since).as_micros() as u64;
        }
        if self.xact_since.is_none() { Ends::Transaction } else { Ends::Request }
    }
}

/// What ends with a `ReadyForQuery`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    /// Nothing: the server owes more.
    Nothing,
    /// The client's request, within its transaction.
    Request,
    /// The transaction.
    Transaction,
}

impl<I: Io> Worker<I> {
    /// Takes back the count of a request that was counted when it was sent, but never began.
    pub(crate) fn uncount(&mut self, server: ServerKey) {
        let Some(server) = self.servers.get(server) else { return };
        let totals = &mut self.registry.database_at_mut(server.database).totals;
        totals.query_count -= u64::from(server.query_since.is_some());
        totals.xact_count -= u64::from(server.xact_since.is_some());
    }
}
