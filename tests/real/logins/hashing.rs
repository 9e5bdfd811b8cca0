//! Passwords that are hashed for SCRAM: which clients wait, which are refused, and with which errors.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use auth::ScramSecret;
use tests::client::Client;
use tests::message::{self, Complaint};
use tests::peer::Peer;
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_for};

use crate::house::House;

/// Logs in with a clear-text password, which the pooler must request.
pub(crate) fn enter(pooler: &Pooler, user: &str, password: &str, database: &str) -> Result<Client, Complaint> {
    let mut peer = pooler.knock();
    peer.send(&message::startup(0, &[("user", user), ("database", database)]));
    let asked = peer.frame().expect("an answer");
    assert_eq!((asked.tag, &asked.body[..]), (b'R', &3_u32.to_be_bytes()[..]));
    peer.send(&message::frame(b'p', &message::strings(&[password])));
    Client::finish_login(peer, LIMIT)
}

pub(crate) fn a_server_that_asks_for_too_many_iterations_is_refused_by_their_number(house: &House) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("a bound port").port();
    let line = format!("hash_far = host=127.0.0.1 port={port} user=u password=w");
    let settings = ["scram_iterations_max = 5000", "server_login_retry = 1", "server_tls_sslmode = disable"];
    let pooler = house.start(&house.ini("hash_near", &settings).database(&line));
    let asked = thread::spawn(move || {
        ["5001", "0", "99999999999999999999999", "5000"].map(|iterations| {
            let mut peer = Peer::accept(&listener).expect("the pooler dials");
            peer.packet().expect("a startup packet");
            peer.send(&message::frame(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"));
            let first = String::from_utf8_lossy(&peer.frame().expect("a first word").body).into_owned();
            let (_, nonce) = first.split_once(",r=").expect("it has a nonce");
            let question = format!("r={nonce}abc,s=c2FsdHNhbHRzYWx0c2FsdA==,i={iterations}");
            peer.send(&message::frame(b'R', &[b"\0\0\0\x0b", question.as_bytes()].concat()));
            let is_answered = peer.frame().is_ok_and(|frame| frame.tag == b'p');
            peer.send(&message::frame(b'E', b"SFATAL\0C28P01\0Mthat is enough\0\0"));
            is_answered
        })
    });
    for told in [
        "server login failed: server asks for 5001 SCRAM iterations, more than 5000 (scram_iterations_max)",
        "server login failed: server asks for a SCRAM iteration count of 0",
        "server login failed: server asks for 18446744073709551615 SCRAM iterations, more than 5000 (scram_iterations_max)",
        "that is enough",
    ] {
        let login = || Client::try_login(pooler.address(), &[("user", "u"), ("database", "hash_far")]).map(drop);
        // The previous failure is reported until the pooler tries the next login.
        let error = wait_for("another answer", LIMIT, || login().err().filter(|error| error.text.ends_with(told)));
        assert_eq!((error.severity.as_str(), &error.code[2..]), ("FATAL", "P01"));
        pooler.await_log(told.trim_start_matches("server login failed: "));
    }
    assert_eq!(asked.join().expect("the server has told its part"), [false, false, false, true]);
    assert_eq!(pooler.client("u", "hash_near").value("select 1"), "1");
}

pub(crate) fn a_stored_secret_of_too_many_iterations_is_not_tried_in_clear_text(house: &House) {
    let secret = |iterations| ScramSecret::derive("right", &[7; 16], iterations).to_string();
    let ini = house.ini("hash_clear", &["auth_type = plain", "scram_iterations_max = 5000"]);
    let ini = ini.secret("few", &secret(5000)).secret("many", &secret(5001));
    let pooler = house.start(&ini.database(&format!("{} user=v", house.line_as("hash_forced", "hash_clear"))));
    assert_eq!(enter(&pooler, "few", "right", "hash_forced").expect("let in").value("select 1"), "1");
    let refused = |user, password| enter(&pooler, user, password, "hash_forced").map(drop).expect_err("no way").text;
    assert_eq!(refused("few", "wrong"), "password authentication failed");
    assert_eq!(refused("many", "right"), "bouncer config error");
    pooler.await_log("SCRAM secret has 5001 iterations, more than 5000 (scram_iterations_max)");
    assert!(!pooler.log().contains("right"), "a password is in the log");
}

/// Many clients wait for a slow key derivation and half of them leave, including the first. The others are served.
pub(crate) fn who_leaves_gives_the_place_up_to_others_of_the_same_user(house: &House) {
    let settings = ["auth_type = scram-sha-256", "scram_iterations = 100000"];
    let ini = house.ini("hash_file", &settings).secret("many_times", "secret");
    let pooler = house.start(&ini.database(&format!("{} user=v", house.line_as("hash_file_forced", "hash_file"))));
    let packet = message::startup(0, &[("user", "many_times"), ("database", "hash_file_forced")]);
    let mut peers: Vec<_> = (0..12).map(|_| pooler.knock()).collect();
    peers.iter_mut().for_each(|peer| peer.send(&packet));
    let stay = peers.split_off(6);
    drop(peers);
    for mut peer in stay {
        let asked = peer.frame().expect("a question");
        assert_eq!((asked.tag, &asked.body[..4]), (b'R', &10_u32.to_be_bytes()[..]));
    }
    assert_eq!(pooler.log().matches("login failed").count(), 0);
}
