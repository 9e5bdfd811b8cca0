//! Who gets which server, and when another one is opened or closed: the machine in the middle of the house.
//!
//! Always true: nothing here reads a clock, opens a socket, logs or iterates over a hash. A worker tells [`Pools`] what
//! happened and carries out the [`Command`]s that come back, in their order. The same seed and the same events give the
//! same commands.
//! Not here: what a client or a server says on its connection (`protocol`), which pool a request belongs to (`route`).
//!
//! To read it, begin with `pools` (which event goes where), then `pool` (what one pool does about it).

mod agenda;
mod arrival;
mod aside;
mod bank;
mod bucket;
mod command;
mod delayed;
mod dial;
mod event;
mod failure;
mod ledger;
mod limits;
mod linger;
mod list;
mod obsolete;
mod pick;
mod planted;
mod pool;
mod pools;
mod private;
mod purse;
mod queue;
mod rates;
mod reason;
mod share;
mod shelf;
mod slot;
mod snapshot;
mod spell;
mod vacate;
mod wanted;
mod why;

pub use arrival::Arrival;
pub use bucket::{Period, Rate, millis};
pub use command::{CloseReason, Command, Need, Note, OpenReason, Refusal};
pub use delayed::{Delayed, Ticket};
pub use event::{Event, Fingerprint, Return};
pub use failure::{Failure, FailureKind};
pub use ledger::{Answer, Ledger, LedgerKey, LedgerKind, Letter, Patience};
pub use limits::{Limits, Mode, Reuse};
pub use linger::{Haste, Linger};
pub use pools::Pools;
pub use purse::{Claimant, Outcome, Purse, Taken};
pub use rates::{
    Admission, BucketKey, Counted, Excess, Moment, RateFilter, RateKeys, RateRow, RateRule, RateTally, Rates, Relief,
    Shortage, Subject,
};
pub use reason::{WaitReason, Waited};
pub use slot::{State, Work};
pub use snapshot::Snapshot;
pub use spell::{Look, Spell, Word};

/// A client of this worker. Its index is small, since it comes from the worker's own table of clients.
pub type ClientKey = base::Key;
/// A slot, and therefore the server in it; given out by [`Pools`].
pub type ServerKey = base::Key;
/// A pool of this worker; given out by [`Pools::open`].
pub type PoolKey = base::Key;
