//! The letters: the values that travel between threads.
//!
//! Always true: a letter owns what it carries; no thread waits for an answer within a turn; control changes a worker only
//! by a letter, and reads it by asking for a [`Snapshot`] or from the reports that a worker sends by itself.
//! Not here: what the receiver of a letter does.

mod active_config;
mod posts;
mod snapshot;
mod to_control;
mod to_worker;

pub use crate::admin::console::{Commander, Right};
pub use crate::admin::seen::{
    ApplicationRow, Detail, Doing, Evicted, LockSigns, PoolMeasures, ReadCounts, StatementsOf, WaitRow,
};
pub use crate::admin::standing::{Order, Standing, Whose};
pub use crate::admission::questions::SystemUser;
pub use crate::admission::questions::{ExternalAuth, PasswordQuestion, Verdict};
pub use crate::admission::questions::{HashAsker, HashQuestion, Hashed};
pub use crate::data::catalog::FunctionsMade;
pub use crate::data::claims::{ClaimPhase, ClaimProgress};
pub use crate::handover::divide::Import;
pub use crate::handover::parcel::{Cursor, Export, Imports, Pair, Parcel};
pub use crate::limits::rate_limits::RateLimits;
pub use crate::limits::unauthenticated::Unauthenticated;
pub use crate::observe::spans::{ServerSpan, SpanError, SpanText, StatementSpans};
pub use crate::observe::tracers::{Failed, Happening, Mask, Requested, TRACERS_MAX, Traced, What};
pub use crate::reports::{Report, ReportKind};

pub use active_config::{ActiveConfig, TlsTerms};
pub use posts::{Ids, Post, Posts};
pub use snapshot::{
    ChannelRow, DatabaseRow, FailingQueries, HostRow, Parts, PeerRow, PinRow, PinTotal, PoolRow, Row, Snapshot,
    TableRow, Totals, UserRow, Verified,
};
pub use to_control::{SecretQuestion, ToControl};
pub use to_worker::{
    AddressSource, Addresses, AuthQueryAnswer, CancelWait, CancelWish, Found, GreetedClient, Inquirer, LocksDiffer,
    Requester, Shutdown, ToWorker,
};
