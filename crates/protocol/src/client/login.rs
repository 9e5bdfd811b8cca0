//! How a client authenticates.
//!
//! Always true: an answered stage is consumed, so that nothing is asked twice; an unknown user goes through the same
//! messages and costs the same work as a user with a wrong password, and reads the same error.
//! Not here: which method is used and where secrets come from (`config`, `worker::admission::login`).

use std::sync::Arc;

use auth::plain::{self, Check};
use auth::scram::server::AwaitFinal;
use auth::scram::{MECHANISM, MECHANISM_PLUS, NONCE_BYTES};
use auth::{
    Derivation, Password, SaltedPassword, ScramFault, ScramKeys, ScramSecret, ScramServer, Secret, ServerSecret, md5,
};
use wire::{backend, write};

use crate::fault::Fault;

/// How the client must authenticate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Not at all.
    Trust,
    /// By a TLS certificate, which has already been found to name this user.
    Certificate,
    /// By its password in clear text.
    Plain,
    /// By md5; by SCRAM if the stored secret is a SCRAM secret.
    Md5,
    /// By SCRAM-SHA-256.
    Scram,
    /// By its password in clear text, which an external authenticator checks.
    Elsewhere,
}

/// What is known of the user who logs in.
#[derive(Clone, Debug)]
pub struct Known {
    /// The user name that the client claims.
    pub user: Arc<str>,
    /// The stored secret; `None` if the user is unknown.
    pub secret: Option<Arc<Secret>>,
    /// The secret that SCRAM checks against: derived, stored or a mock. `None` where SCRAM is not asked for, because to
    /// make one costs more than a login that asks for nothing. With a mock, [`Method::Md5`] asks a user without a secret
    /// for SCRAM.
    pub scram: Option<ServerSecret>,
    /// Another user's secret that costs as much to check as the users' secrets do, for an unknown user.
    pub like: Option<Arc<Secret>>,
    /// The TLS channel binding of a SCRAM login (`tls-server-end-point`).
    pub channel: Option<Box<[u8]>>,
}

/// Random bytes for one login.
#[derive(Clone, Copy, Debug)]
pub struct Dice {
    /// The md5 salt.
    pub salt: [u8; 4],
    /// The server's part of the SCRAM nonce.
    pub nonce: [u8; NONCE_BYTES],
}

/// A login that waits for a message of the client.
#[derive(Debug)]
pub enum Login {
    /// Waits for the password.
    AwaitPassword(Known),
    /// Waits for the password, which an external authenticator will check.
    AwaitJudged,
    /// Waits for an md5 hash with this salt.
    AwaitMd5(Known, [u8; 4]),
    /// Waits for `SASLInitialResponse`: the mechanism and the first SCRAM message.
    AwaitSaslFirst(ScramServer, Method),
    /// Waits for the last SCRAM message.
    AwaitSaslFinal(AwaitFinal, Method),
}

/// The result of a step of the login.
#[derive(Debug)]
pub enum Step {
    /// The client has authenticated. Carries the SCRAM keys revealed by the login, if they can be used at a server too.
    Passed(Option<ScramKeys>),
    /// A message was sent to the client, whose answer is awaited.
    Ask(Login),
    /// The external authenticator must check this password.
    ExternalAuth(Password),
    /// The password must be hashed, which takes time, before it can be checked.
    Derive(Unproved, Derivation),
}

/// A client whose password is being hashed, to be compared with a SCRAM secret.
#[derive(Debug)]
pub struct Unproved {
    secret: Arc<ScramSecret>,
    /// Whether the secret is the user's own. With another user's secret no password is accepted.
    is_its_own: bool,
}

