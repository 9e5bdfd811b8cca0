//! How we log in to PostgreSQL.
//!
//! Always true: a server is ready only after it has proved itself as far as the method allows (SCRAM's signature) and has
//! sent `ReadyForQuery`; the parameters that it reports meanwhile are kept for the clients' welcome.
//! Not here: when and how often a login is tried (`pool::dial`).

use std::borrow::Cow;
use std::sync::Arc;

use auth::scram::client::{Answer, AwaitSalted, AwaitServerFinal, AwaitServerFirst};
use auth::scram::{MECHANISM, MECHANISM_PLUS, NONCE_BYTES};
use auth::{Credentials, Derivation, SaltedPassword, ScramClient, ScramFault, ScramKeys, Secret, md5};
use wire::backend::{self, Authentication, TxStatus};
use wire::notice::Notice;
use wire::write;

/// The user, database and credentials of our login.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user on the server.
    pub user: Arc<str>,
    /// The database on the server.
    pub database: Arc<str>,
    /// The secret that we hold for the user.
    pub secret: Arc<Secret>,
    /// For a SCRAM secret: the keys that a client's login has revealed.
    pub keys: Option<ScramKeys>,
    /// The salted password of an earlier login, which saves hashing it again.
    pub salted: Option<Arc<SaltedPassword>>,
    /// The most iterations for which a password is hashed at a server's request.
    pub iterations_max: u32,
    /// The TLS channel binding of a SCRAM login, used if the server offers it (`tls-server-end-point`).
    pub channel: Option<Box<[u8]>>,
    /// Parameters of the startup packet beside user and database.
    pub parameters: Vec<(Cow<'static, str>, Box<str>)>,
}

/// A login under way.
#[derive(Debug)]
pub struct ServerLogin {
    identity: Identity,
    nonce: [u8; NONCE_BYTES],
    stage: LoginStage,
    arrival: Arrival,
}

/// Each stage is named after what it waits for.
#[allow(clippy::enum_variant_names)]
#[derive(Debug)]
enum LoginStage {
    AwaitRequest,
    AwaitSaslContinue(AwaitServerFirst),
    AwaitSalted(AwaitSalted),
    AwaitSaslFinal(AwaitServerFinal),
    /// We have answered: `AuthenticationOk` or an error follows.
    AwaitVerdict,
    AwaitReady,
}

/// What a server reports when it accepts our login.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    /// The parameters that the server reports, in the order sent.
    pub parameters: Vec<(Box<str>, Box<str>)>,
    /// Process id and secret, for cancel requests.
    pub key: Box<[u8]>,
    /// The salted password, which saves the next login its hashing.
    pub salted: Option<Arc<SaltedPassword>>,
}

/// The result of a server's message.
#[derive(Debug)]
pub enum Step {
    /// More messages must come.
    Wait,
    /// These bytes must be sent to the server.
    Send(Vec<u8>),
    /// A password must be hashed, which takes time; the result goes to [`ServerLogin::salted`].
    Derive(Derivation),
    /// The server is ready for queries.
    Ready(Arrival),
}

