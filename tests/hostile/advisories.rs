//! The kinds of attack of which security advisories about poolers have told (CVEs of 2026 against PgBouncer): malformed logins
//! of clients and servers, lengths, and orders of a user who may only look.
//!
//! Always true: each attack ends as it must, or says what went wrong; an honest client is served afterwards.
//! Not here: the same kinds in bulk (`doors`, `messages`), rounds of SCRAM (`hashes`).

use std::time::{Duration, Instant};

use tests::client::Client;
use tests::fake_server::{FakeServer, greeting};
use tests::message::{frame, query, startup, strings};
use tests::peer::{Lost, Peer};

use super::scene::{EVERYBODY, PATIENCE, STRANGER, Scene};
use super::told::Told;

/// Sends the startup packet of a user with a SCRAM secret. Returns the connection when it has been asked for SCRAM.
fn asked_for_scram(scene: &mut Scene<'_>) -> Result<Peer, Told> {
    if !scene.has_begun() {
        let path = scene.place.directory().join(format!("{}_hba", scene.database));
        scene.place.write(&path, &format!("host all {CAREFUL} all scram-sha-256\n{EVERYBODY}"));
        scene.set("auth_type = hba");
        scene.set(&format!("auth_hba_file = {}", path.display()));
        scene.secret(CAREFUL, "secret");
    }
    let mut peer = scene.knock().ok_or(Told::Closed)?;
    peer.try_send(&packet_of(scene, CAREFUL)).map_err(|_| Told::Closed)?;
    match peer.frame_within(PATIENCE) {
        Ok(frame) if frame.tag == b'R' && frame.body.starts_with(&[0, 0, 0, 10]) => Ok(peer),
        other => Err(Told::Failed(format!("SCRAM was not asked for: {other:?}"))),
    }
}

fn packet_of(scene: &Scene<'_>, user: &str) -> Vec<u8> {
    startup(0, &[("user", user), ("database", &scene.database)])
}

/// What a client is told that must not be let in.
fn refused(peer: &mut Peer, what: &str) -> Result<Told, Told> {
    match Told::read(peer, Instant::now() + PATIENCE) {
        told @ (Told::Refused(_) | Told::Closed) => Ok(told),
        told => Err(Told::Failed(format!("{what}: {told}"))),
    }
}

/// The first message of SCRAM.
fn scram_first() -> Vec<u8> {
    let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
    frame(b'p', &[&b"SCRAM-SHA-256\0"[..], &(first.len() as u32).to_be_bytes(), first].concat())
}

pub(super) fn a_second_startup_packet_within_scram(scene: &mut Scene<'_>) -> Told {
    let attack = |scene: &mut Scene<'_>| {
        let mut told = Told::Nothing;
        for has_begun in [false, true] {
            let mut peer = asked_for_scram(scene)?;
            if has_begun {
                peer.try_send(&scram_first()).map_err(|_| Told::Closed)?;
                peer.frame_within(PATIENCE).map_err(|lost| Told::Failed(format!("no challenge: {lost}")))?;
            }
            // As another user, who would not be asked.
            let _ = peer.try_send(&packet_of(scene, STRANGER));
            told = refused(&mut peer, "a second startup packet")?;
        }
        Ok(told)
    };
    attack(scene).unwrap_or_else(|told: Told| told)
}

pub(super) fn a_final_scram_message_without_its_parts(scene: &mut Scene<'_>) -> Told {
    let attack = |scene: &mut Scene<'_>| {
        let mut told = Told::Nothing;
        let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let no_nonce = format!("c=biws,p={proof}");
        let no_binding = format!("r=abc,p={proof}");
        let twice = format!("c=biws,r=,r=,p={proof},p={proof}");
        for last in [&no_nonce[..], &no_binding, &twice, "c=biws,r=", "c=biws", "p=", "r", ",,,", "", "\0"] {
            let mut peer = asked_for_scram(scene)?;
            peer.try_send(&scram_first()).map_err(|_| Told::Closed)?;
            peer.frame_within(PATIENCE).map_err(|lost| Told::Failed(format!("no challenge: {lost}")))?;
            let _ = peer.try_send(&frame(b'p', last.as_bytes()));
            told = refused(&mut peer, last)?;
        }
        Ok(told)
    };
    attack(scene).unwrap_or_else(|told: Told| told)
}

