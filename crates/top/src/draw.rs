//! Draws a screen in a terminal of any size.
//!
//! Always true: text from the console was cleaned when it arrived (`table`), and nothing is drawn outside the terminal,
//! however small it is.
//! Not here: what is shown (`screen`).

use std::time::Duration;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::options::USAGE;
use crate::picture::{left_out, width_of};
use crate::screen::{Link, Mode, Screen};
use crate::table::{Cell, Order, Table};
use crate::view::{VIEWS, View};

/// The styles of the parts of the screen.
#[derive(Debug)]
pub(crate) struct Palette {
    title: Style,
    well: Style,
    alarm: Style,
    chosen: Style,
    grey: Style,
    heading: Style,
    waits: Style,
}

impl Palette {
    /// With colours.
    pub(crate) fn coloured() -> Self {
        Self {
            alarm: Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            well: Style::new().fg(Color::Green),
            grey: Style::new().fg(Color::DarkGray),
            waits: Style::new().fg(Color::Yellow),
            ..Self::plain()
        }
    }

    /// Without colours.
    pub(crate) fn plain() -> Self {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Self {
            title: bold,
            well: Style::new(),
            alarm: bold,
            chosen: Style::new().add_modifier(Modifier::REVERSED),
            grey: Style::new().add_modifier(Modifier::DIM),
            heading: Style::new().add_modifier(Modifier::UNDERLINED),
            waits: bold,
        }
    }
}

/// Draws the screen.
pub(crate) fn draw(frame: &mut Frame<'_>, screen: &mut Screen, now: Duration, palette: &Palette) {
    let area = frame.area();
    let mut page = Page { buffer: frame.buffer_mut(), area, line: 0, palette };
    if area.width == 0 || area.height == 0 {
        return;
    }
    page.title(screen);
    page.sentence(screen, now);
    page.tabs(screen);
    let rows = page.rows_left();
    let mode = screen.mode.clone();
    match mode {
        Mode::Help(line) => screen.mode = Mode::Help(page.text(&help(), line, rows)),
        Mode::Row(cells, line) => {
            let widest = cells.iter().map(|(name, _)| width_of(name)).max().unwrap_or(0);
            // Limited, so that the values have room however long the console's names are.
            let name_width = widest.min(usize::from(area.width) / 2);
            let lines = cells.iter().flat_map(|(name, value)| {
                let room = usize::from(area.width).saturating_sub(name_width + 2).max(1);
                let parts = wrap(value, room, usize::MAX);
                let name = wrap(name, name_width, 1).into_iter().next().unwrap_or_default();
                let names = std::iter::once(name).chain(std::iter::repeat(String::new()));
                parts
                    .into_iter()
                    .zip(names)
                    .map(|(part, name)| format!("{name:name_width$}  {part}"))
                    .collect::<Vec<_>>()
            });
            let line = page.text(&lines.collect::<Vec<_>>(), line, rows);
            screen.mode = Mode::Row(cells, line);
        }
        Mode::Table | Mode::Filter { .. } => page.table(screen, rows),
    }
    page.status(screen, now);
}

/// A terminal, filled from top to bottom.
struct Page<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    line: u16,
    palette: &'a Palette,
}

