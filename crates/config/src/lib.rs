//! From the text of a configuration to [`Settings`]: the checked, immutable whole that all other parts read.
//!
//! Always true: nothing here opens a file, reads a clock or the environment; the caller passes a reader. All mistakes
//! in all files are found in one go, and if there is one, there are no settings. The name, type, default and
//! documentation of a setting are in one entry of `catalog/entries.rs`, and nowhere else.
//! Not here: what the settings do (each machine), when they are loaded (`control`), the file of secrets (`auth`).
//!
//! To read it, begin with `load`, then `catalog`.

mod catalog;
mod check;
mod cluster;
mod database;
mod derived;
mod diff;
mod endpoint;
mod etcd;
mod foreign;
mod homes;
mod host;
mod host_traits;
mod limits;
mod load;
mod members;
mod mistake;
mod network;
mod otlp;
mod pairs;
mod peer;
mod rate_limit;
mod replica_terms;
mod resolv;
mod text;
mod user;

pub use catalog::{
    AuthType, CATALOG, CheckQuery, Entry, FACILITY_DAEMON, IoBackend, List, LogFormat, NotifyLost, Policies,
    ReadRouting, Reload, SessionState, Settings, Shown, State, TlsMode, reference, syslog_facility,
};
pub use cluster::{Cluster, LeaseFencing};
pub use database::{Database, LoadBalance, Password, ProxyProtocol, SessionAttrs};
pub use derived::{OneHost, derived_names};
pub use diff::changes;
pub use endpoint::Endpoint;
pub use etcd::Etcd;
pub use homes::Homes;
pub use host::{Host, told_place, with_port};
pub use load::{Loaded, Overrides, Places, inspect, load, load_over, set};
pub use members::ToldMember;
pub use mistake::{Mistake, Place, Warning, nearest};
pub use network::NetworkList;
pub use otlp::OtlpHeaders;
pub use peer::Peer;
pub use rate_limit::{reference as rate_limits_reference, written_filter};
pub use replica_terms::{WhenNoReplica, byte_count};
pub use resolv::NameServers;
pub use user::UserSettings;
