//! How a loan ends, and what happens to its server until it can be lent again.
//!
//! Always true: a server is free again only when it owes nothing, is outside a transaction block and between two
//! messages, and no cancel request is on its way to it; a server that cannot be brought there by the protocol's own means
//! is closed.
//! Not here: whether the rules of the pool end the loan, cancel requests and time limits (`worker`), and the cleanup
//! queries ([`crate::server::cleanup`]).

use std::rc::Rc;

use route::Knowledge;

use super::client_session::ClientSession;
use super::loan_phase::{CleaningUp, LoanPhase};
use super::server_session::ServerSession;
use super::session_state::{Terms, conclude_alone};
use super::unlendable::Unlendable;
use crate::exchange::Exchange;
use crate::planted::{has_left_something, is_not_taken};
use crate::server::cleanup::{Cleanup, Progress};
use crate::server::reset::ResetQuery;
use crate::state::{Overrides, Preparation};

/// What to do with a server that its client has given up.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Ended {
    /// The server is clean and free.
    Clean,
    /// The server is not clean yet, and lent to nobody.
    Unclean {
        /// The bytes to send to it.
        out: Vec<u8>,
        /// Its running query is to be cancelled.
        is_cancelled: bool,
    },
    /// The server's running query is cancelled, and the server is closed as soon as it is idle; at once if no cancel
    /// request can be sent.
    Doomed(Unlendable),
    /// The server is closed at once.
    Closed(Unlendable),
}

/// What follows from an error in a query of our own.
#[derive(PartialEq, Eq, Debug)]
pub enum Failed {
    /// The rest of the answer is waited for.
    Nothing,
    /// The client's request was cancelled together with the session state that went along: the client is sent the error,
    /// and the server is closed.
    CancelledAlong,
    /// A timeout of the previous session has cancelled the apply: the client's request was not sent, and goes to another server.
    BeforeUse,
    /// The server rejects the client's session state: the client is sent the reason.
    NotTaken(Ended),
    /// The server cannot be brought from the state of another client to that of this one: the client's request was not
    /// sent, and goes to another server.
    NotReset(Ended),
    /// The server cannot be cleaned.
    NotClean(Unlendable),
}

