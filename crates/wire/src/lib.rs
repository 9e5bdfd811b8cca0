//! Parsing and writing messages: the framing of PostgreSQL's protocol, versions 3.0 and 3.2.
//!
//! Always true: nothing here depends on the state of a connection; a message that needs no change is referenced, not copied.
//! Not here: what a message means in the state of its connection (`protocol`), where its bytes come from (`reactor`).

pub mod backend;
pub mod frame;
pub mod frontend;
pub mod notice;
pub mod proxy;
pub mod request;
pub mod startup;
pub mod write;

pub use frame::{Piece, Scanner, Step};
pub use request::Request;

/// The longest message that PostgreSQL can send or receive, in bytes without the kind byte (`MaxAllocSize` in
/// `utils/memutils.h`, with the length word).
pub const MESSAGE_BYTES_MAX: u32 = 0x4000_0000;

/// The longest startup packet that PostgreSQL accepts (`MAX_STARTUP_PACKET_LENGTH` in `libpq/pqcomm.h`), in bytes.
pub const STARTUP_BYTES_MAX: u32 = 10_000;
