//! A request that arrives whole: it is forwarded where it is received if there is a server for it, and held there if all are lent.
//!
//! Always true: nothing is done here that `want`, `settle` and `hear` would not do for the same bytes, in the same order; where
//! the client would have to wait for anything else, or anybody else looks at the request, it goes their way.
//! Not here: whether the pool is calm or full (crate `pool`), how a loan begins (`attach`), how bytes are forwarded (`forward`).

use std::rc::Rc;
use std::time::Duration;

use base::Key;
use config::ReadRouting;
use measure::Phase;
use pool::{Command, ServerKey};
use protocol::loan::{ClientSession, ServerSession, differ, may_be_unaided};
use reactor::{Chunk, Io};
use wire::frame::HEADER_BYTES;
use wire::frontend;

use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::held::Skips;
use crate::data::want::is_request;
use crate::measured::ReadResult;
use crate::planted::has_plain_ways;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Forwards bytes of a client that has no server and holds nothing, if they begin with a whole request and the pool lends
    /// a server at once; holds them if all servers are lent. Otherwise returns them.
    #[inline]
    pub(crate) fn forward_at_once(&mut self, key: Key, chunk: Chunk) -> Option<Chunk> {
        match self.lend_at_once(key, chunk.bytes()) {
            Lent::Now(server) => {
                if self.attach(key, server, Duration::ZERO) && self.may_forward(server) {
                    self.forward(key, server, chunk);
                } else {
                    // The server is sent the client's settings first, or has gone.
                    self.hold(key, chunk);
                    self.unpin_held(key);
                }
            }
            Lent::WithOtherSettings(server) => {
                self.hold(key, chunk);
                self.hands.enqueue(Task::Pools(Command::Attach { client: key, server, waited: Duration::ZERO }));
            }
            Lent::Later => {
                let chunk = self.unpinned(chunk);
                self.hold(key, chunk);
                self.arm_client(key);
                self.arm_watch();
            }
            Lent::Unknown => return Some(chunk),
        }
        None
    }

    /// Keeps bytes of a client that holds nothing.
    fn hold(&mut self, key: Key, chunk: Chunk) {
        if let Some(ready) = self.clients.ready_mut(key) {
            ready.held.get_or_insert_default().push(chunk);
        }
    }

    /// Lends a server for the request that these bytes begin with, or queues the client for one.
    fn lend_at_once(&mut self, key: Key, bytes: &[u8]) -> Lent {
        let is_looked_at = self.spans.is_on() || self.limits.counts_transactions() || self.limits.has_rejected();
        if is_looked_at
            || !has_plain_ways()
            || !self.hands.tasks.is_empty()
            || self.admin.is_resting()
            || self.admin.lends_no_more().is_some()
        {
            return Lent::Unknown;
        }
        let Some(kind) = whole_request(bytes, self.message_bytes_max()) else { return Lent::Unknown };
        if kind == frontend::QUERY && self.hands.active.settings.disable_pqexec {
            return Lent::Unknown;
        }
        let Some(Client { stage: ClientStage::Ready(ready), is_listener: false, tracers: 0, .. }) =
            self.clients.get_mut(key)
        else {
            return Lent::Unknown;
        };
        // What listens may have to wait for the listener of its database.
        let Some(place) = self.registry.pool(ready.pool) else { return Lent::Unknown };
        let has_listener = self.registry.database_at(place.database).listening.has_session();
        if !ready.is_at_plain_rest() || has_listener {
            return Lent::Unknown;
        }
        let mut is_behind = false;
        let ready = if place.read_routing == ReadRouting::Off {
            ready
        } else {
            let Some(stays) = self.stays_at_primary(key, bytes) else { return Lent::Unknown };
            let Some(ready) = self.clients.ready_mut(key) else { return Lent::Unknown };
            is_behind = stays.is_behind;
            ready
        };
        let (now, pool, fingerprint) = (self.hands.now, ready.pool, ready.fingerprint(key));
        let lent = match self.pools.lend(now, pool, key, fingerprint) {
            Some(server) => {
                let has_all = self.servers.get(server).is_some_and(|server| has_all(&server.session, &ready.session));
                if has_all { Lent::Now(server) } else { Lent::WithOtherSettings(server) }
            }
            None if self.pools.queue(now, pool, key, fingerprint) => Lent::Later,
            None => return Lent::Unknown,
        };
        ready.is_notified = false;
        ready.link = Link::Waiting(now);
        ready.meter.division.enter(now, Phase::Waiting);
        if is_behind {
            self.count_read(key, ReadResult::Behind);
        }
        lent
    }
}

/// What the pool of a client does for its request.
enum Lent {
    /// It lends this server, which has the client's settings,
    Now(ServerKey),
    /// or has to be sent them.
    WithOtherSettings(ServerKey),
    /// It has queued the client.
    Later,
    /// It has not been asked: something is unusual.
    Unknown,
}

impl Ready {
    /// Whether the client stands between two requests, and nothing is skipped or waited for.
    fn is_at_plain_rest(&self) -> bool {
        self.skips == Skips::Nothing
            && self.listen_wait.is_none()
            && self.replication.is_none()
            && self.session.subscriptions.is_none()
            && self.session.scanner.is_between()
            && !self.is_paused
    }
}

/// Whether a server has the settings of a client, as far as that is seen at a glance.
fn has_all(server: &ServerSession, client: &ClientSession) -> bool {
    Rc::ptr_eq(&server.vars, &client.vars) && !differ(server, client)
}

/// The kind of the first message, if that is a request which needs a server and is here completely.
fn whole_request(bytes: &[u8], length_max: u32) -> Option<u8> {
    let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let [kind, length @ ..] = *header;
    let length = u32::from_be_bytes(length);
    let is_whole = (4..=length_max).contains(&length) && length as usize - 4 <= body.len();
    (is_whole && is_request(kind) && !may_be_unaided(kind)).then_some(kind)
}

#[cfg(test)]
mod tests {
    use wire::write;

    use super::*;

    #[test]
    fn only_a_whole_request_is_forwarded_at_once() {
        let mut bytes = Vec::new();
        write::query(&mut bytes, "select 1");
        assert_eq!(whole_request(&bytes, 100), Some(frontend::QUERY));
        assert_eq!(whole_request(&bytes, 5), None, "it is too long");
        assert_eq!(whole_request(&bytes[..bytes.len() - 1], 100), None);
        assert_eq!(whole_request(&[&bytes[..], b"rest"].concat(), 100), Some(frontend::QUERY));
        for (bytes, what) in [
            (&b"S\0\0\0\x04"[..], "it may need no server"),
            (b"X\0\0\0\x04", "it is no request"),
            (b"Q\0\0\0\x03", "its length is wrong"),
            (b"Q\0\0\0", "its header is torn"),
        ] {
            assert_eq!(whole_request(bytes, 100), None, "{what}");
        }
    }
}
