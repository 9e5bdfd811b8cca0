//! A server comes up, and is made clean for its next client.
//!
//! Always true: nobody is lent a server that has not logged in, or is not proven clean.
//! Not here: which slot is for whom (crate `pool`).

pub(crate) mod cleanup;
pub(crate) mod dedicated;
pub(crate) mod dial;
pub(crate) mod host_names;
pub(crate) mod introduction;
pub(crate) mod secure;
