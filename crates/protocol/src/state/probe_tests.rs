//! Queries and answers of the state probe. The answers of real servers are tried in `tests/real/sessions/state.rs`.

use route::{Dialect, classify};

use super::*;
use crate::state::answer::ANSWER_BYTES_MAX;
use crate::state::pins::PINS_MAX;
use crate::state::statements::STATEMENT_BYTES_MAX;

fn row(texts: &[Option<&str>]) -> Vec<u8> {
    let mut body = (texts.len() as u16).to_be_bytes().to_vec();
    for text in texts {
        let length = text.map_or(-1, |text| text.len() as i32);
        body.extend(length.to_be_bytes());
        body.extend(text.unwrap_or_default().as_bytes());
    }
    body
}

fn seen(touched: DirtyState, names: &[&str], rows: &[[Option<&str>; 4]]) -> Option<Seen> {
    let mut probe = Probe::new(touched, names.iter().copied());
    rows.iter().for_each(|texts| probe.row(&row(texts)));
    probe.end()
}

fn is_reported(name: &str) -> bool {
    crate::vars::Tracked::new(["IntervalStyle"]).place(name).is_some()
}

#[test]
fn only_what_was_touched_is_asked() {
    let probe = Probe::new(DirtyState::LOCKS, std::iter::empty());
    let question = probe.question();
    assert!(
        question.contains("pg_lock_status") && !question.contains("pg_settings") && !question.contains("pg_cursors")
    );
    let probe = Probe::new(DirtyState::SETTINGS, ["app.tenant"].into_iter());
    let question = probe.question();
    assert!(question.contains("ARRAY['app.tenant']") && !question.contains("pg_settings"));
}

#[test]
fn settings_are_those_of_the_session() {
    let mut before = Overrides::default();
    before.set("app.tenant", "7");
    before.set("work_mem", "1MB");
    let seen = seen(
        DirtyState::SETTINGS,
        &["app.tenant", "search_path", "role"],
        &[
            [Some("s"), Some("app.tenant"), Some(""), None],
            [Some("s"), Some("role"), Some("none"), None],
            [Some("s"), Some("search_path"), Some("a, b"), None],
            [Some("s"), Some("statement_timeout"), Some("0"), None],
        ],
    );
    let overrides = seen.expect("an answer").overrides(&before, &is_reported, "ann");
    let now: Vec<_> = overrides.iter().collect();
    assert_eq!(now, [("search_path", "a, b"), ("work_mem", "1MB")]);
}

#[test]
fn who_may_be_somebody_else_is_asked_as_who_logs_in() {
    let mut probe = Probe::new(DirtyState::ANYTHING, std::iter::empty());
    assert!(!probe.question().contains("'ann'"));
    probe.ask_as("ann");
    assert!(probe.question().contains("'ann'"));
}

#[test]
fn a_row_has_a_letter_and_three_texts() {
    let whole = row(&[Some("s"), Some("work_mem"), Some("1MB"), None]);
    let is_understood = |body: &[u8]| {
        let mut probe = Probe::new(DirtyState::SETTINGS, ["work_mem"].into_iter());
        probe.row(body);
        probe.end().is_some()
    };
    assert!(is_understood(&whole) && is_understood(&row(&[Some("i"), Some("ann"), None, None])));
    assert!((0..whole.len()).all(|length| !is_understood(&whole[..length])), "it has not come whole");
    for texts in [
        &[Some("s"), Some("work_mem"), Some("1MB")][..],
        &[Some("s"), Some("work_mem"), Some("1MB"), None, None],
        &[Some("s"), None, None, None],
        &[Some(""), Some("work_mem"), None, None],
        &[None, Some("work_mem"), None, None],
        &[Some("x"), Some("work_mem"), None, None],
    ] {
        assert!(!is_understood(&row(texts)), "{texts:?}");
    }
}

