//! The state of the screen, and the effect of each key.
//!
//! Always true: it has no clock, no terminal and no connection; it is given time, keys and answers, and
//! [`Screen::wish`] says which commands to ask. The shown rows change only when an answer or a key arrives.
//! Not here: drawing (`draw`), the data (`board`).

use std::time::Duration;

use conninfo::clean;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::board::{Board, Choice};
use crate::commands::Commands;
use crate::console::Answer;
use crate::options::{INTERVAL_DEFAULT, INTERVAL_MAX, INTERVAL_MIN, TopOptions};
use crate::picture::natural_width;
use crate::table::{Order, Table};
use crate::view::{VIEWS, View};

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct Screen {
    /// The console's address and the user, for the title.
    pub(crate) title: String,
    pub(crate) board: Board,
    pub(crate) link: Link,
    pub(crate) mode: Mode,
    pub(crate) is_paused: bool,
    pub(crate) interval: Duration,
    place: usize,
    spots: Vec<Spot>,
    filter: String,
    shown: Shown,
    /// Number of rows that fit, as of the last drawing.
    page: usize,
}

/// The state of the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// Answers arrive.
    Good,
    /// The connection is lost.
    Lost {
        /// The reason.
        why: String,
        /// The time of the next attempt.
        again: Duration,
    },
}

/// The meaning of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// They move within the table.
    Table,
    /// They write the filter.
    Filter {
        /// The previous filter, which Esc restores.
        before: String,
    },
    /// They scroll the help, which is shown from this line on.
    Help(usize),
    /// They scroll one row, as it was when Enter was pressed, which is shown from this line on.
    Row(Vec<(String, String)>, usize),
}

/// The position within a view.
#[derive(Clone, Debug)]
struct Spot {
    sort: Option<(String, Order)>,
    row: usize,
    top: usize,
    columns_aside: usize,
}

/// The rows on the screen, or why there are none, and the natural widths of their columns.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) rows: Result<Table, String>,
    pub(crate) widths: Vec<usize>,
    pub(crate) is_numeric: Vec<bool>,
}

/// The commands to ask, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wish {
    pub(crate) commands: Vec<&'static str>,
    pub(crate) interval: Duration,
    pub(crate) is_paused: bool,
}

/// What to do after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    GoOn,
    /// Draw everything again: another program has written to the terminal.
    Redraw,
    Quit,
}

impl Screen {
    /// A screen before the first answer.
    pub(crate) fn new(options: &TopOptions, choice: &Choice) -> Self {
        let spot = |view: &View| Spot { sort: Choice::of(view).sort, row: 0, top: 0, columns_aside: 0 };
        let mut spots: Vec<Spot> = VIEWS.iter().map(spot).collect();
        spots[options.view].sort.clone_from(&choice.sort);
        let shown = Shown { rows: Err(String::new()), widths: Vec::new(), is_numeric: Vec::new() };
        let mut screen = Self {
            title: String::new(),
            board: Board::default(),
            link: Link::Good,
            mode: Mode::Table,
            is_paused: false,
            interval: options.interval.unwrap_or(INTERVAL_DEFAULT),
            place: options.view,
            spots,
            filter: clean(&choice.filter),
            shown,
            page: 1,
        };
        screen.refresh();
        screen
    }

