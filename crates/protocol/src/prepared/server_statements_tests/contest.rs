//! Names that a client gives again, and whether they are free.

use super::*;

#[test]
fn where_sessions_follow_the_server_says_that_a_name_is_in_use() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.follows = true;
    t.parse(&mut ann, "a", "select 1");
    t.parse(&mut ann, "z", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.another_server();
    let again = "Parse PGBOUNCER_1 select 1, Parse PGBOUNCER_1 select 2";
    assert_eq!(t.parse(&mut ann, "z", "select 2"), again);
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "1EZ"), "EZ");
    let error = |code: &str| format!("SERROR\0C{code}\0M\"PGBOUNCER_1\" exists\0\0").into_bytes();
    t.server.server_statements.refused(&error("42P05"));
    assert_eq!(ann.reworded(&error("42P05")).as_deref(), Some(&b"SERROR\0C42P05\0M\"z\" exists\0\0"[..]));
    assert_eq!(ann.reworded(&error("26000")).as_deref(), Some(&b"SERROR\0C26000\0M\"a\" exists\0\0"[..]));
    assert_eq!(ann.reworded(&error("42P01")), None);
    assert_eq!((ann.count(), t.bind(&mut ann, "a").as_str()), (2, "Bind PGBOUNCER_1"), "it is what it was");
}

#[test]
fn a_name_given_twice_means_the_new_text_if_the_server_does_not_refuse_that() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.follows = true;
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    t.hears(&mut ann, "1Z");
    t.parse(&mut ann, "a", "select 2");
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "1Z"), "1Z", "somebody has dropped all of them in a function");
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_2 select 2, Bind PGBOUNCER_2");
    t.asked(b"S");
    t.hears(&mut ann, "12Z");
    let before = "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1";
    assert_eq!(t.parse(&mut ann, "b", "select 1"), before, "the server has the new text under that name");
}

/// Regression: the old statement was executed.
#[test]
fn a_name_given_twice_behind_a_deallocation_is_bound_as_the_server_has_it() {
    for (answers, after) in [
        // DEALLOCATE ALL, and everything behind it is new.
        ("CZ1Z", "Parse PGBOUNCER_2 select 2, Bind PGBOUNCER_2"),
        // DEALLOCATE ALL failed, and the name is in use.
        ("EZEZ", "Bind PGBOUNCER_1"),
    ] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        t.follows = true;
        t.prepares(&mut ann, "a", "select 1");
        t.asked(b"Q");
        assert_eq!(t.parse(&mut ann, "a", "select 2"), "Parse PGBOUNCER_1 select 2");
        assert!(ann.are_in_doubt(&t.server.exchange), "a Bind waits");
        t.asked(b"S");
        let (first, rest) = answers.split_at(1);
        let mut told = t.hears(&mut ann, first);
        if first == "C" {
            t.server.server_statements.drop_all(Some(&mut ann));
        }
        told += &t.hears(&mut ann, rest);
        assert!(!ann.are_in_doubt(&t.server.exchange));
        assert_eq!((told.as_str(), t.bind(&mut ann, "a").as_str()), (answers, after));
    }
}

/// Regression: FATAL 08P01, where PostgreSQL reports 42P05.
#[test]
fn a_name_given_many_times_in_a_pipeline_is_refused_by_the_server() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.follows = true;
    assert_eq!(t.parse(&mut ann, "a", "select 1"), "Parse PGBOUNCER_1 select 1");
    t.asked(b"S");
    let mut answers = "1ZEZ";
    for number in 2..6 {
        assert!(!ann.are_in_doubt(&t.server.exchange));
        let sent = format!("Parse PGBOUNCER_1 select {number}");
        assert_eq!(t.parse(&mut ann, "a", &format!("select {number}")), sent);
        assert!(ann.are_in_doubt(&t.server.exchange), "the next one waits");
        t.asked(b"S");
        assert_eq!(t.hears(&mut ann, answers), answers);
        answers = "EZ";
    }
    assert_eq!((ann.count(), t.bind(&mut ann, "a").as_str()), (1, "Bind PGBOUNCER_1"));
}

