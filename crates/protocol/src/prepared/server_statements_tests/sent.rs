//! The bytes that the server is sent, and what becomes of the client's own message.

use super::*;

/// The bytes in one piece.
fn joined(out: &[Bytes]) -> Vec<u8> {
    out.iter()
        .flat_map(|bytes| if let Bytes::Own(bytes) = bytes { &bytes[..] } else { panic!("short") })
        .copied()
        .collect()
}

#[test]
fn a_bind_says_its_own_length_and_what_follows_the_names_is_the_clients() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    for (portal, end) in [("", 3), ("portal", 9)] {
        let ask = Ask::Bind { portal: portal.as_bytes(), name: b"a", end };
        let (way, out) = t.try_send(&mut ann, ask).expect("no fault");
        let names = format!("{portal}\0PGBOUNCER_1\0");
        let length = (4 + names.len() + 100 - end) as u32;
        assert_eq!(joined(&out), [b"B", &length.to_be_bytes()[..], names.as_bytes()].concat());
        assert_eq!(way, Way::Replaced(end));
    }
}

#[test]
fn of_other_messages_nothing_is_left() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    let parse = Ask::Parse { name: b"a", text: b"select 1\0\0\0" };
    let sent: [(Ask<'_>, &[u8]); 3] = [
        (parse, b"P\0\0\0\x1bPGBOUNCER_1\0select 1\0\0\0"),
        (Ask::Describe { name: b"a" }, b"D\0\0\0\x11SPGBOUNCER_1\0"),
        (Ask::Close { name: b"a" }, b""),
    ];
    for (ask, expected) in sent {
        let (way, out) = t.try_send(&mut ann, ask).expect("no fault");
        assert_eq!((way, &joined(&out)[..]), (Way::Replaced(100), expected));
    }
}

#[test]
fn a_close_of_ours_names_a_statement_and_no_portal() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    let (_, out) = t.try_send(&mut ann, Ask::Parse { name: b"b", text: b"q\0\0\0" }).expect("no fault");
    assert!(joined(&out).starts_with(b"C\0\0\0\x11SPGBOUNCER_1\0P"));
}

#[test]
fn a_text_is_copied_up_to_a_length_and_shared_beyond_it() {
    for (length, is_shared) in [(1024, false), (1025, true)] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        let text = [vec![b'x'; length - 3], vec![0; 3]].concat();
        let (_, out) = t.try_send(&mut ann, Ask::Parse { name: b"a", text: &text }).expect("no fault");
        assert_eq!(out.last() == Some(&Bytes::Shared(text.into())), is_shared, "{length}");
        assert_eq!(out.len(), if is_shared { 2 } else { 1 });
    }
}

#[test]
fn a_name_is_shortened_for_the_log() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    let shown = "n".repeat(256).into();
    assert_eq!(t.try_ask(&mut ann, bind(&"n".repeat(300))), Err(Fault::StatementUnknown { name: shown }));
}

#[test]
fn an_answer_that_is_due_at_once_is_settled_at_once() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    assert_eq!(t.held_and_pending(), (0, 0));
    t.prepares(&mut ann, "a", "select 1");
    assert_eq!(t.held_and_pending(), (1, 0));
    t.server.server_statements.drop_all(None);
    t.close(&mut ann, "a");
    assert_eq!(t.held_and_pending(), (0, 0));
    t.asked(b"B");
    t.close(&mut ann, "a");
    assert_eq!(t.held_and_pending(), (0, 1), "the Close may be skipped");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "2Z"), "323Z");
    t.prepares(&mut ann, "a", "select 1");
    assert_eq!(t.parse(&mut bob, "b", "select 1"), "");
    assert!(bob.deallocate(b"b"), "it cannot come to nothing any more");
}

#[test]
fn while_nobody_knows_what_answers_what_all_that_is_sent_is_owed() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"QdQS");
    t.hears(&mut ann, "GE");
    t.is_by_sql = true;
    assert_eq!(t.parse(&mut ann, "b", "select 2"), "Parse PGBOUNCER_2 select 2");
    assert_eq!(t.parse(&mut ann, "c", "select 3"), "Parse PGBOUNCER_3 select 3");
    assert!(ann.deallocate(b"c"), "no step tells whether it comes to nothing");
    t.follows = true;
    let again = Ask::Parse { name: b"b", text: b"select 4\0\0\0" };
    assert_eq!(t.try_ask(&mut ann, again), Err(Fault::StatementInUse { name: "b".into() }));
    assert_eq!((t.count(), t.close(&mut ann, "a").as_str()), (3, "Close PGBOUNCER_1"));
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "ZCZZ113Z"), "ZCZZ113Z");
    assert!(t.server.exchange.owes_nothing());
    t.parse(&mut ann, "d", "select 4");
    assert!(!t.server.exchange.owes_nothing());
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    assert!(t.server.exchange.owes_nothing());
    t.close(&mut ann, "d");
    assert!(!t.server.exchange.owes_nothing());
}