#[test]
fn statements_fill_the_room_for_them_by_names_and_texts_and_have_plain_names() {
    let text = |name: &str, bytes: usize| {
        let begin = format!("prepare {name} as select '");
        let fill = "x".repeat(bytes - name.len() - begin.len() - 1);
        format!("{begin}{fill}'")
    };
    for (second, held) in [(1000, ""), (1001, "b")] {
        let mut probe = Probe::new(DirtyState::STATEMENTS, std::iter::empty());
        probe.carry_statements();
        for (name, bytes) in [("a", STATEMENT_BYTES_MAX - 1000), ("b", second)] {
            probe.row(&row(&[Some("p"), Some(name), Some(&text(name, bytes)), None]));
        }
        let holds: Vec<_> = probe.end().expect("an answer").holds.iter().map(|hold| hold.what.clone()).collect();
        assert_eq!(holds.concat(), held);
    }
    let mut probe = Probe::new(DirtyState::STATEMENTS, std::iter::empty());
    probe.carry_statements();
    probe.row(&row(&[Some("p"), Some("é"), Some("prepare é as select 1"), None]));
    assert_eq!(probe.end().expect("an answer").holds.len(), 1, "its name is spelled otherwise in another encoding");
}

#[test]
fn statements_are_carried_where_that_is_wanted_and_they_can_be() {
    let text = "prepare a as select 1; prepare b as select '\\d'";
    let long = format!("prepare c as select '{}'", "x".repeat(STATEMENT_BYTES_MAX - 100));
    let rows = [("a", Some(text)), ("b", Some(text)), ("c", Some(&*long)), ("d", None)];
    let mut before = Overrides::default();
    before.set("work_mem", "1MB");
    let mut prepare = |name: &str, sql: &str, path| {
        let statement = Statement { sql: sql.into(), search_path: Some(path) };
        before.statements_mut().insert(name, statement);
    };
    prepare("old", "prepare old as select 1", Box::from("x"));
    prepare("a", "prepare a as select 1", Box::from("y"));
    for (carries, carried, held) in [(true, "a c", "b d"), (false, "", "a b c d")] {
        let mut probe = Probe::new(DirtyState::STATEMENTS, std::iter::empty());
        if carries {
            probe.carry_statements();
        }
        rows.iter().for_each(|(name, text)| probe.row(&row(&[Some("p"), Some(name), *text, None])));
        let seen = probe.end().expect("an answer");
        let names: Vec<_> = seen.holds.iter().map(|hold| &*hold.what).collect();
        assert_eq!(names.join(" "), held);
        let overrides = seen.overrides(&before, &is_reported, "ann");
        let names: Vec<_> = overrides.statements().iter().map(|(name, _)| name).collect();
        assert_eq!(names.join(" "), carried);
        // A known statement keeps the path under which it was prepared; a new one gets the session's present path.
        let path = |name: &str| overrides.statements().get(name).and_then(|statement| statement.search_path.as_deref());
        assert_eq!((path("a"), path("c")), (Some("y").filter(|_| carries), None));
        assert_eq!((overrides.get("work_mem"), seen.statements().count()), (Some("1MB"), 4));
    }
    // A client with more statements than that keeps its server for the rest.
    let mut probe = Probe::new(DirtyState::STATEMENTS, std::iter::empty());
    probe.carry_statements();
    for name in ["c", "e"] {
        let text = long.replace("prepare c", &format!("prepare {name}"));
        probe.row(&row(&[Some("p"), Some(name), Some(&text), None]));
    }
    assert_eq!(probe.end().expect("an answer").holds.len(), 1);
}

#[test]
fn an_answer_to_everything_forgets_what_is_not_in_it() {
    let mut before = Overrides::default();
    before.set("app.tenant", "7");
    let mut probe = Probe::new(DirtyState::ANYTHING, std::iter::empty());
    probe.add_custom(["app.tenant", "work_mem"].into_iter(), true);
    assert!(probe.question().contains("ARRAY['app.tenant','session_authorization','role']"));
    probe.row(&row(&[Some("s"), Some("TimeZone"), Some("UTC"), None]));
    probe.row(&row(&[Some("s"), Some("Work_Mem"), Some("2MB"), None]));
    probe.row(&row(&[Some("s"), Some("session_authorization"), Some("ann"), None]));
    let seen = probe.end().expect("an answer");
    let overrides = seen.overrides(&before, &is_reported, "ann");
    assert_eq!(overrides.iter().collect::<Vec<_>>(), [("work_mem", "2MB")]);
    assert_eq!(seen.overrides(&before, &is_reported, "bob").get("session_authorization"), Some("ann"));
}

