//! What role a host has, as its servers report it, and whether that is what a database asks for (`target_session_attrs`).
//!
//! Always true: of a database that asks for a role, a server is lent only if it has reported that role itself, at its login or since;
//! a server whose report no longer fits is closed as soon as no client has it, and so are the others of its database at that
//! host, once in 15 seconds at most.
//! Not here: which host is tried next (`pool::HostChoice`), what follows when no host fits (`failure`, `outages`).

use config::{Database, SessionAttrs};
use measure::HostRole;
use pool::{Event, Failure, FailureKind, ServerKey, Suits};
use protocol::fault::EndedBy;
use protocol::vars::READ_ONLY;
use reactor::{Io, Level};
use wire::notice::Notice;

use crate::data::server::{Server, ServerStage};
use crate::planted::is_role_heeded;
use crate::reports::ReportKind;
use crate::upstream::dialed_host::RoleQuestion;
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
        if self.in_recovery { HostRole::Standby } else { HostRole::Primary }
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
            // The primary has changed while the server was being dialed.
            _ if !self.is_at_its_primary(key) => self.shows(key, Suits::No, attrs),
            // It has fallen behind meanwhile.
            _ if !self.may_be_read(key) => self.shows(key, Suits::No, attrs),
            _ if attrs == SessionAttrs::Any => self.shows(key, Suits::Yes, attrs),
            Some(reported) => self.shows(key, reported.suits(attrs), attrs),
            None => {
                self.ask_for_role(key, attrs);
                false
            }
        }
    }

    /// A server that is being dialed has shown how well its host suits. Returns whether it is used; if not, it is gone, and another
    /// host is tried, if there is one.
    fn shows(&mut self, key: ServerKey, suits: Suits, attrs: SessionAttrs) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        let place = server.host().place();
        let choice = &mut self.registry.database_at_mut(server.database()).host_choice;
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
        if server.dedicated().is_some_and(|dedicated| !dedicated.takes_queries()) {
            self.dial_failed(
                key,
                Failure::refused(NOT_SUPPORTED, "PostgreSQL before 14 does not tell its role to physical replication"),
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
        server.enters(ServerStage::Introducing);
        server.host_mut().question_is(RoleQuestion::Asked);
        server.ask(&mut self.hands.io, &format!("select 1 / case when {fits} then 1 else 0 end"));
    }

    /// A server that is not ready yet has answered everything. Returns whether that was the question about its role.
    pub(crate) fn has_proved_role(&mut self, key: ServerKey) -> bool {
        let question = self.servers.get_mut(key).map(|server| server.host_mut().take_question()).unwrap_or_default();
        let attrs = self.attrs_of(key).unwrap_or_default();
        let is_used = match question {
            RoleQuestion::None => return false,
            RoleQuestion::Asked => {
                if let Some(role) = proved_role(attrs) {
                    self.note_role(key, role);
                }
                self.shows(key, Suits::Yes, attrs)
            }
            RoleQuestion::Settled => true,
        };
        if is_used {
            self.begin_introduction(key);
        }
        true
    }

    /// A query of ours has failed. Returns whether that was the question about the role.
    pub(crate) fn has_disproved_role(&mut self, key: ServerKey, notice: &Notice) -> bool {
        let question = self.servers.get_mut(key).map(|server| server.host_mut().take_question());
        if question != Some(RoleQuestion::Asked) {
            return false;
        }
        if notice.sqlstate != DIVISION_BY_ZERO {
            let failure = Failure::unreachable("cannot ask for the role of the host");
            self.dial_failed(key, failure.explained(Some(&notice.message), None));
            return true;
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
        if self.shows(key, suits, attrs)
            && let Some(server) = self.servers.get_mut(key)
        {
            // It is not ready before its `ReadyForQuery`.
            server.host_mut().question_is(RoleQuestion::Settled);
        }
        true
    }

    /// A server reports another role than at its login: it has been promoted, or made read-only.
    #[cold]
    pub(crate) fn role_reported(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key) else { return };
        // What `connect_query` sets, or a client's last request that is being cleaned up, says nothing about the host: at the end of
        // the cleanup the reports are looked at again.
        if !is_role_heeded(matches!(server.stage(), ServerStage::Idle | ServerStage::Lent { .. })) {
            return;
        }
        let Some(reported) = self.reported_by(server) else { return };
        self.note_role(key, reported.role());
        let Some(attrs) = self.attrs_of(key) else { return };
        let Some(server) = self.servers.get(key) else { return };
        let choice = &mut self.registry.database_at_mut(server.database()).host_choice;
        if choice.shows(server.host().place(), reported.suits(attrs)) {
            return;
        }
        // A client can cause this report by a function that nobody reads: then only its own server is replaced.
        if choice.leaves(server.host().place(), self.hands.now, LEFT_EVERY) {
            self.leave_host(key, attrs);
        } else {
            self.retired_by(key, EndedBy::Renewal);
            self.tell_pools(Event::RetireServer { server: key });
        }
    }

    /// A server has refused a write (SQLSTATE 25006), perhaps because its host is a standby by now. If the host is one of those that
    /// report nothing, its servers are replaced; if its name may lead elsewhere, the name is looked up.
    #[cold]
    pub(crate) fn write_refused(&mut self, key: ServerKey) {
        let Some(attrs) = self.attrs_of(key) else { return };
        let Some(server) = self.servers.get(key) else { return };
        let (place, name) = (server.host().place(), server.host().name().clone());
        let reported = self.reported_by(server);
        let choice = &mut self.registry.database_at_mut(server.database()).host_choice;
        let may_have_moved = attrs == SessionAttrs::Any && reported.is_some_and(|reported| reported.in_recovery);
        let writes = matches!(attrs, SessionAttrs::ReadWrite | SessionAttrs::Primary);
        let is_doubtful = writes && reported.is_none();
        if !(may_have_moved || is_doubtful) || !choice.leaves(place, self.hands.now, LEFT_EVERY) {
            return;
        }
        if may_have_moved {
            self.names.look_up_again(&name, &self.hands);
        } else {
            choice.forget(place);
            self.leave_host(key, attrs);
        }
    }

    /// Has the servers of a database at the host of this one replaced, each as soon as no client has it.
    fn leave_host(&mut self, key: ServerKey, attrs: SessionAttrs) {
        let Some(server) = self.servers.get(key) else { return };
        let (database, host, address) = (server.database(), server.host().clone(), server.address().cloned());
        let why = mismatch(attrs);
        self.log_server(key, Level::Warning, format_args!("replacing the servers at this host: {why}"));
        let is_there = |server: &Server| {
            let is_open =
                matches!(server.stage(), ServerStage::Idle | ServerStage::Lent { .. } | ServerStage::Cleaning(_));
            let is_same =
                server.host().is_like(&host) && (!host.name().is_empty() || server.address() == address.as_ref());
            server.database() == database && is_open && server.dedicated().is_none() && is_same
        };
        let there: Vec<_> = self.servers.iter().filter(|(_, server)| is_there(server)).map(|(key, _)| key).collect();
        for server in there {
            self.retired_by(server, EndedBy::Renewal);
            self.tell_pools(Event::RetireServer { server });
        }
    }

    /// What a server has reported last.
    fn reported_by(&self, server: &Server) -> Option<Reported> {
        let (vars, tracked) = (&server.session().vars, &self.hands.active.tracked);
        Reported::read(|name| vars.get(tracked.reported_place(name)?))
    }

    fn attrs_of(&self, key: ServerKey) -> Option<SessionAttrs> {
        let database = self.servers.get(key)?.database();
        Some(self.registry.database_at(database).entry.as_ref()?.target_session_attrs)
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
/// `division_by_zero` and `feature_not_supported` (PostgreSQL, `errcodes.txt`).
const DIVISION_BY_ZERO: &str = "22012";
const NOT_SUPPORTED: [u8; 5] = *b"0A000";
/// How often at most all servers of a database at a host are replaced for the report or the error of one.
const LEFT_EVERY: std::time::Duration = std::time::Duration::from_secs(15);
