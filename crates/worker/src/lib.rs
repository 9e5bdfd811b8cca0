//! The data plane: one thread that owns its sockets, clients, servers and pools, and lives in turns.
//!
//! Start with `turn.rs`, then `data/hear.rs` and `data/forward.rs`, then `data/converse.rs`, and read from top to bottom. The files are layers: none comes
//! back to itself by imports and calls. What a file wants of one above it, it returns, or queues as a value (`tasks.rs`), which `settle.rs` does before the
//! next event.
//!
//! Always true: nothing in a worker is shared; what it decides it asks of the machines (`protocol`, `pool`); what it sees
//! of the world comes through [`reactor::Io`].
//! Not here: signals, files, names, the console's commands (`control`).

mod admin;
mod admission;
mod beside;
mod cancel;
mod carried;
mod connections;
mod course;
mod data;
mod deadlines;
mod due;
mod handover;
pub mod letters;
mod limits;
mod lines;
mod long;
mod lookups;
mod measured;
mod notify;
mod planted;
mod registry;
mod reporting;
mod reports;
mod sampled;
mod settle;
mod slow;
mod spanning;
mod spans;
mod stopwatch;
mod tasks;
mod timers;
mod tracers;
mod tracing;
mod turn;
mod upstream;
mod watched;
mod worker;

pub use worker::Worker;
