//! The machine that follows one server's conversation: who owes whom how many answers.
//!
//! Always true: every message that the server must answer stands in the queue from its sending until its answer. A
//! message from the server that the queue does not call for is a [`ProtocolViolation`], and such a server is never lent again.
//! Not here: whether the client may send the message at all (`loan::requests`), what pins a loan beside the protocol, and which
//! prepared statements the steps are about (`prepared`): here a step has only an outcome.
//!
//! The rules are those of PostgreSQL's main loop (`tcop/postgres.c`) and of its COPY (`commands/copyfromparse.c`): a
//! Query, a FunctionCall and a Sync are each ended by one ReadyForQuery; after an error in a message of the extended
//! protocol the server skips everything up to the next Sync, a Query too; while a COPY reads from the client, the server
//! ignores Sync and Flush.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use wire::backend::{self, TxStatus};
use wire::frontend;

use crate::owed::{Owed, is_outcome};
use crate::planted::{is_outside_transaction, is_proven, leave_unanswered, pay, skipped_by_error, status_told};

pub use crate::owed::{Answered, Outcome, Step};

mod batch;
mod copy;

/// The protocol state between a client and its server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Exchange {
    owed: VecDeque<Owed>,
    status: TxStatus,
    /// A COPY reads from the client, and the client has not sent CopyDone or CopyFail.
    is_copying_in: bool,
    /// After an error in the extended protocol: the server skips everything up to a Sync that has not been sent yet.
    is_skipping: bool,
    /// Syncs that were sent while a COPY may have been reading, which ignores them. If the COPY failed before it read
    /// them, the server answers each of them, before it answers anything that was sent later.
    stray_syncs: u32,
    /// The server has begun to answer the oldest owed item.
    has_begun: bool,
    count: Count,
    /// The client has sent CopyFail into a COPY of the extended protocol, and no Sync since.
    #[serde(default)]
    has_failed_copy: bool,
    /// An Execute was sent that no Sync has followed yet.
    #[serde(default)]
    has_executed: bool,
    /// A Query was sent behind such an Execute, or a `FunctionCall` in a batch of the extended protocol.
    #[serde(default)]
    has_mixed: bool,
    /// Number of Syncs sent that the server must answer.
    syncs: u64,
    /// The number of the last message sent that the server must answer, Syncs and messages of ours with their own
    /// `ReadyForQuery` aside.
    #[serde(default)]
    sent: u64,
    /// What this number was when the last Query of ours was sent.
    #[serde(default)]
    sent_before_ours: u64,
    /// The numbers of the messages that the last error has failed and skipped, until [`Exchange::failure`] has returned them.
    #[serde(default)]
    failure: Option<RangeInclusive<u64>>,
    /// Outcomes of steps, oldest first, that [`Exchange::outcome`] has not returned yet.
    outcomes: VecDeque<Outcome>,
    /// Kinds of answers that we give the client ourselves, now that everything before them is answered.
    due: VecDeque<u8>,
}

/// Whether it is known which `ReadyForQuery` answers which message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
enum Count {
    #[default]
    Sure,
    /// A COPY has failed with stray Syncs: a `ReadyForQuery` that comes before any other answer to later messages may
    /// belong to one of those Syncs. The next other answer settles the doubt.
    Doubtful,
    /// It is unknown which message an answer belongs to, for the rest of the loan.
    Lost,
}

/// What to do with a client's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Forward the message to the server.
    Forward,
    /// Drop the message: it comes too late to mean anything, such as CopyData for a COPY that has failed.
    Drop,
    /// The protocol does not allow the message now; the conversation cannot go on.
    Unexpected,
}

/// The server sent a message that it did not owe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolViolation;

