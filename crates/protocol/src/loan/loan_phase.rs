//! The phases of a loan, and the table of the transitions between them.
//!
//! Always true: [`LoanPhase::becomes`] is the only way from one phase to another, and a transition that is not in the table
//! ([`LoanPhaseKind::may_become`]) does not happen. A server passes from one client to another only through [`LoanPhaseKind::Free`].
//! Not here: how a loan ends (`ending`), and otherwise which phase comes next and what is sent for it (`worker::data`).

use base::Time;

use super::unlendable::Unlendable;
use crate::exchange::Exchange;
use crate::server::cleanup::Cleanup;
use crate::state::Probe;

/// The phase of a loan, with the values that exist only in that phase.
#[derive(Debug, Default)]
pub enum LoanPhase {
    /// No client has the server.
    #[default]
    Free,
    /// The server receives the client's session state before the client's request. The request has waited for that, or
    /// for the server, since this time.
    ApplyingBefore(Time),
    /// The server receives the client's session state in the same packet as the client's request.
    ApplyingAlong,
    /// The server has the client's request but not the client's session state, because the request depends on nothing
    /// that differs. Nothing else is sent before the session state has been sent.
    Unapplied,
    /// The client's messages go to the server.
    Running,
    /// As `Running`, with a state probe pipelined behind the client's last request. The client's next request waits.
    Foreseeing(Box<Probe>),
    /// The server is answering a state probe.
    Probing(Box<Probe>),
    /// The server drops its prepared statements, because a plan is outdated. The client's request, which the server has
    /// refused, has waited for that since this time.
    Deallocating(Time),
    /// The client left during the state probe. The session may prove to hold nothing that other clients must be kept from.
    ProbingAlone(Box<Probe>),
    /// The client left the server unclean: the server answers what it was sent, and then the cleanup queries.
    CleaningUp(Box<CleaningUp>),
    /// The server is clean, and nobody gets it before the cancel requests aimed at it have finished.
    AwaitingCancels,
    /// The server cannot be lent any more: it is closed as soon as it is idle.
    Doomed(Unlendable),
}

/// Cleanup of a server whose client has left.
#[derive(Debug)]
pub struct CleaningUp {
    /// The queries that are still to be sent.
    pub(super) cleanup: Cleanup,
    /// The phase in which the client left. The server's next answers belong to what was sent in that phase.
    pub(super) left: LoanPhaseKind,
}

impl CleaningUp {
    /// Whether the server was receiving the client's session state, and has not answered all of that yet.
    pub(super) fn was_applying(&self) -> bool {
        self.left.is_applying() && self.cleanup.is_draining()
    }

    /// The statement of the reset query that the server executes, if it has been sent the reset query.
    fn resets(&self, exchange: &Exchange) -> Option<&str> {
        Some(self.cleanup.resets()?.at_work(exchange.owed()))
    }

    /// Whether an error in a query of our own from before the client left does no harm, because it was a state probe for
    /// that client, or because `DISCARD ALL` follows anyway.
    pub(super) fn may_fail(&self) -> bool {
        let is_question = matches!(self.left, LoanPhaseKind::Foreseeing | LoanPhaseKind::Probing);
        self.cleanup.is_draining() && (is_question || self.cleanup.will_discard_all())
    }
}

/// [`LoanPhase`] without the values of its phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoanPhaseKind {
    /// [`LoanPhase::Free`]
    Free,
    /// [`LoanPhase::ApplyingBefore`]
    ApplyingBefore,
    /// [`LoanPhase::ApplyingAlong`]
    ApplyingAlong,
    /// [`LoanPhase::Unapplied`]
    Unapplied,
    /// [`LoanPhase::Running`]
    Running,
    /// [`LoanPhase::Foreseeing`]
    Foreseeing,
    /// [`LoanPhase::Probing`]
    Probing,
    /// [`LoanPhase::Deallocating`]
    Deallocating,
    /// [`LoanPhase::ProbingAlone`]
    ProbingAlone,
    /// [`LoanPhase::CleaningUp`]
    CleaningUp,
    /// [`LoanPhase::AwaitingCancels`]
    AwaitingCancels,
    /// [`LoanPhase::Doomed`]
    Doomed,
}

