//! How the process is configured, started, reached, replaced and stopped.

pub(crate) mod advise;
pub(crate) mod called_off;
pub(crate) mod capacity;
pub(crate) mod command;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod hatest;
pub(crate) mod inis;
pub(crate) mod lint;
pub(crate) mod log_format;
pub(crate) mod lookups;
pub(crate) mod quota;
pub(crate) mod record;
pub(crate) mod rigs;
pub(crate) mod signals;
pub(crate) mod simulate;
pub(crate) mod sockets;
pub(crate) mod spans;
pub(crate) mod syslog;
pub(crate) mod takeover;
