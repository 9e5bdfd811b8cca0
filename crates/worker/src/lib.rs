//! The data plane: one thread that owns its sockets, clients, servers and pools, and lives in turns.
//!
//! Start with `turn.rs`, then `client.rs`, then `server.rs`, and read from top to bottom.
//!
//! Always true: nothing in a worker is shared; what it decides it asks of the machines (`protocol`, `pool`); what it sees
//! of the world comes through [`reactor::Io`].
//! Not here: signals, files, names, the console's commands (`control`).

mod accept;
mod admission;
mod advance;
mod again;
mod ahead;
mod applicant;
mod arrival;
mod backlog;
mod behind;
mod beside;
mod cancel;
mod catalog;
mod claims;
mod client;
mod console;
mod counts;
mod dial;
mod ending;
mod estate;
mod farewell;
mod flow;
mod force;
mod handover;
mod hashing;
mod held;
mod introduction;
mod join;
mod judge;
mod lend;
pub mod letters;
mod linger;
mod listen;
mod listener;
mod loan;
mod lock_calls;
mod locks;
mod login;
mod look;
mod loss;
mod luggage;
mod mend;
mod names;
mod numbers;
mod orders;
mod own_errors;
mod own_news;
mod peers;
mod places;
mod private;
mod proof;
mod rates;
mod rest;
mod secrets;
mod secure;
mod server;
mod slow;
mod snapshot;
mod sweep;
mod taken;
mod timers;
mod turn;
mod unauthenticated;
mod users;
mod verify;
mod want;

pub use turn::Worker;