impl LoanPhaseKind {
    /// Whether the server may still lack some of the client's session state.
    #[must_use]
    pub fn is_applying(self) -> bool {
        matches!(self, Self::ApplyingBefore | Self::ApplyingAlong | Self::Unapplied | Self::Deallocating)
    }

    /// Whether `next` may follow this phase.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use LoanPhaseKind::{
            ApplyingAlong, ApplyingBefore, AwaitingCancels, CleaningUp, Deallocating, Doomed, Foreseeing, Free,
            Probing, ProbingAlone, Running, Unapplied,
        };
        match (self, next) {
            // The server is clean: after a loan, even one in which the server was sent nothing, or after its login.
            (Free | Running | Unapplied | ProbingAlone | CleaningUp | AwaitingCancels, Free) => true,
            // A server is probed for the state in which its sessions begin before its first loan.
            (Free, Probing) => true,
            // The client's session state may have changed after each transaction of a loan.
            (Free | Running, ApplyingBefore | ApplyingAlong | Unapplied | Running) => true,
            (Running, Foreseeing | Probing) => true,
            // The server refuses a request for an outdated plan only before a state probe stands behind the request.
            (Running | Unapplied, Deallocating) => true,
            (ApplyingBefore | ApplyingAlong | Unapplied | Deallocating, Running) => true,
            (Foreseeing, Probing | Running) => true,
            (Probing, Running | ProbingAlone) => true,
            // A client may leave at any time.
            (Free | AwaitingCancels | CleaningUp | Doomed, CleaningUp | Doomed) => false,
            (ProbingAlone, Doomed) => false,
            (_, CleaningUp | Doomed) => true,
            // Cancel requests may be on their way to a server that runs the reset query or the check query, too.
            (Free | Running | ProbingAlone | CleaningUp, AwaitingCancels) => true,
            _ => false,
        }
    }
}

impl LoanPhase {
    /// The phase without its values.
    #[must_use]
    pub fn kind(&self) -> LoanPhaseKind {
        match self {
            Self::Free => LoanPhaseKind::Free,
            Self::ApplyingBefore(_) => LoanPhaseKind::ApplyingBefore,
            Self::ApplyingAlong => LoanPhaseKind::ApplyingAlong,
            Self::Unapplied => LoanPhaseKind::Unapplied,
            Self::Running => LoanPhaseKind::Running,
            Self::Foreseeing(_) => LoanPhaseKind::Foreseeing,
            Self::Probing(_) => LoanPhaseKind::Probing,
            Self::Deallocating(_) => LoanPhaseKind::Deallocating,
            Self::ProbingAlone(_) => LoanPhaseKind::ProbingAlone,
            Self::CleaningUp(_) => LoanPhaseKind::CleaningUp,
            Self::AwaitingCancels => LoanPhaseKind::AwaitingCancels,
            Self::Doomed(_) => LoanPhaseKind::Doomed,
        }
    }

    /// Moves on to another phase and returns the previous one.
    pub fn becomes(&mut self, next: Self) -> Self {
        debug_assert!(self.kind().may_become(next.kind()), "a loan went from {:?} to {:?}", self.kind(), next.kind());
        std::mem::replace(self, next)
    }

    /// Whether the parameters that the server reports are the client's as well, which they are unless the client's
    /// session state is being applied.
    #[must_use]
    pub fn shares_parameters(&self) -> bool {
        !self.kind().is_applying() || matches!(self, Self::Unapplied)
    }

    /// Whether the server has all of the client's session state, and no query of our own is pending.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }

    /// Since when a request of the client has waited that was not sent to the server, or that the server has refused.
    #[must_use]
    pub fn waits_since(&self) -> Option<Time> {
        match self {
            Self::ApplyingBefore(since) | Self::Deallocating(since) => Some(*since),
            _ => None,
        }
    }

    /// The state probe that the server is answering now.
    #[must_use]
    pub fn probe(&self) -> Option<&Probe> {
        match self {
            Self::Probing(probe) | Self::ProbingAlone(probe) => Some(probe),
            _ => None,
        }
    }

