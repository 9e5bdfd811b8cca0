//! Compares the plain way of requests with the general one.

use std::ops::Range;
use std::rc::Rc;

use base::{Key, Random, Time};
use proptest::prelude::*;
use wire::write;

use super::super::reading::Texts;
use super::*;
use crate::prepared::{Bytes, StatementRegistry};
use crate::state::FunctionCatalog;
use crate::vars::{Tracked, Vars};

/// What the server is sent before the part that is still to be sent.
struct Sent<'a> {
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
struct Stage {
    tracked: Tracked,
    texts: Texts,
    statement_registry: StatementRegistry,
    function_catalog: FunctionCatalog,
    scopes: u32,
    client: ClientSession,
    server: ServerSession,
    follows: bool,
    is_trusting: bool,
    refuses_queries: bool,
    statements_max: usize,
}

impl Stage {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut rarely = || random.below(10) == 0;
        let tracked = Tracked::new([]);
        let vars = Rc::new(Vars::new(&tracked));
        let (mut client, mut server) = (ClientSession::new(0, vars.clone()), ServerSession::new(vars));
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
            statements_max: if rarely() { 0 } else { 10 },
        }
    }

    /// Processes the bytes. Returns all that is to be compared.
    fn hears(&mut self, bytes: &[u8], is_plain: bool) -> String {
        let mut requests = Requests {
            now: Time(7),
            client: Key::first(0),
            length_max: 1 << 20,
            statements_max: self.statements_max,
            reuses_unnamed: false,
            refuses_queries: self.refuses_queries,
            one_by_one: false,
            follows: self.follows,
            unseen: if self.is_trusting { Unseen::Ignore } else { Unseen::Verify },
            refusals: None,
            server_user: 0,
            changes: 0,
            statement_registry: &mut self.statement_registry,
            texts: &mut self.texts,
            tracked: &self.tracked,
            function_catalog: &mut self.function_catalog,
            scopes: &mut self.scopes,
        };
        let mut sent = Sent { bytes, sent: Vec::new() };
        let (client, server) = (&mut self.client, &mut self.server);
        let forwarded = match is_plain {
            true => requests.hear(client, server, bytes, &mut sent),
            false => requests.take_each(client, server, bytes, &mut sent),
        };
        sent.sent.extend_from_slice(&bytes[forwarded.unsent.clone()]);
        let outside = (&self.scopes, &self.function_catalog, &self.texts);
        format!("{forwarded:?}\n{:?}\n{:?}\n{:?}\n{outside:?}", sent.sent, self.client, self.server)
    }
}

const TEXTS: [&str; 16] = [
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
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_say_the_same_and_leave_the_same(
        seed in any::<u64>(),
        texts in proptest::collection::vec((0..TEXTS.len(), 0..40_u8), 1..4),
    ) {
        let (mut one, mut other) = (Stage::new(seed), Stage::new(seed));
        for (text, luck) in texts {
            let mut bytes = Vec::new();
            write::query(&mut bytes, TEXTS[text]);
            match luck {
                0 => bytes.truncate(bytes.len() - 1),
                1 => bytes.insert(6.min(bytes.len()), 0),
                2 => write::query(&mut bytes, "select 3"),
                3 => bytes[0] = frontend::PARSE,
                _ => {}
            }
            prop_assert_eq!(one.hears(&bytes, true), other.hears(&bytes, false));
            let is_answered = luck % 2 == 0 && one.server.exchange.owed() == 1 && one.client.scanner.is_between();
            for stage in [&mut one, &mut other] {
                if is_answered {
                    _ = stage.server.exchange.answered(wire::backend::READY_FOR_QUERY, b"I");
                }
            }
        }
    }
}

#[test]
fn a_plain_query_is_taken_at_once() {
    let mut stage = Stage::new(0);
    let vars = stage.client.vars.clone();
    (stage.client, stage.server) = (ClientSession::new(0, vars.clone()), ServerSession::new(vars));
    (stage.follows, stage.is_trusting, stage.refuses_queries) = (true, true, false);
    stage.function_catalog = FunctionCatalog::default();
    let mut bytes = Vec::new();
    write::query(&mut bytes, "select 1");
    let said = stage.hears(&bytes, true);
    assert!(said.contains("begun: 1") && said.contains("is_alone: true"), "{said}");
    assert_eq!(text_of_query(&bytes, 1 << 20), Some(&b"select 1"[..]));
    assert_eq!(text_of_query(&bytes, 8), None);
    assert_eq!(text_of_query(&bytes[..bytes.len() - 1], 1 << 20), None);
}
