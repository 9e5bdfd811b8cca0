//! The control thread: settings, host names, the console, statistics, signals. It may be slow; it never blocks a
//! worker.
//!
//! Start reading with `control`, then `console`.
//!
//! Always true: control changes a worker only by letters, and reads it by asking for a snapshot; a worker sends reports,
//! traces and spans by itself.
//! Not here: clients and servers (`worker`), the start of the process (`trunkline`).

mod asking;
mod cluster_members;
mod cluster_orders;
mod clusters;
mod console;
mod console_clients;
mod control;
mod diagnosis;
mod event;
mod events;
mod external_auth;
mod failing;
mod handover;
mod hands;
mod happenings;
mod hashings;
mod history;
mod http;
mod http_answers;
mod http_client;
mod listeners;
mod lock_suspects;
mod metrics;
mod names;
mod orders;
mod otlp;
mod own_clients;
mod packed_clusters;
mod packed_events;
mod pending_orders;
mod read_names;
mod reload;
mod replica_rotation;
mod resolver;
mod restart;
mod run;
mod secrets;
mod service;
mod shutdown_progress;
mod signals;
mod source;
mod successor;
mod survey;
mod sweeper;
mod system_users;
mod timed_pauses;
mod tls;
mod tracers;
mod tracing;
mod transfer;
mod zones;

pub use clusters::{ClusterTask, MachineId, ReadNamesFound, ReadNamesTask};
pub use console::{errors_reference, reference};
pub use control::Control;
pub use event::{Event, Signal};
pub use external_auth::{AT_DIRECTORY_MAX, AT_PAM_MAX, Put as PutPassword};
pub use hands::Clocks;
pub use http::{HASHINGS_MAX as HTTP_HASHINGS_MAX, HttpAnswer, HttpQuestion};
pub use metrics::{alert_rules, alert_tests, alerts_reference, board, metrics_reference};
pub use names::LOOKUPS_MAX;
pub use otlp::{Posted, Posting};
pub use own_clients::{OwnClientNews, OwnClientOrder};
pub use packed_clusters::PackedCluster;
pub use packed_events::PackedEvents;
pub use reload::SharedLog;
pub use run::{Clock, Ending, Signals, run, wall_now};
pub use service::Service;
pub use source::{
    FileReader, Files, Rules, Source, first_config, open_log, read_name_servers, read_rules, read_users, tuning,
    words_of,
};
pub use successor::{HandedOver, Predecessor};
pub use system_users::{AT_ONCE_MAX as SYSTEM_USERS_MAX, SystemUserQuestion};
pub use tls::read_tls;
pub use transfer::{FinalMessage, Hello, News, Transfer, VERSION as HANDOVER_VERSION};
pub use zones::Serial;

/// The version of PgBouncer that Trunkline stands in for; scripts query it.
pub const PGBOUNCER_VERSION: &str = "1.25.2";

/// The name of the console's database and of its pool's user.
pub(crate) const CONSOLE: &str = "pgbouncer";
