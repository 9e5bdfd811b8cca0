//! SQL that is nested as deeply as a megabyte allows.
//!
//! Always true: each text is one Query of an ordinary user.
//! Not here: texts that are long without being deep (`wide`).

use tests::message::{bind, execute, parse, sync};

use super::scene::Scene;
use super::told::Told;

/// `open` many times, `inner`, and `close` as many times.
fn nested(open: &str, inner: &str, close: &str) -> String {
    let count = BYTES / (open.len() + close.len());
    format!("{}{inner}{}", open.repeat(count), close.repeat(count))
}

/// Nested dollar quotes, with `open` before each.
fn dollars(open: &str, inner: &str, depth: usize) -> String {
    let opened: String = (0..depth).map(|number| format!("{open} $a{number}$ ")).collect();
    let closed: String = (0..depth).rev().map(|number| format!(" $a{number}$")).collect();
    format!("{opened}{inner}{closed}")
}

pub(super) fn explain_explain(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("EXPLAIN ", "select 1", ""))
}

pub(super) fn explain_with_options(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("EXPLAIN (ANALYZE) ", "select 1", ""))
}

pub(super) fn explain_explain_prepared(scene: &mut Scene<'_>) -> Told {
    let text = nested("EXPLAIN ", "select 1", "");
    scene.send(&[parse("s", &text), bind("", "s", &[]), execute("", 0), sync()].concat())
}

pub(super) fn prepare_prepare(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("PREPARE a AS ", "select 1", ""))
}

pub(super) fn prepare_explain(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("PREPARE a AS EXPLAIN ", "select 1", ""))
}

pub(super) fn declare_declare(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("DECLARE c CURSOR FOR ", "select 1", ""))
}

pub(super) fn create_table_as(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("CREATE TABLE t AS ", "select 1", ""))
}

pub(super) fn create_rule_do(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("CREATE RULE r AS ON INSERT TO t DO (", "select 1", ")"))
}

pub(super) fn copy_of_queries(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("COPY (", "select 1", ") TO STDOUT"))
}

pub(super) fn parentheses(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", nested("(", "1", ")")))
}

pub(super) fn parentheses_never_closed(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("(", "select 1", ""))
}

pub(super) fn brackets(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select array{}", nested("[", "1", "]")))
}

pub(super) fn selects_in_selects(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("select (", "select 1", ")"))
}

pub(super) fn with_in_with(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("with a as (", "select 1", ") select 1"))
}

pub(super) fn case_in_case(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", nested("case when true then ", "1", " end")))
}

pub(super) fn nots(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", nested("not ", "true", "")))
}

pub(super) fn comments(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("{}{}", "/*".repeat(COMMENTS), "*/".repeat(COMMENTS)))
}

pub(super) fn comments_never_closed(scene: &mut Scene<'_>) -> Told {
    scene.ask(&"/*".repeat(COMMENTS))
}

pub(super) fn functions_in_functions(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", nested("set_config(", "'a.b'", ",'1',false)")))
}

pub(super) fn dollar_quotes_in_do(scene: &mut Scene<'_>) -> Told {
    scene.ask(&dollars("do", "begin end", 3_000))
}

pub(super) fn dollar_quotes_of_a_megabyte_in_do(scene: &mut Scene<'_>) -> Told {
    scene.ask(&dollars("do", "begin perform set_config('a.b', '1', false); end", 40_000))
}

pub(super) fn dollar_quotes_in_execute(scene: &mut Scene<'_>) -> Told {
    scene.ask(&dollars("do language plpgsql", "begin end", 3_000).replace("do language plpgsql", "begin execute"))
}

/// Each level doubles the quotes, so a megabyte is twenty levels deep.
pub(super) fn strings_in_strings(scene: &mut Scene<'_>) -> Told {
    let mut text = "select set_config(''a.b'', ''1'', false)".to_owned();
    while text.len() < BYTES / 2 {
        text = format!("do 'begin execute {} end'", text.replace('\'', "''"));
    }
    scene.ask(&text)
}

pub(super) fn function_bodies_in_bodies(scene: &mut Scene<'_>) -> Told {
    scene.ask(&dollars("create function f() returns void language sql as", "select 1", 3_000))
}

pub(super) fn schema_elements(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("CREATE SCHEMA s ", "", ""))
}

/// Several constructs alternate.
pub(super) fn explain_prepare_execute(scene: &mut Scene<'_>) -> Told {
    scene.ask(&nested("EXPLAIN ANALYZE PREPARE a AS EXPLAIN EXECUTE a(", "1", ")"))
}

const BYTES: usize = 900_000;
/// How deep comments are nested: the time of PostgreSQL's own scanner grows with the square of that, and it handles no
/// signal meanwhile.
const COMMENTS: usize = 40_000;