impl Page<'_> {
    /// Writes into line `line` from column `x` on, at most `width` wide. A truncated text ends in `~`.
    fn put(&mut self, line: u16, x: usize, text: &str, width: usize, style: Style) {
        let Ok(x) = u16::try_from(x) else { return };
        if line >= self.area.height || x >= self.area.width {
            return;
        }
        let room = width.min(usize::from(self.area.width - x));
        let (x, y) = (self.area.x + x, self.area.y + line);
        let (end, _) = self.buffer.set_stringn(x, y, text, room, style);
        if room > 0 && width_of(text) > room {
            let last = u16::try_from(room - 1).unwrap_or(0).min(end.saturating_sub(x + 1));
            self.buffer.set_stringn(x + last, y, CUT, 1, style);
        }
    }

    /// Writes a whole line below the previous one; the last line of the terminal is reserved for the status.
    fn line(&mut self, text: &str, style: Style) {
        if self.rows_left() > 0 {
            self.put(self.line, 0, text, usize::MAX, style);
            self.line += 1;
        }
    }

    /// Number of lines left above the status.
    fn rows_left(&self) -> usize {
        usize::from(self.area.height.saturating_sub(self.line + 1))
    }

    fn title(&mut self, screen: &Screen) {
        let pause = if screen.is_paused { "PAUSED  " } else { "" };
        let every = seconds(screen.interval);
        self.line(&format!("{pause}{}  every {every}", screen.title), self.palette.title);
    }

    fn sentence(&mut self, screen: &Screen, now: Duration) {
        let lines_max = usize::from(self.area.height / 5).clamp(1, 4);
        let (text, style) = match (&screen.link, screen.board.sentence()) {
            (Link::Lost { why, again }, _) => {
                let left = again.saturating_sub(now).as_secs();
                (format!("No connection: {why}. Trying again in {left} s."), self.palette.alarm)
            }
            (Link::Good, Some(sentence)) if sentence.is_well => (sentence.text, self.palette.well),
            (Link::Good, Some(sentence)) => (sentence.text, self.palette.alarm),
            (Link::Good, None) => (String::new(), self.palette.well),
        };
        for part in wrap(&text, usize::from(self.area.width), lines_max) {
            self.line(&part, style);
        }
    }

    fn tabs(&mut self, screen: &Screen) {
        if self.rows_left() == 0 {
            return;
        }
        let room = usize::from(self.area.width);
        let name = |view: &View, is_short: bool| if is_short { view.short } else { view.name };
        let width = |view: &View, is_short: bool| name(view, is_short).len() + 2 + TAB_GAP;
        let is_short = VIEWS.iter().map(|view| width(view, false)).sum::<usize>() > room + TAB_GAP;
        // If not even the short names fit, the first views are left out until the chosen one fits.
        let until_chosen =
            |first: &usize| VIEWS[*first..=screen.place()].iter().map(|view| width(view, is_short)).sum::<usize>();
        let first = (0..screen.place()).find(|first| until_chosen(first) <= room + TAB_GAP).unwrap_or(screen.place());
        let mut x = 0;
        for (place, view) in VIEWS.iter().enumerate().skip(first) {
            let style = match (place == screen.place(), screen.board.is_missing(view.command)) {
                (true, _) => self.palette.chosen,
                (false, true) => self.palette.grey,
                (false, false) => Style::new(),
            };
            self.put(self.line, x, &format!("{} {}", place + 1, name(view, is_short)), usize::MAX, style);
            x += width(view, is_short);
        }
        self.line += 1;
    }

    /// Writes lines of text from line `first` on, and returns the first line written, which is less than `first` near
    /// the end.
    fn text(&mut self, lines: &[impl AsRef<str>], first: usize, rows: usize) -> usize {
        let first = first.min(lines.len().saturating_sub(rows));
        lines.iter().skip(first).take(rows).for_each(|line| self.line(line.as_ref(), Style::new()));
        first
    }

    fn table(&mut self, screen: &mut Screen, rows: usize) {
        let page = rows.saturating_sub(1);
        let top = screen.scroll(page);
        let (row, sort) = (screen.row(), screen.sort());
        let columns = Column::chosen(screen, usize::from(self.area.width));
        let shown = screen.shown();
        let table = match &shown.rows {
            Ok(table) => table,
            Err(why) => {
                let text = wrap(why, usize::from(self.area.width), rows);
                return text.iter().for_each(|line| self.line(line, self.palette.grey));
            }
        };
        if rows == 0 {
            return;
        }
        for column in &columns {
            let mark = match sort {
                Some((name, Order::Falling)) if name == table.columns()[column.place] => "v",
                Some((name, Order::Rising)) if name == table.columns()[column.place] => "^",
                _ => "",
            };
            let name = format!("{}{mark}", table.columns()[column.place]);
            self.cell(column, &name, self.palette.heading);
        }
        self.line += 1;
        for (place, cells) in table.rows().iter().enumerate().skip(top).take(page) {
            let style = if is_waiting(table, cells) { self.palette.waits } else { Style::new() };
            let is_chosen = place == row;
            let style = if is_chosen { style.patch(self.palette.chosen) } else { style };
            if is_chosen {
                self.put(self.line, 0, &" ".repeat(usize::from(self.area.width)), usize::MAX, style);
            }
            for column in &columns {
                self.cell(column, cells[column.place].as_deref().unwrap_or_default(), style);
            }
            self.line += 1;
        }
    }

    fn cell(&mut self, column: &Column, text: &str, style: Style) {
        let blank = if column.is_numeric { column.width.saturating_sub(width_of(text)) } else { 0 };
        self.put(self.line, column.x + blank, text, column.width, style);
    }

    fn status(&mut self, screen: &Screen, now: Duration) {
        let shown = &screen.shown();
        let text = match &screen.mode {
            Mode::Filter { .. } => format!("/{}_   Enter keeps it, Esc takes it back", screen.filter()),
            Mode::Help(_) | Mode::Row(..) => "arrows and PgUp, PgDn scroll; Esc goes back".to_owned(),
            Mode::Table => {
                let rows = shown.rows.as_ref().map(|table| {
                    let place = if table.rows().is_empty() { 0 } else { screen.row() + 1 };
                    format!("row {place} of {}{}", table.rows().len(), left_out(table))
                });
                let filter = match screen.filter() {
                    "" => String::new(),
                    filter => format!("filter: {filter}"),
                };
                let age = screen.board.moment(screen.view()).map(|moment| now.saturating_sub(moment).as_secs());
                let age = age.filter(|age| *age > screen.interval.as_secs() + 1);
                let age = age.map(|age| format!("{age} s old")).unwrap_or_default();
                let parts = [rows.unwrap_or_default(), filter, age, "? help  q quit".to_owned()];
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
            }
        };
        let last = self.area.height - 1;
        // A terminal of one line shows only the title.
        if last > 0 {
            self.put(last, 0, &text, usize::MAX, self.palette.title);
        }
    }
}

