//! How our commands reach a PostgreSQL or a console: addresses, passwords as libpq keeps them, TLS as `sslmode` and
//! `sslrootcert` ask for it, and what a terminal may be shown of an answer.
//!
//! Always true: no password is part of an error.
//! Not here: which addresses are tried and when (`top`, `ops::hatest`); the pooler's own connections (`worker`).

mod address;
mod counted;
mod keys;
mod passwords;
mod secure;
mod text;
mod trust;

pub use address::Address;
pub use counted::Counted;
pub use keys::Split;
pub use passwords::{kept_password, pass_file, read_private};
pub use secure::{Connector, Secure, Secured, Securing, Stream};
pub use text::{CLEAN_CHARS_MAX, clean};
pub use trust::Trust;
