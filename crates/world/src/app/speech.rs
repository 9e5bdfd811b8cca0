//! What an application says, and what it must be answered.
//!
//! Always true: an answer follows from the request and the transaction it is made in, so that whatever is different was
//! somebody else's, or is missing.
//! Not here: how answers are compared (`ear`).

use std::collections::VecDeque;

use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use super::named::Named;
use super::prepared::BySql;
use crate::plan::Habits;
use crate::postgres::sql::{Nonce, Statement, Verb};
use crate::sim::dice::Dice;

/// A message that must come, or something to be said when it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// A message without a content that tells anything.
    Bare(u8),
    Row {
        at: u32,
        of: u32,
        size: u32,
    },
    CopyRow {
        at: u32,
        of: u32,
        size: u32,
    },
    Complete,
    /// Rows, and the end of a table of the console.
    Table,
    /// A tag without a nonce.
    Tag(&'static str),
    Error(&'static str),
    Notice,
    Zone(String),
    Function,
    Ready(TxStatus),
    /// Not a message: now this is said.
    Say(Vec<u8>),
}

/// One request, ended by a `ReadyForQuery`.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) nonce: Nonce,
    /// What is so before it is run.
    pub(crate) before: Belief,
    /// What is said at once.
    pub(crate) bytes: Vec<u8>,
    /// The answers, each with the nonce of its statement.
    pub(crate) expects: VecDeque<(Nonce, Expect)>,
    /// Whether it goes on for long enough to be cancelled.
    pub(crate) is_long: bool,
    /// Syncs of it that a COPY ignores, or that are answered beside the last one if the COPY fails.
    pub(crate) early_syncs: u32,
    /// The number of its last statement.
    pub(crate) last: u32,
    /// Where it waits before it goes on: after so many bytes, for so many answers.
    pub(super) pauses: Vec<(usize, usize)>,
    /// A plan that it uses may be out of date by now.
    pub(super) is_old: bool,
    /// It only listens to a channel, so that it may need no server.
    pub(crate) joins: Option<String>,
}

/// What an application knows of its session.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub(crate) tx: TxStatus,
    pub(crate) zone: String,
    /// The TimeZone that its session began with.
    pub(super) began_in: String,
    /// What the TimeZone falls back to if the transaction does not go well.
    pub(crate) zone_before: String,
    /// What it has marked its session with.
    pub(crate) mark: String,
    pub(crate) mark_before: String,
    /// What its session began with, and has again when it takes its mark back.
    pub(crate) given: String,
    /// It may have a lock of its session.
    pub(crate) holds: bool,
    /// It may listen to something.
    pub(super) has_listened: bool,
    /// It has said that it leaves a channel, and its transaction has not ended.
    pub(super) is_leaving: bool,
    /// Nothing that it has said is unanswered: what goes wrong in front of an UNLISTEN leaves the pooler in doubt about that.
    pub(super) is_answered: bool,
    /// What it has notified last.
    pub(super) notified: Option<Nonce>,
    /// The TimeZone that it has been told, or will have been when everything is answered.
    pub(crate) told: String,
    pub(crate) named: Named,
    /// What it has prepared by SQL.
    pub(super) by_sql: BySql,
    /// The statement that it has given without a name, and said nothing since.
    pub(super) unnamed: Option<Statement>,
}

impl Belief {
    /// Outside a transaction.
    pub(crate) fn new(zone: &str) -> Self {
        let [zone, began_in, zone_before, told] = [(); 4].map(|()| zone.to_owned());
        let [mark, mark_before, given] = [(); 3].map(|()| String::new());
        Self {
            tx: TxStatus::Idle,
            zone,
            began_in,
            zone_before,
            mark,
            mark_before,
            given,
            holds: false,
            has_listened: false,
            is_leaving: false,
            is_answered: false,
            notified: None,
            told,
            named: Named::default(),
            by_sql: BySql::new(),
            unnamed: None,
        }
    }

