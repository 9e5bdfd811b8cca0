//! SQL of clients, and the functions of a database.
//!
//! Input: the dialect and how often the text is repeated, then the text.
//!
//! Always true: a text touches what its statements touch, and the cache gives the same result; a text without its long
//! strings touches something if the whole does; a string that contains the text adds nothing to a statement that
//! executes nothing.

use route::{Cache, Condenser, Dialect, DirtyState, Encoding, Knowledge, Source};

use crate::Target;
use crate::draw::Draw;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "sql",
    run,
    words: &[
        b"EXPLAIN ",
        b"(ANALYZE) ",
        b"PREPARE a AS ",
        b"EXECUTE a",
        b"SELECT ",
        b"INSERT INTO t VALUES (",
        b"DECLARE c CURSOR WITH HOLD FOR ",
        b"DO ",
        b"$$",
        b"$a$",
        b"$b$ ",
        b" set ",
        b" reset ",
        b"local ",
        b"app.x",
        b"'app.x'",
        b"set_config(",
        b", true)",
        b"pg_settings",
        b"update ",
        b"'",
        b"''",
        b"\"",
        b"U&'",
        b"E'\\'",
        b"--",
        b"\n",
        b"/*",
        b"*/",
        b";",
        b"(",
        b")",
        b"BEGIN ATOMIC ",
        b"COMMIT",
        b"language plpgsql",
        b" f()",
        b"/*traceparent='",
        b"4bf92f3577b34da6a3ce929d0e0e4736",
    ],
    bytes_max: 600,
};

/// A trace context, and a comment that carries it.
const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const COMMENT: &[u8] = b"/*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/";

/// Reads the text.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let encoding = draw.pick(&[Encoding::Safe, Encoding::Safe, Encoding::Sjis, Encoding::Pairs, Encoding::Gb18030]);
    let dialect = Dialect { encoding, backslashes: draw.byte() % 4 == 1 };
    // Most problems with long texts also appear with a short one that is repeated.
    let times = draw.pick(&[1, 1, 1, 2, 100]);
    let text = draw.rest().repeat(times);
    if text.contains(&0) {
        return;
    }
    // A comment with a trace context is found behind any text, and nothing else is taken for one.
    let carried = [&text[..], COMMENT].concat();
    assert_eq!(route::traceparent(&carried, true), route::TraceParent::parse(PARENT), "another context of a trace");
    if route::traceparent(&text, true).is_some() {
        assert!(text.windows(14).any(|part| part.starts_with(b"traceparent")), "nobody has said so");
    }
    let knowledge = Knowledge::new(["f"], false);
    let class = route::classify(&text, dialect, Some(&knowledge));
    let all = class.acts.iter().fold(DirtyState::NOTHING, |all, act| all | act.touches());
    assert_eq!(class.touches, all, "a text touches what its statements do");
    let mut cache = Cache::default();
    for _ in 0..2 {
        assert_eq!(*cache.class(&text, dialect, 0, Some(&knowledge)), class, "another answer from memory");
    }
    assert!(class.shape.len() < 1000, "a person is shown {} bytes", class.shape.len());

    let mut condenser = Condenser::new(dialect);
    let size = if text.len() < 4096 { 1 + times % 7 } else { 8192 };
    text.chunks(size).for_each(|piece| condenser.push(piece));
    if let Some(short) = condenser.end() {
        let shorter = route::classify(&short, dialect, Some(&knowledge));
        assert!(!shorter.is_harmless() || class.is_harmless(), "harmless by what is left: {}", short.escape_ascii());
    }
    let _ = (route::deallocated(&text, dialect), route::parameters(&text, dialect), route::shape_of(&text, dialect));

    let Ok(text) = str::from_utf8(&text) else { return };
    if let Some(prepared) = route::prepared(text, "a") {
        assert!(text.contains(prepared));
    }
    let source = Source { name: "f", is_readable: true, is_hidden: false, is_in_queries: false, text };
    let _ = Knowledge::read([source].into_iter());
    let quoted = format!("INSERT INTO t VALUES ('{}')", text.replace('\'', "''"));
    let inserted = route::classify(quoted.as_bytes(), Dialect::default(), Some(&knowledge));
    assert!(inserted.is_harmless(), "a value touches {:?}", inserted.touches);
}
