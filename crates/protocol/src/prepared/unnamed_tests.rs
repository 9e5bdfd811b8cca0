//! The unnamed statement of one client, played with the exchange of its server.
//!
//! Always true: what is expected here is what PostgreSQL does.
//! Not here: which messages concern it (`loan::statements`).

use proptest::prelude::*;
use wire::backend;

use super::*;
use crate::exchange::Asked;

/// A client with an unnamed statement, and its server.
struct Bench {
    unnamed: Unnamed,
    exchange: Exchange,
    server_statements: ServerStatements,
    statement_registry: StatementRegistry,
    account: Account,
    tally: Tally,
}

/// A Parse of this text, without types of parameters.
fn parse(text: &str) -> Vec<u8> {
    [b"P....\0", text.as_bytes(), &[0, 0, 0]].concat()
}

impl Bench {
    fn new() -> Self {
        Self {
            unnamed: Unnamed::default(),
            exchange: Exchange::default(),
            server_statements: ServerStatements::default(),
            statement_registry: StatementRegistry::new(1, 1),
            account: Account::default(),
            tally: Tally::default(),
        }
    }

    fn sends(&mut self, kind: u8) {
        assert_eq!(self.exchange.asked(kind), Asked::Forward);
    }

    /// The client sends a Parse.
    fn gives(&mut self, text: &str) {
        let (reading, parse) = (UnnamedReading { vars: None, class: None, statement: None }, parse(text));
        let parse = Some([&parse[..HEADER_BYTES], &parse[HEADER_BYTES..]]);
        self.unnamed.prepares(parse, reading, &self.exchange, &self.account, &mut self.statement_registry);
        self.sends(frontend::PARSE);
    }

    /// What is sent in front of a Bind, without the Bind itself.
    fn brought(&mut self) -> Option<Vec<u8>> {
        let (vars, tracked, mut out) = (Rc::default(), Tracked::new([]), Vec::new());
        let Self { unnamed, exchange, server_statements, tally, .. } = self;
        unnamed.bring((&vars, &tracked), server_statements, exchange, tally, &mut out).expect("it can be sent");
        assert!(out.len() <= 1);
        out.pop().map(|bytes| match bytes {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(_) => panic!("a shared text"),
        })
    }

    /// The server answers so far; `E` fails, `X` fails at a message that cannot be converted, and `Z` ends the batch outside a
    /// transaction.
    fn answers(&mut self, kinds: &[u8]) {
        for &kind in kinds {
            let is_unread = kind == b'X';
            self.exchange.answered(if is_unread { backend::ERROR_RESPONSE } else { kind }, b"I").expect("owed");
            if let Some(failure) = self.exchange.failure() {
                self.unnamed.fails(&failure, is_unread);
            }
        }
    }
}

#[test]
fn it_is_sent_again_to_another_server_only_and_nobody_gets_another_clients() {
    let mut bench = Bench::new();
    bench.gives("one");
    assert_eq!(bench.brought(), None);
    bench.unnamed.begin_loan();
    assert_eq!(bench.brought(), Some(parse("one")));
    assert_eq!((bench.brought(), bench.tally.server_parses), (None, 1));
    let mut stranger = Bench::new();
    assert_eq!((stranger.brought(), stranger.brought()), (Some(CLOSE.to_vec()), None));
    assert_eq!(stranger.tally.server_parses, 0);
    assert!(stranger.exchange.is_hiding());
}

#[test]
fn what_is_skipped_gives_nothing_and_what_fails_destroys() {
    // The batch behind "one", how it is answered, and what is in force then.
    let skipped = |bench: &mut Bench| {
        bench.sends(frontend::BIND);
        bench.gives("two");
    };
    for (answers, in_force) in [(&b"12E"[..], "one"), (b"1E", "one"), (b"E", "")] {
        let mut bench = Bench::new();
        bench.gives("one");
        bench.sends(frontend::BIND);
        skipped(&mut bench);
        bench.sends(frontend::SYNC);
        bench.answers(answers);
        bench.answers(b"Z");
        bench.unnamed.begin_loan();
        let expected = if in_force.is_empty() { CLOSE.to_vec() } else { parse(in_force) };
        assert_eq!(bench.brought(), Some(expected), "{answers:?}");
    }
    let mut bench = Bench::new();
    bench.gives("one");
    skipped(&mut bench);
    bench.sends(frontend::BIND);
    bench.sends(frontend::SYNC);
    bench.answers(b"121EZ");
    bench.unnamed.begin_loan();
    assert_eq!(bench.brought(), Some(parse("two")), "it was answered before the error");
}

