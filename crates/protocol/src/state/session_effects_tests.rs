//! How certain effects become uncertain, and what keeps a server: single rules, one test each.

use route::{Dialect, Knowledge, classify};

use super::*;

fn class(text: &str) -> Rc<Class> {
    Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::new(["suspect"], false))))
}

fn after(texts: &[&str]) -> SessionEffects {
    let mut session_effects = SessionEffects::default();
    texts.iter().for_each(|text| session_effects.executes(&class(text)));
    session_effects
}

/// The answer of a server to a probe, with these rows.
fn seen(touched: DirtyState, rows: &[(&str, &str)]) -> Seen {
    let mut probe = Probe::new(touched, std::iter::empty());
    for (about, name) in rows {
        let mut body = 4_u16.to_be_bytes().to_vec();
        for text in [about, name] {
            body.extend((text.len() as i32).to_be_bytes());
            body.extend(text.bytes());
        }
        body.extend([0xff; 8]);
        probe.row(&body);
    }
    probe.end().expect("an answer")
}

#[test]
fn nothing_is_certain_any_more_when_something_has_to_be_asked_for() {
    for (texts, is_certain) in [
        (&["set work_mem = 1"][..], true),
        (&["set work_mem = 1", "select 1"], true),
        (&["set work_mem = 1", "select suspect()"], false),
        (&["set work_mem = 1", "select pg_advisory_lock(1)"], false),
        (&["select pg_advisory_lock(1)", "set work_mem = 1"], false),
        (&["set work_mem = 1; rollback"], false),
    ] {
        let session_effects = after(texts);
        assert_eq!(!session_effects.effects().0.is_empty(), is_certain, "{texts:?}");
        let question = session_effects.question().map(|probe| probe.question());
        assert!(
            question.is_none_or(|question| question.contains("work_mem") || question.contains("pg_settings")),
            "{texts:?}"
        );
    }
    let mut session_effects = after(&["set work_mem = 1"]);
    session_effects.sends_unread();
    assert!(session_effects.effects().0.is_empty() && session_effects.is_asked_for());
}

#[test]
fn a_statement_that_is_bound_is_known_as_far_as_it_was_noted() {
    // A statement that the client has not prepared touches nothing.
    let mut session_effects = after(&["set work_mem = 1"]);
    assert!(session_effects.binds(b"", b"s", || false).is_none() && !session_effects.effects().0.is_empty());
    // It may have been prepared by SQL.
    let mut session_effects = after(&["prepare s as select pg_advisory_lock(1)"]);
    session_effects.binds(b"", b"s", || true);
    session_effects.binds(b"", b"", || false);
    assert!(!session_effects.effects().0.is_empty() && !session_effects.is_asked_for());
    session_effects.binds(b"", b"s", || false);
    assert!(session_effects.effects().0.is_empty() && session_effects.is_asked_for());
    // A statement beyond those that are noted may do anything.
    let (mut session_effects, lock) = (SessionEffects::default(), class("select pg_advisory_lock(1)"));
    (0..1000_u32).for_each(|number| session_effects.prepares(&number.to_be_bytes(), &lock, false));
    session_effects.prepares(b"harmless", &class("select 1"), false);
    session_effects.binds(b"", b"other", || true);
    assert!(!session_effects.is_asked_for());
    session_effects.prepares(b"one more", &lock, false);
    session_effects.binds(b"", b"other", || true);
    assert!(session_effects.is_asked_for());
}

#[test]
fn a_portal_sets_what_it_binds_when_it_is_executed() {
    let mut session_effects = SessionEffects::default();
    session_effects.prepares(b"s", &class("set work_mem = 1"), false);
    session_effects.binds(b"p", b"s", || true);
    assert!(session_effects.is_marked() && !session_effects.is_known());
    let mut left = session_effects.clone();
    left.leave();
    assert!(!left.is_marked());
    session_effects.executes_portal(b"p", false);
    assert!(session_effects.is_known() && !session_effects.effects().0.is_empty() && !session_effects.is_asked_for());
    let by_select = "select set_config('work_mem', '1', false)";
    for (text, portal, is_partial, is_known) in [
        ("set work_mem = 1", &b"q"[..], false, false),
        (by_select, b"p", false, true),
        (by_select, b"p", true, false),
        ("set work_mem = 1", b"p", true, true),
        ("/* pgjdbc */ RESET work_mem", b"p", true, true),
    ] {
        let mut session_effects = left.clone();
        session_effects.prepares(b"s", &class(text), false);
        session_effects.binds(b"p", b"s", || true);
        session_effects.executes_portal(portal, is_partial);
        assert_eq!(session_effects.is_known(), is_known, "{text} {is_partial}");
        assert_eq!((session_effects.is_asked_for(), session_effects.effects().0.is_empty()), (!is_known, !is_known));
    }
}

