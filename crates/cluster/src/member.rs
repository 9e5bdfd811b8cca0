//! A host of a cluster, and what it has answered last.
//!
//! Always true: what is known of a host is its last answer; a host that has been silent or has refused answers nothing.
//! Not here: which host is the primary (`cluster`).

use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::suspicion::Pace;

/// What PostgreSQL on a host says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// It is in recovery (`pg_is_in_recovery`).
    pub in_recovery: bool,
    /// The identifier that all members of a cluster have in common (`pg_control_system`).
    pub system: u64,
    /// Its timeline; of a standby that of its last restart point or of what it has written since, which may be older than what it replays.
    pub timeline: u32,
    /// The position in the write-ahead log up to which a primary has inserted, or a standby has replayed, in bytes.
    pub replayed: u64,
    /// The position up to which a standby has received the log, or a primary has flushed it and sends it.
    pub received: u64,
    /// Whether the user who asks may promote it (`pg_promote`).
    pub can_promote: bool,
    /// How long ago the last transaction that it has replayed was committed; `None` on a primary, and on a standby that has replayed
    /// everything.
    pub delay: Option<Duration>,
}

impl Report {
    /// The end of the last record of a log whose next record will begin at this position: behind it there may be the header of a page, which
    /// a standby that has replayed everything does not count (`XLogRecPtrToBytePos` in `access/transam/xlog.c`).
    #[must_use]
    pub fn end_of_record(next: u64) -> u64 {
        let in_page = next % PAGE_BYTES;
        if in_page == SHORT_HEADER || in_page == LONG_HEADER { next - in_page } else { next }
    }
}

/// The outcome of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Checked {
    /// The host has answered.
    Answered(Report),
    /// The host is there, and PostgreSQL does not run: it refuses connections.
    Down(Arc<str>),
    /// PostgreSQL accepts no session for now, or has ended it.
    Refused(Arc<str>),
    /// PostgreSQL does not let the user in who asks: a password, a right, or a database is missing.
    Denied(Arc<str>),
    /// There was no answer in time.
    Silent,
}

/// What a host is at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberRole {
    /// It accepts writes.
    Primary,
    /// It is in recovery.
    Replica,
    /// It accepts writes, but is not the primary of the cluster: no client writes there.
    Fenced,
    /// It belongs to another cluster, and is not used.
    Foreign,
    /// It has not answered.
    Unknown,
}

impl MemberRole {
    /// The word used in tables and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Fenced => "fenced",
            Self::Foreign => "foreign",
            Self::Unknown => "unknown",
        }
    }
}

/// A host of a cluster.
#[derive(Debug)]
pub struct Member {
    name: Arc<str>,
    report: Option<Report>,
    /// When the last question that was answered had been put.
    asked: Option<Time>,
    error: Option<Arc<str>>,
    /// When the last question had been put, answered or not.
    last_asked: Option<Time>,
    /// Whether the last check has shown that PostgreSQL does not run there.
    is_down: bool,
    /// Whether the user who asks was not let in.
    is_denied: bool,
    /// How many checks in a row have had no answer, and since when.
    silences: u32,
    silent_since: Option<Time>,
    /// How long its checks take.
    pub(crate) pace: Pace,
    /// When the next check is due, or when the present one began.
    pub(crate) due: Time,
    pub(crate) under_way: Option<Time>,
}

impl Member {
    pub(crate) fn new(name: Arc<str>, due: Time) -> Self {
        let (report, asked, error, last_asked) = (None, None, None, None);
        let (is_down, is_denied) = (false, false);
        Self {
            name,
            report,
            asked,
            error,
            last_asked,
            is_down,
            is_denied,
            silences: 0,
            silent_since: None,
            pace: Pace::default(),
            due,
            under_way: None,
        }
    }

