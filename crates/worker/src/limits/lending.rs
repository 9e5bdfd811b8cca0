//! A worker's part in the limits of the process.
//!
//! Always true: worker 0 keeps the ledger, the others send it letters.
//! Not here: what is counted, and when (`shared_slots`).

use std::sync::Arc;

use base::WorkerId;
use pool::{Ledger, WorkerQuota};

/// This worker's part in the limits of the process.
#[derive(Debug)]
pub(crate) struct Lending {
    pub(super) worker_quota: WorkerQuota,
    /// Only on worker 0.
    pub(super) ledger: Option<Ledger>,
    /// Users with limits of their own, from `[users]`.
    pub(super) own: Vec<Arc<str>>,
}

impl Lending {
    pub(crate) fn new(id: WorkerId, workers: u8) -> Self {
        Self { worker_quota: WorkerQuota::new(), ledger: (id.0 == 0).then(|| Ledger::new(workers)), own: Vec::new() }
    }
}