impl Login {
    /// Begins a login and appends the authentication request, if any, to `out`.
    ///
    /// # Errors
    /// The user is unknown, and the method would ask for no proof.
    pub fn begin(method: Method, known: Known, dice: Dice, out: &mut Vec<u8>) -> Result<Step, Fault> {
        let is_scram = match known.secret.as_deref() {
            Some(Secret::Scram(_)) => true,
            Some(Secret::Plain(_) | Secret::Md5(_)) => false,
            // A user who cannot log in by any password is asked in the same way as the others.
            None | Some(Secret::None) => known.scram.is_some(),
        };
        match method {
            Method::Trust if known.secret.is_none() => Err(Fault::UserUnknownToTrust),
            Method::Certificate if known.secret.is_none() => Err(Fault::CertificateRejected),
            Method::Trust | Method::Certificate => Ok(Step::Passed(None)),
            Method::Plain => {
                write::authentication(out, 3, &[]);
                Ok(Step::Ask(Self::AwaitPassword(known)))
            }
            Method::Elsewhere => {
                write::authentication(out, 3, &[]);
                Ok(Step::Ask(Self::AwaitJudged))
            }
            Method::Md5 if !is_scram => {
                write::authentication(out, 5, &dice.salt);
                Ok(Step::Ask(Self::AwaitMd5(known, dice.salt)))
            }
            Method::Md5 | Method::Scram => {
                let Some(secret) = known.scram else {
                    unreachable!("SCRAM is asked for with what it is checked against")
                };
                let scram = ScramServer::new(secret, &dice.nonce).on_channel(known.channel);
                // The stronger mechanism first, as in PostgreSQL.
                let bound = if scram.may_be_bound() { [MECHANISM_PLUS.as_bytes(), b"\0"] } else { [&b""[..]; 2] };
                let mechanisms = [&bound.concat(), MECHANISM.as_bytes(), b"\0\0"].concat();
                write::authentication(out, 10, &mechanisms);
                Ok(Step::Ask(Self::AwaitSaslFirst(scram, method)))
            }
        }
    }

    /// Takes the body of a password message; appends the next authentication message to `out`.
    ///
    /// # Errors
    /// The client has not authenticated. The second part gives the reason for the log; it holds no secret.
    pub fn answer(self, body: &[u8], out: &mut Vec<u8>) -> Result<Step, (Fault, Option<ScramFault>)> {
        match self {
            Self::AwaitPassword(known) => {
                let received = password(body)?;
                let own = known.secret.as_deref().filter(|secret| !secret.is_none());
                let secret = own.or(known.like.as_deref());
                let is_its_own = own.is_some();
                match (plain::check(secret, &known.user, received), secret) {
                    (Check::Derive(derivation), Some(Secret::Scram(secret))) => {
                        Ok(Step::Derive(Unproved { secret: secret.clone(), is_its_own }, derivation))
                    }
                    (Check::Done(true), _) if is_its_own => Ok(Step::Passed(None)),
                    _ => Err((Fault::PasswordWrong, None)),
                }
            }
            Self::AwaitJudged => {
                let received = Password::new(password(body)?).ok_or((Fault::PasswordEmpty, None))?;
                Ok(Step::ExternalAuth(received))
            }
            Self::AwaitMd5(known, salt) => {
                let received = password(body)?;
                let is_right = md5::verify(known.secret.as_deref(), &known.user, salt, received);
                if is_right { Ok(Step::Passed(None)) } else { Err((Fault::PasswordWrong, None)) }
            }
            Self::AwaitSaslFirst(scram, method) => {
                let (mechanism, first) = sasl_initial(body).ok_or((wrong(method), None))?;
                let answered = match mechanism {
                    MECHANISM => scram.first(first),
                    MECHANISM_PLUS if scram.may_be_bound() => scram.first_bound(first),
                    _ => return Err((Fault::SaslMechanism, None)),
                };
                let (next, asked) = answered.map_err(|why| (wrong(method), Some(why)))?;
                write::authentication(out, 11, &asked);
                Ok(Step::Ask(Self::AwaitSaslFinal(next, method)))
            }
            Self::AwaitSaslFinal(scram, method) => {
                let (last, keys) = scram.last(body).map_err(|why| (wrong(method), Some(why)))?;
                write::authentication(out, 12, &last);
                Ok(Step::Passed(keys))
            }
        }
    }
}

impl Unproved {
    /// Compares the hashed password with the secret.
    ///
    /// # Errors
    /// The client has not authenticated.
    pub fn prove(self, salted: &SaltedPassword) -> Result<(), Fault> {
        let fits = plain::fits(&self.secret, salted);
        if fits && self.is_its_own { Ok(()) } else { Err(Fault::PasswordWrong) }
    }
}

/// The error of a client that has not proved its password by SCRAM. With `md5`, which asks each user for what its secret is
/// of, an unknown user is asked for either, and reads the same.
fn wrong(method: Method) -> Fault {
    if method == Method::Md5 { Fault::PasswordWrong } else { Fault::SaslWrong }
}