impl Exchange {
    /// The client sends a message of this kind. Called once per message, when its header is known.
    pub fn asked(&mut self, kind: u8) -> Asked {
        if self.is_copying_in {
            return self.asked_in_copy(kind);
        }
        self.forgets_answered_batch();
        let is_skippable = !matches!(
            kind,
            frontend::SYNC | frontend::FLUSH | frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL
        );
        if self.count == Count::Doubtful && self.is_skipping && is_skippable {
            // A stray Sync may have ended the skipping before the server reads this message.
            self.count = Count::Lost;
        }
        match kind {
            frontend::SYNC => self.asked_in_batch(kind),
            frontend::FLUSH => {}
            // Messages of ours begin no COPY that this could end.
            frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL if self.owes_client_nothing() => {
                // Once the count is lost, the server may be in a COPY although it seems to owe nothing, so it must get
                // the message.
                return if self.count == Count::Lost { Asked::Forward } else { Asked::Drop };
            }
            frontend::COPY_DATA => {}
            _ if self.is_skipping => {}
            frontend::COPY_DONE | frontend::COPY_FAIL => self.owed.push_back(Owed::CopyEnd),
            frontend::QUERY => {
                self.sent += 1;
                self.has_mixed |= self.has_executed;
                self.owed.push_back(Owed::Query);
            }
            frontend::FUNCTION_CALL => {
                self.sent += 1;
                self.has_mixed |= matches!(self.owed.back(), Some(Owed::Batch { .. } | Owed::Step(_)));
                self.owed.push_back(Owed::Function);
            }
            frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE => {
                self.asked_in_batch(kind);
            }
            _ => return Asked::Unexpected,
        }
        Asked::Forward
    }

    /// The client has left in the middle of a message of this kind, the last that it sent. Nothing is owed for this
    /// message, and nothing can be sent behind it, as behind a batch that gets no Sync.
    pub fn torn(&mut self, kind: u8) {
        match (kind, self.owed.back_mut()) {
            // The message that began the COPY has come whole, so its answer stays owed.
            (frontend::COPY_DATA | frontend::COPY_FAIL, _) | (_, None) => {}
            (_, Some(Owed::Batch { answers })) => *answers = answers.saturating_sub(1),
            (_, Some(_)) => drop(self.owed.pop_back()),
        }
        self.owed.push_back(Owed::Batch { answers: 0 });
    }

    /// A message of the extended protocol is sent that is a step. Allowed only if [`Exchange::may_step`].
    pub fn asked_step(&mut self, step: Step) {
        debug_assert!(self.may_step(), "a step that nobody can follow");
        self.forgets_answered_batch();
        self.sent += 1;
        self.owed.push_back(Owed::Step(step));
        self.give_due();
    }

    /// Whether the outcome of a step can be followed: not while a COPY reads, not while the server skips, and not once it
    /// is unknown which message an answer belongs to.
    #[must_use]
    pub fn may_step(&self) -> bool {
        !self.is_copying_in && !self.is_skipping && self.count != Count::Lost
    }

    /// Whether the server's next answer belongs to a message of ours that was inserted between the client's messages.
    #[must_use]
    pub fn is_hiding(&self) -> bool {
        self.next_step().is_some_and(Step::is_hidden)
    }

    /// Whether the server's next answer belongs to a description that we read.
    #[must_use]
    pub fn is_describing(&self) -> bool {
        self.next_step().is_some_and(Step::describes)
    }

    /// The step that the server's next answer belongs to, if it belongs to one.
    #[must_use]
    pub fn next_step(&self) -> Option<Step> {
        self.owed.iter().find(|owed| !owed.is_paid())?.step()
    }

    /// Whether the server may serve another client, as far as the messages sent to it tell: not where
    /// [`Exchange::is_proven`] is false, nor where a Query was sent behind an Execute, or a `FunctionCall` in a batch,
    /// without a Sync between them. The next message after such a sequence fails in PostgreSQL 18
    /// (`StartTransactionCommand: unexpected state STARTED`), whichever client sends it.
    #[must_use]
    pub fn may_be_lent(&self) -> bool {
        self.is_proven() && !self.has_mixed
    }

