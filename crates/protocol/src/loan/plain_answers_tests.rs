//! Compares the plain way of answers with the general one.

use std::ops::Range;
use std::rc::Rc;

use base::Random;
use proptest::prelude::*;
use wire::frontend;

use super::super::answers::ToClient;
use super::*;
use crate::exchange::Exchange;
use crate::vars::{Known, Tracked, Vars};

/// What the client is given: parts of the server's bytes, and bytes of our own.
#[derive(Default)]
struct Given(Vec<u8>);

struct ToGiven<'a> {
    bytes: &'a [u8],
    given: &'a mut Given,
}

impl ToClient for ToGiven<'_> {
    fn part(&mut self, range: Range<usize>) {
        // As in the worker, a range may end before it begins.
        self.given.0.extend_from_slice(self.bytes.get(range).unwrap_or_default());
    }

    fn send(&mut self, bytes: Box<[u8]>) {
        self.given.0.extend_from_slice(&bytes);
    }
}

/// Two sessions in a state that the seed decides, and what surrounds them.
struct Stage {
    tracked: Tracked,
    known: Known,
    client: Option<ClientSession>,
    server: ServerSession,
    flags: [bool; 4],
}

impl Stage {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut rarely = || random.below(12) == 0;
        let tracked = Tracked::new([]);
        let vars = Rc::new(Vars::new(&tracked));
        let (mut client, mut server) = (ClientSession::new(0, vars.clone()), ServerSession::new(vars));
        if rarely() {
            client.session_effects.get_or_insert_default();
        }
        if rarely() {
            server.reported_name = Some("name".into());
        }
        server.is_applied_along = rarely();
        server.tells_lock = rarely();
        if rarely() {
            server.answer_tally = Some(Box::default());
        }
        let is_kept = [rarely() || rarely() || rarely(), rarely()];
        let flags = [true, rarely(), rarely(), rarely()];
        let client = (!rarely()).then_some(client);
        for _ in 0..1 + random.below(4) {
            ask(&mut server, &mut random);
        }
        if is_kept[0] {
            server.repeatable.keep(b"E");
            if is_kept[1] {
                server.repeatable.hold_parameters(b"t"[..].into());
            }
        }
        Self { tracked, known: Known::default(), client, server, flags }
    }

    /// Processes the bytes. Returns all that is to be compared.
    fn hears(&mut self, bytes: &[u8], is_plain: bool) -> String {
        let [shares_parameters, is_listener, is_statement_mode, withholds] = self.flags;
        let (tracked, known) = (&self.tracked, &mut self.known);
        let mut answers = Answers { tracked, known, shares_parameters, is_listener, is_statement_mode, withholds };
        let (mut place, mut given) = (Place { start: 0, at: 0 }, Given::default());
        let mut all = String::new();
        for _ in 0..=bytes.len() {
            let mut to_client = ToGiven { bytes, given: &mut given };
            let (client, server) = (self.client.as_mut(), &mut self.server);
            let heard = match is_plain {
                true => answers.hear(client, server, bytes, &mut place, &mut to_client),
                false => hears_each(&mut answers, client, server, bytes, &mut place, &mut to_client),
            };
            all += &format!("{heard:?} {place:?}\n");
            match heard {
                ServerEvent::All
                | ServerEvent::Unexpected { .. }
                | ServerEvent::FatalError(_)
                | ServerEvent::Lost
                | ServerEvent::Endless => break,
                ServerEvent::Withheld | ServerEvent::Refused | ServerEvent::InTransaction => break,
                _ => {}
            }
        }
        given.0.extend_from_slice(bytes.get(place.start..place.at).unwrap_or_default());
        all + &format!("{:?}\n{:?}\n{:?}", given.0, self.client, self.server)
    }
}

/// [`Answers::hear`] without the plain way.
fn hears_each<'b>(
    answers: &mut Answers<'_>,
    mut client: Option<&mut ClientSession>,
    server: &mut ServerSession,
    bytes: &'b [u8],
    place: &mut Place,
    to_client: &mut impl ToClient,
) -> ServerEvent<'b> {
    let from = place.at;
    let mut heard = None;
    while heard.is_none() && place.at < bytes.len() {
        heard = answers.take_next(client.as_deref_mut(), server, bytes, place, to_client);
    }
    if let Some(tally) = &mut server.answer_tally {
        tally.bytes += (place.at - from) as u64;
    }
    heard.unwrap_or(ServerEvent::All)
}

/// The server is sent something.
fn ask(server: &mut ServerSession, random: &mut Random) {
    let ServerSession { exchange, server_statements, .. } = server;
    let batch = [frontend::PARSE, frontend::BIND, frontend::DESCRIBE, frontend::EXECUTE, frontend::SYNC];
    match random.below(12) {
        0..=5 => _ = exchange.asked(frontend::QUERY),
        6..=8 => batch.into_iter().for_each(|kind| _ = exchange.asked(kind)),
        9 => _ = exchange.asked(batch[random.below(5) as usize]),
        10 if exchange.owes_nothing() => exchange.asks_ours(),
        _ if exchange.may_step() => server_statements.expect_hidden(exchange),
        _ => {}
    }
}

