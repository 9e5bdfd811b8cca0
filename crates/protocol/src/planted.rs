//! Rules of this crate that the simulation may have broken, to see whether somebody notices.
//!
//! Always true: without the feature `planted` each function does what its name says and no more, and costs nothing. Each
//! has the mistake beside the rule (`base::planted` tells what each would mean for a user), and no other file of this
//! crate names one. A function that is given something and has nothing to decide gives it back.
//! Not here: what the rules are for, which stands where they are asked.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use base::planted::{self, Planted};
use route::Act;
use wire::backend::{self, TxStatus};
use wire::frame::{Part, Piece};

use crate::owed::Step;
use crate::vars::Vars;

// Who owes whom how many answers (`exchange`, `server::cleanup`).

/// What the server says its status is; `before` it was this, and it may say so in answer to a Sync.
pub(crate) fn status_told(status: TxStatus, before: TxStatus, is_for_sync: bool) -> TxStatus {
    if planted::is(Planted::SyncStatusIgnored) && is_for_sync { before } else { status }
}

/// The oldest that was owed is paid.
pub(crate) fn pay<T>(owed: &mut VecDeque<T>) {
    owed.pop_front();
    if planted::is(Planted::LoanEndsEarly) && owed.len() == 1 {
        owed.pop_front();
    }
}

/// How many of so many that are owed an error skips, if what failed and what belongs to it are these.
pub(crate) fn skipped_by_error(failed: usize, owed: usize) -> usize {
    if planted::is(Planted::ErrorPaidTwice) && failed == 0 && owed > 1 { 1 } else { failed }
}

/// The place of the Sync at which a server that has failed goes on, of all that have been sent.
pub(crate) fn next_sync(mut syncs: impl DoubleEndedIterator<Item = usize>) -> Option<usize> {
    if planted::is(Planted::ErrorSkipsPastSync) { syncs.next_back() } else { syncs.next() }
}

/// A step that the server skips has no answer, even if it was due from us.
pub(crate) fn leave_unanswered(step: Step, due: &mut VecDeque<u8>) {
    if let Step::Given(kind) = step
        && planted::is(Planted::SkippedAnswerGiven)
    {
        due.push_back(kind);
    }
}

/// Whether a server of this status may be lent to somebody else.
pub(crate) fn is_outside_transaction(status: TxStatus) -> bool {
    status == TxStatus::Idle || planted::is(Planted::FailedTransactionReturned) && status == TxStatus::Failed
}

/// Whether no answer can come that nobody expects.
pub(crate) fn is_proven(are_syncs_settled: bool) -> bool {
    are_syncs_settled || planted::is(Planted::StraySyncBelieved)
}

/// Whether a server that was left with this status is rolled back.
pub(crate) fn needs_rollback(status: TxStatus) -> bool {
    status != TxStatus::Idle && !planted::is(Planted::MendWithoutRollback)
}

/// The query that resets a server, which may have been rolled back before.
pub(crate) fn resets_with<T>(query: Option<T>, was_rolled_back: bool) -> Option<T> {
    query.filter(|_| !(planted::is(Planted::ResetAfterRollbackSkipped) && was_rolled_back))
}

// What is a client's, and what is a server's (`loan`).

/// Whether a message is half forwarded.
pub(crate) fn is_torn(is_in_forwarded_body: bool) -> bool {
    is_in_forwarded_body && !planted::is(Planted::HalfMessageLeftBehind)
}

/// How many bytes of its header have come before a message, if any.
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

/// Whether the value of a parameter that a server reports is known, whether or not a client has the server.
pub(crate) fn is_known(is_same: bool, has_client: bool) -> bool {
    is_same || planted::is(Planted::RolledBackParameter) && !has_client
}

/// Whether a text that comes in parts is read from its first part on.
pub(crate) fn is_read_from(is_first_part: bool) -> bool {
    is_first_part && !planted::is(Planted::TornTextUnread)
}

/// Whether a query begins with a message.
pub(crate) fn begins_query(is_first_of_query: bool) -> bool {
    is_first_of_query || planted::is(Planted::QueriesCountedTwice)
}

