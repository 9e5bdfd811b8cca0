//! Looks up host names and remembers their addresses.
//!
//! Always true: at most one lookup of a name is under way; the addresses of a name are given out in turn.
//! Not here: the lookup itself, which the control thread does (`control::names`); its answer (`resolved`); dialing
//! (`dial`, `cancel::peers`).

use std::sync::Arc;
use std::time::Duration;

use reactor::Io;

use crate::letters::{HostRow, ToControl};
use crate::upstream::names::{Asker, Known, NamePlace};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Returns the next address of this name, or asks the control thread to look it up.
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

    /// The error of the last lookup of this name, if it failed.
    pub(crate) fn why_unknown(&self, name: &str) -> Option<Arc<str>> {
        self.registry.names.get(name)?.found.as_ref()?.as_ref().err().cloned()
    }

    /// Rows of the remembered names and how long they are still valid.
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
