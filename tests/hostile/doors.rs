//! What can be done before the login, and by logging in.
//!
//! Always true: connections stay open until the attack ends.
//! Not here: attacks after the login (`messages`, `lists`).

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use tests::authority::Authority;
use tests::hello::client_hello;
use tests::message::{CANCEL_CODE, SSL_CODE, cancel_request, frame, packet, startup};
use tests::peer::Peer;

use super::scene::{EVERYBODY, PATIENCE, STRANGER, Scene, pour};
use super::told::Told;

/// Opens so many connections, each of which sends these bytes and no more. Returns what the last one is told.
fn crowd(scene: &mut Scene<'_>, count: usize, bytes: &[u8]) -> Told {
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..count {
        let Some(mut peer) = scene.knock() else { return Told::Closed };
        let _ = peer.try_send(bytes);
        peers.push(peer);
    }
    peers.last_mut().map_or(Told::Nothing, |peer| Told::read(peer, Instant::now() + Duration::from_millis(500)))
}

fn one(scene: &mut Scene<'_>, bytes: &[u8]) -> Told {
    crowd(scene, 1, bytes)
}

pub(super) fn silent_connections(scene: &mut Scene<'_>) -> Told {
    crowd(scene, 2_500, &[])
}

pub(super) fn half_a_startup_packet(scene: &mut Scene<'_>) -> Told {
    crowd(scene, 2_500, &startup(0, &[("user", STRANGER)])[..9])
}

pub(super) fn encryption_asked_for_and_no_more(scene: &mut Scene<'_>) -> Told {
    crowd(scene, 2_500, &packet(&SSL_CODE.to_be_bytes()))
}

pub(super) fn a_startup_packet_of_a_gigabyte(scene: &mut Scene<'_>) -> Told {
    one(scene, &[0x3f, 0xff, 0xff, 0xff, 0, 3, 0, 0])
}

pub(super) fn a_startup_packet_below_zero(scene: &mut Scene<'_>) -> Told {
    one(scene, &[0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0])
}

pub(super) fn a_startup_packet_of_many_parameters(scene: &mut Scene<'_>) -> Told {
    let names: Vec<String> = (0..1_000).map(|number| format!("a{number}")).collect();
    let mut parameters = vec![("user", STRANGER)];
    parameters.extend(names.iter().map(|name| (name.as_str(), "1")));
    crowd(scene, 500, &startup(0, &parameters))
}

pub(super) fn nonsense(scene: &mut Scene<'_>) -> Told {
    crowd(scene, 1_000, b"GET / HTTP/1.1\r\nHost: database\r\n\r\n")
}

pub(super) fn half_cancel_requests(scene: &mut Scene<'_>) -> Told {
    crowd(scene, 2_500, &[&16_u32.to_be_bytes()[..], &CANCEL_CODE.to_be_bytes()].concat())
}

pub(super) fn cancel_requests(scene: &mut Scene<'_>) -> Told {
    crowd(scene, 2_500, &cancel_request(1, &[1, 2, 3, 4]))
}

/// The longest cancel requests that the protocol allows.
pub(super) fn long_cancel_requests(scene: &mut Scene<'_>) -> Told {
    crowd(scene, 2_500, &cancel_request(1, &[7; 256]))
}

pub(super) fn messages_before_the_login(scene: &mut Scene<'_>) -> Told {
    match scene.knock() {
        Some(mut peer) => pour(&mut peer, 64 << 20, |_| frame(b'p', b"secret\0")),
        None => Told::Closed,
    }
}

pub(super) fn logins_and_departures(scene: &mut Scene<'_>) -> Told {
    scene.logins(3_000, |_, database| vec![("user", STRANGER.to_owned()), ("database", database.to_owned())])
}

/// The log file is a pipe that nobody reads, as standard error may be; each login writes a line to it.
pub(super) fn logins_and_a_log_that_stands_still(scene: &mut Scene<'_>) -> Told {
    let path = scene.place.directory().join("log");
    let made = Command::new("mkfifo").args(["-m", "666"]).arg(&path).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is part of every system");
    // Held open for reading, or the pooler's start would block until somebody reads.
    let _held = File::options().read(true).write(true).open(&path).expect("a pipe");
    scene.set(&format!("logfile = {}", path.display()));
    scene.set("log_connections = 1");
    logins_and_departures(scene)
}