/// If the first fails, the name is free for the second.
#[test]
fn a_name_given_again_while_its_first_parse_may_fail_is_the_servers_to_decide() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.follows = true;
    t.parse(&mut ann, "a", "selec");
    t.asked(b"S");
    t.parse(&mut ann, "a", "select 2");
    assert!(ann.are_in_doubt(&t.server.exchange));
    t.asked(b"S");
    assert_eq!(t.hears(&mut ann, "EZ1Z"), "EZ1Z");
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_2 select 2, Bind PGBOUNCER_2");
}

/// Regression: behind a batch that failed before it had given the name anew, the next one executed the statement under whose
/// name the server was to tell whether the name was free: that of another name.
#[test]
fn a_name_given_twice_in_a_batch_that_is_skipped_waits_before_it_is_used() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.follows = true;
    t.prepares(&mut ann, "a", "select 1");
    t.another_server();
    t.prepares(&mut ann, "b", "select 2");
    t.asked(b"D");
    assert_eq!(t.parse(&mut ann, "a", "select 3"), "Parse PGBOUNCER_2 select 3");
    t.asked(b"S");
    assert!(ann.are_in_doubt(&t.server.exchange));
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert!(!ann.are_in_doubt(&t.server.exchange));
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

/// Regression: FATAL 08P01, where PostgreSQL reports 42P05 or 25P02.
#[test]
fn a_name_that_may_be_sqls_is_given_twice_as_the_server_decides() {
    for (answers, mentioned) in [("1ZEZ", "Close a, Parse a select 1"), ("EZ1Z", ""), ("EZEZ", "")] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        (t.follows, t.is_by_sql) = (true, true);
        assert_eq!(t.parse(&mut ann, "a", "select 1"), "Parse a select 1");
        t.asked(b"S");
        assert_eq!(t.parse(&mut ann, "a", "select 2"), "Parse a select 2");
        t.asked(b"S");
        assert_eq!(t.bind(&mut ann, "a"), "as it is", "whichever it is");
        t.asked(b"BS");
        assert_eq!(t.hears(&mut ann, answers), answers);
        assert_eq!(ann.count(), usize::from(answers != "EZEZ"), "{answers}");
        t.hears(&mut ann, "2Z");
        assert_eq!(t.mentions(&ann, "a"), mentioned, "{answers}");
    }
}

#[test]
fn what_names_mean_is_in_doubt_while_sql_drops_them() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"BE");
    ann.executes(t.server.exchange.number() - 1);
    assert!(!ann.are_in_doubt(&t.server.exchange), "it drops none");
    t.asked(b"B");
    ann.binds_drop();
    ann.executes(t.server.exchange.number());
    assert!(!ann.are_in_doubt(&t.server.exchange), "it is not sent yet");
    t.asked(b"E");
    assert!(ann.are_in_doubt(&t.server.exchange));
    t.hears(&mut ann, "2C2");
    assert!(ann.are_in_doubt(&t.server.exchange));
    t.hears(&mut ann, "C");
    assert!(!ann.are_in_doubt(&t.server.exchange), "no Sync is needed");
    ann.doubts_until(t.server.exchange.number());
    t.asked(b"SQ");
    t.hears(&mut ann, "ZC");
    assert!(ann.are_in_doubt(&t.server.exchange));
    t.hears(&mut ann, "Z");
    assert!(!ann.are_in_doubt(&t.server.exchange));
    ann.doubts_until(t.server.exchange.number());
    t.asked(b"Q");
    ann.begin_loan();
    assert!(!ann.are_in_doubt(&t.server.exchange));
}

#[test]
fn a_name_closed_and_given_is_in_doubt_for_the_next_batch() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.parse(&mut ann, "a", "select 2");
    assert!(!ann.are_in_doubt(&t.server.exchange), "they are skipped together");
    t.asked(b"S");
    assert!(ann.are_in_doubt(&t.server.exchange));
    assert_eq!(t.hears(&mut ann, "EZ"), "EZ");
    assert!(!ann.are_in_doubt(&t.server.exchange));
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}
