//! What operators see and order.
//!
//! Always true: an order is carried out between two turns, and is confirmed when it is done.
//! Not here: how orders are understood (`control::console`).

pub(crate) mod commands;
pub(crate) mod console;
pub(crate) mod orders;
pub(crate) mod reload;
pub(crate) mod rest;
pub(crate) mod shutdown;
pub(crate) mod snapshot;
pub(crate) mod stand;
pub(crate) mod standing;
pub(crate) mod stranded_locks;
pub(crate) mod suspend;