#[test]
fn what_cannot_be_converted_destroys_nothing() {
    for (text, answers, in_force) in [("ß", b"X", "one"), ("ß", b"E", ""), ("ß", b"1", "ß"), ("two", b"E", "")] {
        for is_pipelined in [false, true] {
            let mut bench = Bench::new();
            bench.gives("one");
            if !is_pipelined {
                bench.sends(frontend::SYNC);
                bench.answers(b"1Z");
            }
            bench.gives(text);
            bench.sends(frontend::SYNC);
            bench.answers(if is_pipelined { b"1" } else { b"" });
            bench.answers(answers);
            bench.answers(b"Z");
            bench.unnamed.begin_loan();
            let expected = if in_force.is_empty() { CLOSE.to_vec() } else { parse(in_force) };
            assert_eq!(bench.brought(), Some(expected), "{text} {answers:?} {is_pipelined}");
        }
    }
}

#[test]
fn a_close_or_a_query_leaves_none_unless_it_is_skipped() {
    for (is_query, is_skipped) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut bench = Bench::new();
        bench.gives("one");
        bench.sends(frontend::BIND);
        if is_query {
            bench.unnamed.queries(true, &bench.exchange);
            bench.sends(frontend::QUERY);
        } else {
            bench.unnamed.closes(&bench.exchange);
            bench.sends(frontend::CLOSE);
        }
        bench.sends(frontend::SYNC);
        bench.answers(match (is_skipped, is_query) {
            (true, _) => b"1EZ",
            (_, true) => b"12IZZ",
            (_, false) => b"123Z",
        });
        bench.unnamed.begin_loan();
        let expected = if is_skipped { parse("one") } else { CLOSE.to_vec() };
        assert_eq!(bench.brought(), Some(expected), "{is_query} {is_skipped}");
    }
}

#[test]
fn a_later_batch_waits_until_it_is_known() {
    let mut bench = Bench::new();
    bench.gives("one");
    assert!(!bench.unnamed.is_in_doubt(&bench.exchange), "an error skips the Bind, too");
    bench.sends(frontend::SYNC);
    assert!(bench.unnamed.is_in_doubt(&bench.exchange));
    bench.answers(b"1");
    assert!(!bench.unnamed.is_in_doubt(&bench.exchange));
    assert_eq!(bench.brought(), None, "the server has it");
}

#[test]
fn a_query_of_ours_destroys_it_on_the_server_only() {
    let mut bench = Bench::new();
    bench.gives("one");
    bench.sends(frontend::SYNC);
    bench.answers(b"1Z");
    bench.exchange.asks_ours();
    bench.answers(b"CZ");
    assert_eq!(bench.brought(), Some(parse("one")));
}

#[test]
fn what_may_come_back_is_bounded() {
    let mut bench = Bench::new();
    bench.sends(frontend::BIND);
    for number in 0..1000 {
        bench.gives(&format!("statement {number}"));
    }
    assert!(bench.history().given.len() <= GIVEN_MAX && bench.history().texts.capacity() <= SPARE_BYTES_MAX);
    for _ in 0..4 {
        bench.gives(&"x".repeat(TEXTS_BYTES_MAX / 2));
    }
    assert!(bench.history().texts.len() <= TEXTS_BYTES_MAX);
    bench.gives("last");
    bench.unnamed.begin_loan();
    assert_eq!(bench.brought(), Some(parse("last")));
}

#[test]
fn what_cannot_be_charged_is_not_kept() {
    let mut bench = Bench::new();
    bench.statement_registry.limit_clients(64);
    bench.gives(&"x".repeat(100));
    assert_eq!(bench.brought(), None);
    bench.unnamed.begin_loan();
    assert_eq!(bench.brought(), Some(CLOSE.to_vec()), "PostgreSQL reports that there is none");
    bench.gives("short");
    bench.unnamed.begin_loan();
    assert_eq!(bench.brought(), Some(parse("short")));
}

