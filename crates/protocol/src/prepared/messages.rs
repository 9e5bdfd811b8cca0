//! Writes the messages about statements that a server is sent.
//!
//! Always true: each has the length that it tells.
//! Not here: which of them are sent, and when (`server_statements`, `own`, `reading`).

use wire::{frontend, write};

/// Writes a Close of a statement.
pub(super) fn push_close(out: &mut Vec<u8>, name: &[u8]) {
    write::message(out, frontend::CLOSE, |out| {
        out.push(b'S');
        push_name(out, name);
    });
}

/// Writes a Describe of a statement.
pub(super) fn push_describe(out: &mut Vec<u8>, name: &[u8]) {
    write::message(out, frontend::DESCRIBE, |out| {
        out.push(b'S');
        push_name(out, name);
    });
}

/// Writes a name, or any string.
pub(super) fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(name);
    out.push(0);
}

/// The name that a Bind is given so that the server refuses it: no statement has this number.
pub(super) const OUTDATED: &[u8] = b"PGBOUNCER_0";
