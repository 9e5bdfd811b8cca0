//! Properties that hold for any bytes and any password.

use auth::plain::Check;
use auth::scram::NONCE_BYTES;
use auth::scram::client::{Answer, AwaitServerFinal, AwaitServerFirst};
use auth::{Credentials, Password, ScramClient, ScramSecret, ScramServer, Secret, ServerSecret, UserFile, md5, plain};
use proptest::collection::vec;
use proptest::prelude::*;

const SALT: [u8; 4] = [4, 3, 2, 1];

fn password_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 1..80),
        "\\PC{1,40}".prop_map(String::into_bytes),
        "[ -~]{1,40}".prop_map(String::into_bytes)
    ]
}

/// Bytes that are nearly a SCRAM message, so that not only the first check is reached.
fn nearly_scram() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "(n,,|y,,|p=|n=|r=|c=biws|c=|s=|i=|v=|e=|m=|p=|,|=|[A-Za-z0-9+/]{1,8}|AAAA|[0-9]{1,2})"
            .prop_map(String::into_bytes),
        vec(any::<u8>(), 0..3),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Bytes that are nearly an auth file.
fn nearly_auth_file() -> impl Strategy<Value = Vec<u8>> {
    let piece =
        prop_oneof!["(\"|\"\"|;|\n|\r\n| |a|bc|\"a\" \"b\"\n)".prop_map(String::into_bytes), vec(any::<u8>(), 0..3)];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn quoted(text: &[u8]) -> Vec<u8> {
    let doubled: Vec<u8> =
        text.iter().flat_map(|&byte| std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 })).collect();
    [b"\"", &*doubled, b"\""].concat()
}

fn answered(stage: AwaitServerFirst, message: &[u8]) -> (AwaitServerFinal, Vec<u8>) {
    match stage.answer(message, 4).expect("well formed") {
        Answer::Ready(stage, answer) => (stage, answer),
        Answer::Derive(stage, derivation) => stage.salted(derivation.run().into()),
    }
}

fn is_password(secret: &Secret, text: &[u8]) -> bool {
    match (plain::check(Some(secret), "user", text), secret) {
        (Check::Derive(derivation), Secret::Scram(scram)) => plain::fits(scram, &derivation.run()),
        (Check::Done(is_right), _) => is_right,
        (Check::Derive(_), _) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_is_read_or_refused(first in nearly_scram(), last in nearly_scram()) {
        let server = || ScramServer::new(ServerSecret::mock("user", &[1; 32], 1), &[2; NONCE_BYTES]);
        let _ = server().first(&first);
        let (stage, _) = server().first(b"n,,n=,r=abc").expect("well formed");
        prop_assert!(stage.last(&last).is_err());
        let password = Credentials::Password(Password::new("x").expect("not empty"));
        let (stage, _) = ScramClient::new(password.clone(), &[3; NONCE_BYTES]).first();
        prop_assert!(stage.answer(&first, 4).is_err());
        let (stage, message) = ScramClient::new(password, &[3; NONCE_BYTES]).first();
        let (_, message) = server().first(&message).expect("well formed");
        let (stage, _) = answered(stage, &message);
        prop_assert!(stage.check(&last).is_err());
    }

    #[test]
    fn any_secret_is_written_as_it_was_read(text in vec(any::<u8>(), 0..80)) {
        let secret = Secret::parse(&text);
        prop_assert_eq!(&*secret.text(), &*text);
    }

    #[test]
    fn any_file_is_read(bytes in nearly_auth_file()) {
        let (file, problems) = UserFile::parse(&bytes);
        prop_assert_eq!(file.iter().len(), file.len());
        prop_assert!(problems.windows(2).all(|pair| pair[0].line < pair[1].line));
    }

    #[test]
    fn any_user_and_secret_survive_quoting(user in "[^\n\0]{0,31}", secret in password_bytes()) {
        prop_assume!(!secret.iter().any(|byte| matches!(byte, 0 | b'\n')));
        let line = [&*quoted(user.as_bytes()), b" ", &quoted(&secret), b"\n"].concat();
        let (file, problems) = UserFile::parse(&line);
        prop_assert_eq!(problems, vec![]);
        prop_assert_eq!(&*file.secret(&user).expect("there").text(), &*secret);
    }

    #[test]
    fn any_password_logs_in_by_every_method(
        text in password_bytes(),
        salt in vec(any::<u8>(), 0..40),
        rounds in 1..4_u32,
    ) {
        let password = Password::new(&text).expect("not empty");
        let scram = ScramSecret::derive(&text, &salt, rounds);

        let (client, message) = ScramClient::new(Credentials::Password(password.clone()), &[3; NONCE_BYTES]).first();
        let server = ScramServer::new(ServerSecret::Stored(scram.clone().into()), &[4; NONCE_BYTES]);
        let (server, message) = server.first(&message).expect("first");
        let (client, message) = answered(client, &message);
        let (message, keys) = server.last(&message).expect("last");
        client.check(&message).expect("check");
        prop_assert!(keys.is_some());

        for secret in [Secret::Plain(password), Secret::Md5(md5::stored("user", &text)), Secret::Scram(scram.into())] {
            prop_assert!(is_password(&secret, &text));
            if let Some(answer) = md5::answer(&secret, "user", SALT) {
                prop_assert!(md5::verify(Some(&secret), "user", SALT, &answer));
            }
        }
    }
}
