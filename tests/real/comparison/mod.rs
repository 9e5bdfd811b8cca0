//! Random programs and sessions compared with direct connections; chaos; attacks.

pub(crate) mod alike;
pub(crate) mod differential;
pub(crate) mod hostile_quick;
pub(crate) mod smoke;
