//! The names of hosts are looked up, and their addresses remembered.
//!
//! Always true: a name is asked for by one question at a time, whoever wants its addresses; they are given out in turn.
//! Not here: looking a name up, which the control thread does (`control::names`); the answer (`resolved`), dialing (`dial`, `cancel::peers`).

use std::sync::Arc;
use std::time::Duration;

use reactor::Io;

use crate::letters::{HostRow, ToControl};
use crate::upstream::names::{Asker, Known, NamePlace};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// An address of this name, the next one each time.
    pub(crate) fn address_of(&mut self, name: &Arc<str>, asker: Asker) -> Known {
        let place = self.registry.names.entry(name.clone()).or_default();
        if place.until > self.now
            && let Some(found) = &place.found
        {
            place.turn += 1;
            return match found {
                Ok(addresses) => Known::Address(addresses[place.turn % addresses.len()]),
                Err(_) => Known::Nothing,
            };
        }
        place.waiting.push(asker);
        if !std::mem::replace(&mut place.is_asked, true) {
            (self.posts.control)(ToControl::Resolve { from: self.id, name: name.clone() });
        }
        Known::Later
    }

    /// Why a name has no address.
    pub(crate) fn why_unknown(&self, name: &str) -> Option<Arc<str>> {
        self.registry.names.get(name)?.found.as_ref()?.as_ref().err().cloned()
    }

    /// The names that are remembered, and until when.
    pub(crate) fn host_rows(&self) -> Vec<HostRow> {
        let row = |(name, place): (&Arc<str>, &NamePlace)| HostRow {
            name: name.clone(),
            ttl: Duration::from_micros(place.until.0.saturating_sub(self.now.0)),
            addresses: place.found.iter().flatten().flatten().copied().collect(),
        };
        self.registry.names.iter().map(row).collect()
    }

    pub(crate) fn names_asked(&self) -> usize {
        self.registry.names.values().filter(|place| place.is_asked).count()
    }
}
