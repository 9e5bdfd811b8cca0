//! Orders of operators: some are carried out once, some stand until they are undone, as a pause does.
//!
//! Always true: standing orders are part of the active configuration, so that pools opened later obey them too; the pool machine
//! is told once for each change.
//! Not here: how orders are carried out (`orders`), what a pause means to a pool (crate `pool`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{Gate, LagLimit};
use config::Database;
use pool::{CloseReason, Event, PoolKey};
use reactor::Io;

use crate::observe::tracers::Traced;
use crate::planted::are_served;
use crate::worker::Worker;

/// Orders that stand until they are undone. A reload does not change them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// PAUSE: no client gets a server.
    is_all_paused: bool,
    /// PAUSE of one database, or KILL: no client of these gets a server.
    paused: BTreeSet<Arc<str>>,
    /// Those of `paused` that KILL has paused: their servers are closed because of it.
    killed: BTreeSet<Arc<str>>,
    /// DISABLE: no new client is let in to these databases.
    disabled: BTreeSet<Arc<str>>,
    /// HOLD: clients of these databases wait.
    held: BTreeSet<Arc<str>>,
    /// Where clients of the primary of a cluster may write, by the name of the cluster.
    gates: BTreeMap<Arc<str>, Gate>,
    /// The hosts of a cluster that may be read from, by the name of the cluster and by how far a replica may be behind.
    readable: BTreeMap<Arc<str>, Readable>,
    /// The hosts of a cluster that are suspect, by its name.
    suspects: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// The hosts that may be read from, by how far a replica may be behind.
type Readable = BTreeMap<LagLimit, BTreeSet<Arc<str>>>;

impl Standing {
    /// Whether clients of a database get no server.
    #[must_use]
    pub fn pauses(&self, database: &str) -> bool {
        self.is_all_paused || self.paused.contains(database)
    }

    /// PAUSE without a database: no client gets a server.
    #[must_use]
    pub fn is_all_paused(&self) -> bool {
        self.is_all_paused
    }

    /// The databases that are paused by themselves, those of KILL among them.
    #[must_use]
    pub fn paused(&self) -> &BTreeSet<Arc<str>> {
        &self.paused
    }

    /// DISABLE: no new client of this database is let in.
    pub fn disable(&mut self, name: &Arc<str>) {
        self.disabled.insert(Arc::clone(name));
    }

    /// ENABLE: ends a DISABLE.
    pub fn enable(&mut self, name: &str) {
        self.disabled.remove(name);
    }

    /// The databases that are disabled.
    #[must_use]
    pub fn disabled(&self) -> &BTreeSet<Arc<str>> {
        &self.disabled
    }

    /// HOLD: clients of this database wait.
    pub fn hold(&mut self, name: &Arc<str>) {
        self.held.insert(Arc::clone(name));
    }

    /// Ends a HOLD.
    pub fn release(&mut self, name: &str) {
        self.held.remove(name);
    }

    /// Whether a HOLD of this database is in force.
    #[must_use]
    pub fn is_held(&self, name: &str) -> bool {
        self.held.contains(name)
    }

    /// Whether a HOLD of any database is in force.
    #[must_use]
    pub fn is_any_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Clients of the primary of a cluster may write there from now on.
    pub fn set_gate(&mut self, cluster: &Arc<str>, gate: Gate) {
        self.gates.insert(Arc::clone(cluster), gate);
    }

    /// Where clients of the primary of a cluster may write; `None` if nothing is known of it.
    #[must_use]
    pub fn gate(&self, cluster: &str) -> Option<&Gate> {
        self.gates.get(cluster)
    }

    /// Nothing is known any more of these clusters.
    pub fn forget_gates(&mut self, clusters: &[Arc<str>]) {
        self.gates.retain(|cluster, _| !clusters.contains(cluster));
        self.readable.retain(|cluster, _| !clusters.contains(cluster));
        self.suspects.retain(|cluster, _| !clusters.contains(cluster));
    }

    /// These hosts of a cluster may be read from, from now on.
    pub fn set_readable(&mut self, cluster: &Arc<str>, readable: Readable) {
        self.readable.insert(Arc::clone(cluster), readable);
    }

    /// The hosts at which a database may read as far as they may be behind; `None` if nothing is known of them yet.
    #[must_use]
    pub fn readable(&self, entry: &Database) -> Option<&BTreeSet<Arc<str>>> {
        self.readable.get(entry.cluster.as_ref()?)?.get(&entry.max_lag)
    }

    /// These hosts of a cluster are suspect from now on, and no others.
    pub fn set_suspects(&mut self, cluster: &Arc<str>, hosts: BTreeSet<Arc<str>>) {
        match hosts.is_empty() {
            true => drop(self.suspects.remove(cluster)),
            false => drop(self.suspects.insert(Arc::clone(cluster), hosts)),
        }
    }

    /// Whether a host is suspect, by its host and port: what begins now had better begin elsewhere.
    #[must_use]
    pub fn is_suspect(&self, cluster: &str, host: &str) -> bool {
        self.suspects.get(cluster).is_some_and(|hosts| hosts.contains(host))
    }