/// A column of the table on the screen.
struct Column {
    place: usize,
    x: usize,
    width: usize,
    is_numeric: bool,
}

impl Column {
    /// The columns that fit: the keys, and of the others those that have not been scrolled out.
    fn chosen(screen: &Screen, room: usize) -> Vec<Self> {
        let shown = screen.shown();
        let mut keys = screen.keys();
        let sorted = shown.rows.as_ref().ok().zip(screen.sort()).and_then(|(table, (column, _))| table.place(column));
        // The column that rows are sorted by has a mark after its name.
        let full = |place: usize| shown.widths[place] + usize::from(sorted == Some(place));
        let width = |place: usize| full(place).min(WIDTH_MAX);
        // If the keys would leave too little room for the others, the last keys scroll as well.
        while keys > 0 && (0..keys).map(|place| width(place) + 1).sum::<usize>() > room / 2 {
            keys -= 1;
        }
        let mut columns = Vec::new();
        let mut x = 0;
        let others = (keys + screen.columns_aside()).min(shown.widths.len().saturating_sub(1)).max(keys);
        for place in (0..keys).chain(others..shown.widths.len()) {
            if x >= room {
                break;
            }
            // The last column that fits may have all the remaining room.
            let is_last = place + 1 == shown.widths.len() || x + width(place) >= room;
            let width = if is_last { full(place).min(room - x) } else { width(place) };
            columns.push(Self { place, x, width, is_numeric: shown.is_numeric[place] });
            x += width + 1;
        }
        columns
    }
}

/// The texts of the help: keys and views.
fn help() -> Vec<String> {
    let keys = USAGE.lines().skip_while(|line| *line != "Keys:").map(str::to_owned);
    let views = VIEWS.iter().map(|view| format!("  {:<14} {} ({})", view.name, view.about, view.command));
    keys.chain([String::new(), "Views:".to_owned()]).chain(views).collect()
}

/// Whether a client waits in this row.
fn is_waiting(table: &Table, row: &[Cell]) -> bool {
    table.number(row, "cl_waiting").is_some_and(|clients| clients > 0.0)
        || table.value(row, "what") == Some("waiter")
        || table.value(row, "state") == Some("waiting")
}

