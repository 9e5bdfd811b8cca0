//! The pooling machine: decides which client gets which server, and when servers are opened and closed.
//!
//! Always true: nothing here reads a clock, opens a socket, logs or iterates over a hash. A worker passes events to
//! [`Pools`] and carries out the returned [`Command`]s in their order. The same seed and the same events give the same
//! commands.
//! Not here: the messages of a client or a server (`protocol`), which pool a client belongs to (`worker::admission`).
//!
//! Begin reading with `pools` (which event goes to which pool), then `pool` (how one pool reacts).

mod affinity_hold;
mod agenda;
mod bucket;
mod command;
mod dedicated;
mod delayed;
mod dial;
mod event;
mod evict;
mod failure;
mod full;
mod host_choice;
mod imported;
mod ledger;
mod lend;
mod limits;
mod list;
mod moved;
mod obsolete;
mod outside_size;
mod pick;
mod planted;
mod pool;
mod pool_servers;
mod pools;
mod queue;
mod quotas;
mod rates;
mod reason;
mod share;
mod slot;
mod snapshot;
mod vacate;
mod wait_period;
mod wanted;
mod why;
mod worker_quota;

pub use affinity_hold::{AffinityHold, HoldHistory};
pub use bucket::{Period, Rate, millis};
pub use command::{CloseReason, Command, Need, Note, OpenReason, Refusal};
pub use delayed::{Delayed, Ticket};
pub use event::{Event, Fingerprint, Return};
pub use failure::{Failure, FailureKind};
pub use host_choice::{HostChoice, HostOrder, HostTerms, Suits};
pub use imported::Imported;
pub use ledger::{Answer, Ledger, LedgerKey, LedgerKind, Letter, Patience};
pub use limits::{Limits, Mode, Reuse};
pub use pools::Pools;
pub use rates::{
    Admission, BucketKey, Counted, Excess, RateFilter, RateKeys, RateRow, RateRule, RateStage, RateTally, Rates,
    Relief, Shortage, Subject, network_of,
};
pub use reason::{WaitReason, Waited};
pub use slot::{State, Work};
pub use snapshot::Snapshot;
pub use wait_period::{QueueSample, WaitPeriod, WaitReport};
pub use worker_quota::{Claimant, Outcome, Taken, WorkerQuota};

/// A client of this worker. Its index is small, because it comes from the worker's own table of clients.
pub type ClientKey = base::Key;
/// A slot and the server in it; allocated by [`Pools`].
pub type ServerKey = base::Key;
/// A pool of this worker; allocated by [`Pools::open`].
pub type PoolKey = base::Key;
