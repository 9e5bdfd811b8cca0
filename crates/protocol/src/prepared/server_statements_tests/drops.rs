//! The server drops all statements while more is on its way.

use super::*;

/// The client drops all statements by a simple query, which was sent before what is still unanswered.
fn drops_all(t: &mut Stage, names: &mut Names) {
    t.hears(names, "C");
    t.server.server_statements.drop_all(Some(names));
}

#[test]
fn what_is_in_doubt_is_dropped_with_the_rest() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.server.server_statements.doubt_this_loan();
    t.server.server_statements.drop_all(None);
    assert_eq!((t.count(), t.bind(&mut ann, "a").as_str()), (0, "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1"));
}

#[test]
fn what_was_there_before_a_drop_of_all_does_not_come_back_with_a_close_that_is_skipped() {
    for is_doubted in [false, true] {
        let (mut t, mut ann) = (Stage::new(1), Names::default());
        t.prepares(&mut ann, "a", "select 1");
        if is_doubted {
            t.server.server_statements.doubt_this_loan();
        }
        t.asked(b"QB");
        assert_eq!(t.parse(&mut ann, "b", "select 2"), "Close PGBOUNCER_1, Parse PGBOUNCER_2 select 2");
        t.asked(b"S");
        drops_all(&mut t, &mut ann);
        assert_eq!(t.hears(&mut ann, "ZEZ"), "ZEZ");
        assert_eq!(t.count(), 0, "{is_doubted}");
    }
}

#[test]
fn what_was_there_before_a_drop_of_all_does_not_come_back_though_it_is_prepared_again_behind_it() {
    let (mut t, mut ann, mut bob) = (Stage::new(1), Names::default(), Names::default());
    t.prepares(&mut bob, "x", "select 1");
    t.asked(b"QB");
    t.parse(&mut ann, "b", "select 2");
    assert_eq!(t.bind(&mut bob, "x"), "Close PGBOUNCER_2, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"S");
    drops_all(&mut t, &mut ann);
    assert_eq!(t.hears(&mut ann, "ZEZ"), "ZEZ");
    assert_eq!(t.count(), 0);
}

#[test]
fn a_name_that_was_dropped_with_the_rest_does_not_come_back_with_a_close_that_is_skipped() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"QB");
    t.close(&mut ann, "a");
    t.asked(b"S");
    drops_all(&mut t, &mut ann);
    assert_eq!(t.hears(&mut ann, "ZEZ"), "ZEZ");
    assert!(!ann.has(b"a"));
}

#[test]
fn a_name_that_was_given_behind_a_drop_of_all_comes_back_with_a_close_that_is_skipped() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.asked(b"Q");
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    drops_all(&mut t, &mut ann);
    assert_eq!(t.hears(&mut ann, "Z1EZ"), "Z1EZ");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}

#[test]
fn names_outlive_a_drop_of_all_on_our_behalf() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    t.server.server_statements.drop_all(None);
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

#[test]
fn after_a_drop_of_all_there_is_room_again() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.server.server_statements.drop_all(None);
    assert_eq!((t.count(), t.parse(&mut ann, "b", "select 2").as_str()), (0, "Parse PGBOUNCER_2 select 2"));
    assert_eq!(t.parse(&mut ann, "c", "select 3"), "Close PGBOUNCER_2, Parse PGBOUNCER_3 select 3");
}

#[test]
fn what_a_text_mentions_is_brought_again_after_a_drop_of_all() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    let brought = "Close a, Parse a select 1";
    assert_eq!(t.mentions(&ann, "a"), brought);
    t.asked(b"S");
    t.hears(&mut ann, "31Z");
    assert_eq!(t.mentions(&ann, "a"), "");
    t.server.server_statements.drop_all(None);
    assert_eq!(t.mentions(&ann, "a"), brought);
}