    /// The state probe that the server is answering now, to be given its answer.
    pub fn probe_mut(&mut self) -> Option<&mut Probe> {
        match self {
            Self::Probing(probe) | Self::ProbingAlone(probe) => Some(probe),
            _ => None,
        }
    }

    /// The statement of the reset query that the server executes, if its client left and it has been sent the reset query.
    #[must_use]
    pub fn resets(&self, exchange: &Exchange) -> Option<&str> {
        match self {
            Self::CleaningUp(cleaning_up) => cleaning_up.resets(exchange),
            _ => None,
        }
    }

    /// Takes the state probe that the server has answered, and returns to [`LoanPhase::Running`].
    pub fn take_probe(&mut self) -> Option<Box<Probe>> {
        if !matches!(self, Self::Probing(_)) {
            return None;
        }
        match self.becomes(Self::Running) {
            Self::Probing(probe) => Some(probe),
            _ => None,
        }
    }

    /// The client leaves: if a state probe is being answered, its answer is waited for. Returns whether that is so.
    pub(super) fn leaves_probe(&mut self) -> bool {
        let Self::Probing(probe) = self else { return false };
        let probe = std::mem::replace(probe, Box::new(Probe::of_nothing()));
        self.becomes(Self::ProbingAlone(probe));
        true
    }

    /// Whether the client's session state is sent ahead of the request, or was when the client left, and is not fully
    /// answered yet.
    pub(super) fn is_applied_first(&self) -> bool {
        match self {
            Self::CleaningUp(cleaning_up) => {
                cleaning_up.was_applying() && cleaning_up.left == LoanPhaseKind::ApplyingBefore
            }
            phase => phase.kind() == LoanPhaseKind::ApplyingBefore,
        }
    }

    /// The server is ready, and answers a state probe next if one was pipelined behind the client's request. If the
    /// answer `was_ours`, it was the probe's already: the client has left, and the answer is dropped.
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
    use crate::server::reset::ResetQuery;

    const PHASES: [LoanPhaseKind; 12] = [
        LoanPhaseKind::Free,
        LoanPhaseKind::ApplyingBefore,
        LoanPhaseKind::ApplyingAlong,
        LoanPhaseKind::Unapplied,
        LoanPhaseKind::Running,
        LoanPhaseKind::Foreseeing,
        LoanPhaseKind::Probing,
        LoanPhaseKind::Deallocating,
        LoanPhaseKind::ProbingAlone,
        LoanPhaseKind::CleaningUp,
        LoanPhaseKind::AwaitingCancels,
        LoanPhaseKind::Doomed,
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
        assert_eq!(table, include_str!("loan_phases.txt"), "the table is now:\n{table}");
    }

    #[test]
    #[should_panic(expected = "a loan went from ApplyingBefore to Probing")]
    fn what_is_not_in_the_table_does_not_happen() {
        LoanPhase::ApplyingBefore(Time(0)).becomes(LoanPhase::Probing(Box::new(Probe::of_nothing())));
    }

    #[test]
    fn what_was_asked_behind_a_request_is_answered_behind_it() {
        let mut phase = LoanPhase::Foreseeing(Box::new(Probe::of_nothing()));
        assert!(phase.probe().is_none() && phase.take_probe().is_none() && !phase.is_running());
        assert!(phase.comes_to_probe(false).is_some());
        assert!(phase.take_probe().is_some() && phase.is_running());
        assert!(phase.take_probe().is_none() && phase.comes_to_probe(false).is_none());
    }

    /// The client has left, and the server under cleanup has answered the request and the state probe.
    #[test]
    fn nobody_wants_the_answer_when_the_client_has_left() {
        let mut phase = LoanPhase::Foreseeing(Box::new(Probe::of_nothing()));
        assert!(phase.comes_to_probe(true).is_none() && phase.is_running());
    }

    #[test]
    fn a_request_waits_while_the_server_is_told_something_first_or_forgets_its_plans() {
        for (phase, since) in [
            (LoanPhase::ApplyingBefore(Time(7)), Some(Time(7))),
            (LoanPhase::Deallocating(Time(8)), Some(Time(8))),
            (LoanPhase::ApplyingAlong, None),
            (LoanPhase::Unapplied, None),
            (LoanPhase::Running, None),
        ] {
            assert_eq!(phase.waits_since(), since, "{phase:?}");
        }
    }