/// A part of a message goes with what stands behind it, and is not sent by itself.
pub(crate) fn leave_to_the_rest(piece: &Piece, send: impl FnOnce(Range<usize>)) {
    if planted::is(Planted::MiddleSentTwice) && piece.part == Part::Later && !piece.is_last() {
        send(piece.range.clone());
    }
}

/// What a session has set, as its server tells it, whatever it had set `before`.
pub(crate) fn settings_told<T: Default + PartialEq + Clone>(told: T, before: Option<&T>) -> T {
    match before {
        Some(before) if planted::is(Planted::ResetUndone) && told == T::default() => before.clone(),
        _ => told,
    }
}

/// Whether the parameters of a server are others than those of a client. One of them is the name of the application, by
/// which nobody can tell.
pub(crate) fn are_other_parameters(client: &Rc<Vars>, server: &Rc<Vars>, application_name: usize) -> bool {
    let is_namesake =
        || planted::is(Planted::CatchUpByName) && server.get(application_name) == client.get(application_name);
    !Rc::ptr_eq(client, server) && !is_namesake()
}

/// Whether a server has other settings than its client.
pub(crate) fn are_other_settings(do_differ: bool) -> bool {
    do_differ && !planted::is(Planted::StateOfAnother)
}

/// The answers by which a server has to show that it has taken what it was told along with a request.
pub(crate) fn awaited_first(answers: Option<u32>) -> Option<u32> {
    answers.filter(|_| !planted::is(Planted::AlongUnguarded))
}

/// Whether a client that leaves has left something on its server.
pub(crate) fn has_left_something(is_marked: bool) -> bool {
    is_marked && !planted::is(Planted::StateLeftBehind)
}

/// Whether an error is the answer to what a server was told for its client.
pub(crate) fn is_not_taken(is_applying: bool) -> bool {
    is_applying && !planted::is(Planted::FailedSetIgnored)
}

// Prepared statements (`prepared`).

/// What is known of a statement that has been sent: not that it is there, before the server says so.
pub(crate) fn until_confirmed<T>(sent: T, confirmed: T) -> T {
    if planted::is(Planted::UnconfirmedStatementKept) { confirmed } else { sent }
}

/// Whether a statement is still there after a server has dropped all.
pub(crate) fn outlives_discard(is_newer: bool) -> bool {
    is_newer || planted::is(Planted::DiscardedStatementsBelieved)
}

/// Whether the statement without a name is on the server.
pub(crate) fn is_there(is_certain: bool) -> bool {
    is_certain || planted::is(Planted::UnnamedBelieved)
}

/// Whether a message of this kind, which says more than that something was parsed or closed, answers a request.
pub(crate) fn answers_request(_: u8) -> bool {
    !planted::is(Planted::AgainBehindAnswer)
}

/// How many hops a cancel request has used by going on.
pub(crate) fn hops_used(goes_on: bool) -> u8 {
    u8::from(goes_on && !planted::is(Planted::ForwardHopUncounted))
}

// What sessions keep (`state`).

/// Whether what a statement does is done to what is known of its session.
pub(crate) fn has_effect(act: &Act) -> bool {
    !(planted::is(Planted::EffectForgotten) && matches!(act, Act::ResetAll | Act::DiscardAll))
}

/// Whether a client has to be told that notifications may have been lost.
pub(crate) fn is_owed_word(is_cut_off: bool) -> bool {
    is_cut_off && !planted::is(Planted::LossUntold)
}

/// Whether a notification is told as its own server tells it, before it is known who else does.
pub(crate) fn is_told_at_once(is_only_here: bool) -> bool {
    is_only_here || planted::is(Planted::MarkIgnored)
}

/// Whether other statements have been prepared by SQL.
pub(crate) fn are_other_statements(do_differ: bool) -> bool {
    do_differ && !planted::is(Planted::StatementsUncompared)
}

/// Whether a server's answer tells all statements that are prepared.
pub(crate) fn are_all_told(were_asked: bool) -> bool {
    were_asked && !planted::is(Planted::DroppedStatementCarried)
}

/// What a server holds for its client, all of which keeps the server.
pub(crate) fn that_keep_a_server<T>(holds: Vec<T>) -> Vec<T> {
    if planted::is(Planted::PinForgotten) { Vec::new() } else { holds }
}
