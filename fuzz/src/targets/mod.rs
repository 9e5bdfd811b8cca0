//! The targets, one file each.

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
