//! The machines of the conversations: with a client, with a server, and between the two.
//!
//! Always true: no socket, clock or randomness of its own; bytes and time come in, values go out.
//! Not here: how messages are framed (`wire`), who is lent which server (`pool`).

pub mod cancel;
pub mod client;
pub mod exchange;
pub mod fault;
mod hash;
pub mod loan;
mod owed;
pub mod pack;
mod planted;
pub mod prepared;
pub mod replication;
pub mod request;
pub mod server;
pub mod spelling;
pub mod state;
pub mod vars;