impl ServerSession {
    /// The rules of the pool end the loan. `reset` is the query that ends every loan of the pool, if any.
    #[inline]
    pub fn ends<'a>(&mut self, reset: impl FnOnce() -> Option<&'a ResetQuery>) -> Ended {
        if !self.exchange.may_be_lent() || self.is_in_message() {
            return Ended::Closed(Unlendable::hopeless(&self.exchange, Unlendable::TornAnswer));
        }
        if self.cancels_sent == 0 {
            return self.rests();
        }
        match reset() {
            // The pool would send the reset query now, when the cancel request would hit it.
            Some(reset) => self.mends(Some(reset)),
            None => self.progressed(Progress::Clean, Vec::new()),
        }
    }

    /// The client leaves, in whatever state. `reset` is the query that ends every loan of the pool, if any.
    pub fn is_left(&mut self, client: &mut ClientSession, reset: Option<&ResetQuery>) -> Ended {
        let is_torn = client.is_torn();
        if is_torn {
            self.exchange.torn(client.scanner.header()[0]);
        }
        if let Some(session_effects) =
            client.session_effects.as_mut().filter(|session_effects| has_left_something(session_effects.is_marked()))
        {
            let tells_all = session_effects.is_all_told();
            let can_be_discarded = session_effects.can_be_discarded();
            session_effects.leave();
            return match () {
                () if tells_all && self.phase.leaves_probe() => Ended::Unclean { out: Vec::new(), is_cancelled: false },
                () if !can_be_discarded => self.doomed(Unlendable::Undiscardable),
                () if is_torn => self.doomed(Unlendable::hopeless(&self.exchange, Unlendable::TornRequest)),
                () => self.mends(Some(&ResetQuery::discard_all())),
            };
        }
        if is_torn {
            return self.doomed(Unlendable::hopeless(&self.exchange, Unlendable::TornRequest));
        }
        let is_clean = self.exchange.may_end() && self.exchange.may_be_lent();
        if is_clean && self.is_in_message() {
            return self.doomed(Unlendable::TornAnswer);
        }
        if is_clean && self.cancels_sent == 0 {
            return self.rests();
        }
        self.mends(reset)
    }

    /// The server is clean and free, unless a setting of its session would act on it while it rests: that is taken back
    /// first.
    #[inline]
    fn rests(&mut self) -> Ended {
        if self.overrides.as_ref().is_some_and(|overrides| overrides.acts_at_rest()) {
            return self.resets_what_acts_at_rest();
        }
        self.phase.becomes(LoanPhase::Free);
        Ended::Clean
    }

    #[cold]
    fn resets_what_acts_at_rest(&mut self) -> Ended {
        let overrides = self.overrides.as_mut().map(Rc::make_mut);
        let sql = overrides.map(Overrides::reset_what_acts_at_rest).unwrap_or_default();
        self.overrides = self.overrides.take().filter(|overrides| !overrides.is_empty());
        self.mends(Some(&ResetQuery::ours(&sql)))
    }

    /// A query of our own has failed.
    pub fn ours_failed(&mut self, is_cancelled: bool) -> Failed {
        let is_applying = is_not_taken(self.phase.kind().is_applying());
        let cannot_be_reset = self.cannot_be_reset(is_cancelled);
        match &mut self.phase {
            LoanPhase::ApplyingAlong if is_cancelled => Failed::CancelledAlong,
            // The rest of its answer is waited for. A client that left meanwhile may have sent the cancel request behind
            // this error.
            LoanPhase::Probing(probe) | LoanPhase::ProbingAlone(probe) => {
                match is_cancelled {
                    true => probe.cancel(),
                    false => probe.break_off(),
                }
                Failed::Nothing
            }
            LoanPhase::ApplyingBefore(_) | LoanPhase::Deallocating(_) if self.was_hasty && is_cancelled => {
                Failed::BeforeUse
            }
            _ if is_applying && cannot_be_reset => Failed::NotReset(self.mends(Some(&ResetQuery::discard_all()))),
            LoanPhase::ApplyingBefore(_) | LoanPhase::Deallocating(_) if is_applying => {
                Failed::NotTaken(self.mends(Some(&ResetQuery::discard_all())))
            }
            // The server skips what follows, up to a Sync that nobody sends.
            _ if is_applying => Failed::NotTaken(Ended::Closed(Unlendable::NotTakenOver)),
            LoanPhase::CleaningUp(cleaning_up) if cleaning_up.may_fail() => Failed::Nothing,
            LoanPhase::CleaningUp(cleaning_up) => Failed::NotClean(match (cleaning_up.was_applying(), is_cancelled) {
                (false, _) => Unlendable::NotClean,
                (true, true) => Unlendable::ToldCancelled,
                (true, false) => Unlendable::NotTakenOver,
            }),
            _ => Failed::Nothing,
        }
    }

    /// Whether the query of our own that has failed was to bring the server from the state of another client to that of its
    /// own. The other may have had rights, in a function, that are needed to take its settings back; `DISCARD ALL` needs none.
    #[must_use]
    pub fn cannot_be_reset(&self, is_cancelled: bool) -> bool {
        let is_timeout = self.was_hasty && is_cancelled;
        matches!(self.phase, LoanPhase::ApplyingBefore(_)) && self.had_others_state && !is_timeout
    }

    /// What a failed query of our own was to prepare or drop, if it was sent just now to give the server the statements
    /// of its client: the client then lacks that statement on this server, but nothing else.
    pub fn cannot_prepare(&mut self) -> Option<Preparation> {
        // This includes a server whose client has left meanwhile: it stays as good for other clients as before.
        if !self.phase.is_applied_first() {
            return None;
        }
        let place = self.preparing.len().checked_sub(self.exchange.ours())?;
        let preparation = self.preparing.get(place)?.clone();
        match &preparation {
            Preparation::Prepare(name) => {
                if let Some(overrides) = &mut self.overrides {
                    std::rc::Rc::make_mut(overrides).statements_mut().remove(name);
                }
            }
            Preparation::Drop => {}
            Preparation::Path => return None,
        }
        Some(preparation)
    }

    /// The server has answered the state probe of a client that has left: the session has settings that any client can be
    /// given, nothing, or something that has to be discarded. Without `terms` everything is discarded. Also returns what
    /// is known of functions now.
    pub fn probed_alone(&mut self, terms: Option<Terms<'_>>) -> (Ended, Option<Knowledge>) {
        if self.exchange.is_ours() {
            // The server has not answered; the last cancel request aimed at it has finished.
            return (Ended::Unclean { out: Vec::new(), is_cancelled: false }, None);
        }
        // Until the server is known to be clean, everything is to be discarded.
        let discards = self.cleaning_up(Some(&ResetQuery::discard_all()));
        let LoanPhase::ProbingAlone(probe) = self.phase.becomes(discards) else {
            return (self.continue_ending(), None);
        };
        let Some(terms) = terms else { return (self.continue_ending(), None) };
        let (is_clean, knowledge) = conclude_alone(self, *probe, terms);
        let ended = match is_clean {
            true => self.progressed(proven(&self.exchange), Vec::new()),
            false => self.continue_ending(),
        };
        (ended, knowledge)
    }

    /// Continues with a server that nobody has when it has answered, or when the last cancel request aimed at it has
    /// finished. Not for a server that answers a state probe ([`ServerSession::probed_alone`]), nor while a cancel
    /// request would hit the next query.
    pub fn continue_ending(&mut self) -> Ended {
        let mut out = Vec::new();
        match &mut self.phase {
            LoanPhase::CleaningUp(cleaning_up) => {
                let progress = cleaning_up.cleanup.go_on(&mut self.exchange, &mut out);
                self.progressed(progress, out)
            }
            LoanPhase::Doomed(_) if self.exchange.is_at_work() => Ended::Unclean { out, is_cancelled: false },
            LoanPhase::Doomed(why) => Ended::Closed(*why),
            _ => self.progressed(proven(&self.exchange), out),
        }
    }

    /// Whether a cancel request is on its way that would hit the next query.
    #[must_use]
    pub fn would_be_cancelled(&self) -> bool {
        self.cancels_sent > 0 && self.exchange.owes_nothing()
    }

    /// Whether the server could be given back as it is: everything it was sent is proven to be answered, and no cancel
    /// request is on its way to it.
    #[must_use]
    pub fn may_be_given_back(&self) -> bool {
        self.exchange.may_be_lent() && self.cancels_sent == 0
    }

    /// Begins the cleanup. `reset` is the query that ends it, if any.
    fn mends(&mut self, reset: Option<&ResetQuery>) -> Ended {
        if self.would_be_cancelled() {
            let cleaning_up = self.cleaning_up(reset);
            self.phase.becomes(cleaning_up);
            return Ended::Unclean { out: Vec::new(), is_cancelled: false };
        }
        let mut out = Vec::new();
        let (cleanup, progress) = Cleanup::begin(&mut self.exchange, reset, &mut out);
        if progress == Progress::Hopeless {
            return self.doomed(Unlendable::of(&self.exchange));
        }
        let left = self.phase.kind();
        self.phase.becomes(LoanPhase::CleaningUp(Box::new(CleaningUp { cleanup, left })));
        self.progressed(progress, out)
    }

    fn cleaning_up(&self, reset: Option<&ResetQuery>) -> LoanPhase {
        LoanPhase::CleaningUp(Box::new(CleaningUp { cleanup: Cleanup::new(reset), left: self.phase.kind() }))
    }

    /// Gives up the server. A backend does not notice a closed connection before it has something to send: without a
    /// cancel request it would go on with its query, and no limit would count it.
    fn doomed(&mut self, why: Unlendable) -> Ended {
        if !self.exchange.is_at_work() {
            return Ended::Closed(why);
        }
        self.phase.becomes(LoanPhase::Doomed(why));
        Ended::Doomed(why)
    }

    fn progressed(&mut self, progress: Progress, out: Vec<u8>) -> Ended {
        match progress {
            Progress::Hopeless => return Ended::Closed(Unlendable::hopeless(&self.exchange, Unlendable::NotClean)),
            Progress::Clean if self.cancels_sent == 0 => return self.rests(),
            Progress::Clean => drop(self.phase.becomes(LoanPhase::AwaitingCancels)),
            Progress::Wait | Progress::WantsCancel => {}
        }
        Ended::Unclean { out, is_cancelled: progress == Progress::WantsCancel }
    }
}