    /// Whether the server skips all messages up to a Sync that has not been sent yet.
    #[must_use]
    pub fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    /// Whether so many answers are owed that the client is not read until some have come, see [`Exchange::has_room`].
    /// Some messages of a client send nothing to the server, so a slow server alone would not hold the client back.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.owed.len() >= OWED_MAX && !self.is_copying_in
    }

    /// Whether a client that [`Exchange::is_full`] has held back is read again.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.owed.len() <= OWED_MAX / 2
    }

    /// A number that is the same for two messages if an error in the first makes the server skip the second.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.syncs
    }

    /// The number that the next message gets. Later messages have higher numbers, whichever client sends them.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.sent + 1
    }

    /// The number of the oldest message that the server has not answered. All with smaller ones have been answered, or failed
    /// or skipped. Means nothing where it is unknown which message an answer belongs to, see [`Exchange::may_step`].
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        (self.sent + 1).saturating_sub(self.owed.iter().map(Owed::messages).sum())
    }

    /// Whether a Query of ours has been sent since the message of this number.
    #[must_use]
    pub fn has_asked_ours_since(&self, number: u64) -> bool {
        number <= self.sent_before_ours
    }

    /// Takes the numbers of the messages that the server has just failed, which is the first, and skipped; all, where that is
    /// unknown.
    pub fn failure(&mut self) -> Option<RangeInclusive<u64>> {
        self.failure.take()
    }

    /// Takes the outcome of the oldest step whose outcome has not been taken yet.
    pub fn outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Whether [`Exchange::outcome`] would return one.
    #[must_use]
    pub fn has_outcome(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// Takes the kind of the next answer that we give the client ourselves, to be sent behind the server's current
    /// message.
    pub fn due(&mut self) -> Option<u8> {
        self.due.pop_front()
    }

    /// Whether [`Exchange::due`] would return one.
    #[must_use]
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether the outcome of steps already sent can no longer be determined.
    #[must_use]
    pub fn has_lost_steps(&self) -> bool {
        self.count == Count::Lost && self.owed.iter().any(|owed| matches!(owed, Owed::Step(_)))
    }

    /// We send a Query of our own. Allowed only between two exchanges of the client's, or after the client has left.
    pub fn asks_ours(&mut self) {
        self.forgets_answered_batch();
        self.sent_before_ours = self.sent;
        self.owed.push_back(Owed::Ours);
    }

    /// We send messages of our own in the extended protocol, answered by this many messages, directly before a request of
    /// the client. Allowed only between two exchanges of the client's.
    pub fn asks_ours_along(&mut self, answers: u32) {
        self.forgets_answered_batch();
        self.owed.push_back(Owed::OursAlong { answers });
    }

    /// The server sends a message of this kind. `body` is read for a `ReadyForQuery` only.
    ///
    /// # Errors
    /// The server does not owe this message.
    pub fn answered(&mut self, kind: u8, body: &[u8]) -> Result<Answered, ProtocolViolation> {
        if self.answers_ours(kind) {
            return self.answered_ours(kind, body);
        }
        let heard = match kind {
            backend::NOTICE_RESPONSE | backend::PARAMETER_STATUS | backend::NOTIFICATION_RESPONSE => {
                return Ok(Answered::Forward);
            }
            backend::READY_FOR_QUERY => self.ready(body).map(|()| Answered::Forward),
            backend::ERROR_RESPONSE => {
                self.failed();
                Ok(Answered::Forward)
            }
            _ => self.progressed(kind),
        };
        self.give_due();
        match heard {
            // It is unknown which message this answers, but it is this client's in any case: the server is closed after
            // this loan.
            Err(_) if self.count == Count::Lost => {
                self.is_copying_in |= matches!(kind, backend::COPY_IN_RESPONSE | backend::COPY_BOTH_RESPONSE);
                Ok(Answered::Forward)
            }
            heard => heard,
        }
    }

    /// Whether all that is owed are answers to the client's own messages that nobody here waits for.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        // Longer pipelines are not looked through for each of their answers.
        let is_short = self.owed.len() <= PLAIN_MAX;
        let is_clients = |owed: &Owed| matches!(owed, Owed::Query | Owed::Batch { .. } | Owed::Sync);
        is_short && self.owed.iter().all(is_clients) && self.due.is_empty() && self.outcomes.is_empty()
    }

    /// [`Exchange::answered`] for an exchange that [`Exchange::is_plain`], and a message that is part of an answer. Returns
    /// false where the message needs a closer look; then nothing has changed.
    #[must_use]
    #[inline]
    pub fn passes(&mut self, kind: u8) -> bool {
        if self.count != Count::Sure || self.stray_syncs != 0 {
            return false;
        }
        // An item that has begun only counts all messages but its last.
        let is_counted = self.has_begun && self.owed.front_mut().is_some_and(|owed| owed.counts(kind));
        is_counted || self.progressed(kind).is_ok()
    }

    /// [`Exchange::passes`] for the messages at the start of `bytes` that answer the oldest item, up to one that needs a closer
    /// look, as do tags that tell something. Returns where the last of them begins, and where it ends.
    #[inline]
    pub fn passes_on(&mut self, bytes: &[u8], tells_nothing: impl Fn(&[u8]) -> bool) -> Option<[usize; 2]> {
        let is_sure = self.count == Count::Sure && self.stray_syncs == 0;
        let passed = self.owed.front_mut().filter(|_| is_sure)?.counts_on(bytes, tells_nothing)?;
        self.has_begun = true;
        Some(passed)
    }

    fn answered_ours(&mut self, kind: u8, body: &[u8]) -> Result<Answered, ProtocolViolation> {
        let has_ended = match kind {
            backend::NOTIFICATION_RESPONSE => return Ok(Answered::Forward),
            backend::PARSE_COMPLETE | backend::BIND_COMPLETE | backend::CLOSE_COMPLETE | backend::COMMAND_COMPLETE
                if let Some(Owed::OursAlong { answers }) = self.owed.front_mut() =>
            {
                *answers -= 1;
                let has_ended = *answers == 0;
                self.settle_doubt();
                has_ended
            }
            backend::READY_FOR_QUERY if self.owed.front() == Some(&Owed::Ours) => {
                self.status = TxStatus::parse(body).ok_or(ProtocolViolation)?;
                true
            }
            backend::READY_FOR_QUERY | backend::COPY_IN_RESPONSE | backend::COPY_BOTH_RESPONSE => {
                return Err(ProtocolViolation);
            }
            backend::NOTICE_RESPONSE | backend::PARAMETER_STATUS => false,
            // The answer to a message of ours settles a doubt like any other.
            _ => {
                self.settle_doubt();
                false
            }
        };
        if has_ended {
            self.owed.pop_front();
            self.give_due();
        }
        Ok(Answered::Ours)
    }

    fn ready(&mut self, body: &[u8]) -> Result<(), ProtocolViolation> {
        let status = TxStatus::parse(body).ok_or(ProtocolViolation)?;
        self.is_copying_in = false;
        self.drop_paid_batch();
        self.status = status_told(status, self.status, self.owed.front() == Some(&Owed::Sync));
        match self.owed.front() {
            // Only a Sync is answered by `ReadyForQuery` alone, so this one answers a stray Sync.
            Some(
                Owed::Query | Owed::Function | Owed::Batch { .. } | Owed::Step(_) | Owed::Ours | Owed::OursAlong { .. },
            )
            | None
                if self.stray_syncs > 0 && !self.has_begun =>
            {
                self.stray_syncs -= 1;
                self.is_skipping = false;
            }
            Some(Owed::Query | Owed::Function | Owed::Sync) => {
                self.pop();
            }
            _ => return Err(ProtocolViolation),
        }
        Ok(())
    }

    /// Removes the oldest owed item, whose answer is complete.
    fn pop(&mut self) {
        pay(&mut self.owed);
        self.has_begun = false;
        self.drop_unused_ends();
    }

    /// The server begins to answer the oldest owed item, with something other than a `ReadyForQuery`. So every answer to
    /// earlier messages, stray Syncs included, has come.
    fn begin(&mut self) {
        if self.owed.is_empty() || self.has_begun {
            return;
        }
        self.has_begun = true;
        self.settle_doubt();
    }

    fn failed(&mut self) {
        self.drop_paid_batch();
        self.begin();
        self.is_copying_in = false;
        if self.stray_syncs > 0 {
            let is_doubtful = self.count != Count::Lost && self.will_be_settled();
            self.count = if is_doubtful { Count::Doubtful } else { Count::Lost };
        }
        let skipped = skipped_by_error(self.failed_batch(), self.owed.len());
        self.failure = self.failed_messages(skipped);
        if skipped > 0 {
            self.skip(skipped);
            self.is_skipping = self.owed.is_empty();
        }
    }

    /// The numbers of the messages that an error fails and skips, where these are this many of the oldest items; in a Query or
    /// a `FunctionCall`, only that one. What fails at a Sync is the transaction.
    fn failed_messages(&self, skipped: usize) -> Option<RangeInclusive<u64>> {
        if self.count == Count::Lost {
            return Some(0..=u64::MAX);
        }
        let first = self.unanswered();
        let messages: u64 = self.owed.range(..skipped.max(1).min(self.owed.len())).map(Owed::messages).sum();
        (messages > 0).then(|| first..=first + messages - 1)
    }

    /// Removes this many of the oldest items, which the server does not answer.
    fn skip(&mut self, count: usize) {
        self.has_begun = false;
        for owed in self.owed.drain(..count) {
            let Owed::Step(step) = owed else { continue };
            self.outcomes.push_back(Outcome::Undone);
            leave_unanswered(step, &mut self.due);
        }
    }

    /// Makes the answers that we give ourselves due as soon as everything before them is answered.
    fn give_due(&mut self) {
        while let Some(place) = self.owed.iter().position(|owed| !owed.is_paid()) {
            let Owed::Step(Step::Given(kind)) = self.owed[place] else { return };
            self.owed.drain(..=place);
            self.has_begun = false;
            self.outcomes.push_back(Outcome::Done);
            self.due.push_back(kind);
            self.keep_open();
        }
    }

    /// A step has been answered. If nothing was sent behind it, its batch stays open for the Sync.
    fn keep_open(&mut self) {
        self.drop_unused_ends();
        if self.owed.is_empty() {
            self.owed.push_back(Owed::Batch { answers: 0 });
        }
    }

    /// Removes each `CopyEnd` that no COPY has used before the next answer begins.
    fn drop_unused_ends(&mut self) {
        while self.owed.front() == Some(&Owed::CopyEnd) {
            self.owed.pop_front();
        }
    }

    fn progressed(&mut self, kind: u8) -> Result<Answered, ProtocolViolation> {
        self.drop_paid_batch();
        self.begin();
        match self.owed.front_mut() {
            None => return Err(ProtocolViolation),
            Some(Owed::Function) if kind == backend::FUNCTION_CALL_RESPONSE => {}
            // The parameters of a statement are described before its columns.
            Some(Owed::Step(step)) if kind == backend::PARAMETER_DESCRIPTION && step.describes() => {
                return Ok(step.answered());
            }
            Some(Owed::Step(step)) if is_outcome(*step, kind) => {
                let answered = step.answered();
                self.pop();
                self.outcomes.push_back(Outcome::Done);
                self.keep_open();
                return Ok(answered);
            }
            Some(Owed::Batch { answers: 1.. } | Owed::Query)
                if matches!(kind, backend::COPY_IN_RESPONSE | backend::COPY_BOTH_RESPONSE) =>
            {
                self.copy_begins();
            }
            Some(owed) => owed.counts(kind).then_some(()).ok_or(ProtocolViolation)?,
        }
        if kind == backend::COMMAND_COMPLETE && self.count == Count::Sure {
            // A COPY that has succeeded has read, and so ignored, every Sync before its end.
            self.stray_syncs = 0;
        }
        Ok(Answered::Forward)
    }

    /// A loan may end when the server owes nothing and stands outside a transaction.
    #[must_use]
    pub fn may_end(&self) -> bool {
        self.owes_nothing() && is_outside_transaction(self.status)
    }

    /// The number of messages that have not been answered yet, the one that is being answered included.
    #[must_use]
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Whether every message sent has been answered and no batch waits for its Sync.
    #[must_use]
    pub fn owes_nothing(&self) -> bool {
        self.owed.is_empty() && !self.is_skipping && !self.is_copying_in
    }

    /// Whether nothing is owed to the client: every message of its own has been answered, if not yet every one of ours.
    #[must_use]
    #[inline]
    pub fn owes_client_nothing(&self) -> bool {
        // Called for each message; usually the first item decides.
        let is_ours_only = self.owed.front().is_none_or(|first| first.is_ours() && self.owed.iter().all(Owed::is_ours));
        is_ours_only && !self.is_skipping && !self.is_copying_in
    }

    /// Whether the transaction in which the server processes the next message is certainly not a failed one. An error
    /// among the answers still to come would make the server refuse everything but the end of the transaction.
    #[must_use]
    pub fn is_in_good_order(&self) -> bool {
        let may_fail = |owed: &Owed| matches!(owed, Owed::Query | Owed::Function | Owed::Sync);
        self.status != TxStatus::Failed && !self.owed.iter().any(may_fail)
    }

    /// Whether the server processes the next message in a transaction that has failed: no message that is unanswered may end it.
    #[must_use]
    pub fn stays_failed(&self) -> bool {
        let ends_nothing = |owed: &Owed| matches!(owed, Owed::Sync | Owed::Step(_) | Owed::CopyEnd);
        self.status == TxStatus::Failed && !self.is_copying_in && self.owed.iter().all(ends_nothing)
    }

    /// Whether nothing that was sent can still cause an answer. False after a failed COPY whose Syncs may or may not have
    /// been ignored, until an answer to something later settles the doubt, and for good after a COPY into which something
    /// else was sent. A server whose loan ends like this is closed rather than lent.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        is_proven(self.stray_syncs == 0 && self.count != Count::Lost)
    }

    /// Whether no answer can make [`Exchange::is_proven`] true again.
    #[must_use]
    pub fn is_beyond_proof(&self) -> bool {
        self.count == Count::Lost
    }

    /// Whether the server works on a client's request, so that a cancel request has a target.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let oldest = self.owed.iter().find(|owed| !owed.is_paid());
        // Behind `OursAlong` stands a request of the client.
        self.count == Count::Lost || oldest.is_some_and(|oldest| *oldest != Owed::Ours)
    }

    /// Whether the server works on something that a cancel request ends. A COPY that waits for its data ends with the
    /// connection.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.is_running() && !self.is_copying_in
    }

    /// Whether the next answers are to a query of our own.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.owed.front().is_some_and(Owed::is_ours)
    }

    /// Whether the next answers are to messages of our own that were sent directly before a request of the client's.
    #[must_use]
    pub fn has_ours_along(&self) -> bool {
        matches!(self.owed.front(), Some(Owed::OursAlong { .. }))
    }

    /// How many queries of our own are to be answered before anything else.
    #[must_use]
    pub fn ours(&self) -> usize {
        self.owed.iter().take_while(|owed| owed.is_ours()).count()
    }

    /// Whether a COPY reads from the client.
    #[must_use]
    pub fn is_copying_in(&self) -> bool {
        self.is_copying_in
    }

    /// Whether messages of the extended protocol were sent that no Sync follows. A Query behind them does not end the
    /// batch: if one of them fails, the server skips the Query like all the rest.
    #[must_use]
    pub fn wants_sync(&self) -> bool {
        let mut behind_the_last_sync = self.owed.iter().rev().take_while(|owed| **owed != Owed::Sync);
        self.is_skipping || behind_the_last_sync.any(|owed| matches!(owed, Owed::Batch { .. } | Owed::Step(_)))
    }

    /// Whether a Sync sent now would properly end the open batch, as far as is known.
    #[must_use]
    pub fn has_open_batch(&self) -> bool {
        let mut behind = self.owed.iter().rev().filter(|owed| **owed != Owed::CopyEnd);
        matches!(behind.next(), Some(Owed::Batch { .. } | Owed::Step(_)))
    }

    /// How many `ReadyForQuery` are still to come for what has been sent.
    #[must_use]
    pub fn count_ready(&self) -> usize {
        let is_ready = |owed: &&Owed| matches!(owed, Owed::Query | Owed::Function | Owed::Sync | Owed::Ours);
        self.owed.iter().filter(is_ready).count()
    }

    /// Whether the last message sent completes a request, so that only the `ReadyForQuery` of earlier requests come
    /// before its own. A Sync that a COPY has ignored completes none.
    #[must_use]
    pub fn awaits_ready(&self) -> bool {
        let last = self.owed.iter().rev().find(|owed| **owed != Owed::CopyEnd);
        !self.is_copying_in && matches!(last, Some(Owed::Query | Owed::Function | Owed::Sync))
    }

    /// Whether the server certainly sends an answer before it reads a message that is sent now: the request before it is complete,
    /// or the client has failed a COPY. Other answers of the extended protocol stay in PostgreSQL's buffer until a Sync or Flush.
    #[must_use]
    pub fn answers_first(&self) -> bool {
        let fails = self.has_failed_copy && !self.is_skipping;
        self.is_proven() && (fails || self.awaits_ready())
    }

    /// The transaction status that the server reported last.
    #[must_use]
    pub fn status(&self) -> TxStatus {
        self.status
    }
}

/// Bound of the queue of owed answers: a look-up among so many takes microseconds, and no client gets faster with more.
const OWED_MAX: usize = 1024;
/// How many owed answers are looked at to see whether all are plain.
const PLAIN_MAX: usize = 4;

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