    /// Its session begins with a mark.
    pub(crate) fn is_given(&mut self, mark: String) {
        (self.mark, self.mark_before) = (mark.clone(), mark.clone());
        self.given = mark;
    }

    /// A server has what a session began with when its transaction has begun, and in the middle of one it has not.
    pub(super) fn may_unmark(&self) -> bool {
        self.given.is_empty() || self.tx == TxStatus::Idle
    }

    /// Everything is answered.
    pub(crate) fn settle(&mut self) {
        self.named.settle(self.tx, &self.zone);
        self.is_leaving &= self.tx != TxStatus::Idle;
        self.is_answered = true;
    }

    fn come_into_zone(&mut self, zone: String) {
        if zone != self.zone {
            self.named.waver();
            self.zone = zone;
        }
    }

    /// Something has failed.
    pub(crate) fn fails(&mut self) {
        if self.tx != TxStatus::Idle {
            self.tx = TxStatus::Failed;
            self.mark.clone_from(&self.mark_before);
            self.come_into_zone(self.zone_before.clone());
        }
    }

    fn ends(&mut self, is_committed: bool) {
        if !is_committed {
            self.mark.clone_from(&self.mark_before);
            self.come_into_zone(self.zone_before.clone());
        }
        self.tx = TxStatus::Idle;
    }
}

/// Makes requests.
pub(crate) struct Speaker<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) habits: &'a Habits,
    pub(crate) app: u32,
    pub(crate) next: &'a mut u32,
    /// What is so when the request is run; afterwards, what it leaves.
    pub(crate) belief: &'a mut Belief,
}

