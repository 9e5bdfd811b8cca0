//! What an operator says that no measurement tells: the server, the processes, what applications expect.
//!
//! Always true: what is not said is absent; a constant that stands for what was not said is in this file, and is named where it is used.
//! Not here: reading the command line (`options`).

/// What was said. Times are in seconds, memory in bytes.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) cores: Option<f64>,
    pub(crate) ram: Option<f64>,
    pub(crate) shared_buffers: Option<f64>,
    pub(crate) work_mem: Option<f64>,
    pub(crate) backend_memory: Option<f64>,
    pub(crate) has_huge_pages: bool,
    pub(crate) max_connections: Option<f64>,
    pub(crate) reserved: Option<f64>,
    pub(crate) direct: Option<f64>,
    /// Processes of the pooler.
    pub(crate) replicas: Option<f64>,
    /// The 99th percentile of responses that applications expect.
    pub(crate) slo: Option<f64>,
    /// The share of it that waiting for a server may take.
    pub(crate) wait_share: Option<f64>,
    /// How much more traffic there will be, as a share.
    pub(crate) growth: Option<f64>,
    /// The connections that application processes may open to the pooler, all together.
    pub(crate) client_pools: Option<f64>,
    pub(crate) client_timeout: Option<f64>,
    pub(crate) failover_budget: Option<f64>,
    pub(crate) open_files: Option<f64>,
    pub(crate) login_rate: Option<f64>,
    /// After which time something on the way, or the server, closes an idle connection.
    pub(crate) idle_limit: Option<f64>,
    /// Of the time for which a server is lent, the share for which it computes.
    pub(crate) computing: Option<f64>,
    /// Contention and coherence of the scalability law.
    pub(crate) scalability: Option<(f64, f64)>,
    /// Threads of an application, and the connections that each needs at once.
    pub(crate) threads: Option<(f64, f64)>,
    /// Servers closed for others, each minute and pool, that are harmless.
    pub(crate) evictions_max: Option<f64>,
}

impl Terms {
    pub(crate) fn replicas(&self) -> f64 {
        self.replicas.unwrap_or(1.0).max(1.0)
    }

    /// How long a transaction may wait for a server.
    pub(crate) fn wait_limit(&self) -> Option<f64> {
        Some(self.slo? * self.wait_share())
    }

    pub(crate) fn wait_share(&self) -> f64 {
        self.wait_share.unwrap_or(WAIT_SHARE)
    }

    pub(crate) fn growth(&self) -> f64 {
        1.0 + self.growth.unwrap_or(0.0)
    }

    /// `--slo MS` in words.
    pub(crate) fn slo_text(&self) -> String {
        self.slo.map_or_else(|| "no SLO".to_owned(), |slo| format!("an SLO of {} ms", crate::table::short(slo * 1e3)))
    }
}

/// A quarter of the time is for waiting, as reserve_pool_timeout has it.
pub(crate) const WAIT_SHARE: f64 = 0.25;
/// What PostgreSQL keeps for superusers.
pub(crate) const RESERVED: f64 = 3.0;
/// A backend without its page tables and its sorts.
pub(crate) const BACKEND_BYTES: f64 = 5.0 * 1024.0 * 1024.0;
/// The operating system.
pub(crate) const SYSTEM_BYTES: f64 = 512.0 * 1024.0 * 1024.0;
/// Evictions for each pool and minute that are harmless, as in the knee of a simulation.
pub(crate) const EVICTIONS_MAX: f64 = 1.0;
/// Loans of which a 99th percentile is known well enough: ten are above it.
pub(crate) const LOANS_MIN: u64 = 1000;
/// Loans of which the mean is known well enough to bound the demand.
pub(crate) const LOANS_OF_BOUND: u64 = 30;
