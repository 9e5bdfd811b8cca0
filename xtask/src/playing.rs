//! A script of what drivers send on their own, as one client runs it.
//!
//! Always true: each run sends the same messages. A client draws the same values each time and, where possible, other
//! values than other clients, so clients of a script have different settings, and a client's texts do not change.
//! Not here: the scripts (`tests/habits`) and their reader (`habits`).

use std::collections::BTreeMap;
use std::io;

use habits::{Draw, Habit, Line, Protocol, Statement};

use super::player::{Player, message};

/// A script, and the statements that its client has prepared.
pub(super) struct Script {
    habit: &'static Habit,
    client: u32,
    values: BTreeMap<&'static str, u32>,
    prepared: Vec<String>,
}

impl Script {
    pub(super) fn of(habit: &'static Habit, client: u32) -> Self {
        Self { habit, client, values: BTreeMap::from([("client_id", client)]), prepared: Vec::new() }
    }

    /// Sends what is sent at connect.
    pub(super) fn connect(&mut self, player: &mut Player) -> io::Result<()> {
        self.lines(player, &self.habit.connect)
    }

    /// Sends what is sent each time.
    pub(super) fn each(&mut self, player: &mut Player) -> io::Result<()> {
        self.lines(player, &self.habit.each)
    }

    fn lines(&mut self, player: &mut Player, lines: &'static [Line]) -> io::Result<()> {
        let (mut messages, mut answers) = (Vec::new(), 0);
        for line in lines {
            match line {
                Line::Set(name, draw) => {
                    self.values.insert(name, self.drawn(*draw));
                }
                Line::Ask(statement) | Line::Ahead(statement) => {
                    messages.extend(self.say(statement));
                    if !statement.is_simple && !statement.is_unsynced {
                        messages.extend(message(b'S', b""));
                    }
                    answers += u32::from(!statement.is_unsynced);
                }
                Line::Pipeline(statements) => {
                    statements.iter().for_each(|statement| messages.extend(self.say(statement)));
                    messages.extend(message(b'S', b""));
                    answers += 1;
                }
            }
            if matches!(line, Line::Ask(_) | Line::Pipeline(_)) {
                let error = player.exchange(&messages, answers)?;
                // Where a statement of the script must fail, pgbench cannot measure it.
                if let Some(error) = error.filter(|_| self.habit.not_measured.is_none()) {
                    return Err(io::Error::other(error));
                }
                (messages, answers) = (Vec::new(), 0);
            }
        }
        Ok(())
    }

    fn drawn(&self, draw: Draw) -> u32 {
        match draw {
            Draw::Between(least, most) => least + self.client % (most - least + 1),
            Draw::Fixed(value) => value,
        }
    }

    /// The messages of a statement, without a `Sync`.
    fn say(&mut self, statement: &Statement) -> Vec<u8> {
        let value = |name: &str| self.values.get(name).map(u32::to_string);
        if statement.is_simple {
            return message(b'Q', format!("{}\0", statement.with_values(value)).as_bytes());
        }
        let (text, names) = statement.with_parameters(|name| self.values.contains_key(name));
        let values: Vec<String> = names.iter().filter_map(|name| value(name)).collect();
        let (name, parse) = self.parse(text);
        let mut bind = format!("\0{name}\0\0\0").into_bytes();
        bind.extend((values.len() as u16).to_be_bytes());
        for value in values {
            bind.extend((value.len() as u32).to_be_bytes());
            bind.extend(value.as_bytes());
        }
        bind.extend(*b"\0\0");
        [parse, message(b'B', &bind), message(b'D', b"P\0"), message(b'E', b"\0\0\0\0\0")].concat()
    }

    /// The name of a statement, and the `Parse` that it needs, if any.
    fn parse(&mut self, text: String) -> (String, Vec<u8>) {
        let parse = |name: &str| message(b'P', format!("{name}\0{text}\0\0\0").as_bytes());
        if self.habit.protocol != Protocol::Prepared {
            return (String::new(), parse(""));
        }
        if let Some(number) = self.prepared.iter().position(|known| *known == text) {
            return (format!("s{number}"), Vec::new());
        }
        let name = format!("s{}", self.prepared.len());
        let message = parse(&name);
        self.prepared.push(text);
        (name, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str, client: u32) -> Script {
        let header = "-- One.\n-- by: a 1; f, g; connect\n-- protocol: prepared\n\n";
        let habit = Habit::read("one", &format!("{header}{text}")).expect("a habit");
        Script::of(Box::leak(Box::new(habit)), client)
    }

    #[test]
    fn clients_draw_what_others_do_not_and_each_the_same_again() {
        let drawn = |client| script("SELECT 1;\n", client).drawn(Draw::Between(3, 4));
        assert_eq!([0, 1, 2].map(drawn), [3, 4, 3]);
        assert_eq!(script("SELECT 1;\n", 1).drawn(Draw::Fixed(9)), 9);
    }

    #[test]
    fn a_text_is_prepared_once() {
        let mut script = script("SELECT 1;\n", 0);
        let Some(Line::Ask(statement)) = script.habit.each.first() else { panic!("a statement") };
        let (first, second) = (script.say(statement), script.say(statement));
        assert_eq!(first, [message(b'P', b"s0\0SELECT 1\0\0\0"), second.clone()].concat());
        assert!(second.starts_with(&message(b'B', b"\0s0\0\0\0\0\0\0\0")));
    }
}
