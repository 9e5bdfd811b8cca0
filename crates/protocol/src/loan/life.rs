//! The life of a loan, as one table of what may follow what.
//!
//! Always true: [`Life::becomes`] is the only way from one phase to another, and what is not in the table ([`Phase::may_become`]) does not
//! happen. From the phases in which a client has the server none leads to another client but by [`Phase::Free`].
//! Not here: how a loan ends (`ending`), and otherwise which phase comes next, and what is sent for it (`worker::data`).

use base::Time;

use super::unfit::Unfit;
use crate::server::cleanup::{Cleanup, DISCARD_ALL};
use crate::state::Probe;

/// Where a loan stands, with what exists only there.
#[derive(Debug, Default)]
pub enum Life {
    /// No client has the server.
    #[default]
    Free,
    /// The server takes over what its client has set. The client's request has waited for that, or for the server, since then.
    ApplyingBefore(Time),
    /// The server takes that over along with the client's request.
    ApplyingAlong,
    /// The server has the client's request, and has not been told what the client has set, since what is asked depends on nothing that
    /// differs. Nothing else is sent before it has been told.
    Unapplied,
    /// What the client says goes to the server.
    Running,
    /// The same, and behind the client's last request the server has been asked what the session has. The client's next request waits.
    Foreseeing(Box<Probe>),
    /// The server is asked what the session has.
    Probing(Box<Probe>),
    /// The server forgets its plans, and the client's request, which it has refused, has waited for that since then.
    Replanning(Time),
    /// The client has left while the server was asked what the session has, and that may be nothing that anybody must be kept from.
    ProbingAlone(Box<Probe>),
    /// The client has left something behind: the server answers that, and is told what makes it clean.
    Mending(Box<Mending>),
    /// The server is clean, and nobody has it before the cancel requests at it have come to their end.
    AwaitingCancels,
    /// Nobody can have the server any more: it is closed as soon as it does nothing.
    Doomed(Unfit),
}

/// How the server of a client that has left is made clean.
#[derive(Debug)]
pub struct Mending {
    /// What is still to be said to it.
    pub(super) cleanup: Cleanup,
    /// Where the loan stood when its client left: what the server answers first was said to it then.
    pub(super) left: Phase,
}

impl Mending {
    /// Whether the server was being told what its client has set, and has not answered all of that yet.
    pub(super) fn was_applying(&self) -> bool {
        self.left.is_applying() && self.cleanup.is_draining()
    }

    /// Whether it does no harm if what we had asked before fails: it would have told what its client has kept, or it is discarded anyway.
    pub(super) fn may_fail(&self) -> bool {
        let is_question = matches!(self.left, Phase::Foreseeing | Phase::Probing);
        self.cleanup.is_draining() && (is_question || self.cleanup.will_run(DISCARD_ALL))
    }
}

/// The same without what exists there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// [`Life::Free`]
    Free,
    /// [`Life::ApplyingBefore`]
    ApplyingBefore,
    /// [`Life::ApplyingAlong`]
    ApplyingAlong,
    /// [`Life::Unapplied`]
    Unapplied,
    /// [`Life::Running`]
    Running,
    /// [`Life::Foreseeing`]
    Foreseeing,
    /// [`Life::Probing`]
    Probing,
    /// [`Life::Replanning`]
    Replanning,
    /// [`Life::ProbingAlone`]
    ProbingAlone,
    /// [`Life::Mending`]
    Mending,
    /// [`Life::AwaitingCancels`]
    AwaitingCancels,
    /// [`Life::Doomed`]
    Doomed,
}

impl Phase {
    /// Whether the server has not taken all that its client has set.
    #[must_use]
    pub fn is_applying(self) -> bool {
        matches!(self, Self::ApplyingBefore | Self::ApplyingAlong | Self::Unapplied | Self::Replanning)
    }

    /// Whether the one may follow the other.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use Phase::{
            ApplyingAlong, ApplyingBefore, AwaitingCancels, Doomed, Foreseeing, Free, Mending, Probing, ProbingAlone,
            Replanning, Running, Unapplied,
        };
        match (self, next) {
            // It is clean: after a loan, also one in which the server has heard nothing, or after its login.
            (Free | Running | Unapplied | ProbingAlone | Mending | AwaitingCancels, Free) => true,
            // A server is asked what its sessions begin with before anybody has it.
            (Free, Probing) => true,
            // What a client has set may be another thing after each transaction of a loan.
            (Free | Running, ApplyingBefore | ApplyingAlong | Unapplied | Running) => true,
            (Running, Foreseeing | Probing) => true,
            // A request of a client is refused only before the server is asked anything behind it.
            (Running | Unapplied, Replanning) => true,
            (ApplyingBefore | ApplyingAlong | Unapplied | Replanning, Running) => true,
            (Foreseeing, Probing | Running) => true,
            (Probing, Running | ProbingAlone) => true,
            // A client may leave at any time.
            (Free | AwaitingCancels | Mending | Doomed, Mending | Doomed) => false,
            (ProbingAlone, Doomed) => false,
            (_, Mending | Doomed) => true,
            // Cancel requests may be on their way to a server that is reset or checked, too.
            (Free | Running | ProbingAlone | Mending, AwaitingCancels) => true,
            _ => false,
        }
    }
}

