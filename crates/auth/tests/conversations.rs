//! Whole logins between our client side and our server side.

use std::sync::Arc;

use auth::scram::NONCE_BYTES;
use auth::scram::client::Answer;
use auth::{Credentials, Password, SaltedPassword, ScramClient, ScramFault, ScramKeys, ScramSecret, ScramServer};
use auth::{Secret, ServerSecret};

/// Runs a login from beginning to end. Returns the result of each side, or the fault of the side that ended it.
fn log_in(
    credentials: Credentials,
    cached: Option<Arc<SaltedPassword>>,
    secret: ServerSecret,
) -> Result<(Option<ScramKeys>, Option<Arc<SaltedPassword>>), ScramFault> {
    let (client, message) = ScramClient::new(credentials, &[1; NONCE_BYTES]).with_cached(cached).first();
    let (server, message) = ScramServer::new(secret, &[2; NONCE_BYTES]).first(&message)?;
    let (client, message) = match client.answer(&message, 5)? {
        Answer::Ready(client, message) => (client, message),
        Answer::Derive(client, derivation) => client.salted(derivation.run().into()),
    };
    let (message, keys) = server.last(&message)?;
    Ok((keys, client.check(&message)?))
}

fn password(text: &str) -> Credentials {
    Credentials::Password(Password::new(text).expect("not empty"))
}

fn secret(text: &str, salt: &[u8], iterations: u32) -> Arc<ScramSecret> {
    ScramSecret::derive(text, salt, iterations).into()
}

#[test]
fn the_right_password_logs_in() {
    let (keys, _) = log_in(password("pencil"), None, ServerSecret::Derived(secret("pencil", b"salt", 5))).expect("in");
    assert!(keys.is_none());
}

#[test]
fn a_wrong_password_does_not() {
    let ended = log_in(password("Pencil"), None, ServerSecret::Stored(secret("pencil", b"salt", 5)));
    assert_eq!(ended.expect_err("refused"), ScramFault::ProofWrong);
}

#[test]
fn an_unknown_user_is_refused_like_a_wrong_password() {
    let ended = log_in(password("pencil"), None, ServerSecret::mock("nobody", &[9; 32], 5));
    assert_eq!(ended.expect_err("refused"), ScramFault::ProofWrong);
}

#[test]
fn passwords_that_sasl_prepares_alike_are_alike() {
    log_in(password("\u{2168}"), None, ServerSecret::Stored(secret("I\u{ad}X", b"salt", 5))).expect("in");
}

#[test]
fn a_password_in_another_encoding_logs_in() {
    let latin1 = Credentials::Password(Password::new(b"p\xe4ss").expect("not empty"));
    let stored = ScramSecret::derive(b"p\xe4ss", b"salt", 5);
    log_in(latin1, None, ServerSecret::Stored(stored.into())).expect("in");
}

#[test]
fn the_keys_of_a_client_open_a_second_server_with_the_same_secret() {
    let stored = secret("pencil", b"salt", 5);
    let (keys, _) = log_in(password("pencil"), None, ServerSecret::Stored(Arc::clone(&stored))).expect("in");
    let keys = keys.expect("keys of a stored secret");
    // The second server has its own copy of the same secret.
    let Secret::Scram(copied) = Secret::parse(stored.to_string()) else { panic!("not a secret") };
    let (again, kept) = log_in(Credentials::Keys(keys.clone()), None, ServerSecret::Stored(copied)).expect("in");
    assert!(again == Some(keys) && kept.is_none());
}

#[test]
fn the_keys_of_a_client_do_not_open_a_server_with_another_salt() {
    let (keys, _) = log_in(password("pencil"), None, ServerSecret::Stored(secret("pencil", b"salt", 5))).expect("in");
    let keys = Credentials::Keys(keys.expect("keys of a stored secret"));
    let ended = log_in(keys, None, ServerSecret::Stored(secret("pencil", b"other", 5)));
    assert_eq!(ended.expect_err("refused"), ScramFault::ProofWrong);
}

#[test]
fn a_cache_survives_logins_and_gives_way_when_the_secret_changes() {
    let stored = || ServerSecret::Stored(secret("pencil", b"salt", 5));
    let (_, first) = log_in(password("pencil"), None, stored()).expect("in");
    let (_, second) = log_in(password("pencil"), first.clone(), stored()).expect("in");
    let (first, second) = (first.expect("kept"), second.expect("kept"));
    assert!(Arc::ptr_eq(&first, &second));
    let changed = ServerSecret::Stored(secret("pencil", b"other", 5));
    let (_, third) = log_in(password("pencil"), Some(second), changed).expect("in");
    assert!(!Arc::ptr_eq(&first, &third.expect("kept")));
}

#[test]
fn a_cache_does_not_help_a_wrong_password() {
    let stored = || ServerSecret::Stored(secret("pencil", b"salt", 5));
    let (_, cached) = log_in(password("pencil"), None, stored()).expect("in");
    let ended = log_in(password("wrong"), cached, stored());
    assert_eq!(ended.expect_err("refused"), ScramFault::ProofWrong);
}
