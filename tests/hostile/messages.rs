//! Streams of messages of one type each, sent while a longer query runs.
//!
//! Always true: the answers are not read before everything is sent.
//! Not here: what SQL means (`deep`, `wide`), messages before the login (`doors`).

use std::time::{Duration, Instant};

use tests::message::{bind, describe, execute, frame, parse, query, strings, sync};

use super::scene::{PATIENCE, Scene, pour, send};
use super::told::Told;

/// Sends `first`, which keeps the server busy, then the stream.
fn behind(scene: &mut Scene<'_>, first: &[u8], next: impl FnMut(usize) -> Vec<u8>) -> Told {
    let mut peer = match scene.stranger() {
        Ok(peer) => peer,
        Err(told) => return told,
    };
    match peer.try_send(first) {
        Ok(()) => pour(&mut peer, POUR_BYTES, next),
        Err(_) => Told::Closed,
    }
}

fn behind_query(scene: &mut Scene<'_>, next: impl FnMut(usize) -> Vec<u8>) -> Told {
    behind(scene, &query(SLOW), next)
}

/// In a batch without a Sync, whose first statement takes long.
fn in_batch(scene: &mut Scene<'_>, next: impl FnMut(usize) -> Vec<u8>) -> Told {
    let first = [parse("", SLOW), bind("", "", &[]), execute("", 0), frame(b'H', &[])].concat();
    behind(scene, &first, next)
}

pub(super) fn close_statements(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'C', &strings(&["Sx"])))
}

pub(super) fn close_statements_in_a_batch(scene: &mut Scene<'_>) -> Told {
    in_batch(scene, |_| frame(b'C', &strings(&["S"])))
}

pub(super) fn close_portals(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'C', &strings(&["Px"])))
}

pub(super) fn parse_without_name(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| parse("", "select 1"))
}

pub(super) fn parse_with_new_names(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |number| parse(&format!("s{number}"), "select 1"))
}

pub(super) fn parse_new_texts(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |number| parse("", &format!("select {number}")))
}

pub(super) fn parse_same_name(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| parse("s", "select 1"))
}

pub(super) fn bind_without_name(scene: &mut Scene<'_>) -> Told {
    in_batch(scene, |_| bind("", "", &[]))
}

pub(super) fn bind_new_portals(scene: &mut Scene<'_>) -> Told {
    in_batch(scene, |number| bind(&format!("p{number}"), "", &[]))
}

pub(super) fn bind_unknown_statement(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |number| bind("", &format!("none{number}"), &[]))
}

pub(super) fn describe_statements(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| describe(b'S', ""))
}

pub(super) fn describe_portals(scene: &mut Scene<'_>) -> Told {
    in_batch(scene, |_| describe(b'P', ""))
}

pub(super) fn execute_without_name(scene: &mut Scene<'_>) -> Told {
    in_batch(scene, |_| execute("", 1))
}

pub(super) fn flush(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'H', &[]))
}

pub(super) fn flush_in_a_batch(scene: &mut Scene<'_>) -> Told {
    in_batch(scene, |_| frame(b'H', &[]))
}

pub(super) fn syncs(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| sync())
}

pub(super) fn copy_data_without_copy(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'd', b"x"))
}

pub(super) fn copy_done_without_copy(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'c', &[]))
}

pub(super) fn copy_fail_without_copy(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'f', b"why\0"))
}

pub(super) fn function_calls(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'F', &[0, 0, 0, 77, 0, 0, 0, 0, 0, 0]))
}

pub(super) fn queries(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| query(";"))
}

pub(super) fn queries_that_set(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |number| query(&format!("set application_name = 'a{number}'")))
}

pub(super) fn passwords_after_login(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'p', b"secret\0"))
}

pub(super) fn unknown_types(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| frame(b'?', &[]))
}

pub(super) fn batches(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |_| [parse("", "select 1"), bind("", "", &[]), execute("", 0), sync()].concat())
}

pub(super) fn prepare_and_close_in_turns(scene: &mut Scene<'_>) -> Told {
    behind_query(scene, |number| {
        let name = format!("s{number}");
        [parse(&name, "select 1"), frame(b'C', &strings(&[&format!("S{name}")])), sync()].concat()
    })
}

/// None of them is answered, because the first fails.
pub(super) fn parses_behind_one_that_fails(scene: &mut Scene<'_>) -> Told {
    let mut bytes = parse("bad", "nonsense");
    (0..60_000).for_each(|number| bytes.extend(parse(&format!("s{number}"), "select 1")));
    bytes.extend(sync());
    scene.send(&bytes)
}

/// A text of many statements that is bound repeatedly.
pub(super) fn binds_of_a_text_of_many_acts(scene: &mut Scene<'_>) -> Told {
    let mut bytes = parse("s", &"set a.b = 1;".repeat(80_000));
    (0..20_000).for_each(|_| bytes.extend(bind("", "s", &[])));
    bytes.extend(sync());
    scene.send(&bytes)
}

/// A statement with many parameters, and a Bind with many values.
pub(super) fn binds_of_many_values(scene: &mut Scene<'_>) -> Told {
    let values = vec!["1"; 60_000];
    let mut bytes = parse("s", "select 1");
    (0..60).for_each(|_| bytes.extend(bind("", "s", &values)));
    bytes.extend(sync());
    scene.send(&bytes)
}

pub(super) fn length_of_a_gigabyte(scene: &mut Scene<'_>) -> Told {
    let first = [&[b'Q'][..], &0x3fff_ff00_u32.to_be_bytes()].concat();
    behind(scene, &first, |_| vec![b'x'; 1024])
}

pub(super) fn length_below_zero(scene: &mut Scene<'_>) -> Told {
    scene.send(&[b'Q', 0xff, 0xff, 0xff, 0xff, 0, 0])
}

pub(super) fn one_byte_at_a_time(scene: &mut Scene<'_>) -> Told {
    let mut peer = match scene.stranger() {
        Ok(peer) => peer,
        Err(told) => return told,
    };
    let text = query(&format!("select '{}'", "x".repeat(30_000)));
    match peer.send_slowly(&text) {
        Ok(()) => Told::read(&mut peer, Instant::now() + PATIENCE),
        Err(_) => Told::Closed,
    }
}

/// A gigabyte of rows that nobody reads.
pub(super) fn rows_that_are_not_read(scene: &mut Scene<'_>) -> Told {
    let mut peers = Vec::new();
    for _ in 0..5 {
        match scene.stranger() {
            Ok(peer) => peers.push(peer),
            Err(told) => return told,
        }
    }
    for peer in &mut peers {
        let _ = peer.try_send(&query("select repeat('x', 1000000) from generate_series(1, 200)"));
    }
    // The time to fill all buffers on the way.
    std::thread::park_timeout(Duration::from_secs(1));
    Told::Nothing
}

pub(super) fn a_wide_row(scene: &mut Scene<'_>) -> Told {
    scene.ask("select repeat('x', 250000000)")
}

pub(super) fn notices_without_end(scene: &mut Scene<'_>) -> Told {
    scene.ask("do $$ begin for i in 1..100000 loop raise notice 'n'; end loop; end $$")
}

/// Many queries in one write, each of which fails.
pub(super) fn errors_without_end(scene: &mut Scene<'_>) -> Told {
    let mut peer = match scene.stranger() {
        Ok(peer) => peer,
        Err(told) => return told,
    };
    send(&mut peer, &query("nonsense").repeat(20_000))
}

const SLOW: &str = "select pg_sleep(3)";
/// More than any bound of memory, so that holding it all is noticed.
const POUR_BYTES: usize = 128 << 20;
