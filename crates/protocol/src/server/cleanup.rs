//! How a server that its client left behind is brought back into a clean state.
//!
//! Always true: only what the exchange proves counts; a server whose state the protocol's own means cannot undo is
//! hopeless and is closed.
//! Not here: the cancel request (`worker::upstream::cleanup`) and the timeout (`worker::deadlines`).

use wire::{frontend, write};

use crate::exchange::Exchange;
use crate::planted::{needs_rollback, resets_with};
use crate::server::reset::ResetQuery;

/// The cleanup of a server.
#[derive(Clone, Debug)]
pub struct Cleanup {
    stage: CleanupStage,
    /// The reset query at the end.
    reset: Option<ResetQuery>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CleanupStage {
    /// The server still sends the answers that the client was owed.
    Draining,
    RollingBack,
    Resetting,
}

/// The state of a cleanup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The server must answer first.
    Wait,
    /// The server still works on a query that nobody waits for, which must be cancelled.
    WantsCancel,
    /// The server is clean.
    Clean,
    /// The server cannot be cleaned.
    Hopeless,
}

impl Cleanup {
    /// A cleanup that has sent nothing yet. `reset` is the reset query at the end of every loan of this pool, if any.
    #[must_use]
    pub fn new(reset: Option<&ResetQuery>) -> Self {
        Self { stage: CleanupStage::Draining, reset: reset.cloned() }
    }

    /// Begins the cleanup and appends the messages for the server to `out`. The client has left between two messages;
    /// `reset` is the reset query at the end of every loan of this pool, if any.
    #[must_use]
    pub fn begin(exchange: &mut Exchange, reset: Option<&ResetQuery>, out: &mut Vec<u8>) -> (Self, Progress) {
        let mut cleanup = Self::new(reset);
        let is_running = exchange.is_running() && !has_only_ours_along(exchange);
        let progress = cleanup.go_on(exchange, out);
        match progress {
            Progress::Wait if is_running && exchange.is_running() => (cleanup, Progress::WantsCancel),
            other => (cleanup, other),
        }
    }

    /// Whether a `DISCARD ALL` is still to be sent.
    #[must_use]
    pub fn will_discard_all(&self) -> bool {
        self.stage != CleanupStage::Resetting && self.reset.as_ref().is_some_and(ResetQuery::discards_all)
    }

    /// The reset query, if it has been sent.
    #[must_use]
    pub fn resets(&self) -> Option<&ResetQuery> {
        self.reset.as_ref().filter(|_| self.stage == CleanupStage::Resetting)
    }

    /// Whether the server still answers messages from before the client left.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.stage == CleanupStage::Draining
    }

    /// Continues after a message of the server, which the exchange has already counted. Appends the next messages to
    /// `out`.
    pub fn go_on(&mut self, exchange: &mut Exchange, out: &mut Vec<u8>) -> Progress {
        if exchange.is_beyond_proof() {
            return Progress::Hopeless;
        }
        // This also completes a COPY that began after the client had left, and a batch whose Sync such a COPY has
        // ignored.
        if complete(exchange, out) {
            return Progress::Wait;
        }
        if !exchange.owes_nothing() {
            return Progress::Wait;
        }
        if !exchange.may_be_lent() {
            return Progress::Hopeless;
        }
        if needs_rollback(exchange.status()) {
            if self.stage != CleanupStage::Draining {
                return Progress::Hopeless;
            }
            self.stage = CleanupStage::RollingBack;
            write::query(out, "ROLLBACK");
            exchange.asks_ours();
            return Progress::Wait;
        }
        let reset = self.reset.as_ref().filter(|_| self.stage != CleanupStage::Resetting);
        match resets_with(reset, self.stage == CleanupStage::RollingBack) {
            Some(reset) => {
                reset.ask(exchange, out);
                self.stage = CleanupStage::Resetting;
                Progress::Wait
            }
            None => Progress::Clean,
        }
    }
}

/// Sends the end of the COPY or batch that the client still owed; returns whether there was anything to send.
fn complete(exchange: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    if exchange.is_copying_in() {
        write::message(out, frontend::COPY_FAIL, |out| write::c_string(out, GOODBYE));
        exchange.asked(frontend::COPY_FAIL);
    } else if exchange.has_open_batch() {
        // A Sync commits what the batch has done so far, but the client never asked for that, so the batch must fail
        // first. There is no such portal; its name explains the error in PostgreSQL's log.
        write::message(out, frontend::EXECUTE, |out| {
            write::c_string(out, GOODBYE);
            out.extend_from_slice(&[0; 4]);
        });
        exchange.asked(frontend::EXECUTE);
    }
    if exchange.wants_sync() || has_only_ours_along(exchange) {
        write::bare(out, frontend::SYNC);
        exchange.asked(frontend::SYNC);
    }
    out.len() > before
}

