//! Statements that need a database to themselves, such as DROP DATABASE: PostgreSQL waits 5 seconds for everybody else who is connected to
//! it to go, and idle servers of ours would not.
//!
//! Always true: what is closed is idle, and connected to that database at the very address at which the statement runs; nothing is closed
//! before PostgreSQL has had the time to refuse the statement, as it does at once where its client has no right to it or something else
//! is wrong; nothing waits for the closing.
//! Not here: which statements these are (`route::Claim`), what a pool does about it (`pool::Event::Vacate`).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Time};
use config::{Database, Host};
use pool::{Event, ServerKey};
use protocol::loan::{bound, name, name_behind};
use protocol::prepared::cut;
use reactor::{Address, Io, Level};
use route::{Claim, Dialect};
use wire::backend::TxStatus;
use wire::{MESSAGE_BYTES_MAX, Piece, Scanner, Step, frontend};

use crate::data::client::{Client, Link, Stage as ClientStage};
use crate::data::server::Stage;
use crate::letters::ToWorker;
use crate::timers::Timer;
use crate::turn::Worker;

/// A statement that a client has said last, and that needs a database to itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claimed {
    claim: Claim,
    /// Under which name it has been prepared; `None` for a simple query.
    statement: Option<Box<[u8]>>,
    since: Time,
    /// When it is looked at again whether it has been answered.
    next: Time,
}

/// What all workers are told of such a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sole {
    claim: Claim,
    /// Where the server is that executes it.
    address: Address,
    phase: Phase,
}

/// How far such a statement has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// PostgreSQL has neither refused nor executed it yet; the client, as log lines begin that are about it.
    Waits(Box<str>),
    /// It has been executed.
    Done,
}

impl<I: Io> Worker<I> {
    /// Whether a client's last words were such a statement.
    pub(crate) fn has_claimed(&self, key: Key) -> bool {
        let client = self.clients.get(key).map(|client| &client.stage);
        matches!(client, Some(ClientStage::Ready(ready)) if ready.claimed.is_some())
    }

    /// A client says something to its server: whether that is such a statement, and nothing else.
    pub(crate) fn note_claim(&mut self, key: Key, server_key: ServerKey, bytes: &[u8]) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        let before = ready.claimed.take();
        let Some(server) = self.servers.get(server_key).filter(|server| server.private.is_none()) else { return };
        if ready.session.scanner.is_in_body() || !ready.session.scanner.torn_header().is_empty() {
            return;
        }
        if !server.session.exchange.owes_client_nothing() || server.session.exchange.status() != TxStatus::Idle {
            ready.claimed = before.filter(|before| before.goes_on(bytes, 0));
            return;
        }
        let dialect = self.texts.dialect(&ready.session.vars, &self.force.tracked);
        let next = self.now + PROMPT;
        let claimed = begins(bytes, before.as_deref(), dialect);
        ready.claimed = claimed.map(|claimed| Box::new(Claimed { since: self.now, next, ..claimed }));
        if ready.claimed.is_some() {
            self.timers.insert(next, Timer::Claim(key));
        }
    }

    /// If such a statement is still not answered, whoever is connected to its database without need goes.
    pub(crate) fn claim_due(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &mut ready.claimed) else { return };
        let Some(server) = self.servers.get(server) else { return };
        // What no Sync follows PostgreSQL may not have begun to execute.
        let is_executed = !server.session.exchange.owes_client_nothing() && !server.session.exchange.wants_sync();
        let (Some(address), true) = (server.address.clone(), is_executed && claimed.next <= self.now) else { return };
        let claim = claimed.claim.clone();
        claimed.next = self.now + ROUND;
        if self.now.since(claimed.since) < PATIENCE {
            self.timers.insert(claimed.next, Timer::Claim(key));
        }
        let phase = Phase::Waits(self.client_prefix(key).into());
        self.tell_of_sole(Sole { claim, address, phase });
    }

    /// A client's server has changed something in the catalog: if that was such a statement, all workers are told.
    pub(crate) fn claim_done(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(key) else { return };
        let (Link::Loan(server), Some(claimed)) = (ready.link, &ready.claimed) else { return };
        let Some(address) = self.servers.get(server).and_then(|server| server.address.clone()) else { return };
        self.tell_of_sole(Sole { claim: claimed.claim.clone(), address, phase: Phase::Done });
    }

    fn tell_of_sole(&self, sole: Sole) {
        let sole = Arc::new(sole);
        self.posts.workers.iter().for_each(|post| post(ToWorker::Sole(sole.clone())));
    }

    /// A client of any worker has said such a statement.
    pub(crate) fn mind_sole(&mut self, sole: &Sole) {
        match &sole.phase {
            Phase::Waits(client) => self.vacate(&sole.claim, &sole.address, client),
            Phase::Done => {
                // Servers of the old database are gone, what new ones say and can do is another matter, and a login that has
                // failed since there was no database may succeed now.
                for number in self.databases_at(&sole.address, |name| sole.claim.changed().any(|other| other == name)) {
                    let place = &mut self.places.databases[number as usize];
                    place.learned.forget(&mut self.places.scopes);
                    place.changes += 1;
                    self.retire_servers_of(number);
                }
            }
        }
    }

    /// Closes what is connected to a database without need.
    fn vacate(&mut self, claim: &Claim, address: &Address, client: &str) {
        let databases = self.databases_at(address, |name| *name == *claim.database);
        let pools: Vec<_> =
            self.places.pools().filter(|(_, place)| databases.contains(&place.database)).map(|(key, _)| key).collect();
        for pool in pools {
            self.tell_pools(Event::Vacate { pool });
        }
        let is_there = |database, at: Option<&Address>| databases.contains(&database) && at == Some(address);
        let servers = self.servers.iter().filter(|(_, server)| is_there(server.database, server.address.as_ref()));
        let (idle, others): (Vec<_>, Vec<_>) = servers.partition(|(_, server)| matches!(server.stage, Stage::Idle));
        let (idle, others): (Vec<_>, Vec<_>) = (keys(idle), keys(others));
        if !idle.is_empty() {
            let (count, name, purpose) = (idle.len(), &claim.database, claim.purpose);
            let plural = if count == 1 { "" } else { "s" };
            let what = format_args!(
                "{client}closing {count} idle server connection{plural} to \"{name}\": client wants to {purpose} it"
            );
            self.log.add(Level::Log, what);
        }
        for server in idle.into_iter().chain(others) {
            self.tell_pools(Event::VacateServer { server });
            self.settle();
        }
        for database in databases {
            self.end_idle_listener(database, address);
        }
    }

    /// The databases in use that may be at an address under such a name.
    pub(crate) fn databases_at(&self, address: &Address, is_called: impl Fn(&str) -> bool) -> BTreeSet<u32> {
        let is_there = |entry: &Arc<Database>| is_called(&entry.dbname) && may_be_at(entry, address);
        let databases = self.places.databases.iter().enumerate();
        let there = databases.filter(|(_, place)| place.entry.as_ref().is_some_and(is_there));
        there.map(|(number, _)| number as u32).collect()
    }
}

