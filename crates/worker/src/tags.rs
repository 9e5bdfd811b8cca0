//! Commands that have been completed, as far as their tags say something about the session.
//!
//! Always true: a tag is read whole, however it came.
//! Not here: what the statements of a session have done to it otherwise (`look`).

use pool::ServerKey;
use reactor::Io;
use wire::Piece;

use crate::client::{Client, Stage};
use crate::turn::Worker;

impl<I: Io> Worker<I> {
    /// Whether this is, or may be, a tag that says that all statements are gone, that channels are left, or how a transaction may have ended.
    pub(crate) fn has_tag_to_read(&self, key: ServerKey, piece: &Piece, bytes: &[u8]) -> bool {
        let tags = || DROPS_STATEMENTS.iter().chain(&ENDS_TRANSACTIONS).chain(&DROPS_ONE).chain(&OF_CHANNELS);
        if piece.is_whole() {
            return tags().any(|tag| **tag == bytes[piece.body.clone()]);
        }
        let Some(server) = self.servers.get(key) else { return false };
        let tag_bytes = server.session.collected.len() + piece.body.len() + piece.left as usize;
        tags().any(|tag| tag.len() == tag_bytes)
    }

    /// A command has been completed that has one of those tags.
    pub(crate) fn completed(&mut self, key: ServerKey, body: &[u8]) {
        if body == DISCARD_ALL
            && let Some(server) = self.servers.get_mut(key)
        {
            server.session.overrides = None;
            if let Some(client) = server.client()
                && let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client)
                && let Some(traces) = &mut ready.session.traces
            {
                traces.discarded();
            }
        }
        if DROPS_STATEMENTS.contains(&body) {
            self.statements_dropped(key);
        }
        if DROPS_ONE.contains(&body) {
            self.statement_dropped(key);
        }
        if let Some(server) = self.servers.get(key).filter(|server| !server.session.exchange.is_ours())
            && let Some(client) = server.client()
            && let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client)
            && let Some(traces) = &mut ready.session.traces
        {
            match body {
                UNLISTEN | DISCARD_ALL => traces.unlistens.is_executed(),
                COMMIT => traces.unlistens.commits(),
                ROLLBACK => traces.unlistens.rolls_back(),
                _ => {}
            }
            if ENDS_TRANSACTIONS.contains(&body) {
                traces.effects_in_doubt();
            }
        }
    }
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