pub(super) fn bad_options(scene: &mut Scene<'_>) -> Told {
    let bad = |_: usize, database: &str| {
        let options = ("options", "-c no_such_guc=1".to_owned());
        vec![("user", STRANGER.to_owned()), ("database", database.to_owned()), options]
    };
    scene.logins(300, bad)
}

/// Many connections name a user with few allowed connections, without a password; the user itself can still log in.
pub(super) fn claims_to_be_somebody_else(scene: &mut Scene<'_>) -> Told {
    let path = scene.place.directory().join(format!("{}_hba", scene.database));
    scene.place.write(&path, &format!("host all {OWNER} all password\n{EVERYBODY}"));
    scene.set("auth_type = hba");
    scene.set(&format!("auth_hba_file = {}", path.display()));
    scene.set("max_user_client_connections = 5");
    scene.secret(OWNER, "secret");
    scene.set_own("user=stranger");
    let packet = startup(0, &[("user", OWNER), ("database", &scene.database)]);
    let mut claimants = Vec::new();
    for _ in 0..500 {
        let Some(mut peer) = scene.knock() else { return Told::Closed };
        if peer.try_send(&packet).is_err() {
            return Told::Closed;
        }
        claimants.push(peer);
    }
    let Some(mut owner) = scene.knock() else { return Told::Closed };
    let _ = owner.try_send(&[packet, frame(b'p', b"secret\0")].concat());
    match Told::read(&mut owner, Instant::now() + PATIENCE) {
        Told::Answered => Told::Answered,
        told => Told::Failed(format!("its user was kept out: {told}")),
    }
}

/// More connections than the limit for those that have not logged in, which send these bytes and no more; a client from
/// another address can still log in.
fn crowd_from_elsewhere(scene: &mut Scene<'_>, count: usize, bytes: &[u8]) -> Told {
    // So that silent connections are accepted at once.
    scene.set("tcp_defer_accept = 0");
    if scene.place.is_trunkline() {
        scene.set("max_unauthenticated_connections = 500");
    }
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..count {
        let Some(mut peer) = scene.knock_from_elsewhere() else { return Told::Closed };
        let _ = peer.try_send(bytes);
        peers.push(peer);
    }
    match scene.stranger() {
        Ok(_) => Told::Answered,
        Err(told) => Told::Failed(format!("an honest client was kept out: {told}")),
    }
}

pub(super) fn silent_by_the_thousand(scene: &mut Scene<'_>) -> Told {
    crowd_from_elsewhere(scene, 4_000, &[])
}

pub(super) fn cancels_half_open(scene: &mut Scene<'_>) -> Told {
    crowd_from_elsewhere(scene, 4_000, &[&16_u32.to_be_bytes()[..], &CANCEL_CODE.to_be_bytes(), &[0; 4]].concat())
}

/// Thousands of TLS handshakes that only begin.
pub(super) fn tls_flood(scene: &mut Scene<'_>) -> Told {
    let authority = Authority::new("an authority");
    let files = authority.signs("pooler", &["localhost"]).files(scene.place);
    scene.set("client_tls_sslmode = allow");
    scene.set(&format!("client_tls_cert_file = {}", files.certificate.display()));
    scene.set(&format!("client_tls_key_file = {}", files.key.display()));
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..2_000 {
        let Some(mut peer) = scene.knock_from_elsewhere() else { return Told::Closed };
        let _ = peer.try_send(&packet(&SSL_CODE.to_be_bytes()));
        peers.push(peer);
    }
    let hello = client_hello();
    for peer in &mut peers {
        let _ = peer.bytes(1);
        let _ = peer.try_send(&hello);
    }
    let Some(mut honest) = scene.knock() else { return Told::Closed };
    let _ = honest.try_send(&packet(&SSL_CODE.to_be_bytes()));
    let begun = Instant::now();
    let answer = honest.bytes(1).and_then(|_| {
        let _ = honest.try_send(&hello);
        honest.bytes(5)
    });
    match answer {
        Ok(_) if begun.elapsed() < HANDSHAKE_MAX => Told::Answered,
        Ok(_) => Told::Failed(format!("an honest handshake waited for {} ms", begun.elapsed().as_millis())),
        Err(lost) => Told::Failed(format!("an honest handshake was not answered: {lost}")),
    }
}

/// A user whose name others know.
const OWNER: &str = "owner";
/// How long a handshake may take among thousands.
const HANDSHAKE_MAX: Duration = Duration::from_millis(500);
