//! Clients and servers in conversation: who has whom, what is said, what becomes of it.
//!
//! Always true: a client and the server that it has are looked at together by machines that see nothing else (`protocol::loan`); bytes that go on are not copied.
//! Not here: how they came here (`admission::entry`, `upstream`), and who listens for others (`notify`).

pub(crate) mod advance;
pub(crate) mod affinity;
pub(crate) mod again;
pub(crate) mod ahead;
pub(crate) mod catalog;
pub(crate) mod claims;
pub(crate) mod client;
pub(crate) mod close;
pub(crate) mod counts;
pub(crate) mod flow;
pub(crate) mod held;
pub(crate) mod loan;
pub(crate) mod lock_calls;
pub(crate) mod loss;
pub(crate) mod own_errors;
pub(crate) mod probe;
pub(crate) mod sequences;
pub(crate) mod server;
pub(crate) mod taken;
pub(crate) mod verify;
pub(crate) mod want;
