//! Who may come in, and how we prove who we are: passwords, md5 and SCRAM-SHA-256 on both sides, the auth
//! file, HBA rules and ident maps.
//!
//! Always true: everything is computed from its arguments (salts and nonces included); a secret is compared in constant
//! time; no `Debug`, and no `Display` of a fault, shows any part of a secret; a login that must fail costs as much as
//! one that may succeed, but for the iterations of a SCRAM secret under a password in the clear (`plain::check`). What is slow by
//! design, the hashing of passwords for SCRAM, is given back as a value ([`Derivation`]) where a login comes upon it.
//! Not here: the messages of the protocol around a login, and which method is asked for (`protocol`); reading files.

pub mod hba;
pub mod ident;
pub mod ldap;
pub mod md5;
pub mod plain;
pub mod scram;
pub mod users;

mod secret;
mod words;

pub use hba::{Hba, HbaMethod, LineProblem, Visit};
pub use ident::IdentMaps;
pub use ldap::{LdapOptions, LdapScope, LdapSearch, LdapWay};
pub use scram::client::{Credentials, ScramClient};
pub use scram::server::{ScramServer, ServerSecret};
pub use scram::{Derivation, SaltedPassword, ScramFault, ScramKeys, ScramSecret};
pub use secret::{Password, Secret};
pub use users::{Problem, UserFile};
