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
pub(crate) struct PendingOrders<P> {
    given: u64,
    open: BTreeMap<u64, PendingOrder<P>>,
}

#[derive(Debug)]
struct PendingOrder<P> {
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

impl<P> Default for PendingOrders<P> {
    fn default() -> Self {
        Self { given: 0, open: BTreeMap::new() }
    }
}

impl<P> PendingOrders<P> {
    /// Registers an order and returns its number, which every worker must be told.
    pub(crate) fn open(&mut self, purpose: P) -> u64 {
        self.given += 1;
        self.open.insert(self.given, PendingOrder { purpose, obeyed: BTreeSet::new(), done: 0 });
        self.given
    }

    /// A worker has carried out an order. Returns the order if it was the last of `workers` workers.
    pub(crate) fn obeyed(&mut self, from: WorkerId, number: u64, is_done: bool, workers: usize) -> Option<Obeyed<P>> {
        let order = self.open.get_mut(&number)?;
        order.done += u32::from(order.obeyed.insert(from) && is_done);
        if order.obeyed.len() < workers {
            return None;
        }
        let order = self.open.remove(&number)?;
        Some(Obeyed { purpose: order.purpose, done: order.done })
    }

    /// Withdraws the matching orders and returns the number and purpose of each, oldest first.
    pub(crate) fn take_back(&mut self, fits: impl Fn(&P) -> bool) -> Vec<(u64, P)> {
        let open = std::mem::take(&mut self.open);
        let (taken, open) = open.into_iter().partition(|(_, order)| fits(&order.purpose));
        self.open = open;
        let taken: BTreeMap<_, _> = taken;
        taken.into_iter().map(|(number, order)| (number, order.purpose)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_over_with_the_last_worker() {
        let mut orders = PendingOrders::default();
        let (first, second) = (orders.open("first"), orders.open("second"));
        assert_eq!(orders.obeyed(WorkerId(0), first, true, 2), None);
        assert_eq!(orders.obeyed(WorkerId(0), first, true, 2), None, "it has been heard already");
        assert_eq!(orders.obeyed(WorkerId(1), first, false, 2), Some(Obeyed { purpose: "first", done: 1 }));
        assert_eq!(orders.obeyed(WorkerId(1), first, false, 2), None, "it is over");
        assert_eq!(orders.take_back(|purpose| *purpose == "second"), [(second, "second")]);
        assert_eq!(orders.obeyed(WorkerId(0), second, true, 1), None, "it was taken back");
    }
}