#[test]
fn where_no_answer_can_be_hidden_it_is_unknown() {
    let mut bench = Bench::new();
    bench.sends(frontend::QUERY);
    bench.answers(b"G");
    let (vars, tracked, mut out) = (Rc::default(), Tracked::new([]), Vec::new());
    let Bench { unnamed, exchange, server_statements, tally, .. } = &mut bench;
    let brought = unnamed.bring((&vars, &tracked), server_statements, exchange, tally, &mut out);
    assert_eq!(brought, Err(Fault::StatementUnknown { name: Box::default() }), "a COPY reads");
    assert_eq!((out.len(), tally.server_parses), (0, 0));
}

#[test]
fn in_another_process_it_is_what_it_was() {
    let mut bench = Bench::new();
    bench.gives("one");
    bench.sends(frontend::BIND);
    bench.gives("two");
    bench.sends(frontend::SYNC);
    let vars = Rc::default();
    let packed = bench.unnamed.pack(&vars);
    bench.unnamed = Unnamed::unpack(packed, &vars, &bench.account, &mut bench.statement_registry);
    bench.answers(b"1EZ");
    bench.unnamed.begin_loan();
    assert_eq!(bench.brought(), Some(parse("one")));
}

impl Bench {
    fn history(&self) -> &UnnamedHistory {
        self.unnamed.0.as_ref().expect("the client has given a statement")
    }

    /// The client sends a Parse, whose text is kept whether or not it is there already.
    fn gives_anew(&mut self, text: &str) {
        let (reading, parse) = (UnnamedReading { vars: None, class: None, statement: None }, parse(text));
        let parse = Some([&parse[..HEADER_BYTES], &parse[HEADER_BYTES..]]);
        let (exchange, place) = (&self.exchange, Place::next(&self.exchange));
        self.unnamed.0.get_or_insert_default().destroys(is_convertible(parse), exchange);
        self.unnamed.0.get_or_insert_default().give(place, parse, reading, &self.account, &mut self.statement_registry);
        self.unnamed.0.get_or_insert_default().brings(exchange);
        self.sends(frontend::PARSE);
    }

    fn is_like(&self, other: &Self) -> bool {
        let known = |bench: &Self| {
            let history = bench.unnamed.0.as_ref();
            let kept =
                history.map(|history| (&history.given, history.brought, &history.texts, history.texts.capacity()));
            format!("{kept:?} {}", bench.account.held())
        };
        known(self) == known(other)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_text_that_is_there_already_leaves_what_any_text_leaves(
        steps in proptest::collection::vec((0..9_u8, 0..4_usize), 1..30),
    ) {
        let long = "x".repeat(9_000);
        let texts = ["one", "two", "caf\u{e9}", &long];
        let (mut bench, mut other) = (Bench::new(), Bench::new());
        for (step, text) in steps {
            match step {
                0..=4 => {
                    bench.gives(texts[text]);
                    other.gives_anew(texts[text]);
                }
                5 | 6 => [&mut bench, &mut other].into_iter().for_each(|bench| {
                    bench.sends(frontend::SYNC);
                    let answers = usize::try_from(bench.exchange.number() - bench.exchange.unanswered()).expect("few");
                    let fails = step == 6 && answers > 0;
                    bench.answers(if fails { &[b'E'][..] } else { &[] });
                    bench.answers(&vec![b'1'; if fails { 0 } else { answers }]);
                    bench.answers(b"Z");
                }),
                7 if bench.exchange.owes_nothing() => {
                    bench.unnamed.begin_loan();
                    other.unnamed.begin_loan();
                }
                _ => {
                    bench.unnamed.closes(&bench.exchange);
                    other.unnamed.closes(&other.exchange);
                    bench.sends(frontend::CLOSE);
                    other.sends(frontend::CLOSE);


                }
            }
            prop_assert!(bench.is_like(&other));
        }
    }
}
