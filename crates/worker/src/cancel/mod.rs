//! Cancel requests, for servers of this process and for other processes.
//!
//! Always true: a request reaches the query that it is meant for, or nobody.
//! Not here: cancel requests of our own for servers that are made clean (`upstream::cleanup`).

pub(crate) mod aim;
pub(crate) mod answer;
pub(crate) mod peers;
pub(crate) mod requesters;
pub(crate) mod requests;
pub(crate) mod tables;
