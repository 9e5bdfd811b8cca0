//! What was observed, before anything is concluded: configuration files of poolers and of what stands around them; servers, poolers and machines
//! that run.
//!
//! Always true: what a file does not say is absent, unless the program has a documented default, which is marked as such. Each fact has the file
//! and line that says it. No fact holds a secret.
//! Not here: what follows (`findings`).

mod console;
mod demand;
mod file;
mod haproxy;
mod hba;
mod history;
mod host;
mod ini;
mod kind;
mod kubernetes;
mod metrics;
mod odyssey;
mod patroni;
mod pooler;
mod postgres;
mod sampled;
mod waits;
mod yaml;

pub(crate) use console::{CONSOLE_COUNTERS, CONSOLE_TABLES, Console, Phases, Record, Tally, amount, word};
pub(crate) use demand::{Demand, Hold, Levels, Origin, PoolDemand};
pub(crate) use file::{FILE_BYTES_MAX, read};
pub(crate) use haproxy::{Proxied, read_haproxy};
pub(crate) use hba::{HbaAdmission, HbaFile, Offered, read_hba};
pub(crate) use history::{PoolUsage, Reading, demand_of_history, parse_history, time_of, usage_of_history};
#[cfg(test)]
pub(crate) use host::Processes;
pub(crate) use host::{
    Host, allowed_processors, machine_times, pages_needed, processor_times, starvation, thread_times, thread_waits,
};
pub(crate) use ini::{pooler_of, read_ini};
pub(crate) use kind::Kind;
pub(crate) use kubernetes::{Workload, read_kubernetes};
pub(crate) use metrics::{Scrape, demand_of_scrapes};
pub(crate) use odyssey::read_odyssey;
pub(crate) use patroni::{Patroni, read_patroni};
pub(crate) use pooler::{AuthFile, KeyKind, PoolTerms, Pooler, Program, SecretKinds, Setting, UserTerms};
#[cfg(test)]
pub(crate) use postgres::DatabaseCounters;
pub(crate) use postgres::{
    Answers, Backend, Commits, Counters, DATABASE_QUERIES, HbaLine, Inside, Observed, Postgres, Query, RATE_QUERIES,
    Relation, SERVER_QUERIES,
};
pub(crate) use sampled::Sampled;
#[cfg(test)]
pub(crate) use waits::waits;
pub(crate) use waits::{Group, Waits};

use std::sync::Arc;

use config::Place;

/// Everything that was observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Configurations of poolers.
    pub(crate) poolers: Vec<Pooler>,
    /// What runs poolers in Kubernetes.
    pub(crate) workloads: Vec<Workload>,
    /// Configurations of Patroni.
    pub(crate) patronis: Vec<Patroni>,
    /// Sections of HAProxy.
    pub(crate) proxies: Vec<Proxied>,
    /// What is wrong with files that were read as far as possible.
    pub(crate) mistakes: Vec<(Place, String)>,
}

/// The file as a whole.
pub(crate) fn whole(file: &Arc<str>) -> Place {
    Place { file: Arc::clone(file), line: 0 }
}
