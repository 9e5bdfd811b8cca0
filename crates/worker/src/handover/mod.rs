//! An online restart: what one process has goes on in the next.
//!
//! Always true: what cannot go along is told so; nothing is said twice.
//! Not here: how it is carried (`control`).

pub(crate) mod divide;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod parcel;