    /// What another list of hosts has known of this one; it is checked again at once.
    pub(crate) fn succeed(&mut self, former: &Self) {
        (self.report, self.asked, self.error) = (former.report, former.asked, former.error.clone());
        (self.last_asked, self.is_down, self.is_denied) = (former.last_asked, former.is_down, former.is_denied);
        (self.silences, self.silent_since, self.pace) = (former.silences, former.silent_since, former.pace);
    }

    /// Notes the outcome of the check that is under way.
    pub(crate) fn is_checked(&mut self, now: Time, outcome: Checked) {
        let asked = self.under_way.take().unwrap_or(now);
        self.last_asked = Some(asked);
        self.is_down = matches!(outcome, Checked::Down(_));
        self.is_denied = matches!(outcome, Checked::Denied(_));
        let took = (outcome != Checked::Silent).then(|| now.since(self.silent_since.unwrap_or(asked)));
        self.pace.is_checked(now, took, matches!(outcome, Checked::Answered(_) | Checked::Denied(_)));
        match outcome {
            Checked::Answered(report) => {
                (self.report, self.asked, self.error) = (Some(report), Some(asked), None);
                (self.silences, self.silent_since) = (0, None);
            }
            Checked::Down(why) | Checked::Refused(why) | Checked::Denied(why) => {
                (self.report, self.error) = (None, Some(why));
                (self.silences, self.silent_since) = (0, None);
            }
            Checked::Silent => {
                self.silences += 1;
                let since = *self.silent_since.get_or_insert(asked);
                if self.silences >= SILENCES_MAX && now.since(since) >= SILENCE_MAX {
                    (self.report, self.error) = (None, Some("no answer".into()));
                }
            }
        }
    }

    /// Its host and port, as in tables.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its last answer, unless a later check has failed. Less than three unanswered checks in two seconds do not count.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Why the last check has failed.
    #[must_use]
    pub fn error(&self) -> Option<&Arc<str>> {
        self.error.as_ref()
    }

    /// Whether it accepts no writes, as a question put after this time has shown: nobody listens, it is in recovery, or it is silent. Any
    /// other error may come from a server that runs.
    pub(crate) fn is_down_since(&self, time: Time) -> bool {
        let is_standby = self.report.is_some_and(|report| report.in_recovery);
        self.last_asked.is_some_and(|asked| asked > time) && (self.is_down || self.is_silent() || is_standby)
    }

    /// Whether it has not answered for a while, though nobody has refused a connection.
    pub(crate) fn is_silent(&self) -> bool {
        self.silences > 0 && self.report.is_none()
    }

    /// Since when an answer is awaited: from the first check that had none, or from the present one.
    pub(crate) fn waits_since(&self) -> Option<Time> {
        self.silent_since.or(self.under_way)
    }

    /// Whether the user who asks was not let in, which time does not change.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// Its last answer, and when the question was put.
    pub(crate) fn reported(&self) -> Option<(Time, &Report)> {
        Some((self.asked?, self.report.as_ref()?))
    }

    /// When the question had been put that it has answered last.
    pub(crate) fn asked(&self) -> Option<Time> {
        self.asked
    }

    /// Its answer to a question put after this time.
    pub(crate) fn report_since(&self, time: Time) -> Option<&Report> {
        self.report.as_ref().filter(|_| self.asked.is_some_and(|asked| asked > time))
    }
}

/// A busy machine may leave some checks without an answer.
const SILENCES_MAX: u32 = 3;
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// `XLOG_BLCKSZ`, and the sizes of the headers of its pages: that of the first page of a segment is longer.
const PAGE_BYTES: u64 = 8192;
const SHORT_HEADER: u64 = 24;
const LONG_HEADER: u64 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_page_is_no_record() {
        for (next, end) in [(0x300_0028, 0x300_0000), (0x300_2018, 0x300_2000), (0x300_0148, 0x300_0148), (0, 0)] {
            assert_eq!(Report::end_of_record(next), end, "{next:x}");
        }
    }
}
