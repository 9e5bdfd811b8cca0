//! The client side of SCRAM: we log in to a PostgreSQL server (`fe-auth-scram.c` of libpq).
//!
//! Always true: the server must prove that it knows our keys before a login counts as done; a login by TLS is bound to its
//! channel if the server offers that, and says that it could be if the server does not.
//! Not here: the choice among the mechanisms of AuthenticationSASL.

use std::fmt;
use std::sync::Arc;

use super::NONCE_BYTES;
use super::fault::ScramFault;
use super::keys::{Derivation, SaltedPassword, ScramKeys};
use super::maths::{self, Key};
use super::message::{self, Binding, ServerFirst};
use crate::Password;

/// What we log in with.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A password; costs a [`Derivation`], unless a [`SaltedPassword`] is at hand.
    Password(Password),
    /// The keys of a client of ours, for a server that stores the same secret as we do.
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
    /// A login with these credentials. The nonce must be random and new.
    #[must_use]
    pub fn new(credentials: Credentials, nonce: &[u8; NONCE_BYTES]) -> Self {
        Self { credentials, cached: None, nonce: maths::base64(nonce), binding: Binding::Unknown, channel: None }
    }

    /// Binds the login to this channel: the hash of the server's certificate. For SCRAM-SHA-256-PLUS.
    #[must_use]
    pub fn bound_to(self, channel: Box<[u8]>) -> Self {
        Self { binding: Binding::Bound, channel: Some(channel), ..self }
    }

    /// Says that the login could be bound if the server had offered it: a server that has will know that somebody in between
    /// has taken its offer out.
    #[must_use]
    pub fn unbound_by_server(self) -> Self {
        Self { binding: Binding::Declined, ..self }
    }

    /// Brings what an earlier login to the same server left. One that does not fit harms nothing.
    #[must_use]
    pub fn with_cached(self, cached: Option<Arc<SaltedPassword>>) -> Self {
        Self { cached, ..self }
    }

    /// Gives the client-first-message (SASLInitialResponse). The user name in it is empty, as libpq's is: the startup
    /// packet has told it.
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
    /// Our first message without its GS2 header.
    bare: String,
    /// The header as our last message repeats it.
    repeated: String,
}

impl AwaitServerFirst {
    /// Takes the server-first-message. Where the password is not to be hashed, there is an answer at once.
    ///
    /// # Errors
    /// The message is malformed, its nonce does not begin with ours or adds nothing to it, the iterations are none, or a
    /// password would have to be hashed more often than `iterations_max`.
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
            // They are what comes of the iterations, which cost us nothing then.
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

/// What comes of the server-first-message.
#[derive(Debug)]
pub enum Answer {
    /// The client-final-message (SASLResponse).
    Ready(AwaitServerFinal, Vec<u8>),
    /// The password is to be hashed first.
    Derive(AwaitSalted, Derivation),
}

impl Answer {
    fn ready((next, answer): (AwaitServerFinal, Vec<u8>)) -> Self {
        Self::Ready(next, answer)
    }
}

/// A login that awaits its password, hashed.
pub struct AwaitSalted {
    /// What both sign: the messages so far and the one that follows, without its proof.
    said: Vec<u8>,
    /// The client-final-message without its proof.
    unproven: Vec<u8>,
}

impl AwaitSalted {
    /// Takes what has come of the derivation; gives the client-final-message (SASLResponse).
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
    /// What the server must have signed.
    signature: Key,
    salted: Option<Arc<SaltedPassword>>,
}

impl AwaitServerFinal {
    /// Takes the server-final-message. Gives what the next login to this server should bring with
    /// [`ScramClient::with_cached`]; nothing if this one was done with keys.
    ///
    /// # Errors
    /// The message is malformed, is the server's refusal, or bears a wrong signature.
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