#[test]
fn one_statement_is_asked_about_where_it_is_the_only_cause() {
    assert!(after(&["select suspect()"]).is_asked_for_by_one());
    for texts in [
        &["begin; select suspect()"][..],
        &["select suspect()", "select pg_advisory_lock(1)"],
        &["copy (select suspect()) to stdout"],
        &["set work_mem = 1"],
    ] {
        assert!(!after(texts).is_asked_for_by_one(), "{texts:?}");
    }
    // The functions are probed for another reason than this statement.
    let mut session_effects = after(&["set work_mem = 1"]);
    session_effects.wants_functions();
    assert!(session_effects.is_asked_for() && !session_effects.is_asked_for_by_one());
}

#[test]
fn a_lock_is_known_by_its_row_if_nothing_else_is_in_doubt() {
    let row = [0, 1, 0, 0, 0, 0];
    let locked = |doubt: DirtyState| {
        let mut session_effects = after(&["select pg_advisory_lock(1)"]);
        assert!(session_effects.awaits_lock_row());
        session_effects.lock_row(&row);
        session_effects.doubt(doubt);
        let is_settled = session_effects.settle_lock(Time(0));
        (is_settled, session_effects.pins().is_empty())
    };
    assert_eq!(locked(DirtyState::LOCKS), (false, true));
    assert_eq!(locked(DirtyState::STATEMENTS), (false, true));
    let mut session_effects = after(&["select pg_advisory_lock(1)"]);
    assert!(session_effects.awaits_lock_row());
    session_effects.lock_row(&row);
    assert!(session_effects.settle_lock(Time(7)));
    assert_eq!(session_effects.kept_since(), Some(Time(7)));
    assert!(!session_effects.is_asked_for() && session_effects.is_marked());
    // The client goes on without that server. On another one it does not hold the lock yet.
    assert_eq!(session_effects.leave().iter().count(), 1);
    session_effects.executes(&class("select pg_advisory_lock(1)"));
    assert!(session_effects.awaits_lock_row());
    session_effects.lock_row(&row);
    assert!(session_effects.settle_lock(Time(9)));
    assert_eq!(session_effects.pins().of(Kind::Lock).count(), 1);
}

#[test]
fn a_server_is_kept_since_something_was_there() {
    let mut session_effects = after(&["select suspect()"]);
    let (asked, none) = (DirtyState::ANYTHING, Overrides::default());
    session_effects.seen(&seen(asked, &[]), &none, false, Time(1));
    assert_eq!((session_effects.kept_since(), session_effects.is_marked()), (None, false));
    session_effects.executes(&class("select suspect()"));
    let holds = seen(asked, &[("n", "a"), ("t", "t"), ("h", "c")]);
    session_effects.seen(&holds, &none, false, Time(2));
    assert_eq!(session_effects.kept_since(), Some(Time(2)));
    assert_eq!(session_effects.channels().collect::<Vec<_>>(), ["a"]);
    session_effects.executes(&class("select suspect()"));
    session_effects.seen(&holds, &none, false, Time(3));
    assert_eq!(session_effects.kept_since(), Some(Time(2)), "all the time");
    session_effects.executes(&class("select suspect()"));
    session_effects.seen(&seen(asked, &[]), &none, false, Time(4));
    assert_eq!(session_effects.kept_since(), None);
    session_effects.executes(&class("select suspect()"));
    session_effects.unseen(Time(5));
    assert_eq!((session_effects.kept_since(), session_effects.is_asked_for()), (Some(Time(5)), false));
    // After a call that cannot be analysed the client keeps its server where that is the rule.
    for is_pinned in [false, true] {
        let mut session_effects = SessionEffects::default();
        session_effects.calls_unknown();
        session_effects.seen(&seen(asked, &[]), &none, is_pinned, Time(6));
        assert_eq!(session_effects.is_marked(), is_pinned);
    }
}

#[test]
fn who_a_session_may_be_and_what_its_texts_mean_is_in_doubt_by_what_it_sets() {
    for (text, is_another, is_meaning) in [
        ("select 1", false, false),
        ("set role app", true, true),
        ("set session authorization bob", true, true),
        ("set search_path = a", false, true),
        ("set local search_path = a", false, true),
        ("select suspect()", true, true),
        ("select pg_advisory_lock(1)", false, false),
    ] {
        let mut session_effects = after(&[text]);
        assert_eq!(session_effects.may_be_another(), is_another, "{text}");
        assert_eq!(session_effects.is_meaning_in_doubt(), is_meaning, "{text}");
        session_effects.transaction_ends();
        session_effects.forget();
        assert!(!session_effects.may_be_another() && !session_effects.is_meaning_in_doubt(), "{text}");
    }
    let mut session_effects = after(&["set local search_path = a"]);
    session_effects.transaction_ends();
    assert!(!session_effects.is_meaning_in_doubt());
}

