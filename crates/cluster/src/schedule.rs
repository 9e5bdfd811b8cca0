//! A switchover that the agents will carry out at a time of their own (Patroni's `scheduled_switchover`): it is told, and clients are held
//! when it comes.
//!
//! Always true: clients are held for it only if an agent has told how far away it is by its own clock, so that clocks need not agree; no more
//! than once in [`APART`], whatever agents tell; and for no longer than `hold_timeout`, or, if the primary goes on as before, than ten seconds.
//! Not here: the course of that (`switchover`), reading what agents answer (`control::clusters`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::cluster::Cluster;
use crate::event::{Command, Gate, News};
use crate::switchover::{Move, Switchover};

/// A switchover that agents will carry out at a certain time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlannedSwitchover {
    /// When, in the agents' words: `2026-11-30T10:00:00+00:00`.
    pub at: Arc<str>,
    /// How far away that was at least when it was told, by the clock of the agent that told it; `None` if that told no time, or it is over.
    pub left: Option<Duration>,
    /// The agents' name of the member that hands over; `None`: whichever leads.
    pub from: Option<Arc<str>>,
    /// The agents' name of the member that takes over; `None`: any.
    pub to: Option<Arc<str>>,
}

impl PlannedSwitchover {
    fn is(&self, other: &Self) -> bool {
        (&self.at, &self.from, &self.to) == (&other.at, &other.from, &other.to)
    }
}

impl fmt::Display for PlannedSwitchover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at)?;
        self.from.iter().try_for_each(|name| write!(f, " from {name}"))?;
        self.to.iter().try_for_each(|name| write!(f, " to {name}"))
    }
}

/// What an agent has answered about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    /// When it was asked.
    pub(crate) asked: Time,
    /// When its answer was there.
    pub(crate) heard: Time,
    /// Whether the member that is meant leads by the same answer.
    pub(crate) leads: bool,
    /// The switchover; `None`: there is none.
    pub(crate) planned: Option<&'a PlannedSwitchover>,
}

/// A switchover that has been told.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    planned: PlannedSwitchover,
    /// When it comes at the earliest; `None` if that is not known.
    due: Option<Time>,
    stage: Stage,
}

/// What was done for any of them, so that agents that tell now this and now that have nothing done often.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Done {
    /// When clients were held last.
    held: Option<Time>,
    /// When a checkpoint was ordered last.
    prepared: Option<Time>,
    /// When members and agents were asked at once last.
    hurried: Option<Time>,
    /// Since when news is counted, and how much there was.
    told: Option<(Time, usize)>,
}

impl Done {
    /// Of these news as much as may be told.
    fn may_tell(&mut self, now: Time, news: &mut Vec<String>) {
        let (since, told) = self.told.filter(|(since, _)| now.since(*since) < APART).unwrap_or((now, 0));
        if news.is_empty() {
            return;
        }
        let left = NEWS_MAX.saturating_sub(told);
        if left > 0 && news.len() >= left {
            news.truncate(left);
            news.push(
                "Patroni tells of one switchover after the other: no more of them is told for a minute".to_owned(),
            );
        } else {
            news.truncate(left);
        }
        self.told = Some((since, told + news.len()));
    }
}

/// Whether something was not done, or long enough ago.
fn is_over(done: Option<Time>, now: Time, apart: Duration) -> bool {
    done.is_none_or(|at| now.since(at) >= apart)
}

/// What has been done for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Told,
    /// A checkpoint was asked for, so that the shutdown of the primary is short.
    Prepared,
    /// Members and agents are asked often.
    Near,
    /// Its time has come.
    Come,
}

impl Stage {
    /// The next stage, and how long before the time it begins.
    fn next(self, lead: Duration) -> Option<(Self, Duration)> {
        match self {
            Self::Told => Some((Self::Prepared, CHECKPOINT_BEFORE)),
            Self::Prepared => Some((Self::Near, NEAR)),
            Self::Near => Some((Self::Come, lead)),
            Self::Come => None,
        }
    }

    /// The stage before, and how long before the time it ends. When clients were held there is no way back.
    fn before(self) -> Option<(Self, Duration)> {
        match self {
            Self::Prepared => Some((Self::Told, CHECKPOINT_BEFORE)),
            Self::Near => Some((Self::Prepared, NEAR)),
            Self::Told | Self::Come => None,
        }
    }
}

impl Schedule {
    /// An answer has told it again.
    fn is_told(&mut self, asked: Time, heard: Time, left: Option<Duration>) {
        let Some(left) = left else { return };
        // It was answered at some moment in between, by a clock that shows full seconds. What is later than that was told by another clock.
        let (earliest, latest) = (asked + left, heard + left + CLOCK_SHOWS);
        let known = self.due.filter(|known| *known <= latest);
        self.due = known.max(Some(earliest));
    }

    /// A clock was set back: what is to be done before the time is done then. That answers are exact to a second is no reason.
    fn goes_back(&mut self, now: Time) {
        while let (Some(due), Some((stage, until))) = (self.due, self.stage.before())
            && now + until + CLOCK_SHOWS < due
        {
            self.stage = stage;
        }
    }
}

impl Cluster {
    /// The switchover that agents will carry out at a certain time, in words: when, from where, to where.
    #[must_use]
    pub fn scheduled(&self) -> Option<String> {
        Some(self.schedule.as_ref()?.planned.to_string())
    }

