//! A server that is not PostgreSQL, or a compromised one: what it sends at the login, and instead of answers.
//!
//! Always true: it is the stranger's own, and several of its clients need it at once.
//! Not here: a server that makes hashing expensive (`hashes`), answers to `auth_query` (`owners`).

use std::net::TcpStream;
use std::time::Instant;

use tests::fake_server::{FakeServer, greeting};
use tests::message::{frame, query, startup, strings};
use tests::peer::{Lost, Peer};

use super::scene::{POUR_MAX, STRANGER, Scene};
use super::told::Told;

/// What the server does on each connection, after the startup packet.
type Play = fn(&mut Peer) -> Result<(), Lost>;

fn against(scene: &mut Scene<'_>, play: Play) -> Told {
    let Some((_liar, mut clients)) = clients_of(scene, play, "select 1") else { return Told::Closed };
    let end = Instant::now() + POUR_MAX;
    let told = clients.iter_mut().map(|client| Told::read(client, end)).last();
    told.unwrap_or(Told::Nothing)
}

/// The same with a state probe. Returns what the last client is told after its answer.
fn against_who_sets(scene: &mut Scene<'_>, play: Play) -> Told {
    let Some((_liar, mut clients)) = clients_of(scene, play, "select set_config('a.' || now(), '1', false)") else {
        return Told::Closed;
    };
    let (end, mut told) = (Instant::now() + POUR_MAX, Told::Nothing);
    for client in &mut clients {
        told = Told::Answered;
        while told == Told::Answered {
            told = Told::read(client, end);
        }
    }
    told
}

/// The server, and clients of it that have sent this query.
fn clients_of(scene: &mut Scene<'_>, play: Play, sql: &str) -> Option<(FakeServer, Vec<Peer>)> {
    let server = FakeServer::open(move |stream| drop(perform(stream, play)));
    scene.lead_to(server.port(), "user=stranger");
    scene.set("server_tls_sslmode = disable");
    scene.set("server_login_retry = 0.1");
    let login = [startup(0, &[("user", STRANGER), ("database", &scene.database)]), query(sql)].concat();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = scene.knock()?;
        client.try_send(&login).ok()?;
        clients.push(client);
    }
    Some((server, clients))
}

fn perform(stream: TcpStream, play: Play) -> Result<(), Lost> {
    let mut peer = Peer::accepted(stream).map_err(|_| Lost::Closed)?;
    peer.packet()?;
    play(&mut peer)
}

/// Sends the same bytes until nobody takes them any more.
fn without_end(peer: &mut Peer, bytes: &[u8]) -> Result<(), Lost> {
    let (many, end) = (bytes.repeat((1 << 20) / bytes.len() + 1), Instant::now() + POUR_MAX);
    while peer.pour(&many, end).map_err(|_| Lost::Closed)? == many.len() {}
    Ok(())
}

fn let_in(peer: &mut Peer) {
    let _ = peer.try_send(&greeting());
}

pub(super) fn notices_at_the_login(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| without_end(peer, &frame(b'N', b"SNOTICE\0C00000\0Mnothing\0\0")))
}

pub(super) fn a_notice_of_a_gigabyte(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let _ = peer.try_send(b"N\x3f\xff\xff\xff");
        without_end(peer, b"Mmmmmmmmmmmmmmm")
    })
}

pub(super) fn parameters_without_end(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let _ = peer.try_send(&frame(b'R', &[0; 4]));
        let end = Instant::now() + POUR_MAX;
        for number in 0_u64.. {
            let status = |at| frame(b'S', &strings(&[&format!("parameter_{number}_{at}"), "a value"]));
            let many: Vec<u8> = (0..10_000).flat_map(status).collect();
            if peer.pour(&many, end).map_err(|_| Lost::Closed)? < many.len() {
                break;
            }
        }
        Ok(())
    })
}

pub(super) fn long_parameters_that_follow_the_client(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let _ = peer.try_send(&frame(b'R', &[0; 4]));
        without_end(peer, &frame(b'S', &strings(&["application_name", &"x".repeat(1 << 20)])))
    })
}

