//! The console: what it shows, and which commands an administrator gives there.

pub(crate) mod alerting;
pub(crate) mod alerts;
mod browser;
pub(crate) mod counts;
pub(crate) mod drivers;
pub(crate) mod events;
pub(crate) mod exporter;
pub(crate) mod failing;
pub(crate) mod http;
pub(crate) mod orders;
pub(crate) mod page;
pub(crate) mod statements;
pub(crate) mod tables;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod waits;
