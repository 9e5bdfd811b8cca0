//! Things of which a client, or one user after the other, can create more and more.
//!
//! Always true: each of them is small, and there are many.
//! Not here: what accumulates by messages while a query runs (`messages`).

use tests::message::{bind, frame, parse, query, strings, sync};

use super::scene::{BYSTANDER, Scene, pour};
use super::told::Told;

fn queries(scene: &mut Scene<'_>, next: impl Fn(usize) -> String) -> Told {
    stream(scene, |number| query(&next(number)))
}

fn stream(scene: &mut Scene<'_>, next: impl FnMut(usize) -> Vec<u8>) -> Told {
    match scene.stranger() {
        Ok(mut peer) => pour(&mut peer, POUR_BYTES, next),
        Err(told) => told,
    }
}

pub(super) fn channels(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| format!("listen c{number}"))
}

pub(super) fn prepared_names(scene: &mut Scene<'_>) -> Told {
    stream(scene, |number| [parse(&format!("s{number}"), "select 1"), sync()].concat())
}

pub(super) fn prepared_texts(scene: &mut Scene<'_>) -> Told {
    stream(scene, |number| [parse(&format!("s{number}"), &format!("select {number}")), sync()].concat())
}

pub(super) fn portals_in_a_transaction(scene: &mut Scene<'_>) -> Told {
    let begin =
        |number: usize| if number == 0 { [query("begin"), parse("s", "select 1")].concat() } else { Vec::new() };
    stream(scene, |number| [begin(number), bind(&format!("p{number}"), "s", &[])].concat())
}

pub(super) fn settings_with_dots(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| format!("set a.b{number} = 1"))
}

pub(super) fn long_settings_with_dots(scene: &mut Scene<'_>) -> Told {
    let long = "x".repeat(30_000);
    queries(scene, |number| format!("set a.{long}{number} = 1"))
}

pub(super) fn long_values(scene: &mut Scene<'_>) -> Told {
    let long = "x".repeat(30_000);
    queries(scene, |number| format!("set a.b{number} = '{long}'"))
}

pub(super) fn statements_prepared_by_sql(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| format!("prepare p{number} as select 1"))
}

pub(super) fn long_statements_prepared_by_sql(scene: &mut Scene<'_>) -> Told {
    let long = "x".repeat(19_000);
    queries(scene, |number| format!("prepare p{number} as select '{long}'"))
}

pub(super) fn savepoints(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| if number == 0 { "begin".to_owned() } else { format!("savepoint s{number}") })
}

pub(super) fn texts_that_are_never_seen_again(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| format!("select {number} as x"))
}

pub(super) fn names_of_applications(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| format!("set application_name = 'a{number}'"))
}

pub(super) fn cursors_with_hold(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| format!("declare c{number} cursor with hold for select 1"))
}

pub(super) fn advisory_locks(scene: &mut Scene<'_>) -> Told {
    queries(scene, |number| format!("select pg_advisory_lock({number})"))
}

pub(super) fn closes_of_names_that_are_not_there(scene: &mut Scene<'_>) -> Told {
    stream(scene, |number| [frame(b'C', &strings(&[&format!("Ss{number}")])), sync()].concat())
}

/// Logins of many unknown users, one after the other.
pub(super) fn users_seen_once(scene: &mut Scene<'_>) -> Told {
    scene.logins(3_000, |number, database| vec![("user", format!("u{number}")), ("database", database.to_owned())])
}

pub(super) fn databases_seen_once(scene: &mut Scene<'_>) -> Told {
    scene.logins(3_000, |number, _| vec![("user", BYSTANDER.to_owned()), ("database", format!("d{number}"))])
}

const POUR_BYTES: usize = 64 << 20;
