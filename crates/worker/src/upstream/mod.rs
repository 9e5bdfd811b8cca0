//! Opens servers, and cleans them for their next clients.
//!
//! Always true: no client is lent a server that has not logged in or is not proven clean.
//! Not here: which client gets which slot (crate `pool`).

pub(crate) mod attempt;
pub(crate) mod cleanup;
pub(crate) mod dedicated;
pub(crate) mod dial;
pub(crate) mod dialed_host;
pub(crate) mod failure;
pub(crate) mod host_names;
mod host_terms;
pub(crate) mod introduction;
pub(crate) mod login;
pub(crate) mod moves;
pub(crate) mod observed_hosts;
mod outages;
pub(crate) mod primary;
pub(crate) mod proxy_header;
mod replicas;
pub(crate) mod role;
pub(crate) mod secure;
mod suspects;
