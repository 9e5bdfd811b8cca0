//! What is kept of a text or of a database is bounded, whatever they are.
//!
//! Always true: what exceeds a bound is taken for anything that it may be; up to the bound, nothing is different.
//! Not here: how long reading takes (`fuzz/src/targets/nested.rs`, `fuzz/tests/hostile.rs`).

use route::{Act, Class, Dialect, DirtyState, Knowledge, Source};

fn class(text: &str) -> Class {
    route::classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::new(["f"], false)))
}

fn source<'a>(name: &'a str, text: &'a str) -> Source<'a> {
    Source { name, is_readable: true, is_hidden: false, is_in_queries: false, text }
}

/// Texts in which something grows with their length.
#[test]
fn a_class_has_a_bound() {
    let many = |part: &str| part.repeat(300_000 / part.len());
    let numbered = |part: &str| (0..30_000).map(|at| part.replace('#', &at.to_string())).collect::<String>();
    for text in [
        many("SAVEPOINT a;"),
        many("LISTEN a; UNLISTEN a;"),
        numbered("EXECUTE a#;"),
        numbered("PREPARE a# AS SELECT 1;"),
        numbered("SET a.b# = 1;"),
        format!("SET a.b = '{}'", many("x")),
        format!("SET search_path = {}a", many("a, ")),
        format!("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY{}", many(", READ ONLY")),
        format!("SET a{} = 1", many(".b")),
        format!("SELECT {}1", numbered("set_config('a.b#', 'c', false), ")),
        format!("SELECT f({}1)", numbered("'a.b#', ")),
        format!("SELECT {}f()", many("x")),
    ] {
        let class = class(&text);
        assert!(class.bytes() <= Class::BYTES_MAX, "{}: {}", &text[..40], class.bytes());
        assert!(!class.is_harmless(), "{}", &text[..40]);
    }
}

#[test]
fn a_text_of_too_many_statements_may_do_anything() {
    for (count, is_read) in [(256, true), (257, false), (5000, false)] {
        let class = class(&"SELECT 1;".repeat(count));
        assert_eq!(class.is_harmless(), is_read, "{count}");
        assert_eq!(class.is_unread, !is_read, "{count}");
        assert_eq!(class.acts.len(), if is_read { count } else { 1 });
    }
    // What the text takes hold of, and does with sequences, is known of all its statements.
    let class = class(&("SELECT 1;".repeat(1000) + "LISTEN a; SELECT nextval('s')"));
    assert!(class.takes == DirtyState::CHANNELS && class.sequences.are_drawn && class.may_roll_back());
}

#[test]
fn a_long_value_is_asked_for_and_a_longer_one_may_be_anything() {
    let set = |bytes: usize| class(&format!("SET a.b = '{}'", "x".repeat(bytes)));
    assert!(matches!(&*set(60_000).acts, [Act::Set(_)]));
    assert!(set(70_000).is_unread && set(70_000).touches.has(DirtyState::ANYTHING));
    assert_eq!(*set(70_000).mentions, [Box::from("a.b")]);
}

/// No probe can ask for a setting that has not been kept.
#[test]
fn whoever_may_set_more_than_is_kept_keeps_the_server() {
    let names = |count: usize| (0..count).map(|at| format!("'a.b{at}', ")).collect::<String>();
    for (count, is_kept) in [(256, true), (257, false)] {
        let class = class(&format!("SELECT f({}1)", names(count)));
        assert_eq!((class.mentions.len(), class.touches.has(DirtyState::UNTOLD)), (256, !is_kept));
    }
    for (count, is_kept) in [(1000, true), (1001, false)] {
        let knowledge = Knowledge::read([source("f", &names(count))].into_iter());
        assert_eq!((knowledge.settings().count(), knowledge.misses_settings()), (1000, !is_kept));
    }
}

#[test]
fn in_a_database_of_too_many_functions_any_statement_may_do_anything() {
    let names: Vec<String> = (0..=100_000).map(|at| format!("f{at}")).collect();
    let read = |count: usize| Knowledge::read(names[..count].iter().map(|name| source(name, "SELECT 1")));
    assert_eq!(read(100_000), Knowledge::default());
    // Each function mentions each.
    let all: String = names[..1200].iter().map(|name| format!("{name} ")).collect();
    let dense = Knowledge::read(names[..1200].iter().map(|name| source(name, &all)));
    for knowledge in [read(100_001), dense] {
        let touches = route::classify(b"SELECT 1", Dialect::default(), Some(&knowledge)).touches;
        assert!(touches.has(DirtyState::ANYTHING) && knowledge.misses_settings() && knowledge.notifies_silently(true));
    }
}

#[test]
fn a_function_behind_the_last_byte_that_is_read_may_do_anything() {
    let long = "x ".repeat(8 * 1024 * 1024);
    let sources = [source("long", &long), source("behind", "SELECT 1"), source("calls", "")];
    let knowledge = Knowledge::read(sources.into_iter());
    assert!(knowledge.suspects(b"behind") && !knowledge.suspects(b"long") && !knowledge.suspects(b"calls"));
    assert!(knowledge.misses_settings());
}
