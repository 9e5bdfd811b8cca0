//! Requests that use named prepared statements.
//!
//! Always true: the application sends only what would succeed on a direct connection, or would be skipped there; it
//! does not touch a name whose meaning depends on an outstanding answer.
//! Not here: all other requests (`speech`).

use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use super::belief::{Expect, Request};
use super::names::{Means, NAMES};
use super::speaker::{Speaker, execute, parse};
use crate::postgres::sql::{Statement, Verb, named_text};

impl Speaker<'_> {
    /// Several messages about named statements, and their `Sync`.
    pub(super) fn named(&mut self) -> Request {
        let mut request = self.blank();
        request.nonce = self.statement(Verb::Notice).nonce;
        let before = self.belief.named.clone();
        // `seen` is what the pooler believes as long as it has not seen an error, `real` is what holds in PostgreSQL.
        let (mut seen, mut real) = (before.names, before.names);
        let mut is_well = true;
        for _ in 0..self.dice.among(1..=5) {
            if self.habits.errors && self.dice.chance(100) {
                let statement = self.statement(Verb::Fail);
                let mut failing = self.blank();
                let goes_well = is_well && self.run_extended(&mut failing, &statement);
                say(&mut request, failing, is_well);
                is_well &= goes_well;
            }
            let place = self.dice.among(0..=NAMES as u64 - 1) as usize;
            let means = seen[place].means;
            if before.lost > 0 || seen[place].hangs || before.is_dropped && means != Means::Nothing {
                continue;
            }
            let mut step = self.blank();
            let mut meant = self.step(&mut step, place, means);
            let is_bad = meant == Means::Unsure;
            seen[place].means = meant;
            say(&mut request, step, is_well);
            self.may_pause(&mut request);
            if is_bad {
                // It has failed, unless it was skipped. The pooler may know the name or not.
                seen[place].hangs = true;
                meant = Means::Nothing;
                if is_well {
                    self.belief.fails();
                }
            }
            if is_well {
                real[place].means = meant;
            }
            is_well &= !is_bad;
            if let (Means::Rows(rows), false) = (meant, before.is_dropped) {
                self.use_name(&mut request, place, rows, &mut is_well);
            }
        }
        for (place, name) in self.belief.named.names.iter_mut().enumerate() {
            name.means = real[place].means;
            name.hangs |= seen[place].hangs || seen[place].means != real[place].means;
        }
        self.sync(&mut request);
        request
    }

    /// Sends `Close` or `Parse`. Returns what the name means afterwards: `Unsure` if the `Parse` must fail.
    fn step(&mut self, step: &mut Request, place: usize, means: Means) -> Means {
        let nonce = self.statement(Verb::Notice).nonce;
        let mut expect = |kind| step.expects.push_back((nonce, Expect::Bare(kind)));
        let closes = match means {
            Means::Rows(_) => self.dice.chance(250),
            Means::Unsure => true,
            Means::Nothing => self.dice.chance(50),
        };
        if let (Means::Rows(_), false) = (means, closes) {
            return means;
        }
        if closes {
            expect(backend::CLOSE_COMPLETE);
            write::message(&mut step.bytes, frontend::CLOSE, |out| {
                out.push(b'S');
                write::c_string(out, &name(place));
            });
        }
        if closes && means != Means::Unsure && self.dice.chance(500) {
            return Means::Nothing;
        }
        let is_bad = self.habits.errors && self.dice.chance(80);
        let rows = self.dice.among(0..=5) as u32;
        let text = if is_bad { format!("BAD n={nonce} end") } else { named_text(rows) };
        write::message(&mut step.bytes, frontend::PARSE, |out| {
            write::c_string(out, &name(place));
            write::c_string(out, &text);
            out.extend([0, 0]);
        });
        if is_bad {
            step.expects.push_back((nonce, Expect::Error("42601")));
            return Means::Unsure;
        }
        expect(backend::PARSE_COMPLETE);
        Means::Rows(rows)
    }

    fn use_name(&mut self, request: &mut Request, place: usize, rows: u32, is_well: &mut bool) {
        let statement = self.statement(Verb::Rows { rows, size: rows });
        let nonce = statement.nonce;
        let mut step = self.blank();
        let mut expect = |kind| step.expects.push_back((nonce, Expect::Bare(kind)));
        if self.dice.chance(200) {
            write::message(&mut step.bytes, frontend::DESCRIBE, |out| {
                out.push(b'S');
                write::c_string(out, &name(place));
            });
            expect(backend::PARAMETER_DESCRIPTION);
            expect(backend::ROW_DESCRIPTION);
            say(request, step, *is_well);
            self.may_pause(request);
            step = self.blank();
        }
        if self.dice.chance(900) {
            step.expects.push_back((nonce, Expect::Bare(backend::BIND_COMPLETE)));
            // The table has changed meanwhile, so the plan is out of date. An application that had pipelined more could
            // not tell what became of the rest.
            let says_only = |(_, expect): &(_, Expect)| {
                matches!(expect, Expect::Bare(backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE))
            };
            let chance = if request.expects.iter().all(says_only) { 200 } else { 20 };
            let is_alone = self.habits.pipelines == 0 && self.belief.tx == TxStatus::Idle && *is_well;
            let is_old = is_alone && self.dice.chance(chance);
            request.is_old |= is_old;
            self.bind(&mut step.bytes, place, &statement, is_old);
            if self.dice.chance(if is_old { 800 } else { 100 }) {
                write::message(&mut step.bytes, frontend::DESCRIBE, |out| out.extend([b'P', 0]));
                step.expects.push_back((nonce, Expect::Bare(backend::ROW_DESCRIPTION)));
            }
            execute(&mut step.bytes, 0);
        }
        let runs = step.bytes.ends_with(&[0; 4]);
        say(request, step, *is_well);
        if runs && *is_well {
            *is_well = self.run(request, &statement, false);
        }
        self.may_pause(request);
    }

    fn bind(&self, out: &mut Vec<u8>, place: usize, statement: &Statement, is_old: bool) {
        let is_sure = self.belief.named.zone.is_some();
        let (sure, old) = (if is_sure { " sure" } else { "" }, if is_old { " old" } else { "" });
        let value = format!("{} {}{sure}{old}", statement.nonce, statement.zone);
        write::message(out, frontend::BIND, |out| {
            out.push(0);
            write::c_string(out, &name(place));
            out.extend([0, 0, 0, 1]);
            out.extend((value.len() as u32).to_be_bytes());
            out.extend(value.as_bytes());
            out.extend([0, 0]);
        });
    }

    /// Parses the unnamed statement, which is bound with the next request, if at all.
    pub(super) fn give_unnamed(&mut self) -> Request {
        let mut request = self.blank();
        let verb = self.rows();
        let statement = self.statement(verb);
        request.nonce = statement.nonce;
        parse(&mut request.bytes, &statement);
        request.expects.push_back((statement.nonce, Expect::Bare(backend::PARSE_COMPLETE)));
        self.sync(&mut request);
        self.belief.unnamed = Some(statement);
        request
    }

    /// Binds and executes the unnamed statement.
    pub(super) fn bind_unnamed(&mut self, statement: &Statement) -> Request {
        let mut request = self.blank();
        request.nonce = statement.nonce;
        self.bind_it(&mut request.bytes, statement);
        execute(&mut request.bytes, 0);
        request.expects.push_back((statement.nonce, Expect::Bare(backend::BIND_COMPLETE)));
        self.run(&mut request, statement, false);
        self.sync(&mut request);
        request
    }

    /// DISCARD ALL or DEALLOCATE ALL, which drops all prepared statements of the session.
    pub(super) fn drop_all(&mut self) -> Request {
        // DISCARD ALL of the simulated PostgreSQL does not reset the TimeZone.
        let has_first_zone =
            [&self.belief.zone, &self.belief.zone_before].iter().all(|zone| **zone == self.belief.began_in);
        let is_told = self.belief.is_answered || !self.habits.listens;
        let may_discard = self.belief.may_unmark() && is_told && has_first_zone;
        let mut verb = Verb::DropAll { is_discard: self.dice.chance(500) && may_discard };
        if self.habits.prepares && self.dice.chance(500) {
            verb = Verb::Deallocate { name: None };
        }
        let was_failed = self.belief.tx == TxStatus::Failed;
        let request = self.query(verb);
        if !was_failed {
            let named = &mut self.belief.named;
            for name in &mut named.names {
                // Until this is answered the pooler does not know it.
                name.hangs |= name.means != Means::Nothing;
                name.means = Means::Nothing;
            }
            named.is_dropped = true;
        }
        request
    }
}

/// Appends messages to a request; their answers are expected unless an earlier message has failed.
fn say(request: &mut Request, step: Request, is_well: bool) {
    request.bytes.extend(step.bytes);
    if is_well {
        request.expects.extend(step.expects);
    }
}

fn name(place: usize) -> String {
    format!("name {place}")
}
