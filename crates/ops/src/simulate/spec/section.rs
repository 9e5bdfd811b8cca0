//! Reads the values of one table of a spec, and notes all that is wrong with them.
//!
//! Always true: a mistake names the table, the key and the line; a value that is wrong or missing is replaced by a default, so that
//! reading goes on and finds the other mistakes. A key that nobody has asked for is a mistake, with the nearest name that was.
//! Not here: which keys there are (`read`).

use std::cell::RefCell;

use super::Mistake;
use super::tree::{Node, Table, Value};

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Mistakes(RefCell<Vec<Mistake>>);

impl Mistakes {
    pub(super) fn add(&self, line: u32, text: String) {
        self.0.borrow_mut().push(Mistake { line, text });
    }

    /// All of them, by line.
    pub(super) fn into_list(self) -> Vec<Mistake> {
        let mut list = self.0.into_inner();
        list.sort_by_key(|mistake| mistake.line);
        list
    }
}

/// A table that is being read.
#[derive(Debug)]
pub(super) struct Section<'a> {
    path: String,
    line: u32,
    table: &'a Table,
    names: RefCell<Vec<&'static str>>,
    mistakes: &'a Mistakes,
}

impl<'a> Section<'a> {
    pub(super) fn new(path: String, line: u32, table: &'a Table, mistakes: &'a Mistakes) -> Self {
        Self { path, line, table, names: RefCell::default(), mistakes }
    }

    pub(super) fn line(&self) -> u32 {
        self.line
    }