/// `options` whose words have no name, no value, or neither.
pub(super) fn options_without_names(scene: &mut Scene<'_>) -> Told {
    let mut told = Told::Nothing;
    for options in ["-c=", "-c", "-c =", "-c =1", "--", "--=", "-", "-c\\", "-c a.b", "-c-=-"] {
        let Some(mut peer) = scene.knock() else { return Told::Closed };
        let packet = startup(0, &[("user", STRANGER), ("database", &scene.database), ("options", options)]);
        if peer.try_send(&[packet, query("select 1")].concat()).is_err() {
            return Told::Closed;
        }
        // The welcome ends like an answer. PostgreSQL refuses what has come to it at the login.
        told = Told::read(&mut peer, Instant::now() + PATIENCE);
        if told == Told::Answered {
            told = Told::read(&mut peer, Instant::now() + PATIENCE);
        }
        if !matches!(told, Told::Refused(_)) {
            return Told::Failed(format!("{options}: {told}"));
        }
    }
    told
}

/// Messages with all kinds of lengths, before the login and after it, of each kind.
pub(super) fn lengths_from_nothing_to_four_gigabytes(scene: &mut Scene<'_>) -> Told {
    let mut open = Vec::new();
    for length in LENGTHS {
        let Some(mut peer) = scene.knock() else { return Told::Closed };
        let _ = peer.try_send(&[&length.to_be_bytes()[..], &[0, 3, 0, 0], b"user\0"].concat());
        open.push(peer);
        for kind in *b"QPBDECHSFdcfXp\0\xff" {
            let mut peer = match scene.stranger() {
                Ok(peer) => peer,
                Err(told) => return Told::Failed(format!("an honest login: {told}")),
            };
            let _ = peer.try_send(&[&[kind][..], &length.to_be_bytes(), &[0; 3]].concat());
            open.push(peer);
        }
    }
    // Those that claim too much or too little are told so, or closed; of the others more is awaited.
    let end = Instant::now() + Duration::from_millis(500);
    open.iter_mut()
        .map(|peer| Told::read(peer, end))
        .filter(|told| *told != Told::Nothing)
        .last()
        .unwrap_or(Told::Nothing)
}

/// What a client is told whose server behaves like this. It must hear of it in time.
fn with_server(scene: &mut Scene<'_>, words: &str, play: fn(&mut Peer) -> Result<(), Lost>) -> Told {
    let server = FakeServer::open(move |stream| {
        let Ok(mut peer) = Peer::accepted(stream) else { return };
        if peer.packet().is_ok() {
            let _ = play(&mut peer);
        }
    });
    scene.lead_to(server.port(), words);
    scene.set("server_tls_sslmode = disable");
    scene.set("server_login_retry = 0.1");
    scene.set("query_wait_timeout = 2");
    let Some(mut peer) = scene.knock() else { return Told::Closed };
    if peer.try_send(&[packet_of(scene, STRANGER), query("select 1")].concat()).is_err() {
        return Told::Closed;
    }
    // The welcome ends like an answer.
    let mut told = Told::Answered;
    while told == Told::Answered {
        told = Told::read(&mut peer, Instant::now() + PATIENCE);
    }
    match told {
        Told::Nothing => Told::Failed("the client waits for ever".into()),
        told => told,
    }
}

