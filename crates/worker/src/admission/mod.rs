//! A client comes in: from the door to its pool.
//!
//! Always true: nobody is in a pool who has not shown who it is, and nobody learns whom there is.
//! Not here: what it does then (`data`).

pub(crate) mod accept;
pub(crate) mod applicant;
pub(crate) mod entry;
pub(crate) mod external_auth;
pub(crate) mod hashing;
pub(crate) mod login;
pub(crate) mod proof;
pub(crate) mod secrets;
pub(crate) mod unauthenticated;
