//! Cleaning begins: resets, checks, and servers that their clients left behind.
//!
//! Always true: a server that is not proven clean within its time is closed, never lent.
//! Not here: what has to be said to a server to make it clean (`protocol::server::mend`), what its answers mean (`cleanup`).

use config::CheckQuery;
use measure::Closed;
use pool::{Event, Fingerprint, Return, ServerKey};
use protocol::server::mend::{Mend, Progress};
use reactor::Io;
use wire::write;

use crate::data::server::Stage;
use crate::upstream::cleaning::{Cleaning, DISCARD_ALL, Kind, hopeless, is_at_work, proven, unfit};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Runs the reset query.
    pub(crate) fn reset(&mut self, key: ServerKey) {
        let sql = self.force.settings.server_reset_query.clone().unwrap_or_default();
        self.ask_server(key, &sql, Kind::Reset);
    }

    /// Runs the check query.
    pub(crate) fn check(&mut self, key: ServerKey) {
        let sql = match &self.force.settings.server_check_query {
            CheckQuery::Sql(sql) => sql.to_string(),
            CheckQuery::Empty | CheckQuery::Off => String::new(),
        };
        self.ask_server(key, &sql, Kind::Check);
    }

    fn ask_server(&mut self, key: ServerKey, sql: &str, kind: Kind) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let mut out = Vec::new();
        write::query(&mut out, sql);
        server.session.exchange.asks_ours();
        server.stage = Stage::Cleaning(Cleaning::new(self.now, kind));
        self.io.send(server.conn, out.into());
        self.hear_server(key);
        self.arm_server(key);
    }

    /// The query of a server has run into `query_timeout`. One that is well answers a cancel request at once, and is kept; one that hangs
    /// must not keep its place in the pool for as long again.
    pub(crate) fn hurry_cleaning(&mut self, key: ServerKey) {
        if let Some(Stage::Cleaning(cleaning)) = self.servers.get_mut(key).map(|server| &mut server.stage) {
            cleaning.is_hurried = true;
            self.arm_server(key);
        }
    }

    /// Begins to mend a server that its client has left behind.
    pub(crate) fn mend(&mut self, key: ServerKey, is_torn: bool) {
        self.mend_with(key, is_torn, None);
    }

    /// The same, and at its end the server is told this instead of what its pool would have it told.
    pub(crate) fn mend_with(&mut self, key: ServerKey, is_torn: bool, instead: Option<&str>) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if is_torn {
            let why = hopeless(&server.session.exchange, "client disconnect before everything was sent to the server");
            self.doom(key, why);
            return;
        }
        let is_reset = self.pools.limits(server.pool).is_some_and(|limits| limits.reset);
        let reset = self.force.settings.server_reset_query.as_deref().filter(|_| is_reset);
        let reset = instead.or(reset);
        let mut out = Vec::new();
        // A cancel request that is still on its way would hit what we ask next.
        let is_aimed_at = server.session.cancels_sent > 0 && server.session.exchange.owes_nothing();
        let (mend, progress) = if is_aimed_at {
            (Mend::new(reset), Progress::Wait)
        } else {
            Mend::begin(&mut server.session.exchange, reset, &mut out)
        };
        if progress == Progress::Hopeless {
            let why = unfit(&server.session.exchange);
            self.doom(key, why);
            return;
        }
        if !out.is_empty() {
            self.io.send(server.conn, out.into());
        }
        self.begin_cleaning(key, Kind::Mend(mend));
        if progress == Progress::WantsCancel {
            self.cancel_server(key, None);
        }
        self.progressed(key, progress);
    }

    /// Closes a server that nobody can have after the client that has left it: as soon as it does nothing any more. PostgreSQL does not notice
    /// that a connection is closed before it has something to say: without a cancel request it would go on, and no limit would count it.
    pub(crate) fn doom(&mut self, key: ServerKey, why: &'static str) {
        let Some(server) = self.servers.get(key) else { return };
        let heard = Some(server.heard);
        if is_at_work(&server.session.exchange) && self.cancel_server(key, None) {
            self.begin_cleaning(key, Kind::Doomed { why, heard });
        } else {
            self.lose_server(key, Closed::Dirty, why);
        }
    }

    /// A server is still to tell what its client has left on it, and that may be nothing that anybody must be kept from.
    pub(crate) fn await_probe(&mut self, key: ServerKey) {
        self.begin_cleaning(key, Kind::Probe);
    }

    fn begin_cleaning(&mut self, key: ServerKey, kind: Kind) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let told = match server.stage {
            Stage::Lent { .. } => Some(server.session.life.phase()).filter(|phase| phase.is_applying()),
            _ => None,
        };
        server.stage = Stage::Cleaning(Cleaning { told, ..Cleaning::new(self.now, kind) });
        (server.query_since, server.xact_since) = (None, None);
        self.resume_server(key);
        self.hear_server(key);
        self.tell_pools(Event::Returned { server: key, as_: Return::Mending, fingerprint: Fingerprint::default() });
        self.arm_server(key);
    }

    /// It has told that: it is clean, or has to discard everything.
    pub(crate) fn end_probe(&mut self, key: ServerKey, is_clean: bool) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if is_clean {
            let progress = proven(&server.session.exchange);
            return self.progressed(key, progress);
        }
        let mut out = Vec::new();
        let (mend, progress) = Mend::begin(&mut server.session.exchange, Some(DISCARD_ALL), &mut out);
        server.stage = Stage::Cleaning(Cleaning::new(self.now, Kind::Mend(mend)));
        self.io.send(server.conn, out.into());
        self.arm_server(key);
        self.progressed(key, progress);
    }

    /// A loan has ended well, but cancel requests at the server have not: nobody gets it before they have.
    pub(crate) fn hold_for_cancels(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.stage = Stage::Cleaning(Cleaning::new(self.now, Kind::AwaitCancels));
        self.tell_pools(Event::Returned { server: key, as_: Return::Mending, fingerprint: Fingerprint::default() });
        self.arm_server(key);
    }

    pub(crate) fn progressed(&mut self, key: ServerKey, progress: Progress) {
        let Some(server) = self.servers.get_mut(key) else { return };
        match progress {
            Progress::Wait | Progress::WantsCancel => {}
            Progress::Hopeless => {
                let why = hopeless(&server.session.exchange, "could not be made clean");
                self.lose_server(key, Closed::Dirty, why);
            }
            Progress::Clean if server.session.cancels_sent > 0 => {
                if let Stage::Cleaning(cleaning) = &mut server.stage {
                    cleaning.kind = Kind::AwaitCancels;
                }
            }
            Progress::Clean => {
                server.comes_to_rest();
                self.tell_pools(Event::Cleaned { server: key });
            }
        }
    }

    /// A cancel request has come to its end: when the query of a client that left still runs, it gets another one. `was_sent` says that
    /// PostgreSQL has sent the signal.
    pub(crate) fn plan_another_cancel(&mut self, key: ServerKey, was_sent: bool) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let Stage::Cleaning(cleaning) = &mut server.stage else { return };
        let is_wanted = match &mut cleaning.kind {
            Kind::Mend(_) => server.session.exchange.is_running(),
            Kind::Doomed { heard, .. } => {
                heard.take_if(|_| !was_sent);
                true
            }
            _ => false,
        };
        if is_wanted {
            cleaning.cancel_again = Some(self.now + cleaning.cancel_pause);
            cleaning.cancel_pause *= 2;
            self.arm_server(key);
        }
    }

    /// The time for another cancel request has come.
    pub(crate) fn cancel_again(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let Stage::Cleaning(cleaning) = &mut server.stage else { return };
        cleaning.cancel_again = None;
        if let Kind::Doomed { why, heard } = &mut cleaning.kind {
            let (why, before) = (*why, heard.replace(server.heard));
            // A signal that is not answered has come to a server that waits for the rest of a message, or will be heeded all the same.
            if before == Some(server.heard) || !is_at_work(&server.session.exchange) {
                self.lose_server(key, Closed::Dirty, why);
                return;
            }
        }
        if server.session.exchange.is_running() {
            self.cancel_server(key, None);
        }
        self.arm_server(key);
    }
}
