//! The server side of SCRAM: a client logs in to us (`auth-scram.c` of PostgreSQL).
//!
//! Always true: a login that cannot succeed (a mock) goes through the same messages and the same work as any other, and
//! ends like one with a wrong password; the keys of a client are returned only if the secret was stored.
//! Not here: the user name in the SCRAM message, which is ignored as in PostgreSQL in favour of the startup packet's.

use std::fmt;
use std::sync::Arc;

use super::fault::ScramFault;
use super::keys::{ScramKeys, ScramSecret};
use super::maths;
use super::message::{Binding, ClientFinal, ClientFirst};
use super::{NONCE_BYTES, SALT_BYTES};

/// The secret against which a login is checked, by origin.
#[derive(Clone, Debug)]
pub enum ServerSecret {
    /// A stored SCRAM secret: the client's keys can be used to log in to a server that stores the same secret.
    Stored(Arc<ScramSecret>),
    /// A secret derived from a plain password with our own salt: the client's keys are of no use at a server.
    Derived(Arc<ScramSecret>),
    /// No such user, or no usable secret: no login succeeds. Made by [`ServerSecret::mock`].
    Mock(Arc<ScramSecret>),
}

impl ServerSecret {
    /// Returns a mock secret for a user without one. Its salt is the same at every login of this user, as a real one would be.
    /// `key` is random and lives as long as the process; `iterations` are those of the other users (`scram_iterations`).
    #[must_use]
    pub fn mock(user: &str, key: &[u8; 32], iterations: u32) -> Self {
        let made_up = |what: &[u8]| maths::hmac(key, &[what, user.as_bytes()]);
        Self::Mock(Arc::new(ScramSecret {
            iterations: iterations.max(1),
            salt: made_up(b"salt:")[..SALT_BYTES].into(),
            stored_key: made_up(b"stored key:"),
            server_key: made_up(b"server key:"),
        }))
    }

    fn scram(&self) -> &ScramSecret {
        match self {
            Self::Stored(scram) | Self::Derived(scram) | Self::Mock(scram) => scram,
        }
    }
}

/// A number for an unknown user name, which cannot be predicted without the key.
pub(crate) fn made_up_number(user: &str, key: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = maths::hmac(key, &[b"like:", user.as_bytes()]);
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// A login that awaits the client-first-message (SASLInitialResponse).
pub struct ScramServer {
    secret: ServerSecret,
    /// Our half of the nonce, in Base64.
    nonce: String,
    /// The channel binding data of the connection: the hash of our certificate.
    channel: Option<Box<[u8]>>,
}

impl ScramServer {
    /// Begins a login against this secret. The nonce must be random and new.
    #[must_use]
    pub fn new(secret: ServerSecret, nonce: &[u8; NONCE_BYTES]) -> Self {
        Self { secret, nonce: maths::base64(nonce), channel: None }
    }

    /// Allows channel binding with this data. The caller must have offered SCRAM-SHA-256-PLUS.
    #[must_use]
    pub fn on_channel(self, channel: Option<Box<[u8]>>) -> Self {
        Self { channel, ..self }
    }

    /// Whether the login may use channel binding.
    #[must_use]
    pub fn may_be_bound(&self) -> bool {
        self.channel.is_some()
    }

    /// Handles the client-first-message of SCRAM-SHA-256, and returns the server-first-message (AuthenticationSASLContinue).
    ///
    /// # Errors
    /// Fails if the message is malformed or requires something unsupported (channel binding, an authorization identity, an
    /// extension), or if the client has not seen our offer of channel binding.
    pub fn first(self, client_first: &[u8]) -> Result<(AwaitFinal, Vec<u8>), ScramFault> {
        let message = ClientFirst::parse(client_first)?;
        match message.binding {
            Binding::Bound => Err(ScramFault::ChannelBindingRequired),
            Binding::Declined if self.channel.is_some() => Err(ScramFault::ChannelBindingDowngrade),
            Binding::Declined | Binding::Unknown => Ok(self.answer(&message)),
        }
    }

    /// As [`ScramServer::first`], for SCRAM-SHA-256-PLUS.
    ///
    /// # Errors
    /// As for [`ScramServer::first`], except that the client must use channel binding.
    pub fn first_bound(self, client_first: &[u8]) -> Result<(AwaitFinal, Vec<u8>), ScramFault> {
        let message = ClientFirst::parse(client_first)?;
        match message.binding {
            Binding::Bound if self.channel.is_some() => Ok(self.answer(&message)),
            Binding::Bound => Err(ScramFault::ChannelBindingRequired),
            Binding::Declined | Binding::Unknown => Err(ScramFault::ChannelBindingMissing),
        }
    }

    fn answer(self, message: &ClientFirst<'_>) -> (AwaitFinal, Vec<u8>) {
        let nonce = [message.nonce, self.nonce.as_bytes()].concat();
        let scram = self.secret.scram();
        let cost = format!(",s={},i={}", maths::base64(&scram.salt), scram.iterations);
        let answer = [b"r=", &*nonce, cost.as_bytes()].concat();
        let signed = [message.bare, b",", &answer, b","].concat();
        let (binding, channel) = (message.binding, self.channel);
        (AwaitFinal { secret: self.secret, binding, channel, nonce, signed }, answer)
    }
}

/// A login that awaits the client-final-message (SASLResponse).
pub struct AwaitFinal {
    secret: ServerSecret,
    binding: Binding,
    channel: Option<Box<[u8]>>,
    /// The nonces of client and server together.
    nonce: Vec<u8>,
    /// RFC 5802's AuthMessage without the client-final-message at its end.
    signed: Vec<u8>,
}

impl AwaitFinal {
    /// Handles the client-final-message, and returns the server-final-message (AuthenticationSASLFinal), with the client's keys
    /// if the secret is [`ServerSecret::Stored`].
    ///
    /// # Errors
    /// Fails if the message is malformed or belongs to another login, or if the proof is wrong.
    pub fn last(self, client_final: &[u8]) -> Result<(Vec<u8>, Option<ScramKeys>), ScramFault> {
        let message = ClientFinal::parse(client_final)?;
        if message.binding != self.binding.repeated(self.channel.as_deref()).as_bytes() {
            return Err(ScramFault::ChannelBindingMismatch);
        }
        if message.nonce != self.nonce {
            return Err(ScramFault::NonceMismatch);
        }
        let scram = self.secret.scram();
        let signed = [&*self.signed, message.unproven];
        let client_key = maths::xor(&message.proof, &maths::hmac(&scram.stored_key, &signed));
        let is_proven = bool::from(maths::equal(&maths::hash(&client_key), &scram.stored_key));
        // Computed even if the proof is wrong, so that a refusal takes as long as a success.
        let signature = maths::hmac(&scram.server_key, &signed);
        let keys = ScramKeys { client_key, server_key: scram.server_key };
        let answer = format!("v={}", maths::base64(&signature)).into_bytes();
        match self.secret {
            ServerSecret::Stored(_) if is_proven => Ok((answer, Some(keys))),
            ServerSecret::Derived(_) if is_proven => Ok((answer, None)),
            _ => Err(ScramFault::ProofWrong),
        }
    }
}

impl fmt::Debug for ScramServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramServer").finish_non_exhaustive()
    }
}

impl fmt::Debug for AwaitFinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitFinal").field("binding", &self.binding).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
