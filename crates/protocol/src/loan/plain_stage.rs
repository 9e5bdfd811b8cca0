//! Two sessions to compare the plain ways of requests with the general one, in tests.
//!
//! Always true: the same seed, requests and answers lead to the same state, whichever way is gone.
//! Not here: what is compared (`plain_requests_tests.rs`, `plain_batches_tests.rs`).

use std::ops::Range;
use std::rc::Rc;

use base::{Key, Random, Time};
use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use super::answers::{Answers, Place, ServerEvent, ToClient};
use super::applying::begin;
use super::client_session::{ClientSession, RequestFate};
use super::reading::Texts;
use super::requests::{Forwarded, NextStep, Requests, ToServer};
use super::server_session::ServerSession;
use crate::prepared::{Bytes, RepeatableRequest, StatementRegistry};
use crate::state::{FunctionCatalog, PinRules, Unseen};
use crate::vars::{Known, Tracked, Vars};

/// What the server is sent before the part that is still to be sent.
pub(super) struct Sent<'a> {
    bytes: &'a [u8],
    sent: Vec<u8>,
}

impl ToServer for Sent<'_> {
    fn part(&mut self, range: Range<usize>) {
        self.sent.extend_from_slice(&self.bytes[range]);
    }

    fn send(&mut self, bytes: Bytes) {
        match bytes {
            Bytes::Own(bytes) => self.sent.extend_from_slice(&bytes),
            Bytes::Shared(bytes) => self.sent.extend_from_slice(&bytes),
        }
    }
}

/// Two sessions in a state that the seed decides, and what surrounds them.
pub(super) struct Stage {
    pub(super) tracked: Tracked,
    pub(super) texts: Texts,
    pub(super) statement_registry: StatementRegistry,
    pub(super) function_catalog: FunctionCatalog,
    pub(super) scopes: u32,
    pub(super) client: ClientSession,
    pub(super) server: ServerSession,
    pub(super) follows: bool,
    pub(super) is_trusting: bool,
    pub(super) refuses_queries: bool,
    pub(super) reuses_unnamed: bool,
    pub(super) statements_max: usize,
    pub(super) refusals: Option<Rc<PinRules>>,
    /// What the server has been sent and has not answered.
    pub(super) sent: Vec<u8>,
    /// Another server, at rest.
    pub(super) other: ServerSession,
}

impl Stage {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut rarely = || random.below(10) == 0;
        let tracked = Tracked::new([]);
        let vars = Rc::new(Vars::new(&tracked));
        let (mut client, mut server) = (ClientSession::new(0, vars.clone()), ServerSession::new(vars.clone()));
        if rarely() {
            client.session_effects.get_or_insert_default();
        }
        if rarely() {
            client.subscriptions.get_or_insert_default();
        }
        if rarely() {
            client.fate = RequestFate::Drop;
        }
        if rarely() {
            client.overrides = Some(Rc::default());
        }
        if rarely() {
            server.exchange.asked(frontend::QUERY);
        }
        if rarely() {
            server.exchange.asked(frontend::PARSE);
        }
        server.is_verified = rarely();
        let mut function_catalog = FunctionCatalog::default();
        if rarely() {
            function_catalog.note_asker(0);
        }
        Self {
            tracked,
            texts: Texts::default(),
            statement_registry: StatementRegistry::new(1, 1),
            function_catalog,
            scopes: 0,
            client,
            server,
            follows: !rarely(),
            is_trusting: !rarely(),
            refuses_queries: rarely(),
            reuses_unnamed: false,
            statements_max: if rarely() { 0 } else { 10 },
            refusals: None,
            sent: Vec::new(),
            other: ServerSession::new(vars),
        }
    }

    /// Two sessions about which nothing is unusual.
    pub(super) fn plain() -> Self {
        let mut stage = Self::new(0);
        let vars = stage.client.vars.clone();
        (stage.client, stage.server) = (ClientSession::new(0, vars.clone()), ServerSession::new(vars));
        (stage.follows, stage.is_trusting, stage.refuses_queries) = (true, true, false);
        stage.function_catalog = FunctionCatalog::default();
        stage
    }

    /// Whether the plain way takes these bytes.
    pub(super) fn takes_plainly(&mut self, bytes: &[u8]) -> bool {
        let mut sent = Sent { bytes, sent: Vec::new() };
        let (mut requests, client, server) = self.requests();
        requests.take_at_once(client, server, bytes, &mut sent).is_some()
    }

    pub(super) fn requests(&mut self) -> (Requests<'_>, &mut ClientSession, &mut ServerSession) {
        let requests = Requests {
            now: Time(7),
            client: Key::first(0),
            length_max: 1 << 20,
            statements_max: self.statements_max,
            reuses_unnamed: self.reuses_unnamed,
            refuses_queries: self.refuses_queries,
            one_by_one: false,
            follows: self.follows,
            unseen: if self.is_trusting { Unseen::Ignore } else { Unseen::Verify },
            refusals: self.refusals.clone(),
            server_user: 0,
            changes: 0,
            statement_registry: &mut self.statement_registry,
            texts: &mut self.texts,
            tracked: &self.tracked,
            function_catalog: &mut self.function_catalog,
            scopes: &mut self.scopes,
        };
        (requests, &mut self.client, &mut self.server)
    }

    pub(super) fn forwards(&mut self, bytes: &[u8], is_plain: bool) -> (Forwarded, Vec<u8>) {
        let mut sent = Sent { bytes, sent: Vec::new() };
        let (mut requests, client, server) = self.requests();
        let forwarded = match is_plain {
            true => requests.hear(client, server, bytes, &mut sent),
            false => requests.take_each(client, server, bytes, &mut sent),
        };
        (forwarded, sent.sent)
    }

    /// Processes the bytes. Returns all that is to be compared.
    pub(super) fn hears(&mut self, bytes: &[u8], is_plain: bool) -> String {
        let (mut forwarded, mut sent) = self.forwards(bytes, is_plain);
        sent.extend_from_slice(&bytes[forwarded.unsent.clone()]);
        self.sent.extend_from_slice(&sent);
        // One way may copy what the other leaves to be sent.
        forwarded.unsent.start = 0;
        let outside = (&self.scopes, &self.function_catalog, &self.texts, self.statement_registry.bytes());
        format!("{forwarded:?}\n{sent:?}\n{:?}\n{:?}\n{outside:?}", self.client, self.server)
    }
}