    #[test]
    fn what_a_server_reports_is_its_clients_unless_it_is_told_what_that_has_set() {
        for (phase, shares) in [
            (LoanPhase::Running, true),
            (LoanPhase::Unapplied, true),
            (LoanPhase::Probing(Box::new(Probe::of_nothing())), true),
            (LoanPhase::ApplyingBefore(Time(0)), false),
            (LoanPhase::ApplyingAlong, false),
            (LoanPhase::Deallocating(Time(0)), false),
        ] {
            assert_eq!(phase.shares_parameters(), shares, "{phase:?}");
        }
    }

    const DISCARD_ALL: &str = "DISCARD ALL";

    fn cleaning_up(left: LoanPhaseKind, reset: Option<&str>) -> CleaningUp {
        CleaningUp { cleanup: Cleanup::new(reset.map(ResetQuery::new).as_ref()), left }
    }

    #[test]
    fn what_was_asked_before_a_client_left_may_fail_if_nobody_needs_the_answer() {
        for (left, reset, may_fail) in [
            (LoanPhaseKind::Foreseeing, None, true),
            (LoanPhaseKind::Probing, None, true),
            (LoanPhaseKind::Running, None, false),
            (LoanPhaseKind::ApplyingBefore, None, false),
            (LoanPhaseKind::ApplyingBefore, Some("DISCARD TEMP"), false),
            (LoanPhaseKind::ApplyingBefore, Some(DISCARD_ALL), true),
            (LoanPhaseKind::Running, Some(DISCARD_ALL), true),
            (LoanPhaseKind::Running, Some("discard all; LOAD 'login_hook'"), true),
        ] {
            assert_eq!(cleaning_up(left, reset).may_fail(), may_fail, "{left:?} {reset:?}");
        }
        let mut behind = cleaning_up(LoanPhaseKind::Foreseeing, Some(DISCARD_ALL));
        let (mut exchange, mut out) = (crate::exchange::Exchange::default(), Vec::new());
        behind.cleanup.go_on(&mut exchange, &mut out);
        assert!(!behind.may_fail(), "what makes it clean has been asked");
    }

    #[test]
    fn a_server_was_told_what_its_client_had_set_as_long_as_it_answers_that() {
        for (left, was_applying, is_applied_first) in [
            (LoanPhaseKind::ApplyingBefore, true, true),
            (LoanPhaseKind::ApplyingAlong, true, false),
            (LoanPhaseKind::Deallocating, true, false),
            (LoanPhaseKind::Running, false, false),
        ] {
            let cleaning_up = cleaning_up(left, Some(DISCARD_ALL));
            assert_eq!(cleaning_up.was_applying(), was_applying, "{left:?}");
            assert_eq!(LoanPhase::CleaningUp(Box::new(cleaning_up)).is_applied_first(), is_applied_first, "{left:?}");
        }
        let mut behind = cleaning_up(LoanPhaseKind::ApplyingBefore, Some(DISCARD_ALL));
        behind.cleanup.go_on(&mut crate::exchange::Exchange::default(), &mut Vec::new());
        assert!(!behind.was_applying() && !LoanPhase::CleaningUp(Box::new(behind)).is_applied_first());
        assert!(LoanPhase::ApplyingBefore(Time(0)).is_applied_first() && !LoanPhase::ApplyingAlong.is_applied_first());
    }

    #[test]
    fn only_a_server_that_is_asked_goes_on_to_answer_alone() {
        let mut phase = LoanPhase::Running;
        assert!(!phase.leaves_probe() && phase.is_running());
        let mut phase = LoanPhase::Probing(Box::new(Probe::of_nothing()));
        assert!(phase.leaves_probe() && phase.kind() == LoanPhaseKind::ProbingAlone);
        assert!(phase.probe().is_some_and(Probe::is_of_nothing) && phase.probe_mut().is_some());
        assert!(phase.take_probe().is_none() && !phase.leaves_probe());
    }
}
