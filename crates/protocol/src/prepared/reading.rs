//! Finds the statement of a name, and prepares it under the parameters under which its client has given it, whatever the
//! client has set since.
//!
//! Always true: the answers to what is sent for that are hidden, and it is undone with the rest of the client's batch or
//! transaction if anything of it fails; a statement that cannot be read as it was given gets another number.
//! Not here: which parameters those are (`names`), how they are written down (`vars`).

use std::rc::Rc;

use wire::{frontend, write};

use super::messages::{push_close, push_name};
use super::server_statements::{ServerStatements, Sides, State};
use super::shape::Used;
use super::statement::Statement;
use super::{Bytes, is_ours, shown};
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::vars::changes_of_dialect;

impl ServerStatements {
    /// Returns the statement of a name, which the server has or is sent now. `None` when the server has to report that
    /// there is none.
    pub(super) fn prepared(&mut self, name: &[u8], sides: &mut Sides<'_>) -> Result<Option<Used>, Fault> {
        // A failed transaction refuses to prepare anything anew. What was prepared in this loan is what PostgreSQL would
        // have, in doubt or not, and whatever the parameters are since.
        let kept = if sides.exchange.stays_failed() { sides.names.last_read(name) } else { None };
        let kept = kept.filter(|used| self.is_kept(&used.statement, sides.exchange));
        let is_kept = kept.is_some();
        let found = match kept {
            Some(used) => Some(used),
            None => sides.names.find(name, &sides.dialect, sides.is_settled, sides.statement_registry)?,
        };
        let Some(mut used) = found else {
            let is_server_s = sides.names.has_failed(name) || sides.names.has_by_sql(name);
            self.clear_own(name, sides);
            return match is_server_s || sides.follows && !is_ours(name) {
                true => Ok(None),
                false => Err(Fault::StatementUnknown { name: shown(name) }),
            };
        };
        if self.gives_own(name, used.named_by, sides.exchange.epoch()) {
            // The server has it under that name, whichever client has given it.
            return Ok(None);
        }
        if let Some(here) = self.has(&used.statement, used.named_by, sides.exchange.epoch()) {
            used.here = here;
            return Ok(Some(used));
        }
        if is_kept {
            return Ok(Some(used));
        }
        // Where no answer can be hidden, the server has to report that it has no such statement.
        if !sides.exchange.may_step() {
            return Ok(Some(used));
        }
        if self.is_contested(used.statement.id()) {
            return Err(Fault::StatementInUse { name: shown(name) });
        }
        used.statement = self.prepare_as_given(used.statement, name, used.named_by, sides)?;
        Ok(Some(used))
    }

    /// Whether the server has confirmed that it has the statement.
    pub(super) fn is_confirmed(&self, statement: &Statement) -> bool {
        self.held.get(&statement.id()).is_some_and(|held| held.state == State::Sure)
    }

    /// Whether the server is in a failed transaction, nothing unanswered may end that, and the server was sent the statement in
    /// this loan, and has no other under its name.
    pub(super) fn is_kept(&self, statement: &Statement, exchange: &Exchange) -> bool {
        exchange.stays_failed()
            && self
                .held
                .get(&statement.id())
                .is_some_and(|held| held.loan == self.loan && held.state != State::Displaced)
    }

    /// Sends the server a statement that it lacks, to be read as its client has given it.
    pub(super) fn prepare_as_given(
        &mut self,
        statement: Statement,
        name: &[u8],
        named_by: u64,
        sides: &mut Sides<'_>,
    ) -> Result<Statement, Fault> {
        let readings = changes_of_reading(&statement, sides);
        let statement = if readings.is_some() {
            statement
        } else {
            // No other client must get a statement that is read otherwise.
            let anew = sides.names.read_anew(name, &sides.dialect, sides.statement_registry)?;
            let anew = anew.ok_or(Fault::StatementsFull)?;
            if self.has(&anew, named_by, sides.exchange.epoch()).is_some() {
                return Ok(anew);
            }
            anew
        };
        let step = self.tick();
        let (before, after) = readings.unwrap_or_default();
        self.set_by_the_way(&before, sides.exchange, sides.out);
        self.prepare(statement.clone(), step, None, sides);
        self.set_by_the_way(&after, sides.exchange, sides.out);
        Ok(statement)
    }

    /// Makes the server run commands between the client's messages, with hidden answers. If one fails, they are undone
    /// with the rest of the batch.
    pub(super) fn set_by_the_way(&mut self, commands: &[String], exchange: &mut Exchange, into: &mut Vec<Bytes>) {
        if commands.is_empty() {
            return;
        }
        let mut out = Vec::new();
        for sql in commands {
            // Closing what is not there is no error. The unnamed portal is the client's.
            push_close(&mut out, READING);
            write::message(&mut out, frontend::CLOSE, |out| {
                out.push(b'P');
                push_name(out, READING);
            });
            write::parse(&mut out, READING, sql, std::iter::empty());
            write::message(&mut out, frontend::BIND, |out| {
                push_name(out, READING);
                push_name(out, READING);
                out.extend_from_slice(&[0; 6]);
            });
            write::message(&mut out, frontend::EXECUTE, |out| {
                push_name(out, READING);
                out.extend_from_slice(&[0; 4]);
            });
            (0..5).for_each(|_| self.expect_hidden(exchange));
        }
        push_close(&mut out, READING);
        self.expect_hidden(exchange);
        into.push(Bytes::Own(out));
    }
}

/// The commands that make the server read a statement as it was given, and those that undo them; none where the server
/// reads it so anyway. `None` where the dialect in which it was given cannot be restored.
fn changes_of_reading(statement: &Statement, sides: &Sides<'_>) -> Option<(Vec<String>, Vec<String>)> {
    let (given, now) = (statement.dialect(), &sides.dialect);
    if !sides.is_settled || Rc::ptr_eq(given, now) || **given == **now {
        return Some(Default::default());
    }
    let changes = |from, to| changes_of_dialect(from, to, sides.tracked);
    Some((changes(now, given)?, changes(given, now)?))
}

/// The name of the statement and the portal of our commands between messages of the client; no client uses such a name.
const READING: &[u8] = b"TRUNKLINE_STATE_READING";
