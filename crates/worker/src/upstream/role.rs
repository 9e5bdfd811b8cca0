//! What role a host has, as its servers report it, and whether that is what a database asks for (`target_session_attrs`).
//!
//! Always true: of a database that asks for a role, a server is lent only if it has reported that role itself, at its login or since;
//! a server whose report no longer fits is closed as soon as no client has it, together with the others of its database
//! at that host.
//! Not here: which host is tried next (`pool::HostChoice`), what follows when no host fits (`failure`, `outages`).

use config::{Database, SessionAttrs};
use measure::HostRole;
use pool::{Event, Failure, FailureKind, ServerKey, Suits};
use protocol::fault::EndedBy;
use reactor::{Io, Level};

use crate::data::server::{Server, ServerStage};
use crate::registry::DatabasePlace;
use crate::reports::ReportKind;
use crate::worker::Worker;

/// What a server reports of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reported {
    /// It is in recovery (`in_hot_standby`).
    in_recovery: bool,
    /// Its transactions are read-only unless they ask for something else (`default_transaction_read_only`).
    is_read_only: bool,
}

impl Reported {
    /// Reads the values of the two parameters; `None` if one is not reported, as before PostgreSQL 14.
    pub(crate) fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let is_on = |name| Some(value(name)? == "on");
        Some(Self { in_recovery: is_on(IN_HOT_STANDBY)?, is_read_only: is_on(READ_ONLY)? })
    }

    /// The role of the host.
    pub(crate) fn role(self) -> HostRole {
        match self {
            Self { in_recovery: true, .. } => HostRole::Standby,
            Self { is_read_only: true, .. } => HostRole::ReadOnly,
            Self { .. } => HostRole::Primary,
        }
    }

    /// Whether the host is what a database asks for.
    fn suits(self, attrs: SessionAttrs) -> Suits {
        let Self { in_recovery, is_read_only } = self;
        let is_suitable = match attrs {
            SessionAttrs::Any => true,
            SessionAttrs::ReadWrite => !in_recovery && !is_read_only,
            SessionAttrs::ReadOnly => in_recovery || is_read_only,
            SessionAttrs::Primary => !in_recovery,
            SessionAttrs::Standby => in_recovery,
            SessionAttrs::PreferStandby if !in_recovery => return Suits::Second,
            SessionAttrs::PreferStandby => true,
        };
        if is_suitable { Suits::Yes } else { Suits::No }
    }
}

/// Whether a database asks for a role of its hosts.
pub(crate) fn asks_for_role(entry: &Database) -> bool {
    entry.target_session_attrs != SessionAttrs::Any
}

/// Whether only one of the hosts can be what a database asks for.
pub(super) fn has_one_host_at_a_time(entry: &Database) -> bool {
    matches!(entry.target_session_attrs, SessionAttrs::ReadWrite | SessionAttrs::Primary)
}

impl<I: Io> Worker<I> {
    /// A login is complete. Returns whether the server is used as far as the role of its host matters; if not, it is gone, or its
    /// answer to a question about its role is to come.
    pub(crate) fn fits_its_database(&mut self, key: ServerKey, reported: Option<Reported>) -> bool {
        if let Some(reported) = reported {
            self.note_role(key, reported.role());
        }
        let Some(attrs) = self.attrs_of(key) else { return true };
        match reported {
            _ if attrs == SessionAttrs::Any => self.shows(key, Suits::Yes, attrs),
            Some(reported) => self.shows(key, reported.suits(attrs), attrs),
            None => {
                self.ask_for_role(key, attrs);
                false
            }
        }
    }

