//! What a name means to its client, and what the server is asked about it.

use super::*;
use crate::state::{Overrides, Statement as BySql};

/// What the server is sent before the client's own message, which goes to it as it is.
fn before(t: &mut Stage, names: &mut Names, ask: Ask<'_>) -> String {
    let (way, out) = t.try_send(names, ask).expect("no fault");
    assert_eq!(way, Way::AsItIs);
    words(&out)
}

#[test]
fn the_unnamed_statement_is_replaced_and_makes_room_for_the_next() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    let text = |byte: u8| [vec![byte; 10_000], vec![0; 3]].concat();
    let _others = t.statement_registry.charge_all(HELD_BYTES_MAX - 15_000).expect("room");
    for byte in *b"xyz" {
        t.ask(&mut ann, Ask::Parse { name: b"", text: &text(byte) });
        t.asked(b"S");
        t.hears(&mut ann, "1Z");
        assert_eq!((ann.count(), ann.statement(b"").map(|statement| &**statement.text())), (1, Some(&text(byte)[..])));
    }
}

#[test]
fn a_name_that_may_be_the_clients_by_sql_is_closed_by_the_server() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.is_by_sql = true;
    assert_eq!((t.close(&mut ann, "p").as_str(), t.close(&mut ann, "a").as_str()), ("as it is", ""));
}

#[test]
fn a_name_that_was_prepared_by_sql_is_the_servers() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    let mut overrides = Overrides::default();
    overrides.statements_mut().insert("p", BySql { sql: "prepare p as select 1".into(), search_path: None });
    ann.dialect(&Rc::new(Vars::new(&t.tracked)), &t.tracked, Some(&Rc::new(overrides)));
    assert_eq!(t.bind(&mut ann, "p"), "as it is");
    assert_eq!(t.try_ask(&mut ann, bind("q")), Err(Fault::StatementUnknown { name: "q".into() }));
}

#[test]
fn the_server_tells_why_a_name_came_to_nothing_even_one_like_ours() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "PGBOUNCER_7", "selec");
    t.asked(b"S");
    t.hears(&mut ann, "EZ");
    assert_eq!(t.bind(&mut ann, "PGBOUNCER_7"), "as it is");
}

#[test]
fn a_name_that_the_server_is_asked_about_means_what_the_client_gave_it() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    (t.is_by_sql, t.follows) = (true, true);
    assert_eq!(t.parse(&mut ann, "a", "select 1"), "Parse a select 1");
    t.asked(b"S");
    assert_eq!(t.bind(&mut ann, "a"), "as it is", "the name stands or falls with its Parse");
    t.asked(b"BS");
    t.hears(&mut ann, "1Z2Z");
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    assert!(ann.deallocate(b"a"), "it cannot come to nothing any more");
    assert_eq!(before(&mut t, &mut ann, bind("a")), "Close a", "the client has it no more");
}

#[test]
fn a_name_that_the_server_is_asked_about_and_refuses_is_not_there() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    (t.is_by_sql, t.follows) = (true, true);
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert_eq!((ann.count(), t.server.server_statements.has_own()), (0, false));
}

#[test]
fn a_name_that_another_batch_may_leave_as_it_was_is_not_given_twice() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.follows = true;
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.parse(&mut ann, "a", "select 2");
    t.asked(b"S");
    let again = Ask::Parse { name: b"a", text: b"select 3\0\0\0" };
    assert_eq!(t.try_ask(&mut ann, again), Err(Fault::StatementInUse { name: "a".into() }));
}

#[test]
fn a_name_whose_statement_had_to_make_room_in_its_own_batch_is_not_given_twice() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.follows = true;
    t.parse(&mut ann, "a", "select 1");
    t.parse(&mut ann, "b", "select 2");
    let again = Ask::Parse { name: b"a", text: b"select 3\0\0\0" };
    assert_eq!(t.try_ask(&mut ann, again), Err(Fault::StatementInUse { name: "a".into() }));
}

#[test]
fn under_settings_that_nobody_knows_a_parameter_that_is_known_still_matters() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.is_settled = false;
    t.prepares(&mut ann, "a", "select 1");
    t.dialect = b"Asia/Tokyo\0"[..].into();
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_2 select 1, Bind PGBOUNCER_2");
}

/// Random programs found this: `25P02` where PostgreSQL describes a statement of a transaction that has failed, since the
/// abort has taken back a parameter under which the statement was given, and a Sync was still to be answered.
#[test]
fn a_failed_transaction_is_asked_for_what_it_has_also_behind_a_sync() {
    for (ahead, is_kept) in [(&b"S"[..], true), (b"DS", false), (b"Q", false)] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        t.parse(&mut ann, "a", "move 2 in k");
        t.asked(b"S");
        t.hears(&mut ann, "1");
        t.server.exchange.answered(b'Z', b"E").expect("owed");
        t.server.server_statements.doubt_this_loan();
        t.dialect = b"EUC_JP\0"[..].into();
        t.asked(ahead);
        let sent = t.bind(&mut ann, "a");
        assert_eq!(sent == "Bind PGBOUNCER_1", is_kept, "{sent}");
    }
}
