//! Texts within texts, statements within statements, and calls within calls.
//!
//! Always true: they are read without recursion, however deep they are. What is nested deeper than is read is taken for
//! anything that it may be, where it may be executed.
//! Not here: how long that may take (`fuzz/tests/hostile.rs`).

use std::fmt::Write as _;

use route::{Act, Class, Dialect, DirtyState, Knowledge, Source};

/// Dollar-quoted texts, each within the one before: `open` stands in front of each, the last is `core`.
fn between_dollars(depth: usize, open: &str, core: &str) -> String {
    let mut text = String::new();
    (0..depth).for_each(|at| write!(text, "{open} $t{at}$ ").expect("memory"));
    text.push_str(core);
    (0..depth).rev().for_each(|at| write!(text, " $t{at}$").expect("memory"));
    text
}

/// In a database whose function `f` may do anything.
fn class(text: &str) -> Class {
    route::classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::new(["f"], false)))
}

/// What is known of a database whose one function, `f`, has this text.
fn known(text: &str) -> Knowledge {
    Knowledge::read([Source { name: "f", is_readable: true, is_hidden: false, is_in_queries: false, text }].into_iter())
}

/// PostgreSQL refuses an EXPLAIN or a PREPARE in another one. There are so many here that no stack has room for a call for each.
#[test]
fn a_statement_within_a_statement_is_not_gone_down_to() {
    for part in ["EXPLAIN ", "EXPLAIN (ANALYZE) ", "PREPARE a AS ", "PREPARE a AS EXPLAIN ", "EXPLAIN PREPARE a AS "] {
        let class = class(&(part.repeat(100_000) + "SELECT 1"));
        match &*class.acts {
            [Act::Prepare { touches, .. }] => assert_eq!(*touches, DirtyState::ANYTHING, "{part}"),
            acts => assert!(acts.len() == 1 && class.touches == DirtyState::ANYTHING, "{part}"),
        }
    }
}

/// No probe can ask for a setting whose name was not read, so a client that may have set it keeps the server.
#[test]
fn what_stands_too_deep_may_name_any_setting() {
    let nested = |depth| between_dollars(depth, "execute", "set app.deep = 1");
    for (depth, is_read) in [(1, true), (3, true), (6, true), (7, false), (100, false), (50_000, false)] {
        for text in [
            format!("DO $do$ BEGIN {} END $do$", nested(depth - 1)),
            format!("SELECT f({})", nested(depth)),
            format!("PREPARE p AS SELECT f({})", nested(depth)),
            format!("SELECT f({}), 'never ended", nested(depth)),
        ] {
            let class = class(&text);
            let touches = match &*class.acts {
                [Act::Prepare { touches, .. }] => *touches,
                _ => class.touches,
            };
            let start = &text[..text.len().min(40)];
            assert!(touches.has(DirtyState::ANYTHING), "{depth}: {start}");
            assert_eq!(touches.has(DirtyState::UNTOLD), !is_read, "{depth}: {start}");
            assert_eq!(class.mentions.iter().any(|name| **name == *"app.deep"), is_read, "{depth}: {start}");
        }
        let knowledge = known(&format!("BEGIN {} END", nested(depth)));
        assert!(knowledge.suspects(b"f"), "{depth}");
        assert_eq!(knowledge.settings().any(|name| name == "app.deep"), is_read, "{depth}");
        assert_eq!(knowledge.misses_settings(), !is_read, "{depth}");
    }
}

/// At any depth, a text that only reads and writes tables does no more, and neither does a text that names the setting
/// that it sets.
#[test]
fn what_is_deep_and_executes_nothing_is_ordinary() {
    let deep = between_dollars(100, "set", "set app.deep = 1");
    for (text, touches) in [
        (format!("INSERT INTO t VALUES ($x${deep}$x$)"), DirtyState::NOTHING),
        (format!("SELECT set_config('a.b', $x${deep}$x$, false)"), DirtyState::SETTINGS),
        (format!("SELECT pg_advisory_lock(1), $x${deep}$x$"), DirtyState::LOCKS),
        (format!("SELECT f($x${}$x$)", deep.replace('.', "")), DirtyState::ANYTHING.with(DirtyState::CALLS)),
        (format!("SELECT f($x${}$x$)", deep.replace("set", "get")), DirtyState::ANYTHING.with(DirtyState::CALLS)),
    ] {
        assert_eq!(class(&text).touches, touches, "{}", &text[..60]);
    }
    assert!(!known("BEGIN EXECUTE format('set app.x = %L', 'it''s set. So it is'); END").misses_settings());
}

#[test]
fn a_call_within_a_call_is_told_from_it() {
    for (text, touches) in [
        ("SELECT set_config('a', set_config('b', 'c', true), true)", DirtyState::NOTHING),
        ("SELECT set_config('a', set_config('b', 'c', false), true)", DirtyState::SETTINGS),
        ("SELECT set_config('a', set_config('b', 'c', true), false)", DirtyState::SETTINGS),
        ("SELECT set_config('a', x[f2(1, true)], true), (true)", DirtyState::NOTHING),
        ("SELECT ')', a), set_config('a', $1, true)", DirtyState::NOTHING),
        ("SELECT \"set_config\"('a', 'b', true)", DirtyState::NOTHING),
        ("SELECT set_config('a', 'b', true", DirtyState::SETTINGS),
        ("SELECT set_config('a', 'b', true and false)", DirtyState::SETTINGS),
        ("SELECT set_config('a', 'b', (x, true))", DirtyState::SETTINGS),
        ("SELECT x(set_config('a', 'b', c), true)", DirtyState::SETTINGS),
    ] {
        assert_eq!(class(text).touches, touches, "{text}");
    }
}
