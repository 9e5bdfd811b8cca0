//! The conversation with a server outside of a loan.

pub mod login;
pub mod mend;
