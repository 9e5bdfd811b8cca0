//! SQL texts that are made to cost their reader time or stack.
//!
//! Always true: a text of a megabyte is read on a small stack, and in a time that grows with its length, not with its
//! square.
//! Not here: what such texts do (`crates/route/tests/nested.rs`), arbitrary bytes (`fuzz/src/targets/sql.rs`).

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use route::{Condenser, Dialect, Knowledge, Source};

/// Reads a text as a query of a client and as the body of a function, on a small stack and in a limited time.
fn read(text: String) {
    let start = text[..text.len().min(40)].to_owned();
    let begun = Instant::now();
    let work = move || {
        let (bytes, dialect) = (text.as_bytes(), Dialect::default());
        let class = route::classify(bytes, dialect, Some(&Knowledge::new(["f"], false)));
        assert!(class.shape.len() < 1000);
        let source = Source { name: "f", is_readable: true, is_hidden: false, is_in_queries: false, text: &text };
        let _ = Knowledge::read([source].into_iter());
        let _ = (route::prepared(&text, "a"), route::deallocated(bytes, dialect), route::parameters(bytes, dialect));
        let mut condenser = Condenser::new(dialect);
        bytes.chunks(1000).for_each(|piece| condenser.push(piece));
        let _ = condenser.end();
    };
    thread::Builder::new().stack_size(STACK_BYTES).spawn(work).expect("a thread").join().expect("no panic");
    let took = begun.elapsed();
    assert!(took < LONG, "{took:?}: {start}");
}

/// Repeats this up to about [`BYTES`].
fn many(part: &str) -> String {
    part.repeat(BYTES / part.len())
}

/// Dollar-quoted texts, each within the one before.
fn between_dollars(depth: usize, open: &str, core: &str) -> String {
    let mut text = String::new();
    (0..depth).for_each(|at| write!(text, "{open} $t{at}$ ").expect("memory"));
    text.push_str(core);
    (0..depth).rev().for_each(|at| write!(text, " $t{at}$").expect("memory"));
    text
}

/// Quoted texts, each within the one before, up to [`BYTES`].
fn in_quotes(open: &str) -> String {
    let mut text = open.to_owned();
    loop {
        let next = format!("{open} '{}'", text.replace('\'', "''"));
        if next.len() > BYTES {
            return text;
        }
        text = next;
    }
}

#[test]
fn statements_within_statements() {
    for part in ["EXPLAIN ", "EXPLAIN (ANALYZE) ", "PREPARE a AS ", "PREPARE a AS EXPLAIN ", "EXPLAIN PREPARE a AS "] {
        read(many(part) + "SELECT 1");
    }
}

#[test]
fn texts_within_texts() {
    for text in [
        between_dollars(BYTES / 25, "set ", "set a.b = 1"),
        between_dollars(BYTES / 25, "set a.b", "set a.b = 1"),
        between_dollars(7, "set", &many("set a.b;")),
        between_dollars(5, "set", &many("'set .'")),
        between_dollars(7, "set a.b", &many("(")),
        in_quotes("set a.b"),
        // Dollar quotes that do not end.
        (0..BYTES / 12).map(|at| format!("$t{at}$ set ")).collect(),
    ] {
        read(format!("DO {text}"));
        read(format!("BEGIN EXECUTE {text}; END"));
    }
}

#[test]
fn what_is_said_again_and_again() {
    for text in [
        many("set_config,"),
        many("set_config("),
        many("set_config('a.b',"),
        many("set_config('a.b', 'c', true),"),
        many("pg_settings,"),
        many("(") + &many(")"),
        many("a.set.local.") + " set ",
        many("'a' -- b\n"),
        many("'a'\n"),
        many("f "),
        many("a"),
    ] {
        read(format!("SELECT {text} 1"));
    }
    for text in ["/*", "$a ", ";", "a;", "DO $$ set a.b $$;", "set a.a = a;", "set.", "declare for ", "listen a;"] {
        read(many(text));
        read(format!("SET {}", many(text)));
    }
}

#[test]
fn functions_that_call_each_other() {
    let name = |at: usize| format!("f{at:05}");
    let own: Vec<(String, String)> = (0..FUNCTIONS)
        .map(|at| match at + 1 {
            FUNCTIONS => (name(at), "BEGIN EXECUTE x; END".to_owned()),
            next => (name(at), format!("BEGIN PERFORM {}(); END", name(next))),
        })
        .collect();
    let begun = Instant::now();
    let sources =
        own.iter().map(|(name, text)| Source { name, is_readable: true, is_hidden: false, is_in_queries: false, text });
    let knowledge = Knowledge::read(sources);
    assert!(knowledge.suspects(b"f00000") && begun.elapsed() < LONG, "{:?}", begun.elapsed());
}

/// Each construct that can be nested, a million deep, on a stack far smaller than a worker's.
#[test]
fn a_million_deep_is_read_on_a_small_stack() {
    for (open, close) in [
        ("(", ")"),
        ("EXPLAIN ", ""),
        ("PREPARE a AS ", ""),
        ("/* ", "*/"),
        ("CASE WHEN ", " END"),
        ("BEGIN ATOMIC ", " END;"),
        ("WITH x AS (", ")"),
        ("DO $$ ", "$$;"),
        ("$t$ set ", "$t$"),
        ("CREATE FUNCTION f() LANGUAGE sql AS $a$ ", "$a$;"),
        ("set_config('a.b', ", ", true)"),
    ] {
        on_a_small_stack(move || [&*open.repeat(MILLION), " SELECT 1 ", &close.repeat(MILLION)].concat());
    }
    on_a_small_stack(|| format!("DO {}", between_dollars(MILLION, "set", "set a.b = 1")));
}

/// Reads a text as a query of a client and as the body of a function.
fn on_a_small_stack(text: impl FnOnce() -> String + Send + 'static) {
    let work = move || {
        let text = text();
        let class = route::classify(text.as_bytes(), Dialect::default(), None);
        assert!(class.bytes() <= route::Class::BYTES_MAX);
        let _ = (route::prepared(&text, "a"), route::shape_of(text.as_bytes(), Dialect::default()));
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread").join().expect("it is read");
}

const MILLION: usize = 1_000_000;
const BYTES: usize = 1_000_000;
/// More than most databases have.
const FUNCTIONS: usize = 20_000;
/// Far less than a worker has.
const STACK_BYTES: usize = 256 * 1024;
/// A hundred times the time on a busy machine, and less than reading the whole text for each of its words would take.
const LONG: Duration = Duration::from_secs(20);
