//! The client side of SCRAM: we log in to a PostgreSQL server (`fe-auth-scram.c` of libpq).
//!
//! Always true: a login succeeds only after the server has proved that it knows our keys.
//! Not here: the choice among the mechanisms of AuthenticationSASL (`protocol`): over TLS, channel binding if the server
//! offers it, and otherwise the report that we support it (GS2 flag `y`).

use std::fmt;
use std::sync::Arc;

use super::NONCE_BYTES;
use super::fault::ScramFault;
use super::keys::{Derivation, SaltedPassword, ScramKeys};
use super::maths::{self, Key};
use super::message::{self, Binding, ServerFirst};
use crate::Password;

/// The credentials with which we log in.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A password, which costs a [`Derivation`] unless a [`SaltedPassword`] is cached.
    Password(Password),
    /// The keys recovered from a client's login, for a server that stores the same secret as we do.
    Keys(ScramKeys),
}

/// A login that has not begun.
pub struct ScramClient {
    credentials: Credentials,
    cached: Option<Arc<SaltedPassword>>,
    /// Our half of the nonce, in Base64.
    nonce: String,
    binding: Binding,
    channel: Option<Box<[u8]>>,
}

impl ScramClient {
    /// Begins a login with these credentials. The nonce must be random and new.
    #[must_use]
    pub fn new(credentials: Credentials, nonce: &[u8; NONCE_BYTES]) -> Self {
        Self { credentials, cached: None, nonce: maths::base64(nonce), binding: Binding::Unknown, channel: None }
    }

    /// Uses channel binding with this data, the hash of the server's certificate. For SCRAM-SHA-256-PLUS.
    #[must_use]
    pub fn bound_to(self, channel: Box<[u8]>) -> Self {
        Self { binding: Binding::Bound, channel: Some(channel), ..self }
    }

    /// Reports (GS2 flag `y`) that we support channel binding but were not offered it. A server that did offer it then knows that
    /// a man in the middle has removed its offer.
    #[must_use]
    pub fn unbound_by_server(self) -> Self {
        Self { binding: Binding::Declined, ..self }
    }

    /// Uses the salted password of an earlier login to the same server. It is ignored if it does not match.
    #[must_use]
    pub fn with_cached(self, cached: Option<Arc<SaltedPassword>>) -> Self {
        Self { cached, ..self }
    }

    /// Returns the client-first-message (SASLInitialResponse). Its user name is empty as in libpq, because the startup packet
    /// has the user name.
    #[must_use]
    pub fn first(self) -> (AwaitServerFirst, Vec<u8>) {
        let bare = format!("n=,r={}", self.nonce);
        let message = format!("{}{bare}", self.binding.header()).into_bytes();
        let repeated = self.binding.repeated(self.channel.as_deref());
        let (credentials, cached, nonce) = (self.credentials, self.cached, self.nonce);
        (AwaitServerFirst { credentials, cached, nonce, bare, repeated }, message)
    }
}

/// A login that awaits the server-first-message (AuthenticationSASLContinue).
pub struct AwaitServerFirst {
    credentials: Credentials,
    cached: Option<Arc<SaltedPassword>>,
    nonce: String,
    /// The client-first-message without its GS2 header.
    bare: String,
    /// The GS2 header as the client-final-message repeats it.
    repeated: String,
}