#[test]
fn what_is_left_is_told_where_a_probe_can_tell_all() {
    for (text, is_all) in
        [("select suspect()", true), ("load 'x'", false), ("set work_mem = 1", false), ("select 1", true)]
    {
        assert_eq!(after(&[text]).is_all_told(), is_all, "{text}");
    }
    let mut session_effects = SessionEffects::default();
    session_effects.sends_unread();
    assert!(!session_effects.is_all_told());
    assert!(after(&["select suspect()"]).can_be_discarded() && !after(&["load 'x'"]).can_be_discarded());
}

#[test]
fn a_release_does_nothing_where_no_lock_is_held() {
    let mut session_effects = after(&["select pg_advisory_unlock(1)"]);
    assert!(!session_effects.is_asked_for());
    session_effects.doubt(DirtyState::LOCKS);
    session_effects.seen(&seen(DirtyState::LOCKS, &[("l", "1 0 1")]), &Overrides::default(), false, Time(1));
    assert!(session_effects.is_marked() && !session_effects.is_asked_for());
    session_effects.executes(&class("select pg_advisory_unlock(1)"));
    assert!(session_effects.is_asked_for());
}

#[test]
fn what_is_held_is_held_once() {
    let mut session_effects = SessionEffects::default();
    (0..2).for_each(|_| session_effects.unseen(Time(1)));
    assert_eq!(session_effects.pins().iter().count(), 1);
}

#[test]
fn who_is_listened_for_elsewhere_is_asked_about_the_channels_that_its_server_has() {
    let mut session_effects = SessionEffects::default();
    session_effects.wants_to_leave();
    assert!(session_effects.question().is_some_and(|probe| probe.question().contains("pg_listening_channels")));
}

#[test]
fn what_cannot_be_discarded_keeps_the_server_all_the_time() {
    let mut session_effects = after(&["load 'x'"]);
    session_effects.seen(&seen(DirtyState::LIBRARIES, &[]), &Overrides::default(), false, Time(1));
    session_effects.discarded();
    assert_eq!(session_effects.kept_since(), Some(Time(1)));
    let mut session_effects = after(&["select pg_advisory_lock(1)"]);
    session_effects.seen(&seen(DirtyState::LOCKS, &[("l", "1 0 1")]), &Overrides::default(), false, Time(1));
    session_effects.discarded();
    assert_eq!((session_effects.kept_since(), session_effects.is_marked()), (None, false));
}

#[test]
fn a_name_that_is_given_twice_may_be_either() {
    for (text, is_asked) in
        [("select 1", false), ("set local search_path = a", true), ("select pg_advisory_lock(1)", true)]
    {
        let mut session_effects = SessionEffects::default();
        session_effects.prepares_again(b"s", &class(text));
        session_effects.binds(b"", b"s", || true);
        assert_eq!(session_effects.is_asked_for(), is_asked, "{text}");
    }
}

#[test]
fn a_cause_is_one_until_it_has_been_asked_about() {
    let mut session_effects = after(&["select suspect()"]);
    assert!(!session_effects.begins_request() && session_effects.is_asked_for_by_one());
    session_effects.executes(&class("select suspect(), 1"));
    assert!(!session_effects.is_asked_for_by_one());
}

#[test]
fn what_releases_nothing_that_is_held_is_not_asked_about() {
    let releases = ["select pg_advisory_unlock(1)", "close all", "unlisten *"];
    let asked = |session_effects: &SessionEffects| session_effects.question().map(|probe| probe.question());
    let mut session_effects = after(&["create temp table t()"]);
    let before = asked(&session_effects);
    releases.iter().for_each(|text| session_effects.executes(&class(text)));
    assert!(before.is_some() && asked(&session_effects) == before);
    // Where something of the kind is held, the server is probed.
    let rows = [("l", "1 0 1"), ("h", "c"), ("n", "a")];
    for (text, part) in releases.into_iter().zip(["pg_lock_status", "pg_cursors", "pg_listening_channels"]) {
        let mut session_effects = after(&["select suspect()"]);
        session_effects.seen(&seen(DirtyState::ANYTHING, &rows), &Overrides::default(), false, Time(1));
        ["create temp table t()", text].iter().for_each(|text| session_effects.executes(&class(text)));
        assert!(asked(&session_effects).is_some_and(|question| question.contains(part)), "{text}");
    }
}
