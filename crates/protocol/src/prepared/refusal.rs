//! Evaluates errors of a server that concern prepared statements.
//!
//! Always true: a server's report that it has or lacks a statement is believed; a client is told of its statements by its
//! own names.
//! Not here: what a failed step means for the names and statements that it was to create (`server_statements`).

use std::ops::Range;
use std::rc::Rc;

use super::PREFIX;
use super::names::Names;
use super::server_statements::{Held, ServerStatements, State, closing};

impl ServerStatements {
    /// Evaluates an `ErrorResponse`. It is believed where it reports that a statement does not exist, that one exists
    /// already, or that plans no longer fit their tables.
    pub fn refused(&mut self, body: &[u8]) {
        let field = |kind: u8| body.split(|&byte| byte == 0).find_map(|field| field.strip_prefix(&[kind]));
        // The message contains `PGBOUNCER_7` whatever its language.
        let id = || our_name_in(field(b'M')?).map(|(id, _)| id);
        match field(b'C') {
            // What has dropped this one without a word has probably dropped all.
            Some(b"26000") if id().is_some_and(|id| self.held.contains_key(&id)) => self.doubt(|_| true),
            Some(b"42P05") => {
                // This error is expected for a statement that is known to be there.
                let is_new = |id: &u64| self.held.get(id).is_none_or(|held| held.state != State::Sure);
                let taken = id().filter(is_new);
                self.taken.extend(taken);
                if self.taken.len() > TAKEN_MAX {
                    self.taken.remove(0);
                }
            }
            // "cached plan must not change result type" does not tell which statement it concerns. The routine's name is
            // not translated.
            Some(b"0A000") if field(b'R') == Some(b"RevalidateCachedQuery") => self.doubt(|_| true),
            _ => {}
        }
    }

    /// A parameter has changed during a loan: statements prepared in that loan may have been parsed before or after the change.
    pub fn doubt_this_loan(&mut self) {
        let loan = self.loan;
        self.doubt(|held| held.loan == loan);
    }

    pub(super) fn doubt(&mut self, which: impl Fn(&Held) -> bool) {
        // A statement that is being closed stays if its Close is skipped.
        let closing = closing(&mut self.pending).filter_map(|(_, was)| was.as_mut());
        for held in self.held.values_mut().chain(closing).filter(|held| which(held)) {
            held.state = State::Doubted;
        }
    }
}

impl Names {
    /// Replaces our name of a statement by the client's in `body`, the body of an `ErrorResponse`. `None` where nothing
    /// is to be replaced.
    #[must_use]
    pub fn reworded(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let twice = self.twice.take();
        if !body.split(|&byte| byte == 0).any(|field| matches!(field, b"C42P05" | b"C26000" | b"C08P01")) {
            return None;
        }
        let (id, place) = our_name_in(body)?;
        if id == 0 && std::mem::take(&mut self.has_outdated) {
            return Some(outdated(body));
        }
        let means = |name: &Rc<[u8]>| self.named.get(name).is_some_and(|named| named.statement.id() == id);
        let twice = twice.filter(|(_, named)| *named == id).map(|(name, _)| name);
        let present = || self.named.keys().take(LOOKED_AT_MAX).find(|name| means(name));
        let former = || self.former.iter().find(|(former, _)| *former == id).map(|(_, name)| name);
        let name = twice.as_ref().or_else(present).or_else(former)?;
        Some([&body[..place.start], name, &body[place.end..]].concat())
    }
}

/// The error for a Bind that was sent under [`OUTDATED`](super::messages::OUTDATED), as PostgreSQL reports a plan whose
/// result has changed, from the one that it has reported instead.
fn outdated(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in body.split(|&byte| byte == 0).filter(|field| matches!(field.first(), Some(b'S' | b'V'))) {
        out.extend_from_slice(field);
        out.push(0);
    }
    out.extend_from_slice(
        b"C0A000\0Mcached plan must not change result type\0Fplancache.c\0RRevalidateCachedQuery\0\0",
    );
    out
}

/// The first name of ours in a text: its number and its position.
pub(super) fn our_name_in(text: &[u8]) -> Option<(u64, Range<usize>)> {
    let at = text.windows(PREFIX.len()).position(|part| part == PREFIX.as_bytes())?;
    let digits = at + PREFIX.len();
    let count = text[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&text[digits..digits + count]).ok()?.parse().ok()?;
    Some((number, at..digits + count))
}

/// How many names of a client are searched for the one that an error concerns; a client with more names may read ours.
const LOOKED_AT_MAX: usize = 1000;
/// How many numbers of statements are remembered that others have created under our names.
const TAKEN_MAX: usize = 64;
