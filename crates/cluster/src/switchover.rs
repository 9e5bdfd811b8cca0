//! The course of a switchover: checkpoint, drain, wait for the target, hand the role over, verify.
//!
//! Always true: each step has a deadline, and all that clients are held for has one together; whatever fails, the course ends, and
//! says in which step. Only once the primary is being demoted by us, there is no way back: then the target is promoted, however long
//! that takes. Nothing is demoted before the target has replayed all that the primary has inserted into its log.
//! Not here: who is the primary (`cluster`), carrying the steps out (`control::clusters`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::cluster::Cluster;
use crate::event::Command;
use crate::member::Report;
use crate::planted::has_caught_up;

/// A switchover from one member to another.
#[derive(Debug)]
pub(crate) struct Switchover {
    pub(crate) from: usize,
    /// Of one that the agents carry out at a time of their own, the source until another member is the primary.
    pub(crate) to: usize,
    by: By,
    step: Step,
    /// The checkpoint that it begins with.
    checkpoint: u64,
    /// When the present step has to be done.
    until: Time,
    began: Time,
    /// Since when clients are held.
    held: Option<Time>,
    /// Until when they may be.
    held_until: Option<Time>,
    has_ended_loans: bool,
    /// When the target was seen to have replayed all, and up to which position it had replayed then.
    reached: Option<(Time, u64)>,
    notes: Vec<String>,
}

/// Who hands the role over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// Our command.
    Command,
    /// The agents, when we ask them.
    Agents,
    /// The agents, at a time that they have told.
    Schedule,
}

/// What is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The primary writes a checkpoint, so that its shutdown is short.
    Checkpoint,
    /// Clients are held; open transactions end.
    Drain,
    /// Transactions that are still open are ended.
    EndLoans,
    /// The target replays what the primary has written since clients were drained at this time; up to this position, once it is
    /// known.
    CatchUp(Time, Option<u64>),
    /// The agents switch over, or the command demotes the primary.
    HandOver,
    /// Nothing is open any more, and the agents switch over at their time.
    Follow,
    /// That has come; if they do not begin within [`BEGIN_MAX`], it is over.
    Begin,
    /// They have not begun until then. If the same primary answers a question that was put later, it is over.
    Overdue(Time),
    /// The former primary was demoted at this time, and has to say so, or nothing any more.
    AwaitDown(Time),
    /// The target is promoted.
    Promote,
    /// The target has to say itself that it is the primary.
    Verify,
}

/// What is to be done next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// Hold new transactions, and tell when no server is lent.
    Drain,
    /// End the transactions that are still open.
    EndLoans,
    /// Ask the members once more.
    AskAgain,
    /// Have the agents switch over.
    AskAgents,
    /// Demote the primary.
    Demote,
    /// Promote the target.
    Promote,
    /// It is over.
    Over(Result<Summary, String>),
}

/// The outcome of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The checkpoint of this number is written, or why not.
    Checkpointed(u64, Result<(), Arc<str>>),
    /// No server is lent.
    Drained,
    /// The agents have switched over, or why not.
    HandedOver(Result<(), Arc<str>>),
    /// The target is promoted, or why not.
    Promoted(Result<(), Arc<str>>),
    /// The operator has given up.
    Canceled,
}

/// What a switchover looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'r> {
    /// When the former primary was asked for what it has answered last.
    pub(crate) asked: Option<Time>,
    /// The answer of the former primary to a question that was put after clients were drained, and when it was put.
    pub(crate) source: Option<(Time, &'r Report)>,
    /// Whether the former primary has answered a question that was put after it was demoted, and accepts writes.
    pub(crate) is_source_up: bool,
    /// Whether a question that was put after it was demoted has shown that the former primary accepts no writes.
    pub(crate) is_source_down: bool,
    /// The last answer of the target.
    pub(crate) target: Option<&'r Report>,
    /// The member that is the primary now, as far as that is proved.
    pub(crate) primary: Option<usize>,
}

