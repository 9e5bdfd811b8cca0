//! Random pipelines of two clients over two servers, compared with the answers that each client would get from a
//! PostgreSQL of its own. The servers here are as strict as PostgreSQL: preparing a name that exists is an error, and so
//! is using one that does not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use wire::frontend;

use super::*;
use crate::exchange::{Answered, Exchange};
use crate::vars::Tracked;

#[derive(Clone, Debug)]
enum Do {
    Parse {
        name: u8,
        text: u8,
    },
    Bind {
        name: u8,
    },
    Describe {
        name: u8,
    },
    Close {
        name: u8,
    },
    /// A message that always fails.
    Fail,
    Sync,
    /// The server processes this many messages.
    Work(usize),
    /// The clients change places, when the loan may end.
    Swap {
        server: bool,
    },
    DropAll,
    /// A simple query mentions a name, which it executes, or drops.
    Say {
        name: u8,
        drops: bool,
    },
    Limit(usize),
}

fn steps() -> impl Strategy<Value = Vec<Do>> {
    let name = 0..4_u8;
    let step = prop_oneof![
        4 => (name.clone(), 0..6_u8).prop_map(|(name, text)| Do::Parse { name, text }),
        4 => name.clone().prop_map(|name| Do::Bind { name }),
        1 => name.clone().prop_map(|name| Do::Describe { name }),
        2 => name.clone().prop_map(|name| Do::Close { name }),
        2 => (name, any::<bool>()).prop_map(|(name, drops)| Do::Say { name, drops }),
        1 => Just(Do::Fail),
        4 => Just(Do::Sync),
        4 => (0..6_usize).prop_map(Do::Work),
        3 => any::<bool>().prop_map(|server| Do::Swap { server }),
        1 => Just(Do::DropAll),
        1 => (1..4_usize).prop_map(Do::Limit),
    ];
    prop::collection::vec(step, 0..120)
}

/// PostgreSQL, as far as statements go.
#[derive(Default, Debug)]
struct Postgres {
    names: BTreeSet<Vec<u8>>,
    is_skipping: bool,
}

impl Postgres {
    /// Returns the kinds of its answers.
    fn take(&mut self, kind: u8, name: &[u8], text: &[u8]) -> &'static str {
        if self.is_skipping && kind != frontend::SYNC {
            return "";
        }
        let is_there = self.names.contains(name);
        let answers = match kind {
            frontend::SYNC => "Z",
            frontend::QUERY if text == DROP_ALL => {
                self.names.clear();
                "CZ"
            }
            frontend::QUERY if !is_there => "EZ",
            frontend::QUERY => {
                if text == DROP {
                    self.names.remove(name);
                }
                "CZ"
            }
            frontend::PARSE if is_there || text.starts_with(b"bad") => "E",
            frontend::PARSE => {
                self.names.insert(name.to_vec());
                "1"
            }
            frontend::CLOSE => {
                self.names.remove(name);
                "3"
            }
            frontend::BIND if is_there => "2",
            frontend::DESCRIBE if is_there => "tT",
            _ => "E",
        };
        self.is_skipping = answers == "E";
        answers
    }
}

#[derive(Default)]
struct Client {
    names: Names,
    /// A PostgreSQL of its own, and what that would have answered.
    own: Postgres,
    expected: String,
    given: String,
    /// Names that an unanswered batch has given or closed, with its epoch: if the batch fails, the next one does not use
    /// them before that is known.
    touched: BTreeMap<u8, u64>,
    /// The epochs of the batches that fail.
    failing: BTreeSet<u64>,
}

#[derive(Default)]
struct Server {
    exchange: Exchange,
    server_statements: ServerStatements,
    postgres: Postgres,
    queue: VecDeque<(u8, Vec<u8>, Vec<u8>)>,
}

struct Stage {
    clients: [Client; 2],
    servers: [Server; 2],
    statement_registry: StatementRegistry,
    /// Which client has which server.
    pair: (usize, usize),
    max: usize,
    /// A simple query was sent in a batch: if the batch fails, the query has no answer.
    is_mixed: bool,
}