    /// Looks what agents tell of a switchover at a certain time. Returns what is to be done for it now.
    pub(crate) fn heed_schedule(&mut self, now: Time, out: &mut Vec<Command>) -> Option<Move> {
        let is_called_off = self.learn_schedule(now, out);
        if is_called_off {
            return Some(Move::Over(Err("Patroni has called it off".to_owned())));
        }
        let primary = self.primary.filter(|_| self.without_since.is_none())?;
        let lead = self.schedule_lead();
        loop {
            let schedule = self.schedule.as_mut()?;
            let (due, (next, before)) = (schedule.due?, schedule.stage.next(lead)?);
            if now + before < due {
                return None;
            }
            schedule.stage = next;
            let from = schedule.planned.from.clone();
            let name = self.members[primary].name();
            let is_ours = from.is_none() || self.agents.name_of(name) == from.as_ref();
            let is_free = self.switchover.is_none() && self.gate == Gate::Only(Arc::clone(name));
            if !is_ours || !is_free || self.agents.is_paused() {
                continue;
            }
            match next {
                // Later it would itself be what clients wait for.
                Stage::Prepared if now + NEAR < due && is_over(self.schedule_done.prepared, now, APART) => {
                    self.schedule_done.prepared = Some(now);
                    self.order_checkpoint(primary, out);
                }
                Stage::Near if is_over(self.schedule_done.hurried, now, NEAR) => {
                    self.schedule_done.hurried = Some(now);
                    self.hurry(now);
                }
                Stage::Come if is_over(self.schedule_done.held, now, APART) => {
                    self.schedule_done.held = Some(now);
                    self.switchover = Some(Switchover::follow(now, primary, self.terms.hold_timeout, due));
                    let text = format!("Patroni switches over at {}", schedule_words(&self.schedule));
                    out.push(Command::Tell(News { is_warning: false, text }));
                    self.hurry(now);
                    return Some(Move::Drain);
                }
                Stage::Told | Stage::Prepared | Stage::Near | Stage::Come => {}
            }
        }
    }

    /// Notes what agents tell. Returns whether the switchover for which clients are held is not told any more, while the primary leads.
    fn learn_schedule(&mut self, now: Time, out: &mut Vec<Command>) -> bool {
        let Some(primary) = self.primary().filter(|_| self.without_since.is_none()) else { return false };
        let lasts = self.answer_lasts();
        let Some(told) = self.agents.told_switchover(primary, now, lasts) else { return false };
        let known = self.schedule.as_ref();
        let is_known = told.planned.zip(known).is_some_and(|(told, known)| told.is(&known.planned));
        let is_ours = |switchover: &&Switchover| switchover.is_followed() && Some(switchover.from) == self.primary;
        let followed = self.switchover.as_ref().filter(is_ours);
        let held = followed.and_then(Switchover::held);
        let is_called_off = !is_known && told.leads && held.is_some_and(|held| told.asked > held);
        let mut news = Vec::new();
        match (told.planned.cloned(), &mut self.schedule) {
            (Some(planned), Some(known)) if is_known => {
                known.is_told(told.asked, told.heard, planned.left);
                known.goes_back(now);
            }
            (planned, known) => {
                if let Some(known) = known.as_ref().filter(|known| known.stage != Stage::Come && told.leads) {
                    news.push(format!("Patroni will not switch over at {}", known.planned));
                }
                let due = planned.as_ref().and_then(|planned| planned.left).map(|left| told.asked + left);
                if let Some(planned) = &planned {
                    let unknown = if due.is_some() {
                        ""
                    } else {
                        " (nobody is held for it: by its clock it is over, or it tells no time)"
                    };
                    news.push(format!("Patroni will switch over at {planned}{unknown}"));
                }
                *known = planned.map(|planned| Schedule { planned, due, stage: Stage::Told });
            }
        }
        self.schedule_done.may_tell(now, &mut news);
        out.extend(news.into_iter().map(|text| Command::Tell(News { is_warning: false, text })));
        is_called_off
    }

    /// Whether clients are held for a switchover that the agents carry out at a time of their own.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.switchover.as_ref().is_some_and(Switchover::is_followed)
    }

    /// When the time comes to do something for it.
    pub(crate) fn schedule_deadline(&self) -> Option<Time> {
        let schedule = self.schedule.as_ref().filter(|_| self.without_since.is_none())?;
        let (due, (_, before)) = (schedule.due?, schedule.stage.next(self.schedule_lead())?);
        Some(Time(due.0.saturating_sub(u64::try_from(before.as_micros()).unwrap_or(u64::MAX))))
    }

    /// Whether members and agents are asked often because of it.
    pub(crate) fn is_schedule_near(&self) -> bool {
        self.schedule.as_ref().is_some_and(|schedule| schedule.stage == Stage::Near)
    }

    /// How long before the time clients are held.
    fn schedule_lead(&self) -> Duration {
        LEAD.min(self.terms.drain_timeout)
    }
}

fn schedule_words(schedule: &Option<Schedule>) -> String {
    schedule.as_ref().map(|schedule| schedule.planned.to_string()).unwrap_or_default()
}

/// How long before the time clients are held: open transactions that are as short as most end meanwhile.
const LEAD: Duration = Duration::from_millis(500);
/// How long before it a checkpoint is asked for.
const CHECKPOINT_BEFORE: Duration = Duration::from_secs(30);
/// For how long before it members and agents are asked often.
const NEAR: Duration = Duration::from_secs(5);
/// The least time between two such switchovers that clients are held for, or for which a checkpoint is ordered.
const APART: Duration = Duration::from_secs(60);
/// How much news there is of them in that time.
const NEWS_MAX: usize = 8;
/// Clocks of agents show full seconds.
const CLOCK_SHOWS: Duration = Duration::from_secs(1);
