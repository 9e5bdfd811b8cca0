//! Cancel keys of clients, and cancel requests that are sent to servers.
//!
//! Always true: for each query of a server there is one request at most.
//! Not here: cancel requests of clients, and how a request proceeds (`requests`).

use std::sync::Arc;

use base::{Key, WorkerId};
use pool::{PoolKey, ServerKey};
use protocol::cancel::{CancelKey, KeyName};
use reactor::tls::Demand;
use reactor::{Address, Conn, Io, Level};

use crate::cancel::Cancels;
use crate::cancel::tables::{Cancel, LEGACIES_MAX, Legacy};
use crate::hands::Hands;
use crate::letters::{Requester, ToWorker};
use crate::timers::Timer;
use crate::worker::Owner;

/// A server that is to stop what it runs.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) server: ServerKey,
    pub(crate) pool: PoolKey,
    /// The query that it runs.
    pub(crate) query_number: u64,
    pub(crate) address: Address,
    /// TLS settings and host name of its own connection, if that is encrypted.
    pub(crate) secret: Option<(Arc<Demand>, Arc<str>)>,
}

impl Cancels {
    /// Draws the cancel key of a client that uses protocol 3.`minor`. The key is valid from now on.
    pub(crate) fn draw_key<I: Io>(&mut self, client: Key, minor: u16, hands: &mut Hands<I>) -> CancelKey {
        let peer = hands.active.settings.own_peer();
        let key = CancelKey::draw(hands.id, peer, minor, |bytes| hands.io.randomness(bytes));
        self.give(key.name(), client);
        key
    }

    /// The client of this key has gone. The worker that the key names may have to know.
    pub(crate) fn retire<I: Io>(&mut self, name: KeyName, hands: &Hands<I>) {
        self.keys.remove(&name);
        let named = named_by(name, hands);
        if named != hands.id {
            (hands.posts.workers[usize::from(named.0)])(ToWorker::KeyGone(name));
        }
    }

    /// Dials a second connection to the server's host; returns whether that has begun. As PostgreSQL's documentation
    /// says too, the request may have no effect.
    pub(crate) fn aim<I: Io>(&mut self, target: Target, requester: Option<Requester>, hands: &mut Hands<I>) -> bool {
        let Target { server, pool, query_number, address, secret } = target;
        let is_same = |cancel: &Cancel| cancel.server == server && cancel.query_number == query_number;
        if let Some((_, other)) = self.rows.iter_mut().find(|(_, cancel)| is_same(cancel)) {
            other.requesters.extend(requester);
            return true;
        }
        let cancel = Cancel {
            conn: Conn::NOWHERE,
            server,
            pool,
            query_number,
            is_sent: false,
            secret,
            timer: None,
            since: hands.now,
            requesters: requester.into_iter().collect(),
            legacy: None,
        };
        let Ok(key) = self.rows.insert(cancel) else { return false };
        match hands.io.connect(&address, Owner::Cancel(key).to_bits()) {
            Ok(conn) => {
                let limit = hands.active.settings.cancel_wait_timeout;
                let timer = limit.map(|limit| hands.timers.insert(hands.now + limit, Timer::Cancel(key)));
                if let Some(cancel) = self.rows.get_mut(key) {
                    (cancel.conn, cancel.timer) = (conn, timer);
                }
                true
            }
            Err(error) => {
                self.rows.remove(key);
                hands.log.add(Level::Warning, format_args!("failed to send cancel request: {error}"));
                false
            }
        }
    }
}

impl Cancels {
    /// A server that runs a query is about to be closed: the query is cancelled all the same, as far as that is possible.
    pub(super) fn aim_last<I: Io>(&mut self, target: Target, legacy: Legacy, hands: &mut Hands<I>) {
        let legacies = self.rows.iter().filter(|(_, cancel)| cancel.legacy.is_some()).count();
        let (server, query_number) = (target.server, target.query_number);
        if legacies >= LEGACIES_MAX || !self.aim(target, None, hands) {
            return;
        }
        let is_it = |cancel: &Cancel| cancel.server == server && cancel.query_number == query_number;
        if let Some((_, cancel)) = self.rows.iter_mut().find(|(_, cancel)| is_it(cancel)) {
            cancel.legacy = Some(legacy);
        }
    }
}

/// The worker that knows where the client of a key is.
pub(super) fn named_by<I: Io>(name: KeyName, hands: &Hands<I>) -> WorkerId {
    WorkerId((usize::from(name.worker().0) % hands.posts.workers.len()) as u8)
}
