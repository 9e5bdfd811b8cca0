//! Rules of this crate that a simulation can break on purpose, to see whether a check notices.
//!
//! Always true: without the feature `planted` each function does what its name says and no more, and costs nothing. The
//! mistake stands beside the rule (`base::planted` says what each mistake would mean for a user), and no other file of
//! this crate names one. A function with nothing to decide returns what it is given.
//! Not here: what the rules are for, which is explained where they are called.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use base::planted::{self, Planted};
use route::Act;
use wire::backend::{self, TxStatus};
use wire::frame::{Part, Piece};

use crate::owed::Step;
use crate::vars::{Tracked, Vars};

// Who owes whom how many answers (`exchange`, `server::cleanup`).

/// The transaction status after a `ReadyForQuery` that reports `status`; the status `before` it, and whether a Sync is
/// answered.
pub(crate) fn status_told(status: TxStatus, before: TxStatus, is_for_sync: bool) -> TxStatus {
    if planted::is(Planted::SyncStatusIgnored) && is_for_sync { before } else { status }
}

/// Removes the oldest owed item, which is paid.
pub(crate) fn pay<T>(owed: &mut VecDeque<T>) {
    owed.pop_front();
    if planted::is(Planted::LoanEndsEarly) && owed.len() == 1 {
        owed.pop_front();
    }
}

/// How many of the `owed` items an error skips, if the failed item and its batch are `failed` items.
pub(crate) fn skipped_by_error(failed: usize, owed: usize) -> usize {
    if planted::is(Planted::ErrorPaidTwice) && failed == 0 && owed > 1 { 1 } else { failed }
}

/// The position of the Sync at which the server continues after an error, among the positions of all Syncs sent.
pub(crate) fn next_sync(mut syncs: impl DoubleEndedIterator<Item = usize>) -> Option<usize> {
    if planted::is(Planted::ErrorSkipsPastSync) { syncs.next_back() } else { syncs.next() }
}

/// Leaves a step unanswered that the server skips, even if we owed the answer.
pub(crate) fn leave_unanswered(step: Step, due: &mut VecDeque<u8>) {
    if let Step::Given(kind) = step
        && planted::is(Planted::SkippedAnswerGiven)
    {
        due.push_back(kind);
    }
}

/// Whether a server with this status may be lent to another client.
pub(crate) fn is_outside_transaction(status: TxStatus) -> bool {
    status == TxStatus::Idle || planted::is(Planted::FailedTransactionReturned) && status == TxStatus::Failed
}

/// Whether no unexpected answer can come any more.
pub(crate) fn is_proven(are_syncs_settled: bool) -> bool {
    are_syncs_settled || planted::is(Planted::StraySyncBelieved)
}

/// Whether a server that its client left with this status must be rolled back.
pub(crate) fn needs_rollback(status: TxStatus) -> bool {
    status != TxStatus::Idle && !planted::is(Planted::CleanupWithoutRollback)
}

/// The reset query of a server, whether or not it was rolled back before.
pub(crate) fn resets_with<T>(query: Option<T>, was_rolled_back: bool) -> Option<T> {
    query.filter(|_| !(planted::is(Planted::ResetAfterRollbackSkipped) && was_rolled_back))
}

// What is a client's, and what is a server's (`loan`).

/// Whether part of a message has been forwarded and the rest has not.
pub(crate) fn is_torn(is_in_forwarded_body: bool) -> bool {
    is_in_forwarded_body && !planted::is(Planted::HalfMessageLeftBehind)
}

/// How many bytes of its header came before a message's current part, if any.
pub(crate) fn carried_header(part: Part) -> Option<usize> {
    match part {
        Part::First { carried: carried @ 1.., .. } if !planted::is(Planted::TornHeaderLost) => Some(carried.into()),
        Part::First { .. } | Part::Later => None,
    }
}

/// Whether a message of this kind belongs to the answer of the query that runs.
pub(crate) fn is_answer(kind: u8) -> bool {
    kind != backend::NOTIFICATION_RESPONSE
        && !(planted::is(Planted::OurAnswerForwarded) && kind == backend::COMMAND_COMPLETE)
}

/// Whether a reported parameter value is already known, with or without a client on the server.
pub(crate) fn is_known(is_same: bool, has_client: bool) -> bool {
    is_same || planted::is(Planted::RolledBackParameter) && !has_client
}

/// Whether a text that comes in parts is read, which is so from its first part on.
pub(crate) fn is_read_from(is_first_part: bool) -> bool {
    is_first_part && !planted::is(Planted::TornTextUnread)
}

/// Whether a message begins a query.
pub(crate) fn begins_query(is_first_of_query: bool) -> bool {
    is_first_of_query || planted::is(Planted::QueriesCountedTwice)
}

