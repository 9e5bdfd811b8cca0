//! What is asked of other threads about somebody who logs in, and what they answer.
//!
//! Always true: a question says who asks, and for whom.
//! Not here: when it is asked (`external_auth`, `hashing`, `proof`), what follows from an answer (`answers`).

use std::sync::Arc;

use auth::{Derivation, LdapOptions, Password, SaltedPassword};
use base::{Origin, WorkerId};
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;

/// Who knows the passwords.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExternalAuth {
    /// The system's modules.
    Pam,
    /// A directory that is asked like this.
    Ldap(Arc<LdapOptions>),
}

impl ExternalAuth {
    /// What the client is told if it is not.
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

/// Is this the password of this user?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasswordQuestion {
    /// Who asks.
    pub from: WorkerId,
    /// For which client.
    pub client: ClientKey,
    /// Who knows.
    pub authenticator: ExternalAuth,
    /// The user.
    pub user: Arc<str>,
    /// The password.
    pub password: Password,
    /// Where the client comes from, as PAM's modules read it.
    pub host: Arc<str>,
}

/// The answer: it is, or why it is not, for the log.
pub type Verdict = Result<(), Arc<str>>;

/// A password that is to be hashed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashQuestion {
    /// Who asks.
    pub from: WorkerId,
    /// For whom.
    pub asker: HashAsker,
    /// Who makes it necessary, as far as that is known.
    pub origin: Origin,
    /// What is to be done.
    pub derivation: Derivation,
}

/// Who needs a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HashAsker {
    /// A client that logs in.
    Client(ClientKey),
    /// A server that is logged in to.
    Server(ServerKey),
}

/// What came of it, or why it was not done, for the log.
pub type Hashed = Result<Arc<SaltedPassword>, Arc<str>>;

/// The name of a user of the system, if it has one; or why it was not looked up, for the log.
pub type SystemUser = Result<Option<Arc<str>>, Arc<str>>;
