//! The unnamed statement: a server keeps the one that was given last, by whichever client, for whichever client comes next.
//!
//! Always true: the unnamed statement that a client binds or describes is the one that it has given itself, or none; a
//! Parse that is used in its own batch costs neither a copy nor a message.
//! Not here: named statements (`server_statements`).

use serde::{Deserialize, Serialize};
use wire::backend::TxStatus;
use wire::frontend;

use super::account::{Account, Charge};
use super::registry::StatementRegistry;
use super::server_statements::ServerStatements;
use super::{Bytes, Tally};
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::pack::Packed;
use crate::planted::is_there;

/// The unnamed statement of one client.
#[derive(Debug, Default)]
pub struct Unnamed {
    /// The epoch of the current loan in which it was given.
    given: Option<u64>,
    /// The Parse, if a Sync came before it was bound: it may have to outlive the loan.
    kept: Option<Box<Kept>>,
}

#[derive(Debug)]
struct Kept {
    parse: Box<[u8]>,
    _charge: Charge,
}

/// [`Unnamed`], on its way to another process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PackedUnnamed {
    given: Option<u64>,
    kept: Option<Packed>,
}

impl Unnamed {
    /// The client is lent a server to which it has given no statement.
    pub fn begin_loan(&mut self) {
        self.given = None;
    }

    /// The client gives a statement with the message that is sent now.
    pub fn prepares(&mut self, exchange: &Exchange) {
        (self.given, self.kept) = (Some(exchange.epoch()), None);
    }

    /// The client's batch ends without a Bind of the statement that this message has given.
    pub fn keep(&mut self, parse: &[u8], account: &Account, statement_registry: &mut StatementRegistry) {
        // A client that gives more than can be kept gets an error when it binds the statement.
        let charge = statement_registry.charge(account, parse.len());
        self.kept = charge.ok().map(|charge| Box::new(Kept { parse: parse.into(), _charge: charge }));
    }

    /// Whether a Parse is kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// The statement is destroyed by a Close, or by a simple query (`drop_unnamed_stmt` in PostgreSQL's `tcop/postgres.c`).
    pub fn forget(&mut self) {
        (self.given, self.kept) = (None, None);
    }

    /// The client binds or describes the statement: appends what the server must be sent first, if it may have another one.
    ///
    /// # Errors
    /// No answer can be hidden now.
    pub fn bring(
        &mut self,
        server_statements: &mut ServerStatements,
        exchange: &mut Exchange,
        tally: &mut Tally,
        out: &mut Vec<Bytes>,
    ) -> Result<(), Fault> {
        if is_there(self.given.is_some_and(|epoch| is_certain(epoch, exchange))) {
            return Ok(());
        }
        if !exchange.may_step() {
            return Err(Fault::StatementUnknown { name: Box::default() });
        }
        match &self.kept {
            Some(kept) => {
                tally.server_parses += 1;
                out.push(Bytes::Own(kept.parse.to_vec()));
            }
            // The server itself reports that there is none.
            None => out.push(Bytes::Own(CLOSE.to_vec())),
        }
        self.given = Some(exchange.epoch());
        server_statements.expect_hidden(exchange);
        Ok(())
    }

    /// Packs it for another process.
    #[must_use]
    pub fn pack(&self) -> PackedUnnamed {
        PackedUnnamed { given: self.given, kept: self.kept.as_ref().map(|kept| (&*kept.parse).into()) }
    }

    /// Unpacks it from another process.
    #[must_use]
    pub fn unpack(packed: PackedUnnamed, account: &Account, statement_registry: &mut StatementRegistry) -> Self {
        let mut unnamed = Self { given: packed.given, kept: None };
        if let Some(parse) = packed.kept {
            unnamed.keep(&parse.0, account, statement_registry);
        }
        unnamed
    }
}

/// Whether the server has what was sent to it in this epoch when it reads what is sent now: an error skips both, or there
/// has been none in this transaction.
fn is_certain(epoch: u64, exchange: &Exchange) -> bool {
    epoch == exchange.epoch() || exchange.owes_nothing() && exchange.status() == TxStatus::Open
}