/// Wraps a text into lines of `width`, at blanks where possible; after `lines_max` lines it is truncated.
fn wrap(text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let width = width.max(1);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for mut word in text.split_inclusive(' ') {
        if !line.is_empty() && width_of(&line) + width_of(word.trim_end()) > width {
            lines.push(std::mem::take(&mut line));
        }
        while width_of(word.trim_end()) > width {
            let (part, rest) = split_at_width(word, width);
            lines.push(part.to_owned());
            word = rest;
        }
        line.push_str(word);
    }
    lines.push(line);
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        if let Some(last) = lines.last_mut() {
            last.truncate(last.trim_end().len());
            while width_of(last) >= width && last.pop().is_some() {}
            last.push_str(CUT);
        }
    }
    lines
}

/// Splits off the longest beginning that is no wider than `width`, but at least one character.
fn split_at_width(text: &str, width: usize) -> (&str, &str) {
    let mut used = 0;
    let end = text.char_indices().skip_while(|(at, character)| {
        used += width_of(character.encode_utf8(&mut [0; 4]));
        used <= width || *at == 0
    });
    text.split_at(end.map(|(at, _)| at).next().unwrap_or(text.len()))
}

fn seconds(interval: Duration) -> String {
    let seconds = interval.as_secs_f64();
    if seconds.fract() == 0.0 { format!("{seconds:.0} s") } else { format!("{seconds:.2} s") }
}

/// The mark of a truncated text.
const CUT: &str = "~";

/// Blanks between the names of views.
const TAB_GAP: usize = 2;

