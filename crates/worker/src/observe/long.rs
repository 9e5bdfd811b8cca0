//! The log line about a long transaction (`log_min_duration_transaction`).
//!
//! Always true: the line contains no values from statements.
//! Not here: measuring transactions (`measured`), what is kept while one runs (`course`).

use std::fmt::Write as _;
use std::time::Duration;

use base::{Key, counted};
use measure::{PHASES, Spent};
use reactor::{Io, Level};
use route::shape_however_read;

use crate::observe::statements::text_of;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client's transaction is over: logs it if it was long, and resets its course.
    #[cold]
    pub(crate) fn end_course(&mut self, key: Key, spent: &Spent) {
        let Some(ready) = self.clients.ready(key) else { return };
        let server = ready.link().server().and_then(|server| self.servers.get_mut(server));
        let course = server.map(|server| server.course());
        // Nothing is known of a transaction that began before the setting was in force.
        let known = course.map(|course| course.end(self.hands.now)).filter(|(round_trips, _)| *round_trips > 0);
        let enough = self.hands.active.settings.log_min_duration_transaction;
        if enough.is_none_or(|enough| Duration::from_micros(spent.total()) < enough) {
            return;
        }
        let mut text = format!("transaction took {} ms", millis(spent.total()));
        let spent_in = PHASES.iter().map(|(phase, name)| (name, spent.of(*phase))).filter(|(_, micros)| *micros > 0);
        let parts: Vec<_> = spent_in.map(|(name, micros)| format!("{name} {}", millis(micros.into()))).collect();
        // Writing to a string cannot fail.
        let _ = write!(text, " ({})", parts.join(", "));
        if let Some((round_trips, longest)) = known {
            let _ = write!(text, ", {}", counted(round_trips, "round trip"));
            if let Some((head, took)) = longest {
                let shape = shape_however_read(text_of(head.bytes(), ready).bytes, self.encoding_of(ready));
                let shape = if shape.is_empty() { "a statement that is not known" } else { &*shape };
                let _ = write!(text, ", the longest {} ms: {shape}", millis(micros(took)));
            }
        }
        self.log_client(key, Level::Log, format_args!("{text}"));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(micros: u64) -> String {
    format!("{}.{:03}", micros / 1000, micros % 1000)
}