/// A Close of the unnamed statement.
const CLOSE: [u8; 7] = [frontend::CLOSE, 0, 0, 0, 6, b'S', 0];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Asked;

    fn bring(unnamed: &mut Unnamed, server_statements: &mut ServerStatements, exchange: &mut Exchange) -> Vec<Bytes> {
        let mut out = Vec::new();
        unnamed.bring(server_statements, exchange, &mut Tally::default(), &mut out).expect("it can be sent");
        out
    }

    #[test]
    fn what_is_given_in_the_same_batch_is_there() {
        let (mut unnamed, mut server_statements, mut exchange) =
            (Unnamed::default(), ServerStatements::default(), Exchange::default());
        unnamed.begin_loan();
        unnamed.prepares(&exchange);
        assert_eq!(exchange.asked(frontend::PARSE), Asked::Forward);
        assert_eq!(bring(&mut unnamed, &mut server_statements, &mut exchange), []);
    }

    #[test]
    fn what_was_given_on_another_server_is_given_again_and_what_was_not_is_closed() {
        let (mut server_statements, mut exchange) = (ServerStatements::default(), Exchange::default());
        let mut statement_registry = StatementRegistry::new(1, 1);
        let mut unnamed = Unnamed::default();
        unnamed.prepares(&exchange);
        unnamed.keep(b"P....\0select 1\0\0\0", &Account::default(), &mut statement_registry);
        unnamed.begin_loan();
        let again = [Bytes::Own(b"P....\0select 1\0\0\0".to_vec())];
        assert_eq!(bring(&mut unnamed, &mut server_statements, &mut exchange), again);
        assert_eq!(bring(&mut unnamed, &mut server_statements, &mut exchange), []);
        let mut stranger = Unnamed::default();
        stranger.begin_loan();
        assert_eq!(
            bring(&mut stranger, &mut server_statements, &mut exchange),
            [Bytes::Own(b"C\0\0\0\x06S\0".to_vec())]
        );
    }

    #[test]
    fn a_query_gives_it_up() {
        let (mut server_statements, mut exchange) = (ServerStatements::default(), Exchange::default());
        let mut unnamed = Unnamed::default();
        unnamed.keep(b"P", &Account::default(), &mut StatementRegistry::new(1, 1));
        unnamed.forget();
        assert_eq!(bring(&mut unnamed, &mut server_statements, &mut exchange), [Bytes::Own(CLOSE.to_vec())]);
    }

    /// An exchange in which a batch has been answered, and the transaction has this status.
    fn later(status: &[u8]) -> Exchange {
        let mut exchange = Exchange::default();
        exchange.asked(frontend::SYNC);
        exchange.answered(b'Z', status).expect("owed");
        exchange
    }

    #[test]
    fn what_was_given_earlier_is_there_in_an_open_transaction_in_which_nothing_is_owed() {
        for (status, is_owed, is_there) in [(b"T", false, true), (b"I", false, false), (b"T", true, false)] {
            let (mut unnamed, mut server_statements) = (Unnamed::default(), ServerStatements::default());
            unnamed.prepares(&Exchange::default());
            let mut exchange = later(status);
            if is_owed {
                exchange.asked(frontend::QUERY);
            }
            let sent = bring(&mut unnamed, &mut server_statements, &mut exchange);
            assert_eq!(sent.is_empty(), is_there, "{status:?} {is_owed}");
        }
    }

    #[test]
    fn what_is_given_or_brought_is_there_in_that_batch_whichever_it_is() {
        let (mut server_statements, mut exchange) = (ServerStatements::default(), later(b"I"));
        let (mut given, mut brought) = (Unnamed::default(), Unnamed::default());
        given.prepares(&exchange);
        assert_eq!(bring(&mut given, &mut server_statements, &mut exchange), []);
        assert_eq!(bring(&mut brought, &mut server_statements, &mut exchange), [Bytes::Own(CLOSE.to_vec())]);
        assert!(exchange.is_hiding() && !server_statements.pending.is_empty(), "its answer is hidden");
        assert_eq!(bring(&mut brought, &mut server_statements, &mut exchange), []);
        brought.forget();
        assert_eq!(bring(&mut brought, &mut server_statements, &mut exchange), [Bytes::Own(CLOSE.to_vec())]);
    }

    #[test]
    fn the_next_parse_replaces_the_one_that_is_kept() {
        let (mut unnamed, exchange) = (Unnamed::default(), Exchange::default());
        unnamed.keep(b"P", &Account::default(), &mut StatementRegistry::new(1, 1));
        assert!(unnamed.is_kept());
        unnamed.prepares(&exchange);
        assert!(!unnamed.is_kept());
    }

    #[test]
    fn where_no_answer_can_be_hidden_it_is_unknown_and_otherwise_it_is_counted() {
        let (mut unnamed, mut tally, mut out) = (Unnamed::default(), Tally::default(), Vec::new());
        unnamed.keep(b"P", &Account::default(), &mut StatementRegistry::new(1, 1));
        let (mut server_statements, mut exchange) = (ServerStatements::default(), Exchange::default());
        exchange.asked(frontend::QUERY);
        exchange.answered(b'G', b"").expect("owed");
        let brought = unnamed.bring(&mut server_statements, &mut exchange, &mut tally, &mut out);
        assert_eq!(brought, Err(Fault::StatementUnknown { name: Box::default() }), "a COPY reads");
        assert_eq!((out.len(), tally.server_parses), (0, 0));
        let brought = unnamed.bring(&mut server_statements, &mut later(b"I"), &mut tally, &mut out);
        assert_eq!((brought, out.len(), tally.server_parses), (Ok(()), 1, 1));
    }

    #[test]
    fn in_another_process_it_is_what_it_was() {
        let (mut statement_registry, account) = (StatementRegistry::new(1, 1), Account::default());
        let (mut server_statements, mut exchange) = (ServerStatements::default(), Exchange::default());
        let mut unnamed = Unnamed::default();
        unnamed.prepares(&exchange);
        unnamed.keep(b"Parse", &account, &mut statement_registry);
        let mut unpacked = Unnamed::unpack(unnamed.pack(), &account, &mut statement_registry);
        assert_eq!(bring(&mut unpacked, &mut server_statements, &mut exchange), []);
        unpacked.begin_loan();
        assert_eq!(bring(&mut unpacked, &mut server_statements, &mut exchange), [Bytes::Own(b"Parse".to_vec())]);
    }
}
