//! Servers that clients share: which client gets one, how many there are, for how long, and what happens when something
//! fails.

pub(crate) mod cluster_replication;
pub(crate) mod clusters;
pub(crate) mod crowds;
pub(crate) mod databases;
pub(crate) mod holes;
pub(crate) mod hosts;
pub(crate) mod limits;
pub(crate) mod linger;
pub(crate) mod losses;
pub(crate) mod memory;
pub(crate) mod rates;
pub(crate) mod reads;
pub(crate) mod remembered;
pub(crate) mod replicas;
pub(crate) mod roles;
pub(crate) mod switchovers;
pub(crate) mod testimony;
pub(crate) mod timeouts;
pub(crate) mod traffic;