impl AwaitServerFirst {
    /// Handles the server-first-message. Returns the client-final-message at once if no password has to be hashed.
    ///
    /// # Errors
    /// Fails if the message is malformed, its nonce does not begin with ours or adds nothing to it, the iterations are 0, or a
    /// password would need more than `iterations_max` iterations.
    pub fn answer(self, server_first: &[u8], iterations_max: u32) -> Result<Answer, ScramFault> {
        let message = ServerFirst::parse(server_first)?;
        if !message.nonce.starts_with(self.nonce.as_bytes()) || message.nonce.len() == self.nonce.len() {
            return Err(ScramFault::NonceMismatch);
        }
        let asked = message.iterations;
        let refused = ScramFault::IterationsRefused { iterations: asked, allowed: iterations_max };
        let unproven = [b"c=", self.repeated.as_bytes(), b",r=", message.nonce].concat();
        let said = [self.bare.as_bytes(), b",", server_first, b",", &unproven].concat();
        let next = AwaitSalted { said, unproven };
        let password = match self.credentials {
            _ if asked == 0 => return Err(refused),
            // The keys are the result of the iterations, whose number therefore does not matter.
            Credentials::Keys(keys) => return Ok(Answer::ready(next.proven(&keys, None))),
            Credentials::Password(password) => password,
        };
        let iterations = u32::try_from(asked).ok().filter(|asked| *asked <= iterations_max).ok_or(refused)?;
        match self.cached {
            Some(cached) if cached.serves(&password, &message.salt, iterations) => {
                Ok(Answer::ready(next.salted(cached)))
            }
            _ => {
                let derivation = Derivation { password, salt: message.salt.into(), iterations };
                Ok(Answer::Derive(next, derivation))
            }
        }
    }
}

/// The reaction to the server-first-message.
#[derive(Debug)]
pub enum Answer {
    /// The client-final-message (SASLResponse).
    Ready(AwaitServerFinal, Vec<u8>),
    /// The password has to be hashed first.
    Derive(AwaitSalted, Derivation),
}

impl Answer {
    fn ready((next, answer): (AwaitServerFinal, Vec<u8>)) -> Self {
        Self::Ready(next, answer)
    }
}

/// A login that awaits the hashed password.
pub struct AwaitSalted {
    /// RFC 5802's AuthMessage, which both sides sign: the messages so far and the client-final-message without its proof.
    said: Vec<u8>,
    /// The client-final-message without its proof.
    unproven: Vec<u8>,
}

impl AwaitSalted {
    /// Takes the result of the derivation, and returns the client-final-message (SASLResponse).
    #[must_use]
    pub fn salted(self, salted: Arc<SaltedPassword>) -> (AwaitServerFinal, Vec<u8>) {
        let keys = salted.keys().clone();
        self.proven(&keys, Some(salted))
    }

    fn proven(self, keys: &ScramKeys, salted: Option<Arc<SaltedPassword>>) -> (AwaitServerFinal, Vec<u8>) {
        let client_signature = maths::hmac(&maths::hash(&keys.client_key), &[&self.said]);
        let signature = maths::hmac(&keys.server_key, &[&self.said]);
        let proof = maths::base64(&maths::xor(&keys.client_key, &client_signature));
        let answer = [&*self.unproven, b",p=", proof.as_bytes()].concat();
        (AwaitServerFinal { signature, salted }, answer)
    }
}

/// A login that awaits the server-final-message (AuthenticationSASLFinal).
pub struct AwaitServerFinal {
    /// The signature that the server must send.
    signature: Key,
    salted: Option<Arc<SaltedPassword>>,
}

impl AwaitServerFinal {
    /// Handles the server-final-message. Returns the salted password for [`ScramClient::with_cached`] of the next login to this
    /// server; `None` if this login used keys.
    ///
    /// # Errors
    /// Fails if the message is malformed, is an error of the server, or has a wrong signature.
    pub fn check(self, server_final: &[u8]) -> Result<Option<Arc<SaltedPassword>>, ScramFault> {
        let signature = message::server_final(server_final)?;
        if bool::from(maths::equal(&signature, &self.signature)) {
            Ok(self.salted)
        } else {
            Err(ScramFault::ServerSignatureInvalid)
        }
    }
}

impl fmt::Debug for ScramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramClient").finish_non_exhaustive()
    }
}

impl fmt::Debug for AwaitServerFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitServerFirst").finish_non_exhaustive()
    }
}

impl fmt::Debug for AwaitSalted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitSalted").finish_non_exhaustive()
    }
}

impl fmt::Debug for AwaitServerFinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitServerFinal").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
