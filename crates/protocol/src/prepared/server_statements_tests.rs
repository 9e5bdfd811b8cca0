//! One or two clients and one or two servers: what is asked, what the server is sent, what the client is given.

use base::Time;
use std::rc::Rc;

use wire::{frontend, write};

use super::*;
use crate::exchange::{Answered, Exchange};
use crate::fault::Fault;
use crate::vars::{Tracked, Vars};

mod batches;
mod contest;
mod drops;
mod heads;
mod held;
mod names;
mod own;
mod refused;
mod sent;

/// A server as it is lent.
#[derive(Default)]
struct Lent {
    exchange: Exchange,
    server_statements: ServerStatements,
}

struct Stage {
    statement_registry: StatementRegistry,
    server: Lent,
    tally: Tally,
    max: usize,
    dialect: Rc<[u8]>,
    tracked: Tracked,
    is_settled: bool,
    catalog_version: CatalogVersion,
    follows: bool,
    is_by_sql: bool,
}

impl Stage {
    fn new(max: usize) -> Self {
        Self {
            statement_registry: StatementRegistry::new(1, 1),
            server: Lent::default(),
            tally: Tally::default(),
            max,
            dialect: [][..].into(),
            tracked: Tracked::new([]),
            is_settled: true,
            catalog_version: CatalogVersion::default(),
            follows: false,
            is_by_sql: false,
        }
    }

    /// What the server is sent when the client asks this, in words.
    fn try_ask(&mut self, names: &mut Names, ask: Ask<'_>) -> Result<String, Fault> {
        let (way, out) = self.try_send(names, ask)?;
        Ok(if way == Way::AsItIs { "as it is".to_owned() } else { words(&out) })
    }

    /// What happens to what the client asks, whose body has 100 bytes, and what the server is sent.
    fn try_send(&mut self, names: &mut Names, ask: Ask<'_>) -> Result<(Way, Vec<Bytes>), Fault> {
        let mut out = Vec::new();
        let Lent { exchange, server_statements } = &mut self.server;
        let dialect = self.dialect.clone();
        let mut sides = Sides {
            account: &Account::default(),
            catalog_version: self.catalog_version,
            names,
            statement_registry: &mut self.statement_registry,
            exchange,
            dialect,
            tracked: &self.tracked,
            is_settled: self.is_settled,
            is_by_sql: self.is_by_sql,
            max: self.max,
            follows: self.follows,
            tally: &mut self.tally,
            behind: b"",
            out: &mut out,
        };
        let way = server_statements.ask(ask, 100, &mut sides)?;
        Ok((way, out))
    }

    fn ask(&mut self, names: &mut Names, ask: Ask<'_>) -> String {
        self.try_ask(names, ask).expect("no fault")
    }

    fn parse(&mut self, names: &mut Names, name: &str, text: &str) -> String {
        let text = [text.as_bytes(), &[0, 0, 0]].concat();
        self.ask(names, Ask::Parse { name: name.as_bytes(), text: &text })
    }

    fn bind(&mut self, names: &mut Names, name: &str) -> String {
        self.ask(names, bind(name))
    }

    fn close(&mut self, names: &mut Names, name: &str) -> String {
        self.ask(names, Ask::Close { name: name.as_bytes() })
    }

    fn asked(&mut self, kinds: &[u8]) {
        for &kind in kinds {
            self.server.exchange.asked(kind);
        }
    }

    /// What the client is given when the server sends this: a kind for each message, `Z` outside of a transaction.
    fn hears(&mut self, names: &mut Names, kinds: &str) -> String {
        let mut given = self.given();
        for kind in kinds.bytes() {
            let answered = self.server.exchange.answered(kind, b"I").expect("owed");
            if answered == Answered::Forward {
                given.push(kind.into());
            }
            self.server.server_statements.settle(&mut self.server.exchange, Some(names));
            given += &self.given();
        }
        given
    }

    /// The client prepares this, and the server does so.
    fn prepares(&mut self, names: &mut Names, name: &str, text: &str) {
        self.parse(names, name, text);
        self.asked(b"S");
        self.hears(names, "1Z");
    }

