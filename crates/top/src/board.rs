//! The data about a console: its last answer to each command, and the one before.
//!
//! Always true: a missing answer leaves the last one in place; the refusal of a command is remembered until the next
//! login.
//! Not here: which of it is on the screen (`screen`).

use std::collections::HashMap;
use std::time::Duration;

use crate::commands::Commands;
use crate::console::Answer;
use crate::rates::{Look, Looks, shown};
use crate::sentence::{Sentence, of_pools, of_waits, without_sentence};
use crate::table::{Order, Table};
use crate::view::{POOLS, VIEWS, View, WAITS};

/// The data about a console.
#[derive(Debug, Default)]
pub(crate) struct Board {
    commands: Commands,
    /// Number of logins at a console.
    logins: u32,
    known: HashMap<&'static str, Known>,
}

#[derive(Debug)]
enum Known {
    /// `login` is the number of the login during which the answer came.
    Looks {
        now: Look,
        before: Option<Look>,
        login: u32,
    },
    Refused(String),
}

impl Board {
    /// Takes an answer that came at `at`.
    pub(crate) fn take(&mut self, at: Duration, command: &'static str, answer: Answer) {
        let known = match (answer, self.known.remove(command)) {
            (Err(why), _) => Known::Refused(why),
            (Ok(table), before) => {
                // After another login the counters may be those of another console, so the two answers cannot be
                // compared.
                let before = match before {
                    Some(Known::Looks { now, login, .. }) if login == self.logins => Some(now),
                    _ => None,
                };
                Known::Looks { now: Look { at, table }, before, login: self.logins }
            }
        };
        self.known.insert(command, known);
    }

    /// Records a login at a console that has these commands. A command that was refused before may be answered now.
    pub(crate) fn reached(&mut self, commands: Commands) {
        self.commands = commands;
        self.logins += 1;
        self.known.retain(|_, known| matches!(known, Known::Looks { .. }));
    }

    /// The commands to ask next while this view is shown. At first these are all commands that the console has, so that
    /// each view has something to show from then on.
    pub(crate) fn wanted(&self, view: &View) -> Vec<&'static str> {
        let new = VIEWS.iter().flat_map(View::commands);
        let new = new.filter(|command| !self.known.contains_key(command) && self.commands.has(command));
        let mut wanted = self.needed(view);
        for command in new {
            if !wanted.contains(&command) {
                wanted.push(command);
            }
        }
        wanted
    }

    /// The commands whose answers a view and the sentence need.
    pub(crate) fn needed(&self, view: &View) -> Vec<&'static str> {
        let sentence = if self.is_missing(WAITS) { POOLS } else { WAITS };
        let mut needed: Vec<&'static str> = view.commands().filter(|command| self.why_not(command).is_none()).collect();
        if !needed.contains(&sentence) && self.why_not(sentence).is_none() {
            needed.push(sentence);
        }
        needed
    }

    /// Whether the console does not have a command, or refuses it.
    pub(crate) fn is_missing(&self, command: &str) -> bool {
        !self.commands.has(command) || self.why_not(command).is_some()
    }

    /// Why a command is refused, if it is.
    pub(crate) fn why_not(&self, command: &str) -> Option<&str> {
        match self.known.get(command) {
            Some(Known::Refused(why)) => Some(why),
            _ => None,
        }
    }

    /// The sentence about the state of the pooler.
    pub(crate) fn sentence(&self) -> Option<Sentence> {
        let of_waits = self.looks(WAITS).and_then(|looks| of_waits(&looks.now.table));
        of_waits.or_else(|| of_pools(&self.looks(POOLS)?.now.table))
    }

    /// When the rows of a view arrived.
    pub(crate) fn moment(&self, view: &View) -> Option<Duration> {
        self.looks(view.command).map(|looks| looks.now.at)
    }

    /// The rows of a view.
    ///
    /// # Errors
    /// There are no rows, and why.
    pub(crate) fn rows(&self, view: &View) -> Result<Table, String> {
        if let Some(why) = self.why_not(view.command) {
            return Err(format!("{}: {why}", view.command));
        }
        let looks = self.looks(view.command).ok_or_else(|| "no answer yet".to_owned())?;
        let table = shown(view, looks, view.beside.and_then(|beside| self.looks(beside)));
        Ok(if view.command == WAITS { without_sentence(&table) } else { table })
    }

    fn looks(&self, command: &str) -> Option<Looks<'_>> {
        match self.known.get(command)? {
            Known::Looks { now, before, .. } => Some(Looks { now, before: before.as_ref() }),
            Known::Refused(_) => None,
        }
    }
}

/// Which rows are shown, and in which order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Choice {
    /// A column and an order; `None` is the console's own order.
    pub(crate) sort: Option<(String, Order)>,
    /// A column that orders rows with equal values, the largest first.
    pub(crate) among_equals: Option<&'static str>,
    /// The text that rows must contain.
    pub(crate) filter: String,
}

impl Choice {
    /// The initial choice of a view.
    pub(crate) fn of(view: &View) -> Self {
        let sort = view.sort.map(|(column, order)| (column.to_owned(), order));
        Self { sort, among_equals: view.among_equals, filter: String::new() }
    }