/// Whether messages of our own were sent for a request of the client's of which nothing has been sent. PostgreSQL keeps its
/// answers to them to itself until there is a Sync.
fn has_only_ours_along(exchange: &Exchange) -> bool {
    exchange.has_ours_along() && exchange.owed() == 1
}

const GOODBYE: &str = "the client has disconnected";

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange after the client has sent messages of the kinds `asked` and the server has sent `answered`.
    fn after(asked: &[u8], answered: &[&[u8]]) -> Exchange {
        let mut exchange = Exchange::default();
        for &kind in asked {
            exchange.asked(kind);
        }
        hear(&mut exchange, answered);
        exchange
    }

    fn hear(exchange: &mut Exchange, answered: &[&[u8]]) {
        for message in answered {
            exchange.answered(message[0], &message[1..]).expect("owed");
        }
    }

    fn kinds(out: &mut Vec<u8>) -> String {
        let (mut kinds, mut rest) = (String::new(), &**out);
        while let [kind, a, b, c, d, ..] = *rest {
            kinds.push(kind as char);
            rest = &rest[1 + u32::from_be_bytes([a, b, c, d]) as usize..];
        }
        out.clear();
        kinds
    }

    #[test]
    fn a_running_query_is_cancelled_and_its_transaction_rolled_back() {
        let (mut exchange, mut out) = (after(b"QQ", &[b"C", b"ZT"]), Vec::new());
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::WantsCancel, ""));
        hear(&mut exchange, &[b"E", b"ZE"]);
        assert_eq!((cleanup.go_on(&mut exchange, &mut out), kinds(&mut out).as_str()), (Progress::Wait, "Q"));
        hear(&mut exchange, &[b"C", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    /// Regression: a client whose request was refused kept its server until `server_mend_timeout`.
    #[test]
    fn settings_for_a_request_that_was_not_sent_get_a_sync() {
        let (mut exchange, mut out) = (Exchange::default(), Vec::new());
        exchange.asks_ours_along(3);
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::Wait, "S"));
        hear(&mut exchange, &[b"1", b"2"]);
        assert_eq!((cleanup.go_on(&mut exchange, &mut out), kinds(&mut out).as_str()), (Progress::Wait, ""));
        hear(&mut exchange, &[b"CSET", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    #[test]
    fn an_idle_transaction_is_rolled_back_at_once_and_the_session_reset() {
        let (mut exchange, mut out) = (after(b"Q", &[b"C", b"ZT"]), Vec::new());
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, Some(&ResetQuery::discard_all()), &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::Wait, "Q"));
        hear(&mut exchange, &[b"C", b"ZI"]);
        assert!(cleanup.will_discard_all() && cleanup.resets().is_none());
        assert_eq!((cleanup.go_on(&mut exchange, &mut out), kinds(&mut out).as_str()), (Progress::Wait, "Q"));
        assert!(!cleanup.will_discard_all() && cleanup.resets().is_some());
        hear(&mut exchange, &[b"C", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    #[test]
    fn a_reset_query_of_several_statements_ends_with_the_last_answer() {
        let (mut exchange, mut out) = (after(b"Q", &[b"C", b"ZT"]), Vec::new());
        let reset = ResetQuery::new("DISCARD ALL; LOAD 'login_hook'");
        let (mut cleanup, _) = Cleanup::begin(&mut exchange, Some(&reset), &mut out);
        hear(&mut exchange, &[b"C", b"ZI"]);
        out.clear();
        assert_eq!((cleanup.go_on(&mut exchange, &mut out), kinds(&mut out).as_str()), (Progress::Wait, "QQ"));
        hear(&mut exchange, &[b"C", b"ZI"]);
        assert_eq!((cleanup.go_on(&mut exchange, &mut out), kinds(&mut out).as_str()), (Progress::Wait, ""));
        hear(&mut exchange, &[b"C", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    #[test]
    fn an_open_batch_fails_before_it_gets_the_sync_that_its_client_owed() {
        let (mut exchange, mut out) = (after(b"PBE", &[b"1", b"2"]), Vec::new());
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::WantsCancel, "ES"));
        hear(&mut exchange, &[b"E", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    #[test]
    fn what_an_open_batch_has_done_is_not_committed_though_nothing_runs() {
        let (mut exchange, mut out) = (after(b"PBE", &[b"1", b"2", b"C"]), Vec::new());
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::Wait, "ES"));
        hear(&mut exchange, &[b"E", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    /// The next message would fail, whichever client sends it ([`Exchange::may_be_lent`]).
    #[test]
    fn a_server_that_was_told_a_function_call_in_a_batch_cannot_be_mended() {
        let (mut exchange, mut out) = (after(b"PBEFS", &[b"1", b"2", b"C", b"V", b"ZI", b"ZI"]), Vec::new());
        let (_, progress) = Cleanup::begin(&mut exchange, Some(&ResetQuery::discard_all()), &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::Hopeless, ""));
    }

    #[test]
    fn a_batch_that_has_failed_needs_its_sync_only() {
        let (mut exchange, mut out) = (after(b"PBE", &[b"1", b"E"]), Vec::new());
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::Wait, "S"));
        hear(&mut exchange, &[b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    /// If the batch failed, the server would skip the Query, and only a Sync would end the skipping. Without a Sync such
    /// a server stayed unclean until the timeout and was closed.
    #[test]
    fn a_query_behind_an_open_batch_gets_a_sync_too() {
        let (mut exchange, mut out) = (after(b"PQ", &[]), Vec::new());
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::WantsCancel, "S"));
        hear(&mut exchange, &[b"E", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    #[test]
    fn a_copy_is_failed() {
        let (mut exchange, mut out) = (after(b"Qd", &[b"G"]), Vec::new());
        let (mut cleanup, _) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!(kinds(&mut out), "f");
        hear(&mut exchange, &[b"E", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    #[test]
    fn a_copy_that_begins_after_its_client_left_is_failed_too() {
        let (mut exchange, mut out) = (after(b"Q", &[]), Vec::new());
        let (mut cleanup, _) = Cleanup::begin(&mut exchange, None, &mut out);
        hear(&mut exchange, &[b"G"]);
        assert_eq!((cleanup.go_on(&mut exchange, &mut out), kinds(&mut out).as_str()), (Progress::Wait, "f"));
        hear(&mut exchange, &[b"E", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    /// A Sync before the end of the COPY is not answered, since the COPY reads it. Without another Sync such a server
    /// stayed unclean until the timeout and was closed.
    #[test]
    fn a_sync_that_a_copy_swallows_is_sent_again() {
        let (mut exchange, mut out) = (after(b"ESc", &[]), Vec::new());
        let (mut cleanup, progress) = Cleanup::begin(&mut exchange, None, &mut out);
        assert_eq!((progress, kinds(&mut out).as_str()), (Progress::WantsCancel, ""));
        hear(&mut exchange, &[b"G"]);
        assert_eq!((cleanup.go_on(&mut exchange, &mut out), kinds(&mut out).as_str()), (Progress::Wait, "ES"));
        hear(&mut exchange, &[b"C", b"E", b"ZI"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Clean);
    }

    /// Our Sync would commit the batch if the COPY before it has failed, and it is unknown whether it has.
    #[test]
    fn a_batch_inside_of_a_copy_is_not_ended_for_its_client() {
        let (mut exchange, mut out) = (after(b"QdE", &[b"G"]), Vec::new());
        assert_eq!(Cleanup::begin(&mut exchange, None, &mut out).1, Progress::Hopeless);
        assert!(out.is_empty());
    }

    #[test]
    fn a_transaction_that_survives_its_rollback_is_hopeless() {
        let (mut exchange, mut out) = (after(b"Q", &[b"C", b"ZT"]), Vec::new());
        let (mut cleanup, _) = Cleanup::begin(&mut exchange, None, &mut out);
        hear(&mut exchange, &[b"C", b"ZT"]);
        assert_eq!(cleanup.go_on(&mut exchange, &mut out), Progress::Hopeless);
    }

    #[test]
    fn a_server_with_nothing_left_behind_is_clean_at_once() {
        let (mut exchange, mut out) = (after(b"Q", &[b"C", b"ZI"]), Vec::new());
        assert_eq!(Cleanup::begin(&mut exchange, None, &mut out).1, Progress::Clean);
    }
}
