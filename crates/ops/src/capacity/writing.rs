//! What a server wrote while a load ran: its log, pages that became dirty, and who wrote them to the disk.
//!
//! Always true: everything is a difference of two readings, of the whole server but for the pages that statements of this database dirtied. What a
//! version does not count is absent with its reason.
//! Not here: the connection (`attribution`), what buffers hold.

use serde::Deserialize;

use crate::facts::Observed;

/// Counters of what is written, since the statistics were reset.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WriteCounters {
    /// The position of the log, in bytes.
    pub(crate) log: f64,
    /// Pages that checkpoints, the background writer and sessions wrote.
    pub(crate) checkpoints: f64,
    pub(crate) writer: f64,
    pub(crate) sessions: f64,
    /// Checkpoints that came by time, and those that were asked for.
    pub(crate) timed: f64,
    pub(crate) requested: f64,
}

/// What was written between two readings.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Writing {
    /// The time between the readings.
    pub(crate) seconds: f64,
    pub(crate) grown: WriteCounters,
    /// Pages that statements of this database made dirty; each may have been counted several times.
    pub(crate) dirtied: Observed<f64>,
}

impl Writing {
    /// What grew. `dirtied` are the pages that statements made dirty in between.
    pub(crate) fn between(seconds: f64, before: &WriteCounters, after: &WriteCounters, dirtied: Observed<f64>) -> Self {
        // Counters that fell were reset, and count from 0.
        let grown = |of: fn(&WriteCounters) -> f64| {
            let (before, after) = (of(before), of(after));
            if after >= before { after - before } else { after }
        };
        Self {
            seconds,
            grown: WriteCounters {
                log: grown(|one| one.log),
                checkpoints: grown(|one| one.checkpoints),
                writer: grown(|one| one.writer),
                sessions: grown(|one| one.sessions),
                timed: grown(|one| one.timed),
                requested: grown(|one| one.requested),
            },
            dirtied,
        }
    }

    /// Pages that were written to the disk.
    pub(crate) fn pages(&self) -> f64 {
        self.grown.checkpoints + self.grown.writer + self.grown.sessions
    }

    /// The share of them that checkpoints wrote; absent if none was written.
    pub(crate) fn checkpoint_share(&self) -> Option<f64> {
        (self.pages() > 0.0).then(|| self.grown.checkpoints / self.pages())
    }

    /// An amount for each second.
    pub(crate) fn rate(&self, amount: f64) -> f64 {
        amount / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// The question to a version.
pub(crate) fn question(major: u32) -> &'static str {
    if major >= 17 { SINCE_17 } else { BEFORE_17 }
}

const BEFORE_17: &str = "select pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end, '0/0') as log, \
    buffers_checkpoint as checkpoints, buffers_clean as writer, buffers_backend as sessions, checkpoints_timed as timed, \
    checkpoints_req as requested from pg_stat_bgwriter";
/// Writes of sessions are in `pg_stat_io`, with those of autovacuum and others that are neither. As in `buffers_backend`, pages by which relations
/// grew are among them; PostgreSQL 18 counts them by bytes, because one extension may be of several pages.
const SINCE_17: &str = "select pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end, '0/0') as log, \
    c.buffers_written as checkpoints, b.buffers_clean as writer, c.num_timed as timed, c.num_requested as requested, \
    (select coalesce(sum(coalesce(writes, 0) + coalesce((to_jsonb(i) ->> 'extend_bytes')::numeric / current_setting('block_size')::numeric, extends, 0)), 0) \
    from pg_stat_io i where object = 'relation' and backend_type not in ('checkpointer', 'background writer')) \
    as sessions from pg_stat_checkpointer c, pg_stat_bgwriter b";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkpoints_share_is_of_all_pages_that_were_written() {
        let before = WriteCounters { log: 1e6, checkpoints: 900.0, timed: 4.0, ..WriteCounters::default() };
        let after =
            WriteCounters { log: 3e6, checkpoints: 930.0, writer: 15.0, sessions: 5.0, timed: 5.0, requested: 0.0 };
        let writing = Writing::between(10.0, &before, &after, Ok(400.0));
        assert_eq!((writing.pages(), writing.checkpoint_share(), writing.grown.timed), (50.0, Some(0.6), 1.0));
        assert_eq!((writing.rate(writing.grown.log), writing.dirtied), (2e5, Ok(400.0)));
        let reset = Writing::between(10.0, &after, &before, Err("an extension".to_owned()));
        assert_eq!((reset.grown.log, reset.dirtied), (1e6, Err("an extension".to_owned())));
        let quiet = Writing::between(1.0, &after, &after, Ok(0.0));
        assert_eq!((quiet.checkpoint_share(), quiet.dirtied), (None, Ok(0.0)));
    }
}
