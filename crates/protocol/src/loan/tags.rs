//! Commands that have been completed, as far as their tags say something about the session or the catalog.
//!
//! Always true: a tag is read whole, however it came.
//! Not here: what the statements of a session have done to it otherwise (`state`), what follows from a change of the catalog (`worker::data::catalog`).

use wire::Piece;

use super::client_session::ClientSession;
use super::server_session::ServerSession;
use crate::state::without_statements;

/// Whether this is, or may be, a tag that says that all statements are gone, that channels are left, or how a transaction may have ended.
pub(super) fn concern_us(server: &ServerSession, piece: &Piece, body: &[u8]) -> bool {
    let tags = || DROPS_STATEMENTS.iter().chain(&ENDS_TRANSACTIONS).chain(&DROPS_ONE).chain(&OF_CHANNELS);
    if piece.is_whole() {
        return tags().any(|tag| **tag == *body);
    }
    let tag_bytes = server.collected.len() + body.len() + piece.left as usize;
    tags().any(|tag| tag.len() == tag_bytes)
}

/// Whether a tag says that the catalog may be another now. Of what a function has done it says nothing.
pub(super) fn changes_catalog(tag: &[u8]) -> bool {
    const TAGS: [&[u8]; 6] = [b"ALTER ", b"CREATE ", b"DROP ", b"DO\0", b"CALL\0", b"IMPORT "];
    TAGS.iter().any(|known| tag.starts_with(known))
}

/// A command has been completed that has one of those tags.
pub(super) fn completed(mut client: Option<&mut ClientSession>, server: &mut ServerSession, tag: &[u8]) {
    let is_ours = server.exchange.is_ours();
    if tag == DISCARD_ALL {
        server.overrides = None;
        if let Some(traces) = client.as_deref_mut().and_then(|client| client.traces.as_deref_mut()) {
            traces.discarded();
        }
    }
    if DROPS_STATEMENTS.contains(&tag) {
        statements_dropped(client.as_deref_mut().filter(|_| !is_ours), server);
    }
    if DROPS_ONE.contains(&tag) && server.stock.is_dropping() {
        server.stock.dropped(client.as_deref_mut().and_then(|client| client.names.as_deref_mut()));
    }
    if let Some(traces) = client.filter(|_| !is_ours).and_then(|client| client.traces.as_deref_mut()) {
        match tag {
            UNLISTEN | DISCARD_ALL => traces.unlistens.is_executed(),
            COMMIT => traces.unlistens.commits(),
            ROLLBACK => traces.unlistens.rolls_back(),
            _ => {}
        }
        if ENDS_TRANSACTIONS.contains(&tag) {
            traces.effects_in_doubt();
        }
    }
}

/// All statements of the server are gone, and of its client, if that has dropped them.
fn statements_dropped(mut client: Option<&mut ClientSession>, server: &mut ServerSession) {
    server.told_by.doubt();
    without_statements(&mut server.overrides);
    if let Some(client) = client.as_deref_mut() {
        // Those too that could not be prepared here.
        without_statements(&mut client.overrides);
    }
    server.stock.drop_all(client.and_then(|client| client.names.as_deref_mut()));
}

/// The tags of commands that drop all prepared statements.
const DROPS_STATEMENTS: [&[u8]; 2] = [DISCARD_ALL, b"DEALLOCATE ALL\0"];
const DISCARD_ALL: &[u8] = b"DISCARD ALL\0";
/// The tag of a command that drops one.
const DROPS_ONE: [&[u8]; 1] = [b"DEALLOCATE\0"];
/// The tags of commands that take back what was done in a transaction, or may begin another in the middle of what a client has sent.
const ENDS_TRANSACTIONS: [&[u8]; 3] = [ROLLBACK, b"CALL\0", b"DO\0"];
const ROLLBACK: &[u8] = b"ROLLBACK\0";
/// The tags of other commands that say which channels are left.
const OF_CHANNELS: [&[u8]; 2] = [UNLISTEN, COMMIT];
const UNLISTEN: &[u8] = b"UNLISTEN\0";
const COMMIT: &[u8] = b"COMMIT\0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_define_something_change_the_catalog() {
        for (tag, changes) in [
            (&b"ALTER TABLE\0"[..], true),
            (b"CREATE INDEX\0", true),
            (b"DROP VIEW\0", true),
            (b"DO\0", true),
            (b"SELECT 1\0", false),
            (b"COMMIT\0", false),
            (b"DELETE 3\0", false),
            (b"", false),
        ] {
            assert_eq!(changes_catalog(tag), changes, "{tag:?}");
        }
    }
}
