//! What the owner of a database can create in it: functions, and objects that call one implicitly.
//!
//! Always true: objects are created directly in PostgreSQL before the attack, which consists of ordinary statements of an
//! ordinary user.
//! Not here: what such a function does to clients that share the servers (`real/pooling/holes.rs`).

use std::time::{Duration, Instant};

use tests::message::query;

use super::scene::Scene;
use super::told::Told;

/// Creates these objects in the stranger's database, and runs one such statement after the other as the stranger.
fn use_of(scene: &mut Scene<'_>, made: &[String], next: impl Fn(usize) -> String) -> Told {
    let mut postgres = scene.postgres.client(&scene.database);
    for sql in made {
        postgres.run(sql);
    }
    postgres.run("grant all on all tables in schema public to public");
    let mut peer = match scene.stranger() {
        Ok(peer) => peer,
        Err(told) => return told,
    };
    let end = Instant::now() + USE;
    let mut told = Told::Nothing;
    for number in 0.. {
        if peer.try_send(&query(&next(number))).is_err() {
            return Told::Closed;
        }
        told = Told::read(&mut peer, Instant::now() + PATIENCE);
        if matches!(told, Told::Closed | Told::Nothing) || Instant::now() > end {
            break;
        }
    }
    told
}

/// The same, with a function `setter` that sets a parameter and returns its argument.
fn use_of_setter(scene: &mut Scene<'_>, made: &[&str], next: impl Fn(usize) -> String) -> Told {
    let setter = "create function setter(x int) returns int language plpgsql as \
                  $$begin perform set_config('a.b' || x, 'v', false); return x; end$$";
    let made: Vec<String> = [&[setter][..], made].concat().into_iter().map(str::to_owned).collect();
    use_of(scene, &made, next)
}

/// So many functions in one text, each with a body.
fn functions(count: usize, body: impl Fn(usize) -> String) -> String {
    let each = |number| format!("create function f{number}() returns int language plpgsql as $${}$$;", body(number));
    (0..count).map(each).collect()
}

pub(super) fn ten_thousand_functions(scene: &mut Scene<'_>) -> Told {
    let body =
        |number: usize| format!("begin perform count(*) from pg_class where oid > {number}; return {number}; end");
    use_of(scene, &[functions(10_000, body)], |number| format!("select f{}()", number % 10_000))
}

pub(super) fn ten_thousand_functions_that_set(scene: &mut Scene<'_>) -> Told {
    let body = |number: usize| format!("begin perform set_config('a.b{number}', 'v', false); return 1; end");
    use_of(scene, &[functions(10_000, body)], |number| format!("select f{}()", number % 10_000))
}

/// Functions with 380 MB of source text.
pub(super) fn long_functions(scene: &mut Scene<'_>) -> Told {
    let made = "set check_function_bodies = off; do $do$ begin for i in 0..1999 loop execute format(\
                'create function f%s() returns int language plpgsql as %L', i,\
                'begin return 1; end -- ' || repeat('x ', 95000)); end loop; end $do$";
    use_of(scene, &[made.to_owned()], |number| format!("select f{}()", number % 2_000))
}

pub(super) fn a_chain_of_functions(scene: &mut Scene<'_>) -> Told {
    let body = |number: usize| format!("begin return f{}(); end", number + 1);
    let last = "create function f2000() returns int language plpgsql as \
                $$begin perform set_config('a.b', 'v', false); return 1; end$$";
    use_of(scene, &[functions(2_000, body), last.to_owned()], |number| format!("select f{}()", 1_990 + number % 10))
}

pub(super) fn functions_that_all_call_each_other(scene: &mut Scene<'_>) -> Told {
    let calls: String = (0..300).map(|number| format!("perform f{number}();")).collect();
    let body = |_: usize| format!("begin return 1; {calls} end");
    use_of(scene, &[functions(300, body)], |number| format!("select f{}()", number % 300))
}

