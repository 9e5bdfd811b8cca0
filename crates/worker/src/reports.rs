//! Events that a worker reports to the control thread for `SHOW EVENTS`.
//!
//! Always true: there is at most one letter per second, with at most [`REPORTS_MAX`] reports; a report equal to one
//! that waits is counted with it, and one that finds no room is only counted.
//! Not here: which events are reported (`reporting`), what the control thread does with them (`control::events`).

use std::sync::Arc;
use std::time::Duration;

use base::{Time, Wall};

/// An important event in a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Its kind.
    pub kind: ReportKind,
    /// Reports of the same kind and class may be merged into one; contains no name that a client may choose.
    pub class: &'static str,
    /// The database; empty if it concerns none.
    pub database: Arc<str>,
    /// The user.
    pub user: Arc<str>,
    /// The address of the client, or the host.
    pub host: Box<str>,
    /// Its description.
    pub detail: Box<str>,
    /// When it happened first.
    pub at: Wall,
    /// How often it happened.
    pub count: u64,
}

/// The kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ReportKind {
    /// The clients of a pool begin to wait.
    WaitBegins,
    /// The clients of a pool no longer wait.
    WaitEnds,
    /// Logins at a host fail.
    HostDown,
    /// Logins at the host succeed again.
    HostUp,
    /// A server has reported another role of its host than those before it.
    HostRole,
    /// A server was closed because of a fault.
    ServerFault,
    /// A client was refused.
    LoginRefused,
}

/// The reports that wait for the next letter.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    waiting: Vec<Report>,
    /// Number of reports that found no room.
    dropped: u64,
    is_armed: bool,
    /// When the last letter was sent.
    last_letter: Time,
}

impl Reports {
    /// A timer is set for the next letter; returns whether one was set already.
    pub(crate) fn arm(&mut self) -> bool {
        std::mem::replace(&mut self.is_armed, true)
    }

    /// Returns all waiting reports, and the number of those that found no room.
    pub(crate) fn tell(&mut self, now: Time) -> (Vec<Report>, u64) {
        (self.is_armed, self.last_letter) = (false, now);
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.dropped))
    }

    /// When the next letter may be sent.
    pub(crate) fn due(&self, now: Time) -> Time {
        (self.last_letter + LETTER_PAUSE).max(now)
    }

    pub(crate) fn add(&mut self, report: Report) {
        let is_same = |known: &&mut Report| {
            (known.kind, known.class, &known.host, &known.detail)
                == (report.kind, report.class, &report.host, &report.detail)
                && (&known.database, &known.user) == (&report.database, &report.user)
        };
        // Refused logins, which any stranger can cause, get at most half of the room, so that events of servers and
        // pools are still reported.
        let most = if report.kind == ReportKind::LoginRefused { REPORTS_MAX / 2 } else { REPORTS_MAX };
        let has_room = self.waiting.len() < most;
        match self.waiting.iter_mut().find(is_same) {
            Some(known) => known.count += 1,
            None if has_room => self.waiting.push(report),
            None => self.dropped += 1,
        }
    }
}

/// Maximum number of different reports in one letter.
const REPORTS_MAX: usize = 32;
const LETTER_PAUSE: Duration = Duration::from_secs(1);
/// A text may come from a stranger and be of any length; longer ones are cut.
pub(crate) const REPORT_TEXT_BYTES_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(user: &str) -> Report {
        Report {
            kind: ReportKind::LoginRefused,
            class: "PasswordWrong",
            database: "d".into(),
            user: user.into(),
            host: "10.0.0.7".into(),
            detail: "no".into(),
            at: Wall(0),
            count: 1,
        }
    }

    #[test]
    fn a_storm_of_reports_takes_no_more_room_than_there_is() {
        let mut reports = Reports::default();
        for number in 0..REPORTS_MAX / 2 + 5 {
            reports.add(report(&number.to_string()));
        }
        (0..1000).for_each(|_| reports.add(report("3")));
        assert_eq!((reports.waiting.len(), reports.dropped), (REPORTS_MAX / 2, 5));
        for number in 0..REPORTS_MAX {
            reports.add(Report { kind: ReportKind::HostDown, ..report(&number.to_string()) });
        }
        assert_eq!((reports.waiting.len(), reports.dropped), (REPORTS_MAX, 5 + REPORTS_MAX as u64 / 2));
        assert_eq!(reports.waiting[3].count, 1001);
    }
}
