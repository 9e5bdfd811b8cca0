//! What a server tells of a statement on its way to the client that has asked for it.
//!
//! Always true: only descriptions of which somebody makes use are read; a description of parameters that the client is given
//! later is given with the very next answer.
//! Not here: what is made of them (`prepared`).

use wire::frame::HEADER_BYTES;
use wire::{Piece, write};

use super::server_session::ServerSession;

/// Reads a part of a `RowDescription`, or `NoData`.
pub(super) fn columns(server: &mut ServerSession, piece: &Piece, body: &[u8]) {
    if server.server_statements.is_being_described()
        && let Some(body) = server.gather(piece, body)
    {
        server.server_statements.described(piece.kind, &body);
    }
}

/// Handles a part of a `ParameterDescription`, which `is_read` where it belongs to a Describe whose answer is. The client is given
/// it later if its request may have to be sent again, unless it is not the client's.
pub(super) fn parameters(server: &mut ServerSession, piece: &Piece, body: &[u8], is_read: bool, is_ours: bool) {
    let is_later = server.repeatable.is_sent() && piece.is_whole() && !is_ours;
    if is_read && let Some(body) = server.gather(piece, body) {
        server.server_statements.described(piece.kind, &body);
    }
    if is_later {
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        write::message(&mut message, piece.kind, |out| out.extend_from_slice(body));
        server.repeatable.hold_parameters(message.into());
    }
}