impl Stage {
    fn ask(&mut self, kind: u8, number: u8, text: &str) {
        let client = &mut self.clients[self.pair.0];
        let name = format!("n{number}").into_bytes();
        let text = [text.as_bytes(), &[0, 0, 0]].concat();
        client.expected += client.own.take(kind, &name, &text);
        // A Bind waits for the description of its statement.
        let mut waits = 0;
        while !self.is_asked(kind, &name, &text) {
            assert!(waits < 2, "a Bind waits for ever");
            waits += 1;
            while self.work() {}
            let server = &mut self.servers[self.pair.1];
            server.server_statements.comes_again(&server.exchange);
        }
        self.give();
    }

    /// Returns whether the message does not wait.
    fn is_asked(&mut self, kind: u8, name: &[u8], text: &[u8]) -> bool {
        let client = &mut self.clients[self.pair.0];
        let server = &mut self.servers[self.pair.1];
        let ask = match kind {
            frontend::PARSE => Ask::Parse { name, text },
            frontend::BIND => Ask::Bind { portal: b"", name, end: 0 },
            frontend::DESCRIBE => Ask::Describe { name },
            _ => Ask::Close { name },
        };
        let mut out = Vec::new();
        if server.exchange.is_skipping() {
            server.exchange.asked(kind);
            server.queue.push_back((kind, name.into(), text.into()));
            return true;
        }
        let (mut tally, dialect) = (Tally::default(), [][..].into());
        let tracked = Tracked::new([]);
        let mut sides = Sides {
            account: &Account::default(),
            catalog_version: CatalogVersion::default(),
            names: &mut client.names,
            statement_registry: &mut self.statement_registry,
            exchange: &mut server.exchange,
            dialect,
            tracked: &tracked,
            is_settled: true,
            is_by_sql: false,
            max: self.max,
            follows: false,
            tally: &mut tally,
            behind: b"",
            out: &mut out,
        };
        match server.server_statements.ask(ask, 0, &mut sides).expect("nothing that a client is let go for") {
            Way::Counted => unreachable!("a portal is described past it"),
            Way::AsItIs => {
                server.hear(&out);
                server.exchange.asked(kind);
                server.queue.push_back((kind, name.into(), text.into()));
            }
            Way::Replaced(_) => server.hear(&out),
            Way::Waits => {
                server.hear(&out);
                return false;
            }
        }
        true
    }

    fn give(&mut self) {
        while let Some(kind) = self.servers[self.pair.1].exchange.due() {
            self.clients[self.pair.0].given.push(kind.into());
        }
    }

    /// The server processes one message. Returns whether there was one.
    fn work(&mut self) -> bool {
        let Some((kind, name, text)) = self.servers[self.pair.1].queue.pop_front() else { return false };
        let answers = self.servers[self.pair.1].postgres.take(kind, &name, &text);
        for kind in answers.bytes() {
            let (client, server) = (&mut self.clients[self.pair.0], &mut self.servers[self.pair.1]);
            let answered = server.exchange.answered(kind, b"I").expect("owed");
            if answered == Answered::Forward {
                client.given.push(kind.into());
            }
            server.server_statements.settle(&mut server.exchange, Some(&mut client.names));
            if matches!(kind, b'T' | b'n') {
                server.server_statements.described(kind, b"", Some(&mut client.names));
            }
            match kind {
                b'C' if text == DROP_ALL => server.server_statements.drop_all(Some(&mut client.names)),
                b'C' if text == DROP => server.server_statements.dropped(Some(&mut client.names)),
                b'Z' => server.server_statements.drops_end(),
                _ => {}
            }
            self.give();
        }
        true
    }

    fn work_off(&mut self) {
        while self.work() {}
        self.is_mixed = false;
        let client = &mut self.clients[self.pair.0];
        client.touched.clear();
        client.failing.clear();
    }

    /// Whether the meaning of a name in this epoch depends on the outcome of an earlier one, other than that of its own Parse.
    fn hangs(&self, name: u8) -> bool {
        let epoch = self.servers[self.pair.1].exchange.epoch();
        let client = &self.clients[self.pair.0];
        let is_open = |touched| touched == u64::MAX || client.failing.contains(&touched);
        client.touched.get(&name).is_some_and(|&touched| touched != epoch && is_open(touched))
    }

