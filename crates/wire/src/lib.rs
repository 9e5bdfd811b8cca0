//! Bytes to messages and back: the framing of PostgreSQL's protocol, versions 3.0 and 3.2.
//!
//! Always true: nothing here knows whose turn it is; a message that needs no change is never copied, only pointed at.
//! Not here: what a message means at this moment (`protocol`), and where its bytes come from (`reactor`).

pub mod backend;
pub mod frame;
pub mod frontend;
pub mod notice;
pub mod request;
pub mod startup;
pub mod write;

pub use frame::{Piece, Scanner, Step};
pub use request::Request;

/// The longest message PostgreSQL itself can make or take, in bytes without the kind byte (`MaxAllocSize` in
/// `utils/memutils.h`, with the length word).
pub const MESSAGE_BYTES_MAX: u32 = 0x4000_0000;

/// The longest startup packet PostgreSQL takes (`MAX_STARTUP_PACKET_LENGTH` in `libpq/pqcomm.h`), in bytes.
pub const STARTUP_BYTES_MAX: u32 = 10_000;
