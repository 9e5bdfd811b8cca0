//! Batches of which one is sent before another is answered: what is there after the server has failed or skipped some.

use super::*;

#[test]
fn in_one_batch_what_was_sent_is_relied_on_whichever_batch_it_is() {
    let (mut t, mut ann, mut bob) = (Stage::new(1), Names::default(), Names::default());
    t.prepares(&mut bob, "x", "select 1");
    t.another_server();
    t.asked(b"S");
    t.hears(&mut ann, "Z");
    t.parse(&mut ann, "a", "select 1");
    assert_eq!((t.parse(&mut ann, "b", "select 1").as_str(), t.bind(&mut bob, "x").as_str()), ("", "Bind PGBOUNCER_1"));
    assert_eq!(t.parse(&mut ann, "c", "select 2"), "Close PGBOUNCER_1, Parse PGBOUNCER_2 select 2");
    assert_eq!(t.bind(&mut bob, "x"), "Close PGBOUNCER_2, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

#[test]
fn each_use_makes_a_statement_the_newest() {
    let (mut t, mut ann) = (Stage::new(3), Names::default());
    for (name, text) in [("a", "select 1"), ("b", "select 2"), ("c", "select 3")] {
        t.prepares(&mut ann, name, text);
    }
    for name in ["b", "b", "a", "c"] {
        t.bind(&mut ann, name);
        assert_eq!(t.count(), 3);
    }
    for (name, sent) in [("d", "Close PGBOUNCER_2"), ("e", "Close PGBOUNCER_1"), ("f", "Close PGBOUNCER_3")] {
        assert!(t.parse(&mut ann, name, name).starts_with(sent), "{sent}");
    }
}

#[test]
fn what_had_to_make_room_in_another_batch_is_closed_again_and_nothing_else_is() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.parse(&mut ann, "b", "select 2");
    t.asked(b"S");
    assert_eq!(t.parse(&mut ann, "c", "select 3"), "Close PGBOUNCER_2, Parse PGBOUNCER_3 select 3");
    let sent = t.bind(&mut ann, "a");
    assert_eq!(sent, "Close PGBOUNCER_1, Close PGBOUNCER_3, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

#[test]
fn a_taken_name_is_closed_once() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.another_server();
    let taken = b"SERROR\0C42P05\0Mprepared statement \"PGBOUNCER_1\" already exists\0\0";
    t.server.server_statements.refused(taken);
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"S");
    t.hears(&mut ann, "312Z");
    t.parse(&mut ann, "b", "select 2");
    t.asked(b"S");
    t.hears(&mut ann, "31Z");
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_2, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"S");
    t.hears(&mut ann, "312Z");
    t.another_server();
    t.server.server_statements.refused(taken);
    t.server.server_statements.drop_all(None);
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1", "nothing is there any more");
}

#[test]
fn a_name_that_was_given_before_an_error_and_closed_behind_it_is_there_for_good() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "1EZ"), "1EZ");
    assert!(ann.deallocate(b"a"));
}

#[test]
fn a_name_that_failed_is_not_there_because_another_was_given() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.parse(&mut ann, "b", "selec");
    t.close(&mut ann, "b");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "1EZ"), "1EZ");
    assert!(ann.has(b"a") && !ann.has(b"b"));
}

#[test]
fn a_name_that_failed_does_not_come_back_with_a_close_that_is_skipped_and_others_do() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "b", "select 1");
    t.parse(&mut ann, "a", "selec");
    t.asked(b"SB");
    t.close(&mut ann, "a");
    t.close(&mut ann, "b");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZEZ"), "EZEZ");
    assert!(!ann.has(b"a") && ann.has(b"b"));
}

#[test]
fn a_skipped_close_keeps_the_name_whatever_another_batch_gives() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    t.parse(&mut ann, "c", "select 2");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ1Z"), "EZ1Z");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}

/// As in `a_close_that_is_skipped_does_not_undo_what_came_behind_it`, where the server has to tell whether the client has
/// the name by SQL.
#[test]
fn a_close_that_is_skipped_does_not_undo_what_the_server_is_asked_about_behind_it() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.is_by_sql = true;
    t.asked(b"B");
    t.parse(&mut ann, "a", "select 1");
    t.close(&mut ann, "a");
    t.asked(b"S");
    assert_eq!(t.parse(&mut ann, "a", "select 2"), "Close a, Parse a select 2");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ31EZ"), "EZ1EZ");
    assert_eq!(ann.statement(b"a").map(|statement| &**statement.text()), Some(&b"select 2\0\0\0"[..]));
}

/// The second batch only closes what the server has under the name, because its text mentions that.
#[test]
fn a_skipped_close_keeps_a_name_that_another_batch_mentions() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    assert_eq!(t.mentions(&ann, "a"), "Close a, Parse a select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.asked(b"S");
    assert_eq!(t.mentions(&ann, "a"), "Close a");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "31EZ3Z"), "EZZ");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}

