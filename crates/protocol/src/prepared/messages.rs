//! Writes the messages about statements that a server is sent.
//!
//! Always true: each has the length that it tells.
//! Not here: which of them are sent, and when (`server_statements`, `own`, `reading`).

use wire::frame::HEADER_BYTES;
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

/// The beginning of a Bind, up to its values: in place of the first `end` bytes of a body of `body_bytes`. `behind` is what
/// follows it in the same memory.
pub(super) fn bind_head(portal: &[u8], statement: &[u8], (body_bytes, end): (usize, usize), behind: &[u8]) -> Vec<u8> {
    let names = portal.len() + 1 + statement.len() + 1;
    let mut out = Vec::with_capacity(HEADER_BYTES + names + behind.len());
    out.push(frontend::BIND);
    out.extend_from_slice(&((4 + names + body_bytes - end) as u32).to_be_bytes());
    push_name(&mut out, portal);
    push_name(&mut out, statement);
    out.extend_from_slice(behind);
    out
}

/// Writes a name, or any string.
pub(super) fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(name);
    out.push(0);
}

/// The name that a Bind is given so that the server refuses it: no statement has this number.
pub(super) const OUTDATED: &[u8] = b"PGBOUNCER_0";
