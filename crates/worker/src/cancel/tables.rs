//! Cancel requests that are on their way.
//!
//! Always true: a table has room for so many; one more is dropped, as a network might drop it.
//! Not here: what becomes of them (`requests`, `peers`).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Key, Slab, Time};
use config::Settings;
use pool::{PoolKey, ServerKey};
use protocol::cancel::CancelKey;
use reactor::tls::Demand;
use reactor::{Conn, TimerId};

use crate::letters::{Requester, Waits};

/// A cancel request on its way.
#[derive(Debug)]
pub(crate) struct Cancel {
    pub(super) conn: Conn,
    pub(super) server: ServerKey,
    pub(super) pool: PoolKey,
    /// The query that it is meant for.
    pub(super) query_number: u64,
    pub(super) is_sent: bool,
    /// What TLS begins with, and the host to be named, if the server that it is for is secured: then the request is too.
    pub(super) secret: Option<(Arc<Demand>, Arc<str>)>,
    pub(super) timer: Option<TimerId>,
    pub(super) since: Time,
    /// Who is told, by the end of their connection, that it is over.
    pub(super) requesters: Vec<Requester>,
}

/// Cancel requests for other processes.
#[derive(Debug)]
pub(crate) struct Forwards {
    pub(super) rows: Slab<Forward>,
    /// The peers that there has been a request for.
    pub(super) known: BTreeSet<u16>,
}

impl Default for Forwards {
    fn default() -> Self {
        Self { rows: Slab::with_capacity(CANCELS_MAX), known: BTreeSet::new() }
    }
}

impl Forwards {
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        self.rows.key_at(index)
    }

    /// Connections that a peer has, those being made included.
    pub(super) fn connections(&self, peer: u16) -> usize {
        self.rows.iter().filter(|(_, row)| row.peer == peer && row.stage != Stage::Waiting).count()
    }

    /// Who has waited longest for a connection to this peer.
    pub(super) fn first_waiting(&self, peer: u16) -> Option<Key> {
        let waiting = self.rows.iter().filter(|(_, row)| row.peer == peer && row.stage == Stage::Waiting);
        waiting.min_by_key(|(_, row)| row.id).map(|(key, _)| key)
    }
}

/// A cancel request on its way to another process.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    pub(super) peer: u16,
    /// What the peer is told.
    pub(super) key: CancelKey,
    /// Its number in the logs; who has the lowest has waited longest.
    pub(super) id: u64,
    /// When it was made, and how long it counts.
    pub(super) waits: Waits,
    /// Its deadline in the wheel.
    pub(super) timer: Option<TimerId>,
    pub(super) stage: Stage,
    pub(super) requester: Requester,
}

impl Forward {
    /// When its time is over, and what is said then.
    pub(super) fn due(&self, settings: &Settings) -> Option<(Time, &'static str)> {
        let wait = self.waits.until.map(|until| (until, "cancel_wait_timeout"));
        let dial = match self.stage {
            Stage::Resolving { since } | Stage::Connecting { since, .. } => {
                settings.server_connect_timeout.map(|limit| (since + limit, "connect timeout"))
            }
            Stage::Waiting | Stage::Unreached | Stage::Sent(_) => None,
        };
        wait.into_iter().chain(dial).min_by_key(|(at, _)| *at)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// For one of the peer's connections.
    Waiting,
    /// For the address of the peer.
    Resolving { since: Time },
    /// For the connection.
    Connecting { conn: Conn, since: Time },
    /// For the peer to say, by its end, that it is done.
    Sent(Conn),
    /// There was no connection, and it ends now.
    Unreached,
}

/// Cancel requests on their way to servers. One more is dropped, as a network might drop it.
pub(crate) const CANCELS_MAX: u32 = 1024;
