//! Rules of this crate that the simulation may break on purpose, to see whether a checker notices.
//!
//! Always true: without the feature `planted` each function does what its name says and no more, and costs nothing.
//! Each function holds the mistake beside the rule (`base::planted` tells what each would mean for a user), and no
//! other file of this crate names one. A function that takes a value and has nothing to decide returns it unchanged.
//! Not here: the reasons of the rules, which stand where the functions are called.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::planted::{self, Planted};
use base::{Key, Slab};
use pool::Command;
use protocol::fault::Fault;
use reactor::{Conn, Io};

use crate::data::held::Held;

// Turns, settings, suspensions.

/// Whether a completion belongs to the connection whose row it names.
pub(crate) fn is_from_tenant(is_same_key: bool) -> bool {
    is_same_key || planted::is(Planted::StaleCompletion)
}

/// Whether reading goes on from a server that was paused because its client was slow.
pub(crate) fn resumes_reading(was_paused: bool) -> bool {
    was_paused && !planted::is(Planted::ResumeForgotten)
}

/// Whether a client reads so slowly that its server is not read from.
pub(crate) fn is_too_slow(has_much_unsent: bool) -> bool {
    has_much_unsent && !planted::is(Planted::NoBackPressure)
}

/// Whether an affinity hold has expired.
pub(crate) fn has_hold_expired(is_still_waiting: bool) -> bool {
    is_still_waiting || planted::is(Planted::AffinityHoldMistaken)
}

/// Whether settings sent to a server, `along` with a request or by themselves, have a deadline of their own.
pub(crate) fn are_settings_timed(are_sent_first: bool, is_along: bool) -> bool {
    are_sent_first || planted::is(Planted::MendTimeoutForRequests) && is_along
}

/// The deadline of a request, whether or not settings went along with it.
pub(crate) fn end_of_request<T>(due: Option<T>, is_along: bool) -> Option<T> {
    due.filter(|_| !(planted::is(Planted::AlongUntimed) && is_along))
}

/// Forgets all rows.
pub(crate) fn forget_all<K, T>(rows: &mut BTreeMap<K, T>) {
    if !planted::is(Planted::RememberedThroughReload) {
        rows.clear();
    }
}

/// Whether a command that was put off during a suspension is carried out after it.
pub(crate) fn outlasts_suspension(command: &Command) -> bool {
    !(planted::is(Planted::LoanForgottenInSuspend) && matches!(command, Command::Attach { .. }))
}

/// Whether nothing that another process may own by now is touched any more.
pub(crate) fn freezes(is_first_packed: bool) -> bool {
    is_first_packed && !planted::is(Planted::PackedIsTouched)
}

/// Whether a client comes from another process with a pending request.
pub(crate) fn comes_with_request(has_bytes: bool) -> bool {
    has_bytes && !planted::is(Planted::RequestLeftBehind)
}

/// The parameters of a server from another process, not those of other servers of its pool.
pub(crate) fn own_parameters<T>(own: T, of_others: impl FnOnce() -> Option<T>) -> T {
    if planted::is(Planted::ParametersLeftBehind) { of_others().unwrap_or(own) } else { own }
}

/// The prepared statements of a server from another process.
pub(crate) fn own_statements<T: Default>(own: T) -> T {
    if planted::is(Planted::StatementsLeftBehind) { T::default() } else { own }
}

// Who comes in (`admission`, `limits`, `upstream`).

/// Whether clear text followed a client's `SSLRequest`.
pub(crate) fn is_stuffed(has_more: bool) -> bool {
    has_more && !planted::is(Planted::ClearBytesKept)
}

/// The bytes that a client sent before it came to its home worker.
pub(crate) fn sent_along<T: Default>(bytes: T) -> T {
    if planted::is(Planted::EarlyBytesLost) { T::default() } else { bytes }
}

