//! A client logs in: from the accepted connection to its pool.
//!
//! Always true: no client is in a pool before it is authenticated, and none learns which users exist.
//! Not here: its queries (`data`).

pub(crate) mod accept;
pub(crate) mod answers;
pub(crate) mod applicant;
pub(crate) mod auth_query;
pub(crate) mod entry;
pub(crate) mod external_auth;
pub(crate) mod greeting;
pub(crate) mod hashing;
pub(crate) mod login;
pub(crate) mod proof;
pub(crate) mod proxied;
pub(crate) mod questions;
pub(crate) mod remembered;
pub(crate) mod secrets;
pub(crate) mod welcome;
