//! What there may be, and how much of it: users, databases, rates, places that workers share.
//!
//! Always true: what is counted is given back by whoever took it; what nobody uses is forgotten.
//! Not here: servers of one pool and their queue (crate `pool`).

pub(crate) mod rates;
pub(crate) mod shared_slots;
pub(crate) mod sweep;
pub(crate) mod users;