impl Stage {
    /// Processes the bytes in these parts. Returns what the server is sent, how many requests begin, and what is known then.
    pub(super) fn sends(&mut self, parts: &[&[u8]]) -> String {
        let (mut all, mut begun) = (Vec::new(), 0);
        for bytes in parts.iter().filter(|bytes| !bytes.is_empty()) {
            let (forwarded, mut sent) = self.forwards(bytes, false);
            sent.extend_from_slice(&bytes[forwarded.unsent]);
            begun += forwarded.begun;
            all.extend(sent);
            if forwarded.next_step != NextStep::Go {
                all.extend_from_slice(format!("{:?}", std::mem::discriminant(&forwarded.next_step)).as_bytes());
                break;
            }
        }
        // What may be sent again is kept by the parts in which it comes.
        self.server.repeatable = RepeatableRequest::default();
        format!("{all:?} {begun}\n{:?}\n{:?}", self.client, self.server)
    }
}

pub(super) const TEXTS: [&str; 18] = [
    "",
    "select 1",
    "select 2",
    "insert into t values (1)",
    "update t set a = 1",
    "begin",
    "commit",
    "set work_mem = '1MB'",
    "set local work_mem = '1MB'",
    "select my_function()",
    "select currval('s')",
    "select a.b from a; select 2",
    "create temp table t (a int)",
    "deallocate all",
    "prepare a as select 1",
    "select current_setting('my.setting')",
    "execute a",
    "deallocate a",
];

impl Stage {
    /// The server answers what it was sent, in this transaction status and with a column of this name; the message at the place
    /// `fails`, if there is one, by an error. If nothing is owed then, another loan begins, of the `other` server if it `is_lent_another`. Returns what the
    /// client is sent, and what is known then.
    pub(super) fn is_answered(
        &mut self,
        fails: usize,
        (status, column): (TxStatus, u8),
        is_lent_another: bool,
    ) -> String {
        let sent = std::mem::take(&mut self.sent);
        let (mut bytes, mut is_skipping) = (Vec::new(), false);
        for (place, (_, kind, body)) in crate::request::messages(&sent).enumerate() {
            let mut says = |kind: u8, body: &[u8]| write::message(&mut bytes, kind, |out| out.extend_from_slice(body));
            match kind {
                frontend::SYNC => is_skipping = false,
                _ if is_skipping => continue,
                _ if place == fails => {
                    says(backend::ERROR_RESPONSE, b"SERROR\0VERROR\0C42P01\0Mno such table\0\0");
                    is_skipping = kind != frontend::QUERY;
                }
                frontend::PARSE => says(backend::PARSE_COMPLETE, b""),
                frontend::BIND => says(backend::BIND_COMPLETE, b""),
                frontend::CLOSE => says(backend::CLOSE_COMPLETE, b""),
                frontend::DESCRIBE => {
                    if body.first() == Some(&b'S') {
                        says(backend::PARAMETER_DESCRIPTION, &[0; 2]);
                    }
                    says(backend::ROW_DESCRIPTION, &[&[0, 1, column, 0][..], &[0; 18]].concat());
                }
                frontend::QUERY | frontend::EXECUTE => says(backend::COMMAND_COMPLETE, b"SELECT 0\0"),
                _ => {}
            }
            if matches!(kind, frontend::SYNC | frontend::QUERY) {
                says(backend::READY_FOR_QUERY, &[status.byte()]);
            }
        }
        let mut known = Known::default();
        let mut answers = Answers {
            tracked: &self.tracked,
            known: &mut known,
            shares_parameters: true,
            is_listener: false,
            is_statement_mode: false,
            withholds: false,
        };
        let (mut place, mut given) = (Place { start: 0, at: 0 }, Given(Vec::new()));
        let mut heard = String::new();
        while place.at < bytes.len() {
            let event = answers.hear(Some(&mut self.client), &mut self.server, &bytes, &mut place, &mut given);
            heard += &format!("{event:?} {place:?} ");
            if matches!(event, ServerEvent::Unexpected { .. } | ServerEvent::Lost) {
                break;
            }
        }
        if self.server.exchange.may_end() && !self.client.is_torn() {
            if is_lent_another {
                std::mem::swap(&mut self.server, &mut self.other);
            }
            begin(&mut self.server, &mut self.client, Key::first(0), false);
        }
        format!("{heard} {:?}\n{:?}\n{:?}", given.0, self.client, self.server)
    }
}

/// What the client is sent.
struct Given(Vec<String>);

impl ToClient for Given {
    fn part(&mut self, range: Range<usize>) {
        self.0.push(format!("{range:?}"));
    }

    fn send(&mut self, bytes: Box<[u8]>) {
        self.0.push(format!("{bytes:?}"));
    }
}
