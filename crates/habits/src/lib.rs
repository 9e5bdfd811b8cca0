//! Parses scripts of the statements that drivers, ORMs and frameworks send on their own.
//!
//! Always true: pgbench can run a script unchanged, if not in the form in which its driver sends it (`Mark`); a script uses
//! only the part of pgbench's language that [`Line`] has; an incomplete header is an error with a line number.
//! Not here: the files (`tests/habits`), the programs that play them (`tests/real/sessions/habits.rs`, `cargo xtask bench`).

mod header;
mod mark;
mod page;
mod script;
mod speaker;

pub use header::{Moment, Protocol, Sender};
pub use mark::Mark;
pub use page::page;
pub use script::{Draw, Line, Statement};
pub use speaker::Speaker;

use header::Header;

/// One script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habit {
    /// The name of the file, without its suffix.
    pub name: String,
    /// The title, a sentence.
    pub title: String,
    /// The drivers that send it.
    pub senders: Vec<Sender>,
    /// The query protocol.
    pub protocol: Protocol,
    /// Parameters of the startup packet, besides user and database.
    pub startup: Vec<(String, String)>,
    /// Why the client keeps its server between transactions; `None` if it does not.
    pub keeps: Option<String>,
    /// Why the script must not be measured in comparison with PgBouncer, if so.
    pub not_beside_pgbouncer: Option<String>,
    /// Why the script must not be measured at all, if so.
    pub not_measured: Option<String>,
    /// The lines that are sent once, after the connection has been opened.
    pub connect: Vec<Line>,
    /// The lines that are sent each time.
    pub each: Vec<Line>,
}

impl Habit {
    /// Parses the text of the file `name`.
    ///
    /// # Errors
    /// Returns a description of the mistake with the line number.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let at = |(line, what): (usize, String)| format!("{name}.sql:{line}: {what}");
        let (header, begin) = Header::read(text).map_err(at)?;
        let sections = script::Sections::of(text, begin);
        let connect = script::read(&sections.connect, header.protocol).map_err(at)?;
        let each = script::read(&sections.each, header.protocol).map_err(at)?;
        if each.iter().all(|line| matches!(line, Line::Set(..))) {
            return Err(at((begin, "nothing is sent each time".into())));
        }
        Ok(Self {
            name: name.into(),
            title: header.title,
            senders: header.senders,
            protocol: header.protocol,
            startup: header.startup,
            keeps: header.keeps,
            not_beside_pgbouncer: header.not_beside_pgbouncer,
            not_measured: header.not_measured,
            connect,
            each,
        })
    }

    /// The name of the script in a file of this name; `None` for `setup.sql` and files without the suffix `.sql`.
    #[must_use]
    pub fn name_of(file: &str) -> Option<&str> {
        file.strip_suffix(".sql").filter(|name| *name != "setup")
    }
}

/// Whether clients open a new connection for each transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnects {
    /// One connection for all transactions.
    Never,
    /// A new connection for each transaction.
    Always,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
-- A connection is told its time zone.
-- by: a driver 1.2; src/a.py, Connection.open; connect
-- protocol: simple

-- [connect]
SET TIME ZONE 'UTC';

-- [each]
\\set id random(1, 9)
SELECT :id;
";

    #[test]
    fn a_script_has_a_header_and_two_sections() {
        let habit = Habit::read("zone", WHOLE).expect("a habit");
        assert_eq!((habit.name.as_str(), habit.connect.len(), habit.each.len()), ("zone", 1, 2));
        assert_eq!(habit.title, "A connection is told its time zone.");
    }

    #[test]
    fn a_script_that_sends_nothing_each_time_is_a_mistake() {
        let text = WHOLE.replace("SELECT :id;\n", "");
        assert_eq!(Habit::read("zone", &text), Err("zone.sql:4: nothing is sent each time".into()));
    }
}
