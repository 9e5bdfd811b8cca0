//! Logins at a server, played from the server's side.

use super::*;
use auth::scram::server::AwaitFinal;
use auth::{Password, ScramSecret, ScramServer, ServerSecret};

fn identity(secret: &str) -> Identity {
    Identity {
        user: "ann".into(),
        database: "shop".into(),
        secret: Arc::new(Secret::parse(secret)),
        keys: None,
        salted: None,
        iterations_max: 4,
        channel: None,
        parameters: vec![("application_name".into(), "till".into())],
    }
}

fn begin(identity: Identity) -> ServerLogin {
    ServerLogin::begin(identity, [5; NONCE_BYTES], &mut Vec::new())
}

fn request(code: u32, rest: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], rest].concat()
}

fn sent(step: Result<Step, LoginFault>) -> Vec<u8> {
    match step {
        Ok(Step::Send(bytes)) => bytes,
        other => panic!("bytes to send, not {other:?}"),
    }
}

/// The rest of a login after its `AuthenticationOk`.
fn arrives(login: &mut ServerLogin) -> Arrival {
    assert!(matches!(login.hear(b'R', &request(0, b"")), Ok(Step::Wait)));
    assert!(matches!(login.hear(b'S', b"server_version\x0015.1\0"), Ok(Step::Wait)));
    assert!(matches!(login.hear(b'N', b"\0"), Ok(Step::Wait)));
    assert!(matches!(login.hear(b'K', b"12345678"), Ok(Step::Wait)));
    match login.hear(b'Z', b"I") {
        Ok(Step::Ready(arrival)) => arrival,
        other => panic!("ready, not {other:?}"),
    }
}

#[test]
fn a_server_that_trusts_tells_of_itself() {
    let mut out = Vec::new();
    let mut login = ServerLogin::begin(identity(""), [5; NONCE_BYTES], &mut out);
    assert!(out.ends_with(b"user\0ann\0database\0shop\0application_name\0till\0\0"));
    let arrival = arrives(&mut login);
    assert_eq!(arrival.parameters, [("server_version".into(), "15.1".into())]);
    assert_eq!(&*arrival.key, b"12345678");
}

/// Protocol 3.2 allows as many bytes of secret, whatever stands between us and PostgreSQL.
#[test]
fn the_key_of_a_server_has_four_to_256_bytes_of_secret() {
    for (secret, is_taken) in [(3, false), (4, true), (32, true), (256, true), (257, false)] {
        let key = vec![7; 4 + secret];
        let mut login = begin(identity(""));
        assert!(matches!(login.hear(b'R', &request(0, b"")), Ok(Step::Wait)));
        assert_eq!(login.hear(b'K', &key).is_ok(), is_taken, "{secret} bytes");
        if is_taken {
            let Ok(Step::Ready(arrival)) = login.hear(b'Z', b"I") else { panic!("not ready") };
            assert_eq!(*arrival.key, *key);
        }
    }
}

#[test]
fn a_password_is_sent_as_it_is_asked_for() {
    let mut login = begin(identity("secret"));
    assert_eq!(sent(login.hear(b'R', &request(3, b""))), b"p\0\0\0\x0bsecret\0");
    arrives(&mut login);
    let mut login = begin(identity("secret"));
    assert!(sent(login.hear(b'R', &request(5, b"salt"))).starts_with(b"p\0\0\0\x28md5"));
    arrives(&mut login);
}

