//! Clients and servers after login: the bytes between them, the loans, and how both are closed.
//!
//! Always true: a client and its server are looked at together by machines that see nothing else (`protocol::loan`);
//! forwarded bytes are not copied.
//! Not here: how clients and servers log in (`admission::entry`, `upstream`), and the shared `LISTEN` (`notify`).

pub(crate) mod accepted;
pub(crate) mod advance;
pub(crate) mod affinity;
pub(crate) mod answered;
pub(crate) mod at_once;
pub(crate) mod attach;
pub(crate) mod cancelled;
pub(crate) mod catalog;
pub(crate) mod catch_up;
pub(crate) mod claims;
pub(crate) mod client;
pub(crate) mod close;
pub(crate) mod close_server;
pub(crate) mod connection_ended;
pub(crate) mod converse;
pub(crate) mod counts;
pub(crate) mod end_at_once;
pub(crate) mod flow;
pub(crate) mod forward;
pub(crate) mod hear;
pub(crate) mod held;
pub(crate) mod leave;
pub(crate) mod loan_over;
pub(crate) mod lock_calls;
pub(crate) mod loss;
pub(crate) mod own_errors;
pub(crate) mod pace;
pub(crate) mod probe;
pub(crate) mod repeat_request;
pub(crate) mod sequences;
pub(crate) mod server;
pub(crate) mod unserved;
pub(crate) mod vacate;
pub(crate) mod want;
pub(crate) mod without_server;
