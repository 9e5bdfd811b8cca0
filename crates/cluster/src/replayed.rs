//! Which replicas have replayed what the primary had written when: so that a client can read its own writes on a replica.
//!
//! Always true: a replica is said to have replayed all that was committed before a time only if it has reported a position in the log
//! that is not below the one which the primary has reported when it was asked after that time, on the same timeline.
//! Not here: which clients may read where (`worker::reads`).

use std::collections::VecDeque;
use std::sync::Arc;

use base::Time;

use crate::cluster::Cluster;
use crate::event::Command;
use crate::member::{MemberRole, Report};

/// A replica has replayed everything that was committed on the primary before a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// Its host and port.
    pub host: Arc<str>,
    /// The time.
    pub since: Time,
    /// The position in the log that the primary has reported then, in bytes.
    pub position: u64,
}

/// Parses a position in the log as PostgreSQL writes it (`pg_lsn`), such as `16/B374D848`: the end of the last record in front of it.
#[must_use]
pub fn log_position(text: &str) -> Option<u64> {
    let part = |digits: &str| {
        let is_part = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16).ok().filter(|_| is_part)
    };
    let (high, low) = text.split_once('/')?;
    Some(Report::end_of_record(part(high)? << 32 | part(low)?))
}

/// What the primary has reported lately.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// The member that is the primary, and its timeline.
    of: Option<(usize, u32)>,
    /// When it was asked, and the position that it had written up to.
    marks: VecDeque<(Time, u64)>,
    /// `None` before anything was told.
    told: Option<Vec<Replayed>>,
}

impl Positions {
    /// This member is proved to be the primary, and has reported a position when asked at this time.
    pub(crate) fn primary_at(&mut self, member: usize, timeline: u32, asked: Time, position: u64) {
        if self.of != Some((member, timeline)) {
            self.of = Some((member, timeline));
            self.marks.clear();
        }
        if self.marks.back().is_some_and(|(last, _)| *last >= asked) {
            return;
        }
        // A primary that has written nothing since says more with its later answer.
        self.marks.retain(|(_, earlier)| *earlier != position);
        self.marks.push_back((asked, position));
        if self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
    }

    /// Nobody is proved to be the primary: what replicas replay from now on is not known to be its log.
    pub(crate) fn has_no_primary(&mut self) {
        (self.of, self.marks) = (None, VecDeque::new());
    }

    /// These replicas have replayed up to these positions. Returns what follows if it differs from what was returned before. While there
    /// is no primary, what was known stays true.
    pub(crate) fn replicas_at<'a>(
        &mut self,
        replicas: impl Iterator<Item = (&'a Arc<str>, u64)>,
    ) -> Option<Vec<Replayed>> {
        let replayed: Vec<Replayed> = replicas.filter_map(|(host, position)| self.replayed(host, position)).collect();
        if self.told.as_ref() == Some(&replayed) {
            return None;
        }
        self.told = Some(replayed.clone());
        Some(replayed)
    }

    fn replayed(&self, host: &Arc<str>, position: u64) -> Option<Replayed> {
        let mark = self.marks.iter().rev().find(|(_, mark)| *mark <= position);
        match mark {
            Some(&(since, position)) => Some(Replayed { host: Arc::clone(host), since, position }),
            // All marks are younger: what was found out before still holds for a replica of the same primary.
            None => self.told.iter().flatten().find(|told| told.host == *host && told.position <= position).cloned(),
        }
    }
}

impl Cluster {
    /// Tells what replicas have replayed, if they have replayed more.
    pub(crate) fn follow_replicas(&mut self, out: &mut Vec<Command>) {
        match self.primary.filter(|_| self.without_since.is_none()) {
            Some(place) => {
                if let Some((asked, report)) = self.members[place].reported() {
                    self.positions.primary_at(place, report.timeline, asked, report.replayed);
                }
            }
            None => self.positions.has_no_primary(),
        }
        // A suspect replica is read from by those only who have asked for a replica, if there is no other.
        let is_replica = |place: &usize| self.role_of(*place) == MemberRole::Replica && !self.is_suspect(*place);
        let replicas = (0..self.members.len()).filter(is_replica);
        // A position on an older timeline may lie behind the point where the present one begins, and be of a history that has ended.
        let replicas = replicas.filter_map(|place| {
            let member = &self.members[place];
            let report = member.report().filter(|report| report.timeline >= self.timeline)?;
            Some((member.name(), report.replayed))
        });
        let replicas: Vec<_> = replicas.collect();
        if let Some(replayed) = self.positions.replicas_at(replicas.into_iter()) {
            out.push(Command::Replayed(replayed));
        }
    }
}

