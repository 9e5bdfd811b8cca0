//! How an application reads: every message is compared with the expected one.
//!
//! Always true: a message that is not the next expected one is accused, unless it may come at any time, or the plan of
//! this world allows the connection to end so.
//! Not here: what was asked (`speech`), what happens next (`mod`).

use wire::backend::{self, TxStatus};
use wire::frontend;
use wire::notice::Notice;
use wire::write;

use crate::app::belief::{Expect, Request};
use crate::app::state::{App, NO_TRANSACTIONS, NOWHERE};
use crate::checks::board::Word;
use crate::checks::witness::{Charge, Witness};
use crate::postgres::session::OUTDATED;
use crate::postgres::sql::{JOINED, Nonce, row_text};

/// What follows from a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    Nothing,
    /// These bytes are to be sent now.
    Say(Vec<u8>),
    /// A request is completely answered.
    Answered,
}

impl App {
    /// Handles a message from the pooler.
    pub(crate) fn hear(&mut self, kind: u8, body: &[u8], witness: &mut Witness) -> Heard {
        self.mind_news(kind, body, witness);
        match kind {
            backend::NOTICE_RESPONSE if &*Notice::parse(body).message == LOSS => {
                self.hear_loss(Word::Notice, witness);
                Heard::Nothing
            }
            backend::NOTICE_RESPONSE
                if self.next_expected() != Some(&Expect::Notice)
                    || Nonce::read(&Notice::parse(body).message).is_none() =>
            {
                let notice = Notice::parse(body);
                if let Some(nonce) = Nonce::read(&notice.message).filter(|nonce| nonce.app != self.number) {
                    self.accuse(witness, Charge::ForeignBytes, &format!("a notice for {nonce}"));
                }
                Heard::Nothing
            }
            backend::NOTIFICATION_RESPONSE => {
                self.hear_notification(body, witness);
                Heard::Nothing
            }
            backend::PARAMETER_STATUS => self.hear_parameter(body, witness),
            backend::ERROR_RESPONSE => self.hear_error(body, witness),
            backend::READY_FOR_QUERY => self.hear_ready(body, witness),
            _ => self.hear_answer(kind, body, witness),
        }
    }

    fn next_expected(&self) -> Option<&Expect> {
        self.asked.front().and_then(|request| request.expects.front()).map(|(_, expect)| expect)
    }

    fn hear_parameter(&mut self, body: &[u8], witness: &mut Witness) -> Heard {
        let Some((name, value)) = backend::parameter_status(body) else { return Heard::Nothing };
        if let Some(Expect::Zone(zone)) = self.next_expected()
            && name == "TimeZone"
            && zone == value
        {
            return self.expected();
        }
        if name == "TimeZone" && self.is_aborted && value == self.belief.zone {
            self.belief.reported_zone = value.to_owned();
            return Heard::Nothing;
        }
        // A server that was given the name along with a request may report the new value after the answer to that.
        let own = self.name();
        if name == "application_name" && (*value == *own || value.starts_with(&format!("{own} - "))) {
            witness.count("told its name again");
            return Heard::Nothing;
        }
        if name == "TimeZone" || name == "application_name" {
            // Nobody else changes these settings, and `ParameterStatus` is sent only for changes.
            self.accuse(witness, Charge::LeftOver, &format!("{name} has become {value} by itself"));
        }
        Heard::Nothing
    }

