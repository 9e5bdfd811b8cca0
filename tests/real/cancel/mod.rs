//! Cancel requests.

pub(crate) mod peers;
pub(crate) mod requests;