/// The nonce of a server has no bound in SCRAM's grammar.
pub(super) fn a_server_with_a_nonce_of_a_megabyte(scene: &mut Scene<'_>) -> Told {
    with_server(scene, "user=stranger password=secret", |peer| {
        let _ = peer.try_send(&frame(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"));
        let first = String::from_utf8_lossy(&peer.frame()?.body).into_owned();
        let (_, nonce) = first.split_once(",r=").ok_or(Lost::Closed)?;
        let long = "n".repeat(1 << 20);
        let question = format!("r={nonce}{long},s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096");
        let _ = peer.try_send(&frame(b'R', &[b"\0\0\0\x0b", question.as_bytes()].concat()));
        peer.frame().map(drop)
    })
}

pub(super) fn an_error_without_sqlstate_at_the_login(scene: &mut Scene<'_>) -> Told {
    with_server(scene, "user=stranger", |peer| {
        let _ = peer.try_send(&frame(b'E', b"SFATAL\0Mno code\0\0"));
        Ok(())
    })
}

/// Answers with errors that lack their parts, the zero byte at the end included.
pub(super) fn errors_without_sqlstate_instead_of_answers(scene: &mut Scene<'_>) -> Told {
    with_server(scene, "user=stranger", |peer| {
        let _ = peer.try_send(&greeting());
        loop {
            peer.frame()?;
            let errors = [&b"SERROR\0Mno code\0\0"[..], b"C\0\0", b"\0", b"", b"SERROR\0C", b"C42"]
                .map(|body| frame(b'E', body));
            let _ = peer.try_send(&[errors.concat(), frame(b'Z', b"I")].concat());
        }
    })
}

/// A user who may only look at statistics ends, kills, pauses and reloads.
pub(super) fn orders_of_a_user_who_may_only_look(scene: &mut Scene<'_>) -> Told {
    scene.set(&format!("stats_users = {LOOKER}"));
    scene.secret(LOOKER, "");
    let address = scene.address();
    let mut looker = match Client::try_login(address, &[("user", LOOKER), ("database", "pgbouncer")]) {
        Ok(looker) => looker,
        Err(error) => return Told::Failed(format!("a user of the statistics is kept out: {error:?}")),
    };
    let shown = looker.query("SHOW CLIENTS");
    let clients: Vec<String> = (0..shown.rows.len()).filter_map(|row| shown.named(row).get("ptr").cloned()).collect();
    if clients.is_empty() {
        return Told::Failed(format!("nobody is shown: {shown:?}"));
    }
    let kills = clients.iter().map(|client| format!("KILL_CLIENT {client}"));
    let others = [
        "KILL",
        "PAUSE",
        "SUSPEND",
        "RELOAD",
        "SHUTDOWN",
        "RECONNECT",
        "DISABLE hostile_bystanders",
        "SET verbose = 3",
    ];
    for order in kills.chain(others.map(String::from)) {
        let answer = looker.query(&order);
        if answer.errors.is_empty() {
            return Told::Failed(format!("{order} was obeyed"));
        }
    }
    Told::Refused("42501".into())
}

/// A function of the stranger, in a schema of the stranger, in the place of what the query for secrets calls: with the
/// stranger's `search_path` it would tell a secret of the stranger's own choice.
pub(super) fn a_search_path_for_auth_query(scene: &mut Scene<'_>) -> Told {
    let mut owner = scene.postgres.client(&scene.database);
    owner.run("create schema evil; grant usage on schema evil to public");
    owner.run("create function evil.lower(text) returns text language sql as $$ select 'evil'::text $$");
    drop(owner);
    let path = scene.place.directory().join(format!("{}_hba", scene.database));
    scene.place.write(&path, &format!("host all {UNKNOWN} all password\n{EVERYBODY}"));
    scene.set("auth_type = hba");
    scene.set(&format!("auth_hba_file = {}", path.display()));
    scene.set("auth_user = stranger");
    scene.set("auth_query = select one, lower('md5' || md5('secret' || one)) from (select $1::text as one) as it");
    scene.set_own("user=stranger");
    let login = |scene: &mut Scene<'_>, (name, value): (&str, &str), password: &str| {
        let mut peer = scene.knock()?;
        let packet = startup(0, &[("user", UNKNOWN), ("database", &scene.database), (name, value)]);
        peer.try_send(&[packet, frame(b'p', &strings(&[password]))].concat()).ok()?;
        Some(Told::read(&mut peer, Instant::now() + PATIENCE))
    };
    let mut told = Told::Closed;
    for parameter in [("search_path", "evil, pg_catalog"), ("options", "-c search_path=evil,pg_catalog")] {
        let honest = login(scene, parameter, "secret");
        if honest != Some(Told::Answered) {
            return Told::Failed(format!("the password of the query is refused: {honest:?}"));
        }
        told = login(scene, parameter, "evil").unwrap_or(Told::Closed);
        if !matches!(told, Told::Refused(_)) {
            return Told::Failed(format!("a secret of its own choice: {told}"));
        }
    }
    told
}

/// The lengths of messages, each at a limit.
const LENGTHS: [u32; 14] =
    [0, 1, 3, 4, 5, 7, 8, 9_999, 10_001, 0x3fff_ffff, 0x4000_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
/// A user with a SCRAM secret.
const CAREFUL: &str = "careful";
/// A user whose secret the database is asked for.
const UNKNOWN: &str = "unknown";
const LOOKER: &str = "looker";
