//! One client's conversation with the console: simple queries, and the statements and portals of the extended protocol.
//!
//! Always true: one request is under way at a time, and what comes of it is written the way it was asked for; after an error
//! in the extended protocol nothing is done until Sync; a portal does not outlive its Sync; of what it shows only the rows are kept that its
//! client has not asked for yet.
//! Not here: what a command means (`understand`), who carries it out (`control`), how much all clients may have kept (`sessions`).

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

/// What a client of the console has prepared, and how it wants its answer.
#[derive(Debug, Default)]
pub(crate) struct Session {
    statements: BTreeMap<String, Statement>,
    portals: BTreeMap<String, Portal>,
    /// Whether an error has made everything void up to the next Sync.
    skips: bool,
    way: Way,
}

/// What is to be done about a request.
#[derive(Debug)]
pub(crate) enum Next {
    /// It is answered by this, which may be nothing.
    Say(Vec<u8>),
    /// This is to be done; [`Session::answer`] writes what comes of it.
    Run(Command),
    /// It cannot be done; [`Session::answer`] writes that.
    Refuse(Refusal),
}

/// How the request under way is answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Way {
    /// As a simple query.
    #[default]
    Simple,
    /// As a part of the extended protocol.
    Extended,
    /// As an Execute.
    Execute { portal: String, rows_max: usize },
}

/// A command that has been prepared.
#[derive(Clone, Debug)]
struct Statement {
    command: Command,
    /// What the command takes: no more than its text.
    bytes: usize,
}

/// A command with the formats of its result.
#[derive(Debug)]
struct Portal {
    statement: Statement,
    formats: Formats,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It has not been executed.
    Fresh,
    /// The rows that have not been sent, and what they take.
    Shown { columns: &'static [Column], rest: vec::IntoIter<Vec<Cell>>, bytes: usize },
    /// It has been carried out.
    Done,
}

impl Session {
    /// A client asks for something, for which so many bytes may be kept.
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
            // Nothing is held back.
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

    /// Writes what came of the request under way.
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

    /// How many bytes will be kept of an answer: the rows that the client has not asked for.
    pub(crate) fn left_by(&self, answer: &Answer) -> usize {
        match (&self.way, answer) {
            (Way::Execute { rows_max, .. }, Answer::Table(table)) => {
                table.rows.iter().skip(*rows_max).map(|row| table::row_bytes(row)).sum()
            }
            _ => 0,
        }
    }

    /// How many bytes are kept.
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
        // What shows nothing has no columns, and takes any formats, as in PostgreSQL.
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

    /// Goes on with a portal, or says what is to be done for it.
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
    /// What it takes beside its name.
    fn bytes(&self) -> usize {
        let rows = match self.state {
            State::Shown { bytes, .. } => bytes,
            State::Fresh | State::Done => 0,
        };
        self.statement.bytes + rows
    }

    /// Appends the next rows. As in PostgreSQL, who gets as many as were wanted is not told whether there are more.
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

/// Whether something like `$1` stands in a text.
fn names_parameter(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0] == b'$' && pair[1].is_ascii_digit())
}

/// Prepared statements that one client may have; a driver that prepares every text again is told so.
const STATEMENTS_MAX: usize = 256;
/// Portals that one client may have between two Syncs; each may hold a table.
const PORTALS_MAX: usize = 16;
/// What a statement or a portal takes beside its name, its text and its rows, about.
const ENTRY_BYTES: usize = 200;

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