impl Speaker<'_> {
    pub(super) fn statement(&mut self, verb: Verb) -> Statement {
        *self.next += 1;
        let zone = match &*self.belief.mark {
            "" => self.belief.zone.clone(),
            mark => format!("{}@{mark}", self.belief.zone),
        };
        Statement { nonce: Nonce { app: self.app, number: *self.next }, zone: zone.into(), verb }
    }

    pub(super) fn rows(&mut self) -> Verb {
        if self.dice.chance(self.habits.huge) {
            return Verb::Rows { rows: self.dice.among(10..=40) as u32, size: self.dice.among(10_000..=40_000) as u32 };
        }
        let size =
            if self.dice.chance(self.habits.big) { self.dice.among(1..=40_000) } else { self.dice.among(0..=60) };
        Verb::Rows { rows: self.dice.among(0..=4) as u32, size: size as u32 }
    }

    /// A request of any kind that may be made here.
    pub(crate) fn any(&mut self) -> Request {
        let habits = self.habits;
        if let Some(right) = habits.console {
            return self.at_the_console(right);
        }
        if let Some(statement) = self.belief.unnamed.take()
            && !self.belief.named.is_lost()
            && self.dice.chance(800)
        {
            let mut request = self.bind_unnamed(&statement);
            request.last = *self.next;
            return request;
        }
        // Others wait for the server that it keeps.
        if self.belief.holds && self.belief.tx == TxStatus::Idle {
            let mut request = self.query(Verb::Free);
            request.last = *self.next;
            return request;
        }
        if habits.sleeps > 0 {
            let mut request = self.query(Verb::Sleep { millis: habits.sleeps });
            request.last = *self.next;
            return request;
        }
        if habits.lasts.often > 0 && self.dice.chance(habits.lasts.often) {
            return self.last();
        }
        if self.wants_to_join() {
            return self.join();
        }
        // A text with strings may be one that takes back an UNLISTEN, where something has been said that may do anything.
        let may_mark = habits.marks && !self.belief.is_leaving;
        let mut kinds: Vec<fn(&mut Self) -> Request> = vec![Self::simple, Self::simple];
        for (is_on, kind) in [
            (habits.extended, (|speaker| speaker.batch(true)) as fn(&mut Self) -> Request),
            (habits.flush, Self::flushed),
            (habits.suspend, Self::suspended),
            (habits.functions && !self.belief.is_leaving, Self::function),
            (habits.copies, Self::copy_in),
            (habits.copies, Self::copy_out),
            (habits.copies && habits.extended, Self::copy_in_extended),
            (habits.several, Self::several),
            (habits.zones, Self::zone),
            (habits.cancels > 0, Self::sleep),
            (habits.dirty, |speaker| speaker.query(Verb::Dirty)),
            (may_mark, |speaker| speaker.query(Verb::Mark)),
            (may_mark && self.belief.may_unmark(), |speaker| speaker.query(Verb::Unmark)),
            (habits.marks && !self.belief.holds, |speaker| speaker.query(Verb::Hold)),
            (self.belief.holds, |speaker| speaker.query(Verb::Free)),
            (habits.listens, Self::listen_or_leave),
            (habits.listens, Self::notify),
            (habits.listens, Self::notify),
            (habits.prepares && !habits.named && self.dice.chance(200), Self::drop_all),
            (habits.named, Self::named),
            (habits.named, Self::named),
            (habits.named && self.belief.tx != TxStatus::Failed, Self::give_unnamed),
            (habits.named && self.dice.chance(200), Self::drop_all),
            (habits.replicates, Self::stream),
            (habits.replicates, Self::stream),
        ] {
            if is_on {
                kinds.push(kind);
            }
        }
        if habits.prepares {
            // Seldom, none of its names would ever be there.
            kinds.extend([Self::by_sql as fn(&mut Self) -> Request; 8]);
        }
        let kind = self.dice.pick(&kinds);
        let mut request = kind(self);
        request.last = *self.next;
        request
    }

    /// A request of the kind that may be made before anybody has answered.
    pub(crate) fn early(&mut self) -> Request {
        if let Some(right) = self.habits.console {
            return self.at_the_console(right);
        }
        if self.wants_to_join() {
            return self.join();
        }
        let mut request = if self.habits.extended { self.batch(false) } else { self.simple() };
        request.last = *self.next;
        request
    }

    /// A transaction's first or last word.
    pub(crate) fn word(&mut self, verb: Verb) -> Request {
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
        }
    }

    fn numbered(&self, mut request: Request, statement: &Statement) -> Request {
        request.nonce = statement.nonce;
        request.last = statement.nonce.number;
        request
    }

    pub(super) fn ready(&mut self, request: &mut Request) {
        if self.belief.told != self.belief.zone {
            self.belief.told.clone_from(&self.belief.zone);
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

    /// Now and then it waits for what it has said to be answered before it goes on.
    pub(super) fn may_pause(&mut self, request: &mut Request) {
        if self.habits.flush && self.dice.chance(200) {
            pause(request);
        }
    }

    /// What a statement is answered; whether it goes well.
    pub(super) fn run(&mut self, request: &mut Request, statement: &Statement, describes: bool) -> bool {
        let nonce = statement.nonce;
        let mut expect = |expect| request.expects.push_back((nonce, expect));
        let ends = matches!(statement.verb, Verb::Commit | Verb::Rollback);
        if self.belief.tx == TxStatus::Failed && !ends {
            expect(Expect::Error("25P02"));
            return false;
        }
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
            Verb::Last { .. } | Verb::Dirty | Verb::CopyIn { .. } | Verb::Stream { .. } => {}
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

    fn simple(&mut self) -> Request {
        if self.dice.chance(30) {
            let mut request = self.blank();
            request.nonce = self.statement(Verb::Notice).nonce;
            write::query(&mut request.bytes, " ");
            request.expects.push_back((request.nonce, Expect::Bare(backend::EMPTY_QUERY_RESPONSE)));
            self.ready(&mut request);
            return request;
        }
        let verb = match self.dice.among(0..=19) {
            0 if self.habits.errors => Verb::Fail,
            1 => Verb::Notice,
            _ => self.rows(),
        };
        self.query(verb)
    }

    fn zone(&mut self) -> Request {
        let value = self.dice.pick(&ZONES).to_owned();
        self.query(Verb::Zone { value })
    }

    /// Several statements in one query.
    fn several(&mut self) -> Request {
        let mut request = self.blank();
        let statements: Vec<Statement> = (0..self.dice.among(2..=4))
            .map(|_| {
                let fails = self.habits.errors && self.dice.chance(100);
                let verb = if fails { Verb::Fail } else { self.rows() };
                self.statement(verb)
            })
            .collect();
        let texts: Vec<String> = statements.iter().map(ToString::to_string).collect();
        request.nonce = statements[0].nonce;
        write::query(&mut request.bytes, &texts.join("; "));
        for statement in &statements {
            if !self.run(&mut request, statement, true) {
                break;
            }
        }
        self.ready(&mut request);
        request
    }

    /// Parse, Bind, Describe, Execute; whether it goes well.
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

    /// Several statements of the extended protocol and their Sync, perhaps not in one go.
    fn batch(&mut self, may_pause: bool) -> Request {
        let mut request = self.blank();
        let mut is_well = true;
        for _ in 0..self.dice.among(1..=4) {
            let fails = self.habits.errors && self.dice.chance(80);
            let verb = if fails { Verb::Fail } else { self.rows() };
            let statement = self.statement(verb);
            if is_well {
                is_well = self.run_extended(&mut request, &statement);
            } else {
                // It is said and must not be answered.
                let mut unheard = self.blank();
                self.open(&mut unheard.bytes, &statement);
                execute(&mut unheard.bytes, 0);
                request.bytes.extend(unheard.bytes);
            }
            if may_pause {
                self.may_pause(&mut request);
            }
        }
        self.sync(&mut request);
        request
    }

    /// A batch whose answers are waited for before its Sync is sent, and perhaps before its statement is bound.
    fn flushed(&mut self) -> Request {
        let mut request = self.blank();
        let fails = self.habits.errors && self.dice.chance(200);
        let verb = if fails { Verb::Fail } else { self.rows() };
        let statement = self.statement(verb);
        request.nonce = statement.nonce;
        parse(&mut request.bytes, &statement);
        request.expects.push_back((statement.nonce, Expect::Bare(backend::PARSE_COMPLETE)));
        self.may_pause(&mut request);
        self.bind_it(&mut request.bytes, &statement);
        execute(&mut request.bytes, 0);
        request.expects.push_back((statement.nonce, Expect::Bare(backend::BIND_COMPLETE)));
        self.run(&mut request, &statement, false);
        pause(&mut request);
        self.sync(&mut request);
        request
    }

    /// Rows fetched piece by piece.
    fn suspended(&mut self) -> Request {
        let mut request = self.blank();
        let rows = self.dice.among(2..=6) as u32;
        let statement = self.statement(Verb::Rows { rows, size: 10 });
        request.nonce = statement.nonce;
        self.open(&mut request.bytes, &statement);
        for kind in [backend::PARSE_COMPLETE, backend::BIND_COMPLETE] {
            request.expects.push_back((statement.nonce, Expect::Bare(kind)));
        }
        execute(&mut request.bytes, 1);
        if self.belief.tx == TxStatus::Failed {
            request.expects.push_back((statement.nonce, Expect::Error("25P02")));
        } else {
            execute(&mut request.bytes, 0);
            request.expects.push_back((statement.nonce, Expect::Row { at: 0, of: rows, size: 10 }));
            request.expects.push_back((statement.nonce, Expect::Bare(backend::PORTAL_SUSPENDED)));
            (1..rows).for_each(|at| {
                request.expects.push_back((statement.nonce, Expect::Row { at, of: rows, size: 10 }));
            });
            request.expects.push_back((statement.nonce, Expect::Complete));
        }
        self.sync(&mut request);
        request
    }
}

/// Everything that has been said is to be answered now, and nothing more is said before, if there is anything new to be answered.
fn pause(request: &mut Request) {
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

/// Time zones that applications set.
pub(crate) const ZONES: [&str; 3] = ["UTC", "Europe/Paris", "Asia/Tokyo"];
