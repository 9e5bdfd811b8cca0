//! Orders that the workers are carrying out, and the purpose of each.
//!
//! Always true: an order is over when every worker has carried it out, when its console client has disconnected, or
//! when it is cancelled; its console client is answered once.
//! Not here: the effect of an order (`worker::admin::orders`), the answers (`orders`).

use std::collections::{BTreeMap, BTreeSet};

use base::WorkerId;
use pool::ClientKey;

/// All orders under way; `P` is the purpose of an order.
#[derive(Debug)]
pub(crate) struct Waits<P> {
    given: u64,
    open: BTreeMap<u64, Wait<P>>,
}

#[derive(Debug)]
struct Wait<P> {
    purpose: P,
    obeyed: BTreeSet<WorkerId>,
    done: u32,
}

/// A console client that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ConsoleClient {
    pub(crate) at: WorkerId,
    pub(crate) client: ClientKey,
}

/// An order that every worker has carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Obeyed<P> {
    /// What it was for.
    pub(crate) purpose: P,
    /// The number of workers that had something to apply it to.
    pub(crate) done: u32,
}

impl<P> Default for Waits<P> {
    fn default() -> Self {
        Self { given: 0, open: BTreeMap::new() }
    }
}

impl<P> Waits<P> {
    /// Registers an order and returns its number, which every worker must be told.
    pub(crate) fn open(&mut self, purpose: P) -> u64 {
        self.given += 1;
        self.open.insert(self.given, Wait { purpose, obeyed: BTreeSet::new(), done: 0 });
        self.given
    }

    /// A worker has carried out an order. Returns the order if it was the last of `workers` workers.
    pub(crate) fn obeyed(&mut self, from: WorkerId, number: u64, is_done: bool, workers: usize) -> Option<Obeyed<P>> {
        let wait = self.open.get_mut(&number)?;
        wait.done += u32::from(wait.obeyed.insert(from) && is_done);
        if wait.obeyed.len() < workers {
            return None;
        }
        let wait = self.open.remove(&number)?;
        Some(Obeyed { purpose: wait.purpose, done: wait.done })
    }

    /// Withdraws the matching orders and returns the number and purpose of each, oldest first.
    pub(crate) fn take_back(&mut self, fits: impl Fn(&P) -> bool) -> Vec<(u64, P)> {
        let open = std::mem::take(&mut self.open);
        let (taken, open) = open.into_iter().partition(|(_, wait)| fits(&wait.purpose));
        self.open = open;
        let taken: BTreeMap<_, _> = taken;
        taken.into_iter().map(|(number, wait)| (number, wait.purpose)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_over_with_the_last_worker() {
        let mut waits = Waits::default();
        let (first, second) = (waits.open("first"), waits.open("second"));
        assert_eq!(waits.obeyed(WorkerId(0), first, true, 2), None);
        assert_eq!(waits.obeyed(WorkerId(0), first, true, 2), None, "it has been heard already");
        assert_eq!(waits.obeyed(WorkerId(1), first, false, 2), Some(Obeyed { purpose: "first", done: 1 }));
        assert_eq!(waits.obeyed(WorkerId(1), first, false, 2), None, "it is over");
        assert_eq!(waits.take_back(|purpose| *purpose == "second"), [(second, "second")]);
        assert_eq!(waits.obeyed(WorkerId(0), second, true, 1), None, "it was taken back");
    }
}
