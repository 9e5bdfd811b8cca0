//! A client comes in: from the door to its pool.
//!
//! Always true: nobody is in a pool who has not shown who it is, and nobody learns whom there is.
//! Not here: what it does then (`data`).

pub(crate) mod accept;
pub(crate) mod answers;
pub(crate) mod applicant;
pub(crate) mod auth_query;
pub(crate) mod entry;
pub(crate) mod external_auth;
pub(crate) mod greeting;
pub(crate) mod hash_orders;
pub(crate) mod hashing;
pub(crate) mod login;
pub(crate) mod proof;
pub(crate) mod questions;
pub(crate) mod remembered;
pub(crate) mod secrets;
pub(crate) mod welcome;