/// Maximum width of a column that is not the last.
const WIDTH_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::*;
    use crate::screen::Next;
    use crate::screen::tests::{answer, press, seen, table};

    const NOW: Duration = Duration::from_secs(2);

    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal of memory");
        terminal.draw(|frame| draw(frame, screen, NOW, &Palette::coloured())).expect("memory takes everything");
        terminal.backend().buffer().clone()
    }

    fn lines(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let buffer = drawn(screen, width, height);
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    #[test]
    fn a_screen_has_title_sentence_views_rows_and_status() {
        assert_eq!(
            lines(&mut seen(), 80, 9),
            [
                "console  every 2 s",
                "Pool_b_is_too_small.",
                "1 pools  2 waits  3 apps  4 stmts  5 clients  6 servers  7 churn  8 dbs  9 stats",
                "database user cl_waitingv sv_active",
                "b        u             10         2",
                "c        u              9         3",
                "a        u              0         1",
                "",
                "row 1 of 3  ? help  q quit",
            ]
        );
        assert!(lines(&mut seen(), 120, 9)[2].contains("3 applications  4 statements"));
    }

    #[test]
    fn who_waits_is_seen_and_what_there_is_not_is_grey() {
        let buffer = drawn(&mut seen(), 80, 9);
        assert_eq!((buffer[(0, 5)].fg, buffer[(0, 6)].fg), (Color::Yellow, Color::Reset));
        assert!(buffer[(0, 4)].modifier.contains(Modifier::REVERSED), "the chosen row");
        // "4 stmts"
        assert_eq!((buffer[(26, 2)].symbol(), buffer[(26, 2)].fg), ("4", Color::DarkGray));
        assert!(buffer[(0, 2)].modifier.contains(Modifier::REVERSED), "the chosen view");
        assert_eq!(buffer[(0, 1)].fg, Color::Red);
    }

    #[test]
    fn without_colours_there_is_none() {
        let mut terminal = Terminal::new(TestBackend::new(80, 9)).expect("a terminal of memory");
        let mut screen = seen();
        terminal.draw(|frame| draw(frame, &mut screen, NOW, &Palette::plain())).expect("memory takes everything");
        let buffer = terminal.backend().buffer();
        assert!(buffer.content().iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    }

    #[test]
    fn every_size_is_drawn_in_every_mode() {
        let modes = [
            vec![],
            vec![KeyCode::Char('/')],
            vec![KeyCode::Char('?')],
            vec![KeyCode::Enter],
            vec![KeyCode::Char('4')],
        ];
        for keys in modes {
            for (width, height) in (0..40).flat_map(|width| (0..12).map(move |height| (width, height))) {
                let mut screen = seen();
                keys.iter().for_each(|key| assert_eq!(press(&mut screen, &[*key]), Next::GoOn));
                drawn(&mut screen, width, height);
                screen.lost("gone".to_owned(), NOW);
                press(&mut screen, &[KeyCode::PageDown, KeyCode::Right]);
                drawn(&mut screen, width, height);
            }
        }
    }

    #[test]
    fn columns_move_aside_and_the_keys_stay() {
        let mut screen = seen();
        press(&mut screen, &[KeyCode::Right]);
        assert_eq!(lines(&mut screen, 40, 9)[3..5], ["database user sv_active", "b        u            2"]);
        press(&mut screen, &[KeyCode::Right; 9]);
        assert_eq!(lines(&mut screen, 40, 9)[3], "database user sv_active");
        press(&mut screen, &[KeyCode::Left; 9]);
        assert_eq!(lines(&mut screen, 18, 12)[4..6], ["database user cl_~", "b        u      10"]);
    }

    #[test]
    fn a_refused_view_says_why() {
        let mut screen = seen();
        press(&mut screen, &[KeyCode::Char('4')]);
        let lines = lines(&mut screen, 80, 8);
        assert_eq!(lines[3], "SHOW STATEMENTS: ERROR: invalid command 'SHOW STATEMENTS', use SHOW HELP;");
        assert_eq!(lines[7], "? help  q quit");
    }

    #[test]
    fn a_lost_connection_and_the_age_of_rows_are_told() {
        let mut screen = seen();
        screen.lost("Connection refused".to_owned(), NOW + 3 * Duration::from_secs(1));
        assert_eq!(lines(&mut screen, 80, 8)[1], "No connection: Connection refused. Trying again in 3 s.");
        let mut terminal = Terminal::new(TestBackend::new(60, 8)).expect("a terminal of memory");
        let later = Duration::from_secs(61);
        terminal.draw(|frame| draw(frame, &mut screen, later, &Palette::plain())).expect("memory takes everything");
        let text: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        assert!(text.contains("60 s old"), "{text}");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_drawn() {
        let mut screen = seen();
        let mut pools = Table::new(["database", "user", "cl_waiting"]);
        pools.push([Some("\x1b[31mred"), Some("a\u{9b}b\u{202e}"), Some("\x07")]);
        screen.take(crate::screen::came(NOW, vec![("SHOW POOLS", Ok(pools)), ("SHOW WAITS", answer("SHOW WAITS"))]));
        let buffer = drawn(&mut screen, 80, 9);
        let text: String = buffer.content().iter().map(|cell| cell.symbol()).collect();
        assert!(
            text.contains("\\x1b[31mred") && text.contains("a\\u{9b}b\\u{202e}") && text.contains("\\x07"),
            "{text}"
        );
        assert!(!text.chars().any(char::is_control));
    }

    #[test]
    fn what_was_left_out_is_told_in_the_status() {
        let mut screen = seen();
        let mut pools = Table::new(["database"]);
        (0..crate::table::ROWS_MAX + 2).for_each(|_| pools.push([Some("a")]));
        screen.take(crate::screen::came(NOW, vec![("SHOW POOLS", Ok(pools))]));
        assert_eq!(lines(&mut screen, 60, 8)[7], "row 1 of 10000, 2 more left out  ? help  q quit");
    }

    #[test]
    fn long_sentences_are_wrapped_and_long_values_can_be_read_whole() {
        assert_eq!(wrap("one two three", 8, 9), ["one two ", "three"]);
        assert_eq!(wrap("abcdefghij kl", 4, 9), ["abcd", "efgh", "ij ", "kl"]);
        assert_eq!(wrap("日本日本", 5, 9), ["日本", "日本"]);
        assert_eq!(wrap("日", 1, 9), ["日", ""]);
        assert_eq!(wrap("", 5, 9), [""]);
        assert_eq!(wrap("one two three", 8, 1), ["one two~"]);
        assert_eq!(wrap("12345678 9", 8, 1), ["1234567~"]);
        let mut screen = seen();
        let long = "x".repeat(90);
        let pools = table(&["database user", &format!("{long} u")]);
        screen.take(crate::screen::came(NOW, vec![("SHOW POOLS", Ok(pools))]));
        press(&mut screen, &[KeyCode::Enter]);
        let lines = lines(&mut screen, 60, 10);
        assert_eq!(lines[3], format!("database  {}", "x".repeat(50)));
        assert_eq!(lines[4], format!("          {}", "x".repeat(40)));
    }
}
