//! How a loan ends, and what becomes of its server until somebody else may have it.
//!
//! Always true: a server is free again only when it owes nothing, stands outside a transaction and between two messages, and no cancel
//! request is on its way to it; whatever cannot be brought there by the protocol's own means is closed.
//! Not here: whether the loan is over by the rules of its pool, cancel requests and time limits (`worker`), what a server is told to be made
//! clean ([`crate::server::mend`]).

use route::Knowledge;

use super::client_session::ClientSession;
use super::life::{Life, Mending};
use super::server_session::ServerSession;
use super::session_state::{Terms, conclude_alone};
use super::unfit::Unfit;
use crate::exchange::Exchange;
use crate::planted::{has_left_something, is_not_taken};
use crate::server::mend::{DISCARD_ALL, Mend, Progress};
use crate::state::{Kind, Preparation};

/// What is to be done with a server that its client has no more.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Ended {
    /// It is clean, and free.
    Clean,
    /// It is not clean yet, and nobody's.
    Unclean {
        /// What it is sent.
        out: Vec<u8>,
        /// What it works on is cancelled.
        is_cancelled: bool,
    },
    /// What it works on is cancelled, and it is closed as soon as it does nothing; at once if it cannot be sent a cancel request.
    Doomed(Unfit),
    /// It is closed at once.
    Closed(Unfit),
}

/// What follows when a query of our own has failed.
#[derive(PartialEq, Eq, Debug)]
pub enum Failed {
    /// The rest of the answer is waited for.
    Nothing,
    /// The client's request was cancelled with what the server was told along: the client is told so, and the server is closed.
    CancelledAlong,
    /// A limit of the session before has ended what the server was told: the client's request has not been sent, and goes to another one.
    BeforeUse,
    /// The server does not take what its client has set: the client is told why.
    NotTaken(Ended),
    /// The server cannot be made clean.
    NotClean(Unfit),
}

