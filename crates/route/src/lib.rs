//! Reads from the SQL of a request what it leaves in the session.
//!
//! Always true: a text that is not understood is never taken for harmless; nothing here has a memory but the cache, whose
//! answers are those that reading the text again would give.
//! Not here: what follows from it for a client and its server (`protocol`).

mod act;
mod alone;
mod body;
mod builtin;
pub mod cache;
mod callers;
mod claim;
mod class;
pub mod classify;
mod condense;
mod configured;
pub mod dirty_state;
mod functions;
mod kept;
mod knowledge;
pub mod lexer;
mod listens;
mod lock;
mod makings;
mod meaning;
mod mentions;
mod name_filter;
mod normalize;
mod notify;
mod plain;
mod prepare;
mod read_names;
mod reads;
mod reads_cache;
mod sequences;
pub mod setting;
mod shape;
mod skim;
mod split;
mod traceparent;
mod words;

pub use act::{Act, Control};
pub use cache::{Cache, TEXT_BYTES_MAX};
pub use claim::{Claim, Purpose};
pub use class::Class;
pub use classify::{classify, parameters};
pub use condense::Condenser;
pub use dirty_state::DirtyState;
pub use functions::{FUNCTIONS_MAX, Reading, TEXTS_BYTES_MAX};
pub use knowledge::{Knowledge, Source, Unread};
pub use lexer::{Dialect, Encoding};
pub use listens::{Listens, listens};
pub use lock::{LockCall, LockKey};
pub use meaning::decides_meaning;
pub use normalize::{Labels, NORMALIZED_BYTES_MAX, Normalized, normalize};
pub use prepare::{deallocated, prepared};
pub use read_names::ReadNames;
pub use reads::{Reads, may_end_transaction, may_write_after_all, reads};
pub use reads_cache::ReadsCache;
pub use sequences::Sequences;
pub use setting::{Certain, Change, Value};
pub use shape::{may_lock, may_lock_tables, may_wait_for_advisory_lock, mentions, shape_however_read, shape_of};
pub use split::{Unsplit, statements};
pub use traceparent::{STATE_BYTES_MAX, TraceParent, traceparent, tracestate};
