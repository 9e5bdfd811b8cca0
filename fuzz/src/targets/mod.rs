//! The targets, one file each, and the list of them.

pub mod client;
pub mod config;
pub mod connstr;
pub mod console;
pub mod framing;
pub mod hba;
pub mod ldap;
pub mod loan;
pub mod nested;
pub mod request;
pub mod scram;
pub mod server;
pub mod sql;
pub mod startup;
pub mod users;
pub mod vars;

use crate::Target;

/// All targets.
pub const TARGETS: &[Target] = &[
    framing::TARGET,
    startup::TARGET,
    client::TARGET,
    server::TARGET,
    loan::TARGET,
    vars::TARGET,
    config::TARGET,
    connstr::TARGET,
    console::TARGET,
    scram::TARGET,
    users::TARGET,
    hba::TARGET,
    ldap::TARGET,
    request::TARGET,
    sql::TARGET,
    nested::TARGET,
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