/// A replica that lags more than so many answers of the primary keeps what it was known to have replayed last.
const MARKS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str) -> Arc<str> {
        host.into()
    }

    fn look(positions: &mut Positions, replicas: &[(&str, u64)]) -> Option<Vec<(u64, u64)>> {
        let hosts: Vec<(Arc<str>, u64)> = replicas.iter().map(|(host, position)| (name(host), *position)).collect();
        let told = positions.replicas_at(hosts.iter().map(|(host, position)| (host, *position)))?;
        Some(told.into_iter().map(|replayed| (replayed.since.0, replayed.position)).collect())
    }

    #[test]
    fn a_replica_has_what_the_primary_had_written_when_it_was_asked() {
        let mut positions = Positions::default();
        assert_eq!(look(&mut positions, &[("b", 100)]), Some(vec![]), "nothing is known of the primary");
        assert_eq!(look(&mut positions, &[("b", 100)]), None);
        positions.primary_at(0, 1, Time(10), 100);
        assert_eq!(look(&mut positions, &[("b", 99), ("c", 100)]), Some(vec![(10, 100)]));
        positions.primary_at(0, 1, Time(20), 200);
        assert_eq!(look(&mut positions, &[("b", 150), ("c", 200)]), Some(vec![(10, 100), (20, 200)]));
        assert_eq!(look(&mut positions, &[("b", 160), ("c", 200)]), None, "it is not told again");
        positions.primary_at(0, 1, Time(30), 200);
        assert_eq!(
            look(&mut positions, &[("b", 160), ("c", 200)]),
            Some(vec![(10, 100), (30, 200)]),
            "nothing was written"
        );
    }

    #[test]
    fn a_position_is_read_as_postgresql_writes_it() {
        for (text, position) in [
            ("0/0", Some(0)),
            ("16/B374D848", Some(0x16_B374_D848)),
            ("0/3000028", Some(0x300_0000)),
            ("ffffffff/ffffffff", Some(u64::MAX)),
            ("100000000/0", None),
            ("0/+1", None),
            ("1", None),
            ("", None),
            ("/", None),
            ("0/0/0", None),
        ] {
            assert_eq!(log_position(text), position, "{text}");
        }
    }

    #[test]
    fn another_primary_begins_anew() {
        let mut positions = Positions::default();
        positions.primary_at(0, 1, Time(10), 100);
        assert_eq!(look(&mut positions, &[("b", 150), ("c", 150)]), Some(vec![(10, 100), (10, 100)]));
        positions.has_no_primary();
        assert_eq!(look(&mut positions, &[("b", 150), ("c", 150)]), None, "what they had they have");
        positions.primary_at(1, 2, Time(20), 160);
        assert_eq!(look(&mut positions, &[("c", 150)]), Some(vec![(10, 100)]), "it had that before");
        assert_eq!(look(&mut positions, &[("c", 170)]), Some(vec![(20, 160)]));
        assert_eq!(look(&mut positions, &[]), Some(vec![]), "it does not answer any more");
    }

    #[test]
    fn a_replica_that_begins_anew_has_less() {
        let mut positions = Positions::default();
        positions.primary_at(0, 1, Time(10), 100);
        assert_eq!(look(&mut positions, &[("b", 100)]), Some(vec![(10, 100)]));
        assert_eq!(look(&mut positions, &[("b", 50)]), Some(vec![]));
    }

    #[test]
    fn a_replica_that_lags_more_than_is_remembered_keeps_what_it_had() {
        let mut positions = Positions::default();
        positions.primary_at(0, 1, Time(10), 100);
        assert_eq!(look(&mut positions, &[("b", 100)]), Some(vec![(10, 100)]));
        for time in 11..200 {
            positions.primary_at(0, 1, Time(time), time * 100);
        }
        assert_eq!(positions.marks.len(), MARKS_MAX);
        assert_eq!(look(&mut positions, &[("b", 101)]), None);
        positions.primary_at(0, 1, Time(5), 1);
        assert_eq!(look(&mut positions, &[("b", 1)]), Some(vec![]), "an old answer of the primary is no mark");
    }
}