impl ServerSession {
    /// The loan is over by the rules of its pool. `reset` is the query that ends every loan of the pool, if any.
    #[inline]
    pub fn ends<'a>(&mut self, reset: impl FnOnce() -> Option<&'a str>) -> Ended {
        if !self.exchange.may_be_lent() || self.is_in_message() {
            return Ended::Closed(Unfit::hopeless(&self.exchange, Unfit::TornAnswer));
        }
        if self.cancels_sent == 0 {
            self.life.becomes(Life::Free);
            return Ended::Clean;
        }
        match reset() {
            // The pool would have it told that now, when the cancel request would hit it.
            Some(reset) => self.mends(Some(reset)),
            None => self.progressed(Progress::Clean, Vec::new()),
        }
    }

    /// The client leaves, in whatever state. `reset` is the query that ends every loan of the pool, if any.
    pub fn is_left(&mut self, client: &mut ClientSession, reset: Option<&str>) -> Ended {
        let is_torn = client.is_torn();
        if is_torn {
            self.exchange.torn(client.scanner.header()[0]);
        }
        if let Some(traces) = client.traces.as_mut().filter(|traces| has_left_something(traces.is_marked())) {
            let tells_all = !is_torn && traces.is_all_told();
            let can_be_discarded = traces.leave().kinds().all(Kind::is_discarded);
            return match () {
                () if tells_all && self.life.leaves_probe() => Ended::Unclean { out: Vec::new(), is_cancelled: false },
                () if !can_be_discarded => self.doomed(Unfit::Undiscardable),
                () if is_torn => self.doomed(Unfit::hopeless(&self.exchange, Unfit::TornRequest)),
                () => self.mends(Some(DISCARD_ALL)),
            };
        }
        if is_torn {
            return self.doomed(Unfit::hopeless(&self.exchange, Unfit::TornRequest));
        }
        let is_clean = self.exchange.may_end() && self.exchange.may_be_lent();
        if is_clean && self.is_in_message() {
            return self.doomed(Unfit::TornAnswer);
        }
        if is_clean && self.cancels_sent == 0 {
            self.life.becomes(Life::Free);
            return Ended::Clean;
        }
        self.mends(reset)
    }

    /// A query of our own has failed.
    pub fn ours_failed(&mut self, is_cancelled: bool) -> Failed {
        let is_applying = is_not_taken(self.life.phase().is_applying());
        match &mut self.life {
            Life::ApplyingAlong if is_cancelled => Failed::CancelledAlong,
            // The rest of its answer is waited for. Who left meanwhile may have sent the cancel request that ended it.
            Life::Probing(probe) | Life::ProbingAlone(probe) => {
                match is_cancelled {
                    true => probe.cancel(),
                    false => probe.break_off(),
                }
                Failed::Nothing
            }
            Life::ApplyingBefore(_) | Life::Replanning(_) if self.was_hasty && is_cancelled => Failed::BeforeUse,
            Life::ApplyingBefore(_) | Life::Replanning(_) if is_applying => {
                Failed::NotTaken(self.mends(Some(DISCARD_ALL)))
            }
            // It skips what stands behind, up to a Sync that nobody sends.
            _ if is_applying => Failed::NotTaken(Ended::Closed(Unfit::NotTakenOver)),
            Life::Mending(mending) if mending.may_fail() => Failed::Nothing,
            Life::Mending(mending) => Failed::NotClean(match (mending.was_applying(), is_cancelled) {
                (None, _) => Unfit::NotClean,
                (Some(_), true) => Unfit::ToldCancelled,
                (Some(_), false) => Unfit::NotTakenOver,
            }),
            Life::AwaitingCancels | Life::Doomed(_) => Failed::NotClean(Unfit::NotClean),
            _ => Failed::Nothing,
        }
    }

    /// What a query of our own that has failed was to prepare, if the server was told just now to have a statement of its client's, or no
    /// more to have one: then its client does not have it here, but all else.
    pub fn cannot_prepare(&mut self) -> Option<Preparation> {
        // If its client has left meanwhile, the server is for others as good as before.
        if !self.life.is_told_first() {
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

    /// The server of a client that has left has told what its session has: settings that any client can be given, nothing, or something that
    /// has to be discarded, as has everything where nothing is known by these terms any more. What is known of functions now.
    pub fn probed_alone(&mut self, terms: Option<Terms<'_>>) -> (Ended, Option<Knowledge>) {
        if self.exchange.is_ours() {
            // Not it has answered, but the last cancel request at it has come to its end.
            return (Ended::Unclean { out: Vec::new(), is_cancelled: false }, None);
        }
        // Until it is known to be clean, it discards everything.
        let discards = self.mending(Some(DISCARD_ALL));
        let Life::ProbingAlone(probe) = self.life.becomes(discards) else { return (self.goes_on(), None) };
        let Some(terms) = terms else { return (self.goes_on(), None) };
        let (is_clean, knowledge) = conclude_alone(self, *probe, terms);
        let ended = match is_clean {
            true => self.progressed(proven(&self.exchange), Vec::new()),
            false => self.goes_on(),
        };
        (ended, knowledge)
    }

    /// A server that is nobody's has answered, or the last cancel request at it has come to its end. Not for one that is asked what its session
    /// has ([`ServerSession::probed_alone`]), nor while a cancel request would hit what it is asked next.
    pub fn goes_on(&mut self) -> Ended {
        let mut out = Vec::new();
        match &mut self.life {
            Life::Mending(mending) => {
                let progress = mending.mend.go_on(&mut self.exchange, &mut out);
                self.progressed(progress, out)
            }
            Life::Doomed(_) if is_at_work(&self.exchange) => Ended::Unclean { out, is_cancelled: false },
            Life::Doomed(why) => Ended::Closed(*why),
            _ => self.progressed(proven(&self.exchange), out),
        }
    }

    /// Whether a cancel request is on its way that would hit what the server is asked next.
    #[must_use]
    pub fn would_be_cancelled(&self) -> bool {
        self.cancels_sent > 0 && self.exchange.owes_nothing()
    }

    /// Whether the server could be given back as it is: what it was sent is proven to be answered, and no cancel request is on its way to it.
    #[must_use]
    pub fn may_be_given_back(&self) -> bool {
        self.exchange.may_be_lent() && self.cancels_sent == 0
    }

    /// Whether it works on something that a cancel request ends, see [`is_at_work`].
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        is_at_work(&self.exchange)
    }

    /// Begins to make the server clean. `reset` is the query that ends that, if any.
    fn mends(&mut self, reset: Option<&str>) -> Ended {
        if self.would_be_cancelled() {
            let mending = self.mending(reset);
            self.life.becomes(mending);
            return Ended::Unclean { out: Vec::new(), is_cancelled: false };
        }
        let mut out = Vec::new();
        let (mend, progress) = Mend::begin(&mut self.exchange, reset, &mut out);
        if progress == Progress::Hopeless {
            return self.doomed(Unfit::of(&self.exchange));
        }
        let left = self.life.phase();
        self.life.becomes(Life::Mending(Box::new(Mending { mend, left })));
        self.progressed(progress, out)
    }

    fn mending(&self, reset: Option<&str>) -> Life {
        Life::Mending(Box::new(Mending { mend: Mend::new(reset), left: self.life.phase() }))
    }

    /// Nobody can have the server. PostgreSQL does not notice that a connection is closed before it has something to say: without a cancel
    /// request it would go on with what it does, and no limit would count it.
    fn doomed(&mut self, why: Unfit) -> Ended {
        if !is_at_work(&self.exchange) {
            return Ended::Closed(why);
        }
        self.life.becomes(Life::Doomed(why));
        Ended::Doomed(why)
    }

    fn progressed(&mut self, progress: Progress, out: Vec<u8>) -> Ended {
        match progress {
            Progress::Hopeless => return Ended::Closed(Unfit::hopeless(&self.exchange, Unfit::NotClean)),
            Progress::Clean if self.cancels_sent == 0 => {
                self.life.becomes(Life::Free);
                return Ended::Clean;
            }
            Progress::Clean => drop(self.life.becomes(Life::AwaitingCancels)),
            Progress::Wait | Progress::WantsCancel => {}
        }
        Ended::Unclean { out, is_cancelled: progress == Progress::WantsCancel }
    }
}

/// Whether a loan stands between two transactions: the server owes nothing, and nothing of the client's is half said.
#[must_use]
pub fn is_between(server: &ServerSession, client: &ClientSession) -> bool {
    server.exchange.may_end() && !client.is_torn() && !client.is_collecting()
}

/// Whether a server does something that a cancel request ends. A COPY that waits for its data ends with the connection.
fn is_at_work(exchange: &Exchange) -> bool {
    exchange.is_running() && !exchange.is_copying_in()
}

/// A server that answered our one question is clean if it stands outside a transaction.
fn proven(exchange: &Exchange) -> Progress {
    match (exchange.owes_nothing(), exchange.may_end()) {
        (_, true) => Progress::Clean,
        (true, false) => Progress::Hopeless,
        (false, false) => Progress::Wait,
    }
}