    /// What the server is sent before a text of the client's that mentions this name.
    fn mentions(&mut self, names: &Names, name: &str) -> String {
        let mut out = Vec::new();
        let mentioned = MentionedNames { names: vec![name], drops: vec![], is_query: false };
        self.server.server_statements.bring_own(&mentioned, names, &mut self.server.exchange, &mut out);
        words(&[Bytes::Own(out)])
    }

    /// How many statements the server is believed to have; the order of their use has each of them once.
    fn count(&self) -> usize {
        let ServerStatements { held, by_use, .. } = &self.server.server_statements;
        assert!(by_use.len() == held.len() && by_use.iter().all(|(used, id)| held[id].used == *used), "{by_use:?}");
        held.len()
    }

    /// How many statements the server is believed to have, and how many steps have no outcome yet.
    fn held_and_pending(&self) -> (usize, usize) {
        (self.count(), self.server.server_statements.pending.len())
    }

    fn given(&mut self) -> String {
        std::iter::from_fn(|| self.server.exchange.due()).map(char::from).collect()
    }

    /// Gives the client a server without any statements, and returns the one that it had.
    fn another_server(&mut self) -> Lent {
        std::mem::take(&mut self.server)
    }
}

fn bind(name: &str) -> Ask<'_> {
    Ask::Bind { portal: b"", name: name.as_bytes(), end: name.len() + 2 }
}

/// Messages in words: `Parse PGBOUNCER_1 select 1`.
fn words(out: &[Bytes]) -> String {
    let bytes: Vec<u8> = out
        .iter()
        .flat_map(|bytes| match bytes {
            Bytes::Own(bytes) => &bytes[..],
            Bytes::Shared(bytes) => &bytes[..],
        })
        .copied()
        .collect();
    let (mut words, mut rest) = (Vec::new(), &bytes[..]);
    while let [kind, a, b, c, d, body @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize - 4;
        // The values of a Bind are not here.
        let (body, later) = body.split_at(length.min(body.len()));
        let strings: Vec<_> = body.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
        words.push(match *kind {
            frontend::PARSE => format!("Parse {} {}", strings[0], strings[1]),
            frontend::BIND => format!("Bind {}{}", strings[0], strings[1]),
            frontend::DESCRIBE => format!("Describe {}", &strings[0][1..]),
            frontend::CLOSE if body[0] == b'P' => format!("Close portal {}", &strings[0][1..]),
            frontend::CLOSE => format!("Close {}", &strings[0][1..]),
            frontend::EXECUTE => format!("Execute {}", strings[0]),
            other => format!("{other}"),
        });
        rest = later;
    }
    words.join(", ")
}

#[test]
fn a_parse_goes_to_the_server_under_a_name_of_ours() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    assert_eq!(t.parse(&mut ann, "a", "select 1"), "Parse PGBOUNCER_1 select 1");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
    t.asked(b"ES");
    assert_eq!(t.hears(&mut ann, "12CZ"), "12CZ");
    assert!(t.server.exchange.may_end() && t.server.server_statements.count() == 1 && ann.count() == 1);
}

#[test]
fn what_the_server_has_is_not_sent_again_and_answered_in_its_place() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.asked(b"BE");
    assert_eq!(t.parse(&mut bob, "b", "select 1"), "");
    assert_eq!(t.bind(&mut bob, "b"), "Bind PGBOUNCER_1");
    t.asked(b"ES");
    assert_eq!(t.hears(&mut bob, "2DC2DCZ"), "2DC12DCZ");
    assert_eq!((t.statement_registry.count(), t.server.server_statements.count()), (1, 1));
    assert_eq!(t.tally, Tally { client_parses: 2, server_parses: 1, binds: 1 });
}

