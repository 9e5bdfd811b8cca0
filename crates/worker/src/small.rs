//! Messages of servers that concern us: they are read whole, whatever way they come.
//!
//! Always true: of a message no more is gathered than a bound of its kind says.
//! Not here: where messages begin and end (`server`), how long all of an answer may be (`loss`).

use pool::ServerKey;
use reactor::{Io, Level};
use wire::backend;
use wire::notice::Notice;

use crate::client::{Client, Stage as ClientStage};
use crate::server::Stage;
use crate::turn::Worker;

impl<I: Io> Worker<I> {
    /// Reads the small messages that concern us whole, whatever way they came.
    pub(crate) fn collect(&mut self, key: ServerKey, kind: u8, body: &[u8], is_last: bool) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if is_last && server.session.collected.is_empty() {
            self.read_small(key, kind, body);
            return;
        }
        // What is longer than any parameter or error is looked at as far as it goes.
        let most = if kind == backend::DATA_ROW { ROW_BYTES_MAX } else { COLLECTED_BYTES_MAX };
        let room = most.saturating_sub(server.session.collected.len());
        server.session.collected.extend_from_slice(&body[..body.len().min(room)]);
        if is_last {
            let whole = std::mem::take(&mut server.session.collected);
            self.read_small(key, kind, &whole);
        }
    }

    fn read_small(&mut self, key: ServerKey, kind: u8, body: &[u8]) {
        if kind == backend::PARAMETER_STATUS {
            self.parameter_told(key, body);
            return;
        }
        if kind == backend::NOTIFICATION_RESPONSE {
            self.notified(key, body);
            return;
        }
        if kind == backend::DATA_ROW {
            if let Some(look) = self.servers.get_mut(key).and_then(|server| server.session.look.as_mut()) {
                look.row(body);
                if look.reads_functions() {
                    self.slow_down(key);
                }
            }
            return;
        }
        if kind == backend::COMMAND_COMPLETE {
            self.completed(key, body);
            return;
        }
        if let Some(server) = self.servers.get_mut(key) {
            server.session.stock.refused(body);
        }
        let Some(server) = self.servers.get(key) else { return };
        // A query of ours stays at the front until it is ready, so this holds whatever way its error came.
        let is_ours = server.session.exchange.is_ours();
        let is_last_owed = server.session.exchange.count_ready() == 1;
        if let Some(client) = server.client().filter(|_| !is_ours) {
            if let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client)
                && let Some(traces) = &mut ready.session.traces
            {
                traces.effects_in_doubt();
                traces.unlistens.fails(is_last_owed);
            }
            let is_last = Notice::parse(body).is_fatal();
            if let Some(server) = self.servers.get_mut(key).filter(|_| is_last) {
                server.session.has_taken_leave = true;
            }
            return;
        }
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
            (Stage::Introducing, true) if server.session.look.is_none() => "error while executing exec_on_query",
            (_, true) => "error in a query of our own",
            (_, false) => "server said",
        };
        // That a query we have cancelled ends with an error is what we wanted.
        let is_wanted = !is_ours && matches!(server.stage, Stage::Cleaning(_));
        let level = if is_wanted { Level::Debug } else { Level::Warning };
        let (severity, message) = (&notice.severity, &notice.message);
        self.log.add(level, format_args!("{line}{what}: {severity}: {message}"));
        if is_ours && notice.is_fatal() {
            // Not our query failed, but the server.
            self.server_gone(key);
        } else if is_ours {
            self.ours_failed(key, &notice);
        }
    }
}

/// The longest row that is read: a function's text may be long.
const ROW_BYTES_MAX: usize = 1 << 20;
/// The longest parameter or error that is read; the rest of a longer one passes unread.
const COLLECTED_BYTES_MAX: usize = 65_536;
