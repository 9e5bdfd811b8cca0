//! What a server tells of a statement on its way to the client that has asked for it.
//!
//! Always true: only descriptions of which somebody makes use are read; a description of parameters that the client is given
//! later is given with the very next answer.
//! Not here: what is made of them (`prepared`).

use wire::frame::HEADER_BYTES;
use wire::{Piece, write};

use super::client_session::ClientSession;
use super::server_session::ServerSession;

/// Reads a part of a `RowDescription`, or `NoData`.
pub(super) fn columns(client: Option<&mut ClientSession>, server: &mut ServerSession, piece: &Piece, body: &[u8]) {
    if server.server_statements.is_being_described()
        && let Some(body) = server.gather(piece, body)
    {
        let names = client.and_then(|client| client.names.as_deref_mut());
        server.server_statements.described(piece.kind, &body, names);
    }
}

/// Handles a part of a `ParameterDescription`. The client is given it later if its request may have to be sent again, unless
/// the server answers a query of our own (`was_ours`), or a message that is hidden.
pub(super) fn parameters(server: &mut ServerSession, piece: &Piece, body: &[u8], was_ours: bool) {
    let is_later = server.repeatable.is_sent() && piece.is_whole() && !was_ours && !server.exchange.is_hiding();
    if server.exchange.is_describing()
        && let Some(body) = server.gather(piece, body)
    {
        server.server_statements.described(piece.kind, &body, None);
    }
    if is_later {
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        write::message(&mut message, piece.kind, |out| out.extend_from_slice(body));
        server.repeatable.hold_parameters(message.into());
    }
}
