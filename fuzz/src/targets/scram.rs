//! SCRAM: arbitrary messages against each of our sides, and a login between our two sides with a changed message.
//!
//! Input: which of these, then the password and messages separated by line feeds, or which byte is changed.
//!
//! Always true: a message is accepted or refused; no client gets in, and no server is trusted, when a single byte of
//! the four messages was changed on the way; an unchanged login with the right password succeeds; a fault is one line
//! that contains no secret.

use std::sync::Arc;

use auth::plain::{self, Check};
use auth::scram::NONCE_BYTES;
use auth::scram::client::{Answer, AwaitServerFinal, AwaitServerFirst};
use auth::{Credentials, Password, ScramClient, ScramFault, ScramSecret, ScramServer, Secret, ServerSecret, md5};

use crate::Target;
use crate::draw::Draw;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "scram",
    run,
    words: &[
        b"n,,n=,r=",
        b"y,,",
        b"p=tls-server-end-point,,",
        b"n,a=ann,",
        b"r=",
        b"s=",
        b"i=",
        b"c=biws",
        b"c=eSws",
        b"p=",
        b"v=",
        b"e=",
        b"m=",
        b",x=y",
        b"AAAA",
        b"==",
        b"\n",
        b"SCRAM-SHA-256$2:",
        b"md5",
        b"$",
        b":",
    ],
    bytes_max: 500,
};

/// Logs in, or tries to.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    match draw.byte() % 4 {
        0 => strangers(draw.rest()),
        1 | 2 => tampered(&mut draw),
        _ => secrets(draw.rest()),
    }
}

