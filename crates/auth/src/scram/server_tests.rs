//! The server side against the example of RFC 7677, and the messages that it refuses.

use super::*;

const CLIENT_FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn pencil() -> Arc<ScramSecret> {
    let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    ScramSecret::parse(text).expect("a secret").into()
}

/// The login of RFC 7677, section 3, before the client-final-message.
fn example(secret: ServerSecret) -> AwaitFinal {
    let server = ScramServer { secret, nonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".into(), channel: None };
    let (stage, answer) = server.first(CLIENT_FIRST).expect("well formed");
    assert_eq!(String::from_utf8_lossy(&answer), SERVER_FIRST);
    stage
}

fn fault(client_final: &str) -> ScramFault {
    example(ServerSecret::Stored(pencil())).last(client_final.as_bytes()).expect_err("refused")
}

#[test]
fn the_example_of_the_rfc_succeeds() {
    let (answer, keys) = example(ServerSecret::Stored(pencil())).last(CLIENT_FINAL.as_bytes()).expect("proven");
    assert_eq!(String::from_utf8_lossy(&answer), SERVER_FINAL);
    let keys = keys.expect("keys of a stored secret");
    assert_eq!(maths::hash(&keys.client_key), pencil().stored_key);
    assert_eq!(keys.server_key, pencil().server_key);
}

#[test]
fn the_keys_of_a_derived_secret_are_not_handed_out() {
    let (answer, keys) = example(ServerSecret::Derived(pencil())).last(CLIENT_FINAL.as_bytes()).expect("proven");
    assert_eq!(String::from_utf8_lossy(&answer), SERVER_FINAL);
    assert_eq!(keys, None);
}

#[test]
fn a_mock_refuses_even_the_right_proof() {
    let stage = example(ServerSecret::Mock(pencil()));
    assert_eq!(stage.last(CLIENT_FINAL.as_bytes()), Err(ScramFault::ProofWrong));
}

#[test]
fn every_other_proof_is_wrong() {
    assert_eq!(fault(&CLIENT_FINAL.replace("p=dH", "p=dI")), ScramFault::ProofWrong);
    assert_eq!(fault(&CLIENT_FINAL.replace("dVQ=", "dVA=")), ScramFault::ProofWrong);
    assert_eq!(fault(&CLIENT_FINAL.replace(",p=", ",x=1,p=")), ScramFault::ProofWrong);
}

#[test]
fn the_nonce_must_be_that_of_this_login() {
    assert_eq!(fault(&CLIENT_FINAL.replace("$k0", "$k1")), ScramFault::NonceMismatch);
    assert_eq!(fault(&CLIENT_FINAL.replace("$k0", "$k")), ScramFault::NonceMismatch);
    assert_eq!(fault(&CLIENT_FINAL.replace("$k0", "$k00")), ScramFault::NonceMismatch);
}

#[test]
fn the_header_must_be_repeated() {
    assert_eq!(fault(&CLIENT_FINAL.replace("biws", "eSws")), ScramFault::ChannelBindingMismatch);
    assert_eq!(fault(&CLIENT_FINAL.replace("biws", "")), ScramFault::ChannelBindingMismatch);
    assert_eq!(fault(&CLIENT_FINAL.replace("biws", "cD10bHMtdW5pcXVlLCw=")), ScramFault::ChannelBindingMismatch);
    let server = ScramServer::new(ServerSecret::Stored(pencil()), &[7; NONCE_BYTES]);
    let (stage, _) = server.first(b"y,,n=,r=abc").expect("well formed");
    let nonce = format!("abc{}", maths::base64(&[7; NONCE_BYTES]));
    let proof = maths::base64(&[0; 32]);
    let fault = stage.last(format!("c=biws,r={nonce},p={proof}").as_bytes()).expect_err("refused");
    assert_eq!(fault, ScramFault::ChannelBindingMismatch);
}

/// Handles a client-first-message by either mechanism, with or without channel binding data.
fn opening(channel: Option<&[u8]>, is_plus: bool, header: &str) -> Result<AwaitFinal, ScramFault> {
    let server = ScramServer::new(ServerSecret::Stored(pencil()), &[7; NONCE_BYTES]);
    let server = server.on_channel(channel.map(Into::into));
    let message = format!("{header}n=,r=abc");
    let opened = if is_plus { server.first_bound(message.as_bytes()) } else { server.first(message.as_bytes()) };
    opened.map(|(stage, _)| stage)
}

#[test]
fn a_client_must_have_seen_what_it_was_offered() {
    const BOUND: &str = "p=tls-server-end-point,,";
    let refused = |channel, is_plus, header: &str| opening(channel, is_plus, header).expect_err("refused");
    let tls = Some(&b"hash"[..]);
    assert_eq!(refused(tls, false, "y,,"), ScramFault::ChannelBindingDowngrade);
    assert_eq!(refused(tls, false, BOUND), ScramFault::ChannelBindingRequired);
    assert_eq!(refused(None, false, BOUND), ScramFault::ChannelBindingRequired);
    assert_eq!(refused(None, true, BOUND), ScramFault::ChannelBindingRequired);
    assert_eq!(refused(tls, true, "y,,"), ScramFault::ChannelBindingMissing);
    assert_eq!(refused(tls, true, "n,,"), ScramFault::ChannelBindingMissing);
    assert_eq!(refused(tls, true, "p=tls-unique,,"), ScramFault::ChannelBindingUnknown);
    for (channel, is_plus, header) in
        [(tls, true, BOUND), (tls, false, "n,,"), (None, false, "y,,"), (None, false, "n,,")]
    {
        assert!(opening(channel, is_plus, header).is_ok(), "{header}");
    }
}

#[test]
fn a_login_of_another_channel_is_not_taken() {
    let nonce = format!("abc{}", maths::base64(&[7; NONCE_BYTES]));
    let proof = maths::base64(&[0; 32]);
    let last = |data: &[u8]| {
        let header = maths::base64(&[b"p=tls-server-end-point,,", data].concat());
        let stage = opening(Some(b"hash"), true, "p=tls-server-end-point,,").expect("well formed");
        stage.last(format!("c={header},r={nonce},p={proof}").as_bytes()).expect_err("a wrong proof at least")
    };
    assert_eq!(last(b"another"), ScramFault::ChannelBindingMismatch);
    assert_eq!(last(b""), ScramFault::ChannelBindingMismatch);
    assert_eq!(last(b"hash"), ScramFault::ProofWrong);
}

#[test]
fn a_malformed_message_ends_the_login() {
    assert!(matches!(fault("c=biws"), ScramFault::Malformed { .. }));
    let server = ScramServer::new(ServerSecret::Stored(pencil()), &[7; NONCE_BYTES]);
    assert!(matches!(server.first(b"n,,").expect_err("refused"), ScramFault::Malformed { .. }));
}

#[test]
fn a_mock_looks_like_a_secret_of_its_user() {
    let mock = |user, key, iterations| {
        let server = ScramServer::new(ServerSecret::mock(user, &[key; 32], iterations), &[7; NONCE_BYTES]);
        let (_, answer) = server.first(b"n,,n=,r=abc").expect("well formed");
        String::from_utf8(answer).expect("text")
    };
    let real = ScramServer::new(ServerSecret::Stored(pencil()), &[7; NONCE_BYTES]).first(b"n,,n=,r=abc");
    assert_eq!(mock("alice", 1, 4096).len(), real.expect("well formed").1.len());
    assert_eq!(mock("alice", 1, 4096), mock("alice", 1, 4096));
    assert_ne!(mock("alice", 1, 4096), mock("bob", 1, 4096));
    assert_ne!(mock("alice", 1, 4096), mock("alice", 2, 4096));
    assert!(mock("alice", 1, 123).ends_with(",i=123"));
}

#[test]
fn debug_of_a_login_shows_no_secret() {
    let secret = ServerSecret::Stored(pencil());
    assert_eq!(format!("{secret:?}"), "Stored(ScramSecret { iterations: 4096, .. })");
    assert_eq!(format!("{:?}", example(secret.clone())), "AwaitFinal { binding: Unknown, .. }");
    assert_eq!(format!("{:?}", ScramServer::new(secret, &[7; NONCE_BYTES])), "ScramServer { .. }");
}
