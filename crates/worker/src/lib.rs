//! The data plane: one thread that owns its sockets, clients, servers and pools, and lives in turns.
//!
//! Start with `turn.rs`, then `data/hear.rs` and `data/forward.rs`, then `data/converse.rs`, and read from top to
//! bottom. A folder is a room, whose tables no other room sees but for
//! the rows of clients and servers. A room that is a type of its own (`Cancels`, `HostNames`) is lent the worker's `Hands` and
//! values, so that it cannot touch a client. What a file needs from a file above it, it
//! returns to its caller or queues as a value (`tasks.rs`); `settle.rs` carries out the queue before the next event.
//!
//! Always true: nothing in a worker is shared between threads but the rate limits, the list of connections that have not
//! logged in, and the counter of ids; the machines (`protocol`, `pool`) make the decisions;
//! the worker reaches sockets, timers and the clock only through [`reactor::Io`].
//! Not here: signals, files, name resolution, the console's commands (`control`).

mod admin;
mod admission;
mod beside;
mod cancel;
mod connections;
mod data;
mod deadlines;
mod failing;
mod handover;
mod hands;
pub mod letters;
mod limits;
mod lines;
mod lookups;
mod measured;
mod notify;
mod observe;
mod planted;
mod reads;
mod recent_load;
mod registry;
mod repeated;
mod reporting;
mod reports;
mod settle;
mod slow;
#[cfg(test)]
mod still;
mod stopwatch;
mod tasks;
mod timers;
mod turn;
mod upstream;
mod watched;
mod worker;

pub use worker::Worker;
