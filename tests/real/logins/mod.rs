//! Who is let in, and how we log in to PostgreSQL.

pub(crate) mod floods;
pub(crate) mod hashing;
pub(crate) mod judges;
pub(crate) mod passwords;
pub(crate) mod rules;
pub(crate) mod secrets;
pub(crate) mod tls;
