//! The parts of a world beside applications and servers: time, chance, sockets, the pooler's workers and their control
//! thread.
//!
//! Always true: nothing here draws what happens, or judges it.
//! Not here: what happens (`plan`, `faults`), what is checked (`checks`).

pub(crate) mod agenda;
mod carry;
pub(crate) mod control;
pub(crate) mod dead_addresses;
pub(crate) mod dice;
pub(crate) mod fake_tls;
pub(crate) mod handover;
pub(crate) mod io;
pub(crate) mod mail;
pub(crate) mod net;
pub(crate) mod own_clients;
mod post;
mod takeover;
pub(crate) mod thread;
pub(crate) mod worker_io;
pub(crate) mod workers;
