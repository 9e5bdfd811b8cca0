//! What is on the screen and what a key does to it.
//!
//! Always true: it has no clock, no terminal and no connection; time, keys and answers are given to it, and [`Screen::wish`]
//! says what is to be asked. What is shown changes only when an answer or a key comes.
//! Not here: how it is drawn (`draw`), which rows there are (`board`).

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::board::{Board, Choice};
use crate::console::Answer;
use crate::options::{INTERVAL_DEFAULT, INTERVAL_MAX, INTERVAL_MIN, TopOptions};
use crate::picture::natural_width;
use crate::table::{Order, Table, clean};
use crate::view::{VIEWS, View};

/// What is on the screen.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Where the console is and who asks, for the title.
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
    /// How many rows fit, as of the last drawing.
    page: usize,
}

/// How the connection is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// Answers come.
    Good,
    /// It is lost, and is tried again at that time.
    Lost {
        /// The words of whoever noticed.
        why: String,
        /// When it is tried again.
        again: Duration,
    },
}

/// What keys are for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Moving about.
    Table,
    /// Writing a filter; what it was before.
    Filter {
        /// To be put back by Esc.
        before: String,
    },
    /// Reading the help, from that line on.
    Help(usize),
    /// Reading one row, as it was when Enter was pressed, from that line on.
    Row(Vec<(String, String)>, usize),
}

/// Where one is in a view.
#[derive(Clone, Debug)]
struct Spot {
    sort: Option<(String, Order)>,
    row: usize,
    top: usize,
    columns_aside: usize,
}

/// The rows on the screen, or why there are none, and how wide their columns want to be.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) rows: Result<Table, String>,
    pub(crate) widths: Vec<usize>,
    pub(crate) is_numeric: Vec<bool>,
}

/// What is to be asked, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wish {
    pub(crate) commands: Vec<&'static str>,
    pub(crate) interval: Duration,
    pub(crate) is_paused: bool,
}

/// Whether the screen goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    GoOn,
    /// Everything is to be drawn anew: somebody else has written on the terminal.
    Redraw,
    Quit,
}

impl Screen {
    /// A screen before the first answer.
    pub(crate) fn new(options: &TopOptions, title: String, choice: &Choice) -> Self {
        let spot = |view: &View| Spot { sort: Choice::of(view).sort, row: 0, top: 0, columns_aside: 0 };
        let mut spots: Vec<Spot> = VIEWS.iter().map(spot).collect();
        spots[options.view].sort.clone_from(&choice.sort);
        let shown = Shown { rows: Err(String::new()), widths: Vec::new(), is_numeric: Vec::new() };
        let mut screen = Self {
            title,
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

    /// Answers came at `at`.
    pub(crate) fn take(&mut self, at: Duration, answers: Vec<(&'static str, Answer)>) {
        self.link = Link::Good;
        // What was under way when the pause began is of no use: the rows would move under the reader's eyes.
        if self.is_paused && self.board.moment(self.view()).is_some() {
            return;
        }
        answers.into_iter().for_each(|(command, answer)| self.board.take(at, command, answer));
        self.refresh();
    }

    /// A console has let us in, perhaps another one than before.
    pub(crate) fn reached(&mut self, title: String) {
        self.title = title;
        self.link = Link::Good;
        self.board.forget_refusals();
        self.refresh();
    }

    /// The connection is lost, or could not be made again.
    pub(crate) fn lost(&mut self, why: String, again: Duration) {
        self.link = Link::Lost { why, again };
    }

    /// A key was pressed.
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
        let most = self.shown.widths.len().saturating_sub(self.keys() + 1);
        let spot = &mut self.spots[self.place];
        spot.columns_aside = (spot.columns_aside + 1).min(most);
    }

    /// Sorts by the column after (or before) the one that is sorted by; before the first is the console's own order.
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

    /// Makes the rows anew from what is known and chosen.
    fn refresh(&mut self) {
        let choice = Choice { sort: self.spots[self.place].sort.clone(), filter: self.filter.clone() };
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

    /// Tells how many rows fit, and learns which comes first so that the chosen one is seen.
    pub(crate) fn scroll(&mut self, page: usize) -> usize {
        self.page = page;
        let count = self.row_count();
        let spot = &mut self.spots[self.place];
        spot.top = spot.top.min(count.saturating_sub(page.max(1))).min(spot.row);
        spot.top = spot.top.max((spot.row + 1).saturating_sub(page.max(1)));
        spot.top
    }

    /// What is to be asked.
    pub(crate) fn wish(&self) -> Wish {
        let commands = self.board.wanted(self.view());
        Wish { commands, interval: self.interval, is_paused: self.is_paused }
    }

    /// The view.
    pub(crate) fn view(&self) -> &'static View {
        &VIEWS[self.place]
    }

    /// The place of the view.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// The rows.
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// What rows must contain.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// What the rows are ordered by.
    pub(crate) fn sort(&self) -> Option<(&str, Order)> {
        self.spots[self.place].sort.as_ref().map(|(column, order)| (column.as_str(), *order))
    }

    /// The row that Enter opens.
    pub(crate) fn row(&self) -> usize {
        self.spots[self.place].row
    }

    /// How many columns have moved out of the screen.
    pub(crate) fn columns_aside(&self) -> usize {
        self.spots[self.place].columns_aside
    }

    /// How many columns in front stay where they are.
    pub(crate) fn keys(&self) -> usize {
        let columns = self.shown.rows.as_ref().map_or(&[][..], Table::columns);
        columns.iter().take_while(|column| self.view().key.contains(&column.as_str())).count()
    }

    fn row_count(&self) -> usize {
        self.shown.rows.as_ref().map_or(0, |table| table.rows().len())
    }
}

/// Which line comes first after a key, or `None` where the key ends the reading.
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

/// How long a filter may get.
const FILTER_BYTES_MAX: usize = 200;