    /// The server is not used, because its host is not what the database asks for. Another one is tried, if there is one.
    fn shows(&mut self, key: ServerKey, suits: Suits, attrs: SessionAttrs) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        let place = server.host.place();
        let choice = &mut self.registry.databases[server.database as usize].host_choice;
        if choice.shows(place, suits) {
            return true;
        }
        let kind = if choice.goes_on() { FailureKind::Elsewhere } else { FailureKind::Passing };
        self.host_does_not_suit(key, Failure { kind, ..Failure::unreachable(mismatch(attrs)) });
        false
    }

    /// Asks a server that does not report its role, as before PostgreSQL 14: the statement fails if the role does not fit.
    fn ask_for_role(&mut self, key: ServerKey, attrs: SessionAttrs) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if server.dedicated.as_ref().is_some_and(|dedicated| !dedicated.takes_queries()) {
            self.dial_failed(
                key,
                Failure::unproved("PostgreSQL before 14 does not report its role to physical replication"),
            );
            return;
        }
        let fits = match attrs {
            SessionAttrs::Any => "true",
            SessionAttrs::ReadWrite => "pg_catalog.current_setting('transaction_read_only') = 'off'",
            SessionAttrs::ReadOnly => "pg_catalog.current_setting('transaction_read_only') = 'on'",
            SessionAttrs::Primary => "not pg_catalog.pg_is_in_recovery()",
            SessionAttrs::Standby | SessionAttrs::PreferStandby => "pg_catalog.pg_is_in_recovery()",
        };
        server.stage = ServerStage::Introducing;
        server.host.asks_for_role();
        server.ask(&mut self.hands.io, &format!("select 1 / case when {fits} then 1 else 0 end"));
    }

    /// The question about the role has been answered without an error, or the server is one of those that are not asked. Returns
    /// whether it was the answer to that question.
    pub(crate) fn has_proved_role(&mut self, key: ServerKey) -> bool {
        if !self.servers.get_mut(key).is_some_and(|server| server.host.is_answered()) {
            return false;
        }
        let attrs = self.attrs_of(key).unwrap_or_default();
        if let Some(role) = proved_role(attrs) {
            self.note_role(key, role);
        }
        if self.shows(key, Suits::Yes, attrs) {
            self.begin_introduction(key);
        }
        true
    }

    /// A query of ours has failed. Returns whether that was the question about the role.
    pub(crate) fn has_disproved_role(&mut self, key: ServerKey) -> bool {
        if !self.servers.get_mut(key).is_some_and(|server| server.host.is_answered()) {
            return false;
        }
        let attrs = self.attrs_of(key).unwrap_or_default();
        let (suits, role) = match attrs {
            SessionAttrs::PreferStandby => (Suits::Second, Some(HostRole::Primary)),
            SessionAttrs::Standby => (Suits::No, Some(HostRole::Primary)),
            SessionAttrs::Primary => (Suits::No, Some(HostRole::Standby)),
            SessionAttrs::Any | SessionAttrs::ReadWrite | SessionAttrs::ReadOnly => (Suits::No, None),
        };
        if let Some(role) = role {
            self.note_role(key, role);
        }
        if self.shows(key, suits, attrs) {
            self.begin_introduction(key);
        }
        true
    }

    /// A server reports another role than at its login: it has been promoted, or made read-only.
    #[cold]
    pub(crate) fn role_reported(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        let vars = &server.session.vars;
        let tracked = &self.hands.active.tracked;
        let Some(reported) = Reported::read(|name| vars.get(tracked.reported_place(name)?)) else { return };
        self.note_role(key, reported.role());
        let Some(attrs) = self.attrs_of(key) else { return };
        if reported.suits(attrs) == Suits::No {
            self.leave_host(key, attrs);
        } else {
            self.shows(key, reported.suits(attrs), attrs);
        }
    }

    /// A server of which the database asks that it can write has refused a write (SQLSTATE 25006): its host may have been demoted
    /// without a report.
    #[cold]
    pub(crate) fn write_refused(&mut self, key: ServerKey) {
        let Some(attrs) = self.attrs_of(key) else { return };
        let Some(server) = self.servers.get(key) else { return };
        let vars = &server.session.vars;
        let tracked = &self.hands.active.tracked;
        // A client may have made its own transaction or session read-only; then the report of its server says nothing new.
        let reported = Reported::read(|name| vars.get(tracked.reported_place(name)?));
        let is_doubtful = match (attrs, reported) {
            (SessionAttrs::Any, Some(reported)) => reported.in_recovery,
            (SessionAttrs::ReadWrite | SessionAttrs::Primary, None) => true,
            _ => false,
        };
        if is_doubtful {
            self.leave_host(key, SessionAttrs::ReadWrite);
        }
    }

    /// Has the servers of a database at the host of this one replaced, each as soon as no client has it; if that has been done a
    /// moment ago, this one alone, since a client may be the cause.
    fn leave_host(&mut self, key: ServerKey, attrs: SessionAttrs) {
        let Some(server) = self.servers.get(key) else { return };
        let (database, host) = (server.database, server.host.clone());
        let DatabasePlace { host_choice, left_hosts, .. } = &mut self.registry.databases[database as usize];
        host_choice.forget(host.place());
        let is_left = left_hosts.happens(self.hands.now, LEFT_EVERY).is_none();
        if !is_left {
            let why = mismatch(attrs);
            self.log_server(key, Level::Warning, format_args!("replacing the servers at this host: {why}"));
        }
        let is_like = |server: &Server| server.database == database && server.host.is_like(&host);
        let is_there = |(other, server): &(ServerKey, &Server)| *other == key || !is_left && is_like(server);
        let there: Vec<_> = self.servers.iter().filter(is_there).map(|(key, _)| key).collect();
        for server in there {
            self.retired_by(server, EndedBy::Renewal);
            self.tell_pools(Event::RetireServer { server });
        }
    }

    fn attrs_of(&self, key: ServerKey) -> Option<SessionAttrs> {
        let database = self.servers.get(key)?.database;
        Some(self.registry.databases[database as usize].entry.as_ref()?.target_session_attrs)
    }

    fn note_role(&mut self, key: ServerKey, role: HostRole) {
        let Some(host) = self.host_of_server(key) else { return };
        if let Some(former) = self.hosts.has_role(self.hands.now, &host, role) {
            let (former, role) = (former.word(), role.word());
            self.log_server(key, Level::Log, format_args!("host {host} is {role} now (was {former})"));
            if let Some(names) = self.names_of_server(key) {
                self.report(ReportKind::HostRole, role, names, &host, &format!("{role} (was {former})"));
            }
        }
    }
}

/// The role of a host that has answered the question for a database without an error, as far as that tells it.
fn proved_role(attrs: SessionAttrs) -> Option<HostRole> {
    match attrs {
        SessionAttrs::ReadWrite | SessionAttrs::Primary => Some(HostRole::Primary),
        SessionAttrs::Standby | SessionAttrs::PreferStandby => Some(HostRole::Standby),
        SessionAttrs::Any | SessionAttrs::ReadOnly => None,
    }
}

/// Why a host is not what a database asks for, in the words of libpq.
fn mismatch(attrs: SessionAttrs) -> &'static str {
    match attrs {
        SessionAttrs::ReadWrite => "session is read-only",
        SessionAttrs::ReadOnly => "session is not read-only",
        SessionAttrs::Any | SessionAttrs::Primary => "server is in hot standby mode",
        SessionAttrs::Standby | SessionAttrs::PreferStandby => "server is not in hot standby mode",
    }
}

const IN_HOT_STANDBY: &str = "in_hot_standby";
const READ_ONLY: &str = "default_transaction_read_only";
/// How often at most all servers of a database at a host are replaced for the report or the error of one.
const LEFT_EVERY: std::time::Duration = std::time::Duration::from_secs(15);