#[test]
fn what_is_held_is_named() {
    // The keys as given: 42; -1; 4 and -2.
    for (parts, what) in [("1 0 42", "42"), ("1 4294967295 4294967295", "-1"), ("2 4 4294967294", "4, -2")] {
        let row = [Some("l"), Some(parts), Some("ExclusiveLock"), None];
        let seen = seen(DirtyState::LOCKS, &[], &[row]).expect("an answer");
        assert_eq!(seen.holds, [Hold::lock(what, Some("ExclusiveLock"))]);
    }
    assert_eq!(seen(DirtyState::LOCKS, &[], &[[Some("l"), Some("1 0"), Some("ExclusiveLock"), None]]), None);
}

#[test]
fn an_answer_that_nobody_understands_is_none() {
    assert_eq!(seen(DirtyState::LOCKS, &[], &[[Some("?"), Some("x"), None, None]]), None);
    assert_eq!(seen(DirtyState::LOCKS, &[], &[[Some("l"), None, None, None]]), None);
    let mut probe = Probe::new(DirtyState::LOCKS, std::iter::empty());
    probe.row(b"\0\x01\0\0");
    assert_eq!(probe.end(), None);
}

#[test]
fn functions_are_told_by_their_text() {
    let mut probe = Probe::new(DirtyState::NOTHING, std::iter::empty());
    probe.add_functions();
    ["locks", "snake", "tame"].iter().for_each(|name| probe.row(&row(&[Some("g"), Some(name), None, None])));
    probe.row(&row(&[Some("f"), Some("tame"), Some("rh"), Some("BEGIN RETURN 1; END")]));
    probe.row(&row(&[Some("f"), Some("locks"), Some("r"), Some("SELECT pg_advisory_lock(1)")]));
    probe.row(&row(&[Some("f"), Some("snake"), Some(""), Some("import os")]));
    let knowledge = probe.end().and_then(|seen| seen.knowledge).expect("knowledge");
    assert!(!knowledge.suspects(b"tame") && knowledge.suspects(b"locks") && knowledge.suspects(b"snake"));
    assert!(!knowledge.is_hidden());
}

/// A setting that is named only in a nested text that is not read cannot be probed.
#[test]
fn a_function_that_goes_deeper_than_it_is_read_may_have_set_anything() {
    let deep = (0..20).fold("SET app.deep = 1".to_owned(), |text, at| format!("EXECUTE $t{at}$ {text} $t{at}$"));
    for (touched, text, is_kept) in [
        (DirtyState::ANYTHING, &*deep, true),
        (DirtyState::ANYTHING, "EXECUTE $t$ SET app.plain = 1 $t$", false),
        // A probe that only reads functions is no sign that the client has set anything.
        (DirtyState::LOCKS, &*deep, false),
    ] {
        let mut probe = Probe::new(touched, std::iter::empty());
        probe.add_functions();
        probe.row(&row(&[Some("g"), Some("f"), None, None]));
        probe.row(&row(&[Some("f"), Some("f"), Some("r"), Some(text)]));
        let seen = probe.end().expect("an answer");
        assert_eq!(seen.misses_settings(), is_kept, "{touched:?}");
        let mut session_effects = crate::state::SessionEffects::default();
        session_effects.seen(&seen, &Overrides::default(), false, base::Time(0));
        assert_eq!(session_effects.is_marked(), is_kept, "{touched:?}");
    }
}

