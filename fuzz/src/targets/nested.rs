//! Long and deeply nested SQL texts, made of parts of statements: what reading them costs.
//!
//! Input: pairs of bytes: a construct, and how often it is put around the text so far.
//!
//! Always true: the result of reading a text has a bounded size, whatever the text; the time for each byte is bounded,
//! and does not grow with the length of the text.
//! Not here: what such texts do (`crates/route/tests/nested.rs`), arbitrary bytes (`sql`).

use std::hint::black_box;
use std::time::Instant;

use route::{Class, Dialect, Knowledge, Source};

use crate::Target;
use crate::draw::Draw;

/// See the head of this file.
pub const TARGET: Target = Target { name: "nested", run, words: &[], bytes_max: 24 };

/// Reads the text as a query of a client and as the body of a function.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let text = text(&mut Draw::new(input));
    let knowledge = Knowledge::new(["f"], false);
    let read = || {
        let class = route::classify(text.as_bytes(), Dialect::default(), Some(&knowledge));
        assert!(class.bytes() <= Class::BYTES_MAX, "{} bytes", class.bytes());
        let source = Source { name: "f", is_readable: true, is_hidden: true, is_in_queries: true, text: &text };
        black_box(Knowledge::read([source].into_iter()));
        black_box((route::prepared(&text, "a"), route::deallocated(text.as_bytes(), Dialect::default())));
    };
    let most = u128::from(BYTE_NANOS_MAX) * text.len().max(BYTES_FEW) as u128;
    let is_quick = || {
        let begun = Instant::now();
        read();
        begun.elapsed().as_nanos() <= most
    };
    // A machine that is busy with something else is slow by chance, and not each time.
    assert!((0..ROUNDS).any(|_| is_quick()), "slow: {} bytes, {}", text.len(), &text[..text.len().min(80)]);
}

/// Puts one construct after the other around a name.
fn text(draw: &mut Draw<'_>) -> String {
    let mut text = "a.b".to_owned();
    while !draw.is_over() {
        let ((open, close), times) = (draw.pick(&CONSTRUCTS), draw.pick(&[1, 1, 2, 7, 100, 1000, 10_000]));
        let step = open.len() + close.len();
        let times = times.min(BYTES_MAX.saturating_sub(text.len()) / step);
        text = match open {
            // Each dollar quote has a tag of its own.
            "$" => (0..times.min(500)).fold(text, |text, at| {
                if text.len() > BYTES_MAX { text } else { format!("execute $t{at}${text}$t{at}$") }
            }),
            "'" => (0..times.min(8)).fold(text, |text, _| {
                if text.len() > BYTES_MAX { text } else { format!("execute '{}'", text.replace('\'', "''")) }
            }),
            _ => [&*open.repeat(times), &text, &close.repeat(times)].concat(),
        };
    }
    text
}

/// The texts before and after.
const CONSTRUCTS: [(&str, &str); 36] = [
    ("(", ")"),
    ("[", "]"),
    ("EXPLAIN ", ""),
    ("EXPLAIN (ANALYZE) ", ""),
    ("PREPARE a AS ", ""),
    ("EXECUTE a(", ");"),
    ("DEALLOCATE a;", ""),
    ("DECLARE c CURSOR WITH HOLD FOR ", ""),
    ("$", ""),
    ("'", ""),
    ("DO $$", "$$;"),
    ("/* ", " */"),
    ("/* ", ""),
    ("-- ", "\n"),
    ("CASE WHEN ", " THEN 1 END"),
    ("BEGIN ATOMIC ", " END;"),
    ("WITH x AS (", ") SELECT 1"),
    ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ ", "$$;"),
    ("CREATE TABLE t AS EXECUTE a;", ""),
    ("CREATE TEMP TABLE t ON COMMIT DROP AS ", ";"),
    ("SELECT ", ";"),
    ("SELECT f(", ")"),
    ("set_config('", "', 'x', false)"),
    ("set_config('a.b', ", ", true)"),
    ("pg_settings, ", " update "),
    ("set ", " = 1;"),
    ("set local x.", ".y"),
    ("set search_path = a", ", b"),
    ("reset ", ";"),
    ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", ", READ ONLY"),
    ("SAVEPOINT a;", "ROLLBACK TO a;"),
    ("LISTEN a;", "UNLISTEN a;"),
    ("'a'\n", ""),
    ("'a.b', ", ", a.b"),
    ("\"", "\""),
    ("INSERT INTO t VALUES (nextval('s'));", ""),
];

/// A hundred times the time in a build without optimizations, and less than reading the whole text for each of its
/// words would take.
const BYTE_NANOS_MAX: u32 = 20_000;
/// A shorter text may take as long as one of so many bytes.
const BYTES_FEW: usize = 1000;
/// Texts become about this long.
const BYTES_MAX: usize = 60_000;
const ROUNDS: usize = 3;