pub(super) fn demands_for_passwords_without_end(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| without_end(peer, &frame(b'R', &[0, 0, 0, 5, 1, 2, 3, 4])))
}

pub(super) fn keys_without_end(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let _ = peer.try_send(&frame(b'R', &[0; 4]));
        without_end(peer, &frame(b'K', &[7; 8]))
    })
}

pub(super) fn silence_at_the_login(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| peer.bytes(1).map(drop))
}

pub(super) fn a_message_below_zero(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let _ = peer.try_send(b"R\xff\xff\xff\xff\0\0\0\0");
        peer.bytes(1).map(drop)
    })
}

pub(super) fn an_error_of_many_fields(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let fields = b"Mx\0".repeat(20_000);
        without_end(peer, &frame(b'E', &[&fields[..], b"\0"].concat()))
    })
}

/// Every query, the pooler's own as well as the client's, is answered with endless rows.
pub(super) fn rows_for_everything(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let_in(peer);
        peer.frame()?;
        let _ = peer.try_send(&frame(b'T', b"\0\x01x\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"));
        without_end(peer, &frame(b'D', &[&b"\0\x01\0\0\x03\xe8"[..], &[b'x'; 1000]].concat()))
    })
}

/// The client's query is answered correctly, and the pooler's own query behind it with these bytes, endlessly.
fn behind_an_answer(peer: &mut Peer, bytes: &[u8]) -> Result<(), Lost> {
    let_in(peer);
    let mut has_served = false;
    loop {
        let is_ours = String::from_utf8_lossy(&peer.frame()?.body).contains("trunkline: ");
        if is_ours && has_served {
            return without_end(peer, bytes);
        }
        has_served |= !is_ours;
        peer.try_send(&[frame(b'C', b"SELECT 0\0"), frame(b'Z', b"I")].concat()).map_err(|_| Lost::Closed)?;
    }
}

/// A row of the answer to a state probe.
fn told(about: u8, name: &str, text: &str) -> Vec<u8> {
    let field = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
    let fields = [field(&[about]), field(name.as_bytes()), field(text.as_bytes()), vec![0xff; 4]].concat();
    frame(b'D', &[&[0, 4][..], &fields].concat())
}

pub(super) fn settings_of_a_session_without_end(scene: &mut Scene<'_>) -> Told {
    against_who_sets(scene, |peer| behind_an_answer(peer, &told(b's', "app.x", &"x".repeat(1000))))
}

pub(super) fn functions_without_end(scene: &mut Scene<'_>) -> Told {
    against_who_sets(scene, |peer| {
        let functions = [told(b'g', "f", ""), told(b'f', "f", &"perform f(); ".repeat(100))];
        behind_an_answer(peer, &functions.concat())
    })
}

pub(super) fn errors_for_a_question_without_end(scene: &mut Scene<'_>) -> Told {
    against_who_sets(scene, |peer| behind_an_answer(peer, &frame(b'E', b"SERROR\0C42000\0Mno\0\0")))
}

pub(super) fn notifications_without_end(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let_in(peer);
        without_end(peer, &frame(b'A', &[&[0, 0, 0, 1][..], &strings(&["c", &"x".repeat(7000)])].concat()))
    })
}

pub(super) fn readiness_without_end(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let_in(peer);
        without_end(peer, &frame(b'Z', b"I"))
    })
}

pub(super) fn completions_that_nobody_asked_for(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let_in(peer);
        peer.frame()?;
        without_end(peer, &[frame(b'C', b"SELECT 1\0"), frame(b'1', b""), frame(b'2', b"")].concat())
    })
}

pub(super) fn servers_that_vanish(scene: &mut Scene<'_>) -> Told {
    against(scene, |peer| {
        let_in(peer);
        peer.frame().map(drop)
    })
}

/// As many as a pool dials for at once.
const CLIENTS: usize = 5;