#[test]
fn whoever_may_have_set_what_was_not_asked_for_keeps_its_server() {
    for (touched, is_complete, is_kept) in [
        (DirtyState::ANY_SETTING, false, true),
        (DirtyState::ANY_SETTING, true, false),
        // A client that has named the settings that it sets is probed for these only.
        (DirtyState::SETTINGS, false, false),
    ] {
        let mut probe = Probe::new(touched, std::iter::empty());
        probe.add_custom(["a.b"].into_iter(), is_complete);
        let mut session_effects = crate::state::SessionEffects::default();
        session_effects.seen(&probe.end().expect("an answer"), &Overrides::default(), false, base::Time(0));
        assert_eq!(session_effects.is_marked(), is_kept, "{touched:?}");
    }
}

#[test]
fn what_was_known_is_compared_with_what_the_server_tells() {
    let mut known = Overrides::default();
    known.set("work_mem", "4096");
    known.set("app.tenant", "7");
    let prepared = Statement { sql: "prepare a as select 1".into(), search_path: None };
    known.statements_mut().insert("a", prepared);
    let mut probe = Probe::new(DirtyState::ANYTHING, ["app.tenant"].into_iter());
    probe.carry_statements();
    probe.verify(known);
    let question = probe.question();
    assert!(
        question.contains("SELECT 'v','work_mem',pg_catalog.set_config('work_mem','4096',true),NULL;"),
        "{question}"
    );
    let spelled = [Some("v"), Some("work_mem"), Some("4MB"), None];
    let (work_mem, tenant) = (["s", "work_mem", "4MB"], ["s", "app.tenant", "7"]);
    let statement = ["p", "a", "prepare a as select 1"];
    for (told, expected) in [
        (&[work_mem, tenant, statement][..], Ok(())),
        (&[["s", "work_mem", "8MB"], tenant, statement], Err("setting \"work_mem\"")),
        (&[work_mem, statement], Err("setting \"app.tenant\"")),
        (&[work_mem, tenant, statement, ["s", "lock_timeout", "1s"]], Err("setting \"lock_timeout\"")),
        (&[work_mem, tenant], Err("prepared statement \"a\"")),
        (&[work_mem, tenant, ["p", "a", "prepare a as select 2"]], Err("prepared statement \"a\"")),
        (&[work_mem, tenant, statement, ["l", "1 0 7", "ExclusiveLock"]], Err("advisory lock 7")),
    ] {
        let mut probe = probe.clone();
        let rows = told.iter().map(|texts| [Some(texts[0]), Some(texts[1]), Some(texts[2]), None]).chain([spelled]);
        rows.for_each(|texts| probe.row(&row(&texts)));
        let seen = probe.end().expect("an answer");
        let overrides = seen.overrides(&Overrides::default(), &is_reported, "ann");
        let verdict = seen.verdict(&overrides).expect("both are known");
        assert_eq!(
            verdict.as_ref().map_err(|what| &**what),
            expected.as_ref().map(|()| &()).map_err(|what| &**what),
            "{told:?}"
        );
    }
    let asked = seen(DirtyState::LOCKS, &[], &[]).expect("an answer");
    assert_eq!(asked.verdict(&Overrides::default()), None, "nothing was known");
}

#[test]
fn few_settings_that_anybody_may_set_are_asked_one_by_one() {
    let question = |touched, names: &[&str]| Probe::new(touched, names.iter().copied()).question();
    let small = question(DirtyState::SETTINGS, &["search_path", "statement_timeout"]);
    assert!(small.contains("ARRAY['search_path','statement_timeout']") && !small.contains("pg_settings"), "{small}");
    // The last one is a parameter that servers report, so it matters even with its initial value.
    for (touched, names) in [
        (DirtyState::SETTINGS, &["search_path", "temp_buffers"][..]),
        (DirtyState::ANY_SETTING, &["search_path"]),
        (DirtyState::SETTINGS, &["search_path", "default_transaction_read_only"]),
    ] {
        assert!(question(touched, names).contains("pg_settings"), "{names:?}");
    }
    let mut before = Overrides::default();
    before.set("search_path", "a");
    let rows = [
        [Some("d"), Some("search_path"), Some("public"), Some("public")],
        [Some("d"), Some("lock_timeout"), Some("5s"), Some("0")],
    ];
    let seen = seen(DirtyState::SETTINGS, &["search_path", "lock_timeout"], &rows).expect("an answer");
    assert_eq!((seen.is_first("search_path"), seen.is_first("lock_timeout")), (Some(true), Some(false)));
    let overrides = seen.overrides(&before, &is_reported, "ann");
    assert_eq!(overrides.iter().collect::<Vec<_>>(), [("lock_timeout", "5s")]);
}

