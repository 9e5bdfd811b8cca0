//! Which programs are fair: those whose answers cannot depend on the server on which they run. The complete rules:
//!
//! 1. Between two units the server is outside a transaction, owes no answer, and reads no COPY. (Checked by PostgreSQL's own
//!    answers when the program runs directly, see `play`.)
//! 2. The unnamed statement is bound, described or closed only in the batch in which it was parsed, or in a unit that has
//!    begun a batch with a Parse or a Close of it, so that nothing of an earlier unit, such as a COPY, can be in force.
//!    Portals need no rule; they end with their transaction.
//! 3. No name is given to a statement while it is in use, and no name is used that was not given in the same unit, unless it
//!    is one of those that SQL may drop (`generate::DROPPED`). A name is used by one program only.
//! 4. While a COPY may read from the client, the client sends only CopyData, Flush, and the end of the COPY; one Sync may
//!    come before all rows. (A Query there is answered differently on purpose: the pooler ends the connection.)
//! 5. No session state but the parameters that the pooler tracks: no LISTEN, PREPARE, temporary tables, SET of others. No
//!    RESET of startup parameters or of `application_name`: inside a transaction it leads to the value with which the server began.
//!    The statements of `sql` keep this rule and the next one.
//! 6. Nothing that answers differently each time: clocks, process IDs, random numbers, rows without an order, numbers
//!    from sequences other than the program's own, tables of other seats, locks across seats.
//! 7. A client leaves after it has been answered. (PostgreSQL would finish an unanswered request, the pooler would cancel it.)
//! 8. Nothing with which a version of PostgreSQL is known to fail, see [`leave_out`].
//!
//! In session mode rules 1, 2, 3 and 5 do not apply.
//!
//! Always true: a program that these rules refuse is never compared; every generated program passes them, or the test fails.

use std::collections::BTreeSet;

use tests::message::read_strings;

use super::generate::DROPPED;
use super::messages::{query, sync};
use super::program::{Confinement, Message, Program, Then, Unit};

/// Checks the rules that can be checked without running a program.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn check(program: &Program) -> Result<(), String> {
    program.units.iter().try_for_each(check_copies)?;
    if program.confinement == Confinement::Transaction {
        program.units.iter().try_for_each(check_unnamed)?;
        program.units.iter().try_for_each(check_named)?;
    }
    check_end(program)
}

/// Replaces the messages with which this version fails, as `docs/operating/versions.md` describes:
///
/// * 10 ends the session at a savepoint in a text of several statements;
/// * 18 fails with messages after a Query or a FunctionCall in a batch, directly; the pooler sends them to another server.
pub(super) fn leave_out(program: &mut Program, major: u32) {
    let mut is_in_batch = false;
    for message in program.units.iter_mut().flat_map(|unit| &mut unit.bursts).flat_map(|burst| &mut burst.messages) {
        let kind = message.kind();
        let sql = sql(message);
        if major == 10
            && kind == b'Q'
            && sql.contains(';')
            && ["savepoint", "rollback to"].iter().any(|word| sql.contains(word))
        {
            *message = query("select 10");
        }
        if major >= 18 && is_in_batch && matches!(kind, b'Q' | b'F') {
            *message = sync();
        }
        match kind {
            b'S' | b'Q' | b'F' => is_in_batch = false,
            b'P' | b'B' | b'D' | b'E' | b'C' => is_in_batch = true,
            _ => {}
        }
    }
}

fn check_end(program: &Program) -> Result<(), String> {
    let is_waiting = program.bursts().last().is_none_or(|(_, burst)| burst.then == Then::Wait);
    let kinds: Vec<u8> = program.bursts().flat_map(|(_, burst)| &burst.messages).map(Message::kind).collect();
    let last = |wanted: &[u8]| kinds.iter().rposition(|kind| wanted.contains(kind));
    match is_waiting && last(b"PBDEC") <= last(b"SHQF") {
        true => Ok(()),
        false => Err("rule 7: it leaves without having been answered".to_string()),
    }
}

fn check_unnamed(unit: &Unit) -> Result<(), String> {
    let (mut is_parsed, mut is_cleared, mut begins_batch) = (false, false, true);
    for message in messages(unit) {
        let (kind, is_unnamed) = (message.kind(), statement(message).is_some_and(|name| name.is_empty()));
        is_parsed = !matches!(kind, b'S' | b'Q') && (is_parsed || kind == b'P' && is_unnamed);
        is_cleared |= begins_batch && is_unnamed && matches!(kind, b'P' | b'C');
        begins_batch = kind == b'S' || begins_batch && b"QFdcfH".contains(&kind);
        if is_unnamed && !is_parsed && !is_cleared {
            return Err("rule 2: the unnamed statement may be one of an earlier unit".to_string());
        }
    }
    Ok(())
}

fn check_named(unit: &Unit) -> Result<(), String> {
    let mut given = BTreeSet::new();
    for message in messages(unit) {
        let is_ruled = |name: &String| !name.is_empty() && !name.starts_with(DROPPED);
        let Some(name) = statement(message).filter(is_ruled) else { continue };
        match message.kind() {
            b'P' if !given.insert(name.clone()) => return Err(format!("rule 3: {name} is in use")),
            b'B' | b'D' if !given.contains(&name) => return Err(format!("rule 3: nobody has given {name}")),
            b'C' => drop(given.remove(&name)),
            _ => {}
        }
    }
    Ok(())
}

fn check_copies(unit: &Unit) -> Result<(), String> {
    let mut copies = Copies::default();
    for message in messages(unit) {
        copies.read(message)?;
    }
    Ok(())
}

/// COPYs from the client that have been requested and are not finished.
#[derive(Default)]
struct Copies {
    open: usize,
    /// How many COPYs the next Execute begins, at most.
    parsed: usize,
    has_rows: bool,
    has_sync: bool,
}

impl Copies {
    fn read(&mut self, message: &Message) -> Result<(), String> {
        let copies = || sql(message).matches("from stdin").count();
        match message.kind() {
            b'c' | b'f' => {
                self.open = self.open.saturating_sub(1);
                (self.has_rows, self.has_sync) = (false, false);
            }
            b'd' => self.has_rows |= self.open > 0,
            b'H' => {}
            b'S' if self.open > 0 && !self.has_rows && !self.has_sync => self.has_sync = true,
            _ if self.open > 0 => return Err("rule 4: a COPY may still be reading".to_string()),
            b'Q' => self.open = copies(),
            b'P' => self.parsed = copies(),
            b'E' => self.open = std::mem::take(&mut self.parsed),
            _ => {}
        }
        Ok(())
    }
}

fn messages(unit: &Unit) -> impl Iterator<Item = &Message> {
    unit.bursts.iter().flat_map(|burst| &burst.messages)
}

/// The statement that a message names.
fn statement(message: &Message) -> Option<String> {
    let body = message.frame().body;
    match (message.kind(), body.first()) {
        (b'P', _) => read_strings(&body, 1).0.pop(),
        (b'B', _) => read_strings(&body, 2).0.pop(),
        (b'D' | b'C', Some(b'S')) => read_strings(&body[1..], 1).0.pop(),
        _ => None,
    }
}

/// The SQL of a Query or a Parse, in small letters.
fn sql(message: &Message) -> String {
    let body = message.frame().body;
    let text = match message.kind() {
        b'Q' => read_strings(&body, 1).0.pop(),
        b'P' => read_strings(&body, 2).0.pop(),
        _ => None,
    };
    text.unwrap_or_default().to_lowercase()
}