#[test]
fn who_prepares_something_does_not_get_what_was_prepared_before_the_catalog_changed() {
    let (mut t, mut ann, mut bob, mut eve) = (Stage::new(9), Names::default(), Names::default(), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    for (catalog_version, is_anew) in [
        (CatalogVersion { now: Time::from_secs(29), changes: 0 }, false),
        (CatalogVersion { now: Time::from_secs(30), changes: 0 }, true),
        (CatalogVersion { now: Time::from_secs(31), changes: 0 }, false),
        (CatalogVersion { now: Time::from_secs(31), changes: 1 }, true),
    ] {
        t.catalog_version = catalog_version;
        let anew = "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1";
        assert_eq!(t.parse(&mut bob, "b", "select 1"), if is_anew { anew } else { "" }, "{catalog_version:?}");
        // A client that has the statement already keeps its meaning.
        assert_eq!(t.bind(&mut bob, "b"), "Bind PGBOUNCER_1");
        t.close(&mut bob, "b");
        t.asked(b"S");
        assert_eq!(t.hears(&mut bob, if is_anew { "312Z" } else { "2Z" }), "123Z");
    }
    assert_eq!((t.parse(&mut eve, "e", "select 1"), t.statement_registry.count()), (String::new(), 1));
}

#[test]
fn an_answer_of_ours_that_nothing_stands_before_is_due_at_once() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    assert_eq!(t.close(&mut ann, "nobody"), "");
    assert_eq!(t.given(), "3");
    assert!(!t.server.exchange.may_end(), "its Sync is still to come");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "Z"), "Z");
    assert!(t.server.exchange.may_end());
}

#[test]
fn a_server_that_lacks_a_statement_gets_it_before_it_is_used() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.another_server();
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"ES");
    assert_eq!(t.hears(&mut ann, "12CZ"), "2CZ");
    assert_eq!(t.ask(&mut ann, Ask::Describe { name: b"a" }), "Describe PGBOUNCER_1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "tTZ"), "tTZ");
}

#[test]
fn a_name_belongs_to_its_client() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    assert_eq!(t.parse(&mut bob, "a", "select 2"), "Parse PGBOUNCER_2 select 2");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
    assert_eq!(t.bind(&mut bob, "a"), "Bind PGBOUNCER_2");
}

#[test]
fn types_and_parameters_make_another_statement() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select $1");
    let typed = Ask::Parse { name: b"b", text: b"select $1\0\0\x01\0\0\0\x17" };
    assert!(t.ask(&mut ann, typed).starts_with("Parse PGBOUNCER_2"));
    t.dialect = b"Asia/Tokyo\0"[..].into();
    assert_eq!(t.parse(&mut ann, "c", "select $1"), "Parse PGBOUNCER_3 select $1");
    // A name that was given before the parameter was set is read again.
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_3");
}

/// `date '1/2/2020'` was another day after its client had set another DateStyle and had got another server.
#[test]
fn a_literal_means_what_it_meant_when_its_statement_was_given() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    let dialect = |datestyle: &str, path: &str| {
        let mut vars = Vars::new(&Tracked::new([]));
        vars.set(0, datestyle);
        vars.set(2, "UTC");
        let mut dialect = vars.dialect(&Tracked::new([]));
        dialect.extend_from_slice(path.as_bytes());
        Rc::from(dialect)
    };
    t.dialect = dialect("ISO, MDY", "");
    t.parse(&mut ann, "day", "select date '1/2/2020'");
    t.parse(&mut ann, "number", "select $1 + 1");
    t.asked(b"S");
    t.hears(&mut ann, "11Z");
    t.dialect = dialect("ISO, DMY", "");
    assert_eq!(t.bind(&mut ann, "day"), "Bind PGBOUNCER_1", "the server has it");
    assert_eq!(t.bind(&mut ann, "number"), "Parse PGBOUNCER_3 select $1 + 1, Bind PGBOUNCER_3", "it reads alike");
    t.another_server();
    let around = |datestyle: &str| {
        format!(
            "Close TRUNKLINE_STATE_READING, Close portal TRUNKLINE_STATE_READING, \
             Parse TRUNKLINE_STATE_READING SET DateStyle='{datestyle}', Bind TRUNKLINE_STATE_READINGTRUNKLINE_STATE_READING, \
             Execute TRUNKLINE_STATE_READING, Close TRUNKLINE_STATE_READING"
        )
    };
    let expected = format!(
        "{}, Parse PGBOUNCER_1 select date '1/2/2020', {}, Bind PGBOUNCER_1",
        around("ISO, MDY"),
        around("ISO, DMY")
    );
    assert_eq!(t.bind(&mut ann, "day"), expected);
    t.asked(b"ES");
    assert_eq!(t.hears(&mut ann, "3312C31" /* the statement */), "");
    assert!(t.server.exchange.is_hiding());
    assert_eq!(t.hears(&mut ann, "3312C32DCZ"), "2DCZ");
    assert_eq!(t.bind(&mut ann, "day"), "Bind PGBOUNCER_1");
    assert_eq!(t.parse(&mut bob, "day", "select date '1/2/2020'"), "Parse PGBOUNCER_4 select date '1/2/2020'");
    // Under another `search_path` PostgreSQL analyses everything again.
    t.dialect = dialect("ISO, DMY", "search_path\0a\0");
    assert_eq!(t.bind(&mut ann, "day"), "Parse PGBOUNCER_5 select date '1/2/2020', Bind PGBOUNCER_5");
}