/// The numbers of iterations that these bytes may ask for, where they are in one piece.
fn iterations(words: &[u8]) -> impl Iterator<Item = u64> {
    let places = words.windows(2).enumerate().filter(|(_, pair)| *pair == b"i=" || *pair == b"6$");
    places.map(|(at, _)| {
        let digits = words[at + 2..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

/// Messages that neither of our sides has made.
fn strangers(words: &[u8]) {
    let mut messages = words.split(|&byte| byte == b'\n');
    let mut next = || messages.next().unwrap_or_default();
    let (client_first, client_final, server_first, server_final) = (next(), next(), next(), next());
    let server = ScramServer::new(ServerSecret::mock("ann", &[1; 32], 2), &[2; NONCE_BYTES]);
    match server.first(client_first) {
        Ok((stage, answer)) => {
            assert!(answer.starts_with(b"r=") && answer.len() > client_first.len().min(40));
            tells(stage.last(client_final).expect_err("nobody can prove to know a mock"));
        }
        Err(fault) => tells(fault),
    }
    let client = ScramClient::new(credentials(b"secret"), &[3; NONCE_BYTES]);
    match answered(client.first().0, server_first) {
        Ok((stage, answer)) => {
            assert!(answer.starts_with(b"c=biws,r="));
            tells(stage.check(server_final).expect_err("a server that knows no password"));
        }
        Err(fault) => tells(fault),
    }
}

/// Returns the answer to a server's message, after hashing the password.
fn answered(stage: AwaitServerFirst, asked: &[u8]) -> Result<(AwaitServerFinal, Vec<u8>), ScramFault> {
    Ok(match stage.answer(asked, CHEAP as u32)? {
        Answer::Ready(stage, answer) => (stage, answer),
        Answer::Derive(stage, derivation) => stage.salted(derivation.run().into()),
    })
}

fn credentials(password: &[u8]) -> Credentials {
    Credentials::Password(Password::new(password).expect("not empty"))
}

fn tells(fault: ScramFault) {
    let line = fault.to_string();
    assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?}");
    // Except for the server's own text.
    assert!(!line.contains("secret") || matches!(fault, ScramFault::ServerError(_)), "{line:?}");
}

/// How one of the four messages is changed on the way.
struct Tamper {
    message: u8,
    at: usize,
    change: u8,
}

impl Tamper {
    /// Forwards a message, and records whether it was changed.
    fn pass(&self, number: u8, message: &mut [u8], is_changed: &mut bool) {
        let at = self.at % message.len();
        // The last base64 digit of a proof or a signature has unused bits.
        let is_last_digit = number >= 2 && at + 2 == message.len();
        if self.message == number && self.change != 0 && !is_last_digit {
            message[at] ^= self.change;
            *is_changed = true;
        }
    }
}

fn tampered(draw: &mut Draw<'_>) {
    let tamper = Tamper { message: draw.byte() % 5, at: usize::from(draw.byte()), change: draw.byte() };
    let (password_bytes, salt_bytes) = (usize::from(draw.byte() % 16) + 1, usize::from(draw.byte() % 24));
    let (salt, password) = (draw.bytes(salt_bytes), draw.bytes(password_bytes));
    let typed = if draw.is_over() { password } else { draw.rest() };
    if password.is_empty() || typed.is_empty() {
        return;
    }
    let stored = ScramSecret::derive(password, salt, 2);
    let is_same = ScramSecret::derive(typed, salt, 2) == stored;
    let mut is_changed = false;
    let ended = log_in(typed, stored, &tamper, &mut is_changed);
    match ended {
        Ok(()) => assert!(is_same && !is_changed, "a changed login succeeds"),
        Err(fault) => {
            assert!(!is_same || is_changed, "an honest login fails");
            // The nonce is checked before the proof, which a stranger might have made for a nonce of its own.
            let is_in_nonce = tamper.message == 2 && tamper.change != 0 && (9..9 + 48).contains(&tamper.at);
            assert!(!is_in_nonce || fault != ScramFault::ProofWrong, "another nonce is taken");
        }
    }
}

fn log_in(typed: &[u8], stored: ScramSecret, tamper: &Tamper, is_changed: &mut bool) -> Result<(), ScramFault> {
    let (client, mut message) = ScramClient::new(credentials(typed), &[3; NONCE_BYTES]).first();
    tamper.pass(0, &mut message, is_changed);
    let server = ScramServer::new(ServerSecret::Stored(Arc::new(stored)), &[4; NONCE_BYTES]);
    let (server, mut message) = server.first(&message)?;
    tamper.pass(1, &mut message, is_changed);
    let (client, mut message) = answered(client, &message)?;
    tamper.pass(2, &mut message, is_changed);
    let (mut message, keys) = server.last(&message)?;
    assert!(keys.is_some(), "a stored secret reveals the keys");
    tamper.pass(3, &mut message, is_changed);
    client.check(&message)?;
    Ok(())
}

/// Returns whether this is the password of the secret, after hashing where that is needed.
fn is_password(secret: Option<&Secret>, text: &[u8]) -> bool {
    match (plain::check(secret, "ann", text), secret) {
        (Check::Derive(derivation), Some(Secret::Scram(scram))) => plain::fits(scram, &derivation.run()),
        (Check::Derive(_), _) => panic!("nothing to be hashed"),
        (Check::Done(is_right), _) => is_right,
    }
}

/// Stored secrets, and passwords checked against them.
fn secrets(text: &[u8]) {
    let secret = Secret::parse(text);
    // Except for the unused bits of a base64 digit, which PostgreSQL ignores as well.
    assert!(*secret.text() == *text || matches!(secret, Secret::Scram(_)), "a secret is written as it was read");
    assert!(Secret::parse(secret.text()) == secret);
    assert!(!format!("{secret:?}").contains('$'));
    if iterations(text).any(|number| number > CHEAP) {
        return;
    }
    match &secret {
        Secret::Plain(_) => {
            assert!(is_password(Some(&secret), text));
            let answer = md5::answer(&secret, "ann", *b"salt").expect("a password answers");
            assert!(md5::verify(Some(&secret), "ann", *b"salt", &answer));
            assert!(is_password(Some(&Secret::Md5(md5::stored("ann", text))), text));
        }
        _ => assert!(!is_password(Some(&secret), text), "a hash is not its own password"),
    }
    assert!(!is_password(Some(&secret), b""));
    assert!(!is_password(None, text));
}

/// A number of iterations that takes no time.
pub(crate) const CHEAP: u64 = 64;
