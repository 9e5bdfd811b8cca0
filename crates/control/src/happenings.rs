//! Records events for `SHOW EVENTS`: the control thread's own, such as a reload with its changes (`Control::reload`), and those
//! that workers report.
//!
//! Not here: how many events are kept (`events`).

use std::fmt;

use base::WorkerId;
use reactor::Level;
use worker::letters::{Commander, Report, Shutdown};

use crate::console::{Order, Refusal};
use crate::control::Control;
use crate::events::{EventKind, EventRecord};

impl<S> Control<S> {
    /// Records an event.
    pub(crate) fn happened(&mut self, kind: EventKind, detail: &str) {
        self.events.add(EventRecord::new(self.hands.now.wall, kind, detail));
    }

    /// Logs a line and records it as an event.
    pub(crate) fn tell(&mut self, kind: EventKind, level: Level, line: fmt::Arguments<'_>) {
        self.hands.log(level, line);
        self.happened(kind, &line.to_string());
    }

    pub(crate) fn hear_reports(&mut self, from: WorkerId, reports: Vec<Report>, dropped: u64) {
        reports.into_iter().for_each(|report| self.events.hear(report));
        if dropped > 0 {
            let detail = format!("worker {} had more to tell than it may", from.0);
            let event = EventRecord::new(self.hands.now.wall, EventKind::Dropped, &detail);
            self.events.add_or_fold(EventRecord { count: dropped, ..event });
        }
    }

    /// Records an order of a console client.
    pub(crate) fn was_ordered(&mut self, by: &Commander, order: &Order, refused: Option<&Refusal>) {
        let detail = match refused {
            Some(refusal) => format!("{order}: refused: {}", refusal.text),
            None => order.to_string(),
        };
        let event = EventRecord::new(self.hands.now.wall, EventKind::Order, &detail);
        let database = order.database().unwrap_or_default();
        self.events.add(EventRecord { database, user: (*by.user).into(), host: by.host.clone(), ..event });
    }

    /// Records the beginning of a shutdown.
    pub(crate) fn goes_down(&mut self, way: Shutdown) {
        let words = match way {
            Shutdown::Now => "at once",
            Shutdown::WaitForServers => "waits until all servers have been given back",
            Shutdown::WaitForClients => "waits until all clients have gone",
        };
        self.happened(EventKind::Shutdown, words);
    }

    /// Reads everything again and puts it in force. Returns the changed settings that need a restart.
    ///
    /// # Errors
    /// The errors because of which nothing has changed; they have been logged.
    pub(crate) fn reload(&mut self) -> Result<Vec<&'static str>, Vec<String>> {
        let (fresh, name_servers, kept) = match self.configuration.read_again(&self.hands) {
            Ok(read) => read,
            Err(lines) => {
                self.happened(EventKind::Reload, &format!("failed: {}", lines.join("; ")));
                return Err(lines);
            }
        };
        self.name_servers = name_servers;
        let changed = config::changes(&self.hands.active.settings, &fresh.settings);
        let detail = if changed.is_empty() { "no setting has changed".to_owned() } else { changed.join(", ") };
        self.happened(EventKind::Reload, &detail);
        self.enforce(fresh);
        Ok(kept)
    }
}
