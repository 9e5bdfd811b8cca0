//! Passwords that are hashed for SCRAM, which is slow by design: a server, or a stranger, determines how slow.
//!
//! Always true: the server is the stranger's own, or the secret belongs to users that nobody else uses.
//! Not here: which passwords are accepted (`real/logins/passwords.rs`).

use std::net::TcpStream;
use std::time::Instant;

use tests::fake_server::FakeServer;
use tests::message::{frame, startup, strings};
use tests::peer::{Lost, Peer};

use super::scene::{EVERYBODY, POUR_MAX, STRANGER, Scene};
use super::told::Told;

/// Several clients of the stranger need a server that asks for so many iterations, with another salt each time.
fn dials(scene: &mut Scene<'_>, iterations: u32) -> Told {
    let server = FakeServer::open(move |stream| drop(asks(stream, iterations)));
    scene.lead_to(server.port(), "user=stranger password=secret");
    scene.set("server_tls_sslmode = disable");
    scene.set("server_login_retry = 0.1");
    let database = scene.database.clone();
    let packet = startup(0, &[("user", STRANGER), ("database", &database)]);
    say_at_once(scene, CLIENTS, |_| packet.clone())
}

/// Plays PostgreSQL up to its SCRAM challenge, and closes after the answer.
fn asks(stream: TcpStream, iterations: u32) -> Result<(), Lost> {
    let mut peer = Peer::accepted(stream).map_err(|_| Lost::Closed)?;
    peer.packet()?;
    let _ = peer.try_send(&frame(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"));
    let first = String::from_utf8_lossy(&peer.frame()?.body).into_owned();
    let (_, nonce) = first.split_once(",r=").ok_or(Lost::Closed)?;
    let question = format!("r={nonce}abc,s=c2FsdHNhbHRzYWx0c2FsdA==,i={iterations}");
    let _ = peer.try_send(&frame(b'R', &[b"\0\0\0\x0b", question.as_bytes()].concat()));
    peer.frame().map(drop)
}

/// So many connections each send these bytes. Returns what the last one that was answered was told.
fn say_at_once(scene: &mut Scene<'_>, count: usize, says: impl Fn(usize) -> Vec<u8>) -> Told {
    let mut peers = Vec::new();
    for number in 0..count {
        let Some(mut peer) = scene.knock() else { return Told::Closed };
        if peer.try_send(&says(number)).is_err() {
            return Told::Closed;
        }
        peers.push(peer);
    }
    let end = Instant::now() + POUR_MAX;
    let told = |peer: &mut Peer| Some(Told::read(peer, end)).filter(|told| *told != Told::Nothing);
    peers.iter_mut().rev().find_map(told).unwrap_or(Told::Nothing)
}

/// So many logins with a password in plain text, for users with a SCRAM secret.
fn passwords(scene: &mut Scene<'_>, count: usize) -> Told {
    let path = scene.place.directory().join(format!("{}_hba", scene.database));
    scene.place.write(&path, &format!("host all {HASHED} all password\n{EVERYBODY}"));
    scene.set("auth_type = hba");
    scene.set(&format!("auth_hba_file = {}", path.display()));
    scene.secret(HASHED, SCRAM_SECRET);
    let packet = startup(0, &[("user", HASHED), ("database", &scene.database)]);
    // The password is asked for, and may as well be sent before that.
    let login = [packet, frame(b'p', &strings(&["guessed"]))].concat();
    say_at_once(scene, count, |_| login.clone())
}

pub(super) fn a_server_of_many_iterations(scene: &mut Scene<'_>) -> Told {
    dials(scene, 1_000_000)
}

pub(super) fn a_server_of_too_many_iterations(scene: &mut Scene<'_>) -> Told {
    match dials(scene, 10_000_000) {
        told @ Told::Refused(_) => told,
        told => Told::Failed(format!("its clients were not refused: {told}")),
    }
}

pub(super) fn passwords_in_clear_text(scene: &mut Scene<'_>) -> Told {
    passwords(scene, 20)
}

pub(super) fn more_passwords_in_clear_text_than_are_hashed(scene: &mut Scene<'_>) -> Told {
    match passwords(scene, 1100) {
        Told::Refused(code) if code == "53300" => Told::Refused(code),
        told => Told::Failed(format!("there was a place for each: {told}")),
    }
}

pub(super) fn passwords_of_the_file(scene: &mut Scene<'_>) -> Told {
    let path = scene.place.directory().join(format!("{}_hba", scene.database));
    scene.place.write(&path, &format!("host {} all all scram-sha-256\n{EVERYBODY}", scene.database));
    scene.set("auth_type = hba");
    scene.set(&format!("auth_hba_file = {}", path.display()));
    scene.set("scram_iterations = 500000");
    for number in 0..CLIENTS {
        scene.secret(&format!("user{number}"), "secret");
    }
    let database = scene.database.clone();
    say_at_once(scene, CLIENTS, |number| startup(0, &[("user", &format!("user{number}")), ("database", &database)]))
}

/// Enough clients to make a turn long, if passwords were hashed in it.
const CLIENTS: usize = 8;
const HASHED: &str = "hashed";
/// Of a password that nobody knows.
const SCRAM_SECRET: &str = "SCRAM-SHA-256$500000:c2FsdHNhbHRzYWx0c2FsdA==$\
                            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