    /// Takes answers, each with the time of its arrival.
    pub(crate) fn take(&mut self, answers: Vec<(Duration, &'static str, Answer)>) {
        self.link = Link::Good;
        // Answers that were under way when the pause began are dropped: the rows must not move while the user reads.
        if self.is_paused && self.board.moment(self.view()).is_some() {
            return;
        }
        answers.into_iter().for_each(|(at, command, answer)| self.board.take(at, command, answer));
        self.refresh();
    }

    /// Records a login at a console, perhaps another one than before.
    pub(crate) fn reached(&mut self, title: String, commands: Commands) {
        self.title = title;
        self.link = Link::Good;
        self.board.reached(commands);
        self.refresh();
    }

    /// Records that the connection is lost, or could not be established again.
    pub(crate) fn lost(&mut self, why: String, again: Duration) {
        self.link = Link::Lost { why, again };
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Next {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (&mut self.mode, key.code) {
            (_, KeyCode::Char('c')) if is_control => return Next::Quit,
            (_, KeyCode::Char('l')) if is_control => return Next::Redraw,
            (_, KeyCode::Char(_)) if is_control => {}
            (Mode::Table, code) => return self.table_key(code),
            (Mode::Filter { .. }, code) => self.filter_key(code),
            (Mode::Help(line) | Mode::Row(_, line), code) => match reading(code, *line, self.page) {
                Some(new) => *line = new,
                None => self.mode = Mode::Table,
            },
        }
        Next::GoOn
    }

    fn table_key(&mut self, code: KeyCode) -> Next {
        let last = self.row_count().saturating_sub(1);
        let page = self.page.max(1);
        let spot = &mut self.spots[self.place];
        match code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char(digit @ '1'..='9') => self.go_to(digit as usize - '1' as usize),
            KeyCode::Tab => self.go_to((self.place + 1) % VIEWS.len()),
            KeyCode::BackTab => self.go_to((self.place + VIEWS.len() - 1) % VIEWS.len()),
            KeyCode::Up | KeyCode::Char('k') => spot.row = spot.row.min(last).saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => spot.row = (spot.row + 1).min(last),
            KeyCode::PageUp => spot.row = spot.row.min(last).saturating_sub(page),
            KeyCode::PageDown => spot.row = (spot.row + page).min(last),
            KeyCode::Home => (spot.row, spot.columns_aside) = (0, 0),
            KeyCode::End => spot.row = last,
            KeyCode::Left => spot.columns_aside = spot.columns_aside.saturating_sub(1),
            KeyCode::Right => self.step_aside(),
            KeyCode::Char('s' | '>') => self.sort_by_next(1),
            KeyCode::Char('S' | '<') => self.sort_by_next(-1),
            KeyCode::Char('r') => {
                spot.sort = spot.sort.take().map(|(column, order)| (column, order.reverse()));
                self.refresh();
            }
            KeyCode::Char('/') => self.mode = Mode::Filter { before: self.filter.clone() },
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('+' | '=') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help(0),
            KeyCode::Enter => self.open_row(),
            _ => {}
        }
        Next::GoOn
    }

    fn filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                if let Mode::Filter { before } = std::mem::replace(&mut self.mode, Mode::Table) {
                    self.set_filter(before);
                }
            }
            KeyCode::Backspace => {
                let mut filter = self.filter.clone();
                filter.pop();
                self.set_filter(filter);
            }
            KeyCode::Char(character) if self.filter.len() < FILTER_BYTES_MAX => {
                self.set_filter(self.filter.clone() + &clean(character.encode_utf8(&mut [0; 4])));
            }
            _ => {}
        }
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.refresh();
    }

    fn go_to(&mut self, place: usize) {
        if place < VIEWS.len() {
            self.place = place;
            self.refresh();
        }
    }

    fn step_aside(&mut self) {
        let most = self.shown.widths.len().saturating_sub(1);
        let spot = &mut self.spots[self.place];
        spot.columns_aside = (spot.columns_aside + 1).min(most);
    }

    /// Sorts by the column after (or before) the current one; the console's own order comes before the first column.
    fn sort_by_next(&mut self, step: isize) {
        let Ok(table) = &self.shown.rows else { return };
        let spot = &mut self.spots[self.place];
        let now = spot.sort.as_ref().and_then(|(column, _)| table.place(column)).map_or(0, |place| place + 1);
        let choices = table.columns().len() + 1;
        let next = (now + choices).saturating_add_signed(step) % choices;
        spot.sort = next.checked_sub(1).map(|place| {
            let order = if self.shown.is_numeric[place] { Order::Falling } else { Order::Rising };
            (table.columns()[place].clone(), order)
        });
        self.refresh();
    }

    fn open_row(&mut self) {
        let Ok(table) = &self.shown.rows else { return };
        let Some(row) = table.rows().get(self.spots[self.place].row) else { return };
        let cells = table.columns().iter().cloned().zip(row.iter().map(|cell| cell.clone().unwrap_or_default()));
        self.mode = Mode::Row(cells.collect(), 0);
    }

    /// Computes the rows again from the data and the choices.
    fn refresh(&mut self) {
        let among_equals = self.view().among_equals;
        let choice = Choice { sort: self.spots[self.place].sort.clone(), among_equals, filter: self.filter.clone() };
        let rows = self.board.rows(self.view()).map(|mut table| {
            choice.apply(&mut table);
            table
        });
        let columns = 0..rows.as_ref().map_or(0, |table| table.columns().len());
        let widths = columns.clone().map(|place| rows.as_ref().map_or(0, |table| natural_width(table, place)));
        let is_numeric = columns.clone().map(|place| rows.as_ref().is_ok_and(|table| table.is_numeric(place)));
        let (widths, is_numeric) = (widths.collect(), is_numeric.collect());
        self.shown = Shown { rows, widths, is_numeric };
        let last = self.row_count().saturating_sub(1);
        let spot = &mut self.spots[self.place];
        spot.row = spot.row.min(last);
    }

    /// Sets how many rows fit, and returns the first row to show, so that the chosen row is visible.
    pub(crate) fn scroll(&mut self, page: usize) -> usize {
        self.page = page;
        let count = self.row_count();
        let spot = &mut self.spots[self.place];
        spot.top = spot.top.min(count.saturating_sub(page.max(1))).min(spot.row);
        spot.top = spot.top.max((spot.row + 1).saturating_sub(page.max(1)));
        spot.top
    }

    /// The commands to ask, and how often.
    pub(crate) fn wish(&self) -> Wish {
        let commands = self.board.wanted(self.view());
        Wish { commands, interval: self.interval, is_paused: self.is_paused }
    }

    /// The current view.
    pub(crate) fn view(&self) -> &'static View {
        &VIEWS[self.place]
    }

    /// The index of the current view.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// The rows on the screen.
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The text that rows must contain.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// The column and the order that rows are sorted by.
    pub(crate) fn sort(&self) -> Option<(&str, Order)> {
        self.spots[self.place].sort.as_ref().map(|(column, order)| (column.as_str(), *order))
    }

    /// The index of the row that Enter opens.
    pub(crate) fn row(&self) -> usize {
        self.spots[self.place].row
    }

    /// Number of columns that were scrolled out of the screen.
    pub(crate) fn columns_aside(&self) -> usize {
        self.spots[self.place].columns_aside
    }

    /// Number of leading columns that do not scroll.
    pub(crate) fn keys(&self) -> usize {
        let columns = self.shown.rows.as_ref().map_or(&[][..], Table::columns);
        columns.iter().take_while(|column| self.view().key.contains(&column.as_str())).count()
    }

    fn row_count(&self) -> usize {
        self.shown.rows.as_ref().map_or(0, |table| table.rows().len())
    }
}

