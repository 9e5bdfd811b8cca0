//! Statements that need a database to themselves, such as DROP DATABASE: a client's is recognized, and all workers are told.
//!
//! Always true: what is recognized is such a statement alone, so that nothing beside it can be what takes the server's time.
//! Workers are told only after PostgreSQL has had the time to refuse the statement, as it does at once where the client lacks
//! the privilege or something else is wrong; nothing waits for what the other workers do.
//! Not here: which statements these are (`route::Claim`), which servers are closed for it (`vacate`).

use std::sync::Arc;
use std::time::Duration;

use base::{Key, Time};
use pool::ServerKey;
use protocol::loan::{bound, name, name_behind};
use protocol::prepared::cut;
use reactor::{Address, Io, Subject};
use route::{Claim, Dialect};
use wire::backend::TxStatus;
use wire::{MESSAGE_BYTES_MAX, Piece, Scanner, Step, frontend};

use crate::data::client::Link;
use crate::letters::ToWorker;
use crate::timers::Timer;
use crate::worker::Worker;

/// The last statement of a client, which needs a database to itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claimed {
    pub(super) claim: Claim,
    /// The name under which it was prepared; `None` for a simple query.
    pub(super) statement: Option<Box<[u8]>>,
    pub(super) since: Time,
    /// When it is next checked whether it has been answered.
    pub(super) next: Time,
}

/// What all workers are told about such a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimProgress {
    pub(super) claim: Claim,
    /// The address of the server that executes it.
    pub(super) address: Address,
    pub(super) phase: ClaimPhase,
}

/// How far such a statement has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimPhase {
    /// PostgreSQL has neither refused nor executed it yet; with the client as log lines name it.
    Waits(Subject),
    /// It has been executed.
    Done,
}

impl Claimed {
    /// Whether nothing that the client sends from here on could take time for another reason: it executes this
    /// statement and ends its batch.
    pub(super) fn is_all_until_sync(&self, bytes: &[u8], mut at: usize) -> bool {
        let mut scanner = Scanner::default();
        while at < bytes.len() {
            let Some(piece) = whole(&mut scanner, bytes, at) else { return false };
            let body = &bytes[piece.body];
            let goes_on = match piece.kind {
                _ if self.statement.is_none() => false,
                frontend::BIND => bound(body) == self.statement.as_deref(),
                frontend::DESCRIBE | frontend::EXECUTE | frontend::SYNC | frontend::FLUSH | frontend::CLOSE => true,
                _ => false,
            };
            if !goes_on {
                return false;
            }
            at = piece.range.end;
        }
        true
    }
}

/// The claim with which these messages to an idle server begin, if they begin with one. `before` is the client's
/// statement before.
pub(crate) fn begins(bytes: &[u8], before: Option<&Claimed>, dialect: Dialect) -> Option<Claimed> {
    let piece = whole(&mut Scanner::default(), bytes, 0)?;
    let body = &bytes[piece.body];
    let new =
        |text, statement| Some(Claimed { claim: Claim::of(text, dialect)?, statement, since: Time(0), next: Time(0) });
    let claimed = match piece.kind {
        frontend::QUERY => new(name(body)?, None)?,
        frontend::PARSE => {
            let statement = name(body)?;
            new(name_behind(body, statement.len() + 1)?, Some(cut(statement).into()))?
        }
        // Drivers may have the statement described first, and execute it in a later batch.
        frontend::BIND => before.filter(|before| bound(body) == before.statement.as_deref())?.clone(),
        _ => return None,
    };
    claimed.is_all_until_sync(bytes, piece.range.end).then_some(claimed)
}

/// Whether messages may begin with such a statement. Called for all that clients send, so it looks at a few bytes only.
pub(crate) fn may_claim(bytes: &[u8]) -> bool {
    let text = match bytes {
        [frontend::QUERY, _, _, _, _, text @ ..] | [frontend::PARSE, _, _, _, _, 0, text @ ..] => text,
        [frontend::PARSE, _, _, _, _, body @ ..] => name(body).map_or(body, |name| &body[name.len() + 1..]),
        _ => return false,
    };
    Claim::may_begin(text)
}

fn whole(scanner: &mut Scanner, bytes: &[u8], at: usize) -> Option<Piece> {
    match scanner.next(bytes, at, MESSAGE_BYTES_MAX) {
        Step::Piece(piece) if piece.is_whole() => Some(piece),
        _ => None,
    }
}

impl<I: Io> Worker<I> {
    /// Whether the client's last statement was such a one.
    pub(crate) fn has_claimed(&self, key: Key) -> bool {
        self.clients.ready(key).is_some_and(|ready| ready.claimed.is_some())
    }

