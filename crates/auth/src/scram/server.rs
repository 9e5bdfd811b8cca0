//! The server side of SCRAM: a client logs in to us (`auth-scram.c` of PostgreSQL).
//!
//! Always true: a login that cannot succeed (a mock) goes through the same messages and the same work as any other, and
//! ends as a wrong password does; the keys of a client are handed out only if they came from a stored secret.
//! Not here: the user name inside the message, which is ignored as in PostgreSQL; the startup packet's counts.

use std::fmt;
use std::sync::Arc;

use super::fault::ScramFault;
use super::keys::{ScramKeys, ScramSecret};
use super::maths;
use super::message::{Binding, ClientFinal, ClientFirst};
use super::{NONCE_BYTES, SALT_BYTES};

/// What a login is checked against, and what its success is worth.
#[derive(Clone, Debug)]
pub enum ServerSecret {
    /// A secret that was stored as such: the keys of the client may open a server that stores the same.
    Stored(Arc<ScramSecret>),
    /// A secret that we made up from a plaintext password, with a salt that nobody else knows: its keys open nothing.
    Derived(Arc<ScramSecret>),
    /// There is no such user, or no fitting secret: nothing succeeds. Made by [`ServerSecret::mock`].
    Mock(Arc<ScramSecret>),
}

impl ServerSecret {
    /// What stands in for a secret that is not there. Its salt is the same whenever this user is asked for, as a real
    /// one would be; `key` is random and as old as the program, and `iterations` are those of the other users
    /// (`scram_iterations`).
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

/// A number for a name that nobody has, which nobody can know without the key.
pub(crate) fn made_up_number(user: &str, key: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = maths::hmac(key, &[b"like:", user.as_bytes()]);
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// A login that awaits the client-first-message (SASLInitialResponse).
pub struct ScramServer {
    secret: ServerSecret,
    /// Our half of the nonce, in Base64.
    nonce: String,
    /// The channel that the login can be bound to: the hash of our certificate.
    channel: Option<Box<[u8]>>,
}

impl ScramServer {
    /// A login against this secret. The nonce must be random and new.
    #[must_use]
    pub fn new(secret: ServerSecret, nonce: &[u8; NONCE_BYTES]) -> Self {
        Self { secret, nonce: maths::base64(nonce), channel: None }
    }

    /// Lets the login be bound to this channel. Then SCRAM-SHA-256-PLUS must have been offered.
    #[must_use]
    pub fn on_channel(self, channel: Option<Box<[u8]>>) -> Self {
        Self { channel, ..self }
    }

    /// Whether the login can be bound to a channel.
    #[must_use]
    pub fn may_be_bound(&self) -> bool {
        self.channel.is_some()
    }

    /// Takes the client-first-message; gives the server-first-message (AuthenticationSASLContinue).
    ///
    /// # Errors
    /// The message is malformed, or demands what we do not offer: channel binding, another identity, an extension. Or the
    /// client has not seen all that we offer.
    pub fn first(self, client_first: &[u8]) -> Result<(AwaitFinal, Vec<u8>), ScramFault> {
        let message = ClientFirst::parse(client_first)?;
        match message.binding {
            Binding::Bound => Err(ScramFault::ChannelBindingRequired),
            Binding::Declined if self.channel.is_some() => Err(ScramFault::ChannelBindingDowngrade),
            Binding::Declined | Binding::Unknown => Ok(self.answer(&message)),
        }
    }

    /// The same for SCRAM-SHA-256-PLUS.
    ///
    /// # Errors
    /// As for [`ScramServer::first`]; and the client must bind its login.
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
    /// The nonce of both.
    nonce: Vec<u8>,
    /// The beginning of what RFC 5802 calls AuthMessage; the client's last words are still missing.
    signed: Vec<u8>,
}

impl AwaitFinal {
    /// Takes the client-final-message; gives the server-final-message (AuthenticationSASLFinal), and the client's keys
    /// if the secret is [`ServerSecret::Stored`].
    ///
    /// # Errors
    /// The message is malformed or belongs to another login, or the proof is wrong.
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
        // Computed before it is known whether anybody will see it: a refusal takes as long as a welcome.
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
