//! What drivers, ORMs and frameworks send by themselves, as scripts: how one is read.
//!
//! Always true: a script is one that pgbench runs as it stands, and uses of pgbench's language only what [`Line`] has; a
//! header that lacks something is a mistake that names its line.
//! Not here: the files (`tests/habits`), and who plays them (`tests/real/sessions/habits.rs`, `cargo xtask bench`).

mod header;
mod page;
mod script;

pub use header::{Moment, Protocol, Sender};
pub use page::page;
pub use script::{Draw, Line, Statement};

use header::Header;

/// One script: what is sent, by whom, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habit {
    /// The name of its file, without the ending.
    pub name: String,
    /// What it is, in a sentence.
    pub title: String,
    /// Who sends it.
    pub senders: Vec<Sender>,
    /// By which of PostgreSQL's query protocols.
    pub protocol: Protocol,
    /// What is said in the startup packet, besides user and database.
    pub startup: Vec<(String, String)>,
    /// Why its client keeps a server between transactions; nothing if it keeps none.
    pub keeps: Option<String>,
    /// Why it is not to be measured beside PgBouncer, if it is not.
    pub not_beside_pgbouncer: Option<String>,
    /// Why it is not to be measured at all, if it is not.
    pub not_measured: Option<String>,
    /// What is sent once, when the connection is made.
    pub connect: Vec<Line>,
    /// What is sent each time.
    pub each: Vec<Line>,
    text_of_connect: String,
    text_of_each: String,
}

impl Habit {
    /// Reads the text of the file `name`.
    ///
    /// # Errors
    /// What is wrong with it, and in which line.
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
            text_of_connect: script::text(&sections.connect),
            text_of_each: script::text(&sections.each),
        })
    }

    /// How pgbench plays it, which knows one protocol for a script: where statements are joined, the simple one.
    #[must_use]
    pub fn protocol_of_pgbench(&self) -> Protocol {
        let is_joined = [&self.text_of_connect, &self.text_of_each].into_iter().any(|text| text.contains("\\;"));
        if is_joined { Protocol::Simple } else { self.protocol }
    }

    /// The name of the script in a file of this name; `setup.sql` is none.
    #[must_use]
    pub fn name_of(file: &str) -> Option<&str> {
        file.strip_suffix(".sql").filter(|name| *name != "setup")
    }

    /// The script for pgbench, whose clients have the variable `connecting`, not 0 as long as the connection is new. With
    /// a connection for each transaction (`-C`) it is always new.
    #[must_use]
    pub fn for_pgbench(&self, reconnects: Reconnects) -> String {
        match reconnects {
            _ if self.connect.is_empty() => self.text_of_each.clone(),
            Reconnects::Always => format!("{}{}", self.text_of_connect, self.text_of_each),
            Reconnects::Never => {
                format!("\\if :connecting\n{}\\set connecting 0\n\\endif\n{}", self.text_of_connect, self.text_of_each)
            }
        }
    }
}

/// Whether clients connect for each transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnects {
    /// Once.
    Never,
    /// For each.
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
    fn what_is_sent_at_connect_is_sent_once_or_with_each_connection() {
        let habit = Habit::read("zone", WHOLE).expect("a habit");
        let each = "\\set id random(1, 9)\nSELECT :id;\n";
        assert_eq!(
            habit.for_pgbench(Reconnects::Never),
            format!("\\if :connecting\nSET TIME ZONE 'UTC';\n\\set connecting 0\n\\endif\n{each}")
        );
        assert_eq!(habit.for_pgbench(Reconnects::Always), format!("SET TIME ZONE 'UTC';\n{each}"));
    }

    #[test]
    fn a_script_that_sends_nothing_each_time_is_a_mistake() {
        let text = WHOLE.replace("SELECT :id;\n", "");
        assert_eq!(Habit::read("zone", &text), Err("zone.sql:4: nothing is sent each time".into()));
    }
}
