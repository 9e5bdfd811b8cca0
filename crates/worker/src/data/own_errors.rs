//! Errors that a server says to us: in answer to what we have asked ourselves, or while nobody has asked anything.
//!
//! Always true: a server that does not take what its client has set is never lent as if it had; its client is told why.
//! Not here: errors that a server says to its client (`protocol::loan`).

use measure::Closed;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{Failed, Unfit};
use protocol::state::{Kind, Preparation};
use reactor::{Io, Level};
use wire::notice::Notice;

use crate::cancel::answer::{QUERY_CANCELED, write_cancelled};
use crate::data::server::Stage;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A server has said an error that is not for its client.
    pub(crate) fn own_error(&mut self, key: ServerKey, body: &[u8]) {
        let Some(is_ours) = self.servers.get(key).map(|server| server.session.exchange.is_ours()) else { return };
        let notice = Notice::parse(body);
        if is_ours && self.cannot_prepare(key, &notice) {
            return;
        }
        if let Some(server) =
            self.servers.get_mut(key).filter(|server| is_ours && server.session.server_statements.has_own())
        {
            server.session.server_statements.doubt_own();
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
        let Some(server) = self.servers.get_mut(key) else { return };
        let since = server.session.life.waits_since().unwrap_or(self.now);
        let failed = server.session.ours_failed(notice.sqlstate == QUERY_CANCELED);
        match (&server.stage, failed) {
            (&Stage::Lent { client }, Failed::CancelledAlong) => self.cancelled_along(key, client, &notice.message),
            // By the limit of the session before, of which nobody hears.
            (&Stage::Lent { client }, Failed::BeforeUse) => {
                self.uncount(key);
                self.lose_before_use(key, client, since, "a limit of its session ended what it was told");
            }
            (&Stage::Lent { client }, Failed::NotTaken(ended)) => {
                self.uncount(key);
                self.unlink_from_client(key);
                self.take_back(key, ended);
                self.fail_client(client, &Fault::InvalidServerParameter { why: notice.message.as_str().into() });
            }
            (Stage::Cleaning(cleaning), failed) => {
                let why = match failed {
                    Failed::NotClean(why) => Some(why.words()),
                    _ => cleaning.failure(),
                };
                why.into_iter().for_each(|why| self.cannot_be_made_clean(key, why));
            }
            // PgBouncer goes on after a connect_query that failed, and so do we; it has been logged.
            _ => {}
        }
    }

    fn cannot_be_made_clean(&mut self, key: ServerKey, why: &str) {
        let line = self.server_prefix(key);
        self.log.about(&line, Level::Debug, format_args!("cannot be made clean"));
        self.lose_server(key, Closed::Dirty, why);
    }

    /// Whether a server was told just now to have a statement of its client's, or no more to have one, which has failed.
    fn cannot_prepare(&mut self, key: ServerKey, notice: &Notice) -> bool {
        let Some(server) = self.servers.get_mut(key).filter(|_| !notice.is_fatal()) else { return false };
        let Some(preparation) = server.session.cannot_prepare() else { return false };
        if let Preparation::Prepare(name) = preparation {
            let database = server.database as usize;
            let text = format!("cannot prepare statement \"{name}\" of its client here: {}", notice.message);
            if self.registry.databases[database].function_catalog.is_news(Kind::Statement, &text) {
                let line = self.server_prefix(key);
                self.log.about(&line, Level::Log, format_args!("{text}"));
            }
        }
        true
    }

    /// What a server was told along with a request was cancelled, and the request with it: its client is told so in the server's words.
    fn cancelled_along(&mut self, server: ServerKey, client_key: ClientKey, message: &str) {
        self.uncount(server);
        self.lose_server(server, Closed::Dirty, Unfit::ToldCancelled.words());
        let Some(client) = self.clients.get(client_key) else { return };
        let mut out = Vec::new();
        write_cancelled(&mut out, message, "The server was being told the settings of the session.");
        self.io.send(client.conn, out.into());
        self.enqueue(Task::GoOn(client_key));
        self.resume_client(client_key);
    }
}
