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

/// The question to a server of this `server_version_num`.
pub(crate) fn question(version: u32) -> &'static str {
    match version {
        ..170_000 => BEFORE_17,
        170_000..180_000 => OF_17,
        180_000.. => SINCE_18,
    }
}

macro_rules! question {
    ($rest:literal) => {
        concat!(
            "select pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end, '0/0') as log, ",
            $rest
        )
    };
}

const BEFORE_17: &str = question!(
    "buffers_checkpoint as checkpoints, buffers_clean as writer, buffers_backend as sessions, checkpoints_timed as timed, \
     checkpoints_req as requested from pg_stat_bgwriter"
);
/// Writes of sessions are in `pg_stat_io`, with those of autovacuum and others that are neither. As in `buffers_backend`, pages by which relations
/// grew are among them. `op_bytes` is the size of each, a page.
const OF_17: &str = question!(
    "c.buffers_written as checkpoints, b.buffers_clean as writer, c.num_timed as timed, c.num_requested as requested, \
     (select coalesce(sum(coalesce(writes, 0) + coalesce(extends, 0)), 0) from pg_stat_io \
     where object = 'relation' and backend_type not in ('checkpointer', 'background writer')) as sessions \
     from pg_stat_checkpointer c, pg_stat_bgwriter b"
);
/// There one write, or one extension, may be of several pages: bytes count, and `op_bytes` is gone.
const SINCE_18: &str = question!(
    "c.buffers_written as checkpoints, b.buffers_clean as writer, c.num_timed as timed, c.num_requested as requested, \
     (select coalesce(sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)), 0) / current_setting('block_size')::numeric from pg_stat_io \
     where object = 'relation' and backend_type not in ('checkpointer', 'background writer')) as sessions \
     from pg_stat_checkpointer c, pg_stat_bgwriter b"
);

#[cfg(test)]
mod tests {
    use super::*;

    /// By the documentation of each version: `pg_stat_bgwriter` lost its counters of checkpoints and of sessions in 17, `pg_stat_io` came in 16 and
    /// counts bytes since 18.
    #[test]
    fn each_version_is_asked_for_the_columns_that_it_has() {
        let words = |version: u32| -> Vec<&str> {
            const WORDS: [&str; 7] = [
                "buffers_backend",
                "checkpoints_timed",
                "buffers_clean",
                "num_timed",
                "pg_stat_io",
                "(extends",
                "extend_bytes",
            ];
            WORDS.into_iter().filter(|word| question(version).contains(word)).collect()
        };
        for version in [130_000, 140_012, 150_018, 160_014, 169_999] {
            assert_eq!(words(version), ["buffers_backend", "checkpoints_timed", "buffers_clean"], "{version}");
        }
        for version in [170_000, 170_010] {
            assert_eq!(words(version), ["buffers_clean", "num_timed", "pg_stat_io", "(extends"], "{version}");
        }
        for version in [180_000, 190_000] {
            assert_eq!(words(version), ["buffers_clean", "num_timed", "pg_stat_io", "extend_bytes"], "{version}");
        }
        for version in [150_018, 170_010, 180_004] {
            let names = ["as log", "as checkpoints", "as writer", "as sessions", "as timed", "as requested"];
            assert!(names.iter().all(|name| question(version).contains(name)), "{version}");
        }
    }

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
