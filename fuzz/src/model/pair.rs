//! One server of ours and the PostgreSQL behind it, with everything that is on its way between the two.
//!
//! The pooler's side does what `worker` does with its machines: it asks the exchange about every message of a client and
//! every answer of the server, ends a loan when the exchange says so, and mends what a client left behind.
//!
//! Always true, and asserted at every step: an answer is given to who asked for it; a server that is lent again, or was
//! mended, is at rest in truth, with nothing on its way that could still be answered. No answer is a surprise, but to a
//! client that breaks the protocol while answers are on their way; and for one that keeps to it no mending waits for ever.

use std::collections::VecDeque;

use protocol::exchange::{Answered, Asked, Exchange};
use protocol::server::mend::{Mend, Progress};

use super::messages;
use super::postgres::{Answer, Asks, Does, Postgres};

/// What can be expected of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// It keeps to the protocol.
    Polite,
    /// It says what it likes, and waits for the answer each time.
    Prompt,
    /// It says what it likes when it likes.
    Rude,
}

/// Who a message is from: ourselves, or the client of a loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    Us,
    Loan(u32),
}

/// What the pooler does with the server.
#[derive(Debug)]
enum Stage {
    Idle,
    /// It runs a query of ours before the first message of the loan.
    CatchingUp,
    Lent,
    Mending(Mend),
    /// It is closed, or its process is gone.
    Over,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Pair {
    exchange: Exchange,
    postgres: Postgres,
    stage: Stage,
    manner: Manner,
    loans: u32,
    /// To the server.
    there: VecDeque<(Asker, Asks)>,
    /// From the server; what it says by itself has no asker.
    back: VecDeque<(Option<Asker>, Answer)>,
    /// What the reset query does.
    reset: Option<Does>,
}

impl Pair {
    pub(crate) fn new(manner: Manner, reset: Option<Does>) -> Self {
        Self {
            exchange: Exchange::default(),
            postgres: Postgres::default(),
            stage: Stage::Idle,
            manner,
            loans: 0,
            there: VecDeque::new(),
            back: VecDeque::new(),
            reset,
        }
    }

    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether a client may speak to the server.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Lent)
    }

    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.stage, Stage::Lent)
    }

    /// Whether a message on its way may begin a COPY that reads from the client.
    pub(crate) fn may_become_copy(&self) -> bool {
        self.there.iter().any(|(_, asks)| asks.does == Does::CopiesIn && matches!(asks.kind, b'Q' | b'E'))
            || self.back.iter().any(|(_, (kind, _))| *kind == b'G')
    }

    /// A query of ours goes first, as when the client has other parameters than the server.
    pub(crate) fn catch_up(&mut self, does: Does) {
        if matches!(self.stage, Stage::Idle) {
            self.lend();
            self.stage = Stage::CatchingUp;
            self.exchange.asks_ours();
            self.there.push_back((Asker::Us, Asks { kind: b'Q', does }));
        }
    }

    fn lend(&mut self) {
        assert!(self.exchange.may_end() && self.exchange.is_proven());
        self.loans += 1;
        self.stage = Stage::Lent;
    }

    /// The client says something; whether it may go on.
    pub(crate) fn client_says(&mut self, asks: Asks) -> bool {
        match self.stage {
            // What needs no server does not get one (`worker::data::client`).
            Stage::Idle if !asks.may_be_answered() => return true,
            Stage::Idle => self.lend(),
            Stage::Lent => {}
            _ => return true,
        }
        match self.exchange.asked(asks.kind) {
            Asked::Forward => self.there.push_back((Asker::Loan(self.loans), asks)),
            Asked::Drop => {}
            Asked::Unexpected => {
                assert!(self.manner != Manner::Polite, "a polite client is refused {asks:?}: {self:?}");
                return false;
            }
        }
        true
    }

    /// The client is gone; `is_torn` in the middle of a message.
    pub(crate) fn client_leaves(&mut self, is_torn: bool) {
        if !matches!(self.stage, Stage::Lent | Stage::CatchingUp) {
            return;
        }
        if is_torn {
            self.stage = Stage::Over;
            return;
        }
        if self.exchange.may_end() && self.exchange.is_proven() {
            self.ends();
            return;
        }
        let mut out = Vec::new();
        let reset = self.reset.map(|_| RESET);
        let (mend, progress) = Mend::begin(&mut self.exchange, reset, &mut out);
        self.stage = Stage::Mending(mend);
        self.sends(&out);
        if progress == Progress::WantsCancel {
            self.postgres.cancel();
        }
        self.progresses(progress);
    }

    fn sends(&mut self, out: &[u8]) {
        for (kind, body) in messages(out) {
            let does = match (kind, body) {
                (b'Q', b"ROLLBACK\0") => Does::Ends,
                (b'Q', _) => self.reset.unwrap_or(Does::Nothing),
                // A portal that does not exist: the batch is to fail.
                (b'E', _) => Does::Fails,
                _ => Does::Nothing,
            };
            self.there.push_back((Asker::Us, Asks { kind, does }));
        }
    }

    fn progresses(&mut self, progress: Progress) {
        match progress {
            Progress::Wait | Progress::WantsCancel => {}
            Progress::Clean => self.ends(),
            Progress::Hopeless => self.stage = Stage::Over,
        }
    }

    /// The server is free for somebody else: it had better be.
    fn ends(&mut self) {
        self.stage = Stage::Idle;
        if self.postgres.is_dead() {
            return;
        }
        assert!(self.postgres.is_at_rest(), "given back, but not at rest: {self:?}");
        assert!(self.there.iter().all(|(_, asks)| !asks.may_be_answered()), "given back with a question: {self:?}");
        assert!(self.back.iter().all(|(asker, _)| asker.is_none()), "given back with an answer: {self:?}");
    }

    /// PostgreSQL reads the next message, if there is one.
    pub(crate) fn server_reads(&mut self) -> bool {
        let Some((asker, asks)) = self.there.pop_front() else { return false };
        let is_ours_to_end = asker != Asker::Us || asks.kind != b'S' || !self.postgres.would_commit();
        assert!(is_ours_to_end, "committed for a client that never asked for it: {self:?}");
        let answers = self.postgres.reads(asks);
        self.back.extend(answers.into_iter().map(|answer| (Some(asker), answer)));
        true
    }

    /// PostgreSQL says something by itself.
    pub(crate) fn server_says(&mut self, kind: u8) {
        if !self.postgres.is_dead() {
            self.back.push_back((None, (kind, b"")));
        }
    }

    /// The pooler hears the next answer, if there is one.
    pub(crate) fn pooler_hears(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        let Some((asker, (kind, body))) = self.back.pop_front() else {
            if self.postgres.is_dead() {
                self.stage = Stage::Over;
            }
            return false;
        };
        let is_nobodys = matches!(self.stage, Stage::Idle | Stage::Mending(_));
        if kind == b'E' && is_nobodys && self.exchange.owes_nothing() {
            // The server says goodbye (`worker::data::server::farewell`).
            self.stage = Stage::Over;
            return true;
        }
        let answered = self.exchange.answered(kind, body);
        let Ok(answered) = answered else {
            assert!(self.manner == Manner::Rude, "a surprise: {} in {self:?}", char::from(kind));
            self.stage = Stage::Over;
            return true;
        };
        self.is_given_to_who_asked(asker, answered);
        match (&self.stage, answered) {
            // A query of ours failed (`worker::data::loan::ours_failed`).
            (Stage::CatchingUp | Stage::Mending(_), Answered::Ours) if kind == b'E' => self.stage = Stage::Over,
            _ => self.is_answered(kind),
        }
        true
    }

    fn is_given_to_who_asked(&self, asker: Option<Asker>, answered: Answered) {
        let is_right = match (asker, answered) {
            (None, _) => true,
            (Some(Asker::Us), Answered::Ours) => true,
            // The Sync, the CopyFail and the Execute of a mending complete what the client began.
            (Some(Asker::Us), Answered::Forward) => matches!(self.stage, Stage::Mending(_)),
            (Some(Asker::Loan(loan)), Answered::Forward) => {
                loan == self.loans && matches!(self.stage, Stage::Lent | Stage::Mending(_))
            }
            // Nobody here takes steps.
            (Some(Asker::Us), Answered::Hidden) | (Some(Asker::Loan(_)), _) => false,
        };
        assert!(is_right, "an answer to {asker:?} is {answered:?}: {self:?}");
    }

    fn is_answered(&mut self, kind: u8) {
        let is_ready = kind == b'Z';
        match &mut self.stage {
            Stage::CatchingUp if is_ready && self.exchange.owes_nothing() => self.stage = Stage::Lent,
            Stage::Lent if is_ready && self.exchange.may_end() => {
                if self.exchange.is_proven() {
                    self.ends()
                } else {
                    self.stage = Stage::Over
                }
            }
            Stage::Mending(mend) if is_ready || kind == b'G' => {
                let mut out = Vec::new();
                let progress = mend.go_on(&mut self.exchange, &mut out);
                if !out.is_empty() {
                    // The worker asks nothing before its cancel requests have come to their end.
                    self.postgres.cancel_is_over();
                }
                self.sends(&out);
                self.progresses(progress);
            }
            _ => {}
        }
    }

    /// Everything that is on its way arrives.
    pub(crate) fn settle(&mut self) {
        while self.server_reads() || self.pooler_hears() {}
        if self.is_over() || self.postgres.is_dead() || self.manner != Manner::Polite {
            return;
        }
        if self.is_lent() && self.exchange.is_proven() {
            assert_eq!(self.exchange.may_end(), self.postgres.is_at_rest(), "all has arrived: {self:?}");
        }
        assert!(!matches!(self.stage, Stage::CatchingUp), "our own query is never answered: {self:?}");
        assert!(!matches!(self.stage, Stage::Mending(_)), "mended for ever: {self:?}");
    }
}

/// The text does not matter here, only that it is not the rollback.
const RESET: &str = "DISCARD ALL";
