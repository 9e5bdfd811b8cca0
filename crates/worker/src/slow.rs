//! Logs turns that last too long, because all other clients and servers of the worker wait meanwhile.
//!
//! Always true: the line names the connection that took the longest part of the turn; there is at most one line per second.
//! Not here: measuring (`stopwatch`), what a turn does (`turn`).

use reactor::{Io, Level, Subject};

use crate::admin::console::CONSOLE;
use crate::stopwatch::Work;
use crate::worker::{Owner, Worker};

impl<I: Io> Worker<I> {
    /// Counts a slow turn, and logs it.
    #[cold]
    pub(crate) fn slow_turn(&mut self, ticks: u64) {
        let (took, culprit) = (self.stopwatch.took(ticks), self.stopwatch.culprit());
        let (who, database) = culprit.map_or((None, None), |(work, _)| self.who_is_it(work));
        let database = match database {
            Some(database) => database,
            None => self.registry.database(&CONSOLE.into(), None),
        };
        let totals = &mut self.registry.database_at_mut(database).totals;
        totals.slow_turn_count += 1;
        totals.turn_time_max = totals.turn_time_max.max(took.as_micros() as u64);
        let Some(untold) = self.stopwatch.tell(self.hands.now) else { return };
        let of_it = culprit.map_or(String::new(), |(work, share)| {
            let what = match work {
                Work::Connection(_) if who.is_none() => "for somebody who has gone",
                Work::Connection(_) => "for what it sent",
                Work::Accept => "for somebody who came",
                Work::Letters => "for letters of other threads",
                Work::Timers => "for what was due",
            };
            format!(", {} ms of it {what}", share.as_millis())
        });
        let more = if untold > 0 { format!(" ({untold} more since the last such line)") } else { String::new() };
        let (worker, took, who) = (self.hands.id.0, took.as_millis(), who.unwrap_or_default());
        let line = format_args!("slow turn: worker {worker} served nobody else for {took} ms{of_it}{more}");
        self.hands.log.about(&who, Level::Warning, line);
    }

    /// The subject of the log line, and the number of the connection's database.
    fn who_is_it(&self, work: Work) -> (Option<Subject>, Option<u32>) {
        let Work::Connection(bits) = work else { return (None, None) };
        match self.owner(bits) {
            Some(Owner::Client(key)) => {
                let pool = self.clients.ready(key).and_then(|ready| self.registry.pool(ready.pool()));
                (Some(self.client_prefix(key)), pool.map(|pool| pool.database))
            }
            Some(Owner::Server(key)) => {
                (Some(self.server_prefix(key)), self.servers.get(key).map(|server| server.database()))
            }
            Some(Owner::Cancel(_) | Owner::Forward(_)) | None => (None, None),
        }
    }
}
