//! The conversation with a client until it may send queries.

pub mod greeting;
pub mod login;
pub mod statuses;
