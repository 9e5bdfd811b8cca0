//! What operators see and order.
//!
//! Always true: an order is carried out between two turns, and is confirmed when it is done.
//! Not here: how orders are understood (`control::console`).

pub(crate) mod console;
pub(crate) mod orders;
pub(crate) mod reload;
pub(crate) mod shutdown;
pub(crate) mod snapshot;
pub(crate) mod stranded_locks;
pub(crate) mod suspend;