/// What a switchover has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The former primary.
    pub from: Arc<str>,
    /// The new one.
    pub to: Arc<str>,
    /// How long clients that wanted to begin a transaction were held, at most.
    pub held: Duration,
    /// How long all took.
    pub took: Duration,
    /// Whether transactions were ended because they had not ended within `drain_timeout`.
    pub has_ended_loans: bool,
    /// What did not go as planned.
    pub notes: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (&self.from, &self.to);
        let (held, took) = (self.held.as_secs_f64(), self.took.as_secs_f64());
        write!(f, "switched over from {from} to {to} in {took:.1} s; clients were held for {held:.2} s at most")?;
        if self.has_ended_loans {
            f.write_str("; transactions that were open for longer than drain_timeout were ended")?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

/// How long clients may be held, and for how long open transactions are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) hold: Duration,
    pub(crate) drain: Duration,
}

impl Cluster {
    /// Has a checkpoint written, and returns its number.
    pub(crate) fn order_checkpoint(&mut self, member: usize, out: &mut Vec<Command>) -> u64 {
        self.checkpoints += 1;
        out.push(Command::Checkpoint { member, number: self.checkpoints });
        self.checkpoints
    }
}

impl Switchover {
    /// Begins with the checkpoint of this number.
    pub(crate) fn begin(now: Time, from: usize, to: usize, has_agents: bool, checkpoint: u64) -> Self {
        let by = if has_agents { By::Agents } else { By::Command };
        let (step, until) = (Step::Checkpoint, now + CHECKPOINT_MAX);
        let (held, held_until, has_ended_loans, reached, notes) = (None, None, false, None, Vec::new());
        Self { from, to, by, step, checkpoint, until, began: now, held, held_until, has_ended_loans, reached, notes }
    }

    /// Holds clients for a switchover that the agents begin at a certain time, until another member is the primary, or until they prove
    /// not to have begun.
    pub(crate) fn follow(now: Time, from: usize, hold: Duration, at: Time) -> Self {
        let (held, held_until) = (Some(now), Some(now + hold));
        Self {
            by: By::Schedule,
            step: Step::Drain,
            until: at,
            held,
            held_until,
            ..Self::begin(now, from, from, true, 0)
        }
    }

    /// Whether the agents carry it out at a time of their own.
    pub(crate) fn is_followed(&self) -> bool {
        self.by == By::Schedule
    }

