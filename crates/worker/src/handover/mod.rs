//! Online restart: the connections of one process are handed over to the next.
//!
//! Always true: clients that cannot be handed over get an error; no message is sent twice.
//! Not here: the transport between the processes (`control`).

pub(crate) mod divide;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod parcel;