    /// Filters and sorts.
    pub(crate) fn apply(&self, table: &mut Table) {
        table.filter(&self.filter);
        let Some((column, order)) = &self.sort else { return };
        // Sorting is stable, so the less important column comes first.
        for (column, order) in
            self.among_equals.iter().map(|column| (*column, Order::Falling)).chain([(column.as_str(), *order)])
        {
            if let Some(place) = table.place(column) {
                table.sort(place, order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn table(columns: &[&str], rows: &[&[&str]]) -> Table {
        let mut table = Table::new(columns.iter().copied());
        rows.iter().for_each(|row| table.push(row.iter().map(|value| Some(*value))));
        table
    }

    fn view(name: &str) -> &'static View {
        VIEWS.iter().find(|view| view.name == name).expect("a view")
    }

    fn pgbouncer() -> Board {
        let mut board = Board::default();
        for command in board.wanted(view("pools")) {
            let answer = match command {
                "SHOW WAITS" | "SHOW APPLICATIONS" | "SHOW STATEMENTS" | "SHOW CHURN" => {
                    Err(format!("ERROR: invalid command '{command}', use SHOW HELP;"))
                }
                POOLS => Ok(table(&["database", "user", "cl_waiting", "maxwait"], &[&["a", "u", "2", "1"]])),
                _ => Ok(table(&["database", "total_xact_count"], &[&["a", "7"]])),
            };
            board.take(SECOND, command, answer);
        }
        board
    }

    #[test]
    fn every_command_is_asked_once_and_then_only_what_is_looked_at() {
        let board = Board::default();
        assert_eq!(board.wanted(view("pools"))[..3], [POOLS, "SHOW STATS", WAITS]);
        assert!(board.wanted(view("pools")).contains(&"SHOW STATEMENTS"));
        let board = pgbouncer();
        assert_eq!(board.wanted(view("clients")), ["SHOW CLIENTS", POOLS]);
        assert_eq!(board.wanted(view("waits")), [POOLS]);
    }

    #[test]
    fn what_the_help_does_not_name_is_asked_only_when_its_view_is_looked_at() {
        let mut board = Board::default();
        board.reached(Commands::read("SHOW POOLS|STATS|CLIENTS"));
        assert_eq!(board.wanted(view("pools")), [POOLS, "SHOW STATS", "SHOW CLIENTS"]);
        assert_eq!(board.needed(view("statements")), ["SHOW STATEMENTS", POOLS]);
        assert!(board.is_missing("SHOW CHURN") && !board.is_missing(POOLS));
    }

    #[test]
    fn what_pgbouncer_has_not_is_told_in_its_words_and_the_rest_is_shown() {
        let board = pgbouncer();
        let why = board.rows(view("waits")).expect_err("no waits");
        assert_eq!(why, "SHOW WAITS: ERROR: invalid command 'SHOW WAITS', use SHOW HELP;");
        assert_eq!(board.rows(view("pools")).expect("pools").rows().len(), 1);
        assert!(board.sentence().expect("a sentence").text.starts_with("2 clients wait"));
    }

    #[test]
    fn a_new_login_asks_again_what_was_refused_and_keeps_what_was_seen() {
        let mut board = pgbouncer();
        board.reached(Commands::default());
        assert!(board.wanted(view("clients")).contains(&"SHOW CHURN"));
        assert!(board.rows(view("pools")).is_ok());
        board.take(SECOND, WAITS, Ok(table(&["what", "doing"], &[&["summary", "All is well."], &["waiter", "x"]])));
        assert_eq!(board.sentence().expect("a sentence").text, "All is well.");
        assert_eq!(board.rows(view("waits")).expect("waits").rows().len(), 1);
    }

    #[test]
    fn rates_are_between_the_last_two_looks() {
        let mut board = pgbouncer();
        let stats = table(&["database", "total_xact_count"], &[&["a", "27"]]);
        board.take(3 * SECOND, "SHOW STATS", Ok(stats));
        let shown = board.rows(view("pools")).expect("pools");
        assert_eq!(shown.value(&shown.rows()[0], "xact/s"), Some("10.0"));
        assert_eq!(board.moment(view("stats")), Some(3 * SECOND));
    }

    #[test]
    fn a_choice_whose_column_is_not_there_leaves_the_order() {
        let mut rows = table(&["a"], &[&["2"], &["1"]]);
        let choice = Choice { sort: Some(("b".to_owned(), Order::Rising)), ..Choice::default() };
        choice.apply(&mut rows);
        assert_eq!(rows.rows()[0][0].as_deref(), Some("2"));
    }

    #[test]
    fn what_takes_the_time_now_comes_before_what_has_taken_it() {
        let columns = ["application_name", "total_time", "busy"];
        let mut rows = table(&columns, &[&["old", "900", "0"], &["idle", "50", "0"], &["now", "100", "2.5"]]);
        Choice::of(view("applications")).apply(&mut rows);
        let names: Vec<_> = rows.rows().iter().map(|row| row[0].as_deref().unwrap_or_default()).collect();
        assert_eq!(names, ["now", "old", "idle"]);
    }
}