/// Bytes of a server: answers that fit to nothing in particular.
fn answers(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::new();
    for _ in 0..count {
        let (kind, body): (u8, &[u8]) = match random.below(24) {
            0..=5 => (backend::DATA_ROW, b"\0\x01\0\0\0\x011"),
            6..=7 => (backend::ROW_DESCRIPTION, b"\0\0"),
            8..=9 => (backend::COMMAND_COMPLETE, b"SELECT 1\0"),
            10 => (backend::COMMAND_COMPLETE, b"COMMIT\0"),
            11 => (backend::COMMAND_COMPLETE, b"ROLLBACK\0"),
            12 => (backend::COMMAND_COMPLETE, b"DEALLOCATE\0"),
            13 => (backend::COMMAND_COMPLETE, b"CREATE TABLE\0"),
            14..=16 => (backend::READY_FOR_QUERY, b"I"),
            17 => (backend::READY_FOR_QUERY, b"T"),
            18 => (backend::READY_FOR_QUERY, b"?"),
            19 => (backend::PARSE_COMPLETE, b""),
            20 => (backend::BIND_COMPLETE, b""),
            21 => (backend::NOTICE_RESPONSE, b"SNOTICE\0\0"),
            22 => (backend::ERROR_RESPONSE, b"SERROR\0VERROR\0C42601\0Mno\0\0"),
            _ => (backend::NO_DATA, b""),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
    }
    bytes
}

/// The answer to a Query, which nothing interrupts.
fn plain() -> Vec<u8> {
    b"T\0\0\0\x06\0\0D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I".to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_say_the_same_and_leave_the_same(
        seed in any::<u64>(),
        said in any::<u64>(),
        count in 1..12_usize,
        is_plain in any::<bool>(),
        cut in proptest::option::of(1..40_usize),
    ) {
        let mut bytes = answers(said, count);
        if is_plain {
            bytes.splice(0..0, plain());
        }
        let cut = cut.unwrap_or(bytes.len()).min(bytes.len());
        let (mut one, mut other) = (Stage::new(seed), Stage::new(seed));
        for bytes in [&bytes[..cut], &bytes[cut..]] {
            prop_assert_eq!(one.hears(bytes, true), other.hears(bytes, false));
        }
    }
}

#[test]
fn a_plain_answer_is_taken_at_once() {
    let mut server = ServerSession::new(Rc::new(Vars::new(&Tracked::new([]))));
    server.exchange.asked(frontend::QUERY);
    let mut place = Place { start: 0, at: 0 };
    let heard = server.take_plain(&plain(), &mut place);
    assert_eq!((heard, place), (Some(ServerEvent::Ready { was_ours: false }), Place { start: 0, at: plain().len() }));
    assert!(server.exchange.may_end());
}

/// Each thing by which the answers of a server are not plain.
#[test]
fn what_is_looked_at_is_left_to_the_general_way() {
    type Make = fn(&mut ClientSession, &mut ServerSession);
    let unusual: [(&str, Make); 9] = [
        ("effects", |client, _| _ = client.session_effects.insert(Box::default())),
        ("a name that is reported late", |_, server| server.reported_name = Some("name".into())),
        ("settings along with the request", |_, server| server.is_applied_along = true),
        ("a row that tells of a lock", |_, server| server.tells_lock = true),
        ("a description of parameters that is held back", |_, server| {
            server.repeatable.keep(&plain());
            server.repeatable.hold_parameters(b"t"[..].into());
        }),
        ("a part of a message that is read", |_, server| server.collected = vec![0]),
        ("a hidden answer", |_, server| {
            let ServerSession { exchange, server_statements, .. } = server;
            server_statements.expect_hidden(exchange);
        }),
        ("a query of our own", |_, server| server.exchange = Exchange::default()),
        ("a message that has begun", |_, server| {
            _ = server.scanner.next(b"D\0\0\0\xff", 0, u32::MAX);
        }),
    ];
    for (what, make) in unusual {
        let mut server = ServerSession::new(Rc::new(Vars::new(&Tracked::new([]))));
        let mut client = ClientSession::new(0, server.vars.clone());
        server.exchange.asked(frontend::QUERY);
        make(&mut client, &mut server);
        if server.exchange.owes_nothing() {
            server.exchange.asks_ours();
        }
        let (tracked, mut known) = (Tracked::new([]), Known::default());
        let (tracked, known) = (&tracked, &mut known);
        let (shares_parameters, is_listener, is_statement_mode, withholds) = (true, false, false, false);
        let answers = Answers { tracked, known, shares_parameters, is_listener, is_statement_mode, withholds };
        let mut place = Place { start: 0, at: 0 };
        let may_be = answers.may_be_plain(Some(&client), &server);
        assert!(!may_be || server.take_plain(&plain(), &mut place).is_none(), "{what}");
        assert_eq!(place, Place { start: 0, at: 0 }, "{what}");
    }
}

#[test]
fn what_a_command_may_have_done_beside_its_rows_is_looked_at() {
    for (tag, tells_nothing) in [
        (&b"SELECT 1\0"[..], true),
        (b"INSERT 0 5\0", true),
        (b"UPDATE 0\0", true),
        (b"DELETE 7\0", true),
        (b"BEGIN\0", true),
        (b"COMMIT\0", true),
        (b"ROLLBACK\0", true),
        (b"RELEASE\0", true),
        (b"COMMIT PREPARED\0", false),
        (b"CALL\0", false),
        (b"DEALLOCATE\0", false),
        (b"DISCARD ALL\0", false),
        (b"IMPORT FOREIGN SCHEMA\0", false),
        (b"DO\0", false),
        (b"", false),
    ] {
        assert_eq!(tags::tells_nothing(tag), tells_nothing, "{}", tag.escape_ascii());
    }
}