/// The client that an answer is for: the one that asked, if it is still there.
pub(crate) fn asker<T>(key: Key, rows: &Slab<T>) -> Key {
    let tenant = planted::is(Planted::VerdictForThePlace).then(|| rows.key_at(key.index)).flatten();
    tenant.unwrap_or(key)
}

/// The error for an incomplete answer of `auth_query`.
pub(crate) fn fault_of_part() -> Fault {
    if planted::is(Planted::TornAnswerIsNobody) { Fault::NoSuchUser } else { Fault::BouncerConfig }
}

/// The remembered secret of a user for a database.
pub(crate) fn known_of<'a, T>(
    rows: &'a BTreeMap<(Arc<str>, Arc<str>), T>,
    database: &str,
    user: &str,
) -> Option<&'a T> {
    if planted::is(Planted::RememberedByUser) {
        return rows.iter().find(|((_, of), _)| **of == *user).map(|(_, row)| row);
    }
    rows.get(&(Arc::from(database), Arc::from(user)))
}

/// Whether a pool that is opened now starts paused.
pub(crate) fn opens_paused(is_paused: bool) -> bool {
    is_paused && !planted::is(Planted::PauseUnknownToNewPools)
}

/// Whether users without a limit may have one now, so that their clients must be counted.
pub(crate) fn are_counted(may_be_limited: bool) -> bool {
    may_be_limited && !planted::is(Planted::OldClientsUncounted)
}

/// Whether a database has the maximum number of clients.
pub(crate) fn is_full(clients: u32, limit: u32) -> bool {
    clients >= limit + u32::from(planted::is(Planted::ClientLimitOffByOne))
}

/// Whether a client that goes gives its slot back, even if it is still logging in.
pub(crate) fn gives_slot_back(has_slot: bool, is_logging_in: bool) -> bool {
    has_slot && !(planted::is(Planted::SlotKeptByLeaver) && is_logging_in)
}

/// Whether a server that refuses TLS cannot be used.
pub(crate) fn is_refusal(is_clear_text_forbidden: bool) -> bool {
    is_clear_text_forbidden && !planted::is(Planted::RefusedTlsForgone)
}

// Cancel requests (`cancel`).

/// Whether a server has to wait for a cancel request to arrive before it gets the next query.
pub(crate) fn is_aimed_at(is_request_on_its_way: bool) -> bool {
    is_request_on_its_way && !planted::is(Planted::CancelMeetsNextQuery)
}

/// Whether a cancel request is for a client of this worker.
pub(crate) fn is_here(is_this_worker: bool) -> bool {
    is_this_worker || planted::is(Planted::CancelToWrongWorker)
}

/// Whether a cancel request may be sent: its server still runs the query that it is for.
pub(crate) fn is_meant(is_same_query: bool) -> bool {
    is_same_query || planted::is(Planted::CancelIgnoresQuery)
}

/// Notes that a cancel request has been sent and has not arrived yet.
pub(crate) fn note_sent(underway: &mut u32, is_sent: &mut bool) {
    if !planted::is(Planted::CancelForgottenOnceSent) {
        *underway += 1;
        *is_sent = true;
    }
}

/// Whether a cancel request may still arrive when its connection has ended with this error.
pub(crate) fn may_arrive_after(_: &std::io::Error) -> bool {
    !planted::is(Planted::CutOffCancelBelieved)
}

/// Whether a cancel request that was sent may still arrive, even if its timeout has passed.
pub(crate) fn may_still_arrive(is_sent: bool, is_late: bool) -> bool {
    is_sent && !(planted::is(Planted::LateCancelBelieved) && is_late)
}

/// Removes a cancel request for a peer, which may not have been reached.
pub(crate) fn take_out<T: Clone>(rows: &mut Slab<T>, key: Key, is_unreached: impl FnOnce(&T) -> bool) -> Option<T> {
    if planted::is(Planted::ForwardSlotLost)
        && let Some(row) = rows.get(key).filter(|row| is_unreached(row))
    {
        return Some(row.clone());
    }
    rows.remove(key)
}