pub(super) fn a_function_that_names_many_settings(scene: &mut Scene<'_>) -> Told {
    let sets: String = (0..30_000).map(|number| format!("perform set_config('a.b{number}', 'v', false);")).collect();
    use_of(scene, &[functions(1, |_| format!("begin return 1; {sets} end"))], |_| "select f0()".to_owned())
}

pub(super) fn views_upon_views(scene: &mut Scene<'_>) -> Told {
    let made: String = (1..1_000).map(|at| format!("create view v{at} as select * from v{};", at - 1)).collect();
    let made = [
        "create function setter(x int) returns int language sql as 'select x';".to_owned()
            + "create view v0 as select setter(1)",
        made,
    ];
    use_of(scene, &made, |number| format!("select * from v{}", number % 1_000))
}

pub(super) fn rules_that_set(scene: &mut Scene<'_>) -> Told {
    let rule = "create rule r as on insert to t do also select setter(new.x)";
    use_of_setter(scene, &["create table t(x int)", rule], |number| format!("insert into t values ({number})"))
}

pub(super) fn policies_that_set(scene: &mut Scene<'_>) -> Told {
    let made = [
        "create table t(x int)",
        "insert into t select generate_series(1, 100)",
        "alter table t enable row level security",
        "create policy p on t using (setter(x) > 0)",
    ];
    use_of_setter(scene, &made, |number| format!("select x from t where x > {}", number % 100))
}

pub(super) fn triggers_that_set(scene: &mut Scene<'_>) -> Told {
    let made = [
        "create table t(x int)",
        "create function fire() returns trigger language plpgsql as \
         $$begin perform set_config('a.b' || new.x, 'v', false); return new; end$$",
        "create trigger g before insert on t for each row execute procedure fire()",
    ];
    use_of_setter(scene, &made, |number| format!("insert into t values ({number})"))
}

pub(super) fn defaults_that_set(scene: &mut Scene<'_>) -> Told {
    let made = [
        "create sequence s",
        "grant all on sequence s to public",
        "create table t(x int default setter(nextval('s')::int), y int)",
    ];
    use_of_setter(scene, &made, |number| format!("insert into t(y) values ({number})"))
}

pub(super) fn checks_that_set(scene: &mut Scene<'_>) -> Told {
    let made = ["create table t(x int check (setter(x) >= 0))"];
    use_of_setter(scene, &made, |number| format!("insert into t values ({number})"))
}

pub(super) fn operators_that_set(scene: &mut Scene<'_>) -> Told {
    let made = ["create operator ## (rightarg = int, procedure = setter)"];
    use_of_setter(scene, &made, |number| format!("select ## {number}"))
}

pub(super) fn casts_that_set(scene: &mut Scene<'_>) -> Told {
    let made = [
        "create type w as (x int)",
        "create function setter(w) returns int language plpgsql as \
         $$begin perform set_config('a.b' || $1.x, 'v', false); return 1; end$$",
        "create cast (w as int) with function setter(w)",
    ];
    use_of_setter(scene, &made, |number| format!("select row({number})::w::int"))
}

pub(super) fn triggers_that_notify(scene: &mut Scene<'_>) -> Told {
    let made = [
        "create table t(x int)",
        "create function fire() returns trigger language plpgsql as \
         $$begin perform pg_notify('c', repeat('x', 7000) || n) from generate_series(1, 1000) n; return new; end$$",
        "create trigger g before insert on t for each row execute procedure fire()",
    ];
    let next = |number: usize| match number {
        0 => "listen c".to_owned(),
        _ => format!("insert into t values ({number})"),
    };
    use_of_setter(scene, &made, next)
}

/// How long the statements continue: long enough for state probes, and for the functions of the database to be read.
const USE: Duration = Duration::from_secs(1);
/// How long one statement may take.
const PATIENCE: Duration = Duration::from_secs(10);