#[test]
fn what_cannot_be_read_as_it_was_is_read_anew_and_is_nobody_elses() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    let mut vars = Vars::new(&t.tracked);
    vars.set(2, "Ä");
    t.dialect = vars.dialect(&t.tracked).into();
    t.parse(&mut ann, "a", "select 'x'");
    vars.set(2, "UTC");
    t.dialect = vars.dialect(&t.tracked).into();
    t.another_server();
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_2 select 'x', Bind PGBOUNCER_2");
}

#[test]
fn what_is_read_under_settings_that_nobody_knows_is_nobody_elses() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    let settled = t.dialect.clone();
    t.parse(&mut ann, "before", "select 1");
    t.is_settled = false;
    assert_eq!(t.parse(&mut ann, "a", "select 1"), "Parse PGBOUNCER_2 select 1", "it may mean something else");
    assert_eq!(t.parse(&mut ann, "b", "select 1"), "Parse PGBOUNCER_3 select 1", "and again");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_2");
    assert_eq!(t.bind(&mut ann, "before"), "Bind PGBOUNCER_1", "as on a connection of its own");
    t.dialect = b"Asia/Tokyo\0"[..].into();
    assert_eq!(
        t.bind(&mut ann, "before"),
        "Parse PGBOUNCER_4 select 1, Bind PGBOUNCER_4",
        "a parameter that is known has changed"
    );
    assert_eq!(t.bind(&mut ann, "before"), "Bind PGBOUNCER_4");
    (t.dialect, t.is_settled) = (settled, true);
    assert_eq!(t.parse(&mut bob, "a", "select 1"), "");
    assert_eq!(t.bind(&mut bob, "a"), "Bind PGBOUNCER_1");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1", "it means what it says again");
}

#[test]
fn the_one_that_was_not_used_for_the_longest_time_makes_room() {
    let (mut t, mut ann) = (Stage::new(2), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.parse(&mut ann, "b", "select 2");
    t.bind(&mut ann, "a");
    assert_eq!(t.parse(&mut ann, "c", "select 3"), "Close PGBOUNCER_2, Parse PGBOUNCER_3 select 3");
    assert_eq!(t.bind(&mut ann, "b"), "Close PGBOUNCER_1, Parse PGBOUNCER_2 select 2, Bind PGBOUNCER_2");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "11231312Z"), "11212Z");
    assert_eq!(t.server.server_statements.count(), 2);
}

#[test]
fn a_lower_limit_counts_from_the_next_statement_on() {
    let (mut t, mut ann) = (Stage::new(3), Names::default());
    for (name, text) in [("a", "select 1"), ("b", "select 2"), ("c", "select 3")] {
        t.parse(&mut ann, name, text);
    }
    t.max = 1;
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
    let sent = t.parse(&mut ann, "d", "select 4");
    assert_eq!(sent, "Close PGBOUNCER_2, Close PGBOUNCER_3, Close PGBOUNCER_1, Parse PGBOUNCER_4 select 4");
}

#[test]
fn a_statement_that_failed_is_not_there() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "selec");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert_eq!((t.server.server_statements.count(), ann.count()), (0, 0));
    // The name is free again, and a client that uses it before is sent the server's error.
    assert_eq!(t.bind(&mut ann, "a"), "as it is");
    assert_eq!(t.parse(&mut ann, "a", "selec"), "Parse PGBOUNCER_2 selec");
}

