//! The protocol with a server outside of a loan.

pub mod cleanup;
pub mod login;
pub mod reset;
