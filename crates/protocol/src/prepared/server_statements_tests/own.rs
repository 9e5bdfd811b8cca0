//! Statements under the names of their clients, and names that clients drop by SQL.

use super::*;

/// A simple query mentions these names and drops them.
fn drops(t: &mut Stage, names: &Names, dropped: &[&str]) {
    let mentioned = MentionedNames { names: vec![], drops: dropped.to_vec(), is_query: true };
    t.server.server_statements.bring_own(&mentioned, names, &mut t.server.exchange, &mut Vec::new());
    t.asked(b"Q");
}

#[test]
fn no_more_than_some_statements_are_brought() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    for number in 0..1001 {
        assert_eq!(t.server.server_statements.has_room_for_own(), number < 1000);
        let name = format!("n{number}");
        t.parse(&mut ann, &name, "select 1");
        assert_eq!(t.mentions(&ann, &name).is_empty(), number == 1000);
    }
}

#[test]
fn where_no_answer_can_be_hidden_nothing_is_brought() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"Q");
    t.hears(&mut ann, "G");
    assert_eq!(t.mentions(&ann, "a"), "", "a COPY reads");
    t.asked(b"f");
    t.hears(&mut ann, "EZ");
    t.asked(b"BES");
    t.hears(&mut ann, "2G");
    t.asked(b"dfS");
    t.hears(&mut ann, "EZ");
    assert!(t.server.exchange.may_step() && !t.server.exchange.is_proven());
    assert_eq!(t.mentions(&ann, "a"), "", "another Sync may be answered");
}

#[test]
fn where_no_answer_can_be_hidden_nothing_is_closed() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.mentions(&ann, "a");
    t.asked(b"S");
    t.hears(&mut ann, "31Z");
    t.close(&mut ann, "a");
    t.asked(b"QdQS");
    t.hears(&mut ann, "GE");
    t.follows = true;
    let (way, out) = t.try_send(&mut ann, bind("a")).expect("no fault");
    assert_eq!((way, words(&out).as_str()), (Way::AsItIs, ""));
}

#[test]
fn what_is_brought_amid_a_batch_does_not_end_it() {
    for (is_amid, sent) in [(true, "Close a, Parse a select 1"), (false, "Close a, Parse a select 1, 83")] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        t.prepares(&mut ann, "a", "select 1");
        if is_amid {
            t.asked(b"B");
        }
        let mut out = Vec::new();
        let mentioned = MentionedNames { names: vec!["a"], drops: vec![], is_query: true };
        t.server.server_statements.bring_own(&mentioned, &ann, &mut t.server.exchange, &mut out);
        assert_eq!(words(&[Bytes::Own(out)]), sent);
    }
}

#[test]
fn a_name_that_the_server_is_asked_about_is_not_brought_to_a_later_text() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.is_by_sql = true;
    t.parse(&mut ann, "a", "select 1");
    t.asked(b"S");
    assert_eq!(t.mentions(&ann, "a"), "", "it stands or falls with its Parse");
}

#[test]
fn a_name_depends_on_nothing_that_is_asked_about_another() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "a", "select 1");
    t.is_by_sql = true;
    t.parse(&mut ann, "b", "select 2");
    t.asked(b"S");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_1");
}

#[test]
fn a_name_depends_on_no_close_of_another() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"B");
    t.close(&mut ann, "a");
    t.parse(&mut ann, "c", "select 2");
    t.asked(b"S");
    assert_eq!(t.bind(&mut ann, "c"), "Bind PGBOUNCER_2");
}

#[test]
fn what_the_server_is_asked_about_under_settings_that_nobody_knows_is_nobody_elses() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    (t.is_by_sql, t.is_settled) = (true, false);
    t.parse(&mut ann, "a", "select 1");
    t.parse(&mut ann, "b", "select 1");
    assert_eq!(t.tally.client_parses, 2);
    t.another_server();
    t.is_by_sql = false;
    assert_eq!(t.bind(&mut ann, "a"), "Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
    assert_eq!(t.bind(&mut ann, "b"), "Parse PGBOUNCER_2 select 1, Bind PGBOUNCER_2");
    t.is_settled = true;
    assert_eq!(t.parse(&mut bob, "x", "select 1"), "Parse PGBOUNCER_3 select 1");
    assert_eq!(t.bind(&mut ann, "a"), "Bind PGBOUNCER_3", "it is read again under settings that are known");
}

#[test]
fn a_name_is_not_dropped_by_the_tag_of_an_earlier_text() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.asked(b"Q");
    drops(&mut t, &ann, &["a"]);
    t.server.server_statements.dropped(Some(&mut ann));
    assert!(ann.has(b"a"));
    t.hears(&mut ann, "CZ");
    t.server.server_statements.drops_end();
    t.server.server_statements.dropped(Some(&mut ann));
    assert!(!ann.has(b"a"));
}

#[test]
fn of_a_text_that_drops_several_names_each_tag_drops_one() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    drops(&mut t, &ann, &["p", "a"]);
    t.server.server_statements.dropped(Some(&mut ann));
    assert!(ann.has(b"a"));
    t.server.server_statements.dropped(Some(&mut ann));
    assert!(!ann.has(b"a"));
}

#[test]
fn what_a_client_drops_need_not_be_closed_unless_it_has_left() {
    for has_left in [false, true] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        t.prepares(&mut ann, "a", "select 1");
        t.mentions(&ann, "a");
        t.asked(b"S");
        t.hears(&mut ann, "31Z");
        drops(&mut t, &ann, &["a"]);
        t.server.server_statements.dropped((!has_left).then_some(&mut ann));
        assert_eq!(t.server.server_statements.has_own(), has_left);
    }
}

#[test]
fn no_more_than_some_drops_are_followed() {
    for (counts, is_followed) in [(&[999][..], true), (&[1000], false), (&[500, 499], true), (&[500, 500], false)] {
        let (mut t, mut ann) = (Stage::new(9), Names::default());
        t.prepares(&mut ann, "a", "select 1");
        t.prepares(&mut ann, "b", "select 2");
        for (count, name) in counts.iter().zip(["a", "b"]) {
            drops(&mut t, &ann, &vec![name; *count]);
        }
        for _ in counts {
            t.server.server_statements.dropped(Some(&mut ann));
            t.hears(&mut ann, "CZ");
            t.server.server_statements.drops_end();
        }
        let last = if counts.len() == 1 { "a" } else { "b" };
        assert_eq!(ann.has(last.as_bytes()), !is_followed, "{counts:?}");
    }
}

#[test]
fn what_a_client_was_to_drop_is_not_dropped_for_the_next() {
    let (mut t, mut ann, mut bob) = (Stage::new(9), Names::default(), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.prepares(&mut bob, "a", "select 2");
    drops(&mut t, &ann, &["a"]);
    t.server.server_statements.close_own(&mut t.server.exchange, &mut Vec::new());
    t.server.server_statements.dropped(Some(&mut bob));
    assert!(bob.has(b"a"));
}