/// The limits in the query match the bounds of what is kept.
#[test]
fn a_server_is_asked_for_no_more_than_is_read() {
    let mut probe = Probe::new(DirtyState::STATEMENTS, std::iter::empty());
    probe.add_functions();
    let question = probe.question();
    let (bytes, functions) = (route::TEXTS_BYTES_MAX, route::FUNCTIONS_MAX);
    for part in [format!("<=) {bytes} "), format!("LIMIT {}", functions + 1), format!("LIMIT {}", functions + 16)] {
        assert!(question.contains(&part), "{part}: {question}");
    }
    let all =
        [DirtyState::LOCKS, DirtyState::TEMPORARY, DirtyState::CURSORS, DirtyState::STATEMENTS, DirtyState::SLOTS];
    for touched in all {
        let question = Probe::new(touched, std::iter::empty()).question();
        assert!(question.ends_with(&format!(" LIMIT {};", PINS_MAX + 1)), "{question}");
    }
    let channels = Probe::new(DirtyState::CHANNELS, std::iter::empty()).question();
    assert!(!channels.contains("LIMIT"), "somebody else takes over all of them: {channels}");
}

/// The answer of a server with so many rows of one kind.
fn seen_many(touched: DirtyState, about: &str, count: usize) -> Seen {
    let mut probe = Probe::new(touched, std::iter::empty());
    probe.carry_statements();
    for number in 0..count {
        let name = if about == "l" { format!("1 0 {number}") } else { format!("x{number}") };
        let text = format!("prepare {name} as select 1");
        let text = match about {
            "l" => Some("ExclusiveLock"),
            "p" => Some(&*text),
            _ => None,
        };
        probe.row(&row(&[Some(about), Some(&name), text, None]));
    }
    probe.end().expect("an answer")
}

/// Regression: a hundred thousand locks were kept one by one, and visited for each statement and each probe.
#[test]
fn of_each_kind_a_thousand_are_listed_and_then_one_that_says_that_there_are_more() {
    for (about, kind) in [("l", Kind::Lock), ("t", Kind::Temporary), ("h", Kind::Cursor), ("r", Kind::Slot)] {
        let touched = kind.touches();
        let seen = seen_many(touched, about, PINS_MAX);
        assert!(seen.holds.len() == PINS_MAX && seen.holds.iter().all(|hold| !hold.is_more));
        let seen = seen_many(touched, about, 3 * PINS_MAX);
        assert_eq!(seen.holds.iter().filter(|hold| !hold.is_more).count(), PINS_MAX);
        let more: Vec<_> = seen.holds.iter().filter(|hold| hold.is_more).map(Hold::words).collect();
        assert_eq!(more, [Box::from(format!("more than 1,000 {}", kind.many()))]);
        let mut session_effects = crate::state::SessionEffects::default();
        let mut told = |count: usize, now: u64| {
            session_effects.doubt(touched);
            session_effects.seen(&seen_many(touched, about, count), &Overrides::default(), false, base::Time(now));
            let news = session_effects.pins().news(base::Time(now)).count();
            (session_effects.pins().iter().count(), session_effects.pins().has_more(kind), news)
        };
        assert_eq!(told(10, 1), (10, false, 10));
        assert_eq!(told(2 * PINS_MAX, 2), (PINS_MAX + 1, true, PINS_MAX - 9));
        assert_eq!(told(PINS_MAX + 1, 3), (PINS_MAX + 1, true, 0));
        assert_eq!(told(PINS_MAX, 4), (PINS_MAX, false, 0));
        assert_eq!(told(0, 5), (0, false, 0));
        assert!(!session_effects.is_marked());
    }
    assert_eq!(seen_many(DirtyState::CHANNELS, "n", 3 * PINS_MAX).holds.len(), 3 * PINS_MAX);
}

