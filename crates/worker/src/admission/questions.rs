//! Questions to other threads about clients that log in, and their answers.
//!
//! Always true: a question names the worker that asks, and the client or server for which it asks.
//! Not here: when a question is asked (`external_auth`, `hashing`, `proof`), what is done with its answer (`answers`).

use std::sync::Arc;

use auth::{Derivation, LdapOptions, Password, SaltedPassword};
use base::{Origin, WorkerId};
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;

/// An external authenticator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExternalAuth {
    /// PAM.
    Pam,
    /// LDAP, with these options.
    Ldap(Arc<LdapOptions>),
}

impl ExternalAuth {
    /// The error for the client if its password is rejected.
    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::Pam => Fault::PamWrong,
            Self::Ldap(_) => Fault::LdapWrong,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pam => "PAM",
            Self::Ldap(_) => "LDAP",
        }
    }
}

/// Asks whether this is the password of this user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasswordQuestion {
    /// The worker that asks.
    pub from: WorkerId,
    /// The client for which it asks.
    pub client: ClientKey,
    /// The authenticator to be asked.
    pub authenticator: ExternalAuth,
    /// The user.
    pub user: Arc<str>,
    /// The password.
    pub password: Password,
    /// The client's address, as PAM modules read it.
    pub host: Arc<str>,
}

/// Whether the password was accepted, or why not, for the log.
pub type Verdict = Result<(), Arc<str>>;

/// Asks for the hash of a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashQuestion {
    /// The worker that asks.
    pub from: WorkerId,
    /// The client or server that needs the hash.
    pub asker: HashAsker,
    /// The address that makes the hash necessary, as far as it is known.
    pub origin: Origin,
    /// What is to be computed.
    pub derivation: Derivation,
}

/// The client or server that needs a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HashAsker {
    /// A client that logs in.
    Client(ClientKey),
    /// A server that we log in to.
    Server(ServerKey),
}

/// The hash, or why it was not made, for the log.
pub type Hashed = Result<Arc<SaltedPassword>, Arc<str>>;

/// The name of a system user, if it has one, or why it was not looked up, for the log.
pub type SystemUser = Result<Option<Arc<str>>, Arc<str>>;
