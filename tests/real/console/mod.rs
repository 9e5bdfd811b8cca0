//! The console: what it tells, and what an admin orders there.

mod browser;
pub(crate) mod drivers;
pub(crate) mod events;
pub(crate) mod exporter;
pub(crate) mod http;
pub(crate) mod orders;
pub(crate) mod page;
pub(crate) mod tables;
pub(crate) mod waits;