#[test]
fn what_the_server_skips_is_neither_there_nor_answered() {
    let (mut t, mut ann, mut bob) = (Stage::new(2), Names::default(), Names::default());
    t.parse(&mut bob, "x", "select 8");
    t.parse(&mut bob, "y", "select 9");
    t.asked(b"S");
    t.hears(&mut bob, "11Z");
    t.asked(b"B");
    t.close(&mut ann, "nobody");
    t.parse(&mut ann, "a", "select 8");
    assert_eq!(t.parse(&mut ann, "b", "select 1"), "Close PGBOUNCER_2, Parse PGBOUNCER_3 select 1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert_eq!(ann.count(), 0);
    // The statement that was to be closed is still there.
    assert_eq!(t.bind(&mut bob, "y"), "Bind PGBOUNCER_2");
}

#[test]
fn a_skipped_close_keeps_the_name() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}

/// Before the answer is known, a second batch is on its way: if the first is skipped, the statement is not there.
#[test]
fn a_batch_does_not_rely_on_what_another_may_have_skipped() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.another_server();
    t.asked(b"B");
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"S");
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ312Z"), "EZ2Z");
    assert_eq!((t.bind(&mut ann, "a").as_str(), t.server.server_statements.count()), ("Bind PGBOUNCER_1", 1));
}

#[test]
fn a_name_stands_or_falls_with_its_own_parse() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "selec");
    t.asked(b"S");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZEZ"), "EZEZ");
}

/// The simulation found this: the second batch was told that the statement does not exist.
#[test]
fn a_name_that_is_used_anew_may_mean_what_it_did_before() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.another_server();
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ312Z"), "EZ2Z");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}

/// The simulation found this too: the name was gone.
#[test]
fn a_name_that_is_closed_and_given_twice_in_vain_means_what_it_did() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    for text in ["select 2", "select 3"] {
        t.asked(b"B");
        t.close(&mut ann, "a");
        t.parse(&mut ann, "a", text);
        t.asked(b"S");
    }
    assert_eq!(t.hears(&mut ann, "EZEZ"), "EZEZ");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}

/// The simulation found this too: what was given in between was lost.
#[test]
fn a_close_that_is_skipped_does_not_undo_what_came_behind_it() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.asked(b"B");
    t.parse(&mut ann, "a", "select 1");
    t.close(&mut ann, "a");
    t.asked(b"S");
    t.parse(&mut ann, "a", "select 2");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ1EZ"), "EZ1EZ");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_2");
}

/// Random programs found this: ParseComplete where PostgreSQL reports that the transaction is aborted.
#[test]
fn in_a_failed_transaction_the_server_answers() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1");
    t.server.exchange.answered(b'Z', b"E").expect("owed");
    assert_eq!(t.parse(&mut ann, "b", "select 1"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "3EZ"), "EZ");
    assert_eq!((t.server.server_statements.count(), ann.count()), (0, 1));
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

#[test]
fn a_name_in_use_is_refused_and_so_is_one_that_nobody_gave() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    let again = Ask::Parse { name: b"a", text: b"select 1\0\0\0" };
    assert_eq!(t.try_ask(&mut ann, again), Err(Fault::StatementInUse { name: "a".into() }));
    assert_eq!(t.try_ask(&mut ann, bind("b\n")), Err(Fault::StatementUnknown { name: "b?".into() }));
    t.close(&mut ann, "a");
    assert_eq!(t.parse(&mut ann, "a", "select 1"), "");
}

#[test]
fn where_sessions_follow_the_server_says_that_there_is_none_unless_it_is_named_as_ours() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.follows = true;
    assert_eq!(t.bind(&mut ann, "b"), "as it is");
    for name in ["PGBOUNCER_1", "TRUNKLINE_STATE_1"] {
        assert_eq!(t.try_ask(&mut ann, bind(name)), Err(Fault::StatementUnknown { name: name.into() }));
    }
}

/// Each error was compared with all names of its client: with 60,000 names, a hundred errors kept every client waiting
/// for a second.
#[test]
fn an_error_looks_at_no_more_than_some_names() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    for number in 0..1002 {
        t.parse(&mut ann, &format!("s{number:04}"), &format!("select {number}"));
    }
    let error = |number: u64| format!("SERROR\0C26000\0M\"PGBOUNCER_{number}\" is not there\0\0").into_bytes();
    let told = |names: &mut Names, number| {
        names.reworded(&error(number)).map(|body| String::from_utf8_lossy(&body).into_owned())
    };
    assert!(told(&mut ann, 1000).is_some_and(|body| body.contains("\"s0999\"")));
    assert_eq!(told(&mut ann, 1001), None, "it reads the server's name");
}