/// Whether a loan stands between two transactions: the server owes nothing, and no message of the client is incomplete.
#[must_use]
pub fn is_between(server: &ServerSession, client: &ClientSession) -> bool {
    server.exchange.may_end() && !client.is_torn() && !client.is_collecting()
}

/// Whether a loan is over by the rules of a pool in transaction mode, and the server can be lent again as it is: nothing has to be
/// asked, counted or taken back before.
#[must_use]
pub fn rests_as_it_is(server: &ServerSession, client: &ClientSession) -> bool {
    is_between(server, client)
        && server.phase.is_running()
        && server.exchange.may_be_lent()
        && !server.is_in_message()
        && server.cancels_sent == 0
        && server.sequences_until.is_none()
        && !server.has_changed_catalog
        && !server.makes_functions
        && !server.overrides.as_ref().is_some_and(|overrides| overrides.acts_at_rest())
        && client.session_effects.is_none()
        && client.counting.has_done_neither()
}

/// A server that has answered our only query is clean if it is outside a transaction block.
fn proven(exchange: &Exchange) -> Progress {
    match (exchange.owes_nothing(), exchange.may_end()) {
        (_, true) => Progress::Clean,
        (true, false) => Progress::Hopeless,
        (false, false) => Progress::Wait,
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::loan::LoanPhaseKind;
    use crate::vars::{Tracked, Vars};

    fn session() -> ServerSession {
        ServerSession::new(Rc::new(Vars::new(&Tracked::new([]))))
    }

    /// A server that has been sent and has answered these messages.
    fn session_after(asked: &[u8], answered: &[&[u8]]) -> ServerSession {
        let mut session = session();
        for &kind in asked {
            session.exchange.asked(kind);
        }
        for message in answered {
            session.exchange.answered(message[0], &message[1..]).expect("owed");
        }
        session
    }

    #[test]
    fn a_cancel_request_ends_what_a_server_works_on_but_no_copy_that_waits_for_data() {
        for (asked, answered, is_at_work) in [
            (&b"Q"[..], &[][..], true),
            (b"Q", &[&b"C"[..], b"ZI"], false),
            (b"Q", &[b"G"], false),
            (b"QQ", &[b"C", b"ZI"], true),
        ] {
            assert_eq!(session_after(asked, answered).exchange.is_at_work(), is_at_work, "{asked:?} {answered:?}");
        }
    }

    #[test]
    fn a_server_could_be_given_back_if_it_is_proven_and_nobody_cancels_it() {
        assert!(session().may_be_given_back());
        let mixed = session_after(b"PBEQ", &[b"1", b"2", b"C", b"C", b"ZI"]);
        assert!(!mixed.may_be_given_back() && mixed.exchange.may_end());
        let mut aimed_at = session();
        aimed_at.cancels_sent = 1;
        assert!(!aimed_at.may_be_given_back() && aimed_at.would_be_cancelled());
        assert!(!session().would_be_cancelled());
        let mut at_work = session_after(b"Q", &[]);
        at_work.cancels_sent = 1;
        assert!(!at_work.would_be_cancelled(), "it is what is to be cancelled");
    }

    #[test]
    fn a_loan_stands_between_two_transactions_when_neither_side_has_begun_something() {
        let client = || ClientSession::new(0, Rc::new(Vars::new(&Tracked::new([]))));
        assert!(is_between(&session(), &client()));
        assert!(!is_between(&session_after(b"Q", &[]), &client()));
        assert!(!is_between(&session_after(b"Q", &[b"C", b"ZT"]), &client()));
        let mut torn = client();
        torn.scanner.next(b"Q\0\0\0\x10abc", 0, 1000);
        assert!(!is_between(&session(), &torn));
        let mut collecting = client();
        let charge = crate::prepared::StatementRegistry::new(1, 1).charge(&collecting.account, 1).expect("room");
        collecting.collected = Some(Box::new(crate::loan::Collected { bytes: Vec::new(), body_bytes: 1, charge }));
        assert!(!is_between(&session(), &collecting));
    }

    /// The reset query or the check query of the pool runs, of which the loan knows nothing.
    #[test]
    fn a_server_that_answers_the_query_of_its_pool_is_free_when_it_stands_outside_a_transaction() {
        let mut session = session();
        session.exchange.asks_ours();
        assert_eq!(session.continue_ending(), Ended::Unclean { out: Vec::new(), is_cancelled: false });
        session.exchange.answered(b'Z', b"I").expect("owed");
        assert_eq!(session.continue_ending(), Ended::Clean);
        session.exchange.asks_ours();
        session.exchange.answered(b'Z', b"T").expect("owed");
        assert_eq!(session.continue_ending(), Ended::Closed(Unlendable::NotClean));
        assert_eq!(session.ours_failed(false), Failed::Nothing, "the worker knows which query that was");
    }

    /// Nobody can tell how much of the data the COPY has read: the running query is cancelled, and then the server is closed.
    #[test]
    fn a_server_beyond_proof_is_cancelled_before_it_is_closed() {
        let mut session = session_after(b"QdEQ", &[b"G", b"E", b"ZI"]);
        session.phase = LoanPhase::Running;
        let mut client = ClientSession::new(0, Rc::new(Vars::new(&Tracked::new([]))));
        assert_eq!(session.is_left(&mut client, None), Ended::Doomed(Unlendable::Unproven));
        assert_eq!(session.phase.kind(), LoanPhaseKind::Doomed);
    }

    #[test]
    fn a_query_of_ours_may_fail_while_its_client_goes_on() {
        let mut session = session();
        session.phase = LoanPhase::Running;
        assert_eq!(session.ours_failed(false), Failed::Nothing);
        assert_eq!(session.ours_failed(true), Failed::Nothing);
    }

    #[test]
    fn the_log_has_a_reason_of_its_own_for_each_server_that_nobody_can_have() {
        let all = [
            Unlendable::Unproven,
            Unlendable::Mixed,
            Unlendable::TornRequest,
            Unlendable::TornAnswer,
            Unlendable::Undiscardable,
            Unlendable::NotTakenOver,
            Unlendable::ToldCancelled,
            Unlendable::NotClean,
        ];
        let words: std::collections::BTreeSet<_> = all.into_iter().map(Unlendable::words).collect();
        assert_eq!(words.len(), all.len());
    }
}