#[test]
fn what_a_text_had_closed_is_closed() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.mentions(&ann, "a");
    t.close(&mut ann, "a");
    t.asked(b"S");
    t.hears(&mut ann, "31Z");
    assert_eq!(t.mentions(&ann, "a"), "Close a");
    t.asked(b"S");
    t.hears(&mut ann, "3Z");
    assert!(!t.server.server_statements.has_own());
}

#[test]
fn what_a_text_had_closed_is_closed_again_while_that_may_be_skipped() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.mentions(&ann, "a");
    t.close(&mut ann, "a");
    t.asked(b"SB");
    assert_eq!(t.mentions(&ann, "a"), "Close a");
    t.asked(b"S");
    t.hears(&mut ann, "31Z");
    assert_eq!(t.mentions(&ann, "a"), "Close a");
}

#[test]
fn a_statement_that_is_closed_and_fails_in_a_second_batch_is_not_there() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.another_server();
    t.bind(&mut ann, "a");
    t.asked(b"S");
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "12Z3EZ"), "2ZEZ");
    assert_eq!((t.count(), t.bind(&mut ann, "a").as_str()), (0, "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1"));
}

#[test]
fn a_statement_that_failed_does_not_come_back_with_a_close_that_is_skipped() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.parse(&mut ann, "a", "selec");
    t.asked(b"SB");
    assert_eq!(t.parse(&mut ann, "b", "select 2"), "Close PGBOUNCER_1, Parse PGBOUNCER_2 select 2");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZEZ"), "EZEZ");
    assert_eq!(t.count(), 0);
}

#[test]
fn a_statement_stays_whose_close_is_skipped_though_another_failed() {
    let (mut t, mut ann) = (Stage::new(2), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.parse(&mut ann, "b", "selec");
    t.asked(b"SB");
    assert_eq!(t.parse(&mut ann, "c", "select 3"), "Close PGBOUNCER_1, Parse PGBOUNCER_3 select 3");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZEZ"), "EZEZ");
    assert_eq!((t.count(), t.bind(&mut ann, "a").as_str()), (1, "Bind PGBOUNCER_1"));
}

/// Whatever a second batch does with other statements and names, before it is known that the first was skipped.
#[test]
fn a_statement_stays_whose_close_is_skipped_whatever_a_second_batch_asks() {
    for second in ["c", "close", "hidden", ""] {
        let (mut t, mut ann) = (Stage::new(1), Names::default());
        t.prepares(&mut ann, "a", "select 1");
        t.asked(b"B");
        assert_eq!(t.parse(&mut ann, "b", "select 2"), "Close PGBOUNCER_1, Parse PGBOUNCER_2 select 2");
        t.asked(b"S");
        let answers = match second {
            "c" => {
                assert_eq!(t.parse(&mut ann, "c", "select 3"), "Close PGBOUNCER_2, Parse PGBOUNCER_3 select 3");
                "EZ31Z"
            }
            "close" => {
                t.close(&mut ann, "nobody");
                "EZZ"
            }
            "hidden" => {
                t.server.server_statements.expect_hidden(&mut t.server.exchange);
                "EZ3Z"
            }
            _ => "EZZ",
        };
        t.asked(b"S");
        t.hears(&mut ann, answers);
        assert_eq!(t.count(), if second == "c" { 2 } else { 1 }, "{second}");
        assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1", "{second}");
    }
}

#[test]
fn a_statement_whose_close_is_skipped_is_what_the_second_close_of_it_leaves() {
    for (answers, count) in [("EZEZ", 1), ("EZ33EZ", 0), ("EZ3312Z", 1)] {
        let (mut t, mut ann) = (Stage::new(1), Names::default());
        t.prepares(&mut ann, "a", "select 1");
        t.asked(b"B");
        t.parse(&mut ann, "b", "select 2");
        t.asked(b"S");
        if count == 1 && answers == "EZEZ" {
            t.asked(b"B");
        }
        let sent = t.bind(&mut ann, "a");
        assert_eq!(sent, "Close PGBOUNCER_1, Close PGBOUNCER_2, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
        t.asked(b"S");
        t.hears(&mut ann, answers);
        assert_eq!(t.count(), count, "{answers}");
        assert_eq!(t.bind(&mut ann, "a") == "Bind PGBOUNCER_1", count == 1, "{answers}");
    }
}

#[test]
fn what_is_in_doubt_and_closed_in_vain_is_held_once() {
    let (mut t, mut ann) = (Stage::new(2), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.server.server_statements.doubt_this_loan();
    t.asked(b"B");
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    t.server.server_statements.doubt_this_loan();
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert_eq!(t.count(), 1);
}
