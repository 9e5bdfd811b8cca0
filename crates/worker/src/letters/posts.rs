//! The letter boxes of all threads, and what all threads count together.
//!
//! Always true: posting a letter does not block.
//! Not here: the letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ToControl, ToWorker, Unauthenticated};

/// Posts letters to one thread, from any thread. It never blocks.
pub type Post<L> = Arc<dyn Fn(L) + Send + Sync>;

/// All letter boxes, as one worker knows them.
pub struct Posts<S> {
    /// The workers, by number.
    pub workers: Vec<Post<ToWorker<S>>>,
    /// The control thread.
    pub control: Post<ToControl>,
    /// The numbering of clients and servers.
    pub ids: Ids,
    /// The connections of the process that have not logged in.
    pub unauthenticated: Unauthenticated,
    /// The bytes that each worker may hold for its clients, as far as the memory of the process is concerned.
    pub held_bytes_max: usize,
}

impl<S> Clone for Posts<S> {
    fn clone(&self) -> Self {
        let Self { workers, control, ids, unauthenticated, held_bytes_max } = self;
        let (workers, control) = (workers.clone(), control.clone());
        let (ids, unauthenticated) = (ids.clone(), unauthenticated.clone());
        Self { workers, control, ids, unauthenticated, held_bytes_max: *held_bytes_max }
    }
}

impl<S> std::fmt::Debug for Posts<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Posts").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

/// Numbers the clients and servers of the process in the order in which they come: PgBouncer's scripts count on that.
/// It costs one addition per connection.
#[derive(Clone, Debug, Default)]
pub struct Ids(Arc<AtomicU64>);

impl Ids {
    /// The next number, from 1 on.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Continues behind the numbers of another process.
    pub fn begin_behind(&self, last: u64) {
        self.0.fetch_max(last, Ordering::Relaxed);
    }

    /// The last one that was given out.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