    fn hear_error(&mut self, body: &[u8], witness: &mut Witness) -> Heard {
        let notice = Notice::parse(body);
        if notice.is_fatal() {
            witness.count("fatal errors");
            self.last_words = Some((notice.sqlstate.to_string(), notice.message.to_string()));
            return Heard::Nothing;
        }
        let said = Nonce::read(notice.message.strip_prefix(NO_COMMAND).unwrap_or(&notice.message));
        if self.refusal_due.is_some() && said.is_none() && &*notice.sqlstate != "57014" {
            // The error for the protocol violation; the one that it is disconnected follows.
            return Heard::Nothing;
        }
        if said.is_some_and(|nonce| nonce.app != self.number) {
            self.accuse(witness, Charge::ForeignBytes, &format!("an error for {said:?}"));
            return Heard::Nothing;
        }
        let is_expected = matches!(
            self.asked.front().and_then(|request| request.expects.front()),
            Some((nonce, Expect::Error(sqlstate))) if *sqlstate == &*notice.sqlstate && said == Some(*nonce)
        );
        if is_expected {
            let heard = self.expected();
            self.mind_early_syncs();
            return heard;
        }
        let is_cancelled = &*notice.sqlstate == "57014"
            && self
                .asked
                .front()
                .is_some_and(|request| self.is_cancel_loose || self.cancel_asked == Some(request.nonce));
        // The pooler hides this error, unless it could not repeat the request: because that arrived in parts, or some
        // of it was answered.
        let is_old = self.asked.len() == 1 && self.asked.front().is_some_and(|request| request.is_old);
        let is_outdated = is_old && *notice.message == *OUTDATED;
        if is_cancelled || is_outdated {
            witness.count(if is_outdated { "plans out of date" } else { "requests cancelled" });
            self.is_aborted = true;
            self.is_uncountable |= is_outdated;
            // In statement mode the transaction was never begun. A protocol violation is refused all the same.
            self.refusal_due = self.refusal_due.filter(|due| *due != NO_TRANSACTIONS);
            if let Some(request) = self.asked.front() {
                self.belief.clone_from(&request.before);
            }
            self.belief.named.doubt();
            self.belief.fails();
            self.mind_early_syncs();
            return self.sync_that_is_owed();
        }
        if self.is_put_off(&notice) {
            witness.count("commands put off");
            return Heard::Nothing;
        }
        let text = format!("{} {} where {:?} was due", notice.sqlstate, notice.message, self.next_expected());
        let charge = if &*notice.sqlstate == "57014" { Charge::StrayCancel } else { Charge::ForeignBytes };
        self.accuse(witness, charge, &text);
        Heard::Nothing
    }

    /// After an error each `Sync` that was sent early may be answered with a `ReadyForQuery` beside the last one.
    fn mind_early_syncs(&mut self) {
        self.readies_allowed = self.asked.front().map_or(0, |request| request.early_syncs);
        self.is_uncountable |= self.readies_allowed > 0;
        if self.readies_allowed > 0 {
            self.belief.named.lose();
        }
    }

    /// Drops the bytes that were to be sent next, except for the `Sync` at their end if none was sent before.
    fn sync_that_is_owed(&mut self) -> Heard {
        let mut sync = Vec::new();
        write::bare(&mut sync, frontend::SYNC);
        let request = self.asked.front().filter(|request| !request.bytes.ends_with(&sync));
        let owed = request.into_iter().flat_map(|request| &request.expects).any(|(_, expect)| match expect {
            Expect::Say(bytes) => bytes.ends_with(&sync),
            _ => false,
        });
        if owed { Heard::Say(sync) } else { Heard::Nothing }
    }

    fn hear_ready(&mut self, body: &[u8], witness: &mut Witness) -> Heard {
        let Some(status) = TxStatus::parse(body) else {
            self.accuse(witness, Charge::ForeignBytes, "an unreadable ReadyForQuery");
            return Heard::Nothing;
        };
        let is_due = self.is_aborted || matches!(self.next_expected(), Some(Expect::Ready(_)));
        if !is_due && self.readies_allowed > 0 {
            self.readies_allowed -= 1;
            witness.count("early Syncs answered late");
            return Heard::Nothing;
        }
        let was_aborted = std::mem::take(&mut self.is_aborted);
        if was_aborted {
            if self.belief.tx != status || self.belief.reported_zone != self.belief.zone {
                let text = format!("ReadyForQuery {status:?} after a cancel, where it believes {:?}", self.belief);
                self.accuse(witness, Charge::ForeignBytes, &text);
            }
        } else if !matches!(self.next_expected(), Some(Expect::Ready(expected)) if *expected == status) {
            let text = format!("ReadyForQuery {status:?} where {:?} was due", self.next_expected());
            self.accuse(witness, Charge::ForeignBytes, &text);
        }
        if self.refusal_due.is_some() && self.asked.len() == 1 && !was_aborted {
            self.accuse(witness, Charge::NoReason, "it is served what was to be refused");
        }
        let is_joined = |request: &Request| request.joins.is_some() && witness.board.borrow().has_joined(request.nonce);
        // No server has checked the TimeZone yet; the next one will.
        let needed_no_server = self.asked.front().is_some_and(is_joined);
        if self.belief.zone == NOWHERE && !was_aborted && !needed_no_server {
            self.accuse(witness, Charge::LeftOver, "it is served with a TimeZone that does not exist");
        }
        self.mind_writes(status, was_aborted, witness);
        self.asked.pop_front();
        self.queries += 1;
        // The pipelined requests behind it may need another server, from a time that the application cannot know.
        self.is_hungry = false;
        if status == TxStatus::Idle {
            if self.asked.is_empty() {
                self.mind_own_news(witness);
                witness.board.borrow_mut().is_answered(self.number);
            }
            witness.count("transactions");
            self.transactions += 1;
        }
        Heard::Answered
    }