#[test]
fn a_server_that_has_dropped_all_has_none() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.parse(&mut bob, "b", "select 1");
    t.asked(b"S");
    t.hears(&mut bob, "Z");
    t.server.server_statements.drop_all(Some(&mut ann));
    assert_eq!((t.server.server_statements.count(), ann.count(), bob.count()), (0, 0, 1));
    assert_eq!(t.try_ask(&mut ann, bind("a")), Err(Fault::StatementUnknown { name: "a".into() }));
    assert_eq!(t.bind(&mut bob, "b"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

/// What is sent behind a DEALLOCATE ALL, before that is answered, is not dropped with the rest.
#[test]
fn what_comes_behind_a_drop_of_all_stays() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.asked(b"Q");
    assert_eq!(t.parse(&mut ann, "b", "select 2"), "Parse PGBOUNCER_2 select 2");
    t.asked(b"S");
    t.hears(&mut ann, "C");
    t.server.server_statements.drop_all(Some(&mut ann));
    assert_eq!(t.hears(&mut ann, "Z1Z"), "Z1Z");
    assert_eq!((t.server.server_statements.count(), ann.count()), (1, 1));
    assert_eq!(t.bind(&mut ann, "b"), "Bind PGBOUNCER_2");
}

/// The simulation found this: the server had a statement that was recorded as absent, and refused its Parse.
#[test]
fn what_comes_behind_a_drop_of_all_and_is_closed_in_vain_stays() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.asked(b"Q");
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"B");
    assert_eq!(t.parse(&mut ann, "b", "select 2"), "Close PGBOUNCER_1, Parse PGBOUNCER_2 select 2");
    t.asked(b"S");
    t.hears(&mut ann, "C");
    t.server.server_statements.drop_all(Some(&mut ann));
    assert_eq!(t.hears(&mut ann, "Z1EZ"), "Z1EZ");
    assert_eq!((t.bind(&mut ann, "a").as_str(), t.server.server_statements.count()), ("Bind PGBOUNCER_1", 1));
}

#[test]
fn what_a_server_denies_is_closed_and_prepared_again() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    let mut refused = |sqlstate: &str, message: &str, more: &[u8]| {
        let mut out = Vec::new();
        write::error(&mut out, write::Says { severity: "ERROR", sqlstate, message, detail: None, hint: None });
        out.pop();
        out.extend_from_slice(more);
        t.server.server_statements.refused(&out[5..]);
        let sent = t.bind(&mut ann, "a");
        t.asked(b"S");
        let answers = if sent.starts_with("Close") { "312Z" } else { "2Z" };
        t.hears(&mut ann, answers);
        sent
    };
    let anew = "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1";
    assert_eq!(refused("26000", "prepared statement \"PGBOUNCER_1\" does not exist", b"\0"), anew);
    assert_eq!(refused("26000", "prepared statement \"PGBOUNCER_77\" does not exist", b"\0"), "Bind PGBOUNCER_1");
    assert_eq!(refused("0A000", "cached plan must not change result type", b"RRevalidateCachedQuery\0\0"), anew);
    assert_eq!(refused("0A000", "something else", b"Relsewhere\0\0"), "Bind PGBOUNCER_1");
}

/// A client has used our name in SQL: without this the name would be refused for ever.
#[test]
fn a_name_of_ours_that_is_taken_is_closed_first() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    t.parse(&mut bob, "b", "select 1");
    t.asked(b"S");
    t.hears(&mut bob, "1Z");
    t.another_server();
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "EZ");
    t.server.server_statements.refused(b"SERROR\0C42P05\0Mprepared statement \"PGBOUNCER_1\" already exists\0\0");
    assert_eq!(t.parse(&mut ann, "a", "select 1"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1");
}

#[test]
fn a_parameter_set_in_a_loan_puts_what_was_prepared_in_it_in_doubt() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.server.server_statements.begin_loan();
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.server.server_statements.begin_loan();
    t.parse(&mut ann, "b", "select 2");
    t.asked(b"S");
    t.server.server_statements.doubt_this_loan();
    t.hears(&mut ann, "1Z");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
    assert_eq!(t.bind(&mut ann, "b"), "Close PGBOUNCER_2, Parse PGBOUNCER_2 select 2, Bind PGBOUNCER_2");
}