    /// Whether the same hosts are suspect.
    #[must_use]
    pub fn suspects_as(&self, other: &Self) -> bool {
        self.suspects == other.suspects
    }

    /// Whether clients of a database are held, for themselves or with its cluster.
    #[must_use]
    pub fn holds(&self, entry: &Database) -> bool {
        let gate = entry.cluster_of_primary().and_then(|cluster| self.gate(cluster));
        self.held.contains(entry.line_name()) || matches!(gate, Some(Gate::Held | Gate::Fenced))
    }

    /// Whether a new client of a database is let in, and gets a server.
    #[must_use]
    pub fn serves(&self, database: &str) -> bool {
        !self.pauses(database) && !self.disabled.contains(database)
    }

    /// Pauses all databases, or one.
    pub fn pause(&mut self, whose: &Whose) {
        match whose {
            Some(name) => drop(self.paused.replace(Arc::clone(name))),
            None => self.is_all_paused = true,
        }
    }

    /// Ends the pause of all databases, or of one.
    pub fn resume(&mut self, whose: &Whose) {
        match whose {
            Some(name) => {
                self.paused.remove(name);
                self.killed.remove(name);
            }
            None => self.is_all_paused = false,
        }
    }

    /// KILL: pauses this database.
    pub fn kill(&mut self, name: &Arc<str>) {
        self.paused.insert(Arc::clone(name));
        self.killed.insert(Arc::clone(name));
    }

    /// Drops databases that no longer exist.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.paused.retain(|name| is_there(name));
        self.killed.retain(|name| is_there(name));
        self.held.retain(|name| is_there(name));
        self.disabled.retain(|name| is_there(name));
    }
}

/// The database that an order concerns, or all of them.
pub type Whose = Option<Arc<str>>;

/// An order that is carried out once, and confirmed with [`ToControl::Obeyed`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// RECONNECT: no present server is lent to another client.
    Reconnect(Whose),
    /// KILL: every client and every server is closed at once.
    Kill(Whose),
    /// `KILL_CLIENT`: the client of this number is closed at once.
    KillClient(u64),
    /// TRACE: reports what happens to clients from now on. Confirmed with whether there is such a client.
    Trace {
        /// The place of the tracer.
        place: usize,
        /// The clients that it follows.
        traced: Traced,
    },
    /// Ends a TRACE.
    EndTrace {
        /// The place of the tracer.
        place: usize,
    },
    /// Before the process ends: whether nothing is left that the shutdown waits for. A client that was on its way
    /// between two workers when both were drained is seen now.
    ConfirmDrained,
    /// PAUSE: confirmed when no client has a server, and none is being cleaned up.
    AwaitUnused(Whose),
    /// A switchover: confirmed when no client of the primary of this cluster has a server but for a stream of replication, and none is
    /// being cleaned up.
    AwaitDrained(Arc<str>),
    /// A switchover has waited for long enough: clients of the primary of this cluster that have a server are closed.
    EndLoans(Arc<str>),
    /// `WAIT_CLOSE`: confirmed when no server from before the last RECONNECT or change of its settings is left.
    AwaitRenewed(Whose),
    /// SUSPEND: confirmed when nothing of any conversation is under way.
    Suspend {
        /// The connections are to be handed over to another process. Servers with TLS cannot be handed over, so their
        /// transactions are waited for.
        is_handover: bool,
    },
}

impl<I: Io> Worker<I> {
    /// Whether a pool is to be paused, and why its servers are closed then.
    pub(crate) fn is_pause_ordered(&self, pool: PoolKey) -> Option<CloseReason> {
        let standing = &self.hands.active.standing;
        let name = self.registry.pool(pool).map(|place| self.registry.line_name(place.database));
        if name.is_some_and(|name| standing.killed.contains(name)) {
            return Some(CloseReason::Killed);
        }
        if self.admin.is_ending_servers() || name.is_some_and(|name| standing.pauses(name)) {
            return Some(CloseReason::PauseMode);
        }
        let entry = self.registry.entry_of(pool);
        entry.is_some_and(|entry| standing.holds(entry)).then_some(CloseReason::Held)
    }

    /// Pauses or resumes a pool as it is ordered now.
    pub(crate) fn stand(&mut self, pool: PoolKey) {
        let paused = self.is_pause_ordered(pool);
        let Some(place) = self.registry.pool_mut(pool) else { return };
        let was = std::mem::replace(&mut place.paused, paused);
        if was != paused {
            let database = place.database;
            match paused {
                Some(why) => self.tell_pools(Event::Pause { pool, why }),
                None if was != Some(CloseReason::Held) || are_served(true) => self.tell_pools(Event::Resume { pool }),
                None => {}
            }
            if was == Some(CloseReason::Held) {
                self.limits.end_hold(database);
            }
            if was.is_none() {
                self.renew_listener(database);
            }
        }
    }
}