    fn hear_answer(&mut self, kind: u8, body: &[u8], witness: &mut Witness) -> Heard {
        if self.is_aborted {
            self.accuse(witness, Charge::ForeignBytes, &format!("message {} after a cancel", kind.escape_ascii()));
            return Heard::Nothing;
        }
        let Some((nonce, expect)) = self.asked.front().and_then(|request| request.expects.front()) else {
            self.accuse(
                witness,
                Charge::ForeignBytes,
                &format!("message {} that it did not ask for", kind.escape_ascii()),
            );
            return Heard::Nothing;
        };
        let (nonce, is_joined) = (*nonce, *expect == Expect::Tag(JOINED));
        if *expect == Expect::Table && kind == backend::DATA_ROW {
            return Heard::Nothing;
        }
        let is_right = match expect {
            Expect::Table => kind == backend::COMMAND_COMPLETE && is_text(body, "SHOW"),
            Expect::Bare(expected) => kind == *expected,
            Expect::Row { at, of, size } => {
                let is_row = kind == backend::DATA_ROW;
                is_row && body.get(6..) == Some(row_text(nonce, *at, *of, *size).as_bytes())
            }
            Expect::CopyRow { at, of, size } => {
                kind == frontend::COPY_DATA && body == row_text(nonce, *at, *of, *size).as_bytes()
            }
            Expect::Complete => kind == backend::COMMAND_COMPLETE && is_text(body, &format!("DONE {nonce}")),
            Expect::Tag(tag) => kind == backend::COMMAND_COMPLETE && is_text(body, tag),
            Expect::Notice => {
                kind == backend::NOTICE_RESPONSE && Notice::parse(body).message.starts_with(&nonce.to_string())
            }
            Expect::Function => {
                kind == backend::FUNCTION_CALL_RESPONSE && body.get(4..) == Some(nonce.to_string().as_bytes())
            }
            Expect::Error(_) | Expect::Zone(_) | Expect::Ready(_) | Expect::Say(_) => false,
        };
        if !is_right {
            let start: String = String::from_utf8_lossy(&body[..body.len().min(40)]).escape_debug().collect();
            let text = format!("message {} {start:?} where {expect:?} of {nonce} was due", kind.escape_ascii());
            self.accuse(witness, Charge::ForeignBytes, &text);
            return Heard::Nothing;
        }
        if is_joined {
            self.hear_listening(nonce, witness);
        }
        self.expected()
    }

    /// The expected message has arrived.
    fn expected(&mut self) -> Heard {
        self.readies_allowed = 0;
        let Some(request) = self.asked.front_mut() else { return Heard::Nothing };
        request.expects.pop_front();
        match request.expects.front() {
            Some((_, Expect::Say(_))) => match request.expects.pop_front() {
                Some((_, Expect::Say(bytes))) => Heard::Say(bytes),
                _ => Heard::Nothing,
            },
            _ => Heard::Nothing,
        }
    }
}

/// How the console's error for an unknown command begins, before it repeats the text.
const NO_COMMAND: &str = "invalid command '";
/// The notice that notifications may have been lost.
const LOSS: &str = "notifications may have been lost";

fn is_text(body: &[u8], text: &str) -> bool {
    body.split_last().is_some_and(|(last, rest)| *last == 0 && rest == text.as_bytes())
}
