//! Authentication of clients, and our own at servers: cleartext passwords, md5 and SCRAM-SHA-256 on both sides, the auth
//! file, HBA rules, ident maps, LDAP.
//!
//! Always true: everything is computed from its arguments (salts and nonces included); a secret is compared in constant
//! time; no `Debug`, and no `Display` of a fault, shows any part of a secret; a login that must fail costs as much as
//! one that may succeed, except for the iterations of a SCRAM secret under cleartext authentication (`plain::check`).
//! Password hashing for SCRAM is slow by design, so a login that needs it returns the work as a value ([`Derivation`]).
//! Not here: the protocol messages of a login, the choice of the method (`protocol`); reading files.

pub mod hba;
pub mod ident;
pub mod ldap;
pub mod md5;
pub mod plain;
pub mod scram;
pub mod users;

mod secret;
mod words;

pub use hba::{Hba, HbaMethod, LineOutcome, LineProblem, Visit};
pub use ident::IdentMaps;
pub use ldap::{LdapOptions, LdapScope, LdapSearch, LdapWay};
pub use scram::client::{Credentials, ScramClient};
pub use scram::server::{ScramServer, ServerSecret};
pub use scram::{Derivation, SaltedPassword, ScramFault, ScramKeys, ScramSecret};
pub use secret::{Password, Secret};
pub use users::{Problem, UserFile};
