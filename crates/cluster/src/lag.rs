//! How far the replicas of a cluster are behind its primary.
//!
//! Always true: a position of a replica is compared with one up to which the primary had flushed its log when the replica was asked, or
//! before, so that neither what is written between two checks nor what is not sent yet is lag; no clocks of different machines are compared, unless nothing else is known; the number of
//! positions that are remembered is bounded.
//! Not here: which lag is too large (`rotation`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::cluster::Cluster;
use crate::member::{Member, MemberRole, Report};

/// How far a replica is behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// Bytes of the write-ahead log that it has not replayed.
    pub bytes: u64,
    /// How long ago the primary had written the first of these.
    pub time: Duration,
}

/// How far a replica may be behind (`max_lag`, `max_lag_time`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LagLimit {
    /// Most bytes.
    pub bytes: Option<u64>,
    /// Longest time.
    pub time: Option<Duration>,
}

/// The positions that the primary has had, and when.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    primary: Option<Arc<str>>,
    /// The oldest first. Of equal positions the first is kept.
    known: VecDeque<(Time, u64)>,
    /// When the primary was asked last.
    asked: Option<Time>,
}

impl Lag {
    /// Whether it exceeds a limit, or a fraction of it.
    pub(crate) fn exceeds(self, limit: LagLimit, divisor: u32) -> bool {
        let is_far = limit.bytes.is_some_and(|most| self.bytes > most / u64::from(divisor));
        is_far || limit.time.is_some_and(|most| self.time > most / divisor)
    }
}

impl LagLimit {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Positions {
    /// Notes where the primary is.
    pub(crate) fn look(&mut self, cluster: &Cluster) {
        let Some(name) = cluster.primary() else { return };
        let place = cluster.members().iter().position(|member| member.name() == name);
        let Some(place) = place.filter(|place| cluster.role_of(*place) == MemberRole::Primary) else { return };
        let member = &cluster.members()[place];
        let (Some(report), Some(asked)) = (member.report(), member.asked()) else { return };
        let went_back = self.known.back().is_some_and(|(_, last)| *last > report.received);
        if self.primary.as_ref() != Some(name) || went_back {
            (self.primary, self.known) = (Some(Arc::clone(name)), VecDeque::new());
        }
        self.asked = Some(asked);
        if self.known.back().is_none_or(|(_, last)| *last < report.received) {
            self.known.push_back((asked, report.received));
        }
        if self.known.len() > POSITIONS_MAX {
            self.thin_out();
        }
    }

    /// Forgets every second position of the older half: what is old need not be known as exactly as what is new.
    fn thin_out(&mut self) {
        let (mut at, half) = (0, self.known.len() / 2);
        self.known.retain(|_| {
            at += 1;
            at > half || at % 2 == 1
        });
    }

    /// How far a replica is behind.
    pub(crate) fn lag_of(&self, cluster: &Cluster, member: &Member) -> Option<Lag> {
        let (report, asked) = (member.report()?, member.asked()?);
        let before = |time: Time| self.known.iter().rev().find(|(at, _)| *at <= time).or(self.known.front());
        let reference = match before(asked) {
            Some((_, position)) => *position,
            // As long as no primary is known, those that have received most tell how far one can be.
            None => cluster.members().iter().filter_map(Member::report).map(|report| report.received).max()?,
        };
        let bytes = reference.saturating_sub(report.replayed);
        Some(Lag { bytes, time: if bytes == 0 { Duration::ZERO } else { self.since(asked, report) } })
    }

    /// For how long a replica has lacked what it has not replayed.
    fn since(&self, asked: Time, report: &Report) -> Duration {
        let lacks = |(_, position): &&(Time, u64)| *position > report.replayed;
        match self.known.iter().enumerate().find(|(_, known)| lacks(known)) {
            // It has lacked it for as long as anything is known: what it says itself is compared by the clocks of two machines.
            Some((0, (at, _))) => asked.since(*at).max(report.delay.unwrap_or_default()),
            Some((_, (at, _))) => asked.since(*at),
            None => report.delay.unwrap_or_default(),
        }
    }
}

impl fmt::Display for LagLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.map(|bytes| format!("max_lag={}", size(bytes)));
        let time = self.time.map(|time| format!("max_lag_time={}", time.as_secs_f64()));
        f.write_str(&bytes.into_iter().chain(time).collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {:.1} s behind", size(self.bytes), self.time.as_secs_f64())
    }
}

/// A number of bytes in the largest unit in which it is a whole number, or of which it is at least ten.
fn size(bytes: u64) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "kB")];
    let fits = |(bits, _): &&(u32, &str)| bytes >> bits >= 10 || (bytes >> bits > 0 && bytes.trailing_zeros() >= *bits);
    units.iter().find(fits).map_or_else(|| format!("{bytes} B"), |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

/// Enough to know the last minutes second by second, and hours by the minute.
const POSITIONS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_limits_are_told_as_they_are_written() {
        let told = [0, 500, 1 << 10, 1536, 16 << 20, (16 << 20) + 1, 3 << 30].map(size);
        assert_eq!(told, ["0 B", "500 B", "1kB", "1536 B", "16MB", "16MB", "3GB"]);
        let limit = LagLimit { bytes: Some(16 << 20), time: Some(Duration::from_millis(1500)) };
        assert_eq!(limit.to_string(), "max_lag=16MB max_lag_time=1.5");
        assert_eq!(LagLimit { bytes: None, ..limit }.to_string(), "max_lag_time=1.5");
        let lag = Lag { bytes: 20 << 20, time: Duration::from_secs(7) };
        assert_eq!(lag.to_string(), "20MB and 7.0 s behind");
    }

    #[test]
    fn a_limit_is_exceeded_in_bytes_or_in_time() {
        let limit = LagLimit { bytes: Some(100), time: Some(Duration::from_secs(4)) };
        let lag = |bytes, secs| Lag { bytes, time: Duration::from_secs(secs) };
        assert!(!lag(100, 4).exceeds(limit, 1) && lag(101, 0).exceeds(limit, 1) && lag(0, 5).exceeds(limit, 1));
        assert!(!lag(50, 2).exceeds(limit, 2) && lag(51, 0).exceeds(limit, 2) && lag(0, 3).exceeds(limit, 2));
        assert!(!lag(u64::MAX, 9).exceeds(LagLimit::default(), 1));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_newest_is_known_best() {
        let mut positions = Positions::default();
        for number in 0..10_000 {
            positions.known.push_back((Time::from_secs(number), number));
            if positions.known.len() > POSITIONS_MAX {
                positions.thin_out();
            }
        }
        assert!(positions.known.len() <= POSITIONS_MAX);
        assert_eq!(positions.known.front().map(|(_, position)| *position), Some(0));
        let newest: Vec<u64> = positions.known.iter().rev().take(100).map(|(_, position)| *position).collect();
        assert_eq!(newest, (9_900..10_000).rev().collect::<Vec<_>>());
    }
}
