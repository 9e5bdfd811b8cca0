//! Texts of SQL that are long and deep, made of what statements are made of: what reading them costs.
//!
//! Input: pairs of bytes, each a construct and how often it is put around what there is.
//!
//! Always true: what is known of a text has a bound, whatever the text; reading takes so many nanoseconds for a byte, and not more for a
//! longer text.
//! Not here: what such texts touch (`crates/route/tests/nested.rs`), any bytes at all (`sql`).

use std::hint::black_box;
use std::time::Instant;

use route::{Class, Dialect, Knowledge, Source};

use crate::Target;
use crate::draw::Draw;

/// See the head of this file.
pub const TARGET: Target = Target { name: "nested", run, words: &[], bytes_max: 24 };

/// Reads the text as that of a client and as that of a function.
///
/// # Panics
/// Something is not as promised.
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
    // A machine that does something else is slow by chance, and not each time.
    assert!((0..ROUNDS).any(|_| is_quick()), "slow: {} bytes, {}", text.len(), &text[..text.len().min(80)]);
}

/// Wraps one construct after the other around a name.
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

/// What stands in front of a text, and what behind it.
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

/// A hundred times what it takes in a build without optimizations, and less than it takes to look at the whole text for each word of it.
const BYTE_NANOS_MAX: u32 = 20_000;
/// A shorter text takes as long as one of so many bytes.
const BYTES_FEW: usize = 1000;
/// About so long do texts become.
const BYTES_MAX: usize = 60_000;
const ROUNDS: usize = 3;