/// Leaves a part of a message to be sent with the bytes behind it, instead of by itself.
pub(crate) fn leave_to_the_rest(piece: &Piece, send: impl FnOnce(Range<usize>)) {
    if planted::is(Planted::MiddleSentTwice) && piece.part == Part::Later && !piece.is_last() {
        send(piece.range.clone());
    }
}

/// The settings of a session as its server reports them, whatever they were `before`.
pub(crate) fn settings_told<T: Default + PartialEq + Clone>(told: T, before: Option<&T>) -> T {
    match before {
        Some(before) if planted::is(Planted::ResetUndone) && told == T::default() => before.clone(),
        _ => told,
    }
}

/// Whether a server's parameters differ from its client's, as far as it is given those. The place of `application_name`
/// serves the planted mistake only.
pub(crate) fn are_other_parameters(client: &Rc<Vars>, server: &Rc<Vars>, tracked: &Tracked, follows: bool) -> bool {
    let name = tracked.application_name();
    let is_namesake = || planted::is(Planted::CatchUpByName) && server.get(name) == client.get(name);
    !Rc::ptr_eq(client, server) && !server.has_those_of(client, tracked, follows) && !is_namesake()
}

/// Whether a server's settings differ from its client's.
pub(crate) fn are_other_settings(do_differ: bool) -> bool {
    do_differ && !planted::is(Planted::StateOfAnother)
}

/// How many answers must confirm the settings that were sent along with a request, before anything else.
pub(crate) fn awaited_first(answers: Option<u32>) -> Option<u32> {
    answers.filter(|_| !planted::is(Planted::AlongUnguarded))
}

/// Whether a client that leaves has left state on its server.
pub(crate) fn has_left_something(is_marked: bool) -> bool {
    is_marked && !planted::is(Planted::StateLeftBehind)
}

/// Whether an error answers the settings that were sent to a server for its client.
pub(crate) fn is_not_taken(is_applying: bool) -> bool {
    is_applying && !planted::is(Planted::FailedSetIgnored)
}

// Prepared statements (`prepared`).

/// What is known of a statement that was sent: that it exists only once the server has confirmed it.
pub(crate) fn until_confirmed<T>(sent: T, confirmed: T) -> T {
    if planted::is(Planted::UnconfirmedStatementKept) { confirmed } else { sent }
}

/// Whether a statement outlives the server's dropping of all statements.
pub(crate) fn outlives_discard(is_newer: bool) -> bool {
    is_newer || planted::is(Planted::DiscardedStatementsBelieved)
}

/// Whether the unnamed statement is on the server.
pub(crate) fn is_there(is_certain: bool) -> bool {
    is_certain || planted::is(Planted::UnnamedBelieved)
}

/// Whether a message of this kind, which is not only `ParseComplete` or `CloseComplete`, answers a request.
pub(crate) fn answers_request(_: u8) -> bool {
    !planted::is(Planted::AgainBehindAnswer)
}

/// How many hops a cancel request uses when it is passed on.
pub(crate) fn hops_used(goes_on: bool) -> u8 {
    u8::from(goes_on && !planted::is(Planted::ForwardHopUncounted))
}

// What sessions keep (`state`).

/// Whether an act of a statement is applied to what is known of its session.
pub(crate) fn has_effect(act: &Act) -> bool {
    !(planted::is(Planted::EffectForgotten) && matches!(act, Act::ResetAll | Act::DiscardAll))
}

/// Whether a client must be told that notifications may have been lost.
pub(crate) fn is_owed_word(is_cut_off: bool) -> bool {
    is_cut_off && !planted::is(Planted::LossUntold)
}

/// Whether a notification from the client's own server is passed on at once, before it is known whether the shared
/// session delivers it too.
pub(crate) fn is_told_at_once(is_only_here: bool) -> bool {
    is_only_here || planted::is(Planted::MarkIgnored)
}

/// Whether the statements prepared by SQL differ.
pub(crate) fn are_other_statements(do_differ: bool) -> bool {
    do_differ && !planted::is(Planted::StatementsUncompared)
}

/// Whether a server's answer lists all prepared statements.
pub(crate) fn are_all_told(were_asked: bool) -> bool {
    were_asked && !planted::is(Planted::DroppedStatementCarried)
}

/// Those of a server's `holds` for its client that pin the server: all of them.
pub(crate) fn that_keep_a_server<T>(holds: Vec<T>) -> Vec<T> {
    if planted::is(Planted::PinForgotten) { Vec::new() } else { holds }
}

// Which way a transaction takes, of which only its speed may depend (decision 0026).

/// Whether the plain ways are open. A simulation closes them to compare.
#[inline]
pub(crate) fn has_plain_ways() -> bool {
    planted::are_ways_open()
}
