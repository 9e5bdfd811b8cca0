//! SQL texts of a megabyte whose cost may exceed their length.
//!
//! Always true: each text is one Query of an ordinary user, short enough for PostgreSQL to accept.
//! Not here: nested texts (`deep`).

use tests::message::{bind, execute, parse, sync};

use super::scene::Scene;
use super::told::Told;

fn often(piece: &str) -> String {
    piece.repeat(BYTES / piece.len())
}

fn numbered(piece: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= BYTES {
            break;
        }
        text.push_str(&piece(number));
    }
    text
}

pub(super) fn set_config(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {} 1", often("set_config('a.b','1',false),")))
}

pub(super) fn set_config_words(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", often("set_config ")))
}

pub(super) fn set_config_opened(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", often("set_config(")))
}

pub(super) fn pg_settings(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", often("pg_settings ")))
}

pub(super) fn updates_of_pg_settings(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("update pg_settings set setting='1' where false;"))
}

pub(super) fn empty_statements(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often(";"))
}

pub(super) fn selects(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("select;"))
}

pub(super) fn sets(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("set a.b=1;"))
}

pub(super) fn sets_of_different_names(scene: &mut Scene<'_>) -> Told {
    scene.ask(&numbered(|number| format!("set a.b{number}=1;")))
}

pub(super) fn local_sets_and_commits(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("begin;set local a.b=1;commit;"))
}

pub(super) fn prepares(scene: &mut Scene<'_>) -> Told {
    scene.ask(&numbered(|number| format!("prepare p{number} as select 1;")))
}

pub(super) fn deallocates(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("deallocate all;"))
}

pub(super) fn executes(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("prepare a as select 1;{}", often("execute a;")))
}

pub(super) fn listens(scene: &mut Scene<'_>) -> Told {
    scene.ask(&numbered(|number| format!("listen l{number};")))
}

pub(super) fn savepoints(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("begin;{}", often("savepoint s;set a.b=1;")))
}

pub(super) fn rollbacks_to_savepoints(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("begin;savepoint s;{}", often("set a.b=1;rollback to s;")))
}

pub(super) fn a_long_identifier(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", often("x")))
}

pub(super) fn a_long_name_to_set(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("set a.{} = 1", often("x")))
}

pub(super) fn a_long_quoted_identifier(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("set \"{}\" = 1", often("\"\"")))
}

pub(super) fn a_long_escape_string(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select length(E'{}')", often("\\n\\'\\\\")))
}

pub(super) fn escape_strings(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {} 1", often("E'\\'',")))
}

pub(super) fn a_string_never_closed(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select '{}", often("x''")))
}

pub(super) fn strings_over_lines(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select 'a'{}", often("\n'a'")))
}

/// Each may begin a dollar quote, and none ends.
pub(super) fn dollar_tags_never_closed(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {}", numbered(|number| format!("$a{number}$ "))))
}

pub(super) fn dollar_quotes(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {} 1", often("$a$x$a$,")))
}

pub(super) fn dollars_alone(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("$"))
}

pub(super) fn comments_opened_and_closed(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("{WRONG}{}", often("/**/")))
}

pub(super) fn comments_to_the_end_of_the_line(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("{WRONG}{}", often("--\n")))
}

pub(super) fn one_byte_tokens(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select 1{}", often("+1")))
}

pub(super) fn operators(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {} 1", often("<->")))
}

pub(super) fn casts(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select 1{}", often("::int")))
}

pub(super) fn placeholders(scene: &mut Scene<'_>) -> Told {
    let text = format!("select {} 1", often("$1,"));
    scene.send(&[parse("s", &text), bind("", "s", &["1"]), execute("", 0), sync()].concat())
}

pub(super) fn dots(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select a{}", often(".a")))
}

pub(super) fn calls_of_different_functions(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select {} 1", numbered(|number| format!("f{number}(),"))))
}

pub(super) fn tables(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select 1 from {} pg_class", numbered(|number| format!("t{number},"))))
}

pub(super) fn values(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("select count(*) from (values {} (1)) v", often("(1),")))
}

pub(super) fn do_blocks(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("do 'begin end';"))
}

pub(super) fn executes_in_a_do_block(scene: &mut Scene<'_>) -> Told {
    scene.ask(&format!("do $$ begin if false then {} end if; end $$", often("execute 'set a.b=1';")))
}

pub(super) fn discards(scene: &mut Scene<'_>) -> Told {
    scene.ask(&often("reset all;"))
}

const BYTES: usize = 900_000;
/// PostgreSQL parses no further than this. The time of its scanner grows with the square of the comments between two words,
/// and it handles no signal meanwhile: the attack is on a pooler that reads the whole text.
const WRONG: &str = "select )";