/// Statements follow their client if all are listed. One that is not would be missing on another server.
#[test]
fn statements_follow_only_where_all_are_listed() {
    let all = seen_many(DirtyState::STATEMENTS, "p", PINS_MAX);
    assert_eq!((all.holds.len(), all.statements.len()), (0, PINS_MAX));
    let more = seen_many(DirtyState::STATEMENTS, "p", PINS_MAX + 1);
    assert_eq!((more.statements.len(), more.holds.len(), more.holds[0].is_more), (PINS_MAX, 1, true));
    let mut session_effects = crate::state::SessionEffects::default();
    session_effects.seen(&more, &Overrides::default(), false, base::Time(0));
    assert!(session_effects.is_marked() && session_effects.may_have_prepared("whatever it is called"));
    session_effects.seen(&all, &Overrides::default(), false, base::Time(1));
    assert!(!session_effects.is_marked() && !session_effects.may_have_prepared("whatever it is called"));
}

/// A comparison requires that both sides are complete.
#[test]
fn statements_are_not_compared_where_not_all_are_listed() {
    for (count, is_compared) in [(PINS_MAX, true), (PINS_MAX + 1, false)] {
        let mut probe = Probe::new(DirtyState::STATEMENTS, std::iter::empty());
        probe.verify(Overrides::default());
        for number in 0..count {
            probe.row(&row(&[Some("p"), Some(&format!("x{number}")), Some("-"), None]));
        }
        let seen = probe.end().expect("an answer");
        let told = seen.overrides(&Overrides::default(), &is_reported, "ann");
        assert_eq!(seen.verdict(&told).is_some(), is_compared, "{count}");
    }
}

/// A lock that is not listed cannot be counted: while a thousand are held each call needs a probe, and before that none
/// does.
#[test]
fn locks_are_known_by_their_answers_as_long_as_all_are_listed() {
    let class = |number: usize| {
        let text = format!("select pg_advisory_lock({number})");
        std::rc::Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default())))
    };
    let mut session_effects = crate::state::SessionEffects::default();
    let is_known = |session_effects: &mut crate::state::SessionEffects, number: usize| {
        session_effects.executes(&class(number));
        let is_awaited = session_effects.awaits_lock_row();
        session_effects.lock_row(&[0, 1, 0, 0, 0, 0]);
        assert_eq!(session_effects.settle_lock(base::Time(0)), is_awaited);
        is_awaited
    };
    for number in 0..PINS_MAX {
        assert!(is_known(&mut session_effects, number), "{number}");
    }
    assert_eq!(session_effects.pins().iter().count(), PINS_MAX);
    for number in [PINS_MAX, 7] {
        assert!(!is_known(&mut session_effects, number), "{number}");
        assert!(session_effects.is_asked_for());
        session_effects.seen(
            &seen_many(DirtyState::LOCKS, "l", PINS_MAX + 1),
            &Overrides::default(),
            false,
            base::Time(1),
        );
    }
    session_effects.doubt(DirtyState::LOCKS);
    session_effects.seen(&seen_many(DirtyState::LOCKS, "l", PINS_MAX - 1), &Overrides::default(), false, base::Time(2));
    assert!(is_known(&mut session_effects, PINS_MAX));
}

#[test]
fn a_session_that_has_more_than_is_kept_of_an_answer_is_not_understood() {
    let long = "x".repeat(1000);
    let names: Vec<String> = (0..ANSWER_BYTES_MAX / 1064 + 1).map(|at| format!("{at:06}")).collect();
    for (about, touched) in
        [("s", DirtyState::ANY_SETTING), ("v", DirtyState::ANY_SETTING), ("n", DirtyState::CHANNELS)]
    {
        let mut probe = Probe::new(touched, std::iter::empty());
        let fits = (ANSWER_BYTES_MAX / 1070).min(names.len());
        for (number, name) in names.iter().enumerate() {
            probe.row(&row(&[Some(about), Some(name), Some(&long), None]));
            assert_eq!(probe.is_overfull(), number >= fits, "{about} {number}");
        }
        assert_eq!(probe.end(), None);
    }
}

