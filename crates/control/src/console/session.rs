//! The protocol state of one console client: simple queries, and the statements and portals of the extended protocol.
//!
//! Always true: one request is under way at a time, and its outcome is written in the protocol of the request; after an
//! error in the extended protocol everything is skipped until Sync; a portal does not outlive its Sync; only the rows
//! of a table that the client has not fetched yet are kept.
//! Not here: the meaning of a command (`understand`), carrying it out (`control`), the memory limit over all clients
//! (`sessions`).

use std::collections::BTreeMap;
use std::vec;

use wire::backend::{self, TxStatus};
use wire::request::{Request, Target};
use wire::write;
use worker::letters::Right;

use super::answer::{self, Answer};
use super::formats::Formats;
use super::sessions::no_room;
use super::table::{self, Cell, Column};
use super::{Command, Refusal, understand};

/// A client's prepared statements and portals, and the form in which its request is answered.
#[derive(Debug, Default)]
pub(crate) struct Session {
    statements: BTreeMap<String, Statement>,
    portals: BTreeMap<String, Portal>,
    /// After an error, everything is skipped until Sync.
    skips: bool,
    way: Way,
}

/// What to do about a request.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send these bytes, which may be none.
    Say(Vec<u8>),
    /// Carry out the command; [`Session::answer`] writes its outcome.
    Run(Command),
    /// Refuse it; [`Session::answer`] writes the refusal.
    Refuse(Refusal),
}

/// The form in which the request under way is answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Way {
    /// As a simple query.
    #[default]
    Simple,
    /// As another message of the extended protocol.
    Extended,
    /// As an Execute.
    Execute { portal: String, rows_max: usize },
}

/// A prepared statement.
#[derive(Clone, Debug)]
struct Statement {
    command: Command,
    /// The size of the command: at most that of its text.
    bytes: usize,
}

/// A bound portal.
#[derive(Debug)]
struct Portal {
    statement: Statement,
    formats: Formats,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Not executed yet.
    Fresh,
    /// The rows that have not been sent, and their size.
    Shown { columns: &'static [Column], rest: vec::IntoIter<Vec<Cell>>, bytes: usize },
    /// Executed completely.
    Done,
}

impl Session {
    /// Handles a request; `room` is the number of further bytes that may be kept for the client.
    pub(crate) fn hear(&mut self, request: Request, right: Right, room: usize) -> Next {
        if self.skips && request != Request::Sync {
            return Next::Say(Vec::new());
        }
        self.way = Way::Extended;
        let mut out = Vec::new();
        let heard = match request {
            Request::Query(text) => {
                self.way = Way::Simple;
                self.statements.remove("");
                self.portals.clear();
                match understand(&text, right) {
                    Ok(command) => return Next::Run(command),
                    Err(refusal) => Err(refusal),
                }
            }
            Request::Parse { statement, text, types } => self.parse(statement, &text, types, (right, room), &mut out),
            Request::Bind { portal, statement, parameters, formats } => {
                self.bind((portal, &statement), parameters, formats, room, &mut out)
            }
            Request::Describe(target) => self.describe(&target, &mut out),
            Request::Execute { portal, rows_max } => {
                let rows_max = if rows_max == 0 { usize::MAX } else { rows_max as usize };
                match self.execute(portal, rows_max, &mut out) {
                    Ok(Some(command)) => return Next::Run(command),
                    Ok(None) => Ok(()),
                    Err(refusal) => Err(refusal),
                }
            }
            Request::Close(target) => {
                match target {
                    Target::Statement(name) => drop(self.statements.remove(&name)),
                    Target::Portal(name) => drop(self.portals.remove(&name)),
                }
                write::bare(&mut out, backend::CLOSE_COMPLETE);
                Ok(())
            }
            // Nothing is buffered.
            Request::Flush => Ok(()),
            Request::Sync => {
                self.skips = false;
                self.portals.clear();
                write::ready_for_query(&mut out, TxStatus::Idle);
                Ok(())
            }
        };
        heard.map_or_else(Next::Refuse, |()| Next::Say(out))
    }

    /// Writes the outcome of the request under way.
    pub(crate) fn answer(&mut self, answer: Answer) -> Vec<u8> {
        let mut out = Vec::new();
        match (std::mem::take(&mut self.way), answer) {
            (Way::Simple, answer) => answer.write_simple(&mut out),
            (_, Answer::Refused(refusal)) => {
                refusal.write(&mut out);
                self.skips = true;
            }
            (Way::Execute { portal, rows_max }, Answer::Table(table)) => {
                if let Some(portal) = self.portals.get_mut(&portal) {
                    let bytes = table.rows.iter().map(|row| table::row_bytes(row)).sum();
                    portal.state = State::Shown { columns: table.columns, rest: table.rows.into_iter(), bytes };
                    portal.send(rows_max, &mut out);
                }
            }
            (way, Answer::Done { tag, notice }) => {
                if let Way::Execute { portal, .. } = way
                    && let Some(portal) = self.portals.get_mut(&portal)
                {
                    portal.state = State::Done;
                }
                answer::done(&mut out, &tag, notice.as_ref());
            }
            (Way::Extended, Answer::Table(_)) => {}
        }
        out
    }

    /// Returns how many bytes of an answer will be kept: the rows that the client has not fetched.
    pub(crate) fn left_by(&self, answer: &Answer) -> usize {
        match (&self.way, answer) {
            (Way::Execute { rows_max, .. }, Answer::Table(table)) => {
                table.rows.iter().skip(*rows_max).map(|row| table::row_bytes(row)).sum()
            }
            _ => 0,
        }
    }