#[test]
fn what_is_closed_in_vain_stays_in_doubt() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.parse(&mut ann, "b", "select 2");
    t.asked(b"S");
    t.server.server_statements.doubt_this_loan();
    t.hears(&mut ann, "1EZ");
    // So is the other statement, which was never prepared.
    let sent = t.bind(&mut ann, "a");
    assert_eq!(sent, "Close PGBOUNCER_1, Close PGBOUNCER_2, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

#[test]
fn a_long_text_is_sent_from_where_it_is_kept() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    let text = "x".repeat(100_000);
    assert_eq!(t.parse(&mut ann, "a", &text), format!("Parse PGBOUNCER_1 {text}"));
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.another_server();
    assert_eq!(t.bind(&mut ann, "a"), format!("Parse PGBOUNCER_1 {text}, Bind PGBOUNCER_1"));
}

#[test]
fn while_nobody_knows_what_answers_what_the_server_answers_itself() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    // A COPY fails with Syncs on their way.
    t.asked(b"QdQS");
    t.hears(&mut ann, "GE");
    assert!(!t.server.exchange.may_step());
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
    assert_eq!(t.parse(&mut ann, "b", "select 1"), "Parse PGBOUNCER_2 select 1");
    assert_eq!(t.bind(&mut ann, "b"), "Bind PGBOUNCER_2");
    assert_eq!(t.close(&mut ann, "a"), "Close PGBOUNCER_1");
    assert_eq!((t.given().as_str(), ann.count(), t.server.server_statements.count()), ("", 1, 1));
    // A statement that the server lacks cannot be sent to it without an answer that would have to be hidden: the server
    // reports the error.
    let mut bob = Names::default();
    let lent = t.another_server();
    t.parse(&mut bob, "c", "select 3");
    t.server = lent;
    assert_eq!(t.bind(&mut bob, "c"), "Bind PGBOUNCER_3");
}

#[test]
fn a_copy_with_our_answers_behind_it_cannot_be_followed() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.asked(b"BE");
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "2G");
    assert!(t.server.exchange.has_lost_steps());
}

/// As tokio-postgres does when a COPY is dropped, or fails while its end is on the way: the client was disconnected.
#[test]
fn what_is_asked_behind_the_end_of_a_failed_copy_is_followed() {
    for answers in ["EZ 1Z", "EZ Z1Z"] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        t.asked(b"BES");
        t.hears(&mut ann, "2G");
        t.asked(b"dfS");
        t.parse(&mut ann, "a", "select 1");
        t.asked(b"S");
        for answer in answers.split(' ') {
            assert_eq!(t.hears(&mut ann, answer), answer);
            assert!(!t.server.exchange.has_lost_steps(), "{answers}");
        }
        assert!(t.server.exchange.may_end() && t.server.exchange.is_proven(), "{answers}");
        assert_eq!((ann.count(), t.server.server_statements.count()), (1, 1));
    }
}

#[test]
fn a_sync_that_a_copy_ignores_does_no_harm() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "copy t from stdin");
    t.bind(&mut ann, "a");
    t.asked(b"ES");
    t.hears(&mut ann, "12G");
    t.asked(b"dcS");
    assert_eq!(t.hears(&mut ann, "CZ"), "CZ");
    assert!(t.server.exchange.may_end() && t.server.exchange.is_proven() && t.server.server_statements.count() == 1);
}

#[test]
fn parameters_that_do_not_matter_to_a_statement_change_nothing() {
    let tracked = Tracked::new([]);
    let vars = |values: &[(&str, &str)]| {
        let mut vars = Vars::new(&tracked);
        for (name, value) in values {
            vars.set(tracked.place(name).expect("tracked"), value);
        }
        Rc::new(vars)
    };
    let mut ann = Names::default();
    let before = ann.dialect(&vars(&[("application_name", "till"), ("TimeZone", "UTC")]), &tracked, None);
    let same = ann.dialect(&vars(&[("application_name", "shop"), ("TimeZone", "UTC")]), &tracked, None);
    assert!(Rc::ptr_eq(&before, &same));
    assert_ne!(before, ann.dialect(&vars(&[("TimeZone", "Asia/Tokyo")]), &tracked, None));
    assert!(concerns(b'P') && !concerns(b'Q'));
}