    /// Whether the role may have been handed over, so that there is no way back.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_followed() || matches!(self.step, Step::HandOver | Step::AwaitDown(_) | Step::Promote | Step::Verify)
    }

    /// Whether clients are held, and since when.
    pub(crate) fn held(&self) -> Option<Time> {
        self.held
    }

    /// Whether open transactions are still waited for.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.step, Step::Drain | Step::EndLoans)
    }

    /// Since when the former primary writes for no client any more.
    pub(crate) fn drained_since(&self) -> Option<Time> {
        match self.step {
            Step::CatchUp(since, _) => Some(since),
            _ => None,
        }
    }

    /// Since when the former primary is demoted, if that is to be seen.
    pub(crate) fn demoted_since(&self) -> Option<Time> {
        match self.step {
            Step::AwaitDown(since) => Some(since),
            _ => None,
        }
    }

    /// When it has to be looked at if nothing happens before.
    pub(crate) fn deadline(&self) -> Time {
        self.held_until.filter(|_| !self.must_finish()).map_or(self.until, |held| held.min(self.until))
    }

    /// Whether the primary is being demoted by us: then the target has to be promoted, however long that takes.
    fn must_finish(&self) -> bool {
        self.by == By::Command && self.is_handed_over()
    }

    /// What is being done, in words.
    pub(crate) fn words(&self) -> &'static str {
        match self.step {
            Step::Checkpoint => "a checkpoint of the primary",
            Step::Drain => "the end of open transactions",
            Step::EndLoans => "servers whose transactions were ended",
            Step::CatchUp(..) => "the target to replay the log",
            Step::HandOver if self.by == By::Command => "demote_command",
            Step::HandOver | Step::Follow | Step::Begin | Step::Overdue(_) => "Patroni's switchover",
            Step::AwaitDown(_) => "the former primary to be down",
            Step::Promote => "the promotion of the target",
            Step::Verify => "the target to accept writes",
        }
    }

    /// A step has an outcome. One that comes too late is of no use.
    pub(crate) fn hear(&mut self, now: Time, patience: Patience, outcome: Outcome) -> Option<Move> {
        let failed = |step: &str, why: &Arc<str>| Some(Move::Over(Err(format!("{step}: {why}"))));
        match (self.step, outcome) {
            (_, Outcome::Canceled) if self.must_finish() => None,
            (_, Outcome::Canceled) => Some(Move::Over(Err("canceled".to_owned()))),
            (Step::Checkpoint, Outcome::Checkpointed(number, written)) if number == self.checkpoint => {
                if let Err(why) = written {
                    self.notes.push(format!("no checkpoint was written before ({why})"));
                }
                (self.held, self.held_until) = (Some(now), Some(now + patience.hold));
                self.enter(Step::Drain, now + patience.drain);
                Some(Move::Drain)
            }
            (Step::Drain, Outcome::Drained) if self.is_followed() => {
                self.step = Step::Follow;
                None
            }
            (Step::Drain | Step::EndLoans, Outcome::Drained) => {
                self.enter(Step::CatchUp(now, None), now + CATCH_UP_MAX);
                None
            }
            (Step::HandOver, Outcome::HandedOver(Err(why))) => {
                failed(if self.by == By::Command { "demote_command" } else { "Patroni" }, &why)
            }
            (Step::HandOver, Outcome::HandedOver(Ok(()))) if self.by != By::Command => {
                self.enter(Step::Verify, now + patience.hold);
                None
            }
            (Step::HandOver, Outcome::HandedOver(Ok(()))) => {
                self.enter(Step::AwaitDown(now), now + FINISH_MAX);
                None
            }
            (Step::Promote, Outcome::Promoted(Err(why))) => failed("the target was not promoted", &why),
            (Step::Promote, Outcome::Promoted(Ok(()))) => {
                self.enter(Step::Verify, now + FINISH_MAX);
                None
            }
            _ => None,
        }
    }

    /// What follows from the answers of the members and from the time.
    pub(crate) fn look(&mut self, now: Time, sight: Sight<'_>) -> Option<Move> {
        if self.is_followed() {
            return self.look_at_schedule(now, &sight);
        }
        match sight.primary {
            Some(primary) if primary == self.to && self.is_handed_over() => {
                return Some(Move::Over(Ok(self.summary(now))));
            }
            Some(primary) if primary != self.from => {
                return Some(Move::Over(Err("another member has become the primary meanwhile".to_owned())));
            }
            _ => {}
        }
        if let Step::CatchUp(since, position) = self.step {
            let position = position.or(sight.source.map(|(_, report)| report.replayed));
            self.step = Step::CatchUp(since, position);
            let has_replayed = |(written, target): (u64, &Report)| target.replayed >= written;
            let is_there = has_caught_up(position.zip(sight.target).is_some_and(has_replayed));
            let is_first_look = self.reached.is_none();
            let is_of_history = if is_there { self.is_of_history(now, &sight) } else { None };
            match is_of_history {
                Some(false) => return Some(Move::Over(Err(OTHER_HISTORY.to_owned()))),
                None if is_there && is_first_look => return Some(Move::AskAgain),
                _ => {}
            }
            if is_of_history == Some(true) {
                // All that is left of the time that clients may be held for.
                let is_ours = self.by == By::Command;
                let until = if is_ours { Some(now + FINISH_MAX) } else { self.held_until };
                self.enter(Step::HandOver, until.unwrap_or(now + CATCH_UP_MAX));
                return Some(if is_ours { Move::Demote } else { Move::AskAgents });
            }
        }
        if matches!(self.step, Step::AwaitDown(_)) && sight.is_source_down {
            self.enter(Step::Promote, now + FINISH_MAX);
            return Some(Move::Promote);
        }
        // Nobody has promoted the target, so that there is a way back.
        let is_demoted_in_vain = matches!(self.step, Step::AwaitDown(_)) && sight.is_source_up;
        if is_demoted_in_vain && self.held_until.is_some_and(|until| until <= now) {
            return Some(Move::Over(Err(IN_VAIN.to_owned())));
        }
        if !self.must_finish() && self.held_until.is_some_and(|until| until <= now) {
            return Some(Move::Over(Err(format!("hold_timeout is over, it waited for {}", self.words()))));
        }
        if self.until > now {
            return None;
        }
        match self.step {
            // Clients are not held yet, so that nothing is lost by giving up here.
            Step::Checkpoint => Some(Move::Over(Err("the checkpoint of the primary took too long".to_owned()))),
            Step::Drain => {
                self.has_ended_loans = true;
                self.enter(Step::EndLoans, now + END_LOANS_MAX);
                Some(Move::EndLoans)
            }
            _ => Some(Move::Over(Err(format!("it waited too long for {}", self.words())))),
        }
    }

    /// The same, of a switchover that the agents carry out at a time of their own.
    fn look_at_schedule(&mut self, now: Time, sight: &Sight<'_>) -> Option<Move> {
        let held_until = self.held_until.unwrap_or(now);
        if let Some(primary) = sight.primary.filter(|primary| *primary != self.from) {
            self.to = primary;
            return Some(Move::Over(Ok(self.summary(now))));
        }
        // From then on it is the agents that are waited for: they do not wait for open transactions.
        if matches!(self.step, Step::Drain | Step::Follow) && self.until <= now {
            self.enter(Step::Begin, self.until + BEGIN_MAX);
        }
        if self.step == Step::Begin && self.until <= now {
            self.enter(Step::Overdue(self.until), held_until);
        }
        if held_until <= now {
            return Some(Move::Over(Err(format!("hold_timeout is over, it waited for {}", self.words()))));
        }
        let Step::Overdue(since) = self.step else { return None };
        let is_proved = sight.primary.is_some() && sight.asked.is_some_and(|asked| asked > since);
        is_proved.then(|| Move::Over(Err(NOT_DONE.to_owned())))
    }

    /// Whether what the target has replayed was written by the former primary, and not by another one whose history has ended: then the
    /// former primary tells a position that is not below, when it is asked afterwards. Agents see to that themselves. `None`: it is not
    /// known yet.
    fn is_of_history(&mut self, now: Time, sight: &Sight<'_>) -> Option<bool> {
        if self.by != By::Command {
            return Some(true);
        }
        let (seen, replayed) = *self.reached.get_or_insert((now, sight.target?.replayed));
        let (asked, source) = sight.source?;
        (asked > seen).then_some(source.replayed >= replayed)
    }

    fn enter(&mut self, step: Step, until: Time) {
        (self.step, self.until) = (step, until);
    }

    fn summary(&mut self, now: Time) -> Summary {
        Summary {
            from: Arc::default(),
            to: Arc::default(),
            held: self.held.map_or(Duration::ZERO, |since| now.since(since)),
            took: now.since(self.began),
            has_ended_loans: self.has_ended_loans,
            notes: std::mem::take(&mut self.notes),
        }
    }
}

const OTHER_HISTORY: &str =
    "the target has replayed what the primary has never written: rebuild it, by pg_rewind or anew";
const NOT_DONE: &str = "Patroni has not begun at its time, and the primary is the same";
const IN_VAIN: &str = "demote_command has ended without an error, and the former primary still accepts writes";
/// How long after their time agents have to have begun: Patroni looks who is well, and writes a checkpoint, before it demotes.
const BEGIN_MAX: Duration = Duration::from_secs(10);
/// A checkpoint may take long on a busy primary; nobody waits for it.
const CHECKPOINT_MAX: Duration = Duration::from_secs(300);
/// Nothing is written meanwhile but by clients that do not come through us.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
/// How long each step may take once the primary is being demoted by us: clients have no other primary to go on at.
const FINISH_MAX: Duration = Duration::from_secs(600);
/// Servers whose clients were ended are closed at once.
const END_LOANS_MAX: Duration = Duration::from_secs(2);
