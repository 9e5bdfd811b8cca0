//! Which hosts are suspect: a check of theirs was late, so that what begins now had better begin elsewhere.
//!
//! Always true: a host becomes suspect only if it was up; if a check of it is late, by what its checks took lately; if another host has answered a
//! question that was put no earlier, so that it is not the pooler that is slow; and after it was looked at twice, so that no answer lay unread.
//! It stays so until it has answered, for longer if it was suspect before in the last minute: a refused connection is no answer. It loses
//! nothing that it does: a host that is lost is told from one that is slow by three checks (`member`).
//! Not here: what that means for servers (`worker::upstream::suspects`).

use std::collections::BTreeSet;
use std::time::Duration;

use base::Time;

use crate::cluster::Cluster;
use crate::event::{Command, News};
use crate::member::Member;

/// How long the checks of a host take, and what follows from that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The longest of the last ones, of which older ones count less and less.
    slowest: Duration,
    /// Since when each check was answered in its time.
    answers_since: Option<Time>,
    /// When it was suspect last.
    suspect_until: Option<Time>,
    /// For how long it has to answer until it is suspect no longer.
    rest: Duration,
    /// When a check was first seen to be late.
    late_since: Option<Time>,
    /// Whether the others were asked because of it.
    are_others_asked: bool,
}

impl Pace {
    /// A check has ended, after so long if anybody has answered. `is_there`: that was PostgreSQL, at work.
    pub(crate) fn is_checked(&mut self, now: Time, took: Option<Duration>, is_there: bool) {
        if let Some(took) = took {
            // The time for which it was silent says nothing about how fast it is.
            self.slowest = took.min(LATE_MAX).max(self.slowest - self.slowest / FADES);
        }
        self.answers_since = self.answers_since.or(Some(now)).filter(|_| is_there);
    }

    /// It becomes suspect. The more often that happens, the longer it stays so.
    fn begins(&mut self, now: Time) {
        let is_again = self.suspect_until.is_some_and(|until| now.since(until) < AGAIN);
        self.rest = if is_again { (self.rest * 2).clamp(REST_MIN, REST_MAX) } else { Duration::ZERO };
        self.answers_since = None;
    }

    /// When it is suspect no longer, if it goes on answering.
    fn ends_at(&self) -> Option<Time> {
        Some(self.answers_since? + self.rest)
    }

    /// After how long an answer is late.
    fn patience(&self) -> Duration {
        (self.slowest * SLOWER).clamp(LATE_MIN, LATE_MAX)
    }
}

impl Member {
    /// When the answer that is awaited is late. Of a host that was not up before none is.
    fn is_late_at(&self) -> Option<Time> {
        self.report()?;
        Some(self.waits_since()? + self.pace.patience())
    }
}

impl Cluster {
    /// Whether what begins now had better begin at another host than this member.
    #[must_use]
    pub fn is_suspect(&self, place: usize) -> bool {
        self.suspects.contains(&place)
    }

    /// Looks which hosts are suspect.
    pub(crate) fn suspect_late_hosts(&mut self, now: Time, out: &mut Vec<Command>) {
        let mut suspects = BTreeSet::new();
        for place in 0..self.members.len() {
            let is_late = self.members[place].is_late_at().is_some_and(|at| at <= now);
            let may_be = is_late && self.may_be_late(place);
            let was = self.suspects.contains(&place);
            let pace = &mut self.members[place].pace;
            let since = if may_be { *pace.late_since.get_or_insert(now) } else { now };
            pace.late_since = pace.late_since.filter(|_| may_be);
            pace.answers_since = pace.answers_since.filter(|_| !is_late);
            match (was, may_be && now >= since + LOOKED_AT_AGAIN) {
                (true, _) if pace.ends_at().is_some_and(|at| at <= now) => pace.suspect_until = Some(now),
                (true, _) => drop(suspects.insert(place)),
                (false, true) => {
                    pace.begins(now);
                    suspects.insert(place);
                }
                (false, false) => {}
            }
            let asks = is_late && !may_be && !pace.are_others_asked;
            pace.are_others_asked = is_late && (pace.are_others_asked || asks);
            if asks {
                self.members.iter_mut().for_each(|member| member.due = member.due.min(now));
            }
        }
        if suspects == self.suspects && self.are_suspects_told {
            return;
        }
        let mut news = Vec::new();
        for place in suspects.difference(&self.suspects) {
            let member = &self.members[*place];
            let silent = member.waits_since().map_or(0.0, |since| now.since(since).as_secs_f64());
            news.push(format!(
                "host {} has not answered for {silent:.1} s: what begins now begins elsewhere",
                member.name()
            ));
        }
        for place in self.suspects.difference(&suspects) {
            news.extend(self.members.get(*place).map(|member| match member.error() {
                None => format!("host {} answers again", member.name()),
                Some(why) => format!("host {} cannot be asked: {why}", member.name()),
            }));
        }
        out.extend(news.into_iter().map(|text| Command::Tell(News { is_warning: false, text })));
        out.push(Command::Suspects(suspects.iter().copied().collect()));
        (self.suspects, self.are_suspects_told) = (suspects, true);
    }

    /// Whether it would be the host that is late, and not the pooler: another one has answered meanwhile.
    fn may_be_late(&self, place: usize) -> bool {
        let Some(since) = self.members[place].waits_since() else { return false };
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != place);
        others.filter_map(|(_, member)| member.asked()).any(|asked| asked >= since)
    }

    /// When a host may become suspect, or is so no longer. While no other one has answered that was asked, this is looked at when one does.
    pub(crate) fn suspicion_deadline(&self) -> Option<Time> {
        let at = |(place, member): (usize, &Member)| {
            if self.suspects.contains(&place) {
                return member.pace.ends_at();
            }
            let is_open = !member.pace.are_others_asked || self.may_be_late(place);
            let again = member.pace.late_since.map(|since| since + LOOKED_AT_AGAIN);
            again.or_else(|| member.is_late_at()).filter(|_| is_open)
        };
        self.members.iter().enumerate().filter_map(at).min()
    }
}

/// A check is a query over an open connection, which takes less than a millisecond and the way there and back.
const LATE_MIN: Duration = Duration::from_millis(250);
/// A check ends then.
const LATE_MAX: Duration = Duration::from_secs(1);
/// How many times longer than the slowest answer.
const SLOWER: u32 = 3;
/// After as many answers a slow one counts about a third.
const FADES: u32 = 64;
/// For how long a host has to answer that was suspect in the last minute before: twice as long each time, up to a minute.
const REST_MIN: Duration = Duration::from_secs(2);
const REST_MAX: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(60);
/// The time between two looks at a late check: an answer that has come is read meanwhile.
const LOOKED_AT_AGAIN: Duration = Duration::from_millis(50);