/// The peer that has finished a request, if its next one is to be started.
pub(crate) fn is_ready_for_next(peer: u16) -> Option<u16> {
    (!planted::is(Planted::ForwardWaiterForgotten)).then_some(peer)
}

/// Whom to tell that a cancel request is done: its own requester.
pub(crate) fn who_asked<'a, T: 'a>(own: T, mut others: impl Iterator<Item = &'a mut T>) -> T {
    if planted::is(Planted::ForwardAnswersAnother)
        && let Some(other) = others.next()
    {
        return std::mem::replace(other, own);
    }
    own
}

// Loans (`data`).

/// Bytes of a client that were not sent to its server stay unsent.
pub(crate) fn leave_unsent<I: Io>(held: &mut Option<Box<Held>>, io: &mut I, conn: Conn) {
    if planted::is(Planted::HeldBytesSentAfterAll)
        && let Some(mut held) = held.take()
    {
        std::iter::from_fn(|| held.pop()).for_each(|chunk| io.send(conn, chunk));
    }
}

/// Whether no other client may get a dedicated server, even if it is between two commands.
pub(crate) fn is_nobody_elses(is_dedicated: bool, is_at_rest: bool) -> bool {
    is_dedicated && !(planted::is(Planted::DedicatedServerReturned) && is_at_rest)
}

/// Whether a server's session has the startup state of its client.
pub(crate) fn is_like(is_alike: bool) -> bool {
    is_alike || planted::is(Planted::AffinityHoldUnlike)
}

/// Whether obsolete sessions end as soon as possible (`server_fast_close`).
pub(crate) fn ends_obsolete(is_fast_close: bool) -> bool {
    is_fast_close && !planted::is(Planted::BusySessionKept)
}

// LISTEN and NOTIFY (`notify`).

/// Whether a client that is about to listen through the listener need not wait for its answer: never.
pub(crate) fn has_caught_up_already() -> bool {
    planted::is(Planted::JoinedAtOnce)
}

/// Whether the listener listens to a channel.
pub(crate) fn is_listened_to(is_heard: bool) -> bool {
    is_heard || planted::is(Planted::ListenerBelieved)
}

/// Whether a client has left a channel.
pub(crate) fn has_left(was_left: bool) -> bool {
    was_left && !planted::is(Planted::LeftChannelTold)
}

/// Whether a `ReadyForQuery` waits for the client's own notifications.
pub(crate) fn are_news_awaited(may_come: bool) -> bool {
    may_come && !planted::is(Planted::OwnNewsOvertaken)
}

// Where clients of a cluster may write (`upstream::primary`, `upstream::role`, `admin::standing`).

/// Whether a server is closed because it is not where its clients may write.
pub(crate) fn is_left(is_elsewhere: bool) -> bool {
    is_elsewhere && !planted::is(Planted::FormerPrimaryKept)
}

/// The gate that a dial heeds.
pub(crate) fn heeded_by_dials<T>(gate: Option<T>) -> Option<T> {
    gate.filter(|_| !planted::is(Planted::GateIgnoredByDials))
}

/// Whether the outcome of a request is unknown when its server is lost.
pub(crate) fn is_outcome_unknown(is_owed: bool) -> bool {
    is_owed && !planted::is(Planted::OutcomeTakenForCrash)
}

/// Whether clients that wait are served: when a hold ends.
pub(crate) fn are_served(is_hold_over: bool) -> bool {
    is_hold_over && !planted::is(Planted::HeldClientForgotten)
}

/// Whether it matters which role a server reports.
pub(crate) fn is_role_heeded(is_of_host: bool) -> bool {
    is_of_host && !planted::is(Planted::RoleReportIgnored)
}

// Which way a transaction takes, of which only its speed may depend (decision 0026).

/// Whether the plain ways are open. A simulation closes them to compare.
#[inline]
pub(crate) fn has_plain_ways() -> bool {
    planted::are_ways_open()
}