    /// Returns how many bytes are kept.
    pub(crate) fn kept(&self) -> usize {
        let statement = |(name, statement): (&String, &Statement)| ENTRY_BYTES + name.len() + statement.bytes;
        let portal = |(name, portal): (&String, &Portal)| ENTRY_BYTES + name.len() + portal.bytes();
        self.statements.iter().map(statement).sum::<usize>() + self.portals.iter().map(portal).sum::<usize>()
    }

    fn parse(
        &mut self,
        name: String,
        text: &str,
        types: usize,
        (right, room): (Right, usize),
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if types > 0 {
            return Err(no_parameters());
        }
        let command = understand(text, right).map_err(|refusal| match names_parameter(text) {
            true => no_parameters(),
            false => refusal,
        })?;
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Refusal::coded("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        if self.statements.len() >= STATEMENTS_MAX && !self.statements.contains_key(&name) {
            let text = format!("the console keeps no more than {STATEMENTS_MAX} prepared statements of a client");
            return Err(Refusal::coded("53400", text));
        }
        if ENTRY_BYTES + name.len() + text.len() > room {
            return Err(no_room());
        }
        self.statements.insert(name, Statement { command, bytes: text.len() });
        write::bare(out, backend::PARSE_COMPLETE);
        Ok(())
    }

    fn bind(
        &mut self,
        (name, statement): (String, &str),
        parameters: usize,
        formats: Vec<i16>,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let prepared = self.statement(statement)?.clone();
        if parameters > 0 {
            let supplies = format!("bind message supplies {parameters} parameters");
            return Err(Refusal::new(format!("{supplies}, but prepared statement \"{statement}\" requires 0")));
        }
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(Refusal::coded("42P03", format!("cursor \"{name}\" already exists")));
        }
        if self.portals.len() >= PORTALS_MAX && !self.portals.contains_key(&name) {
            let text = format!("the console keeps no more than {PORTALS_MAX} portals of a client");
            return Err(Refusal::coded("53400", text));
        }
        // A command without a result has no columns, and as in PostgreSQL accepts any formats.
        let formats = match prepared.command.columns() {
            Some(columns) => Formats::new(formats, columns.len()).map_err(|(code, text)| Refusal::coded(code, text))?,
            None => Formats::TEXT,
        };
        if ENTRY_BYTES + name.len() + prepared.bytes > room {
            return Err(no_room());
        }
        self.portals.insert(name, Portal { statement: prepared, formats, state: State::Fresh });
        write::bare(out, backend::BIND_COMPLETE);
        Ok(())
    }

    fn describe(&self, target: &Target, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (command, formats) = match target {
            Target::Statement(name) => {
                let statement = self.statement(name)?;
                write::no_parameters(out);
                (&statement.command, &Formats::TEXT)
            }
            Target::Portal(name) => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (&portal.statement.command, &portal.formats)
            }
        };
        match command.columns() {
            Some(columns) => table::describe(out, columns, formats),
            None => write::bare(out, backend::NO_DATA),
        }
        Ok(())
    }

    /// Continues a portal, or returns the command to be carried out for it.
    fn execute(&mut self, name: String, rows_max: usize, out: &mut Vec<u8>) -> Result<Option<Command>, Refusal> {
        let portal = self.portals.get_mut(&name).ok_or_else(|| no_portal(&name))?;
        match portal.state {
            State::Fresh => {
                let command = portal.statement.command.clone();
                self.way = Way::Execute { portal: name, rows_max };
                Ok(Some(command))
            }
            State::Shown { .. } => {
                portal.send(rows_max, out);
                Ok(None)
            }
            State::Done => Err(Refusal::coded("55000", format!("portal \"{name}\" cannot be run"))),
        }
    }

    fn statement(&self, name: &str) -> Result<&Statement, Refusal> {
        self.statements.get(name).ok_or_else(|| {
            Refusal::coded(
                "26000",
                match name {
                    "" => "unnamed prepared statement does not exist".to_owned(),
                    name => format!("prepared statement \"{name}\" does not exist"),
                },
            )
        })
    }
}

impl Portal {
    /// Returns its size without its name.
    fn bytes(&self) -> usize {
        let rows = match self.state {
            State::Shown { bytes, .. } => bytes,
            State::Fresh | State::Done => 0,
        };
        self.statement.bytes + rows
    }

    /// Appends the next rows. As in PostgreSQL, a client that gets as many rows as it asked for gets PortalSuspended,
    /// whether or not there are more.
    fn send(&mut self, rows_max: usize, out: &mut Vec<u8>) {
        let State::Shown { columns, rest, bytes } = &mut self.state else { return };
        let count = rest.len().min(rows_max);
        for row in rest.by_ref().take(count) {
            table::write_row(out, columns, &row, &self.formats);
            *bytes -= table::row_bytes(&row);
        }
        if rest.as_slice().is_empty() {
            *rest = Vec::new().into_iter();
        }
        match count == rows_max {
            true => write::bare(out, backend::PORTAL_SUSPENDED),
            false => write::command_complete(out, answer::SHOW),
        }
    }
}

fn no_portal(name: &str) -> Refusal {
    Refusal::coded("34000", format!("portal \"{name}\" does not exist"))
}

fn no_parameters() -> Refusal {
    Refusal::coded("0A000", "console commands take no parameters")
}

/// Returns whether a text contains something like `$1`.
fn names_parameter(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0] == b'$' && pair[1].is_ascii_digit())
}

/// Prepared statements per client; more are refused with an error.
const STATEMENTS_MAX: usize = 256;
/// Portals per client between two Syncs; each may hold a table.
const PORTALS_MAX: usize = 16;
/// Approximate size of a statement or a portal without its name, text and rows.
const ENTRY_BYTES: usize = 200;

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
