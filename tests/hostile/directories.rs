//! What an LDAP server can do that checks a password, or somebody on the way to it.
//!
//! Always true: the LDAP server is used for the stranger's logins only; everybody else is let in without it.
//! Not here: correct LDAP servers (`real/logins/judges.rs`).

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use tests::fake_server::FakeServer;
use tests::message::{frame, startup, strings};

use super::scene::{EVERYBODY, PATIENCE, POUR_MAX, STRANGER, Scene};
use super::told::Told;

/// So many logins of the stranger, with an LDAP server that treats each connection like this.
fn login(scene: &mut Scene<'_>, count: usize, options: &str, lie: impl Fn(TcpStream) + Send + Sync + 'static) -> Told {
    let server = FakeServer::open(lie);
    let port = server.port();
    let path = scene.place.directory().join(format!("{}_hba", scene.database));
    let rules = format!("host all {STRANGER} all ldap ldapserver=127.0.0.1 ldapport={port} {options}\n{EVERYBODY}");
    scene.place.write(&path, &rules);
    scene.set("auth_type = hba");
    scene.set(&format!("auth_hba_file = {}", path.display()));
    let mut peers = Vec::new();
    for _ in 0..count {
        let Some(mut peer) = scene.knock() else { return Told::Closed };
        let packet = startup(0, &[("user", STRANGER), ("database", &scene.database)]);
        let answer = frame(b'p', &strings(&["secret"]));
        // The password is asked for, and may as well be sent before that.
        if peer.try_send(&[packet, answer].concat()).is_err() {
            return Told::Closed;
        }
        peers.push(peer);
    }
    peers.iter_mut().map(|peer| Told::read(peer, Instant::now() + PATIENCE)).last().unwrap_or(Told::Nothing)
}

/// Sends these bytes, and reads until the other side closes.
fn says(bytes: &[u8]) -> impl Fn(TcpStream) + use<> {
    let bytes = bytes.to_vec();
    move |mut stream| {
        let _ = stream.write_all(&bytes);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

/// Sends the first bytes, and then the second repeatedly, for some time.
fn says_on(first: &[u8], second: &[u8]) -> impl Fn(TcpStream) + use<> {
    let (first, second) = (first.to_vec(), second.to_vec());
    move |mut stream| {
        let piece = second.repeat(1 + PIECE / second.len());
        let _ = stream.set_write_timeout(Some(POUR_MAX));
        let end = Instant::now() + POUR_MAX;
        let mut goes_on = stream.write_all(&first).is_ok();
        while goes_on && Instant::now() < end {
            goes_on = stream.write_all(&piece).is_ok();
        }
        // The bytes stay readable until the other side closes.
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

/// Nested elements, each with this tag and a length that fits its content.
fn nested(depth: usize, tag: u8) -> Vec<u8> {
    let head = |number: usize| [&[tag, 0x84], &(u32::try_from(number * 6).expect("short")).to_be_bytes()[..]].concat();
    (0..depth).rev().flat_map(head).collect()
}

pub(super) fn an_empty_sequence(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, SIMPLE, says(b"\x30\0"))
}

pub(super) fn an_empty_sequence_to_a_search(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, SEARCH, says(&[ACCEPTED, b"\x30\0"].concat()))
}

pub(super) fn an_empty_sequence_before_tls(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, &format!("ldaptls=1 {SIMPLE}"), says(b"\x30\0"))
}

pub(super) fn no_tls(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, &format!("ldapscheme=ldaps {SIMPLE}"), says(b"\x30\0"))
}

pub(super) fn a_handshake_without_end(scene: &mut Scene<'_>) -> Told {
    login(scene, 32, &format!("ldapscheme=ldaps {SIMPLE}"), says_on(b"", b"\x16\x03\x03\x40\0\x02\xff\xff\xff"))
}

pub(super) fn a_message_without_content(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, SIMPLE, says(b"\x30\x03\x02\x01\x01"))
}

pub(super) fn sequences_in_sequences(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, SIMPLE, says(&nested(200_000, 0x30)))
}

pub(super) fn sequences_in_a_bind_response(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, SIMPLE, says(&nested(10_000, 0x61)))
}

pub(super) fn a_length_of_four_gigabytes(scene: &mut Scene<'_>) -> Told {
    login(scene, 32, SIMPLE, says_on(b"\x30\x84\xff\xff\xff\xff", b"\0"))
}

pub(super) fn a_length_of_two_to_the_sixty_fourth(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, SIMPLE, says_on(b"\x30\x88\xff\xff\xff\xff\xff\xff\xff\xff", b"\0"))
}

pub(super) fn a_length_of_zero_bytes(scene: &mut Scene<'_>) -> Told {
    login(scene, 1, SIMPLE, says(b"\x30\x80\x02\x01\x01"))
}

pub(super) fn entries_without_end(scene: &mut Scene<'_>) -> Told {
    let entry =
        [b"\x30\x82\x10\x0d\x02\x01\x02\x64\x82\x10\x06\x04\x82\x10\0".to_vec(), vec![b'a'; 4096], vec![0x30, 0]];
    login(scene, 32, SEARCH, says_on(ACCEPTED, &entry.concat()))
}

pub(super) fn references_without_end(scene: &mut Scene<'_>) -> Told {
    login(scene, 32, SEARCH, says_on(ACCEPTED, b"\x30\x07\x02\x01\x02\x73\x02\x04\0"))
}

pub(super) fn answers_to_nothing(scene: &mut Scene<'_>) -> Told {
    login(scene, 32, SIMPLE, says_on(b"", b"\x30\x0c\x02\x01\x63\x61\x07\x0a\x01\0\x04\0\x04\0"))
}

/// The answer to a successful bind.
const ACCEPTED: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";
const SIMPLE: &str = "ldapprefix=\"uid=\" ldapsuffix=\",dc=example,dc=net\"";
const SEARCH: &str = "ldapbasedn=\"dc=example,dc=net\"";
const PIECE: usize = 64 << 10;
