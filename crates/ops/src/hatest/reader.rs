//! A reader: the newest row, again and again.
//!
//! Always true: a read that comes too late is left out, because only the newest row is of interest.
//! Not here: what is counted (`tally`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::answer::Failure;
use super::run_clock::{RunClock, Stop};
use super::schedule::Schedule;
use super::session::{Row, Session};
use super::tally::{PRIMARY, ReaderTally, STANDBY};
use super::target::Target;
use super::writer::{GRACE, connect, within};

/// A reader.
pub(crate) struct Reader {
    pub(crate) target: Rc<Target>,
    pub(crate) sql: String,
    pub(crate) schedule: Schedule,
    pub(crate) clock: RunClock,
    pub(crate) stop: Stop,
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) tally: Rc<RefCell<ReaderTally>>,
    /// The time of the newest acknowledged row of all writers, in microseconds since 1970.
    pub(crate) newest_micros: Rc<Cell<i64>>,
}

impl Reader {
    /// Reads until the stop.
    pub(crate) async fn run(mut self) {
        let mut session: Option<Session> = None;
        loop {
            let next = self.schedule.due(self.schedule.count_before(self.clock.now()));
            if self.stop.before(self.clock.until(next)).await.is_none() {
                break;
            }
            if let Some(broken) = session.take_if(|session| session.is_broken()) {
                self.note_broken(broken).await;
            }
            let mut open = match session.take() {
                Some(open) => open,
                None => {
                    let tally = self.tally.clone();
                    let opened = connect(&self.target, |count| count(&mut tally.borrow_mut().connections));
                    let Some(open) = self.stop.before(opened).await else { break };
                    open
                }
            };
            if self.read(&mut open).await {
                session = Some(open);
            }
        }
        if let Some(session) = session {
            session.close().await;
        }
    }

    async fn note_broken(&self, mut session: Session) {
        let why = session.end().await.unwrap_or(Failure::Broken("closed"));
        self.tally.borrow_mut().connections.broken.count(why.code());
    }

    /// Reads once, and returns whether the session goes on.
    async fn read(&mut self, session: &mut Session) -> bool {
        let (begun, acked_micros) = (self.clock.now(), self.newest_micros.get());
        let answer = within(self.answer_timeout, session.row(&self.sql));
        let Some(answer) = self.stop.soon_after(GRACE, answer).await else { return false };
        let now = self.clock.now();
        let mut tally = self.tally.borrow_mut();
        match answer {
            Ok(row) => {
                tally.latency.record(now.saturating_sub(begun));
                tally.read(&row, now, self.clock.micros(now), self.clock.start_micros, acked_micros);
                true
            }
            Err(failure) => {
                let goes_on = matches!(failure, Failure::Server { goes_on: true, .. });
                // A standby has the table a moment later.
                if tally.reads > 0 || failure.code() != UNDEFINED_TABLE {
                    tally.errors.count(failure.code());
                }
                if !goes_on {
                    tally.connections.broken.count(failure.code());
                }
                goes_on
            }
        }
    }
}

impl ReaderTally {
    /// Counts an answer of [`newest`](super::statements::Statements::newest). `acked_micros` is the time of the newest row
    /// that was acknowledged before the read, and `start_micros` that of the start, which stands for no row at all.
    fn read(&mut self, row: &Row, now: Duration, now_micros: i64, start_micros: i64, acked_micros: i64) {
        let value = |at: usize| row.get(at).and_then(Option::as_deref);
        let role = if value(1) == Some("t") { STANDBY } else { PRIMARY };
        self.reads += 1;
        self.gaps.ack(now);
        self.members.count(&conninfo::clean(value(0).unwrap_or("?")), role, now);
        let newest = value(3).and_then(|micros| micros.parse::<i64>().ok());
        self.seq_max = self.seq_max.max(value(2).and_then(|seq| seq.parse().ok()));
        self.newest_micros = newest.or(self.newest_micros);
        let since = |later: i64| {
            let micros = later.saturating_sub(newest.unwrap_or(start_micros));
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        self.age_max = self.age_max.max(since(now_micros));
        // The time in a row was a floating-point number on its way.
        self.stale_max = self.stale_max.max(since(acked_micros.saturating_sub(1)));
    }
}

/// The SQLSTATE of a table that is not there.
const UNDEFINED_TABLE: &str = "42P01";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: [Option<&str>; 4]) -> Row {
        values.map(|value| value.map(str::to_owned)).to_vec()
    }

    #[test]
    fn a_row_that_is_older_than_an_acknowledged_one_is_stale() {
        let mut tally = ReaderTally::default();
        let ms = Duration::from_millis;
        tally.read(&row([Some("a:1"), Some("t"), Some("7"), Some("5000000")]), ms(10), 5_030_000, 4_000_000, 5_000_000);
        assert_eq!((tally.stale_max, tally.age_max), (ms(0), ms(30)));
        tally.read(&row([Some("a:1"), Some("t"), Some("7"), Some("5000000")]), ms(20), 5_130_000, 4_000_000, 5_100_001);
        assert_eq!((tally.stale_max, tally.age_max), (ms(100), ms(130)));
        assert_eq!((tally.reads, tally.seq_max, tally.newest_micros), (2, Some(7), Some(5_000_000)));
        assert_eq!((tally.members.0[0].address.as_str(), tally.members.0[0].role), ("a:1", STANDBY));
    }

    #[test]
    fn no_row_at_all_is_as_old_as_the_run() {
        let mut tally = ReaderTally::default();
        let nothing = row([Some("a:1"), Some("f"), None, None]);
        tally.read(&nothing, Duration::ZERO, 5_000_000, 4_000_000, 0);
        assert_eq!((tally.stale_max, tally.age_max.as_millis()), (Duration::ZERO, 1000));
        tally.read(&nothing, Duration::ZERO, 5_000_000, 4_000_000, 4_500_001);
        assert_eq!((tally.stale_max.as_millis(), tally.members.0[0].role), (500, PRIMARY));
    }
}
