//! What there may be, and how much of it: users, databases, rates, places that workers share.
//!
//! Always true: what is counted is given back by whoever took it; what nobody uses is forgotten.
//! Not here: servers of one pool and their queue (crate `pool`).

pub(crate) mod apply;
pub(crate) mod channels;
pub(crate) mod granted;
pub(crate) mod lending;
pub(crate) mod newcomers;
pub(crate) mod pins;
pub(crate) mod rate_limits;
pub(crate) mod rates;
pub(crate) mod shared_slots;
pub(crate) mod sweep;
pub(crate) mod unauthenticated;
pub(crate) mod uncounted;
pub(crate) mod users;
pub(crate) mod woken;
