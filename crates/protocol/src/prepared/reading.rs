//! Prepares a statement under the parameters under which its client has given it, whatever the client has set since.
//!
//! Always true: the answers to what is sent for that are hidden, and it is undone with the rest of the client's batch or
//! transaction if anything of it fails; a statement that cannot be read as it was given gets another number.
//! Not here: which parameters those are (`names`), how they are written down (`vars`).

use std::rc::Rc;

use wire::{frontend, write};

use super::Bytes;
use super::messages::{push_close, push_name};
use super::server_statements::{ServerStatements, Sides};
use super::statement::Statement;
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::vars::changes_of_dialect;

impl ServerStatements {
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