/// Why a login failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoginFault {
    /// The server refused the login.
    Refused(Notice),
    /// The server has not proved that it knows the password. The text is PgBouncer's.
    Unproved(&'static str),
    /// The server asks for SCRAM, and we hold a SCRAM secret without the keys that only a client's own login reveals.
    KeysMissing,
    /// The secret that we hold does not fit the method; the reason in a sentence.
    WrongSecret(&'static str),
    /// The server asks for no SCRAM iterations at all, or for more than is allowed.
    IterationsRefused {
        /// The number of iterations; `u64::MAX` for all greater ones.
        iterations: u64,
        /// The allowed maximum.
        allowed: u32,
    },
    /// The server asks for an authentication method that is not supported, with this code.
    UnknownMethod(u32),
    /// The server offers only SASL mechanisms that are not supported, such as `OAUTHBEARER`: their names.
    UnknownMechanisms(Box<str>),
    /// The server violates the protocol with a message of this kind.
    Nonsense(u8),
}

impl ServerLogin {
    /// Begins a login and appends the startup packet to `out`.
    #[must_use]
    pub fn begin(identity: Identity, nonce: [u8; NONCE_BYTES], out: &mut Vec<u8>) -> Self {
        let names = [("user", &*identity.user), ("database", &*identity.database)];
        let rest = identity.parameters.iter().map(|(name, value)| (&**name, &**value));
        write::startup(out, 0, names.into_iter().chain(rest));
        Self { identity, nonce, stage: LoginStage::AwaitRequest, arrival: Arrival::default() }
    }

    /// Takes one whole message of the server.
    ///
    /// # Errors
    /// The login has failed; the connection is of no more use.
    pub fn hear(&mut self, kind: u8, body: &[u8]) -> Result<Step, LoginFault> {
        match kind {
            backend::ERROR_RESPONSE => Err(LoginFault::Refused(Notice::parse(body))),
            backend::NOTICE_RESPONSE | backend::NEGOTIATE_PROTOCOL_VERSION => Ok(Step::Wait),
            backend::AUTHENTICATION => {
                let request = Authentication::parse(body).ok_or(LoginFault::Nonsense(kind))?;
                self.authenticate(request)
            }
            backend::PARAMETER_STATUS => {
                let (name, value) = backend::parameter_status(body).ok_or(LoginFault::Nonsense(kind))?;
                self.arrival.parameters.push((name.into(), value.into()));
                if self.arrival.parameters.len() > PARAMETERS_MAX {
                    return Err(LoginFault::Nonsense(kind));
                }
                Ok(Step::Wait)
            }
            backend::BACKEND_KEY_DATA if (8..=260).contains(&body.len()) => {
                self.arrival.key = body.into();
                Ok(Step::Wait)
            }
            backend::READY_FOR_QUERY
                if matches!(self.stage, LoginStage::AwaitReady) && TxStatus::parse(body) == Some(TxStatus::Idle) =>
            {
                Ok(Step::Ready(std::mem::take(&mut self.arrival)))
            }
            _ => Err(LoginFault::Nonsense(kind)),
        }
    }

    fn authenticate(&mut self, request: Authentication<'_>) -> Result<Step, LoginFault> {
        let nonsense = LoginFault::Nonsense(backend::AUTHENTICATION);
        let mut out = Vec::new();
        let (next, step) = match (std::mem::replace(&mut self.stage, LoginStage::AwaitVerdict), request) {
            (LoginStage::AwaitRequest | LoginStage::AwaitVerdict, Authentication::Ok) => {
                (LoginStage::AwaitReady, Step::Wait)
            }
            (LoginStage::AwaitRequest, Authentication::Cleartext) => {
                let text = self.identity.secret.text();
                write_password(&mut out, &text);
                (LoginStage::AwaitVerdict, Step::Send(out))
            }
            (LoginStage::AwaitRequest, Authentication::Md5 { salt }) => {
                let answer = md5::answer(&self.identity.secret, &self.identity.user, salt);
                let answer = answer.ok_or_else(|| {
                    LoginFault::WrongSecret(match &*self.identity.secret {
                        Secret::Scram(_) => SCRAM_FOR_MD5,
                        _ => NO_SECRET,
                    })
                })?;
                write_password(&mut out, &answer);
                (LoginStage::AwaitVerdict, Step::Send(out))
            }
            (LoginStage::AwaitRequest, Authentication::Sasl { mechanisms }) => {
                let offers = |wanted: &str| mechanisms.split(|&byte| byte == 0).any(|name| name == wanted.as_bytes());
                let client = |login: &Self| Ok(ScramClient::new(login.credentials()?, &login.nonce));
                let (mechanism, client) = match self.identity.channel.take() {
                    Some(channel) if offers(MECHANISM_PLUS) => (MECHANISM_PLUS, client(self)?.bound_to(channel)),
                    Some(_) if offers(MECHANISM) => (MECHANISM, client(self)?.unbound_by_server()),
                    None if offers(MECHANISM) => (MECHANISM, client(self)?),
                    _ => return Err(LoginFault::UnknownMechanisms(names(mechanisms))),
                };
                let (next, first) = client.with_cached(self.identity.salted.take()).first();
                write::sasl_initial(&mut out, mechanism, &first);
                (LoginStage::AwaitSaslContinue(next), Step::Send(out))
            }
            (LoginStage::AwaitSaslContinue(scram), Authentication::SaslContinue(asked)) => {
                let answer = scram.answer(asked, self.identity.iterations_max).map_err(|why| match why {
                    ScramFault::IterationsRefused { iterations, allowed } => {
                        LoginFault::IterationsRefused { iterations, allowed }
                    }
                    _ => nonsense,
                })?;
                match answer {
                    Answer::Ready(next, answer) => {
                        write::sasl_response(&mut out, &answer);
                        (LoginStage::AwaitSaslFinal(next), Step::Send(out))
                    }
                    Answer::Derive(next, derivation) => (LoginStage::AwaitSalted(next), Step::Derive(derivation)),
                }
            }
            (LoginStage::AwaitSaslFinal(scram), Authentication::SaslFinal(last)) => {
                self.arrival.salted = scram.check(last).map_err(|why| match why {
                    ScramFault::ServerSignatureInvalid => LoginFault::Unproved("invalid server signature"),
                    _ => LoginFault::Unproved("failed to verify server signature"),
                })?;
                (LoginStage::AwaitVerdict, Step::Wait)
            }
            (_, Authentication::Other(code)) => return Err(LoginFault::UnknownMethod(code)),
            _ => return Err(nonsense),
        };
        self.stage = next;
        Ok(step)
    }

    /// The password has been hashed: returns the bytes for the server, if the login waited for the hash.
    pub fn salted(&mut self, salted: Arc<SaltedPassword>) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.stage, LoginStage::AwaitVerdict) {
            LoginStage::AwaitSalted(scram) => {
                let (next, answer) = scram.salted(salted);
                self.stage = LoginStage::AwaitSaslFinal(next);
                let mut out = Vec::new();
                write::sasl_response(&mut out, &answer);
                Some(out)
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// Whether the login waits for its password to be hashed.
    #[must_use]
    pub fn is_awaiting_salted(&self) -> bool {
        matches!(self.stage, LoginStage::AwaitSalted(_))
    }

    fn credentials(&self) -> Result<Credentials, LoginFault> {
        match (&*self.identity.secret, &self.identity.keys) {
            (Secret::Plain(password), _) => Ok(Credentials::Password(password.clone())),
            (Secret::Scram(_), Some(keys)) => Ok(Credentials::Keys(keys.clone())),
            (Secret::Scram(_), None) => Err(LoginFault::KeysMissing),
            (Secret::Md5(_), _) => Err(LoginFault::WrongSecret(MD5_FOR_SCRAM)),
            _ => Err(LoginFault::WrongSecret(NO_SECRET)),
        }
    }
}

/// Appends a `PasswordMessage`, which need not be UTF-8.
fn write_password(out: &mut Vec<u8>, text: &[u8]) {
    write::message(out, wire::frontend::PASSWORD, |out| out.extend(text.iter().chain(b"\0")));
}

/// The names of SASL mechanisms for an error text, cut to [`NAMES_CHARS_MAX`] characters.
fn names(mechanisms: &[u8]) -> Box<str> {
    let names = mechanisms.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names = names.map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>().join(", ");
    names.chars().take(NAMES_CHARS_MAX).collect::<String>().into()
}

const SCRAM_FOR_MD5: &str =
    "The server asks for md5, and a SCRAM secret cannot answer that: the password itself or an md5 secret can.";
const MD5_FOR_SCRAM: &str = "The server asks for SCRAM, and an md5 secret cannot answer that: the password itself can, or a SCRAM secret whose clients \
                             log in by scram-sha-256.";
const NO_SECRET: &str =
    "The server asks for a password, and none is known of this user (auth_file, auth_query, password=).";

/// PostgreSQL reports some fifteen parameters; a server that reports more than this many is not PostgreSQL.
const PARAMETERS_MAX: usize = 200;

/// PostgreSQL's mechanism names have at most 18 characters, and it offers two at a time.
const NAMES_CHARS_MAX: usize = 100;

/// The longest message that a server may send during a login, in bytes: an error with all its fields.
pub const LOGIN_MESSAGE_BYTES_MAX: u32 = 65_536;

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
