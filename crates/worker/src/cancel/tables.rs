//! Tables of the cancel requests on their way.
//!
//! Always true: a table has a fixed capacity; one more request is dropped, as a network might drop it.
//! Not here: how requests proceed (`requests`, `peers`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Key, Slab, Time};
use config::{ProxyProtocol, Settings};
use pool::{PoolKey, ServerKey};
use protocol::cancel::CancelKey;
use reactor::tls::Demand;
use reactor::{Conn, TimerId};

use crate::letters::{CancelWait, Requester};
use crate::upstream::attempt::Attempt;

/// A cancel request on its way.
#[derive(Debug)]
pub(crate) struct Cancel {
    pub(super) conn: Conn,
    pub(super) server: ServerKey,
    pub(super) pool: PoolKey,
    /// The query that it is meant for.
    pub(super) query_number: u64,
    pub(super) is_sent: bool,
    /// TLS settings and host name for the connection, if the server's own connection is encrypted.
    pub(super) secret: Option<(Arc<Demand>, Arc<str>)>,
    pub(super) timer: Option<TimerId>,
    pub(super) since: Time,
    /// The clients that are told, by the end of their connections, that the request is over.
    pub(super) requesters: Vec<Requester>,
    /// The server has been closed meanwhile, with this left for the request.
    pub(super) legacy: Option<Legacy>,
}

/// What is left of a server that was closed in the middle of a query: its backend begins no other, so that a request can hit
/// only that one.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(super) cancel_key: Box<[u8]>,
    /// The PROXY header with which connections to its host begin.
    pub(super) header: ProxyProtocol,
}

/// Cancel requests for other processes.
#[derive(Debug)]
pub(crate) struct Forwards {
    pub(super) rows: Slab<Forward>,
    /// The peers for which there has been a request.
    pub(super) known: BTreeSet<u16>,
}

impl Default for Forwards {
    fn default() -> Self {
        Self { rows: Slab::with_capacity(CANCELS_MAX), known: BTreeSet::new() }
    }
}

impl Forwards {
    /// Connections to a peer, including those being established.
    pub(super) fn connections(&self, peer: u16) -> usize {
        self.rows.iter().filter(|(_, row)| row.peer == peer && row.stage != ForwardStage::Waiting).count()
    }

    /// The request that has waited longest for a connection to this peer.
    pub(super) fn first_waiting(&self, peer: u16) -> Option<Key> {
        let waiting = self.rows.iter().filter(|(_, row)| row.peer == peer && row.stage == ForwardStage::Waiting);
        waiting.min_by_key(|(_, row)| row.id).map(|(key, _)| key)
    }
}

/// A cancel request on its way to another process.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    pub(super) peer: u16,
    /// The key that the peer is sent.
    pub(super) key: CancelKey,
    /// Its number in logs; the request with the lowest has waited longest.
    pub(super) id: u64,
    /// When it was made, and until when it counts.
    pub(super) waits: CancelWait,
    /// The timer of its deadline.
    pub(super) timer: Option<TimerId>,
    pub(super) stage: ForwardStage,
    /// The addresses of the peer, while one of them is dialed.
    pub(super) attempt: Option<Box<Attempt>>,
    pub(super) requester: Requester,
}

impl Forward {
    /// When its time is over, and the reason that is logged then.
    pub(super) fn due(&self, settings: &Settings) -> Option<(Time, &'static str)> {
        let wait = self.waits.until.map(|until| (until, "cancel_wait_timeout"));
        let dial = match self.stage {
            ForwardStage::Resolving { since } | ForwardStage::Connecting { since, .. } => {
                let end = settings.server_connect_timeout.map(|limit| since + limit);
                let due = |end| self.attempt.as_ref().map_or(end, |attempt| attempt.due(end));
                end.map(|end| (due(end), "connect timeout"))
            }
            ForwardStage::Waiting | ForwardStage::Unreached | ForwardStage::Sent(_) => None,
        };
        wait.into_iter().chain(dial).min_by_key(|(at, _)| *at)
    }

    /// The connection to an address that has had its share of the time, while there is time for others, and since when
    /// the peer is dialed.
    pub(super) fn late_address(&self, settings: &Settings, now: Time) -> Option<(Conn, Time)> {
        let ForwardStage::Connecting { conn, since } = self.stage else { return None };
        let end = since + settings.server_connect_timeout?;
        let is_over = now >= end || self.waits.until.is_some_and(|until| now >= until);
        let is_late = !is_over && self.attempt.as_ref().is_some_and(|attempt| attempt.due(end) <= now);
        is_late.then_some((conn, since))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ForwardStage {
    /// It waits for one of the peer's connections.
    Waiting,
    /// It waits for the address of the peer.
    Resolving { since: Time },
    /// It waits for the connection.
    Connecting { conn: Conn, since: Time },
    /// It waits for the peer to close the connection.
    Sent(Conn),
    /// There was no connection, and the request ends now.
    Unreached,
}

/// Cancel requests on their way to servers. One more is dropped, as a network might drop it.
pub(crate) const CANCELS_MAX: u32 = 1024;
/// So many of them may be for servers that have been closed: clients need the others.
pub(super) const LEGACIES_MAX: usize = 64;