impl Life {
    /// The phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self {
            Self::Free => Phase::Free,
            Self::ApplyingBefore(_) => Phase::ApplyingBefore,
            Self::ApplyingAlong => Phase::ApplyingAlong,
            Self::Unapplied => Phase::Unapplied,
            Self::Running => Phase::Running,
            Self::Foreseeing(_) => Phase::Foreseeing,
            Self::Probing(_) => Phase::Probing,
            Self::Replanning(_) => Phase::Replanning,
            Self::ProbingAlone(_) => Phase::ProbingAlone,
            Self::Mending(_) => Phase::Mending,
            Self::AwaitingCancels => Phase::AwaitingCancels,
            Self::Doomed(_) => Phase::Doomed,
        }
    }

    /// Goes on to another phase. What was in the one before.
    pub fn becomes(&mut self, next: Self) -> Self {
        debug_assert!(
            self.phase().may_become(next.phase()),
            "a loan went from {:?} to {:?}",
            self.phase(),
            next.phase()
        );
        std::mem::replace(self, next)
    }

    /// Whether what the server reports is its client's, too: it is not being told what that has set.
    #[must_use]
    pub fn shares_parameters(&self) -> bool {
        !self.phase().is_applying() || matches!(self, Self::Unapplied)
    }

    /// Whether the server has all that its client has set, and is asked nothing of ours.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }

    /// Since when a request of the client has waited that the server has not been sent, or has refused.
    #[must_use]
    pub fn waits_since(&self) -> Option<Time> {
        match self {
            Self::ApplyingBefore(since) | Self::Replanning(since) => Some(*since),
            _ => None,
        }
    }

    /// The question that the server answers now.
    #[must_use]
    pub fn probe(&self) -> Option<&Probe> {
        match self {
            Self::Probing(probe) | Self::ProbingAlone(probe) => Some(probe),
            _ => None,
        }
    }

    /// The same, to be told what it answers.
    pub fn probe_mut(&mut self) -> Option<&mut Probe> {
        match self {
            Self::Probing(probe) | Self::ProbingAlone(probe) => Some(probe),
            _ => None,
        }
    }

    /// Takes the question that the server has answered: the loan goes on.
    pub fn take_probe(&mut self) -> Option<Box<Probe>> {
        if !matches!(self, Self::Probing(_)) {
            return None;
        }
        match self.becomes(Self::Running) {
            Self::Probing(probe) => Some(probe),
            _ => None,
        }
    }

    /// The client leaves while the server is asked what the session has, if it is: the answer is waited for.
    pub(super) fn leaves_probe(&mut self) -> bool {
        let Self::Probing(probe) = self else { return false };
        let probe = std::mem::replace(probe, Box::new(Probe::of_nothing()));
        self.becomes(Self::ProbingAlone(probe));
        true
    }

    /// Whether the server is told first what its client has set, or was when that left, and has not answered all of that yet.
    pub(super) fn is_told_first(&self) -> bool {
        match self {
            Self::Mending(mending) => mending.was_applying() && mending.left == Phase::ApplyingBefore,
            life => life.phase() == Phase::ApplyingBefore,
        }
    }

    /// The server is ready, and comes to what it was asked behind the client's request, if it was; if it `was_ours` what it has answered, that
    /// was the question already, since the client has left, and nobody wants the answer any more.
    pub fn comes_to_probe(&mut self, was_ours: bool) -> Option<&mut Probe> {
        if !matches!(self, Self::Foreseeing(_)) {
            return None;
        }
        if let Self::Foreseeing(probe) = self.becomes(Self::Running)
            && !was_ours
        {
            self.becomes(Self::Probing(probe));
        }
        self.probe_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [Phase; 12] = [
        Phase::Free,
        Phase::ApplyingBefore,
        Phase::ApplyingAlong,
        Phase::Unapplied,
        Phase::Running,
        Phase::Foreseeing,
        Phase::Probing,
        Phase::Replanning,
        Phase::ProbingAlone,
        Phase::Mending,
        Phase::AwaitingCancels,
        Phase::Doomed,
    ];

    #[test]
    fn the_table_of_what_follows_what_is_the_committed_one() {
        let row = |name: &str, cells: [String; 12]| {
            format!("{name:<15}{}", cells.map(|cell| format!("{cell:>16}")).concat().trim_end()) + "\n"
        };
        let mut table = row("", PHASES.map(|phase| format!("{phase:?}")));
        for phase in PHASES {
            let cell = |next| if phase.may_become(next) { "yes" } else { "-" }.to_owned();
            table += &row(&format!("{phase:?}"), PHASES.map(cell));
        }
        assert_eq!(table, include_str!("life_phases.txt"), "the table is now:\n{table}");
    }

    #[test]
    #[should_panic(expected = "a loan went from ApplyingBefore to Probing")]
    fn what_is_not_in_the_table_does_not_happen() {
        Life::ApplyingBefore(Time(0)).becomes(Life::Probing(Box::new(Probe::of_nothing())));
    }

    #[test]
    fn what_was_asked_behind_a_request_is_answered_behind_it() {
        let mut life = Life::Foreseeing(Box::new(Probe::of_nothing()));
        assert!(life.probe().is_none() && life.take_probe().is_none() && !life.is_running());
        assert!(life.comes_to_probe(false).is_some());
        assert!(life.take_probe().is_some() && life.is_running());
        assert!(life.take_probe().is_none() && life.comes_to_probe(false).is_none());
    }

    /// A client has left, and the server, which is made clean, has answered the request and the question.
    #[test]
    fn nobody_wants_the_answer_when_the_client_has_left() {
        let mut life = Life::Foreseeing(Box::new(Probe::of_nothing()));
        assert!(life.comes_to_probe(true).is_none() && life.is_running());
    }

    #[test]
    fn a_request_waits_while_the_server_is_told_something_first_or_forgets_its_plans() {
        for (life, since) in [
            (Life::ApplyingBefore(Time(7)), Some(Time(7))),
            (Life::Replanning(Time(8)), Some(Time(8))),
            (Life::ApplyingAlong, None),
            (Life::Unapplied, None),
            (Life::Running, None),
        ] {
            assert_eq!(life.waits_since(), since, "{life:?}");
        }
    }

    #[test]
    fn what_a_server_reports_is_its_clients_unless_it_is_told_what_that_has_set() {
        for (life, shares) in [
            (Life::Running, true),
            (Life::Unapplied, true),
            (Life::Probing(Box::new(Probe::of_nothing())), true),
            (Life::ApplyingBefore(Time(0)), false),
            (Life::ApplyingAlong, false),
            (Life::Replanning(Time(0)), false),
        ] {
            assert_eq!(life.shares_parameters(), shares, "{life:?}");
        }
    }

    fn mending(left: Phase, reset: Option<&str>) -> Mending {
        Mending { cleanup: Cleanup::new(reset), left }
    }

    #[test]
    fn what_was_asked_before_a_client_left_may_fail_if_nobody_needs_the_answer() {
        for (left, reset, may_fail) in [
            (Phase::Foreseeing, None, true),
            (Phase::Probing, None, true),
            (Phase::Running, None, false),
            (Phase::ApplyingBefore, None, false),
            (Phase::ApplyingBefore, Some("DISCARD TEMP"), false),
            (Phase::ApplyingBefore, Some(DISCARD_ALL), true),
            (Phase::Running, Some(DISCARD_ALL), true),
        ] {
            assert_eq!(mending(left, reset).may_fail(), may_fail, "{left:?} {reset:?}");
        }
        let mut behind = mending(Phase::Foreseeing, Some(DISCARD_ALL));
        let (mut exchange, mut out) = (crate::exchange::Exchange::default(), Vec::new());
        behind.cleanup.go_on(&mut exchange, &mut out);
        assert!(!behind.may_fail(), "what makes it clean has been asked");
    }

    #[test]
    fn a_server_was_told_what_its_client_had_set_as_long_as_it_answers_that() {
        for (left, was_applying, is_told_first) in [
            (Phase::ApplyingBefore, true, true),
            (Phase::ApplyingAlong, true, false),
            (Phase::Replanning, true, false),
            (Phase::Running, false, false),
        ] {
            let mending = mending(left, Some(DISCARD_ALL));
            assert_eq!(mending.was_applying(), was_applying, "{left:?}");
            assert_eq!(Life::Mending(Box::new(mending)).is_told_first(), is_told_first, "{left:?}");
        }
        let mut behind = mending(Phase::ApplyingBefore, Some(DISCARD_ALL));
        behind.cleanup.go_on(&mut crate::exchange::Exchange::default(), &mut Vec::new());
        assert!(!behind.was_applying() && !Life::Mending(Box::new(behind)).is_told_first());
        assert!(Life::ApplyingBefore(Time(0)).is_told_first() && !Life::ApplyingAlong.is_told_first());
    }

    #[test]
    fn only_a_server_that_is_asked_goes_on_to_answer_alone() {
        let mut life = Life::Running;
        assert!(!life.leaves_probe() && life.is_running());
        let mut life = Life::Probing(Box::new(Probe::of_nothing()));
        assert!(life.leaves_probe() && life.phase() == Phase::ProbingAlone);
        assert!(life.probe().is_some_and(Probe::is_of_nothing) && life.probe_mut().is_some());
        assert!(life.take_probe().is_none() && !life.leaves_probe());
    }
}
