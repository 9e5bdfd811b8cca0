//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as PostgreSQL speaks it, by TLS bound to its channel (`tls-server-end-point`, RFC 5929).
//!
//! Always true: a stage of a login consumes itself and returns the next one or a [`ScramFault`]; what a peer sends is
//! bounded before it is read.
//! Not here: the choice of the mechanism (AuthenticationSASL), which belongs to the messages of the protocol.

pub mod client;
pub mod server;

mod fault;
mod keys;
mod maths;
mod message;

pub use fault::{Flaw, Message, ScramFault};
pub use keys::{Derivation, SaltedPassword, ScramKeys, ScramSecret};

/// The mechanism that we offer and accept everywhere.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The same bound to a TLS channel: whoever stands between the two ends of a login cannot pass it on.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// How many random bytes a nonce is made of (`SCRAM_RAW_NONCE_LEN` of PostgreSQL).
pub const NONCE_BYTES: usize = 18;

/// How many bytes of salt PostgreSQL gives a new secret (`SCRAM_DEFAULT_SALT_LEN`). Secrets we make up must have as
/// many, or their users could be told from the others.
pub const SALT_BYTES: usize = 16;