/// The server sends nineteen kilobytes of each, within its limit; a statement that is not carried is held by its name
/// only.
#[test]
fn of_statements_that_are_not_carried_the_names_are_kept() {
    let text = |name: &str| format!("prepare {name} as select '{}'", "x".repeat(19_000));
    let mut probe = Probe::new(DirtyState::STATEMENTS, std::iter::empty());
    probe.carry_statements();
    for number in 0..3_000 {
        let name = format!("s{number}");
        probe.row(&row(&[Some("p"), Some(&name), Some(&text(&name)), None]));
    }
    assert!(!probe.is_overfull());
    let seen = probe.end().expect("an answer");
    assert_eq!((seen.holds.len(), seen.statements.len()), (998, 3), "and that there are more");
    let mut session_effects = crate::state::SessionEffects::default();
    session_effects.seen(&seen, &Overrides::default(), false, base::Time(0));
    assert_eq!(session_effects.pins().iter().count(), 998);
    session_effects.seen(&seen, &Overrides::default(), false, base::Time(1));
    assert!(
        session_effects.pins().iter().count() == 998
            && session_effects.pins().iter().all(|pin| pin.since == base::Time(0))
    );
}

/// A server may report the names of more functions than are read, or names without texts.
#[test]
fn functions_beyond_a_bound_may_do_anything() {
    let knowledge = |rows: &mut dyn Iterator<Item = [Option<String>; 4]>| {
        let mut probe = Probe::new(DirtyState::NOTHING, std::iter::empty());
        probe.add_functions();
        for texts in rows {
            probe.row(&row(&texts.each_ref().map(|text| text.as_deref())));
        }
        probe.end().and_then(|seen| seen.knowledge).expect("knowledge")
    };
    let word = |text: &str| Some(text.to_owned());
    let names = |count: usize| (0..count).map(move |at| [word("g"), Some(format!("f{at:06}")), None, None]);
    let all = knowledge(&mut names(route::FUNCTIONS_MAX));
    assert_eq!((all.unread(), all.is_hidden()), (route::Unread::Nothing, false));
    let more = knowledge(&mut names(route::FUNCTIONS_MAX + 17));
    assert!(more.unread() == route::Unread::All && more.is_hidden() && more.misses_settings());
    let endless = knowledge(&mut (0..20).map(|_| [word("g"), Some("x".repeat(1 << 19)), None, None]));
    assert_eq!(endless.unread(), route::Unread::All);
    // One whose text is not reported, and one that was created meanwhile.
    let f = |name: &str, text: Option<&str>| [word("f"), word(name), word("r"), text.map(str::to_owned)];
    let some = [[word("g"), word("long"), None, None], f("long", None), f("new", Some("SELECT 1"))];
    let some = knowledge(&mut some.into_iter());
    assert!(some.suspects(b"long") && some.suspects(b"new") && some.misses_settings() && !some.is_hidden());
    assert_eq!(some.unread(), route::Unread::Some);
}

#[test]
fn a_cancelled_probe_is_sent_again_and_only_its_last_answer_counts() {
    let temporary = |name| row(&[Some("t"), Some(name), None, None]);
    let mut probe = Probe::new(DirtyState::TEMPORARY, std::iter::empty());
    assert!(!probe.tries_again(), "it was not cancelled");
    for _ in 0..TRIES_MAX {
        probe.row(&temporary("dropped meanwhile"));
        probe.cancel();
        assert!(probe.clone().end().is_none() && probe.tries_again());
        assert!(!probe.tries_again(), "it has not been cancelled since");
    }
    let mut answered = probe.clone();
    answered.row(&temporary("scratch"));
    assert_eq!(answered.end().expect("an answer").holds, [Hold::new(Kind::Temporary, "scratch")]);
    probe.cancel();
    assert!(!probe.tries_again(), "often enough");
    let mut broken = Probe::new(DirtyState::TEMPORARY, std::iter::empty());
    broken.break_off();
    assert!(!broken.tries_again() && broken.end().is_none(), "another error would come again");
}
