//! The machines of a loan with all that they borrow, as in `worker`.
//!
//! Always true: neither statements nor settings follow clients here, so every byte that is sent was received, or is our
//! own.
//! Not here: which bytes may be sent (`pair`).

use base::{Key, Time};
use protocol::loan::{Answers, ClientSession, NextStep, Place, Requests, ServerEvent, ServerSession, Texts};
use protocol::prepared::StatementRegistry;
use protocol::state::{FunctionCatalog, Unseen};
use protocol::vars::{Known, Tracked, Vars};
use sink::Sink;

#[path = "../../../crates/protocol/tests/pair/sink.rs"]
mod sink;

/// The machines of a client and a server.
#[derive(Debug)]
pub(crate) struct Machines {
    pub(crate) client: ClientSession,
    pub(crate) server: ServerSession,
    tracked: Tracked,
    known: Known,
    statement_registry: StatementRegistry,
    texts: Texts,
    function_catalog: FunctionCatalog,
    scopes: u32,
}

impl Machines {
    pub(crate) fn new() -> Self {
        let (tracked, mut known) = (Tracked::new([]), Known::default());
        let vars = known.share(Vars::new(&tracked));
        Self {
            client: ClientSession::new(0, vars.clone()),
            server: ServerSession::new(vars),
            tracked,
            known,
            statement_registry: StatementRegistry::new(1, 1),
            texts: Texts::default(),
            function_catalog: FunctionCatalog::new(1),
            scopes: 1,
        }
    }

    /// Another client takes the place of this one.
    pub(crate) fn next_client(&mut self) {
        self.client = ClientSession::new(0, self.known.share(Vars::new(&self.tracked)));
    }

    /// Handles bytes of the client, and appends to `to_server` what the server is sent.
    pub(crate) fn hear_client(&mut self, bytes: &[u8], to_server: &mut Vec<u8>) -> NextStep {
        let mut requests = Requests {
            now: Time(0),
            client: Key::first(0),
            length_max: 1 << 30,
            statements_max: 0,
            reuses_unnamed: false,
            refuses_queries: false,
            one_by_one: false,
            follows: false,
            unseen: Unseen::Verify,
            refusals: None,
            server_user: 0,
            changes: 0,
            statement_registry: &mut self.statement_registry,
            texts: &mut self.texts,
            tracked: &self.tracked,
            function_catalog: &mut self.function_catalog,
            scopes: &mut self.scopes,
        };
        let mut sink = Sink { of: bytes, out: to_server };
        let forwarded = requests.hear(&mut self.client, &mut self.server, bytes, &mut sink);
        to_server.extend_from_slice(&bytes[forwarded.unsent]);
        forwarded.next_step
    }

    /// Handles bytes of the server from `place` on, up to an event that others must handle. Returns that event, and the
    /// bytes for the client.
    pub(crate) fn hear_server<'b>(
        &mut self,
        bytes: &'b [u8],
        place: &mut Place,
        has_client: bool,
        shares_parameters: bool,
    ) -> (ServerEvent<'b>, Vec<u8>) {
        let mut answers = Answers {
            tracked: &self.tracked,
            known: &mut self.known,
            shares_parameters,
            is_listener: false,
            is_statement_mode: false,
            withholds: false,
        };
        let mut given = Vec::new();
        let mut sink = Sink { of: bytes, out: &mut given };
        let client = has_client.then_some(&mut self.client);
        let heard = answers.hear(client, &mut self.server, bytes, place, &mut sink);
        given.extend_from_slice(&bytes[place.start..place.at]);
        place.start = place.at;
        (heard, given)
    }
}
