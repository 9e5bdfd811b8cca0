//! The basis of the tests of the real binary: a throw-away PostgreSQL, the pooler as a child process, clients and servers
//! that speak the protocol byte by byte, and a runner that leaves nothing behind.
//!
//! Always true: every wait has a deadline; there is one place that polls (`wait`) and none that sleeps; every child is
//! stopped when its guard is dropped, and dies with us if we are killed.
//! Not here: the expected behaviour of the pooler. That is in `talk/*.talk` and `real/*.rs`.

pub mod authority;
pub mod choice;
pub mod client;
pub mod collector;
pub mod comparison;
pub mod directory;
pub mod etcd;
pub mod fake_server;
pub mod hello;
pub mod kit;
pub mod matrix;
pub mod message;
pub mod nameserver;
pub mod notation;
pub mod patroni;
pub mod peer;
pub mod place;
pub mod pooler;
pub mod postgres;
pub mod program;
pub mod rest;
pub mod runner;
pub mod script;
pub mod terminal;
pub mod wait;
mod watch;
