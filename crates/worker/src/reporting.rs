//! Decides which events are reported to the control thread.
//!
//! Always true: a lasting condition is reported when it begins and when it ends.
//! Not here: how many reports there may be (`reports`).

use std::sync::Arc;

use base::{Key, cut};
use config::with_port;
use measure::Closed;
use pool::{Failure, FailureKind, PoolKey, ServerKey};
use protocol::fault::Fault;
use reactor::{Address, Io};

use crate::data::client::ClientStage;
use crate::letters::ToControl;
use crate::reports::{REPORT_TEXT_BYTES_MAX, Report, ReportKind};
use crate::timers::Timer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Queues a report to the control thread.
    pub(crate) fn report(
        &mut self,
        kind: ReportKind,
        class: &'static str,
        (database, user): (Arc<str>, Arc<str>),
        host: &str,
        detail: &str,
    ) {
        let at = self.hands.io.wall();
        let (host, detail) = (host.into(), cut(detail, REPORT_TEXT_BYTES_MAX).into());
        self.reports.add(Report { kind, class, database, user, host, detail, at, count: 1 });
        if !self.reports.arm() {
            self.hands.timers.insert(self.reports.due(self.hands.now), Timer::Reports);
        }
    }

    /// Sends the queued reports.
    pub(crate) fn send_reports(&mut self) {
        let (reports, dropped) = self.reports.tell(self.hands.now);
        (self.hands.posts.control)(ToControl::Reports { from: self.hands.id, reports, dropped });
    }

    /// A client was refused.
    pub(crate) fn report_refused_login(&mut self, key: Key, fault: &Fault) {
        let Some(client) = self.clients.get(key).filter(|client| !client.is_own) else { return };
        let names = match &client.stage {
            ClientStage::Greeting(_) => (Arc::default(), Arc::default()),
            ClientStage::Login(login) => (
                cut(&login.request().database, REPORT_TEXT_BYTES_MAX).into(),
                cut(&login.request().user, REPORT_TEXT_BYTES_MAX).into(),
            ),
            ClientStage::Cancelling(_) | ClientStage::Console(_) | ClientStage::Ready(_) => return,
        };
        let (host, _) = self.address_of_peer(client);
        self.report(ReportKind::LoginRefused, fault.name(), names, &host, &fault.text());
    }

    /// A server was closed because of a fault.
    pub(crate) fn report_closed_server(&mut self, key: ServerKey, cause: Closed, why: &str) {
        if !matches!(cause, Closed::Dirty | Closed::Lost) {
            return;
        }
        let (Some(names), Some(host)) = (self.names_of_server(key), self.host_of_server(key)) else { return };
        self.report(ReportKind::ServerFault, cause.word(), names, &host, why);
    }

    /// A login at a host has failed with this kind of failure, whatever follows from it for the pool.
    pub(crate) fn report_failed_dial(&mut self, key: ServerKey, pool: PoolKey, kind: FailureKind, failure: &Failure) {
        // A pool whose logins have failed before is not reported again.
        if self.pools.has_failed(pool) {
            return;
        }
        let (Some(names), Some(host)) = (self.names_of_server(key), self.host_of_server(key)) else { return };
        // Of a database with several hosts the pool goes on with another one, and has not failed.
        let has_others = self.registry.entry_of(pool).is_some_and(|entry| entry.hosts.len() > 1);
        if has_others && self.hosts.is_unreachable(&host) {
            return;
        }
        match kind {
            FailureKind::Refused => {
                self.report(ReportKind::ServerFault, "login", names, &host, &failure.text);
            }
            FailureKind::Unreachable | FailureKind::Passing | FailureKind::Elsewhere => {
                self.report(ReportKind::HostDown, "", names, &host, &failure.words());
            }
        }
    }

    /// A login has succeeded.
    pub(crate) fn report_dialed(&mut self, key: ServerKey, pool: PoolKey) {
        if let (Some(names), Some(host)) = (self.names_of_server(key), self.host_of_server(key))
            && (self.pools.has_failed(pool) || self.hosts.is_unreachable(&host))
        {
            self.report(ReportKind::HostUp, "", names, &host, "a login has succeeded");
        }
    }

    pub(crate) fn names_of_server(&self, key: ServerKey) -> Option<(Arc<str>, Arc<str>)> {
        let place = self.registry.pool(self.servers.get(key)?.pool())?;
        Some((place.database_name.clone(), place.user_name.clone()))
    }

    /// The host of a server with its port, as `config::Host::at` names it; `None` if no host has been chosen.
    pub(crate) fn host_of_server(&self, key: ServerKey) -> Option<String> {
        let server = self.servers.get(key)?;
        let host = match server.address() {
            Some(Address::Unix(path)) => path.to_string(),
            Some(Address::Abstract(name)) => format!("@{name}"),
            Some(Address::Tcp(_)) | None if server.host().name().is_empty() => return None,
            Some(Address::Tcp(_)) | None => with_port(server.host().name(), server.host().port()),
        };
        Some(host)
    }
}
