//! The requests of an application, of any kind.
//!
//! Always true: the application sends only what is valid in the state that it believes its session to be in.
//! Not here: how a statement is sent, and the expected answers (`speaker`).

use wire::backend::{self, TxStatus};
use wire::write;

use super::belief::{Expect, Request, ZONES};
use super::speaker::{Speaker, execute, parse, pause};
use crate::postgres::sql::{Statement, Verb};

impl Speaker<'_> {
    /// A request of any kind that is allowed here.
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
        // The lock pins a server that others wait for.
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
        // The pooler may read a text with strings as a statement that may do anything, after which it cannot follow an
        // UNLISTEN.
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
            (habits.writes, |speaker| speaker.word(Verb::Write)),
            (habits.writes, |speaker| speaker.word(Verb::Write)),
            (habits.writes, |speaker| speaker.word(Verb::Write)),
            (habits.replicates, Self::stream),
            (habits.replicates, Self::stream),
        ] {
            if is_on {
                kinds.push(kind);
            }
        }
        if habits.prepares {
            // If these were drawn seldom, none of the names would ever exist.
            kinds.extend([Self::by_sql as fn(&mut Self) -> Request; 8]);
        }
        let kind = self.dice.pick(&kinds);
        let mut request = kind(self);
        request.last = *self.next;
        request
    }

    /// A request that may be sent before the login has ended.
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

    /// Several statements in one simple query.
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

    /// Several statements of the extended protocol and their `Sync`, perhaps with pauses.
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
                // It is sent and must not be answered.
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

    /// A batch whose answers are awaited before its `Sync` is sent, and perhaps before its statement is bound.
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

    /// A portal whose rows are fetched in two parts.
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