/// The password in a message, without its terminating zero byte.
fn password(body: &[u8]) -> Result<&[u8], (Fault, Option<ScramFault>)> {
    match body.split_last() {
        Some((0, [])) => Err((Fault::PasswordEmpty, None)),
        Some((0, text)) if !text.contains(&0) => Ok(text),
        _ => Err((Fault::PasswordWrong, None)),
    }
}

/// Reads a `SASLInitialResponse`: the mechanism and the first SCRAM message.
fn sasl_initial(body: &[u8]) -> Option<(&str, &[u8])> {
    let (mechanism, rest) = backend::c_string(body)?;
    let (length, first) = rest.split_first_chunk::<4>()?;
    (u32::from_be_bytes(*length) as usize == first.len()).then_some((mechanism, first))
}

/// The longest password message accepted, in bytes: PgBouncer's longest password and room for its frame. The limit is
/// checked before any of the message is kept.
pub const PASSWORD_MESSAGE_BYTES_MAX: u32 = 65_536 + 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use auth::scram::client::{Answer, AwaitServerFirst};
    use auth::{Credentials, ScramClient};

    const DICE: Dice = Dice { salt: *b"salt", nonce: [7; NONCE_BYTES] };

    fn known(secret: Option<&str>) -> Known {
        let secret = secret.map(|text| Arc::new(Secret::parse(text)));
        let scram = match secret.as_deref() {
            Some(Secret::Scram(stored)) => ServerSecret::Stored(stored.clone()),
            Some(Secret::Plain(password)) => {
                ServerSecret::Derived(Arc::new(ScramSecret::derive(password.as_bytes(), &[1; 16], 2)))
            }
            _ => ServerSecret::mock("ann", &[0; 32], 2),
        };
        Known { user: "ann".into(), secret, scram: Some(scram), like: None, channel: None }
    }

    fn ask(method: Method, secret: Option<&str>) -> (Login, Vec<u8>) {
        let mut out = Vec::new();
        match Login::begin(method, known(secret), DICE, &mut out) {
            Ok(Step::Ask(login)) => (login, out),
            other => panic!("a question, not {other:?}"),
        }
    }

    #[test]
    fn the_unknown_are_not_trusted() {
        let begin = |secret| Login::begin(Method::Trust, known(secret), DICE, &mut Vec::new());
        assert!(matches!(begin(Some("x")), Ok(Step::Passed(None))));
        assert!(matches!(begin(Some("")), Ok(Step::Passed(None))));
        assert!(matches!(begin(None), Err(Fault::UserUnknownToTrust)));
    }

    #[test]
    fn a_certificate_lets_only_those_in_who_are_known() {
        let begin = |secret| Login::begin(Method::Certificate, known(secret), DICE, &mut Vec::new());
        assert!(matches!(begin(Some("")), Ok(Step::Passed(None))));
        assert!(matches!(begin(None), Err(Fault::CertificateRejected)));
    }

    #[test]
    fn a_plain_password_is_right_or_wrong() {
        let answer = |secret, body: &[u8]| ask(Method::Plain, secret).0.answer(body, &mut Vec::new());
        assert!(matches!(answer(Some("secret"), b"secret\0"), Ok(Step::Passed(None))));
        assert!(matches!(answer(Some("secret"), b"Secret\0"), Err((Fault::PasswordWrong, None))));
        assert!(matches!(answer(None, b"secret\0"), Err((Fault::PasswordWrong, None))));
        assert!(matches!(answer(Some("secret"), b"\0"), Err((Fault::PasswordEmpty, None))));
        assert!(matches!(answer(Some("secret"), b""), Err((Fault::PasswordWrong, None))));
        assert!(matches!(answer(Some(""), b"\0"), Err((Fault::PasswordEmpty, None))));
    }

    #[test]
    fn a_password_that_is_known_elsewhere_is_handed_on_whoever_it_is() {
        for secret in [None, Some("another")] {
            let (login, asked) = ask(Method::Elsewhere, secret);
            assert_eq!(asked, b"R\0\0\0\x08\0\0\0\x03");
            assert!(matches!(login.answer(b"\0", &mut Vec::new()), Err((Fault::PasswordEmpty, None))));
            let (login, _) = ask(Method::Elsewhere, secret);
            let Ok(Step::ExternalAuth(password)) = login.answer(b"secret\0", &mut Vec::new()) else {
                panic!("handed on")
            };
            assert_eq!(password.as_bytes(), b"secret");
            // PAM would read it up to the zero byte only.
            let login = ask(Method::Elsewhere, secret).0;
            let refused = login.answer(b"secret\0more\0", &mut Vec::new());
            assert!(matches!(refused, Err((Fault::PasswordWrong, None))));
        }
    }

    /// An unknown user is checked against the secret of another user; that user's password must not help.
    #[test]
    fn the_unknown_do_not_get_in_by_the_password_of_whom_they_are_judged_like() {
        let like = Some(Arc::new(Secret::parse(ScramSecret::derive("secret", &[9; 16], 2).to_string())));
        for secret in [None, Some("")] {
            let unknown = Known { like: like.clone(), ..known(secret) };
            let Ok(Step::Ask(login)) = Login::begin(Method::Plain, unknown, DICE, &mut Vec::new()) else {
                panic!("asked")
            };
            let Ok(Step::Derive(unproved, derivation)) = login.answer(b"secret\0", &mut Vec::new()) else {
                panic!("less work than for a known one")
            };
            assert_eq!(unproved.prove(&derivation.run()), Err(Fault::PasswordWrong));
            let like = Some(Arc::new(Secret::parse("secret")));
            let unknown = Known { like, ..known(secret) };
            let Ok(Step::Ask(login)) = Login::begin(Method::Plain, unknown, DICE, &mut Vec::new()) else {
                panic!("asked")
            };
            assert!(matches!(login.answer(b"secret\0", &mut Vec::new()), Err((Fault::PasswordWrong, None))));
        }
    }

    #[test]
    fn a_plain_password_is_hashed_elsewhere_and_then_held_against_a_scram_secret() {
        let stored = ScramSecret::derive("secret", &[9; 16], 2).to_string();
        let prove = |password: &[u8]| match ask(Method::Plain, Some(&stored)).0.answer(password, &mut Vec::new()) {
            Ok(Step::Derive(unproved, derivation)) => unproved.prove(&derivation.run()),
            other => panic!("to be hashed, not {other:?}"),
        };
        assert_eq!(prove(b"secret\0"), Ok(()));
        assert_eq!(prove(b"Secret\0"), Err(Fault::PasswordWrong));
        let empty = ask(Method::Plain, Some(&stored)).0.answer(b"\0", &mut Vec::new());
        assert!(matches!(empty, Err((Fault::PasswordEmpty, None))));
    }

    #[test]
    fn a_login_shows_what_it_waits_for_and_no_secret() {
        let stored = ScramSecret::derive("hunter2", &[9; 16], 2).to_string();
        for (method, secret, stage) in [
            (Method::Plain, "hunter2", "AwaitPassword"),
            (Method::Md5, "hunter2", "AwaitMd5"),
            (Method::Scram, &stored, "AwaitSaslFirst"),
        ] {
            let shown = format!("{:?}", ask(method, Some(secret)).0);
            assert!(shown.starts_with(stage) && !shown.contains(secret), "{shown}");
            // Keys would be shown as lists of numbers, as the salt of MD5 is.
            assert!(matches!(method, Method::Md5) || !shown.contains('['), "{shown}");
        }
    }

    #[test]
    fn an_md5_answer_is_right_or_wrong() {
        let (login, asked) = ask(Method::Md5, Some("secret"));
        assert_eq!(&asked[9..], b"salt");
        let right = md5::answer(&Secret::parse("secret"), "ann", *b"salt").expect("an answer");
        let body = [&right[..], b"\0"].concat();
        assert!(matches!(login.answer(&body, &mut Vec::new()), Ok(Step::Passed(None))));
        let mut out = Vec::new();
        let unknown = Known { scram: None, ..known(None) };
        let Ok(Step::Ask(login)) = Login::begin(Method::Md5, unknown, DICE, &mut out) else { panic!("asked") };
        assert!(matches!(login.answer(&body, &mut Vec::new()), Err((Fault::PasswordWrong, None))));
    }

    /// The answer of our SCRAM client to a message of our SCRAM server.
    fn answered(client: AwaitServerFirst, asked: &[u8]) -> Vec<u8> {
        match client.answer(asked, 2).expect("a question of ours") {
            Answer::Ready(_, answer) => answer,
            Answer::Derive(client, derivation) => client.salted(derivation.run().into()).1,
        }
    }

    /// Plays a client that logs in by SCRAM with this password.
    fn scram(mut login: Login, password: &str) -> Result<Option<ScramKeys>, Fault> {
        let client = ScramClient::new(Credentials::Password(Password::new(password).expect("some")), &[3; 18]);
        let (client, first) = client.first();
        let mut initial = Vec::new();
        write::sasl_initial(&mut initial, MECHANISM, &first);
        let mut out = Vec::new();
        login = match login.answer(&initial[5..], &mut out).map_err(|(fault, _)| fault)? {
            Step::Ask(login) => login,
            step => panic!("{step:?} is too early"),
        };
        let last = answered(client, &out[9..]);
        match login.answer(&last, &mut Vec::new()).map_err(|(fault, _)| fault)? {
            Step::Passed(keys) => Ok(keys),
            step => panic!("{step:?} is too late"),
        }
    }

    #[test]
    fn scram_reveals_keys_only_for_a_stored_secret() {
        let stored = ScramSecret::derive("secret", &[9; 16], 2).to_string();
        assert!(scram(ask(Method::Scram, Some(&stored)).0, "secret").expect("right").is_some());
        assert!(scram(ask(Method::Scram, Some("secret")).0, "secret").expect("right").is_none());
        assert_eq!(scram(ask(Method::Scram, Some("secret")).0, "wrong").err(), Some(Fault::SaslWrong));
        assert_eq!(scram(ask(Method::Scram, None).0, "secret").err(), Some(Fault::SaslWrong));
    }

    #[test]
    fn md5_becomes_scram_where_the_secret_is_one() {
        let stored = ScramSecret::derive("secret", &[9; 16], 2).to_string();
        let (login, asked) = ask(Method::Md5, Some(&stored));
        assert_eq!(asked[8], 10);
        assert!(scram(login, "secret").is_ok());
        // An unknown user, or one without a secret, is asked for SCRAM as well if there is a mock.
        for secret in [None, Some("")] {
            let (login, asked_too) = ask(Method::Md5, secret);
            assert_eq!(asked_too, asked);
            assert_eq!(scram(login, "secret").err(), Some(Fault::PasswordWrong));
        }
        assert_eq!(scram(ask(Method::Md5, Some(&stored)).0, "wrong").err(), Some(Fault::PasswordWrong));
    }

    #[test]
    fn by_tls_a_login_can_be_bound_to_its_channel() {
        let known = || Known { channel: Some(b"hash"[..].into()), ..known(Some("secret")) };
        let log_in = |mechanism: &str, bind: fn(ScramClient) -> ScramClient| {
            let mut out = Vec::new();
            let Ok(Step::Ask(login)) = Login::begin(Method::Scram, known(), DICE, &mut out) else { panic!("asked") };
            assert_eq!(&out[9..], b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
            let client = ScramClient::new(Credentials::Password(Password::new("secret").expect("some")), &[3; 18]);
            let (client, first) = bind(client).first();
            let mut initial = Vec::new();
            write::sasl_initial(&mut initial, mechanism, &first);
            let mut out = Vec::new();
            let login = match login.answer(&initial[5..], &mut out).map_err(|(_, why)| why)? {
                Step::Ask(login) => login,
                step => panic!("{step:?} is too early"),
            };
            let last = answered(client, &out[9..]);
            login.answer(&last, &mut Vec::new()).map(|_| ()).map_err(|(_, why)| why)
        };
        assert_eq!(log_in("SCRAM-SHA-256-PLUS", |client| client.bound_to(b"hash"[..].into())), Ok(()));
        assert_eq!(log_in("SCRAM-SHA-256", |client| client), Ok(()));
        let elsewhere = log_in("SCRAM-SHA-256-PLUS", |client| client.bound_to(b"other"[..].into()));
        assert_eq!(elsewhere, Err(Some(ScramFault::ChannelBindingMismatch)));
        let downgraded = log_in("SCRAM-SHA-256", ScramClient::unbound_by_server);
        assert_eq!(downgraded, Err(Some(ScramFault::ChannelBindingDowngrade)));
    }

    #[test]
    fn another_mechanism_is_refused_by_name() {
        let mut initial = Vec::new();
        write::sasl_initial(&mut initial, "OAUTHBEARER", b"x");
        let (login, _) = ask(Method::Scram, Some("secret"));
        assert!(matches!(login.answer(&initial[5..], &mut Vec::new()), Err((Fault::SaslMechanism, None))));
        let (login, _) = ask(Method::Scram, Some("secret"));
        assert!(matches!(login.answer(b"junk", &mut Vec::new()), Err((Fault::SaslWrong, None))));
    }
}