    pub(super) fn mistakes(&self) -> &'a Mistakes {
        self.mistakes
    }

    /// The value of a key, if there is one.
    pub(super) fn node(&self, name: &'static str) -> Option<&'a Node> {
        self.names.borrow_mut().push(name);
        self.table.get(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// Notes a mistake of a key.
    pub(super) fn wrong(&self, name: &str, text: &str) {
        let line = self.table.get(name).map_or(self.line, |node| node.line);
        self.mistakes.add(line, format!("{}: {text}", self.place(name)));
    }

    pub(super) fn place(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A number between two bounds.
    pub(super) fn number(&self, name: &'static str, default: f64, low: f64, high: f64) -> f64 {
        match self.node(name).map(|node| &node.value) {
            None => default,
            Some(Value::Number(number)) if (low..=high).contains(number) => *number,
            Some(_) => {
                self.wrong(name, &format!("a number from {low} to {high} is wanted"));
                default
            }
        }
    }

    /// A whole number between two bounds.
    pub(super) fn count(&self, name: &'static str, default: u32, low: u32, high: u32) -> u32 {
        let number = self.number(name, f64::from(default), f64::from(low), f64::from(high));
        if number.fract() != 0.0 {
            self.wrong(name, &format!("a whole number from {low} to {high} is wanted"));
            return default;
        }
        number as u32
    }

    /// A time in microseconds: a number of seconds, or a text such as `"20 ms"`.
    pub(super) fn time(&self, name: &'static str, default: u64) -> u64 {
        self.node(name).map_or(default, |node| {
            time_of(node).unwrap_or_else(|| {
                self.wrong(name, TIME_WANTED);
                default
            })
        })
    }

    /// A time limit in PgBouncer's manner: 0 is none.
    pub(super) fn limit(&self, name: &'static str, default: u64) -> Option<u64> {
        Some(self.time(name, default)).filter(|time| *time > 0)
    }

    pub(super) fn text(&self, name: &'static str, default: &str) -> String {
        match self.node(name).map(|node| &node.value) {
            None => default.to_owned(),
            Some(Value::Text(text)) if text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control) => {
                text.clone()
            }
            Some(_) => {
                self.wrong(name, "a text of at most 200 printable characters is wanted");
                default.to_owned()
            }
        }
    }

    pub(super) fn flag(&self, name: &'static str, default: bool) -> bool {
        match self.node(name).map(|node| &node.value) {
            None => default,
            Some(Value::Flag(flag)) => *flag,
            Some(Value::Number(number)) if *number == 0.0 || *number == 1.0 => *number == 1.0,
            Some(_) => {
                self.wrong(name, "true or false is wanted");
                default
            }
        }
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(&self, name: &'static str, words: &[(&str, T)], default: T) -> T {
        let written = match self.node(name).map(|node| &node.value) {
            None => return default,
            Some(Value::Text(text)) => text.as_str(),
            Some(_) => "",
        };
        if let Some((_, found)) = words.iter().find(|(word, _)| *word == written) {
            return *found;
        }
        let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = config::nearest(written, list.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        self.wrong(name, &format!("one of {} is wanted{near}", list.join(", ")));
        default
    }

    /// A table inside of this one, if it is there.
    pub(super) fn section(&self, name: &'static str) -> Option<Section<'a>> {
        let node = self.node(name)?;
        match &node.value {
            Value::Table(table) => Some(Section::new(self.place(name), node.line, table, self.mistakes)),
            _ => {
                self.wrong(name, "a table is wanted");
                None
            }
        }
    }

    /// A list of tables.
    pub(super) fn sections(&self, name: &'static str) -> Vec<Section<'a>> {
        let list: &[Node] = match self.node(name).map(|node| &node.value) {
            None => &[],
            Some(Value::List(list)) => list,
            Some(_) => {
                self.wrong(name, "a list of tables is wanted: write [[...]]");
                &[]
            }
        };
        let mut read = Vec::new();
        for (place, node) in list.iter().enumerate() {
            let path = format!("{}.{place}", self.place(name));
            match &node.value {
                Value::Table(table) => read.push(Section::new(path, node.line, table, self.mistakes)),
                _ => self.mistakes.add(node.line, format!("{path}: a table is wanted")),
            }
        }
        read
    }

    /// A list of numbers that are 0 or more.
    pub(super) fn numbers(&self, name: &'static str) -> Option<Vec<f64>> {
        let Value::List(list) = &self.node(name)?.value else {
            self.wrong(name, "a list of numbers is wanted");
            return None;
        };
        let numbers: Option<Vec<f64>> = list
            .iter()
            .map(|node| match node.value {
                Value::Number(number) if number.is_finite() && number >= 0.0 => Some(number),
                _ => None,
            })
            .collect();
        if numbers.is_none() {
            self.wrong(name, "numbers of 0 or more are wanted");
        }
        numbers
    }

    /// A list of times.
    pub(super) fn times(&self, name: &'static str) -> Option<Vec<u64>> {
        let Value::List(list) = &self.node(name)?.value else {
            self.wrong(name, "a list of times is wanted");
            return None;
        };
        let times: Option<Vec<u64>> = list.iter().map(time_of).collect();
        if times.is_none() {
            self.wrong(name, TIME_WANTED);
        }
        times
    }

    /// Notes keys that are none of these.
    pub(super) fn expect_only(self, names: &[&'static str]) {
        *self.names.borrow_mut() = names.to_vec();
        self.end();
    }

    /// Notes keys that nobody has asked for.
    pub(super) fn end(self) {
        let names = self.names.borrow();
        for (key, node) in self.table {
            if !names.contains(&key.as_str()) {
                let near = config::nearest(key, names.iter().copied());
                let near = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
                self.mistakes.add(node.line, format!("{}: there is no such key{near}", self.place(key)));
            }
        }
    }
}

/// A time in microseconds.
pub(super) fn time_of(node: &Node) -> Option<u64> {
    let seconds = match &node.value {
        Value::Number(seconds) => *seconds,
        Value::Text(text) => {
            let text = text.trim();
            let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
            let (number, unit) = text.split_at(end);
            let unit = match unit.trim() {
                "us" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
            number.parse::<f64>().ok()? * unit
        }
        _ => return None,
    };
    (0.0..=SECONDS_MAX).contains(&seconds).then_some((seconds * 1e6).round() as u64)
}

pub(super) const TIME_WANTED: &str =
    "a time is wanted: a number of seconds, or a number with us, ms, s, min, h or d, up to a year";
const SECONDS_MAX: f64 = 366.0 * 86_400.0;
const TEXT_BYTES_MAX: usize = 200;