impl Claimed {
    /// Whether from here on a client says nothing that could take time for another reason: it executes this statement and ends its batch.
    fn goes_on(&self, bytes: &[u8], mut at: usize) -> bool {
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

/// What begins with these messages, said to a server at rest, if that needs a database to itself. `before` is what has been said before.
fn begins(bytes: &[u8], before: Option<&Claimed>, dialect: Dialect) -> Option<Claimed> {
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
        // Drivers may have it described first, and execute it in another batch.
        frontend::BIND => before.filter(|before| bound(body) == before.statement.as_deref())?.clone(),
        _ => return None,
    };
    claimed.goes_on(bytes, piece.range.end).then_some(claimed)
}

/// Whether messages may begin with such a statement. Said of all that clients say, so it looks at a few bytes.
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

fn keys<T>(rows: Vec<(ServerKey, T)>) -> Vec<ServerKey> {
    rows.into_iter().map(|(key, _)| key).collect()
}

/// Whether servers of a database may be at an address.
fn may_be_at(entry: &Database, address: &Address) -> bool {
    entry.hosts.iter().any(|host| match (host, address) {
        (Host::Name(_), Address::Tcp(address)) => address.port() == entry.port,
        (Host::Ip(ip), Address::Tcp(address)) => *address == SocketAddr::new(*ip, entry.port),
        (Host::Unix(_), Address::Unix(path)) | (Host::Abstract(_), Address::Abstract(path)) => {
            host.socket_name(entry.port).as_deref() == Some(path)
        }
        _ => false,
    })
}

/// PostgreSQL refuses a statement within this time, unless it waits for others to leave the database, or executes it.
const PROMPT: Duration = Duration::from_millis(100);
/// So often it is looked again who has come back meanwhile,
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

    /// What takes time must be the statement itself: else anybody could have idle servers of any database closed.
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
        assert!(claimed.goes_on(&run("d"), 0) && !claimed.goes_on(&run("s"), 0));
        assert!(!heard(&drop(), None).expect("it claims a database").goes_on(&query("SELECT 1"), 0));
    }

    #[test]
    fn most_messages_are_told_by_their_first_bytes() {
        for bytes in [query("SELECT 1"), parse("name", "INSERT INTO t VALUES (1)"), run("s"), query(""), vec![b'Q']] {
            assert!(!may_claim(&bytes));
        }
    }
}
