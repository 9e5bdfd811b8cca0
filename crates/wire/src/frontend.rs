//! The kinds of messages that a client sends after its startup packet (PostgreSQL manual, "Message Formats").

/// Bind.
pub const BIND: u8 = b'B';
/// Close a statement or portal.
pub const CLOSE: u8 = b'C';
/// `CopyData`, in both directions.
pub const COPY_DATA: u8 = b'd';
/// `CopyDone`, in both directions.
pub const COPY_DONE: u8 = b'c';
/// `CopyFail`.
pub const COPY_FAIL: u8 = b'f';
/// Describe a statement or portal.
pub const DESCRIBE: u8 = b'D';
/// Execute a portal.
pub const EXECUTE: u8 = b'E';
/// Flush.
pub const FLUSH: u8 = b'H';
/// `FunctionCall`.
pub const FUNCTION_CALL: u8 = b'F';
/// Parse.
pub const PARSE: u8 = b'P';
/// Any answer to an authentication request: `PasswordMessage`, `SASLInitialResponse`, `SASLResponse`.
pub const PASSWORD: u8 = b'p';
/// A simple query.
pub const QUERY: u8 = b'Q';
/// Sync.
pub const SYNC: u8 = b'S';
/// Terminate.
pub const TERMINATE: u8 = b'X';
