//! Which statements are held, for whom, and when they go.

use super::*;

#[test]
fn what_nobody_holds_any_more_is_gone() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    for number in 0..1000 {
        t.parse(&mut ann, "a", &format!("select {number}"));
        t.close(&mut ann, "a");
        t.asked(b"S");
        t.hears(&mut ann, if number == 0 { "1Z" } else { "31Z" });
    }
    assert_eq!(t.statement_registry.count(), 1);
    t.another_server();
    drop(ann);
    assert_eq!((t.statement_registry.count(), t.statement_registry.bytes()), (0, 0));
}

#[test]
fn what_may_be_held_has_an_end() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    let _others = t.statement_registry.charge_all(HELD_BYTES_MAX - 1000).expect("room");
    t.parse(&mut ann, "a", "select 1");
    let text = [b'x'; 1000];
    assert_eq!(t.try_ask(&mut ann, Ask::Parse { name: b"b", text: &text }), Err(Fault::StatementsFull));
    assert_eq!(ann.count(), 1);
}

/// One client prepared and closed so many texts that those held for servers alone took all the room, on no account, and
/// every client that prepared something was disconnected.
#[test]
fn what_only_servers_have_makes_room_for_clients_the_oldest_first() {
    let (mut t, mut ann) = (Stage::new(1000), Names::default());
    let others = t.statement_registry.charge_all(HELD_BYTES_MAX - 1_000_000).expect("room");
    let text = |number: usize| format!("select {number} {}", "x".repeat(100_000));
    let mut prepare = |t: &mut Stage, number: usize| {
        let sent = t.parse(&mut ann, "a", &text(number));
        t.close(&mut ann, "a");
        t.asked(b"S");
        t.hears(&mut ann, if sent.is_empty() { "Z" } else { "1Z" });
        sent.split(" select").next().unwrap_or_default().to_owned()
    };
    for number in 1..=100 {
        assert_eq!(prepare(&mut t, number), format!("Parse PGBOUNCER_{number}"));
        assert!(t.statement_registry.bytes() <= HELD_BYTES_MAX);
    }
    assert_eq!((t.server.server_statements.count(), t.statement_registry.count()), (100, 9));
    // A statement for which there was room is found, and is the newest again; a statement that was given up gets a new number.
    assert_eq!(prepare(&mut t, 92), "");
    assert_eq!(prepare(&mut t, 1), "Parse PGBOUNCER_101");
    assert_eq!((prepare(&mut t, 92), prepare(&mut t, 93)), (String::new(), "Parse PGBOUNCER_102".to_owned()));
    // Statements of clients stay.
    let mut bob = Names::default();
    t.parse(&mut bob, "b", &text(1000));
    let rest = t.statement_registry.charge_all(1_000_000 - 102_000).expect("no client has anything else");
    assert_eq!((t.statement_registry.count(), t.statement_registry.charge_all(2000).is_none()), (1, true));
    assert!(t.bind(&mut bob, "b").ends_with("Bind PGBOUNCER_103"));
    t.another_server();
    drop((bob, rest, others));
    assert_eq!((t.statement_registry.count(), t.statement_registry.bytes()), (0, 0));
}

#[test]
fn a_very_long_text_that_no_client_has_is_gone_though_the_server_has_it() {
    let (mut t, mut ann) = (Stage::new(2), Names::default());
    let text = "x".repeat(2 << 20);
    for number in 1..=20 {
        t.parse(&mut ann, "a", &text);
        assert!(t.statement_registry.bytes() > text.len());
        t.close(&mut ann, "a");
        t.asked(b"S");
        t.hears(&mut ann, if number < 3 { "1Z" } else { "31Z" });
        assert_eq!((t.statement_registry.bytes(), t.server.server_statements.count()), (0, number.min(2)));
    }
}
