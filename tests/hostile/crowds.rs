//! Many attackers at once, each with a different attack.
//!
//! Always true: all of them are logged in before the first begins.
//! Not here: what each does alone (`messages`, `lists`, `deep`).

use std::thread;
use std::time::{Duration, Instant};

use tests::message::{bind, describe, execute, frame, parse, query, strings, sync};
use tests::peer::Peer;

use super::scene::{Scene, pour};
use super::told::Told;

/// The bytes that one attacker sends repeatedly.
type Stream = fn(usize) -> Vec<u8>;

const STREAMS: [Stream; 24] = [
    |_| frame(b'C', &strings(&["Sx"])),
    |number| [parse(&format!("s{number}"), "select 1"), sync()].concat(),
    |number| [parse(&format!("s{number}"), &format!("select {number}")), sync()].concat(),
    |number| parse("", &format!("select {number}")),
    |number| bind("", &format!("none{number}"), &[]),
    |_| describe(b'S', ""),
    |_| [parse("", "select 1"), bind("", "", &[]), execute("", 0), sync()].concat(),
    |number| {
        let name = format!("s{number}");
        [parse(&name, "select 1"), frame(b'C', &strings(&[&format!("S{name}")])), sync()].concat()
    },
    |_| sync(),
    |_| query(";"),
    |number| query(&format!("listen c{number}")),
    |number| query(&format!("set a.b{number} = 1")),
    |number| query(&format!("set a.c{number} = '{}'", "x".repeat(30_000))),
    |number| query(&format!("prepare p{number} as select 1")),
    |number| query(&format!("prepare q{number} as select '{}'", "x".repeat(19_000))),
    |number| query(&format!("select {number} as x")),
    |number| query(&format!("set application_name = 'a{number}'")),
    |number| query(&format!("declare c{number} cursor with hold for select 1")),
    |number| query(&format!("select pg_advisory_lock({number})")),
    |number| query(&format!("create temp table t{number} (a int)")),
    |_| query("notify x, 'y'"),
    |_| query("select repeat('x', 1000000)"),
    |_| query(&"EXPLAIN ".repeat(8_000)),
    |number| query(&format!("select {}", format!("set_config('a.d{number}', 'x', false), ").repeat(1000))),
];

/// Twenty-four clients, one stream each.
pub(super) fn clients_at_once(scene: &mut Scene<'_>) -> Told {
    let mut peers: Vec<Peer> = Vec::new();
    for _ in STREAMS {
        match scene.stranger() {
            Ok(peer) => peers.push(peer),
            Err(told) => return told,
        }
    }
    let attackers = peers.into_iter().zip(STREAMS);
    let attackers: Vec<_> =
        attackers.map(|(mut peer, next)| thread::spawn(move || pour(&mut peer, POUR_BYTES, next))).collect();
    let told: Vec<Told> = attackers.into_iter().map(|attacker| attacker.join().expect("it panics nowhere")).collect();
    told.into_iter().last().unwrap_or(Told::Nothing)
}

/// A long text of some kind. PostgreSQL refuses each at its first words, and has to receive all of it.
type Long = fn(usize) -> String;

const LONG_TEXTS: [Long; 6] = [
    |number| format!("insert into into t values {}", repeated(&format!("({number},'some text',1.5,null),"))),
    |number| format!("select select 1 where id in ({}0)", repeated(&format!("{number}00,"))),
    |_| format!("select select {} 1", repeated("/* a comment */ ")),
    |_| format!("select select {} 1", repeated("-- a comment\n")),
    |number| format!("select select {} 1", repeated(&format!("\"a quoted name {number}\","))),
    |number| format!("select select '{}'", repeated(&format!("{{\"key\": [{number}, true, \"it''s\"]}},"))),
];

/// Twenty-four clients that send statements of 950 kB without a pause.
pub(super) fn long_texts_at_once(scene: &mut Scene<'_>) -> Told {
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..STREAMS.len() {
        match scene.stranger() {
            Ok(peer) => peers.push(peer),
            Err(told) => return told,
        }
    }
    let end = Instant::now() + LONG_MAX;
    let attackers = peers.into_iter().enumerate().map(|(number, mut peer)| {
        let text = LONG_TEXTS[number % LONG_TEXTS.len()](number);
        let bytes = query(&text);
        thread::spawn(move || {
            while Instant::now() < end && matches!(peer.pour(&bytes, end), Ok(sent) if sent == bytes.len()) {}
        })
    });
    let attackers: Vec<_> = attackers.collect();
    attackers.into_iter().for_each(|attacker| attacker.join().expect("it panics nowhere"));
    Told::Nothing
}

fn repeated(piece: &str) -> String {
    piece.repeat(LONG_BYTES / piece.len())
}

/// For each attacker.
const POUR_BYTES: usize = 64 << 20;
const LONG_BYTES: usize = 950_000;
/// For how long they are sent.
const LONG_MAX: Duration = Duration::from_secs(5);
