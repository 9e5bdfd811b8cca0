//! Which failures count as such: failed logins at servers, lost servers, refused and disconnected clients, failed queries.
//!
//! Always true: each is counted where it happens, on its own path only; a transaction that succeeds is not looked at.
//! What an operator or a limit for idle clients ends on purpose is no failure, nor is a client of our own workers.
//! Not here: how failures are counted (`measure`), what is said of them (`control::failing`).

use base::{Key, cut};
use measure::{Closed, Failing, Failure, LoginEnd};
use pool::{FailureKind, PoolKey, ServerKey};
use protocol::fault::Fault;
use reactor::Io;

use crate::data::client::{Client, ClientStage};
use crate::data::server::ServerStage;
use crate::letters::FailingQueries;
use crate::registry::DatabasePlace;
use crate::reports::REPORT_TEXT_BYTES_MAX;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client is closed with this error.
    pub(crate) fn count_failed_client(&mut self, key: Key, fault: &Fault) {
        if is_intended(fault) {
            return;
        }
        let text = fault.text();
        self.waiting_client_fails(key, &text);
        let Some(client) = self.clients.get(key).filter(|client| !client.is_own) else { return };
        let (kind, database, user) = match &client.stage {
            ClientStage::Greeting(_) => (Failing::ClientLogin, "", ""),
            ClientStage::Login(login) => (Failing::ClientLogin, &*login.request().database, &*login.request().user),
            ClientStage::Ready(ready) => {
                let Some(place) = self.registry.pool(ready.pool()) else { return };
                (Failing::Client, &*place.database_name, &*place.user_name)
            }
            ClientStage::Cancelling(_) | ClientStage::Console(_) => return,
        };
        let (database, user) = (cut(database, NAME_BYTES_MAX), cut(user, NAME_BYTES_MAX));
        let text = cut(&text, REPORT_TEXT_BYTES_MAX);
        self.failures.add(self.hands.now, Failure { kind, reason: fault.name(), database, user, text });
    }

    /// A TLS handshake with a client has failed, which may be because of our own certificate.
    pub(crate) fn count_failed_tls(&mut self, key: Key, why: &str) {
        let Some(Client { stage: ClientStage::Greeting(_), .. }) = self.clients.get(key) else { return };
        let text = format!("TLS handshake error: {}", cut(why, REPORT_TEXT_BYTES_MAX));
        let failure =
            Failure { kind: Failing::ClientLogin, reason: "TlsHandshake", database: "", user: "", text: &text };
        self.failures.add(self.hands.now, failure);
    }

    /// A login at a server has failed.
    pub(crate) fn count_failed_server_login(&mut self, key: ServerKey, kind: FailureKind, failure: &pool::Failure) {
        let Some(server) = self.servers.get(key) else { return };
        // A host that refuses the login, or whose session cannot be prepared after it (`connect_query`), has answered.
        let has_answered = kind != FailureKind::Unreachable || matches!(server.stage(), ServerStage::Introducing);
        let (pool, words) = (server.pool(), failure.words());
        let text = cut(&words, REPORT_TEXT_BYTES_MAX);
        self.note_host(key, if has_answered { LoginEnd::Refused(text) } else { LoginEnd::Unreachable(text) });
        let reason = match kind {
            FailureKind::Unreachable => "unreachable",
            FailureKind::Refused => "refused",
            FailureKind::Passing | FailureKind::Elsewhere => "passing",
        };
        self.count_failure_of_pool(pool, Failing::ServerLogin, reason, &words);
    }

    /// A login at the host of a server has ended.
    pub(crate) fn note_host(&mut self, key: ServerKey, end: LoginEnd<'_>) {
        if let Some(host) = self.host_of_server(key) {
            self.hosts.login_ends(self.hands.now, &host, end);
        }
    }

    /// A server that had logged in is closed.
    pub(crate) fn count_lost_server(&mut self, key: ServerKey, cause: Closed, why: &str) {
        if let Some(server) = self.servers.get(key).filter(|server| server.is_counted() && cause == Closed::Lost) {
            self.count_failure_of_pool(server.pool(), Failing::Server, cause.word(), why);
        }
    }

    /// A client has received an error from its server.
    pub(crate) fn count_failed_query(&mut self, key: ServerKey, state: [u8; 5]) {
        let Some(server) = self.servers.get_mut(key) else { return };
        // A pipeline counts as one query.
        if server.client().is_none() || !server.fails_query() {
            return;
        }
        let place = self.registry.database_at_mut(server.database());
        place.totals.error_count += 1;
        let queries = place.totals.query_count;
        place.failed_queries.get_or_insert_default().fails(self.hands.now, queries, state);
        if state == READ_ONLY_SQL_TRANSACTION {
            self.write_refused(key);
        }
    }

    /// The databases in which queries fail more often than usually.
    pub(crate) fn failing_queries(&self, place: &DatabasePlace) -> Option<FailingQueries> {
        let excess = place.failed_queries.as_ref()?.excess(self.hands.now, place.totals.query_count)?;
        Some(FailingQueries { database: place.name.clone(), excess })
    }

    /// A client that waits for a server gets an error instead.
    fn waiting_client_fails(&mut self, key: Key, why: &str) {
        let pool = match self.clients.get(key).map(|client| &client.stage) {
            Some(ClientStage::Login(login)) => login.waits_for(),
            Some(ClientStage::Ready(ready)) if ready.link().waits_since().is_some() => Some(ready.pool()),
            _ => None,
        };
        pool.into_iter().for_each(|pool| self.fails_to_serve(pool, why));
    }

    /// A pool could not serve a client that has waited.
    pub(crate) fn fails_to_serve(&mut self, pool: PoolKey, why: &str) {
        if let Some(place) = self.registry.pool_mut(pool) {
            place.watched.fails(why);
        }
    }

    fn count_failure_of_pool(&mut self, pool: PoolKey, kind: Failing, reason: &'static str, text: &str) {
        let Some(place) = self.registry.pool(pool) else { return };
        let (database, user) = (&*place.database_name, &*place.user_name);
        let text = cut(text, REPORT_TEXT_BYTES_MAX);
        self.failures.add(self.hands.now, Failure { kind, reason, database, user, text });
    }
}

/// Whether a client is closed with this error because somebody wanted that.
fn is_intended(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::AdminDisconnect
            | Fault::ClientIdleTimeout
            | Fault::ConfigurationChanged { .. }
            | Fault::DatabaseRemoved { .. }
            | Fault::HandedOver
            | Fault::IdleSessionTimeout
            | Fault::PrimaryLeft { .. }
            | Fault::ServersShuttingDown
            | Fault::ShutdownTimeout { .. }
            | Fault::ShuttingDown
            | Fault::SuspendTimeout
    )
}

/// A write in a transaction that may only read, as all are on a standby (PostgreSQL, `errcodes.txt`).
const READ_ONLY_SQL_TRANSACTION: [u8; 5] = *b"25006";
/// More of a name that a client has sent is not kept.
const NAME_BYTES_MAX: usize = 64;
