//! What a worker tells the control thread for `SHOW EVENTS`.
//!
//! Always true: there is one letter a second at most, with so many reports as there are places; the same report once more is counted
//! with the first, and one that finds no place is counted and forgotten.
//! Not here: what is worth a report (`reporting`), what is done with them (`control::events`).

use std::sync::Arc;
use std::time::Duration;

use base::{Time, Wall};

/// Something of importance that has happened in a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What.
    pub kind: ReportKind,
    /// What several of a kind have in common that may be told of as one; without a name in it that a stranger may choose.
    pub class: &'static str,
    /// Of which database; empty if of none.
    pub database: Arc<str>,
    /// Of which user.
    pub user: Arc<str>,
    /// The address of the client, or the host.
    pub host: Box<str>,
    /// In words.
    pub detail: Box<str>,
    /// When it happened first.
    pub at: Wall,
    /// How often.
    pub count: u64,
}

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ReportKind {
    /// The clients of a pool begin to wait.
    WaitBegins,
    /// They wait no more.
    WaitEnds,
    /// A host cannot be logged in at.
    HostDown,
    /// It can again.
    HostUp,
    /// A server was closed since something was wrong with it.
    ServerFault,
    /// A client was not let in.
    LoginRefused,
}

/// Those that wait to be told.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    waiting: Vec<Report>,
    /// Those that found no place.
    dropped: u64,
    pub(crate) is_armed: bool,
    /// When some were told last.
    told: Time,
}

impl Reports {
    /// All of them, and how many more there were.
    pub(crate) fn tell(&mut self, now: Time) -> (Vec<Report>, u64) {
        (self.is_armed, self.told) = (false, now);
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.dropped))
    }

    /// When they may be told.
    pub(crate) fn due(&self, now: Time) -> Time {
        (self.told + TOLD_EVERY).max(now)
    }

    pub(crate) fn add(&mut self, report: Report) {
        let is_same = |known: &&mut Report| {
            (known.kind, known.class, &known.host, &known.detail)
                == (report.kind, report.class, &report.host, &report.detail)
                && (&known.database, &known.user) == (&report.database, &report.user)
        };
        // Whom nobody knows has no more than half of the places: what happens to servers and pools is told besides.
        let most = if report.kind == ReportKind::LoginRefused { REPORTS_MAX / 2 } else { REPORTS_MAX };
        let has_room = self.waiting.len() < most;
        match self.waiting.iter_mut().find(is_same) {
            Some(known) => known.count += 1,
            None if has_room => self.waiting.push(report),
            None => self.dropped += 1,
        }
    }
}

/// So many different reports are told in a second.
const REPORTS_MAX: usize = 32;
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// A text may be a stranger's, and as long as it likes: no more of it is told.
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