/// The first line after a key, or `None` if the key ends the reading.
fn reading(code: KeyCode, line: usize, page: usize) -> Option<usize> {
    match code {
        KeyCode::Up | KeyCode::Char('k') => Some(line.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => Some(line + 1),
        KeyCode::PageUp => Some(line.saturating_sub(page)),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(line + page),
        KeyCode::Home => Some(0),
        KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?' | 'h') => None,
        _ => Some(line),
    }
}

/// Most bytes of a filter.
const FILTER_BYTES_MAX: usize = 200;

/// Answers that arrived at the same time.
#[cfg(test)]
pub(crate) fn came(at: Duration, answers: Vec<(&'static str, Answer)>) -> Vec<(Duration, &'static str, Answer)> {
    answers.into_iter().map(|(command, answer)| (at, command, answer)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A table made of words: first the columns, then the rows.
    pub(crate) fn table(lines: &[&str]) -> Table {
        let mut table = Table::new(lines[0].split_whitespace());
        lines[1..].iter().for_each(|line| table.push(line.split_whitespace().map(Some)));
        table
    }

    /// A screen after the first answers of a console without statements.
    pub(crate) fn seen() -> Screen {
        let options = TopOptions::default();
        let mut screen = Screen::new(&options, &Choice::of(&VIEWS[0]));
        screen.reached("console".to_owned(), Commands::default());
        let answers = screen.wish().commands.into_iter().map(|command| (command, answer(command)));
        screen.take(came(SECOND, answers.collect()));
        screen
    }

    pub(crate) fn answer(command: &str) -> Answer {
        match command {
            "SHOW POOLS" => Ok(table(&["database user cl_waiting sv_active", "a u 0 1", "b u 10 2", "c u 9 3"])),
            "SHOW WAITS" => Ok(table(&["what doing place", "summary Pool_b_is_too_small.", "waiter waits 1"])),
            "SHOW STATEMENTS" => Err("ERROR: invalid command 'SHOW STATEMENTS', use SHOW HELP;".to_owned()),
            _ => Ok(table(&["database user application_name", "a u x"])),
        }
    }

    pub(crate) fn press(screen: &mut Screen, keys: &[KeyCode]) -> Next {
        keys.iter().map(|code| screen.key(KeyEvent::from(*code))).last().expect("a key")
    }

    fn letters(screen: &mut Screen, keys: &str) -> Next {
        press(screen, &keys.chars().map(KeyCode::Char).collect::<Vec<_>>())
    }

    fn databases(screen: &Screen) -> Vec<String> {
        let table = screen.shown().rows.as_ref().expect("rows");
        table.rows().iter().map(|row| table.value(row, "database").unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn pools_with_the_most_waiting_clients_come_first_and_r_turns_them_round() {
        let mut screen = seen();
        assert_eq!(
            (databases(&screen), screen.sort()),
            (vec_of(&["b", "c", "a"]), Some(("cl_waiting", Order::Falling)))
        );
        letters(&mut screen, "r");
        assert_eq!(databases(&screen), ["a", "c", "b"]);
    }

    fn vec_of(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn s_goes_through_the_columns_and_comes_back_to_the_consoles_order() {
        let mut screen = seen();
        let sorts = (0..4).map(|_| {
            letters(&mut screen, "s");
            screen.sort().map(|(column, order)| format!("{column} {order:?}"))
        });
        let sorts: Vec<_> = sorts.collect();
        let wanted = [Some("sv_active Falling"), None, Some("database Rising"), Some("user Rising")];
        assert_eq!(sorts, wanted.map(|sort| sort.map(str::to_owned)));
        letters(&mut screen, "SS");
        assert_eq!((screen.sort(), databases(&screen)), (None, vec_of(&["a", "b", "c"])));
    }

    #[test]
    fn a_filter_is_written_kept_taken_back_and_taken_away() {
        let mut screen = seen();
        letters(&mut screen, "/C");
        assert_eq!((databases(&screen), screen.filter()), (vec_of(&["c"]), "C"));
        press(&mut screen, &[KeyCode::Enter]);
        // `q` after Enter would leave; within the filter it is a letter.
        assert_eq!(letters(&mut screen, "/q"), Next::GoOn);
        assert!(databases(&screen).is_empty());
        press(&mut screen, &[KeyCode::Backspace]);
        assert_eq!(databases(&screen), ["c"]);
        letters(&mut screen, "x");
        press(&mut screen, &[KeyCode::Esc]);
        assert_eq!((databases(&screen), screen.filter(), &screen.mode), (vec_of(&["c"]), "C", &Mode::Table));
        press(&mut screen, &[KeyCode::Esc]);
        assert_eq!((databases(&screen).len(), screen.filter()), (3, ""));
    }

    #[test]
    fn a_pause_asks_nothing_and_what_was_under_way_changes_nothing() {
        let mut screen = seen();
        letters(&mut screen, " ");
        assert!(screen.wish().is_paused);
        screen.take(came(2 * SECOND, vec![("SHOW POOLS", Ok(table(&["database", "z"])))]));
        assert_eq!(databases(&screen).len(), 3);
        letters(&mut screen, " ");
        screen.take(came(3 * SECOND, vec![("SHOW POOLS", Ok(table(&["database", "z"])))]));
        assert_eq!((databases(&screen), screen.wish().is_paused), (vec_of(&["z"]), false));
    }

    #[test]
    fn views_are_chosen_by_digit_and_tab_and_ask_for_what_they_show() {
        let mut screen = seen();
        letters(&mut screen, "5");
        assert_eq!((screen.view().name, screen.wish().commands), ("clients", vec!["SHOW CLIENTS", "SHOW WAITS"]));
        press(&mut screen, &[KeyCode::BackTab]);
        assert_eq!(screen.view().name, "statements");
        assert!(screen.shown().rows.as_ref().expect_err("none").contains("invalid command 'SHOW STATEMENTS'"));
        assert_eq!(screen.wish().commands, ["SHOW WAITS"]);
        press(&mut screen, &[KeyCode::Tab; 6]);
        assert_eq!(screen.view().name, "pools");
    }

    #[test]
    fn the_interval_has_bounds() {
        let mut screen = seen();
        letters(&mut screen, "+");
        assert_eq!(screen.wish().interval, 4 * SECOND);
        letters(&mut screen, &"-".repeat(20));
        assert_eq!(screen.wish().interval, INTERVAL_MIN);
        letters(&mut screen, &"+".repeat(30));
        assert_eq!(screen.wish().interval, INTERVAL_MAX);
    }

    #[test]
    fn the_chosen_row_is_always_on_the_screen() {
        let mut screen = seen();
        let lines: Vec<String> = (0..100).map(|row| format!("d{row} u {row}")).collect();
        let lines: Vec<&str> =
            ["database user sv_active"].into_iter().chain(lines.iter().map(String::as_str)).collect();
        screen.take(came(2 * SECOND, vec![("SHOW POOLS", Ok(table(&lines)))]));
        assert_eq!(screen.scroll(10), 0);
        press(&mut screen, &[KeyCode::PageDown]);
        assert_eq!((screen.row(), screen.scroll(10)), (10, 1));
        press(&mut screen, &[KeyCode::End]);
        assert_eq!((screen.row(), screen.scroll(10)), (99, 90));
        assert_eq!((screen.scroll(50), screen.scroll(0)), (50, 99));
        // Fewer rows arrive.
        screen.take(came(3 * SECOND, vec![("SHOW POOLS", Ok(table(&lines[..4])))]));
        assert_eq!((screen.row(), screen.scroll(10)), (2, 0));
        press(&mut screen, &[KeyCode::Home, KeyCode::Up]);
        assert_eq!(screen.row(), 0);
    }

    #[test]
    fn a_row_stays_as_it_was_when_it_was_opened() {
        let mut screen = seen();
        press(&mut screen, &[KeyCode::Enter]);
        screen.take(came(2 * SECOND, vec![("SHOW POOLS", Ok(table(&["database", "z"])))]));
        let Mode::Row(cells, 0) = &screen.mode else { panic!("{:?}", screen.mode) };
        assert_eq!(cells[0], ("database".to_owned(), "b".to_owned()));
        assert_eq!(letters(&mut screen, "q"), Next::GoOn);
        assert_eq!(screen.mode, Mode::Table);
        assert_eq!(letters(&mut screen, "q"), Next::Quit);
    }

    #[test]
    fn control_c_leaves_from_everywhere() {
        let leave = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        let mut screen = seen();
        letters(&mut screen, "/");
        assert_eq!(screen.key(leave), Next::Quit);
        assert_eq!(seen().key(KeyEvent::new(KeyCode::Char('l'), KeyModifiers::CONTROL)), Next::Redraw);
    }

    #[test]
    fn a_lost_connection_is_told_until_the_next_answer() {
        let mut screen = seen();
        screen.lost("gone".to_owned(), 5 * SECOND);
        assert_eq!(screen.link, Link::Lost { why: "gone".to_owned(), again: 5 * SECOND });
        assert_eq!(databases(&screen).len(), 3);
        screen.reached("other".to_owned(), Commands::default());
        assert_eq!((&screen.link, screen.title.as_str()), (&Link::Good, "other"));
        assert!(screen.wish().commands.contains(&"SHOW STATEMENTS"));
    }
}
