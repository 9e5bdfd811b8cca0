//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as in PostgreSQL, over TLS with channel binding (`tls-server-end-point`, RFC 5929).
//!
//! Always true: each stage of a login is consumed and yields the next stage or a [`ScramFault`]; the length of a peer's
//! message is checked before it is parsed.
//! Not here: the choice of the mechanism (AuthenticationSASL), which is in `protocol`.

pub mod client;
pub mod server;

mod fault;
mod keys;
mod maths;
mod message;

pub use fault::{Flaw, Message, ScramFault};
pub use keys::{Derivation, SaltedPassword, ScramKeys, ScramSecret};

/// The mechanism without channel binding, which we always offer and accept.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The mechanism with channel binding, whose logins cannot be relayed by a man in the middle of the TLS connection.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The number of random bytes in a nonce (`SCRAM_RAW_NONCE_LEN` of PostgreSQL).
pub const NONCE_BYTES: usize = 18;

/// The length of the salt in PostgreSQL's new secrets (`SCRAM_DEFAULT_SALT_LEN`). Mock secrets must have the same length, or
/// unknown users could be told from existing ones.
pub const SALT_BYTES: usize = 16;
