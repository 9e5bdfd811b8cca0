//! What statements do in a session, and the checks of their authors' beliefs.

use std::collections::VecDeque;

use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use super::body::nonce_of;
use super::channels::{Act, notify};
use super::prepared;
use super::state::{Life, Portal, Session, Stream};
use crate::checks::board::Note;
use crate::checks::witness::{Charge, Witness};
use crate::postgres::manner::Manner;
use crate::postgres::sql::{Nonce, Statement, Verb, drop_tag, row_text, zone_and_mark};
use crate::sim::dice::Dice;

impl Session {
    /// Returns whether a transaction of an application is open here.
    pub(crate) fn is_in_transaction(&self) -> bool {
        matches!(self.life, Life::Ready) && self.tx != TxStatus::Idle
    }

    /// Returns the application that has begun the open transaction.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.owner.filter(|_| self.is_in_transaction())
    }

    /// Returns whether the session has answered everything, outside a transaction, and nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_idle = matches!(self.life, Life::Ready) && self.tx == TxStatus::Idle && self.work.is_none();
        let is_answered = self.unanswered.is_none() && !self.is_in_batch && self.out.is_empty();
        is_idle && is_answered && self.unread() == 0 && self.alone.is_none()
    }

    /// Returns whether this is a server connection, and not a cancel request.
    pub(crate) fn is_server(&self) -> bool {
        !matches!(self.life, Life::Startup | Life::Signals(_))
    }

    /// Returns the session to which a late signal will be sent.
    pub(crate) fn aims_at(&self) -> Option<u32> {
        let Life::Signals(key) = &self.life else { return None };
        key.first_chunk().map(|number| u32::from_be_bytes(*number))
    }

    /// A message of one application while a request of another is unanswered means that two have the server.
    pub(super) fn look(&mut self, kind: u8, body: &[u8], witness: &mut Witness) {
        let Some(nonce) = nonce_of(kind, body) else { return };
        if let Some(other) = self.unanswered.filter(|&other| other != nonce.app) {
            let number = self.number;
            let text = format!("server {number} hears {nonce} while a request of application {other} is unanswered");
            witness.accuse(Charge::TwoLoans, text);
        }
        self.unanswered = Some(nonce.app);
        witness.heard.insert(nonce.app, witness.now);
    }

    /// Everything from the first message of a batch up to its `Sync` belongs to one client, however much of it is
    /// answered.
    pub(super) fn mind_batch(&mut self, kind: u8, witness: &mut Witness) {
        match kind {
            frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE => {
                self.is_in_batch = true;
            }
            frontend::SYNC => self.is_in_batch = false,
            frontend::QUERY | frontend::FUNCTION_CALL if self.is_in_batch => {
                let text = format!("server {} is asked something else in the middle of a batch", self.number);
                witness.accuse(Charge::LoanEndedEarly, text);
            }
            _ => {}
        }
    }

    /// Runs the remaining statements of a simple query.
    pub(super) fn query(
        &mut self,
        mut rest: VecDeque<String>,
        is_first: bool,
        manner: &Manner,
        dice: &mut Dice,
        witness: &mut Witness,
    ) {
        self.transaction_begins();
        if rest.is_empty() && is_first {
            write::bare(&mut self.out, backend::EMPTY_QUERY_RESPONSE);
        }
        while let Some(text) = rest.pop_front() {
            let is_end = matches!(&*text, "ROLLBACK" | "COMMIT");
            if self.is_failed_by_another() && !is_end {
                self.fail("25P02", "current transaction is aborted", false);
                break;
            }
            let Some(statement) = Statement::read(&text) else {
                if !self.run_own(&text, witness) {
                    break;
                }
                continue;
            };
            self.check(&statement, witness);
            if dice.chance(manner.notifies) {
                notify(&mut self.out, statement.nonce);
            }
            if let Verb::CopyIn { is_bad } = statement.verb
                && self.tx != TxStatus::Failed
            {
                self.copy_begins(statement.nonce, is_bad, false);
                // The rest of the query is dropped at a COPY: applications send none.
                self.work = None;
                return;
            }
            if let Verb::Stream { rows, size, millis, words, is_ended_by_server } = statement.verb
                && self.tx != TxStatus::Failed
            {
                if self.alone.is_none() {
                    let text = format!("server {} of anybody is to stream {}", self.number, statement.nonce);
                    witness.accuse(Charge::TwoLoans, text);
                }
                self.stream_begins(statement.nonce, Stream { rows, size, words, is_ended_by_server }, millis);
                return;
            }
            let is_done = self.run(&statement, u32::MAX, 0, true).is_some();
            if !is_done {
                break;
            }
        }
        self.ready();
    }

    pub(super) fn execute(&mut self, rows_max: u32, witness: &mut Witness) {
        let Some(Portal { statement, sent }) = self.portal.take() else {
            self.fail("34000", "portal \"\" does not exist", true);
            return;
        };
        self.check(&statement, witness);
        if let Verb::CopyIn { is_bad } = statement.verb
            && self.tx != TxStatus::Failed
        {
            self.copy_begins(statement.nonce, is_bad, true);
            return;
        }
        let rows_max = if rows_max == 0 { u32::MAX } else { rows_max };
        match self.run(&statement, rows_max, sent, false) {
            Some(sent) => self.portal = Some(Portal { statement, sent }),
            None => self.is_skipping = true,
        }
    }

    /// Compares the session with what the author of the statement believes of it.
    pub(super) fn check(&mut self, statement: &Statement, witness: &mut Witness) {
        let (nonce, number) = (statement.nonce, self.number);
        witness.count("statements");
        self.check_role(nonce);
        if statement.verb == Verb::Begin && self.tx == TxStatus::Idle {
            self.begun = witness.now;
        }
        if !self.channels.may_run(nonce) {
            let text = format!("server {number} runs {nonce}, which has been answered");
            witness.accuse(Charge::ForeignBytes, text);
        }
        if let Some(alone) = self.alone.filter(|&alone| alone != nonce.app) {
            let text = format!("server {number}, which is for application {alone} alone, runs {nonce}");
            witness.accuse(Charge::TwoLoans, text);
        }
        if let Some(owner) = self.owner.filter(|&owner| owner != nonce.app) {
            let text = format!("server {number} runs {nonce} in the transaction of application {owner}");
            witness.accuse(Charge::LoanEndedEarly, text);
        }
        if let Some(other) = self.dirty.filter(|&other| other != nonce.app) {
            let text = format!("server {number} runs {nonce} with what application {other} left in the session");
            witness.accuse(Charge::LeftOver, text);
        }
        if self.unsure.is_some_and(|unsure| unsure != nonce.app) {
            self.unsure = None;
        }
        let (zone, mark) = zone_and_mark(&statement.zone);
        // DISCARD ALL has the same effect whatever the mark was.
        let discards = matches!(statement.verb, Verb::DropAll { is_discard: true });
        if discards && mark != self.vars.mark {
            witness.count("discarded what another had set");
        } else if mark != self.vars.mark && self.unsure.is_none() {
            let text = format!("server {number} runs {nonce} with mark {:?}, not {mark:?}", self.vars.mark);
            witness.accuse(Charge::LeftOver, text);
        }
        if let Some(other) = self.held.filter(|&other| other != nonce.app) {
            let text = format!("server {number} runs {nonce} with a lock of application {other}");
            witness.accuse(Charge::LeftOver, text);
        }
        if matches!(statement.verb, Verb::Execute { .. }) {
            witness.count("statements executed by SQL");
        }
        if let Some(other) = self.prepared.of_another(nonce.app).filter(|_| !discards) {
            let text = format!("server {number} runs {nonce} where {other} is prepared");
            witness.accuse(Charge::LeftOver, text);
        }
        if *zone != *self.vars.zone && self.unsure.is_none() {
            let text = format!("server {number} runs {nonce} with TimeZone {}, not {}", self.vars.zone, zone);
            witness.accuse(Charge::LeftOver, text);
        }
        let named = self.vars.application_name.strip_prefix("app").and_then(|name| name.parse().ok());
        if named.is_some_and(|named: u32| named != nonce.app) {
            let text = format!("server {number} runs {nonce} under the name {}", self.vars.application_name);
            witness.accuse(Charge::LeftOver, text);
        }
    }

    /// Runs a statement other than COPY FROM STDIN, from row `from` on. Returns the number of rows sent so far, or
    /// `None` if it failed.
    pub(super) fn run(&mut self, statement: &Statement, rows_max: u32, from: u32, describes: bool) -> Option<u32> {
        let nonce = statement.nonce;
        let ends = matches!(statement.verb, Verb::Commit | Verb::Rollback);
        if self.tx == TxStatus::Failed && !ends {
            self.fail("25P02", &format!("{nonce} current transaction is aborted"), !describes);
            return None;
        }
        let mut sent = from;
        let tag = statement.tag(self.tx == TxStatus::Failed);
        match &statement.verb {
            Verb::Rows { rows, size } => {
                if describes {
                    self.row_description();
                }
                let until = from.saturating_add(rows_max).min(*rows);
                for at in from..until {
                    let text = row_text(nonce, at, *rows, *size);
                    write::data_row(&mut self.out, [Some(&*text)].into_iter());
                }
                sent = until;
                if until < *rows {
                    write::bare(&mut self.out, backend::PORTAL_SUSPENDED);
                    return Some(sent);
                }
            }
            Verb::Fail => {
                self.fail("22012", &format!("{nonce} failed"), !describes);
                return None;
            }
            Verb::Write => {
                if !self.write(nonce) {
                    let text = format!("{nonce} cannot execute INSERT in a read-only transaction");
                    self.fail("25006", &text, !describes);
                    return None;
                }
            }
            Verb::Begin => {
                self.tx = TxStatus::Open;
                self.owner = Some(nonce.app);
            }
            Verb::Commit | Verb::Rollback => {
                if statement.verb == Verb::Rollback {
                    self.roll_back();
                }
                self.before = None;
                self.commit_channels();
                self.tx = TxStatus::Idle;
            }
            Verb::CopyOut { rows, size } => self.copy_out(nonce, *rows, *size),
            Verb::Notice => {
                let message = format!("{nonce} notices");
                let says =
                    write::Says { severity: "NOTICE", sqlstate: "00000", message: &message, detail: None, hint: None };
                write::notice(&mut self.out, says);
            }
            Verb::Zone { value } => {
                self.vars.zone.clone_from(value);
                self.vars.is_zone_set = true;
            }
            Verb::Dirty => self.dirty = self.is_session_mode.then_some(nonce.app),
            Verb::Mark => self.vars.mark = nonce.to_string(),
            Verb::Unmark => self.vars.mark.clear(),
            Verb::Hold => self.held = Some(nonce.app),
            Verb::Free => self.held = None,
            Verb::Listen { channel } | Verb::Join { channel } => {
                self.channels.will(Act::Listen { channel: channel.clone(), by: Some(nonce) });
            }
            Verb::Unlisten { channel } => {
                self.channels.will(Act::Unlisten { channel: channel.clone(), by: Some(nonce) });
            }
            Verb::Notify { channel, payload } => {
                let note = Note { channel: channel.clone(), payload: payload.to_string() };
                self.channels.will(Act::Notify(note));
            }
            Verb::DropAll { is_discard } => {
                if *is_discard {
                    self.channels.will(Act::Unlisten { channel: None, by: Some(nonce) });
                    self.vars.mark.clear();
                    self.held = None;
                }
                self.drop_statements();
            }
            Verb::Prepare(_) | Verb::Execute { .. } | Verb::Deallocate { name: Some(_) } => {
                if let Err((sqlstate, message)) = self.run_prepared(statement, describes) {
                    self.fail(sqlstate, &format!("{nonce} {message}"), !describes);
                    return None;
                }
            }
            Verb::Deallocate { name: None } => self.drop_statements(),
            Verb::Sleep { .. } | Verb::Last { .. } | Verb::CopyIn { .. } | Verb::Stream { .. } => {}
        }
        match tag {
            Some(tag) => write::command_complete(&mut self.out, tag),
            None => self.complete(nonce),
        }
        Some(sent)
    }

    fn copy_out(&mut self, nonce: Nonce, rows: u32, size: u32) {
        write::message(&mut self.out, backend::COPY_OUT_RESPONSE, |out| out.extend([0, 0, 0]));
        for at in 0..rows {
            let text = row_text(nonce, at, rows, size);
            write::message(&mut self.out, frontend::COPY_DATA, |out| out.extend(text.as_bytes()));
        }
        write::bare(&mut self.out, frontend::COPY_DONE);
    }

    /// Returns whether the session is in a failed transaction that no application has begun, in which every statement
    /// fails.
    pub(super) fn is_failed_by_another(&self) -> bool {
        self.tx == TxStatus::Failed && self.owner.is_none()
    }

    /// Runs a statement of the pooler itself. Returns whether it succeeded.
    pub(super) fn run_own(&mut self, text: &str, witness: &mut Witness) -> bool {
        witness.count("own statements");
        let is_introduction = matches!(text, "select 1" | "broken") && !self.is_physical;
        if self.alone.is_some() && !is_introduction {
            let text = format!("server {}, which is for one application alone, hears {text:?}", self.number);
            witness.accuse(Charge::LeftOver, text);
        }
        if let Some(rest) = text.strip_prefix("SET ") {
            let (name, value) = rest.split_once('=').unwrap_or_default();
            let value = value.trim_matches('\'');
            let is_known = match name {
                "TimeZone" if value == "Nowhere" => false,
                "TimeZone" => {
                    self.vars.zone = value.to_owned();
                    self.vars.is_zone_set = true;
                    true
                }
                "application_name" => {
                    self.vars.application_name = value.to_owned();
                    true
                }
                _ => true,
            };
            if !is_known {
                self.fail("22023", "invalid value for parameter", false);
                return false;
            }
        } else if text == "DISCARD ALL" {
            self.dirty = None;
            self.held = None;
            self.drop_statements();
            self.channels.discard();
            self.vars.clone_from(&self.started);
            write::command_complete(&mut self.out, drop_tag(true));
            return true;
        } else if text == drop_tag(false) {
            // The pooler's own DEALLOCATE ALL.
            self.drop_statements();
            write::command_complete(&mut self.out, drop_tag(false));
            return true;
        } else if let Some(mark) = text.strip_prefix("SELECT pg_catalog.set_config('app.mark','") {
            let mark = mark.trim_end_matches("',false)");
            if Nonce::read(mark).is_some_and(Nonce::is_refused_elsewhere) {
                self.fail("22023", "invalid value for parameter", false);
                return false;
            }
            self.vars.mark = mark.to_owned();
        } else if text == "RESET \"app\".\"mark\"" {
            self.vars.mark.clear();
        } else if text.contains("SELECT 's',name,") && self.vars.is_zone_set {
            write::data_row(&mut self.out, [Some("s"), Some("timezone"), Some(&*self.vars.zone), None].into_iter());
        } else if text.contains("SELECT 's',n,") && text.contains("'app.mark'") && !self.vars.mark.is_empty() {
            write::data_row(&mut self.out, [Some("s"), Some("app.mark"), Some(&*self.vars.mark), None].into_iter());
        } else if text.starts_with("SELECT 'l',") && self.held.is_some() {
            write::data_row(&mut self.out, [Some("l"), Some("1 0 1"), Some("ExclusiveLock"), None].into_iter());
        } else if text.contains("SELECT 'n',c,") {
            self.tell_channels();
        } else if text.contains(prepared::QUESTION) {
            self.tell_prepared();
        } else if let Some(done) = self.run_about_prepared(text) {
            witness.count("statements carried or dropped");
            if let Err((sqlstate, message)) = done {
                witness.count("statements that could not be");
                self.fail(sqlstate, &message, false);
                return false;
            }
        } else if self.run_about_channels(text) {
            // They take effect at the commit.
        } else if text == "ROLLBACK" {
            self.roll_back();
            self.tx = TxStatus::Idle;
        } else if text == "broken" {
            self.fail("42601", "syntax error", false);
            return false;
        }
        write::command_complete(&mut self.out, "OURS");
        true
    }
}