    fn say(&mut self, number: u8, drops: bool) {
        let client = &mut self.clients[self.pair.0];
        let server = &mut self.servers[self.pair.1];
        let (name, text) = (format!("n{number}"), if drops { DROP } else { EXECUTE });
        client.expected += client.own.take(frontend::QUERY, name.as_bytes(), text);
        if !server.exchange.is_skipping() {
            let mentioned = MentionedNames {
                names: vec![&name],
                drops: drops.then_some(&*name).into_iter().collect(),
                is_query: true,
            };
            let mut out = Vec::new();
            server.server_statements.bring_own(&mentioned, &client.names, &mut server.exchange, &mut out);
            server.hear(&[Bytes::Own(out)]);
        }
        server.exchange.asked(frontend::QUERY);
        server.queue.push_back((frontend::QUERY, name.into_bytes(), text.to_vec()));
    }

    fn sync(&mut self) {
        let client = &mut self.clients[self.pair.0];
        let server = &mut self.servers[self.pair.1];
        if client.own.is_skipping {
            client.failing.insert(server.exchange.epoch());
        }
        client.expected += client.own.take(frontend::SYNC, b"", b"");
        server.exchange.asked(frontend::SYNC);
        server.queue.push_back((frontend::SYNC, Vec::new(), Vec::new()));
    }

    /// Everything is answered: the client has been given what it would have been given, and the recorded state is true.
    fn check(&self) {
        let (client, server) = (&self.clients[self.pair.0], &self.servers[self.pair.1]);
        assert_eq!(client.given, client.expected);
        let (own, shared): (Vec<_>, Vec<_>) = server.postgres.names.iter().partition(|name| name.starts_with(b"n"));
        let believed = &server.server_statements;
        assert_eq!(believed.count(), shared.len(), "{believed:?} {:?}", server.postgres);
        assert!(own.iter().all(|name| believed.own.names.contains_key(&***name)), "{believed:?} {:?}", server.postgres);
        if server.exchange.may_end() {
            let own: Vec<_> = client.own.names.iter().collect();
            assert_eq!(client.names.count(), own.len(), "{own:?}");
        }
    }
}

impl Server {
    fn hear(&mut self, out: &[Bytes]) {
        for bytes in out {
            let Bytes::Own(bytes) = bytes else { panic!("no text is so long") };
            let mut rest = &bytes[..];
            while let [kind, a, b, c, d, body @ ..] = rest {
                let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize - 4;
                let (body, later) = if *kind == frontend::BIND { (body, &[][..]) } else { body.split_at(length) };
                let mut strings = body.split(|&byte| byte == 0);
                let (first, second) = (strings.next().expect("one"), strings.next().unwrap_or_default());
                let (name, text) = match *kind {
                    frontend::SYNC => (first, first),
                    frontend::PARSE => (first, second),
                    frontend::BIND => (second, first),
                    _ => (&first[1..], second),
                };
                self.queue.push_back((*kind, name.to_vec(), text.to_vec()));
                rest = later;
            }
        }
    }
}

/// What a simple query does with the name that it mentions, or with all names.
const EXECUTE: &[u8] = b"execute";
const DROP: &[u8] = b"deallocate";
const DROP_ALL: &[u8] = b"deallocate all";

