//! How an application sends a statement, and which answer it expects from what it knows of its session.
//!
//! Always true: a request is whole: its bytes, and every message expected in answer.
//! Not here: which statements the application sends (`speech`, `named`, `prepared`, `channels`, ...).

use std::collections::VecDeque;

use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use super::belief::{Belief, Effect, Expect, Request};
use crate::plan::Habits;
use crate::postgres::sql::{Nonce, Prepared, Statement, Verb};
use crate::sim::dice::Dice;

/// Builds requests.
pub(crate) struct Speaker<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) habits: &'a Habits,
    pub(crate) app: u32,
    pub(crate) next: &'a mut u32,
    /// The state of the session when the request is run; afterwards, the state that it leaves.
    pub(crate) belief: &'a mut Belief,
}

impl Speaker<'_> {
    pub(super) fn statement(&mut self, verb: Verb) -> Statement {
        *self.next += 1;
        let zone = match &*self.belief.mark {
            "" => self.belief.zone.clone(),
            mark => format!("{}@{mark}", self.belief.zone),
        };
        let may_be_traced = matches!(
            verb,
            Verb::Rows { .. }
                | Verb::Fail
                | Verb::Begin
                | Verb::Sleep { .. }
                | Verb::Last { .. }
                | Verb::CopyOut { .. }
        );
        let is_traced = self.habits.traces && may_be_traced && !self.next.is_multiple_of(3);
        Statement { nonce: Nonce { app: self.app, number: *self.next }, zone: zone.into(), verb, is_traced }
    }

    pub(super) fn rows(&mut self) -> Verb {
        if self.dice.chance(self.habits.huge) {
            return Verb::Rows { rows: self.dice.among(10..=40) as u32, size: self.dice.among(10_000..=40_000) as u32 };
        }
        let size =
            if self.dice.chance(self.habits.big) { self.dice.among(1..=40_000) } else { self.dice.among(0..=60) };
        Verb::Rows { rows: self.dice.among(0..=4) as u32, size: size as u32 }
    }

    /// A request of one statement, by simple or extended query.
    pub(super) fn word(&mut self, verb: Verb) -> Request {
        self.belief.unnamed = None;
        let mut request = self.blank();
        let is_extended = self.habits.extended && self.dice.chance(300);
        let statement = self.statement(verb);
        if is_extended {
            self.run_extended(&mut request, &statement);
            self.sync(&mut request);
        } else {
            write::query(&mut request.bytes, &statement.to_string());
            self.run(&mut request, &statement, true);
            self.ready(&mut request);
        }
        self.numbered(request, &statement)
    }

    pub(super) fn blank(&self) -> Request {
        Request {
            nonce: Nonce::default(),
            before: self.belief.clone(),
            bytes: Vec::new(),
            expects: VecDeque::new(),
            is_long: false,
            early_syncs: 0,
            last: 0,
            pauses: Vec::new(),
            is_old: false,
            joins: None,
            effect: Effect::None,
        }
    }

    pub(super) fn numbered(&self, mut request: Request, statement: &Statement) -> Request {
        request.nonce = statement.nonce;
        request.last = statement.nonce.number;
        request
    }

    pub(super) fn ready(&mut self, request: &mut Request) {
        if self.belief.reported_zone != self.belief.zone {
            self.belief.reported_zone.clone_from(&self.belief.zone);
            request.expects.push_back((request.nonce, Expect::Zone(self.belief.zone.clone())));
        }
        request.expects.push_back((request.nonce, Expect::Ready(self.belief.tx)));
    }

    pub(super) fn sync(&mut self, request: &mut Request) {
        write::bare(&mut request.bytes, frontend::SYNC);
        for (at, answers) in request.pauses.drain(..).rev() {
            let rest = request.bytes.split_off(at);
            request.expects.insert(answers, (request.nonce, Expect::Say(rest)));
        }
        self.ready(request);
    }

    /// Now and then waits for the answers so far before the rest is sent.
    pub(super) fn may_pause(&mut self, request: &mut Request) {
        if self.habits.flush && self.dice.chance(200) {
            pause(request);
        }
    }

    /// Adds the expected answers to a statement. Returns whether it succeeds.
    pub(super) fn run(&mut self, request: &mut Request, statement: &Statement, describes: bool) -> bool {
        let nonce = statement.nonce;
        let mut expect = |expect| request.expects.push_back((nonce, expect));
        let ends = matches!(statement.verb, Verb::Commit | Verb::Rollback);
        if self.belief.tx == TxStatus::Failed && !ends {
            expect(Expect::Error("25P02"));
            return false;
        }
        request.effect = match statement.verb {
            Verb::Write => Effect::Writes,
            Verb::Commit if self.belief.tx == TxStatus::Open => Effect::Commits,
            Verb::Commit | Verb::Rollback => Effect::Drops,
            _ => request.effect,
        };
        let mut expect = |expect| request.expects.push_back((nonce, expect));
        let complete = statement.tag(self.belief.tx == TxStatus::Failed).map_or(Expect::Complete, Expect::Tag);
        match &statement.verb {
            Verb::Rows { rows, size } => {
                if describes {
                    expect(Expect::Bare(backend::ROW_DESCRIPTION));
                }
                (0..*rows).for_each(|at| expect(Expect::Row { at, of: *rows, size: *size }));
            }
            Verb::Fail => {
                expect(Expect::Error("22012"));
                self.belief.fails();
                return false;
            }
            Verb::Begin => {
                self.belief.tx = TxStatus::Open;
                self.belief.notified = None;
                self.belief.zone_before.clone_from(&self.belief.zone);
                self.belief.mark_before.clone_from(&self.belief.mark);
            }
            Verb::Commit | Verb::Rollback => self.belief.ends(statement.verb == Verb::Commit),
            Verb::CopyOut { rows, size } => {
                expect(Expect::Bare(backend::COPY_OUT_RESPONSE));
                (0..*rows).for_each(|at| expect(Expect::CopyRow { at, of: *rows, size: *size }));
                expect(Expect::Bare(frontend::COPY_DONE));
            }
            Verb::Notice => expect(Expect::Notice),
            Verb::Zone { value } => self.belief.come_into_zone(value.clone()),
            Verb::Sleep { .. } => request.is_long = true,
            Verb::Mark => self.belief.mark = nonce.to_string(),
            Verb::Unmark => self.belief.mark.clone_from(&self.belief.given),
            Verb::Hold => self.belief.holds = true,
            Verb::Free => self.belief.holds = false,
            Verb::Listen { .. } | Verb::Join { .. } => self.belief.has_listened = true,
            Verb::Unlisten { .. } => self.belief.is_leaving = true,
            Verb::Notify { payload, .. } => self.belief.notified = Some(*payload),
            Verb::DropAll { is_discard } => {
                if *is_discard {
                    self.belief.is_leaving = self.belief.has_listened;
                    self.belief.mark.clone_from(&self.belief.given);
                    self.belief.holds = false;
                }
                self.belief.by_sql.clear();
            }
            Verb::Prepare(_) | Verb::Execute { .. } | Verb::Deallocate { .. } => {
                return self.run_by_sql(request, statement, describes);
            }
            Verb::Write | Verb::Last { .. } | Verb::Dirty | Verb::CopyIn { .. } | Verb::Stream { .. } => {}
        }
        request.expects.push_back((nonce, complete));
        true
    }

    pub(super) fn query(&mut self, verb: Verb) -> Request {
        let mut request = self.blank();
        let statement = self.statement(verb);
        request.nonce = statement.nonce;
        write::query(&mut request.bytes, &statement.to_string());
        self.run(&mut request, &statement, true);
        self.ready(&mut request);
        request
    }

    /// `Parse`, `Bind`, `Describe`, `Execute`. Returns whether the statement succeeds.
    pub(super) fn run_extended(&mut self, request: &mut Request, statement: &Statement) -> bool {
        request.nonce = statement.nonce;
        self.open(&mut request.bytes, statement);
        write::message(&mut request.bytes, frontend::DESCRIBE, |out| out.extend(b"P\0"));
        execute(&mut request.bytes, 0);
        for kind in [backend::PARSE_COMPLETE, backend::BIND_COMPLETE] {
            request.expects.push_back((statement.nonce, Expect::Bare(kind)));
        }
        let described = if self.is_of_rows(&statement.verb) { backend::ROW_DESCRIPTION } else { backend::NO_DATA };
        request.expects.push_back((statement.nonce, Expect::Bare(described)));
        self.run(request, statement, false)
    }

    pub(super) fn open(&self, out: &mut Vec<u8>, statement: &Statement) {
        parse(out, statement);
        self.bind_it(out, statement);
    }

    pub(super) fn bind_it(&self, out: &mut Vec<u8>, statement: &Statement) {
        let value = statement.nonce.to_string();
        write::message(out, frontend::BIND, |out| {
            out.extend([0, 0, 0, 0, 0, 1]);
            out.extend((value.len() as u32).to_be_bytes());
            out.extend(value.as_bytes());
            out.extend([0, 0]);
        });
    }

    /// Adds the expected answers to a PREPARE, EXECUTE or DEALLOCATE. Returns whether it succeeds.
    pub(super) fn run_by_sql(&mut self, request: &mut Request, statement: &Statement, describes: bool) -> bool {
        let nonce = statement.nonce;
        let by_sql = &mut self.belief.by_sql;
        let failure = match &statement.verb {
            Verb::Prepare(Prepared { name, .. }) if by_sql.contains_key(name) => Some("42P05"),
            Verb::Execute { name } | Verb::Deallocate { name: Some(name) } if !by_sql.contains_key(name) => {
                Some("26000")
            }
            _ => None,
        };
        if let Some(sqlstate) = failure {
            request.expects.push_back((nonce, Expect::Error(sqlstate)));
            self.belief.fails();
            return false;
        }
        match &statement.verb {
            Verb::Prepare(prepared) => drop(by_sql.insert(prepared.name.clone(), prepared.clone())),
            Verb::Deallocate { name: Some(name) } => drop(by_sql.remove(name)),
            Verb::Deallocate { name: None } => by_sql.clear(),
            Verb::Execute { name } => {
                if describes {
                    request.expects.push_back((nonce, Expect::Bare(backend::ROW_DESCRIPTION)));
                }
                if let Some(Prepared { key, rows, .. }) = by_sql.get(name) {
                    let row = |at| (*key, Expect::Row { at, of: *rows, size: 0 });
                    request.expects.extend((0..*rows).map(row));
                }
            }
            _ => {}
        }
        let complete = statement.tag(false).map_or(Expect::Complete, Expect::Tag);
        request.expects.push_back((nonce, complete));
        true
    }

    /// Returns whether `Describe` of the statement's portal is answered with a `RowDescription`.
    pub(super) fn is_of_rows(&self, verb: &Verb) -> bool {
        match verb {
            Verb::Rows { .. } => true,
            Verb::Execute { name } => self.belief.by_sql.contains_key(name),
            _ => false,
        }
    }
}

/// Adds a `Flush` and waits for the answers to all messages so far, if any of them is new.
pub(super) fn pause(request: &mut Request) {
    let awaited = request.pauses.last().map_or(0, |&(_, answers)| answers);
    if awaited < request.expects.len() {
        write::bare(&mut request.bytes, frontend::FLUSH);
        request.pauses.push((request.bytes.len(), request.expects.len()));
    }
}

pub(super) fn execute(out: &mut Vec<u8>, rows_max: u32) {
    write::message(out, frontend::EXECUTE, |out| {
        out.push(0);
        out.extend(rows_max.to_be_bytes());
    });
}

pub(super) fn parse(out: &mut Vec<u8>, statement: &Statement) {
    write::message(out, frontend::PARSE, |out| {
        out.push(0);
        write::c_string(out, &statement.to_string());
        out.extend([0, 0]);
    });
}
