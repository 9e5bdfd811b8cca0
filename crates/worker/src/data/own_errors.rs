//! Errors that a server says to us: in answer to what we have asked ourselves, or while nobody has asked anything.
//!
//! Always true: a server that does not take what its client has set is never lent as if it had; its client is told why.
//! Not here: errors that a server says to its client (`protocol::loan`).

use std::rc::Rc;

use measure::Closed;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::Phase;
use protocol::state::{Kind, Preparation};
use reactor::{Io, Level};
use wire::notice::Notice;

use crate::cancel::answer::{QUERY_CANCELED, write_cancelled};
use crate::data::server::Stage;
use crate::planted::is_not_taken;
use crate::tasks::Task;
use crate::upstream::cleaning::{DISCARD_ALL, NOT_TAKEN_OVER, TOLD_CANCELLED};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A server has said an error that is not for its client.
    pub(crate) fn own_error(&mut self, key: ServerKey, body: &[u8]) {
        let Some(is_ours) = self.servers.get(key).map(|server| server.session.exchange.is_ours()) else { return };
        let notice = Notice::parse(body);
        if is_ours && self.cannot_prepare(key, &notice) {
            return;
        }
        if let Some(server) = self.servers.get_mut(key).filter(|server| is_ours && server.session.stock.has_own()) {
            server.session.stock.doubt_own();
        }
        let Some(server) = self.servers.get(key) else { return };
        let line = self.server_prefix(key);
        let what = match (&server.stage, is_ours) {
            (Stage::Introducing, true) if server.session.life.probe().is_none() => {
                "error while executing exec_on_query"
            }
            (_, true) => "error in a query of our own",
            (_, false) => "server said",
        };
        // That a query we have cancelled ends with an error is what we wanted.
        let is_wanted = !is_ours && matches!(server.stage, Stage::Cleaning(_));
        let level = if is_wanted { Level::Debug } else { Level::Warning };
        let (severity, message) = (&notice.severity, &notice.message);
        self.log.about(&line, level, format_args!("{what}: {severity}: {message}"));
        if is_ours && notice.is_fatal() {
            // Not our query failed, but the server.
            self.server_gone(key);
        } else if is_ours {
            self.ours_failed(key, &notice);
        }
    }

    /// A query of our own failed.
    fn ours_failed(&mut self, key: ServerKey, notice: &Notice) {
        let Some(server) = self.servers.get(key) else { return };
        let is_cancelled = notice.sqlstate == QUERY_CANCELED;
        let waits_since = server.session.life.waits_since();
        match (&server.stage, server.session.life.phase()) {
            (&Stage::Lent { client }, Phase::ApplyingAlong) if is_cancelled => {
                self.cancelled_along(key, client, &notice.message);
            }
            // The rest of its answer is waited for. Who left meanwhile may have sent the cancel request that ended it.
            (Stage::Lent { .. } | Stage::Introducing | Stage::Cleaning(_), Phase::Probing) => {
                if let Some(probe) = self.servers.get_mut(key).and_then(|server| server.session.life.probe_mut()) {
                    match is_cancelled {
                        true => probe.cancel(),
                        false => probe.break_off(),
                    }
                }
            }
            // By the limit of the session before, of which nobody hears.
            (&Stage::Lent { client }, Phase::ApplyingBefore | Phase::Replanning)
                if server.session.was_hasty && is_cancelled =>
            {
                self.uncount(key);
                let since = waits_since.unwrap_or(self.now);
                self.lose_before_use(key, client, since, "a limit of its session ended what it was told");
            }
            (&Stage::Lent { client }, phase) if is_not_taken(phase.is_applying()) => {
                self.uncount(key);
                if waits_since.is_some() {
                    self.unlink_from_client(key);
                    self.mend_with(key, false, Some(DISCARD_ALL));
                } else {
                    // It skips what stands behind, up to a Sync that nobody sends.
                    self.lose_server(key, Closed::Dirty, NOT_TAKEN_OVER);
                }
                self.fail_client(client, &Fault::InvalidServerParameter { why: notice.message.as_str().into() });
            }
            // What would have told what its client has kept, if that had not left.
            (Stage::Cleaning(_), Phase::Foreseeing) => {}
            // It discards what it was told anyway.
            (Stage::Cleaning(cleaning), _) if cleaning.will_discard_all() => {}
            (Stage::Cleaning(cleaning), _) => {
                let line = self.server_prefix(key);
                self.log.about(&line, Level::Debug, format_args!("cannot be made clean"));
                let why = cleaning.failure(is_cancelled);
                self.lose_server(key, Closed::Dirty, why);
            }
            // PgBouncer goes on after a connect_query that failed, and so do we; it has been logged.
            _ => {}
        }
    }

    /// Whether a server was told just now to have a statement of its client's, or no more to have one, which has failed: then its client
    /// does not have it here, but all else.
    fn cannot_prepare(&mut self, key: ServerKey, notice: &Notice) -> bool {
        let Some(server) = self.servers.get_mut(key) else { return false };
        let phase = match &server.stage {
            Stage::Lent { .. } => Some(server.session.life.phase()),
            // Its client has left meanwhile; for others the server is as good as before.
            Stage::Cleaning(cleaning) => cleaning.was_applying(),
            _ => None,
        };
        if phase != Some(Phase::ApplyingBefore) || notice.is_fatal() {
            return false;
        }
        let place = server.session.preparing.len().checked_sub(server.session.exchange.ours());
        match place.and_then(|place| server.session.preparing.get(place)) {
            Some(Preparation::Prepare(name)) => {
                let name = name.clone();
                if let Some(overrides) = &mut server.session.overrides {
                    Rc::make_mut(overrides).statements_mut().remove(&name);
                }
                let database = server.database as usize;
                let text = format!("cannot prepare statement \"{name}\" of its client here: {}", notice.message);
                if self.places.databases[database].learned.is_news(Kind::Statement, &text) {
                    let line = self.server_prefix(key);
                    self.log.about(&line, Level::Log, format_args!("{text}"));
                }
                true
            }
            Some(Preparation::Drop) => true,
            Some(Preparation::Path) | None => false,
        }
    }

    /// What a server was told along with a request was cancelled, and the request with it: its client is told so in the server's words.
    fn cancelled_along(&mut self, server: ServerKey, client_key: ClientKey, message: &str) {
        self.uncount(server);
        self.lose_server(server, Closed::Dirty, TOLD_CANCELLED);
        let Some(client) = self.clients.get(client_key) else { return };
        let mut out = Vec::new();
        write_cancelled(&mut out, message, "The server was being told the settings of the session.");
        self.io.send(client.conn, out.into());
        self.enqueue(Task::GoOn(client_key));
        self.resume_client(client_key);
    }
}