#[allow(clippy::too_many_lines)] // One arm for each kind of step.
fn play(steps: Vec<Do>) {
    let mut t = Stage {
        clients: Default::default(),
        servers: Default::default(),
        statement_registry: StatementRegistry::new(1, 1),
        pair: (0, 0),
        max: 2,
        is_mixed: false,
    };
    for step in steps {
        match step {
            Do::Parse { name, .. }
            | Do::Bind { name }
            | Do::Describe { name }
            | Do::Close { name }
            | Do::Say { name, .. }
                if t.hangs(name) =>
            {
                t.work_off();
            }
            _ => {}
        }
        let epoch = t.servers[t.pair.1].exchange.epoch();
        let is_skipping = t.servers[t.pair.1].exchange.is_skipping();
        let client = &mut t.clients[t.pair.0];
        match step {
            Do::Parse { name, text } => {
                if !is_skipping && client.names.has(format!("n{name}").as_bytes()) {
                    continue;
                }
                client.touched.insert(name, epoch);
                t.ask(
                    frontend::PARSE,
                    name,
                    ["select 1", "select 2", "select 3", "select 4", "bad 1", "bad 2"][text as usize],
                );
            }
            Do::Bind { name } | Do::Describe { name } => {
                let own = format!("n{name}");
                let is_known = client.names.has(own.as_bytes()) || client.names.has_failed(own.as_bytes());
                if is_known || is_skipping {
                    let kind = if let Do::Bind { .. } = step { frontend::BIND } else { frontend::DESCRIBE };
                    t.ask(kind, name, "");
                }
            }
            Do::Close { name } => {
                client.touched.insert(name, epoch);
                t.ask(frontend::CLOSE, name, "");
            }
            Do::Fail => {
                client.expected += client.own.take(frontend::EXECUTE, b"", b"");
                let server = &mut t.servers[t.pair.1];
                server.exchange.asked(frontend::EXECUTE);
                server.queue.push_back((frontend::EXECUTE, Vec::new(), Vec::new()));
            }
            Do::Sync => t.sync(),
            Do::Work(count) => {
                for _ in 0..count {
                    t.work();
                }
            }
            Do::Swap { server } => {
                t.sync();
                t.work_off();
                t.check();
                let left = &mut t.servers[t.pair.1];
                assert!(left.exchange.may_end());
                if left.server_statements.has_own() {
                    let mut out = Vec::new();
                    left.server_statements.close_own(&mut left.exchange, &mut out);
                    left.hear(&[Bytes::Own(out)]);
                    t.work_off();
                }
                let left = &t.servers[t.pair.1];
                assert!(!left.server_statements.has_own() && left.exchange.may_end());
                assert!(left.postgres.names.iter().all(|name| !name.starts_with(b"n")), "{:?}", left.postgres);
                t.pair = (1 - t.pair.0, if server { 1 - t.pair.1 } else { t.pair.1 });
                t.servers[t.pair.1].server_statements.begin_loan();
            }
            Do::DropAll => {
                t.sync();
                t.work_off();
                let client = &mut t.clients[t.pair.0];
                client.expected += client.own.take(frontend::QUERY, b"", DROP_ALL);
                let server = &mut t.servers[t.pair.1];
                server.exchange.asked(frontend::QUERY);
                server.queue.push_back((frontend::QUERY, Vec::new(), DROP_ALL.to_vec()));
                t.work_off();
            }
            Do::Say { name, drops } => {
                if drops && t.is_mixed {
                    t.work_off();
                }
                let client = &mut t.clients[t.pair.0];
                t.is_mixed |= t.servers[t.pair.1].exchange.wants_sync();
                if drops {
                    // Whether the name exists now is not known before the tag has come.
                    client.touched.insert(name, u64::MAX);
                }
                t.say(name, drops);
            }
            Do::Limit(max) => t.max = max,
        }
    }
    t.sync();
    t.work_off();
    t.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_client_is_answered_as_if_it_had_a_postgresql_of_its_own(steps in steps()) {
        play(steps);
    }
}

/// A name that [`Names::has_failed`] has forgotten is refused as unknown: no more than a few are remembered.
#[test]
fn few_names_that_came_to_nothing_are_remembered() {
    let mut t = Stage {
        clients: Default::default(),
        servers: Default::default(),
        statement_registry: StatementRegistry::new(1, 1),
        pair: (0, 0),
        max: 2,
        is_mixed: false,
    };
    for name in 0..20 {
        t.ask(frontend::PARSE, name, "bad");
        t.sync();
        t.work_off();
    }
    let remembered = (0..20).filter(|name| t.clients[0].names.has_failed(format!("n{name}").as_bytes())).count();
    assert_eq!(remembered, 16);
    let ServerStatements { held, pending, .. } = &t.servers[0].server_statements;
    assert!(held.is_empty() && pending.is_empty());
}