/// Plays a server that asks for SCRAM and stores this secret: returns the rest of the exchange and the server's first
/// message.
fn asks(login: &mut ServerLogin, stored: ScramSecret) -> (AwaitFinal, Vec<u8>) {
    let initial = sent(login.hear(b'R', &request(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")));
    let server = ScramServer::new(ServerSecret::Stored(Arc::new(stored)), &[8; NONCE_BYTES]);
    let (server, asked) = server.first(&initial[5 + MECHANISM.len() + 1 + 4..]).expect("our own message");
    (server, request(11, &asked))
}

/// The bytes that are finally sent, after a password has been hashed.
fn hashed(login: &mut ServerLogin, step: Result<Step, LoginFault>) -> Vec<u8> {
    match step {
        Ok(Step::Derive(derivation)) => login.salted(derivation.run().into()).expect("it was waited for"),
        other => panic!("a password to be hashed, not {other:?}"),
    }
}

/// Plays such a server to the end of the login.
fn scram(mut login: ServerLogin, stored: ScramSecret, is_hashed: bool) -> Result<Arrival, LoginFault> {
    let (server, asked) = asks(&mut login, stored);
    let step = login.hear(b'R', &asked);
    let answer = if is_hashed { hashed(&mut login, step) } else { sent(step) };
    let Ok((last, _)) = server.last(&answer[5..]) else {
        return Err(login.hear(b'E', b"VFATAL\0C28P01\0Mno\0\0").expect_err("refused"));
    };
    login.hear(b'R', &request(12, &last))?;
    Ok(arrives(&mut login))
}

#[test]
fn scram_by_password_spares_the_next_login_its_work() {
    let stored = ScramSecret::derive("secret", &[9; 16], 2);
    let arrival = scram(begin(identity("secret")), stored.clone(), true).expect("let in");
    let mut again = identity("secret");
    again.salted = arrival.salted;
    assert!(again.salted.is_some());
    assert!(scram(begin(again), stored, false).is_ok());
}

#[test]
fn a_server_is_answered_once_the_password_is_hashed_and_not_before() {
    let mut login = begin(identity("secret"));
    assert!(!login.is_awaiting_salted());
    let (_, asked) = asks(&mut login, ScramSecret::derive("secret", &[9; 16], 2));
    let step = login.hear(b'R', &asked);
    assert!(login.is_awaiting_salted() && format!("{login:?}").contains("AwaitSalted"));
    let Ok(Step::Derive(derivation)) = &step else { panic!("to be hashed, not {step:?}") };
    let salted = Arc::new(derivation.clone().run());
    assert!(matches!(login.hear(b'N', b"\0"), Ok(Step::Wait)));
    hashed(&mut login, step);
    assert!(!login.is_awaiting_salted() && login.salted(salted).is_none());
    // Meanwhile the server cannot end the login by `AuthenticationOk` either.
    let mut login = begin(identity("secret"));
    let (_, asked) = asks(&mut login, ScramSecret::derive("secret", &[9; 16], 2));
    assert!(matches!(login.hear(b'R', &asked), Ok(Step::Derive(_))));
    assert_eq!(login.hear(b'R', &request(0, b"")).expect_err("unproven"), LoginFault::Nonsense(b'R'));
}

#[test]
fn a_server_that_asks_for_more_iterations_than_are_allowed_is_refused() {
    let mut login = begin(identity("secret"));
    let (_, asked) = asks(&mut login, ScramSecret::derive("secret", &[9; 16], 5));
    let refused = LoginFault::IterationsRefused { iterations: 5, allowed: 4 };
    assert_eq!(login.hear(b'R', &asked).expect_err("too many"), refused);
}

#[test]
fn scram_by_the_keys_of_the_client() {
    let stored = ScramSecret::derive("secret", &[9; 16], 2);
    // The keys as a client's own login would have revealed them.
    let client = ScramClient::new(Credentials::Password(Password::new("secret").expect("some")), &[3; 18]);
    let (client, first) = client.first();
    let server = ScramServer::new(ServerSecret::Stored(Arc::new(stored.clone())), &[4; 18]);
    let (server, asked) = server.first(&first).expect("well made");
    let (client, derivation) = match client.answer(&asked, 2).expect("well made") {
        Answer::Derive(client, derivation) => (client, derivation),
        other => panic!("a password to be hashed, not {other:?}"),
    };
    let (_, answer) = client.salted(derivation.run().into());
    let keys = server.last(&answer).expect("right").1;
    let mut identity = identity(&stored.to_string());
    identity.keys = keys;
    assert!(scram(begin(identity), stored, false).is_ok());
}

#[test]
fn what_does_not_fit_is_told() {
    let stored = ScramSecret::derive("secret", &[9; 16], 2).to_string();
    let wrong = LoginFault::WrongSecret(SCRAM_FOR_MD5);
    assert_eq!(begin(identity(&stored)).hear(b'R', &request(5, b"salt")).expect_err("no"), wrong);
    let scram = || request(10, b"SCRAM-SHA-256\0\0");
    let hash = "md5d41d8cd98f00b204e9800998ecf8427e";
    assert_eq!(begin(identity(hash)).hear(b'R', &scram()).expect_err("no"), LoginFault::WrongSecret(MD5_FOR_SCRAM));
    assert_eq!(begin(identity("")).hear(b'R', &scram()).expect_err("no"), LoginFault::WrongSecret(NO_SECRET));
    let keyless = begin(identity(&stored)).hear(b'R', &scram());
    assert_eq!(keyless.expect_err("no"), LoginFault::KeysMissing);
    let unknown = begin(identity("x")).hear(b'R', &request(10, b"OAUTHBEARER\0\0")).expect_err("no");
    assert_eq!(unknown, LoginFault::UnknownMechanisms("OAUTHBEARER".into()));
    let nothing = begin(identity("x")).hear(b'R', &request(10, b"\xffONE\0TWO\0\0")).expect_err("no");
    assert_eq!(nothing, LoginFault::UnknownMechanisms("\\xffONE, TWO".into()));
    let endless = begin(identity("x")).hear(b'R', &request(10, &[b'x'; 5000])).expect_err("no");
    assert!(matches!(endless, LoginFault::UnknownMechanisms(names) if names.len() == NAMES_CHARS_MAX));
    assert_eq!(begin(identity("x")).hear(b'R', &request(7, b"")).expect_err("no"), LoginFault::UnknownMethod(7));
}

#[test]
fn a_refusal_keeps_the_servers_words() {
    let refused = begin(identity("x")).hear(b'E', b"VFATAL\0C3D000\0Mdatabase \"shop\" does not exist\0\0");
    let Err(LoginFault::Refused(notice)) = refused else { panic!("refused") };
    assert_eq!((notice.sqlstate.as_str(), notice.message.as_str()), ("3D000", "database \"shop\" does not exist"));
}

#[test]
fn nonsense_is_not_believed() {
    assert_eq!(begin(identity("x")).hear(b'Z', b"I").expect_err("too early"), LoginFault::Nonsense(b'Z'));
    assert_eq!(begin(identity("x")).hear(b'T', b"").expect_err("no"), LoginFault::Nonsense(b'T'));
    assert_eq!(begin(identity("x")).hear(b'R', b"\0").expect_err("torn"), LoginFault::Nonsense(b'R'));
    assert_eq!(begin(identity("x")).hear(b'R', &request(12, b"v=x")).expect_err("early"), LoginFault::Nonsense(b'R'));
    assert_eq!(begin(identity("x")).hear(b'K', b"123").expect_err("short"), LoginFault::Nonsense(b'K'));
}

#[test]
fn a_server_cannot_skip_its_own_proof() {
    let mut login = begin(identity("secret"));
    sent(login.hear(b'R', &request(10, b"SCRAM-SHA-256\0\0")));
    assert_eq!(login.hear(b'R', &request(0, b"")).expect_err("unproven"), LoginFault::Nonsense(b'R'));
}

#[test]
fn a_server_that_proves_the_wrong_thing_is_not_believed() {
    let stored = ScramSecret::derive("secret", &[9; 16], 2);
    for (words, text) in [
        (&b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="[..], "invalid server signature"),
        (b"v=AAAA", "failed to verify server signature"),
        (b"e=unknown-user", "failed to verify server signature"),
    ] {
        let mut login = begin(identity("secret"));
        let (_, asked) = asks(&mut login, stored.clone());
        let step = login.hear(b'R', &asked);
        hashed(&mut login, step);
        assert_eq!(login.hear(b'R', &request(12, words)).expect_err("a lie"), LoginFault::Unproved(text));
    }
}

#[test]
fn a_server_that_never_ends_telling_of_itself_is_none() {
    let mut login = begin(identity(""));
    assert!(matches!(login.hear(b'v', b"\0\x03\0\0\0\0\0\0"), Ok(Step::Wait)));
    for _ in 0..PARAMETERS_MAX {
        assert!(matches!(login.hear(b'S', b"a\0b\0"), Ok(Step::Wait)));
    }
    assert_eq!(login.hear(b'S', b"a\0b\0").expect_err("one more"), LoginFault::Nonsense(b'S'));
    assert_eq!(begin(identity("")).hear(b'S', b"a").expect_err("torn"), LoginFault::Nonsense(b'S'));
}

#[test]
fn a_login_shows_what_it_waits_for_and_no_secret() {
    let mut login = begin(identity("s3cret"));
    let mut stages = vec![format!("{login:?}")];
    sent(login.hear(b'R', &request(3, b"")));
    stages.push(format!("{login:?}"));
    assert!(matches!(login.hear(b'R', &request(0, b"")), Ok(Step::Wait)));
    stages.push(format!("{login:?}"));
    for (shown, stage) in stages.iter().zip(["AwaitRequest", "AwaitVerdict", "AwaitReady"]) {
        assert!(shown.contains(stage) && !shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn by_tls_a_login_is_bound_to_its_channel_if_the_server_offers_that() {
    let chosen = |channel: Option<&[u8]>, offered: &[u8]| {
        let identity = Identity { channel: channel.map(Into::into), ..identity("secret") };
        let sent = sent(begin(identity).hear(b'R', &request(10, offered)));
        let (mechanism, first) = wire::backend::c_string(&sent[5..]).expect("a name");
        (mechanism.to_owned(), String::from_utf8_lossy(&first[4..]).into_owned())
    };
    let both = b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
    let (mechanism, first) = chosen(Some(b"hash"), both);
    assert!(mechanism == "SCRAM-SHA-256-PLUS" && first.starts_with("p=tls-server-end-point,,n=,r="), "{first}");
    let (mechanism, first) = chosen(Some(b"hash"), b"SCRAM-SHA-256\0\0");
    assert!(mechanism == "SCRAM-SHA-256" && first.starts_with("y,,n="), "{first}");
    let (mechanism, first) = chosen(None, both);
    assert!(mechanism == "SCRAM-SHA-256" && first.starts_with("n,,n="), "{first}");
    let refused = begin(identity("secret")).hear(b'R', &request(10, b"SCRAM-SHA-256-PLUS\0\0"));
    assert!(matches!(refused, Err(LoginFault::UnknownMechanisms(names)) if &*names == "SCRAM-SHA-256-PLUS"));
}
