//! Which clients are admitted, and how the pooler logs in to PostgreSQL.

pub(crate) mod floods;
pub(crate) mod hashing;
pub(crate) mod judges;
pub(crate) mod passwords;
pub(crate) mod proxied;
pub(crate) mod rules;
pub(crate) mod secrets;
pub(crate) mod tls;
