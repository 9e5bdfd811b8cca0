//! The client side against the example of RFC 7677, and the messages that it refuses.

use super::*;

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn pencil() -> Credentials {
    Credentials::Password(Password::new("pencil").expect("not empty"))
}

/// The login of RFC 7677, section 3, after the client-first-message, which has a user name in the RFC.
fn example(credentials: Credentials, cached: Option<Arc<SaltedPassword>>) -> AwaitServerFirst {
    AwaitServerFirst {
        credentials,
        cached,
        nonce: NONCE.into(),
        bare: format!("n=user,r={NONCE}"),
        repeated: "biws".into(),
    }
}

fn salted(password: &str, salt: &[u8]) -> Arc<SaltedPassword> {
    let password = Password::new(password).expect("not empty");
    Derivation { password, salt: salt.into(), iterations: 4096 }.run().into()
}

/// Answers the server-first-message of the example, and runs the derivation if one is needed.
fn answered(stage: AwaitServerFirst) -> (AwaitServerFinal, Vec<u8>) {
    match stage.answer(SERVER_FIRST.as_bytes(), 4096).expect("well formed") {
        Answer::Ready(stage, answer) => (stage, answer),
        Answer::Derive(stage, derivation) => stage.salted(derivation.run().into()),
    }
}

#[track_caller]
fn expect_example(stage: AwaitServerFirst) -> Option<Arc<SaltedPassword>> {
    let (stage, answer) = answered(stage);
    assert_eq!(String::from_utf8_lossy(&answer), CLIENT_FINAL);
    stage.check(SERVER_FINAL.as_bytes()).expect("the server's signature")
}

fn fault(server_first: &str) -> ScramFault {
    example(pencil(), None).answer(server_first.as_bytes(), 4096).expect_err("refused")
}

#[test]
fn the_example_of_the_rfc_succeeds() {
    expect_example(example(pencil(), None)).expect("something to keep");
}

#[test]
fn what_one_login_leaves_serves_the_next() {
    let first = expect_example(example(pencil(), None)).expect("something to keep");
    let second = expect_example(example(pencil(), Some(Arc::clone(&first)))).expect("something to keep");
    assert!(Arc::ptr_eq(&first, &second));
    let third = example(pencil(), Some(second)).answer(SERVER_FIRST.as_bytes(), 4096).expect("well formed");
    assert!(matches!(third, Answer::Ready(..)), "nothing is hashed");
}

#[test]
fn what_another_login_left_harms_nothing() {
    for stale in [salted("pencils", b"salt"), salted("pencil", b"salt")] {
        let kept = expect_example(example(pencil(), Some(Arc::clone(&stale)))).expect("something to keep");
        assert!(!Arc::ptr_eq(&stale, &kept));
    }
}

#[test]
fn keys_do_what_their_password_does() {
    let keys = expect_example(example(pencil(), None)).expect("something to keep").keys().clone();
    assert!(expect_example(example(Credentials::Keys(keys.clone()), None)).is_none());
    // Keys cost nothing, however many iterations they needed.
    let answer = example(Credentials::Keys(keys), None).answer(SERVER_FIRST.as_bytes(), 1).expect("well formed");
    assert!(matches!(answer, Answer::Ready(..)));
}

#[test]
fn the_first_message_names_nobody() {
    let (_, message) = ScramClient::new(pencil(), &[0; NONCE_BYTES]).first();
    assert_eq!(message, b"n,,n=,r=AAAAAAAAAAAAAAAAAAAAAAAA");
}

#[test]
fn the_server_must_lengthen_our_nonce() {
    assert_eq!(fault(&SERVER_FIRST.replace("r=r", "r=s")), ScramFault::NonceMismatch);
    assert_eq!(fault(&SERVER_FIRST.replace("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", "")), ScramFault::NonceMismatch);
    assert_eq!(fault("r=rOpr,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"), ScramFault::NonceMismatch);
}

#[test]
fn a_password_is_hashed_by_whoever_may_take_the_time() {
    let answer = example(pencil(), None).answer(SERVER_FIRST.as_bytes(), 4096).expect("well formed");
    let Answer::Derive(_, derivation) = answer else { panic!("nothing to be hashed") };
    assert_eq!(
        (derivation.password.as_bytes(), derivation.salt.len(), derivation.iterations),
        (&b"pencil"[..], 16, 4096)
    );
}

#[test]
fn no_iterations_and_more_than_are_allowed_are_refused() {
    let refused = |asked: &str| match fault(&SERVER_FIRST.replace("4096", asked)) {
        ScramFault::IterationsRefused { iterations, allowed: 4096 } => iterations,
        fault => panic!("{fault}"),
    };
    assert_eq!(refused("0"), 0);
    assert_eq!(refused("4097"), 4097);
    assert_eq!(refused("4294967297"), 4_294_967_297);
    assert_eq!(refused("99999999999999999999999"), u64::MAX);
    let fault = ScramFault::IterationsRefused { iterations: 4097, allowed: 4096 };
    assert_eq!(fault.to_string(), "server asks for 4097 SCRAM iterations, more than the 4096 allowed");
}

#[test]
fn a_server_that_does_not_know_our_keys_is_refused() {
    let check = |server_final: &str| {
        let (stage, _) = answered(example(pencil(), None));
        stage.check(server_final.as_bytes()).expect_err("refused")
    };
    assert_eq!(check(&SERVER_FINAL.replace("v=6", "v=7")), ScramFault::ServerSignatureInvalid);
    assert_eq!(check(&SERVER_FINAL.replace("5G4=", "5G8=")), ScramFault::ServerSignatureInvalid);
    assert_eq!(check("e=invalid-proof"), ScramFault::ServerError("invalid-proof".into()));
    assert!(matches!(check(""), ScramFault::Malformed { .. }));
}

#[test]
fn a_malformed_message_ends_the_login() {
    assert!(matches!(fault(""), ScramFault::Malformed { .. }));
    assert!(matches!(fault("r=rOprNGfwEbeRWgbNEkqOx"), ScramFault::Malformed { .. }));
}

#[test]
fn debug_of_a_login_shows_no_secret() {
    let keys = salted("pencil", b"salt").keys().clone();
    assert_eq!(format!("{:?}", pencil()), "Password(Password(..))");
    assert_eq!(format!("{:?}", Credentials::Keys(keys)), "Keys(ScramKeys(..))");
    assert_eq!(format!("{:?}", ScramClient::new(pencil(), &[0; NONCE_BYTES])), "ScramClient { .. }");
    assert_eq!(format!("{:?}", example(pencil(), None)), "AwaitServerFirst { .. }");
    let answer = example(pencil(), None).answer(SERVER_FIRST.as_bytes(), 4096).expect("well formed");
    assert_eq!(format!("{answer:?}"), "Derive(AwaitSalted { .. }, Derivation { iterations: 4096, .. })");
    let (stage, _) = answered(example(pencil(), None));
    assert_eq!(format!("{stage:?}"), "AwaitServerFinal { .. }");
}
