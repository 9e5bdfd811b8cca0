//! Why a client that has waited long enough got no server, and what the servers of its pool are used for.
//!
//! Always true: it is found out once for all clients of a pool that time out in one turn; only servers of that pool are
//! looked at.
//! Not here: the sentences (`protocol::fault`), what an operator sees of waits at any time (`admin::waits`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use base::Key;
use pool::{PoolKey, WaitReason};
use protocol::fault::{Fault, Unserved, WaitCause};
use protocol::state::Kind;
use reactor::Io;

use crate::data::client::Link;
use crate::worker::Worker;

/// What the lent servers of a pool are used for.
#[derive(Default)]
struct Holders {
    lent: u32,
    pinned: BTreeMap<Kind, u32>,
    transactions: u32,
    longest: Duration,
    sessions: u32,
    replication: u32,
}

impl<I: Io> Worker<I> {
    /// Adds to a fault what only the pool knows about it, for the client that is sent it now.
    pub(crate) fn explained(&mut self, client: Key, mut fault: Fault) -> Fault {
        if let Fault::QueryWaitTimeout { why: why @ None, .. } | Fault::QueryTimeoutWaiting { why: why @ None, .. } =
            &mut fault
        {
            *why = self.why_unserved(client);
        }
        fault
    }

    fn why_unserved(&mut self, client: Key) -> Option<Arc<Unserved>> {
        let client = self.clients.get(client)?;
        if client.ready().is_some_and(|ready| matches!(ready.link, Link::Delayed(_))) {
            return Some(Arc::new(Unserved { why: WaitCause::RateLimit, failure: None, holders: "".into() }));
        }
        let pool = client.pool()?;
        let why = self.pools.waits_for(pool)?;
        self.unserved(pool, why)
    }

    /// What clients of a pool are told after they have waited in vain for this reason.
    pub(crate) fn unserved(&mut self, pool: PoolKey, why: WaitReason) -> Option<Arc<Unserved>> {
        let (now, place) = (self.hands.now, self.registry.pool(pool)?);
        match &place.unserved {
            Some((at, reason, told)) if (*at, *reason) == (now, why) => return Some(told.clone()),
            _ => {}
        }
        let failure = match why {
            WaitReason::Unreachable => self.pools.snapshot(now, pool)?.failure.map(|failure| failure.words().into()),
            _ => None,
        };
        let told = Arc::new(Unserved { why: wait_cause(why), failure, holders: self.holders(pool).words().into() });
        self.registry.pool_mut(pool)?.unserved = Some((now, why, told.clone()));
        Some(told)
    }

    fn holders(&self, pool: PoolKey) -> Holders {
        let is_session = self.registry.pool(pool).is_some_and(|place| place.mode == pool::Mode::Session);
        let mut found = Holders::default();
        for key in self.pools.lent(pool) {
            let Some(server) = self.servers.get(key) else { continue };
            found.lent += 1;
            let ready = server.client().and_then(|client| self.clients.ready(client));
            let session_effects = ready.and_then(|ready| ready.session.session_effects.as_ref());
            let pin = session_effects.and_then(|session_effects| session_effects.pins().kinds().next());
            match (server.xact_since, pin) {
                _ if server.dedicated.is_some() => found.replication += 1,
                (Some(since), _) => {
                    found.transactions += 1;
                    found.longest = found.longest.max(self.hands.now.since(since));
                }
                (None, Some(kind)) => *found.pinned.entry(kind).or_default() += 1,
                (None, None) => found.sessions += u32::from(is_session),
            }
        }
        found
    }
}

impl Holders {
    /// `3 lent: 2 pinned by session-level advisory locks, 1 in a transaction for 41 s`; empty if none is lent.
    fn words(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.pinned.iter().map(|(kind, count)| format!("{count} pinned by {}", kind.many())));
        let longest = match self.longest.as_secs() {
            0 => format!("{} ms", self.longest.as_millis()),
            secs => format!("{secs} s"),
        };
        parts.extend(match self.transactions {
            0 => None,
            1 => Some(format!("1 in a transaction for {longest}")),
            count => Some(format!("{count} in transactions, the longest for {longest}")),
        });
        let more = [(self.sessions, "idle in sessions (pool_mode = session)"), (self.replication, "replicating")];
        parts.extend(more.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
        let mut words = String::new();
        if self.lent > 0 {
            let _ = write!(words, "{} lent", self.lent);
        }
        if !parts.is_empty() {
            let _ = write!(words, ": {}", parts.join(", "));
        }
        words
    }
}

fn wait_cause(why: WaitReason) -> WaitCause {
    match why {
        WaitReason::NoneFree => WaitCause::NoneFree,
        WaitReason::DatabaseLimit => WaitCause::DatabaseLimit,
        WaitReason::UserLimit => WaitCause::UserLimit,
        WaitReason::Dialing => WaitCause::Opening,
        WaitReason::Unreachable => WaitCause::Unreachable,
        WaitReason::Paused => WaitCause::Paused,
        WaitReason::Held => WaitCause::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_servers_is_said_in_sum() {
        let mut holders = Holders { lent: 3, transactions: 1, longest: Duration::from_secs(41), ..Holders::default() };
        holders.pinned.insert(Kind::Lock, 2);
        assert_eq!(holders.words(), "3 lent: 2 pinned by session-level advisory locks, 1 in a transaction for 41 s");
        assert_eq!(Holders::default().words(), "");
        let many = Holders { lent: 5, transactions: 2, sessions: 3, longest: Duration::from_millis(7), ..holders };
        assert!(
            many.words().ends_with("2 in transactions, the longest for 7 ms, 3 idle in sessions (pool_mode = session)")
        );
    }
}
