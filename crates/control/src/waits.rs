//! Orders that the workers carry out, and who waits for them.
//!
//! Always true: an order is over when every worker has obeyed, when its asker has gone, or when it is taken back; whoever
//! waits is answered once.
//! Not here: what an order means (`worker::admin::orders`), what is answered (`orders`).

use std::collections::{BTreeMap, BTreeSet};

use base::WorkerId;
use pool::ClientKey;

/// All orders that are under way; `P` says what each is for.
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

/// A client of the console that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Asker {
    pub(crate) at: WorkerId,
    pub(crate) client: ClientKey,
}

/// An order that every worker has obeyed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Obeyed<P> {
    /// What it was for.
    pub(crate) purpose: P,
    /// How many workers had something to do it to.
    pub(crate) done: u32,
}

impl<P> Default for Waits<P> {
    fn default() -> Self {
        Self { given: 0, open: BTreeMap::new() }
    }
}

impl<P> Waits<P> {
    /// Notes an order; its number is to be told to every worker.
    pub(crate) fn open(&mut self, purpose: P) -> u64 {
        self.given += 1;
        self.open.insert(self.given, Wait { purpose, obeyed: BTreeSet::new(), done: 0 });
        self.given
    }

    /// A worker has obeyed; if it was the last of so many, the order is over.
    pub(crate) fn obeyed(&mut self, from: WorkerId, number: u64, is_done: bool, workers: usize) -> Option<Obeyed<P>> {
        let wait = self.open.get_mut(&number)?;
        wait.done += u32::from(wait.obeyed.insert(from) && is_done);
        if wait.obeyed.len() < workers {
            return None;
        }
        let wait = self.open.remove(&number)?;
        Some(Obeyed { purpose: wait.purpose, done: wait.done })
    }

    /// Takes back the orders that fit, the oldest first: the number and the purpose of each.
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