    /// A client sends something to its server: notes whether that is such a statement, and nothing else.
    pub(crate) fn note_claim(&mut self, key: Key, server_key: ServerKey, bytes: &[u8]) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let before = ready.claimed.take();
        let Some(server) = self.servers.get(server_key).filter(|server| server.dedicated.is_none()) else { return };
        if ready.session.scanner.is_in_body() || !ready.session.scanner.torn_header().is_empty() {
            return;
        }
        if !server.session.exchange.owes_client_nothing() || server.session.exchange.status() != TxStatus::Idle {
            ready.claimed = before.filter(|before| before.is_all_until_sync(bytes, 0));
            return;
        }
        let dialect = self.texts.dialect(&ready.session.vars, &self.hands.active.tracked);
        let next = self.hands.now + PROMPT;
        let claimed = begins(bytes, before.as_deref(), dialect);
        ready.claimed = claimed.map(|claimed| Box::new(Claimed { since: self.hands.now, next, ..claimed }));
        if ready.claimed.is_some() {
            self.hands.timers.insert(next, Timer::Claim(key));
        }
    }

    /// If such a statement is still unanswered, has idle servers of its database closed.
    pub(crate) fn claim_due(&mut self, key: Key) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &mut ready.claimed) else { return };
        let Some(server) = self.servers.get(server) else { return };
        // PostgreSQL may not have begun to execute messages that no Sync follows.
        let is_executed = !server.session.exchange.owes_client_nothing() && !server.session.exchange.wants_sync();
        let (Some(address), true) = (server.address.clone(), is_executed && claimed.next <= self.hands.now) else {
            return;
        };
        let claim = claimed.claim.clone();
        claimed.next = self.hands.now + ROUND;
        if self.hands.now.since(claimed.since) < PATIENCE {
            self.hands.timers.insert(claimed.next, Timer::Claim(key));
        }
        let phase = ClaimPhase::Waits(self.client_prefix(key));
        self.post_claim_progress(ClaimProgress { claim, address, phase });
    }

    /// A client's server has changed the catalog: if it did so by such a statement, all workers are told.
    pub(crate) fn claim_done(&mut self, key: Key) {
        let Some(ready) = self.clients.ready(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &ready.claimed) else { return };
        let Some(address) = self.servers.get(server).and_then(|server| server.address.clone()) else { return };
        self.post_claim_progress(ClaimProgress { claim: claimed.claim.clone(), address, phase: ClaimPhase::Done });
    }

    fn post_claim_progress(&self, progress: ClaimProgress) {
        let progress = Arc::new(progress);
        self.hands.posts.workers.iter().for_each(|post| post(ToWorker::ClaimProgress(progress.clone())));
    }
}

/// PostgreSQL refuses a statement within this time, unless it executes it or waits for other sessions to leave the database.
const PROMPT: Duration = Duration::from_millis(100);
/// Pause before idle servers that were opened meanwhile are closed again,
const ROUND: Duration = Duration::from_millis(500);
/// for as long as PostgreSQL waits (5 seconds: `CountOtherDBBackends` in `storage/ipc/procarray.c`).
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use wire::write;

    use super::*;

    fn query(sql: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::query(&mut out, sql);
        out
    }

    fn parse(statement: &str, sql: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::parse(&mut out, statement.as_bytes(), sql, std::iter::empty());
        out
    }

    /// A message of the extended protocol that begins with two names.
    fn message(kind: u8, portal: &str, statement: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::message(&mut out, kind, |out| {
            write::c_string(out, portal);
            write::c_string(out, statement);
            out.extend_from_slice(&[0; 6]);
        });
        out
    }

    fn run(statement: &str) -> Vec<u8> {
        let mut out = message(frontend::BIND, "", statement);
        out.extend(message(frontend::EXECUTE, "", ""));
        write::bare(&mut out, frontend::SYNC);
        out
    }

    fn heard(bytes: &[u8], before: Option<&Claimed>) -> Option<Claimed> {
        begins(bytes, before, Dialect::default())
    }

    #[test]
    fn a_statement_is_heard_in_either_protocol_and_executed_in_a_later_batch() {
        for bytes in [query("drop database a"), query(" /* x */ DROP DATABASE a"), parse("s", "DROP DATABASE a")] {
            assert!(may_claim(&bytes));
            assert_eq!(&*heard(&bytes, None).expect("it claims a database").claim.database, "a");
        }
        let prepared = heard(&parse("s", "DROP DATABASE a"), None);
        assert!(heard(&run("s"), prepared.as_ref()).is_some(), "described first, executed then");
        assert!(heard(&run("t"), prepared.as_ref()).is_none(), "another statement");
        assert!(heard(&[parse("", "drop database a"), run("")].concat(), None).is_some());
    }

    /// What takes time must be the statement itself: otherwise any client could have idle servers of any database closed.
    #[test]
    fn a_statement_beside_others_is_not_heard() {
        let drop = || query("DROP DATABASE a");
        for bytes in [
            [drop(), query("SELECT pg_sleep(9)")].concat(),
            [parse("d", "DROP DATABASE a"), parse("s", "SELECT pg_sleep(9)"), run("s")].concat(),
            [parse("d", "DROP DATABASE a"), run("s")].concat(),
            [query("SELECT 1"), drop()].concat(),
            drop()[..8].to_vec(),
        ] {
            assert_eq!(heard(&bytes, None), None);
        }
        let claimed = heard(&parse("d", "DROP DATABASE a"), None).expect("it claims a database");
        assert!(claimed.is_all_until_sync(&run("d"), 0) && !claimed.is_all_until_sync(&run("s"), 0));
        assert!(!heard(&drop(), None).expect("it claims a database").is_all_until_sync(&query("SELECT 1"), 0));
    }

    #[test]
    fn most_messages_are_told_by_their_first_bytes() {
        for bytes in [query("SELECT 1"), parse("name", "INSERT INTO t VALUES (1)"), run("s"), query(""), vec![b'Q']] {
            assert!(!may_claim(&bytes));
        }
    }
}
